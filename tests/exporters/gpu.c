// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * A buffer of a GPU is right in VRAM and in system memory, for importers with DMA and with the
 * CPU, under traffic too: when it moves, is evicted, is swapped out, or finds no room.
 *
 * TTM keeps the buffer (tests/gpu).
 *
 * An importer with DMA and peer-to-peer reaches it in either.  mlx5 follows when it moves or is
 * evicted, and holds nothing; without page faults it pins the buffer where it is.  Soft-RoCE
 * copies by the CPU, so it pins the buffer, and as with amdgpu and xe a pin without peer-to-peer
 * moves it to system memory; where the driver lets it be pinned in VRAM, Soft-RoCE reaches it
 * there through the I/O accessors.
 *
 * A region is written and read by RDMA, and looked at through a mapping, which shows the
 * buffer wherever it is.
 */
#include "exporters/gpu_buffer.h"
#include "lib/depth.h"
#include "lib/random.h"
#include <pthread.h>
#include <stdatomic.h>
#include <xf86drm.h>

#define MOVES depth(5, 50)	/* of a race */

FIXTURE_VARIANT(gpu_buffer)
{
	enum memory_kind kind;
};

FIXTURE(gpu_buffer)
{
	struct gpu_case c;
};

FIXTURE_VARIANT_ADD(gpu_buffer, in_vram) { .kind = GPU_VRAM };
FIXTURE_VARIANT_ADD(gpu_buffer, in_system_memory) { .kind = GPU_SYSTEM };

FIXTURE_SETUP(gpu_buffer)
{
	case_open(&self->c, variant->kind, 0);
}

FIXTURE_TEARDOWN(gpu_buffer)
{
	EXPECT_TRUE(case_close(&self->c));
}

/* Only peer-to-peer leaves a registered buffer in VRAM. */
static uint32_t place_of(enum memory_kind kind)
{
	return kind == GPU_VRAM && by_dma() ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM;
}

TEST_F(gpu_buffer, write_and_read_reach_the_buffer)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr = must(case_reg(c));

	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	fill(c->buf.cpu, SIZE, 2);
	ASSERT_TRUE(rdma_reads(c, mr, 2));
	ASSERT_EQ(place_of(variant->kind), gpu_query(&c->buf).place);
	mr_close(mr);
}

TEST_F(gpu_buffer, write_changes_its_range_only)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr = must(case_reg(c));
	static const struct { size_t at, n; } part[] = {
		{ 0, 1 }, { PAGE - 3, 7 }, { 5, PAGE }, { SIZE / 2 - 1, 3 * PAGE + 1 },
		{ SIZE - 13, 13 },
	};

	fill(c->host.cpu, SIZE, 5);
	for (int i = 0; i < 5; i++) {
		memory_mark(&c->buf);
		ASSERT_EQ(0, rdma_op(&c->pair, IBV_WR_RDMA_WRITE, c->host_mr, c->host.iova,
				     part[i].n, IOVA + part[i].at, mr->rkey));
		ASSERT_TRUE(memory_only_changed(&c->buf, part[i].at, part[i].n));
		ASSERT_EQ(0, memcmp(c->buf.cpu + part[i].at, c->host.cpu, part[i].n));
	}
	mr_close(mr);
}

/* What the importer holds, and that nothing is left of it. */
TEST_F(gpu_buffer, mr_holds_only_what_its_device_needs)
{
	struct gpu_case *c = &self->c;
	struct mrfd_gpu_query q;
	struct ibv_mr *mr;

	for (int i = 0; i < 3; i++) {
		mr = must(case_reg(c));
		ASSERT_TRUE(rdma_write(c, mr, i));
		q = gpu_query(&c->buf);
		ASSERT_EQ(1, q.attachments);
		ASSERT_EQ(by_dma() ? MRFD_GPU_PEER : MRFD_GPU_NOT_ASKED, q.why);
		ASSERT_EQ(by_dma(), q.peers);
		ASSERT_EQ(by_dma(), q.maps);
		ASSERT_EQ(pins(), q.pins);
		ASSERT_EQ(!by_dma(), q.vmaps);
		ASSERT_EQ(!by_dma(), q.brackets);
		mr_close(mr);
		ASSERT_TRUE(gpu_at_rest(&c->buf));
	}
}

