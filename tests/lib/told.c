// SPDX-License-Identifier: GPL-2.0-or-later
/* See told.h. */
#include "lib/told.h"
#include "lib/case.h"
#include <fcntl.h>

void told_begin(struct ibv_context *ctx)
{
	if (fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK))
		fail_case("make the file of the events nonblocking");
}

int told(struct ibv_context *ctx, const struct ibv_mr *mr, int *others)
{
	struct ibv_async_event event;
	int n = 0, strangers = 0;

	while (!ibv_get_async_event(ctx, &event)) {
		if (event.event_type == IBV_EVENT_MR_REVOKED) {
			if (event.element.mr_handle == mr->handle)
				n++;
			else
				strangers++;
		}
		ibv_ack_async_event(&event);
	}
	if (others)
		*others = strangers;
	return n;
}
