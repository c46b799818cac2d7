// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full; devices: connectx */
/*
 * The kernel uses the I/O accessors for a dma-buf in I/O memory, and never for one in system
 * memory.
 *
 * Kprobes watch the kernel's memcpy_toio() and memcpy_fromio().  QEMU's VRAM can be
 * reached by a plain memcpy() too, so no other case would notice the wrong one.
 */
#include "exporters/test_buffer.h"
#include "lib/fd_mr.h"
#include <fcntl.h>

#define TRACING "/sys/kernel/tracing/"
#define LENGTH 10000
#define PACKETS ((LENGTH + 1023) / 1024)	/* one access for each; path MTU 1024 */

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_APPEND);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_case("write \"%s\" to %s", text, file);
	close(fd);
}

/* How often the kernel has reached a probe. */
static long hits(const char *probe)
{
	FILE *f = must(fopen(TRACING "kprobe_profile", "r"));
	char name[64];
	long n, missed;

	while (fscanf(f, "%63s %ld %ld", name, &n, &missed) == 3) {
		if (!strcmp(name, probe)) {
			fclose(f);
			return n;
		}
	}
	fail_case("no kprobe %s in kprobe_profile", probe);
}

static void probes_off(void)
{
	put(TRACING "events/mrfd/enable", "0");
	put(TRACING "kprobe_events", "-:mrfd/toio\n-:mrfd/fromio\n");
}

static void probes_on(void)
{
	if (access(TRACING "kprobe_events", W_OK))
		fail_case("the guest has no tracefs with kprobes");
	if (!access(TRACING "events/mrfd", F_OK))
		probes_off();	/* a case that failed has left them */
	put(TRACING "kprobe_events", "p:mrfd/toio memcpy_toio\np:mrfd/fromio memcpy_fromio\n");
	put(TRACING "events/mrfd/enable", "1");
}

/* Write, read, and count for each how often the kernel used an I/O accessor. */
static void count_io(struct pair *pair, const struct memory *host, struct ibv_mr *host_mr,
		     struct ibv_mr *mr, long *to, long *from)
{
	probes_on();
	*to = hits("toio");
	*from = hits("fromio");
	fill(host->cpu, LENGTH, 1);
	if (rdma_op(pair, IBV_WR_RDMA_WRITE, host_mr, host->iova, LENGTH, IOVA + 3, mr->rkey))
		fail_case("RDMA write");
	*to = hits("toio") - *to;
	if (rdma_op(pair, IBV_WR_RDMA_READ, host_mr, host->iova, LENGTH, IOVA + 3, mr->rkey))
		fail_case("RDMA read");
	*from = hits("fromio") - *from;
	probes_off();
	if (!filled(host->cpu, LENGTH, 1, "read back"))
		fail_case("RDMA read returned other bytes than were written");
}

TEST_F(fd_mr, io_accessors_are_used_for_io_memory_only)
{
	long packets = variant->kind == QXL ? PACKETS : 0, to, from;

	need("vmap");
	count_io(&self->pair, &self->host, self->host_mr, self->mr, &to, &from);
	ASSERT_EQ(packets, to);
	ASSERT_EQ(packets, from);
}

FIXTURE_VARIANT(buffer)
{
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(buffer, system_memory) { .flags = 0 };
FIXTURE_VARIANT_ADD(buffer, io_memory) { .flags = DMABUF_TEST_IOMEM };

FIXTURE_SETUP(buffer)
{
	need("vmap");
	buffer_open(self, variant->flags);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

TEST_F(buffer, io_accessors_are_used_if_the_exporter_says)
{
	long packets = variant->flags & DMABUF_TEST_IOMEM ? PACKETS : 0, to, from;
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

	count_io(&self->pair, &self->host, self->host_mr, mr, &to, &from);
	ASSERT_EQ(packets, to);
	ASSERT_EQ(packets, from);
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_HARNESS_MAIN
