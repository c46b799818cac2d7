// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp; devices: rxe */
/* runs: full; devices: connectx */
/*
 * An MR loses a right, its PD or its memory, or ends by a dereg, in the middle of a message of
 * many packets.  After that call no packet touches the memory, whatever role the MR has in the
 * message; the requester gets an error.
 *
 * The rest of the message is refused.  The call does not wait for the message, nor for a peer.
 *
 * If the message writes to the memory, a case checks that the memory does not change
 * after the return.  If the message reads, the case changes the memory after the return,
 * and checks that the other end does not get the new bytes.
 */
#include "lib/clock.h"
#include "lib/depth.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"

#define SIZE (4096 * PAGE)		/* a device with DMA needs a long message, */
#define CPU_SIZE (256 * PAGE)		/* one that copies with the CPU 1024 packets */
#define LEAST_SIZE (32 * PAGE)		/* where that takes LONG */
#define LONG 0.5			/* seconds */
#define LEAST depth(2, 8)		/* messages that each way catches in the middle */
#define LIMIT 2.0			/* seconds that a call may take, on an idle machine */
#define POISON 0x77

static const struct role {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool at_requester;	/* the request names the MR, by its lkey */
	bool written;
	int rights_left;	/* too few for the message; -1: it needs none */
} roles[] = {
	{ "target of a write", IBV_WR_RDMA_WRITE, false, true, LOCAL_WRITE | REMOTE_READ },
	{ "source of a read", IBV_WR_RDMA_READ, false, false, LOCAL_WRITE | REMOTE_WRITE },
	{ "source of a write", IBV_WR_RDMA_WRITE, true, false, -1 },
	{ "sink of a read", IBV_WR_RDMA_READ, true, true, REMOTE_READ },
	{ "source of a send", IBV_WR_SEND, true, false, -1 },
	{ "sink of a receive", IBV_WR_SEND, false, true, REMOTE_READ },
};

enum way { TAKE_RIGHTS, TAKE_PD, TAKE_MEMORY, DEREG, WAYS };
static const char *const way_names[] = {
	"rereg of the access", "rereg of the PD", "rereg to other memory", "dereg",
};

FIXTURE(cut)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct memory at, peer, spare;
	struct ibv_mr *peer_mr;
	const struct role *role;
	size_t length;		/* of a message */
	double whole;		/* seconds that it takes */
};

FIXTURE_VARIANT(cut)
{
	int role;
	enum memory_kind kind;
};

