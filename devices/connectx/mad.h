/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Management datagrams to the subnet administrator: where their fields lie and what they
 * hold (IBA volume 1: MAD 13.4, RMPP 13.6, subnet administration 15.2).
 */
#ifndef CONNECTX_MAD_H
#define CONNECTX_MAD_H

#define MAD_SIZE 256
#define MAD_GSI_QPN 1
#define MAD_GSI_QKEY 0x80010000u

/* Byte offsets: the common header, RMPP's, the SA's, and the record. */
enum {
	MAD_BASE_VERSION = 0, MAD_CLASS = 1, MAD_CLASS_VERSION = 2, MAD_METHOD = 3,
	MAD_STATUS = 4, MAD_TID = 8, MAD_ATTR = 16, MAD_ATTR_MOD = 20,
	MAD_RMPP_VERSION = 24, MAD_RMPP_TYPE = 25, MAD_RMPP_FLAGS = 26, MAD_RMPP_STATUS = 27,
	MAD_RMPP_SEGMENT = 28, MAD_RMPP_PAYLEN = 32,
	MAD_SM_KEY = 36, MAD_ATTR_OFFSET = 44, MAD_COMP_MASK = 48, MAD_DATA = 56,
};
#define MAD_SA_HEADER (MAD_DATA - MAD_SM_KEY)
#define MAD_DATA_SIZE (MAD_SIZE - MAD_DATA)

enum { MAD_CLASS_SMP = 0x01, MAD_CLASS_SA = 0x03, MAD_CLASS_SMP_DIRECTED = 0x81 };
enum { MAD_SA_VERSION = 2 };
enum {
	MAD_GET = 0x01, MAD_SET = 0x02, MAD_SEND = 0x03, MAD_TRAP = 0x05, MAD_REPORT = 0x06,
	MAD_TRAP_REPRESS = 0x07, MAD_GET_TABLE = 0x12, MAD_DELETE = 0x15,
	MAD_RESPONSE = 0x80,
};
enum {
	SA_CLASS_PORT_INFO = 0x01, SA_INFORM_INFO = 0x03, SA_NODE_RECORD = 0x11,
	SA_PORT_INFO_RECORD = 0x12, SA_PATH_RECORD = 0x35, SA_MCMEMBER_RECORD = 0x38,
};

/* Status: the common ones, and the SA's in the upper byte. */
enum {
	MAD_OK = 0x0000, MAD_BAD_VERSION = 0x0004, MAD_BAD_METHOD = 0x0008,
	MAD_BAD_METHOD_ATTR = 0x000c,
	SA_NO_RESOURCES = 0x0100, SA_REQ_INVALID = 0x0200, SA_NO_RECORDS = 0x0300,
	SA_TOO_MANY_RECORDS = 0x0400, SA_INVALID_GID = 0x0500,
	SA_INSUFFICIENT_COMPONENTS = 0x0600, SA_REQ_DENIED = 0x0700,
};

enum { RMPP_VERSION = 1, RMPP_DATA = 1, RMPP_ACK = 2,
       RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4 };

/* What a selector field says about the value beside it. */
enum { SA_GREATER = 0, SA_LESS = 1, SA_EXACTLY = 2, SA_BEST = 3 };

/* NodeRecord (15.2.5.2), with NodeInfo (14.2.5.3): byte offsets. */
enum {
	NODE_LID = 0, NODE_BASE_VERSION = 4, NODE_CLASS_VERSION = 5, NODE_TYPE = 6,
	NODE_PORTS = 7, NODE_SYSTEM_GUID = 8, NODE_GUID = 16, NODE_PORT_GUID = 24,
	NODE_PARTITIONS = 32, NODE_DEVICE = 34, NODE_REVISION = 36, NODE_PORT_VENDOR = 40,
	NODE_DESCRIPTION = 44, NODE_SIZE = 112,
};
enum { NODE_IS_CA = 1, NODE_IS_SWITCH = 2 };

