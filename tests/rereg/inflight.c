// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp gpu; devices: rxe */
/* runs: quick debug-full; guest: smp gpu; devices: connectx */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * An MR moves between two buffers under traffic: each packet uses only one of them, and after
 * the call none touches the old one.  Nothing is lost, and no operation fails but one with a key
 * of before.
 *
 * A thread posts operations without pause, while the case moves the MR between two buffers.
 *
 * - A packet uses one buffer, never a part of each.  So every packet of PACKET bytes is
 *   filled with copies of one word, which identifies the packet.
 * - When the call has returned, no packet touches the old buffer.  So the case copies the
 *   buffer, fills it with poison, and checks later that the poison is still there and that
 *   no reader has got any.
 * - No data is lost and no operation fails: the MR can be used at every moment.  A device
 *   whose rereg changes the keys refuses an operation with a key of before, and then only.
 *   Here the requester sends it again, with the new key, and all other checks stay.
 *
 * Each case runs until the MR has moved LEAST times under as many operations.
 */
#include "lib/depth.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include <pthread.h>

#define PACKET 1024
#define WORDS (PACKET / 4)
#define PACKETS 32			/* of a message, which covers a buffer */
#define SIZE (PACKETS * PACKET)
#define DEPTH 4				/* messages under way */
#define LEAST depth(20, 200)		/* moves of the MR */
#define POISON 0xdeadbeef

FIXTURE(move)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory at[2];
	struct memory local;	/* DEPTH messages */
	struct ibv_mr *mr, *local_mr;
	uint64_t iova;
	pthread_t thread;
	bool stop;
	uint64_t begun, ended;	/* reregs */
	struct under_way {
		enum ibv_wr_opcode opcode;
		int slot;
		uint32_t length;
		uint64_t ended;	/* reregs, before it read the key */
	} under_way[DEPTH];	/* in the order of posting */
	int n_under_way;
	uint64_t done;		/* operations completed */
	uint64_t again;		/* operations that were sent again, with a new key */
	enum ibv_wc_status failed;
	const char *wrong;
};

FIXTURE_VARIANT(move)
{
	enum memory_kind kind[2];
};

FIXTURE_VARIANT_ADD(move, vgem_and_vgem) { .kind = { VGEM, VGEM } };
FIXTURE_VARIANT_ADD(move, vgem_and_memfd) { .kind = { VGEM, MEMFD } };
FIXTURE_VARIANT_ADD(move, memfd_and_memfd) { .kind = { MEMFD, MEMFD } };
FIXTURE_VARIANT_ADD(move, qxl_and_memfd) { .kind = { QXL, MEMFD } };
FIXTURE_VARIANT_ADD(move, vram_and_memfd) { .kind = { GPU_VRAM, MEMFD } };
FIXTURE_VARIANT_ADD(move, vram_and_vram) { .kind = { GPU_VRAM, GPU_VRAM } };

FIXTURE_SETUP(move)
{
	need("rereg_mr_fd");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	for (int i = 0; i < 2; i++)
		memory_open_filled(&self->at[i], variant->kind[i], SIZE, i);
	memory_open_filled(&self->local, HOST, DEPTH * SIZE, 3);
	self->mr = memory_reg(&self->at[0], self->pair.pd, RWA);
	self->local_mr = memory_reg(&self->local, self->pair.pd, RWA);
	self->iova = self->at[0].iova;
}

FIXTURE_TEARDOWN(move)
{
	mr_close(self->mr);
	mr_close(self->local_mr);
	pair_close(&self->pair);
	for (int i = 0; i < 2; i++)
		memory_close(&self->at[i]);
	memory_close(&self->local);
	device_close(self->ctx);
}

static uint32_t *words(struct memory *at, size_t byte)
{
	return (uint32_t *)(at->cpu + byte);
}

static void fill_words(uint32_t *p, uint32_t value)
{
	for (int i = 0; i < WORDS; i++)
		p[i] = value;
}

static bool all_words(const uint32_t *p, uint32_t value)
{
	for (int i = 0; i < WORDS; i++)
		if (p[i] != value)
			return false;
	return true;
}

/* Whether a thread has to end; the case looks at the reason when it has joined the thread. */
static bool stopped(FIXTURE_DATA(move) *self)
{
	return __atomic_load_n(&self->stop, __ATOMIC_ACQUIRE) || self->wrong || self->failed;
}

