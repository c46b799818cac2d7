/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One device: its state between reset and reset, and the objects that the guest made.  What
 * an object is, its own header says; those of the floors above are pointers here.
 *
 * Objects point to each other and count their users; a command that would destroy an
 * object that has users is refused (CMD_BAD_RES_STATE), as by the firmware.  So a pointer
 * from one object to another is good as long as the first one exists.  A reset frees all,
 * users first.
 */
#ifndef CONNECTX_HCA_H
#define CONNECTX_HCA_H

#include "ifc.h"
#include "port.h"
#include "stats.h"
#include "table.h"
#include "vpd.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HCA_UAR_FIRST 0x10		/* pages before it are not doorbells */
#define HCA_UARS 0xff0
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
#define HCA_MEMORY (256ul << 20)	/* bytes that the guest's objects may take here, at most */

struct bar;
struct caps;
struct cmdif;
struct dma;
struct eq;
struct link;
struct loop;
struct mcg;
struct memic;
struct odp;
struct qp;
struct srq;

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

struct hca {
	struct loop *loop;
	struct dma *dma;
	struct dma *direct;		/* of the function of Data Direct, or NULL */
	char vuid[VPD_VUID];		/* by which the driver finds that function */
	void (*raise)(void *arg, unsigned int vector);	/* an interrupt */
	void *raise_arg;
	struct link *link;
	unsigned int stalled;		/* packets of the link that wait for pages */
	struct port port;
	uint64_t guid;
	bool no_paging;			/* as a card that cannot page-fault */
	size_t memory;			/* taken of HCA_MEMORY */
	struct stats stats;		/* since the start, across resets */
	/* The QPs that receive into it forget an SRQ that is going to be destroyed. */
	void (*srq_gone)(struct srq *srq);

	/* life.c */
	u8 issi;
	bool enabled, initialized;
	uint32_t health;
	uint64_t pages[HCA_PAGES];	/* that the guest gave */
	unsigned int page_count;
	struct table uars, pds, tds, xrcds;	/* hca.c: numbers */
	struct table eqs, cqs, srqs, qps, mkeys, uctxs, umems;
	struct eq *event_eq[64];	/* by event type */
	struct qp *special[2];		/* the QPs that are 0 and 1 on the wire, or NULL */
	u8 *memic;			/* HCA_MEMIC_SIZE bytes */
	struct memic *memic_state;
	struct caps *caps;
	struct odp *odp;
	struct mcg *mcg;
	struct cmdif *cmdif;
	struct bar *bar;
};

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

/* The commands that make and free a UAR or one of the numbers are in numbers.c. */
void hca_free_uar(struct hca *hca, struct uar *uar);
void hca_free_number(struct hca *hca, struct number *number);
bool hca_number_valid(const struct table *t, uint16_t uid, uint32_t number);
/* All of them. */
void hca_free_numbers(struct hca *hca);

#endif
