// SPDX-License-Identifier: GPL-2.0-or-later
/* See window.h. */
#include "lib/window.h"
#include "lib/case.h"

static void post(struct pair *p, int qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags = IBV_SEND_SIGNALED;
	if ((errno = ibv_post_send(p->qp[qp], wr, &bad)))
		fail_case("post a bind or an invalidate");
}

enum ibv_wc_status window_bind(struct pair *p, struct ibv_mw *mw, uint32_t lkey, uint64_t addr,
			       uint64_t length, int access)
{
	struct ibv_mr named = { .context = p->ctx, .lkey = lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = { .mr = &named, .addr = addr, .length = length,
				       .mw_access_flags = access },
		},
	};
	enum ibv_wc_status status;

	post(p, 1, &wr);
	status = wait_wc(p, NULL);
	if (status == IBV_WC_SUCCESS)
		mw->rkey = wr.bind_mw.rkey;
	return status;
}

enum ibv_wc_status window_invalidate(struct pair *p, int qp, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };

	post(p, qp, &wr);
	return wait_wc(p, NULL);
}

enum ibv_wc_status window_invalidate_remotely(struct pair *p, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey };
	enum ibv_wc_status first, second;

	post_recv(p, NULL, 0, 0);
	post(p, 0, &wr);
	first = wait_wc(p, NULL);
	second = wait_wc(p, NULL);
	return first ? first : second;
}
