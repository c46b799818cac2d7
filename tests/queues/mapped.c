// SPDX-License-Identifier: GPL-2.0-or-later
/* See mapped.h. */
#include "queues/mapped.h"
#include "lib/case.h"
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int mapped_list(struct mapped *list, int n)
{
	FILE *f = must(fopen("/proc/self/maps", "r"));
	char line[512];
	int count = 0;

	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;

		if (!strstr(line, "rw-s") || !strstr(line, "/infiniband/uverbs") ||
		    sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		if (count == n)
			fail_case("more than %d queues are mapped", n);
		list[count++] = (struct mapped){ (void *)from, to - from };
	}
	fclose(f);
	return count;
}

static bool is_in(const struct mapped *m, const struct mapped *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i].buf == m->buf)
			return true;
	return false;
}

void mapped_new(const struct mapped *before, int n, struct mapped *send, struct mapped *recv)
{
	struct mapped list[32], found[2];
	int count = mapped_list(list, 32), f = 0;

	for (int i = 0; i < count; i++) {
		if (is_in(&list[i], before, n))
			continue;
		if (f == 2)
			fail_case("more than two new queues");
		found[f++] = list[i];
	}
	if (f != 2)
		fail_case("%d new queues, not 2", f);
	/* A send request is larger. */
	*send = found[found[1].buf->log2_elem_size > found[0].buf->log2_elem_size];
	*recv = found[send->buf == found[0].buf];
}

void *mapped_slot(const struct mapped *m)
{
	struct rxe_queue_buf *q = m->buf;

	return q->data + ((size_t)(q->producer_index & q->index_mask) << q->log2_elem_size);
}

void mapped_post(const struct mapped *m)
{
	struct rxe_queue_buf *q = m->buf;

	__atomic_store_n(&q->producer_index, (q->producer_index + 1) & q->index_mask,
			 __ATOMIC_RELEASE);
}

void ring(struct ibv_qp *qp)
{
	struct ib_uverbs_post_send_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} c = {
		.hdr = { .command = IB_USER_VERBS_CMD_POST_SEND, .in_words = sizeof(c) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .qp_handle = qp->handle,
			 .wqe_size = sizeof(struct ib_uverbs_send_wr) },
	};

	if (write(qp->context->cmd_fd, &c, sizeof(c)) != sizeof(c))
		fail_case("ring the doorbell");
}
