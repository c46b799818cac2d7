/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The InfiniBand port: what the link says of it, what the guest set, and what it counts. */
#ifndef CONNECTX_PORT_H
#define CONNECTX_PORT_H

#include "cmd.h"
#include "link.h"

struct port {
	uint16_t lid, sm_lid;
	u8 state;			/* as ib_port_state: 1 down, 2 init, 4 active */
	uint64_t guid, prefix;
	uint32_t capability_mask;
	u8 sm_sl, subnet_timeout;
	char node_desc[64];
	struct link_count count;
	uint64_t qkey_violations, pkey_violations;
	uint16_t unknown_reg;		/* that was asked for last, and noted */
};

extern const struct cmd_op port_ops[];

/* What the guest set is as new; what the link said with port_set() stays. */
void port_init(struct hca *hca);
/* The link got its LID, or lost its fabric: reports a port event to the driver. */
void port_set(struct hca *hca, uint16_t lid, uint16_t sm_lid, u8 state);
uint16_t port_pkey(const struct hca *hca, unsigned int index);
void port_gid(const struct hca *hca, unsigned int index, u8 gid[16]);
bool port_has_gid(const struct hca *hca, const u8 gid[16]);

#endif