/* A second region of it. */
TEST_F(gpu_buffer, buffer_can_be_registered_twice)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr = must(case_reg(c)), *other = must(case_reg(c));

	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_TRUE(rdma_reads(c, other, 1));
	mr_close(mr);
	ASSERT_TRUE(rdma_write(c, other, 2));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 2, "buffer"));
	mr_close(other);
}

/* It is zero although others used the VRAM before. */
TEST_F(gpu_buffer, new_buffer_is_zero)
{
	struct gpu_case *c = &self->c;
	static const uint8_t zero[SIZE];
	struct ibv_mr *mr;

	for (int i = 0; i < 3; i++) {
		memset(c->buf.cpu, 0x77, SIZE);
		memory_close(&c->buf);
		gpu_open(&c->buf, variant->kind, SIZE, 0);
		mr = must(case_reg(c));
		memset(c->host.cpu, 0x77, SIZE);
		ASSERT_EQ(0, rdma_op(&c->pair, IBV_WR_RDMA_READ, c->host_mr, c->host.iova, SIZE,
				     IOVA, mr->rkey));
		mr_close(mr);
		ASSERT_EQ(0, memcmp(c->host.cpu, zero, SIZE));
		ASSERT_EQ(0, memcmp(c->buf.cpu, zero, SIZE));
	}
}

/* An importer with DMA and without peer-to-peer, which pins it. */
TEST_F(gpu_buffer, pin_without_p2p_moves_it_to_system_memory)
{
	struct gpu_case *c = &self->c;
	int dma;

	fill(c->buf.cpu, SIZE, 3);
	dma = import_for_dma(c->buf.fd, 0);
	ASSERT_LE(0, dma);
	ASSERT_EQ(MRFD_GPU_SYSTEM, gpu_query(&c->buf).place);
	ASSERT_EQ(MRFD_GPU_NOT_ASKED, gpu_query(&c->buf).why);
	ASSERT_EQ(1, gpu_query(&c->buf).pins);
	ASSERT_EQ(1, gpu_query(&c->buf).maps);
	ASSERT_EQ(EBUSY, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 3, "buffer"));
	close(dma);
	ASSERT_TRUE(gpu_at_rest(&c->buf));
	ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 3, "buffer"));
}

FIXTURE(gpu)
{
	struct gpu_case c;
};

FIXTURE_SETUP(gpu)
{
	case_open(&self->c, GPU_VRAM, 0);
}

FIXTURE_TEARDOWN(gpu)
{
	EXPECT_TRUE(case_close(&self->c));
}

/* As xe has it: such a buffer has no place that both can use. */
TEST_F(gpu, vram_only_buffer_needs_p2p)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	case_replace(c, GPU_VRAM, MRFD_GPU_ONLY);
	mr = case_reg(c);
	if (!by_dma()) {
		ASSERT_EQ(NULL, mr);
		ASSERT_EQ(EOPNOTSUPP, errno);
		return;
	}
	ASSERT_NE(NULL, mr);
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_EQ(EINVAL, gpu_move(&c->buf, MRFD_GPU_SYSTEM, 0));
	ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
	mr_close(mr);
}

/* What is on a screen cannot go elsewhere. */
TEST_F(gpu, buffer_pinned_in_vram_needs_p2p)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	case_replace(c, GPU_VRAM, MRFD_GPU_PINNED);
	mr = case_reg(c);
	if (!by_dma()) {
		ASSERT_EQ(NULL, mr);
		ASSERT_EQ(EINVAL, errno);
		return;
	}
	ASSERT_NE(NULL, mr);
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_EQ(EBUSY, gpu_move(&c->buf, MRFD_GPU_SYSTEM, 0));
	mr_close(mr);
}

/* By the CPU, through the I/O accessors; a device with DMA reaches it anyway. */
TEST_F(gpu, cpu_pin_leaves_the_buffer_in_vram)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	case_replace(c, GPU_VRAM, MRFD_GPU_ONLY | MRFD_GPU_CPU_PIN);
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	fill(c->buf.cpu, SIZE, 2);
	ASSERT_TRUE(rdma_reads(c, mr, 2));
	ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
	ASSERT_EQ(pins(), gpu_query(&c->buf).pins);
	ASSERT_EQ(0, gpu_query(&c->buf).moves);
	mr_close(mr);
}

