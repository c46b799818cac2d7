/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One device: its state between reset and reset, and the objects that the guest made.
 * Every file of the model includes this one and its own.
 *
 * Objects point to each other and count their users; a command that would destroy an
 * object that has users is refused (CMD_BAD_RES_STATE), as by the firmware.  So a pointer
 * from one object to another is good as long as the first one exists.  A reset frees all,
 * users first.
 */
#ifndef CONNECTX_HCA_H
#define CONNECTX_HCA_H

#include "cmd.h"
#include "dma.h"
#include "ifc.h"
#include "link.h"
#include "list.h"
#include "loop.h"
#include "queue.h"
#include "stats.h"
#include "table.h"
#include "trace.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define HCA_VECTORS 16			/* of MSI-X */
#define HCA_BAR_SIZE (32ul << 20)
#define HCA_UAR_FIRST 0x10		/* pages before it are not doorbells */
#define HCA_UARS 0xff0
#define HCA_MEMIC_START (16ul << 20)	/* in the BAR */
#define HCA_MEMIC_SIZE (256ul << 10)
#define HCA_LOG_MEMIC_BLOCK 6		/* it is allocated in blocks */
#define HCA_LOG_MEMIC_ALIGN 6		/* of 64 bytes, at most */
enum { HCA_MEMIC_INCREMENT = 0, HCA_MEMIC_TEST_AND_SET = 1, HCA_MEMIC_OPS = 2 };
#define HCA_PAGE 4096u
#define HCA_PAGES 80			/* of guest memory that we ask for, at most */
#define HCA_KHZ 156000			/* of the clock: completions and the init segment */

/* Limits, as the capabilities report them. */
#define HCA_LOG_QPS 14
#define HCA_QP_FIRST 0x40u	/* QP 0 and 1 are names on the wire */
#define HCA_LOG_CQS 14
#define HCA_LOG_SRQS 12
#define HCA_LOG_EQS 6
#define HCA_LOG_MKEYS 18
#define HCA_LOG_PDS 14
#define HCA_LOG_XRCDS 10
#define HCA_LOG_TDS 10
#define HCA_LOG_UCTXS 12
#define HCA_LOG_UMEMS 14
#define HCA_LOG_MCGS 8			/* multicast groups, and QPs in one of them */
#define HCA_MCG_QPS 64
#define HCA_LOG_MAX_WQ 15		/* entries of a send or receive queue */
#define HCA_LOG_MAX_CQ 20
#define HCA_LOG_MAX_EQ 16
#define HCA_LOG_MAX_MSG 30
#define MESSAGE_MAX (1ull << HCA_LOG_MAX_MSG)	/* bytes; neither sent nor taken if longer */
#define HCA_MEMORY (256ul << 20)	/* bytes that the guest's objects may take here, at most */

struct eq;
struct cq;
struct srq;
struct qp;
struct mkey;

/*
 * Who made an object, and for whom a command is: a process with a user context (devx.c), by
 * its number, or 0, the driver.  A process reaches only what is its own.
 */
#define UID_SHARED 0xffff		/* MLX5_SHARED_RESOURCE_UID: an EQ that serves all */

static inline bool uid_owns(uint16_t uid, uint16_t owner)
{
	return !uid || uid == owner;
}

/* A PD, transport domain or XRC domain. */
struct number {
	uint16_t uid;
};

/* A page of doorbells. */
struct uar {
	uint32_t number;
	uint16_t uid;
	uint32_t cq_half;		/* of a CQ doorbell that comes in two halves */
	unsigned int users;		/* EQs, CQs, QPs with a send queue */
	bool closed;			/* deallocated: it lasts until its users are gone */
};

/* Packets, and their octets without the VCRC, as IBA 16.1.4.2 counts them. */
struct traffic {
	uint64_t packets, octets;
};

struct port {
	uint16_t lid, sm_lid;
	u8 state;			/* as ib_port_state: 1 down, 2 init, 4 active */
	uint64_t guid, prefix;
	uint32_t capability_mask;
	u8 sm_sl, subnet_timeout;
	char node_desc[64];
	struct traffic in[2], out[2];	/* unicast, multicast */
	uint64_t rcv_errors, xmit_discards, link_downed;
	uint64_t qkey_violations, pkey_violations;
	uint16_t unknown_reg;		/* that was asked for last, and noted */
};

/* bar.c: stores to the init segment that wait until nothing is under way. */
#define HCA_LATER 16
struct hca_later {
	struct work work;
	unsigned int count;
	struct hca_store {
		uint32_t offset, value;
	} store[HCA_LATER];
};