#define ROLE(name, n)								\
	FIXTURE_VARIANT_ADD(cut, name##_vgem) { .role = n, .kind = VGEM };	\
	FIXTURE_VARIANT_ADD(cut, name##_host) { .role = n, .kind = HOST };	\
	FIXTURE_VARIANT_ADD(cut, name##_on_demand) { .role = n, .kind = ON_DEMAND }
ROLE(target_of_a_write, 0);
ROLE(source_of_a_read, 1);
ROLE(source_of_a_write, 2);
ROLE(sink_of_a_read, 3);
ROLE(source_of_a_send, 4);
ROLE(sink_of_a_receive, 5);

FIXTURE_SETUP(cut)
{
	size_t size = device_can("vmap") ? CPU_SIZE : SIZE;

	self->ctx = device_open();
	for (int i = 0; i < 2; i++)
		self->pd[i] = must(ibv_alloc_pd(self->ctx));
	memory_open_filled(&self->at, variant->kind, size, 1);
	memory_open_filled(&self->peer, HOST, size, 2);
	/* The less memory a new key is for, the sooner it is there; the message uses the old. */
	memory_open_filled(&self->spare, variant->kind,
			   device_can("keeps-keys") ? size : PAGE, 3);
	self->peer_mr = memory_reg(&self->peer, self->pd[0], RW);
	self->role = &roles[variant->role];
}

FIXTURE_TEARDOWN(cut)
{
	mr_close(self->peer_mr);
	for (int i = 0; i < 2; i++)
		pd_close(self->pd[i]);
	memory_close(&self->at);
	memory_close(&self->peer);
	memory_close(&self->spare);
	device_close(self->ctx);
}

static void start(FIXTURE_DATA(cut) *self, struct pair *pair, struct ibv_mr *mr)
{
	const struct role *role = self->role;
	struct ibv_mr *local = role->at_requester ? mr : self->peer_mr;
	struct ibv_mr *remote = role->at_requester ? self->peer_mr : mr;
	struct ibv_sge sge = { .addr = (role->at_requester ? &self->at : &self->peer)->iova,
			       .length = self->length, .lkey = local->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = role->opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	uint64_t addr = (role->at_requester ? &self->peer : &self->at)->iova;

	if (role->opcode == IBV_WR_SEND)
		post_recv(pair, remote, addr, self->length);
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = remote->rkey;
	if ((errno = ibv_post_send(pair->qp[0], &wr, &bad)))
		fail_case("post the request");
}

/* The completion of the request; that of a receive may come before it. */
static enum ibv_wc_status finish(struct pair *pair)
{
	struct ibv_wc wc;

	do
		wait_wc(pair, &wc);
	while (wc.qp_num != pair->qp[0]->qp_num);
	return wc.status;
}

/*
 * Wait until the message is under way.  Data arrives in order, so wait until it reaches
 * a position, which differs in each round.  A responder sends all packets of a read before
 * the first arrives, so in this case wait for a time, which differs in each round.
 */
static void wait_for_middle(FIXTURE_DATA(cut) *self, const struct memory *sink, int round)
{
	const uint8_t *p = sink->cpu + round % 8 * (self->length / 16);
	double end = deadline(20);

	if (self->role->opcode == IBV_WR_RDMA_READ && !self->role->at_requester) {
		usleep(self->whole * 1e6 * (round % 16) / 16);
		return;
	}
	while (__atomic_load_n(p, __ATOMIC_RELAXED) == 0x22)
		if (now() > end)
			fail_case("no data arrived in time");
}

static int take_away(FIXTURE_DATA(cut) *self, enum way way, struct ibv_mr *mr)
{
	switch (way) {
	case TAKE_RIGHTS:
		return memory_rereg(mr, CHANGE_ACCESS, NULL, &self->at,
				   self->role->rights_left);
	case TAKE_PD:
		return memory_rereg(mr, CHANGE_PD, self->pd[1], &self->at, 0);
	case TAKE_MEMORY:
		return memory_rereg(mr, TRANS, NULL, &self->spare, 0);
	default:
		return ibv_dereg_mr(mr);
	}
}

/* Cut one message; return whether this happened in its middle. */
static bool cut_one(struct __test_metadata *_metadata, FIXTURE_DATA(cut) *self, enum way way,
		    int round)
{
	struct ibv_mr *mr = memory_reg(&self->at, self->pd[0], RW);
	struct memory *sink = self->role->written ? &self->at : &self->peer;
	struct memory *source = self->role->written ? &self->peer : &self->at;
	static uint8_t left[SIZE];
	enum ibv_wc_status status;
	struct pair pair;
	double began;

	memset(source->cpu, 0x11, self->length);
	memset(sink->cpu, 0x22, self->length);
	memset(self->spare.cpu, 0x33, self->spare.size < self->length ? PAGE : self->length);
	pair_open_in(&pair, self->pd[0]);
	start(self, &pair, mr);
	wait_for_middle(self, sink, round);

	began = now();
	EXPECT_EQ(0, take_away(self, way, mr)) {
		TH_LOG("%s failed: %s", way_names[way], strerror(errno));
	}
	if (self->role->written)
		memcpy(left, self->at.cpu, self->length);
	else
		memset(self->at.cpu, POISON, self->length);
	EXPECT_GT(LIMIT * patience(), now() - began);

	status = finish(&pair);
	if (self->role->written) {
		EXPECT_EQ(0, memcmp(left, self->at.cpu, self->length)) {
			TH_LOG("memory was written after %s returned", way_names[way]);
		}
	} else {
		EXPECT_EQ(NULL, memchr(self->peer.cpu, POISON, self->length)) {
			TH_LOG("memory was read after %s returned", way_names[way]);
		}
	}
	/* A message may go on only if the MR is on other memory at the same address. */
	if (self->role->written && status == IBV_WC_SUCCESS && left[self->length - 1] != 0x11) {
		EXPECT_EQ(TAKE_MEMORY, way) {
			TH_LOG("the message succeeded, though %s cut it", way_names[way]);
		}
	}
	pair_close(&pair);
	if (way != DEREG)
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	if (way == TAKE_MEMORY && !memory_of_process(&self->at) &&
	    device_can("keeps-keys"))
		return memchr(self->role->written ? self->spare.cpu : self->peer.cpu,
			      self->role->written ? 0x11 : 0x33, self->length);
	return status != IBV_WC_SUCCESS && sink->cpu[0] != 0x22;
}

/* A message from which nothing is taken away: how long does it take? */
static void whole_one(FIXTURE_DATA(cut) *self)
{
	struct ibv_mr *mr = memory_reg(&self->at, self->pd[0], RW);
	struct pair pair;
	double began;

	pair_open_in(&pair, self->pd[0]);
	began = now();
	start(self, &pair, mr);
	if (finish(&pair))
		fail_case("a message failed from which nothing was taken away");
	self->whole = now() - began;
	pair_close(&pair);
	mr_close(mr);
}

TEST_F_TIMEOUT(cut, no_packet_touches_memory_after_rereg_or_dereg, 120)
{
	for (self->length = self->at.size; ; self->length /= 2) {
		whole_one(self);
		if (self->whole < LONG || self->length == LEAST_SIZE)
			break;
	}
	/* One failure is enough: the stock kernel fails in each round. */
	for (enum way way = 0; way < WAYS && !_metadata->exit_code; way++) {
		int rounds = 0, caught = 0;

		if (way == TAKE_RIGHTS && self->role->rights_left < 0)
			continue;
		if (way != DEREG && !memory_of_process(&self->at) && !device_can("rereg_mr_fd"))
			continue;
		while (caught < LEAST && !_metadata->exit_code)
			caught += cut_one(_metadata, self, way, rounds++);
		TH_LOG("%s, MR as %s: %d of %d in the middle of the message",
		       way_names[way], self->role->name, caught, rounds);
	}
}

TEST_HARNESS_MAIN