TEST_F(gpu, move_of_a_pinned_buffer_is_ebusy)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	need_pins();
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_EQ(EBUSY, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
	ASSERT_EQ(EBUSY, gpu_move(&c->buf, MRFD_GPU_SYSTEM, 0));
	ASSERT_TRUE(rdma_reads(c, mr, 1));
	mr_close(mr);
	ASSERT_EQ(0, gpu_query(&c->buf).pins);
	ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
}

TEST_F(gpu, mr_follows_moves)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	need("follows-moves");
	mr = must(case_reg(c));
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(rdma_write(c, mr, i));
		ASSERT_EQ(0, gpu_move(&c->buf, i % 2 ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM, 0));
		ASSERT_EQ(0, gpu_query(&c->buf).maps);
		ASSERT_TRUE(rdma_reads(c, mr, i));
		ASSERT_EQ(i % 2 ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM, gpu_query(&c->buf).place);
		ASSERT_TRUE(filled(c->buf.cpu, SIZE, i, "buffer"));
	}
	ASSERT_EQ(10, gpu_query(&c->buf).moves);
	mr_close(mr);
}

/* The engine copies late; an importer or a mapping sees nothing before that. */
TEST_F(gpu, access_waits_for_the_end_of_a_move)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;
	double start;

	fill(c->buf.cpu, SIZE, 1);
	start = now();
	ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_SYSTEM, 300));
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_reads(c, mr, 1));
	ASSERT_LE(AT_LEAST(0.3), now() - start);
	mr_close(mr);

	start = now();
	ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_VRAM, 300));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_LE(AT_LEAST(0.3), now() - start);
}

TEST_F(gpu, buffer_can_move_between_registrations)
{
	struct gpu_case *c = &self->c;

	for (int i = 0; i < 6; i++) {
		struct ibv_mr *mr = must(case_reg(c));

		if (i)
			ASSERT_TRUE(rdma_reads(c, mr, i - 1));
		ASSERT_TRUE(rdma_write(c, mr, i));
		mr_close(mr);
		ASSERT_EQ(0, gpu_move(&c->buf, i % 2 ? MRFD_GPU_SYSTEM : MRFD_GPU_VRAM, 0));
		ASSERT_TRUE(filled(c->buf.cpu, SIZE, i, "buffer"));
	}
}

/* Other buffers take the VRAM: what is registered keeps its bytes wherever it is then. */
TEST_F(gpu, evicted_buffer_keeps_its_bytes)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr = must(case_reg(c));
	bool stays = by_dma() && pins();
	struct mrfd_gpu_query q;

	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_EQ(place_of(GPU_VRAM), gpu_query(&c->buf).place);
	take_vram(c);
	ASSERT_LT(0, gpu_info(&c->buf).evictions);
	q = gpu_query(&c->buf);
	ASSERT_EQ(stays ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM, q.place);
	if (by_dma()) /* Soft-RoCE's was not in VRAM any more */
		ASSERT_EQ(!stays, q.evictions);
	ASSERT_TRUE(rdma_reads(c, mr, 1));
	ASSERT_TRUE(rdma_write(c, mr, 2));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_TRUE(others_untouched(c));
	mr_close(mr);
}

/* The others get their VRAM when it has been copied out, and not before. */
TEST_F(gpu, late_eviction_keeps_the_bytes)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr = pins() ? NULL : must(case_reg(c));
	double start = now(), took;

	fill(c->buf.cpu, SIZE, 1);
	gpu_delay(&c->buf, 300);
	take_vram(c);
	took = now() - start;
	gpu_delay(&c->buf, 0);
	ASSERT_LE(AT_LEAST(0.3), took);
	ASSERT_EQ(1, gpu_query(&c->buf).evictions);
	if (mr)
		ASSERT_TRUE(rdma_reads(c, mr, 1));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_TRUE(others_untouched(c));
	mr_close(mr);
}