/* PortInfoRecord (15.2.5.3), and PortInfo (14.2.5.6) in it. */
enum { PORT_LID = 0, PORT_NUMBER = 2, PORT_INFO = 4, PORT_SIZE = 72 };
enum {
	INFO_PREFIX = 8, INFO_LID = 16, INFO_SM_LID = 18, INFO_CAPABILITIES = 20,
	INFO_LOCAL_PORT = 28, INFO_WIDTH = 29, INFO_SPEED_STATE = 32, INFO_PHYSICAL = 33,
	INFO_SPEED = 35, INFO_MTU_SL = 36, INFO_VLS = 37, INFO_MTU = 41,
	INFO_OPERATIONAL_VLS = 43, INFO_GUIDS = 50, INFO_TIMEOUT = 51, INFO_RESPONSE = 52,
	INFO_EXTENDED_SPEED = 62,
};

/* PathRecord (15.2.5.16): byte offsets, and component mask bits. */
enum {
	PATH_SERVICE_ID = 0, PATH_DGID = 8, PATH_SGID = 24, PATH_DLID = 40, PATH_SLID = 42,
	PATH_FLOW_HOP = 44, PATH_TCLASS = 48, PATH_NUMB = 49, PATH_PKEY = 50,
	PATH_QOS_SL = 52, PATH_MTU = 54, PATH_RATE = 55, PATH_LIFE = 56, PATH_SIZE = 64,
};
enum {
	PATH_HAS_DGID = 1 << 2, PATH_HAS_SGID = 1 << 3, PATH_HAS_DLID = 1 << 4,
	PATH_HAS_SLID = 1 << 5, PATH_HAS_FLOW = 1 << 8, PATH_HAS_TCLASS = 1 << 10,
	PATH_HAS_PKEY = 1 << 13, PATH_HAS_QOS = 1 << 14, PATH_HAS_SL = 1 << 15,
	PATH_HAS_MTU_SEL = 1 << 16, PATH_HAS_MTU = 1 << 17, PATH_HAS_RATE_SEL = 1 << 18,
	PATH_HAS_RATE = 1 << 19, PATH_HAS_LIFE_SEL = 1 << 20, PATH_HAS_LIFE = 1 << 21,
};

/* MCMemberRecord (15.2.5.17), likewise. */
enum {
	MC_MGID = 0, MC_PORT_GID = 16, MC_QKEY = 32, MC_MLID = 36, MC_MTU = 38, MC_TCLASS = 39,
	MC_PKEY = 40, MC_RATE = 42, MC_LIFE = 43, MC_SL_FLOW_HOP = 44, MC_SCOPE_STATE = 48,
	MC_PROXY = 49, MC_SIZE = 56,
};
enum {
	MC_HAS_MGID = 1 << 0, MC_HAS_PORT_GID = 1 << 1, MC_HAS_QKEY = 1 << 2,
	MC_HAS_MLID = 1 << 3, MC_HAS_MTU_SEL = 1 << 4, MC_HAS_MTU = 1 << 5,
	MC_HAS_TCLASS = 1 << 6, MC_HAS_PKEY = 1 << 7, MC_HAS_RATE_SEL = 1 << 8,
	MC_HAS_RATE = 1 << 9, MC_HAS_LIFE_SEL = 1 << 10, MC_HAS_LIFE = 1 << 11,
	MC_HAS_SL = 1 << 12, MC_HAS_FLOW = 1 << 13, MC_HAS_HOP = 1 << 14,
	MC_HAS_JOIN_STATE = 1 << 16,
};
/* Join states; a group lives as long as it has a full member of either kind. */
enum { MC_FULL = 1, MC_NON = 2, MC_SEND_ONLY_NON = 4, MC_SEND_ONLY_FULL = 8 };

#define IB_MTU_2048 4
#define IB_MTU_4096 5
#define IB_RATE_10 3
#define IB_RATE_100 16

#endif