static int move_to(FIXTURE_DATA(move) *self, struct memory *to)
{
	int ret;

	__atomic_add_fetch(&self->begun, 1, __ATOMIC_SEQ_CST);
	ret = memory_rereg(self->mr, TRANS, NULL, to, 0);
	__atomic_add_fetch(&self->ended, 1, __ATOMIC_SEQ_CST);
	return ret;
}

static void post(FIXTURE_DATA(move) *self, enum ibv_wr_opcode opcode, int slot, uint32_t length)
{
	struct under_way *it = &self->under_way[self->n_under_way++];
	struct ibv_sge sge = { .addr = self->local.iova + slot * SIZE, .length = length,
			       .lkey = self->local_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = slot, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	*it = (struct under_way){ opcode, slot, length,
				  __atomic_load_n(&self->ended, __ATOMIC_SEQ_CST) };
	if (opcode == IBV_WR_SEND)	/* into the MR */
		post_recv(&self->pair, self->mr, self->iova, SIZE);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = self->iova;
		wr.wr.atomic.rkey = self->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = self->iova;
		wr.wr.rdma.rkey = self->mr->rkey;
	}
	if ((errno = ibv_post_send(self->pair.qp[0], &wr, &bad)))
		fail_case("post send");
}

/* Whether an operation may be refused: its key is that of before a rereg. */
static bool may_be_refused(FIXTURE_DATA(move) *self, const struct under_way *it)
{
	return !device_can("keeps-keys") &&
	       __atomic_load_n(&self->begun, __ATOMIC_SEQ_CST) > it->ended;
}

/*
 * Other QPs.  Those that were refused keep their numbers until then, so no packet that is
 * late can be taken for one of the new connection.
 */
static void connect_others(FIXTURE_DATA(move) *self)
{
	struct ibv_qp *old[2] = { self->pair.qp[0], self->pair.qp[1] };

	for (int i = 0; i < 2; i++)
		pair_create_end(&self->pair, i, self->pair.pd);
	pair_connect(&self->pair, IBV_MTU_1024);
	for (int i = 0; i < 2; i++)
		if (ibv_destroy_qp(old[i]))
			fail_case("destroy a QP");
}

/*
 * The first operation under way was refused, and the others were not done.  Wait until N
 * more completions have come, connect other QPs, and send all of them again.
 */
static void send_again(FIXTURE_DATA(move) *self, int n)
{
	struct under_way before[DEPTH];
	int count = self->n_under_way;

	memcpy(before, self->under_way, sizeof(before));
	while (n--)
		wait_wc(&self->pair, NULL);
	connect_others(self);
	self->n_under_way = 0;
	self->again++;
	for (int i = 0; i < count; i++)
		post(self, before[i].opcode, before[i].slot, before[i].length);
}

/* The slot of the next request that completes. */
static int next_slot(FIXTURE_DATA(move) *self)
{
	struct under_way it;
	struct ibv_wc wc;

	while (wait_wc(&self->pair, &wc)) {
		if (wc.status != IBV_WC_REM_ACCESS_ERR ||
		    !may_be_refused(self, &self->under_way[0])) {
			self->failed = wc.status;
			return -1;
		}
		send_again(self, self->n_under_way - 1);
	}
	it = self->under_way[0];
	if (wc.wr_id != it.slot)
		fail_case("requests complete in another order");
	memmove(self->under_way, self->under_way + 1, --self->n_under_way * sizeof(it));
	self->done++;
	return it.slot;
}

/* Put message M into a slot: packet P of it has the word M * PACKETS + P. */
static void make_message(FIXTURE_DATA(move) *self, int slot, uint32_t m)
{
	for (int p = 0; p < PACKETS; p++)
		fill_words(words(&self->local, slot * SIZE + p * PACKET), m * PACKETS + p);
}

static void *write_on(void *arg)
{
	FIXTURE_DATA(move) *self = arg;
	uint32_t m = 1;
	int slot;

	for (slot = 0; slot < DEPTH; slot++, m++) {
		make_message(self, slot, m);
		post(self, IBV_WR_RDMA_WRITE, slot, SIZE);
	}
	while (!stopped(self)) {
		slot = next_slot(self);
		if (slot < 0)
			return NULL;
		make_message(self, slot, m++);
		post(self, IBV_WR_RDMA_WRITE, slot, SIZE);
	}
	for (int i = 0; i < DEPTH && !self->failed; i++)
		next_slot(self);
	return (void *)(uintptr_t)(m - 1);	/* the last message */
}