/* How many pages TTM may have before it swaps out; returns how many it might have. */
static long limit_ttm(long pages)
{
	static const char path[] = "/sys/module/ttm/parameters/pages_limit";
	FILE *f = must(fopen(path, "r+"));
	long before = -1;

	if (fscanf(f, "%ld", &before) != 1 || fseek(f, 0, SEEK_SET) ||
	    fprintf(f, "%ld", pages) < 0 || fclose(f))
		fail_case("read and write %s", path);
	return before;
}

/* Its pages go to the swap file of the GPU's driver, and come back with the next access. */
TEST_F(gpu, swapped_out_buffer_keeps_its_bytes)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;
	long limit;
	int err;

	need("follows-moves");
	case_replace(c, GPU_SYSTEM, 0);
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_EQ(1, gpu_query(&c->buf).maps);
	limit = limit_ttm(1);
	err = gpu_try_open(&c->other[0], GPU_SYSTEM, SIZE, 0);
	limit_ttm(limit);
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, gpu_query(&c->buf).maps);
	fill(c->other[0].cpu, SIZE, 100);
	ASSERT_TRUE(rdma_reads(c, mr, 1));
	ASSERT_TRUE(rdma_write(c, mr, 2));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_TRUE(filled(c->other[0].cpu, SIZE, 100, "another buffer"));
	mr_close(mr);
}

/* VRAM that is pinned is not evicted; what is not pinned, and is, loses no byte. */
TEST_F(gpu, pinned_vram_is_not_evicted)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	need_pins();
	case_replace(c, GPU_VRAM, MRFD_GPU_ONLY | MRFD_GPU_CPU_PIN);
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_write(c, mr, 1));
	take_vram(c);
	ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
	ASSERT_EQ(0, gpu_query(&c->buf).evictions);
	ASSERT_TRUE(rdma_reads(c, mr, 1));
	ASSERT_TRUE(rdma_write(c, mr, 2));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_TRUE(others_untouched(c));
	mr_close(mr);
}

/* There is no room, and what could be evicted would not make enough. */
TEST_F(gpu, alloc_without_room_in_vram_is_enomem)
{
	struct gpu_case *c = &self->c;
	uint64_t vram = gpu_info(&c->buf).vram_size;

	ASSERT_EQ(0, gpu_try_open(&c->other[0], GPU_VRAM, vram - 4 * SIZE, MRFD_GPU_PINNED));
	ASSERT_EQ(0, gpu_try_open(&c->other[1], GPU_VRAM, 3 * SIZE, 0));
	ASSERT_EQ(ENOMEM, gpu_try_open(&c->other[2], GPU_VRAM, 4 * SIZE + PAGE, 0));
	ASSERT_EQ(ENOMEM, gpu_try_open(&c->other[3], GPU_VRAM, vram + PAGE, 0));
	ASSERT_EQ(EINVAL, gpu_try_open(&c->other[4], GPU_VRAM, 1ul << 40, 0));
	memory_close(&c->other[0]);
	memory_close(&c->other[1]);
	ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
}

