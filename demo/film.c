// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Moving pictures over a connection: the end that sends them, and the end that shows them
 *
 * protocol.h says what passes between the two.  Both ends keep the same rule: memory is used
 * again when nobody needs it any more.  The sender makes a new frame in memory only when the
 * write of the frame that was there before is complete, since the device may read it again
 * until then.  It writes to a place of the peer only when the peer has answered the frame that
 * was there.
 *
 * So the sender makes frame K + 1 while frame K travels, and the peer looks at frame K - 1,
 * if there are places enough.
 */
#include <endian.h>
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "film.h"

#define MAX_FRAMES 10000

struct sender {
	struct link *link;
	const struct offer *offer;
	uint32_t frames;
	struct ibv_mr *byte_mr;
	unsigned char byte; /* of the peer's memory, see post_flushed() */
};

static uint64_t frame_bytes(const struct offer *o)
{
	return (uint64_t)o->pitch * o->height;
}

/*
 * Have the frame that WR writes arrive before its number: read a byte of it, and send the
 * number when the byte is here (the fence).  Else the number would go with the write.
 */
static int post_flushed(struct sender *s, struct ibv_send_wr *wr, uint64_t last_byte)
{
	struct ibv_sge byte = {
		.addr = (uintptr_t)&s->byte, .length = 1, .lkey = s->byte_mr->lkey,
	};
	struct ibv_send_wr *bad, number = {
		.wr_id = wr->wr_id,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_FENCE,
		.imm_data = wr->imm_data,
	};
	struct ibv_send_wr read = {
		.next = &number,
		.sg_list = &byte,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { .remote_addr = last_byte, .rkey = s->offer->rkey },
	};

	wr->wr_id = 0;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->next = &read;
	return ibv_post_send(s->link->id->qp, wr, &bad);
}

/* One work request gathers the frame from its pieces.  The last one of a frame has the id 1. */
static int post_frame(struct sender *s, uint32_t number, struct ibv_sge *pieces, int count)
{
	const struct offer *o = s->offer;
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = pieces,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htobe32(number | (number == s->frames - 1 ? DEMO_LAST : 0)),
		.wr.rdma = {
			.remote_addr = o->iova + number % o->places * frame_bytes(o),
			.rkey = o->rkey,
		},
	};
	int error = o->flush ?
		post_flushed(s, &wr, wr.wr.rdma.remote_addr + frame_bytes(o) - 1) :
		ibv_post_send(s->link->id->qp, &wr, &bad);

	if (error)
		warnx("ibv_post_send: %s", strerror(error));
	return error ? -1 : 0;
}

/* The peer has shown a frame.  Be ready for the next answer. */
static int take_answer(struct sender *s, const struct ibv_wc *wc, uint32_t shown)
{
	if (be32toh(wc->imm_data) == shown)
		return link_post_receive(s->link);
	warnx("the peer answers frame %u, and not %u", be32toh(wc->imm_data), shown);
	return -1;
}

static int send_all(struct sender *s, film_frame *frame, void *of)
{
	const uint32_t places = s->offer->places;
	uint32_t posted = 0, written = 0, shown = 0;
	struct ibv_sge pieces[FILM_PIECES];
	struct ibv_wc wc;
	int count;

	while (written < s->frames || shown < s->frames) {
		if (posted < s->frames && posted < written + places && posted < shown + places) {
			count = frame(of, posted, pieces);
			if (count < 0 || post_frame(s, posted++, pieces, count))
				return -1;
			continue;
		}
		if (link_next(s->link, &wc))
			return -1;
		if (!(wc.opcode & IBV_WC_RECV))
			written += wc.wr_id;
		else if (take_answer(s, &wc, shown++))
			return -1;
	}
	return 0;
}

int film_frames(const char *word)
{
	char *end;
	unsigned long frames = strtoul(word, &end, 10);

	if (!frames || frames > MAX_FRAMES || *end)
		errx(2, "--frames takes 1 to %d", MAX_FRAMES);
	return frames;
}

int film_check(const struct offer *o)
{
	if (o->places <= FILM_MAX_PLACES)
		return 0;
	warnx("the peer has places for %u frames, more than %d", o->places, FILM_MAX_PLACES);
	return -1;
}

/* Send that many frames, and wait until the peer has shown all of them. */
int film_send(struct link *l, const struct offer *o, uint32_t frames, film_frame *frame, void *of)
{
	struct sender s = { .link = l, .offer = o, .frames = frames };
	uint64_t begin = now_ns(), ns;
	uint32_t i;
	int ret;

	for (i = 0; i < o->places; i++)
		if (link_post_receive(l))
			return -1;
	s.byte_mr = ibv_reg_mr(l->id->pd, &s.byte, 1, IBV_ACCESS_LOCAL_WRITE);
	if (!s.byte_mr) {
		warn("cannot register a byte");
		return -1;
	}
	ret = send_all(&s, frame, of);
	ns = now_ns() - begin;
	ibv_dereg_mr(s.byte_mr);
	if (!ret)
		printf("frames=%u\nwritten=%" PRIu64 "\nwrite_ns=%" PRIu64 "\n", frames,
		       frame_bytes(o) * frames, ns);
	return ret;
}

/* At the end of standard input no more answers are awaited. */
void film_announce(uint32_t number)
{
	int c;

	printf("frame=%u\n", number);
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

/* Tell the peer that this frame was shown.  The next receive comes first. */
static int give_back(struct link *l, uint32_t number)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htobe32(number),
	};
	int error;

	if (link_post_receive(l))
		return -1;
	error = ibv_post_send(l->id->qp, &wr, &bad);
	if (error) {
		warnx("ibv_post_send: %s", strerror(error));
		return -1;
	}
	return 0;
}

/*
 * Show each frame that comes, up to the last one.  The peer leaves when it has the last answer,
 * and may be gone before the completion of that answer is here.
 */
int film_receive(struct link *l, film_show *show, void *of)
{
	uint32_t shown = 0, answered = 0, number;
	bool last = false;
	struct ibv_wc wc;
	int ret;

	while (!last || answered < shown) {
		ret = last ? link_next_or_end(l, &wc) : link_next(l, &wc);
		if (ret == 1)
			break;
		if (ret)
			return -1;
		if (!(wc.opcode & IBV_WC_RECV)) {
			answered++;
			continue;
		}
		number = be32toh(wc.imm_data);
		last = number & DEMO_LAST;
		number &= ~DEMO_LAST;
		if (number != shown) {
			warnx("frame %u is missing: number %u has come", shown, number);
			return -1;
		}
		show(of, number);
		if (give_back(l, number))
			return -1;
		shown++;
	}
	printf("shown=%u\n", shown);
	return 0;
}
