// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: vram [copied | unknown]
 *
 * An MPI job for host/hsa, of two processes in a guest each: messages from a byte to a MiB, and a
 * window that each writes, reads and adds to at the other one.  All of it is memory of the tests'
 * GPU, from the stand-in for the HSA runtime (hsa/), for which MPI and UCX take an AMD GPU.
 *
 * Each process compares every byte, and those around, by a mapping that UCX does not know.  The
 * GPU tells that a buffer has importers, which are regions that were registered by its fd, and
 * where it is; the stand-in tells that nothing of a long message was copied.  No CPU may touch the
 * addresses of the messages and the window that the job gets from it.  Then the buffers move,
 * and are evicted, while the job goes on.  Finally each prints which pattern it has got where in
 * VRAM, for the host to look.
 *
 * With "copied" it is the other way round: there must be no region by fd, and long messages are
 * copied through the host.  With "unknown" the job maps buffers of the GPU by itself, so that
 * UCX does not know what memory that is, and sends from there.
 */
#include "hsa/memory.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/mover.h"
#include "lib/nldev.h"
#include "lib/pattern.h"
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#define LONGEST (1ul << 20)
#define AT 100			/* where in a buffer the bytes of messages lie */
#define WORD 64			/* where in its buffer the word is that is added to */
#define SIZE (LONGEST + PAGE)	/* of a buffer */
#define EMPTY 0xa5
#define ADDS 5
#define LIMIT 100		/* seconds, of an idle machine, for all moves of a case */

static const size_t short_sizes[] = { 1, 7, 100, 4096, 5000, 70001 };

/* Memory of the GPU as the job gets it, and our own view of it: by its fd. */
struct buffer {
	uint8_t *gpu;
	struct memory m;
};

static struct buffer out, in, shared, words;
static struct buffer *const all[] = { &out, &in, &shared, &words };
static hsa_amd_memory_pool_t pool;
static MPI_Win window, words_window;
static int rank, peer;
static uint32_t seed;
static atomic_long begun;	/* messages, puts, gets and adds */
static bool copied, unknown;

static void ok(hsa_status_t status, const char *what)
{
	errno = 0;
	if (status != HSA_STATUS_SUCCESS && status != HSA_STATUS_INFO_BREAK)
		fail_case("%s: %#x", what, status);
}

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printf("process %d: %s\n", rank, text);
}

/* --- Buffers --- */

static hsa_status_t take_pool(hsa_amd_memory_pool_t found, void *arg)
{
	pool = found;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t take_pool_of_gpu(hsa_agent_t agent, void *arg)
{
	hsa_device_type_t type;

	ok(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), "the type of an agent");
	if (type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	return hsa_amd_agent_iterate_memory_pools(agent, take_pool, NULL);
}

static uint8_t *map(const struct buffer *b)
{
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, b->m.fd, 0);

	if (p == MAP_FAILED)
		fail_case("map the dma-buf");
	return p;
}

static void buffer_open(struct buffer *b)
{
	uint64_t offset;

	if (unknown) {
		gpu_open(&b->m, GPU_VRAM, SIZE, 0);
		b->gpu = map(b);
		return;
	}
	b->m = (struct memory){
		.kind = GPU_VRAM, .size = SIZE, .fd = -1, .drm_fd = memory_open_card("mrfd_gpu"),
	};
	ok(hsa_amd_memory_pool_allocate(pool, SIZE, 0, (void **)&b->gpu), "allocate");
	ok(hsa_amd_portable_export_dmabuf(b->gpu, SIZE, &b->m.fd, &offset), "export");
	if (b->m.drm_fd < 0 || offset ||
	    drmPrimeFDToHandle(b->m.drm_fd, b->m.fd, &b->m.handle))
		fail_case("the fd is none of the whole buffer of the GPU");
	b->m.cpu = map(b);
	if (gpu_query(&b->m).place != MRFD_GPU_VRAM)
		fail_case("a new buffer is not in VRAM");
}

static void buffer_close(struct buffer *b)
{
	memory_close(&b->m);
	ok(hsa_amd_memory_pool_free(b->gpu), "free");
}

/* Each region of a buffer that was registered by fd is an importer that is attached to it. */
static void check_regions(const struct buffer *b, const char *name)
{
	struct mrfd_gpu_query q = gpu_query(&b->m);
	bool p2p = device_can("p2p");

	errno = 0;
	say("%s: %u regions by fd, %u of them peer to peer, in %s", name, q.attachments, q.peers,
	    q.place == MRFD_GPU_VRAM ? "VRAM" : "system memory");
	if (copied && q.attachments)
		fail_case("%s: there are regions by fd, and nothing should know of it", name);
	if (copied)
		return;
	if (!q.attachments)
		fail_case("%s: there is no region by fd", name);
	if (q.peers != (p2p ? q.attachments : 0))
		fail_case("%s: %u importers are peers, of %u", name, q.peers, q.attachments);
	if (q.place != (p2p ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM))
		fail_case("%s: the buffer is in the wrong place", name);
}