TEST_F(gpu, gpu_ioctls_refuse_invalid_arguments)
{
	static const struct mrfd_gpu_create creates[] = {
		{ .size = PAGE }, { .size = PAGE, .place = MRFD_GPU_VRAM | MRFD_GPU_SYSTEM },
		{ .place = MRFD_GPU_VRAM }, { .size = PAGE, .place = MRFD_GPU_VRAM, .flags = 8 },
		{ .size = PAGE, .place = MRFD_GPU_VRAM, .handle = 1 },
		{ .size = PAGE, .place = MRFD_GPU_VRAM, .reserved = 1 },
		{ .size = PAGE, .place = MRFD_GPU_VRAM, .offset = 1 },
	};
	static const struct mrfd_gpu_move moves[] = {
		{ .place = 0 }, { .place = MRFD_GPU_VRAM | MRFD_GPU_SYSTEM },
		{ .place = MRFD_GPU_SYSTEM, .reserved = 1 },
		{ .place = MRFD_GPU_SYSTEM, .delay_ms = 60001 },
	};
	int fd = self->c.buf.drm_fd;
	struct mrfd_gpu_query query = { .handle = self->c.buf.handle, .reserved = 1 };
	struct mrfd_gpu_move unknown = { .handle = 77, .place = MRFD_GPU_SYSTEM };

	for (int i = 0; i < ARRAY_SIZE(creates); i++) {
		struct mrfd_gpu_create create = creates[i];

		EXPECT_EQ(-1, drmIoctl(fd, DRM_IOCTL_MRFD_GPU_CREATE, &create)) {
			TH_LOG("create with invalid arguments %d succeeded", i);
		}
		EXPECT_EQ(EINVAL, errno);
	}
	for (int i = 0; i < ARRAY_SIZE(moves); i++) {
		struct mrfd_gpu_move move = moves[i];

		move.handle = self->c.buf.handle;
		EXPECT_EQ(-1, drmIoctl(fd, DRM_IOCTL_MRFD_GPU_MOVE, &move)) {
			TH_LOG("move with invalid arguments %d succeeded", i);
		}
		EXPECT_EQ(EINVAL, errno);
	}
	ASSERT_EQ(-1, drmIoctl(fd, DRM_IOCTL_MRFD_GPU_QUERY, &query));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, drmIoctl(fd, DRM_IOCTL_MRFD_GPU_MOVE, &unknown));
	ASSERT_EQ(ENOENT, errno);
	/* TTM deletes buffers late, so those of the last case may still be there. */
	for (double end = deadline(10); now() < end && gpu_info(&self->c.buf).buffers != 1;)
		usleep(100000);
	ASSERT_EQ(1, gpu_info(&self->c.buf).buffers);
}

/* A thread that moves the buffer and takes its VRAM for others, and how often it did. */
struct race {
	struct gpu_case *c;
	atomic_bool over;
	uint64_t random;
	atomic_long moved;
	long refused, taken, unexpected;
};

static void *keep_moving(void *arg)
{
	struct race *r = arg;
	struct memory *buf = &r->c->buf, other;
	size_t most = gpu_info(buf).vram_size / PAGE * PAGE;

	while (!r->over) {
		int err = gpu_move(buf, MRFD_GPU_VRAM << random_below(&r->random, 2),
				   random_below(&r->random, 3) ? 0 : 10);

		r->moved += !err;
		r->refused += err == EBUSY;
		r->unexpected += err && err != EBUSY && err != ENOMEM;
		if (!random_below(&r->random, 4)) {
			err = gpu_try_open(&other, GPU_VRAM, most, 0);
			r->taken += !err;
			r->unexpected += err && err != ENOMEM; /* the buffer was locked just then */
			memory_close(&other);
		}
		usleep(random_below(&r->random, 20000));
	}
	return NULL;
}

/*
 * A device that pins the buffer lets it move only between two regions: every second time until
 * it has, else for two milliseconds, so that a move may meet the end of one and the start of the
 * other.
 */
TEST_F_TIMEOUT(gpu, moves_during_traffic_keep_the_bytes, 60)
{
	struct gpu_case *c = &self->c;
	struct race r = { .c = c, .random = random_begin(random_seed(), 0) };
	struct ibv_mr *mr = NULL;
	long rounds = 0, moved;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_moving, &r));
	while (rounds < 2 * MOVES || r.moved < MOVES) {
		if (!mr)
			mr = must(case_reg(c));
		if (rounds)
			ASSERT_TRUE(rdma_reads(c, mr, rounds - 1));
		ASSERT_TRUE(rdma_write(c, mr, rounds++));
		ASSERT_TRUE(filled(c->buf.cpu, SIZE, rounds - 1, "buffer"));
		if (!pins())
			continue; /* the region follows */
		mr_close(mr);
		mr = NULL;
		moved = r.moved;
		do
			usleep(2000);
		while (rounds % 2 && r.moved == moved);
	}
	r.over = true;
	pthread_join(thread, NULL);
	TH_LOG("%ld rounds, %ld moves, %ld refused, VRAM taken %ld times", rounds, r.moved,
	       r.refused, r.taken);
	ASSERT_EQ(0, r.unexpected);
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, rounds - 1, "buffer"));
	mr_close(mr);
}

TEST_HARNESS_MAIN
