/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page faults, by the memory scheme: an access that finds a page absent stops its QP on
 * that side, and the driver gets an event with a token.  PAGE_FAULT_RESUME with that
 * token ends the wait, with or without an error.  If nobody subscribed to page-fault
 * events the access waits until the page is there, and looks again every 10 ms.
 *
 * An error is not yet the end if the page was missing in a key that another key leads to.
 * The driver takes a child of an implicit MR out of its own tables before it takes it out
 * of the parent, and refuses faults on it in between.  So the access is walked again from
 * its own key, a bounded number of times, before the QP hears of the error.
 */
#ifndef CONNECTX_ODP_H
#define CONNECTX_ODP_H

#include "mkey.h"

#define ODP_REPORTED 1024	/* faults that the driver is told of at a time; others wait */
#define ODP_RETRIES 8		/* walks after an error, the first after 1 ms, then 2, 4, ... */

extern const struct cmd_op odp_ops[];

/* Who waits for a page, such as one side of a QP. */
struct odp_waiter {
	struct odp_wait *wait;		/* NULL: it does not wait */
	uint32_t qpn;			/* for the trace */
	/* It may go on; FAILED: the driver could not bring the page. */
	void (*over)(struct odp_waiter *w, bool failed);
};

/*
 * Report a fault, if W does not wait already.  w->over() is called when it may go on, and
 * never from here unless memory runs out.
 */
void odp_fault(struct hca *hca, struct odp_waiter *w, const struct mkey_fault *fault);
/* COUNT waiters are reset or destroyed: forget their faults. */
void odp_forget(struct hca *hca, struct odp_waiter *w, unsigned int count);
void odp_reset(struct hca *hca);

#endif
