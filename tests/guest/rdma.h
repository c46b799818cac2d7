/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest cases share: a pair of connected RC queue pairs on one device,
 * and buffers from every exporter that the guest has.
 *
 * A helper either does its work or ends the case with a line that says what
 * failed and where, so that cases read as the behaviour they show.
 */
#ifndef RDMA_H
#define RDMA_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096ul

#define die(fmt, ...) do {						\
	fprintf(stderr, "# %s:%d: " fmt ": %s\n", __FILE__, __LINE__,	\
		##__VA_ARGS__, strerror(errno));			\
	_exit(1);							\
} while (0)

#define must(what) ({							\
	__typeof__(what) must_result = (what);				\
	if (!must_result)						\
		die("%s", #what);					\
	must_result;							\
})

/* rdma.c */
struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
};

struct ibv_context *open_device(const char *name);
void pair_open(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2]);
void pair_open_mtu(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2],
		   enum ibv_mtu mtu);
void pair_close(struct pair *p);
enum ibv_wc_status rdma_op(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, uint64_t local_addr, uint32_t length,
			   uint64_t remote_addr, uint32_t rkey);
enum ibv_wc_status atomic_op(struct pair *p, enum ibv_wr_opcode opcode,
			     struct ibv_mr *result, uint64_t remote_addr, uint32_t rkey,
			     uint64_t compare_add, uint64_t swap);
enum ibv_wc_status fetch_add_unchecked(struct pair *p, struct ibv_mr *result,
				       uint64_t remote_addr, uint32_t rkey);
enum ibv_wc_status atomic_write(struct pair *p, uint64_t remote_addr, uint32_t rkey,
				uint64_t value);
enum ibv_wc_status flush_op(struct pair *p, uint64_t remote_addr, size_t length, uint32_t rkey);
enum ibv_wc_status wait_wc(struct pair *p, struct ibv_wc *wc);
void post_recv(struct pair *p, struct ibv_mr *mr, uint64_t addr, uint32_t length);
long pinned_kb(void);

/* counts.c */
int mr_count(void);
long slab_objects(const char *cache);

/* exporter.c */
enum exporter { VGEM, UDMABUF, HEAP, VIRTIO_GPU, BOCHS, MEMFD };

struct buffer {
	int fd;			/* the dma-buf or the memfd */
	enum ibv_mr_fd_type type;	/* which of them */
	size_t size;
	uint8_t *cpu;		/* the same bytes, as another mapping shows them */
	int drm_fd;		/* of a DRM exporter, else -1 */
	uint32_t handle;
};

const char *exporter_missing(enum exporter e);
void buffer_open(struct buffer *b, enum exporter e, size_t size);
void buffer_close(struct buffer *b);
int dmabuf_count(void);
bool nothing_left(void);

/* pattern.c: bytes that tell by themselves where they belong */
void fill(uint8_t *p, size_t n, uint32_t seed);
bool filled(const uint8_t *p, size_t n, uint32_t seed, const char *what);
bool only_changed(const uint8_t *now, const uint8_t *before, size_t size,
		  size_t from, size_t n);

#endif