/* --- What moves bytes --- */

static void empty(struct buffer *b)
{
	memset(b->m.cpu, EMPTY, SIZE);
}

static bool is_empty(const uint8_t *p, size_t n)
{
	while (n && *p == EMPTY)
		p++, n--;
	return !n;
}

/* The buffer has the pattern of WANTED in SIZE bytes, and no others were written. */
static void check(const struct buffer *b, size_t size, uint32_t wanted, const char *what)
{
	const uint8_t *p = b->m.cpu;

	errno = 0;
	if (!filled(p + AT, size, wanted, what))
		fail_case("%s of %zu bytes: wrong bytes have arrived", what, size);
	if (!is_empty(p, AT) || !is_empty(p + AT + size, SIZE - AT - size))
		fail_case("%s of %zu bytes: bytes around were written", what, size);
}

static void message(size_t size)
{
	begun++;
	empty(&out);
	empty(&in);
	seed += 2;
	fill(out.m.cpu + AT, size, seed + rank);
	MPI_Sendrecv(out.gpu + AT, size, MPI_BYTE, peer, 1, in.gpu + AT, size, MPI_BYTE, peer, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(&in, size, seed + peer, "message");
	check(&out, size, seed + rank, "what was sent");
}

static void put(void)
{
	begun++;
	seed += 2;
	empty(&out);
	fill(out.m.cpu + AT, LONGEST, seed + rank);
	empty(&shared);
	MPI_Win_fence(0, window);
	MPI_Put(out.gpu + AT, LONGEST, MPI_BYTE, peer, AT, LONGEST, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	check(&shared, LONGEST, seed + peer, "put");
}

static void get(void)
{
	begun++;
	seed += 2;
	empty(&in);
	fill(shared.m.cpu + AT, LONGEST, seed + rank);
	MPI_Win_fence(0, window);
	MPI_Get(in.gpu + AT, LONGEST, MPI_BYTE, peer, AT, LONGEST, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	check(&in, LONGEST, seed + peer, "get");
	check(&shared, LONGEST, seed + rank, "what was got");
}

/*
 * Each adds to the word of the other.  UCX takes the device's atomics if there are those of 32
 * bits too, which the model does not have, and MPICH does not use them: the CPU of the target adds.
 */
static void add(void)
{
	uint64_t one = 1, was, word = 0;

	begun++;
	memcpy(words.m.cpu + WORD, &word, sizeof(word));
	MPI_Win_fence(0, words_window);
	for (int i = 0; i < ADDS; i++) {
		MPI_Fetch_and_op(&one, &was, MPI_UINT64_T, peer, WORD, MPI_SUM, words_window);
		MPI_Win_fence(0, words_window);
		errno = 0;
		if (was != i)
			fail_case("the word of the other was %lu, not %d", was, i);
	}
	memcpy(&word, words.m.cpu + WORD, sizeof(word));
	if (word != ADDS)
		fail_case("the word is %lu, not %d", word, ADDS);
}

/* --- The cases --- */

static void short_messages(void)
{
	for (size_t i = 0; i < sizeof(short_sizes) / sizeof(*short_sizes); i++)
		message(short_sizes[i]);
	say("case short_messages: ok");
}

/* Nothing of a long message passes the host; or all, if it is copied, at each end. */
static void long_messages(void)
{
	uint64_t before = mrfd_hsa_counts().copied, passed;

	for (int i = 0; i < 3; i++)
		message(LONGEST);
	passed = mrfd_hsa_counts().copied - before;
	say("long messages: %lu bytes copied by the host", passed);
	check_regions(&out, "sent");
	check_regions(&in, "received");
	if (!copied && passed)
		fail_case("the host has copied %lu bytes", passed);
	if (copied && passed < 6 * LONGEST)
		fail_case("the host has copied %lu bytes, not %lu", passed, 6 * LONGEST);
	say("case long_messages: ok");
}

static void window_at_rest(void)
{
	uint64_t before = mrfd_hsa_counts().copied;

	put();
	get();
	add();
	check_regions(&shared, "window");
	check_regions(&words, "words");
	if (mrfd_hsa_counts().copied != before)
		fail_case("the host has copied bytes of the window");
	say("case window: ok");
}

static struct mr_stat mr_stat(void)
{
	static int index = -1;

	if (index < 0) {
		struct ibv_context *ctx = device_open();

		index = ibv_get_device_index(ctx->device);
		device_close(ctx);
	}
	return nldev_mr_stat(index);
}

static atomic_bool moved_enough;

/*
 * A move comes when the device has followed the last one, or the job has gone on: faster than that
 * they would leave no time for any traffic.
 */
static void *keep_moving(void *arg)
{
	while (!moved_enough) {
		uint64_t faults = mr_stat().faults;
		long was = begun;

		errno = mover_step(arg);
		if (errno)
			fail_case("move a buffer");
		while (!moved_enough && begun == was && mr_stat().faults == faults)
			usleep(100);
	}
	return NULL;
}

/*
 * The job goes on until the buffers have moved often enough, and the device has followed.  A
 * page fault of the device is counted in pages, and maps all of a region.
 */
static void moving(const char *name, bool pressure)
{
	double began = now(), end = deadline(LIMIT);
	struct mr_stat before = mr_stat(), stat;
	long moves, evictions, followed, rounds = 0;
	struct mover m = {};
	pthread_t thread;
	int enough;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		mover_add(&m, &all[i]->m);
	moves = mover_moves(&m);
	evictions = mover_evictions(&m);
	if (pressure)
		mover_press(&m);
	moved_enough = false;
	if (pthread_create(&thread, NULL, keep_moving, &m))
		fail_case("create a thread");
	do {
		message(LONGEST);
		put();
		get();
		add();
		rounds++;
		stat = mr_stat();
		followed = stat.faults - before.faults; /* negative if UCX has released regions */
		enough = mover_moves(&m) - moves >= moves_wanted() &&
			 followed / (long)(LONGEST / PAGE) >= follows_wanted() &&
			 (!pressure || mover_evictions(&m) - evictions >= moves_wanted() / 4);
		MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		errno = 0;
		if (now() > end)
			fail_case("%s: %ld moves, %ld evictions, %ld pages faulted in %ld rounds",
				  name, mover_moves(&m) - moves, mover_evictions(&m) - evictions,
				  followed, rounds);
	} while (!enough);
	moved_enough = true;
	pthread_join(thread, NULL);
	say("%s: %ld moves, %ld evictions, %d regions, %ld pages faulted, %lu invalidated, "
	    "%ld rounds, %.0f s", name, mover_moves(&m) - moves, mover_evictions(&m) - evictions,
	    stat.mrs, followed, stat.invalidations - before.invalidations,
	    rounds, now() - began);
	mover_close(&m);
	say("case %s: ok", name);
}

static void say_where(const struct buffer *b, uint32_t pattern)
{
	struct mrfd_gpu_query q = gpu_query(&b->m);

	say("VRAM at %llu: %lu bytes of pattern %u", (unsigned long long)q.offset + AT, LONGEST,
	    pattern);
}

/* After all moves, in VRAM again.  What the peer wrote stays there when the buffer is freed. */
static void in_vram_at_last(void)
{
	uint64_t before = mrfd_hsa_counts().copied;
	uint32_t pattern;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if ((errno = gpu_move(&all[i]->m, MRFD_GPU_VRAM, 0)))
			fail_case("move a buffer to VRAM");
	put();
	pattern = seed + peer;
	message(LONGEST);
	check(&shared, LONGEST, pattern, "put");
	check_regions(&in, "received");
	check_regions(&shared, "window");
	if (mrfd_hsa_counts().copied != before)
		fail_case("the host has copied bytes");
	say_where(&shared, pattern);
	say_where(&in, seed + peer);
	say("case in_vram_at_last: ok");
}

/* What a closed file and a deregistered region held is released a little later. */
static void nothing_is_left(void)
{
	struct memory card = { .drm_fd = memory_open_card("mrfd_gpu") };
	double end = deadline(10);

	while (gpu_info(&card).buffers && now() < end)
		usleep(1000);
	errno = 0;
	if (mrfd_hsa_counts().allocations || gpu_info(&card).buffers)
		fail_case("%ld allocations and %u buffers of the GPU are left",
			  mrfd_hsa_counts().allocations, gpu_info(&card).buffers);
	say("case nothing_is_left: ok");
}

int main(int argc, char **argv)
{
	int count;

	setvbuf(stdout, NULL, _IOLBF, 0);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &count);
	peer = 1 - rank;
	copied = argc == 2 && !strcmp(argv[1], "copied");
	unknown = argc == 2 && !strcmp(argv[1], "unknown");
	if (argc > 1 + (copied || unknown) || count != 2) {
		fprintf(stderr, "usage: vram [copied | unknown], in two processes\n");
		return 2;
	}
	ok(hsa_init(), "hsa_init");
	ok(hsa_iterate_agents(take_pool_of_gpu, NULL), "iterate agents");
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		mrfd_hsa_hide(all[i] != &words);
		buffer_open(all[i]);
	}
	short_messages();
	long_messages();
	if (!copied) {
		MPI_Win_create(shared.gpu, SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
		MPI_Win_create(words.gpu, SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &words_window);
		window_at_rest();
		if (device_can("follows-moves")) {
			moving("moving", false);
			moving("evicted", true);
			in_vram_at_last();
		}
		MPI_Win_free(&window);
		MPI_Win_free(&words_window);
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		buffer_close(all[i]);
	MPI_Finalize();
	nothing_is_left();
	ok(hsa_shut_down(), "hsa_shut_down");
	return 0;
}