/* The completions of a send and of its receive. */
static bool both_complete(FIXTURE_DATA(move) *self)
{
	struct ibv_wc wc;

	for (int n = 0; n < 2; n++) {
		if (!wait_wc(&self->pair, &wc))
			continue;
		/* The receive has the key; the requester hears of an error of the other end. */
		if ((wc.status != IBV_WC_LOC_PROT_ERR && wc.status != IBV_WC_REM_OP_ERR) ||
		    !may_be_refused(self, &self->under_way[0])) {
			self->failed = wc.status;
			return false;
		}
		send_again(self, 1 - n);
		n = -1;
	}
	return true;
}

static void *send_on(void *arg)
{
	FIXTURE_DATA(move) *self = arg;
	uint32_t m = 1;

	for (; !stopped(self); m++) {
		make_message(self, 0, m);
		post(self, IBV_WR_SEND, 0, SIZE);
		if (!both_complete(self))
			return NULL;
		self->n_under_way = 0;
		self->done++;
	}
	return (void *)(uintptr_t)(m - 1);
}

/*
 * Whether each packet of a copy is whole: poison, or a packet that belongs in its position.
 * NEWEST gets the newest packet that was seen in each position.
 */
static bool whole(const uint32_t *copy, uint32_t *newest)
{
	for (int p = 0; p < PACKETS; p++) {
		const uint32_t *packet = copy + p * WORDS;

		if (!all_words(packet, packet[0]) ||
		    (packet[0] != POISON && packet[0] % PACKETS != p)) {
			printf("# packet %d is torn: %#x ... %#x\n", p, packet[0],
			       packet[WORDS - 1]);
			return false;
		}
		if (packet[0] != POISON && packet[0] > newest[p])
			newest[p] = packet[0];
	}
	return true;
}

static void poison(struct memory *at)
{
	for (int p = 0; p < PACKETS; p++)
		fill_words(words(at, p * PACKET), POISON);
}

static bool poisoned(struct memory *at)
{
	for (int p = 0; p < PACKETS; p++)
		if (!all_words(words(at, p * PACKET), POISON))
			return false;
	return true;
}

/* Whether a device with DMA has left a buffer in VRAM all the time. */
static bool stayed(struct memory *at)
{
	struct mrfd_gpu_query q;

	if (at->kind != GPU_VRAM || device_can("vmap"))
		return true;
	q = gpu_query(at);
	if (q.place == MRFD_GPU_VRAM && !q.moves)
		return true;
	printf("# the buffer has moved %u times and is at place %u\n", q.moves, q.place);
	return false;
}

/* The end of a case that has gone well. */
static void end_turns(struct __test_metadata *_metadata, FIXTURE_DATA(move) *self, int turns,
		      const char *what)
{
	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(stayed(&self->at[i]));
	TH_LOG("%d turns, %llu %s, %llu times sent again", turns,
	       (unsigned long long)self->done, what, (unsigned long long)self->again);
}

/* Whether a case has to go on. */
static bool more(FIXTURE_DATA(move) *self, int turns)
{
	return turns < LEAST || self->done < LEAST;
}

/* Move the MR under a thread that writes or sends, and check at each move. */
static void turns_under_a_writer(struct __test_metadata *_metadata, FIXTURE_DATA(move) *self,
				 void *(*writer)(void *))
{
	static uint32_t copy[SIZE / 4], newest[PACKETS];
	uint64_t seen = 0, moved = 0;
	int turns = 0, here = 0;
	void *last;

	poison(&self->at[0]);
	poison(&self->at[1]);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, writer, self));
	for (; (more(self, turns) || moved < LEAST / 2) && !stopped(self); turns++) {
		struct memory *old = &self->at[here], *new = &self->at[!here];

		ASSERT_TRUE(poisoned(new)) { TH_LOG("written after the MR had left the buffer"); }
		ASSERT_EQ(0, move_to(self, new));
		memcpy(copy, old->cpu, SIZE);
		poison(old);
		ASSERT_TRUE(whole(copy, newest));
		usleep(500 + 1000 * (turns % 8));
		ASSERT_TRUE(poisoned(old)) { TH_LOG("the old buffer was written after rereg"); }
		moved += self->done != seen;
		seen = self->done;
		here = !here;
	}
	__atomic_store_n(&self->stop, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(self->thread, &last));
	ASSERT_EQ(IBV_WC_SUCCESS, self->failed) {
		TH_LOG("an operation failed: %s", ibv_wc_status_str(self->failed));
	}
	/* Every packet of the last message has arrived in one of the buffers. */
	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(whole(words(&self->at[i], 0), newest));
	for (int p = 0; p < PACKETS; p++)
		ASSERT_EQ((uintptr_t)last * PACKETS + p, newest[p]);
	end_turns(_metadata, self, turns, "messages");
}