struct hca {
	struct loop *loop;
	struct dma *dma;
	void (*raise)(void *arg, unsigned int vector);	/* an interrupt */
	void *raise_arg;
	struct link *link;
	unsigned int stalled;		/* packets of the link that wait for pages */
	struct cmdif cmd;
	struct port port;
	uint64_t guid;
	bool no_paging;			/* as a card that cannot page-fault */
	u8 *memic;			/* HCA_MEMIC_SIZE bytes */
	size_t memory;			/* taken of HCA_MEMORY */
	struct stats stats;		/* since the start, across resets */
	struct hca_later later;

	/* hca.c */
	u8 issi;
	bool enabled, initialized;
	uint32_t health;
	uint64_t pages[HCA_PAGES];	/* that the guest gave */
	unsigned int page_count;
	struct table uars, pds, tds, xrcds;
	/* caps.c: what SET_HCA_CAP left, or NULL */
	struct caps *caps;
	/* event.c */
	struct table eqs, cqs;
	struct eq *event_eq[64];	/* by event type */
	/* the others */
	struct table srqs, qps, mkeys, uctxs, umems;
	struct qp *special[2];		/* the QPs that are 0 and 1 on the wire, or NULL */
	struct memic *memic_state;
	struct odp *odp;
	struct mcg *mcg;
};

/* NULL: no memory. */
struct hca *hca_new(struct loop *loop, struct dma *dma, uint64_t guid);
void hca_free(struct hca *hca);
/* As by a function level reset: nothing is left of what the guest made. */
void hca_reset(struct hca *hca);

/* All that the guest made, users first; only INIT_HCA starts anew. */
void hca_free_objects(struct hca *hca);

/* bar.c */
void bar_init(struct hca *hca);
/* Forget the stores that wait. */
void bar_reset(struct hca *hca);
/* BAR 0, by size 1, 2, 4 or 8; bytes as on the bus. */
void hca_bar_read(struct hca *hca, uint64_t offset, void *data, size_t size);
void hca_bar_write(struct hca *hca, uint64_t offset, const void *data, size_t size);
/* The doorbell page with this number, which is a page of the BAR; NULL: UID has no such page. */
struct uar *hca_uar(const struct hca *hca, uint16_t uid, uint32_t number);
/* An object that was created with it is gone. */
void hca_uar_put(struct hca *hca, struct uar *uar);
bool hca_pd_valid(const struct hca *hca, uint16_t uid, uint32_t pd);
bool hca_xrcd_valid(const struct hca *hca, uint16_t uid, uint32_t xrcd);
/* The driver opens the XRC domains of all processes itself, for those that share a file. */
bool hca_xrcd_of_driver(const struct hca *hca, uint32_t xrcd);
/* Ticks of the device's clock, HCA_KHZ of them a millisecond: for completions too. */
uint64_t hca_clock(const struct hca *hca);

/*
 * Memory for what the guest asked for, zeroed and counted: NULL if it is more than
 * HCA_MEMORY in all.
 */
void *hca_alloc(struct hca *hca, size_t bytes);
/* Beyond HCA_MEMORY too, where something else is the bound; counted all the same. */
void *hca_alloc_beyond(struct hca *hca, size_t bytes);
void hca_free_memory(struct hca *hca, void *p, size_t bytes);

/* caps.c */
void caps_init(struct hca *hca);
void caps_free(struct hca *hca);
/* The value in force of a general capability, for code that depends on it. */
#define CAP(hca, field) IFC_GET(cmd_hca_cap, caps_general(hca), field)
const void *caps_general(const struct hca *hca);

/* port.c */
/* What the guest set is as new; what the link said with port_set() stays. */
void port_init(struct hca *hca);
/* The link got its LID, or lost its fabric: reports a port event to the driver. */
void port_set(struct hca *hca, uint16_t lid, uint16_t sm_lid, u8 state);
uint16_t port_pkey(const struct hca *hca, unsigned int index);
void port_gid(const struct hca *hca, unsigned int index, u8 gid[16]);
bool port_has_gid(const struct hca *hca, const u8 gid[16]);

/* memic.c */
void memic_init(struct hca *hca);
void memic_reset(struct hca *hca);
/* The BAR beyond HCA_MEMIC_START: data and operations (fetch and add, ...). */
void memic_bar_read(struct hca *hca, uint64_t offset, void *data, size_t size);
void memic_bar_write(struct hca *hca, uint64_t offset, const void *data, size_t size);
/* MEMIC at this BAR offset, if all of it is allocated; else NULL. */
u8 *memic_at(struct hca *hca, uint64_t offset, size_t len);

/* mcg.c: multicast groups and the QPs that are attached */
void mcg_init(struct hca *hca);
void mcg_reset(struct hca *hca);
/* Call FN for each QP that is attached to the group. */
void mcg_each(struct hca *hca, const u8 gid[16], void (*fn)(struct qp *qp, void *arg),
	      void *arg);
void mcg_detach_all(struct qp *qp);

/* devx.c: user contexts, user memory */
void devx_reset(struct hca *hca);

#endif