TEST_F(move, each_written_packet_lands_whole_in_one_buffer)
{
	turns_under_a_writer(_metadata, self, write_on);
}

TEST_F(move, each_received_packet_lands_whole_in_one_buffer)
{
	turns_under_a_writer(_metadata, self, send_on);
}

/* Read all of the MR again and again: a packet is from one buffer, never poison. */
static void *read_on(void *arg)
{
	FIXTURE_DATA(move) *self = arg;
	int slot;

	for (slot = 0; slot < DEPTH; slot++)
		post(self, IBV_WR_RDMA_READ, slot, SIZE);
	while (!stopped(self)) {
		slot = next_slot(self);
		if (slot < 0)
			return NULL;
		for (int p = 0; p < PACKETS; p++) {
			uint32_t *packet = words(&self->local, slot * SIZE + p * PACKET);

			if (!all_words(packet, packet[0]))
				self->wrong = "a packet of a read is torn";
			else if (packet[0] == POISON)
				self->wrong = "the old buffer was read after the rereg returned";
			else if (packet[0] != p && packet[0] != PACKETS + p)
				self->wrong = "a packet of a read is from neither buffer";
		}
		post(self, IBV_WR_RDMA_READ, slot, SIZE);
	}
	for (int i = 0; i < DEPTH && !self->failed; i++)
		next_slot(self);
	return NULL;
}

static void mark_buffer(struct memory *at, int which)
{
	for (int p = 0; p < PACKETS; p++)
		fill_words(words(at, p * PACKET), which * PACKETS + p);
}

TEST_F(move, each_read_packet_comes_whole_from_one_buffer)
{
	int turns = 0, here = 0;

	mark_buffer(&self->at[0], 0);
	mark_buffer(&self->at[1], 1);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, read_on, self));
	for (; more(self, turns) && !stopped(self); turns++, here = !here) {
		ASSERT_EQ(0, move_to(self, &self->at[!here]));
		poison(&self->at[here]);
		usleep(500 + 1000 * (turns % 8));
		mark_buffer(&self->at[here], here);
	}
	__atomic_store_n(&self->stop, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	ASSERT_EQ(NULL, self->wrong) { TH_LOG("%s", self->wrong); }
	ASSERT_EQ(IBV_WC_SUCCESS, self->failed) {
		TH_LOG("a read failed: %s", ibv_wc_status_str(self->failed));
	}
	end_turns(_metadata, self, turns, "reads");
}

static void *add_on(void *arg)
{
	FIXTURE_DATA(move) *self = arg;

	for (int slot = 0; slot < DEPTH; slot++)
		post(self, IBV_WR_ATOMIC_FETCH_AND_ADD, slot, 8);
	while (!stopped(self)) {
		int slot = next_slot(self);

		if (slot < 0)
			return NULL;
		post(self, IBV_WR_ATOMIC_FETCH_AND_ADD, slot, 8);
	}
	for (int i = 0; i < DEPTH && !self->failed; i++)
		next_slot(self);
	return NULL;
}

TEST_F(move, every_atomic_adds_once_to_one_buffer)
{
	volatile uint64_t *word[2] = { (uint64_t *)self->at[0].cpu, (uint64_t *)self->at[1].cpu };
	int turns = 0, here = 0;

	need("atomics");
	*word[0] = *word[1] = 0;
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, add_on, self));
	for (; more(self, turns) && !stopped(self); turns++, here = !here) {
		uint64_t left;

		ASSERT_EQ(0, move_to(self, &self->at[!here]));
		left = *word[here];
		usleep(500 + 1000 * (turns % 8));
		ASSERT_EQ(left, *word[here]);
	}
	__atomic_store_n(&self->stop, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	ASSERT_EQ(IBV_WC_SUCCESS, self->failed) {
		TH_LOG("an atomic failed: %s", ibv_wc_status_str(self->failed));
	}
	ASSERT_EQ(self->done, *word[0] + *word[1]);
	end_turns(_metadata, self, turns, "atomics");
}

TEST_HARNESS_MAIN
