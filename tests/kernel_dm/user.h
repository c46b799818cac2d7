/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A user of device memory (DM): what it has, and what it can do.  main.c has the head.
 *
 * Functions return 0 or a negative errno.  -EPROTO means that something is not as it should
 * be; user.text says what.  Whatever fails, user_release() and user_close() end what there is.
 */
#ifndef KERNEL_DM_USER_H
#define KERNEL_DM_USER_H

#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <rdma/ib_dm.h>
#include <rdma/ib_verbs.h>

#define MOST_DMS 512
#define MOST_MRS 8
#define HOST_SIZE SZ_64K

/**
 * struct dm_user - a user
 * @entry: in the list of those that have a device
 * @device: its device, or NULL
 * @port: of the device
 * @pd: protection domain of all that it has
 * @cq: of both queue pairs; only sends complete there
 * @qp: connected to each other; one is the peer of the other
 * @host: ordinary memory, of HOST_SIZE, that the device reaches by the local_dma_lkey
 * @host_dma: its address for the device
 * @dm: device memory, @dms of it
 * @mr: regions of it, @mrs of them
 * @text: the result of the last command, or what was wrong
 */
struct dm_user {
	struct list_head entry;
	struct ib_device *device;
	u32 port;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2];
	u8 *host;
	u64 host_dma;
	struct ib_dm *dm[MOST_DMS];
	unsigned int dms;
	struct ib_mr *mr[MOST_MRS];
	unsigned int mrs;
	char text[200];
};

/* Say what is wrong; the result is -EPROTO. */
int user_finds(struct dm_user *u, const char *fmt, ...) __printf(2, 3);

/* Return from the function unless it is so. */
#define EXPECT(u, is_so, fmt, ...) do {					\
	if (!(is_so))							\
		return user_finds(u, "line %d: " fmt, __LINE__, ##__VA_ARGS__); \
} while (0)

/* --- verbs.c */

/* Protection domain, queue pairs, ordinary memory. */
int user_open(struct dm_user *u, struct ib_device *device);
/* The other way round; also what user_open() has left undone, and with all DM. */
void user_close(struct dm_user *u);
/* Connect the queue pairs to each other, also again. */
int user_connect(struct dm_user *u);
/* Connect the first one to another queue pair of the device, that of a process. */
int user_connect_to(struct dm_user *u, u32 qpn);

/* DM and regions that user_release() ends; NULL if there is an error. */
int user_alloc(struct dm_user *u, u64 length, struct ib_dm **dm);
int user_reg(struct dm_user *u, struct ib_dm *dm, u64 offset, u64 length, int access,
	     struct ib_mr **mr);
/* Of the last one that was made. */
void user_dereg_last(struct dm_user *u);
/* Every region and all DM. */
void user_release(struct dm_user *u);

/* What a work request names. */
struct place {
	u64 addr;
	u32 key;
};

static inline struct place in_host(const struct dm_user *u, u64 at)
{
	return (struct place){ u->host_dma + at, u->pd->local_dma_lkey };
}

static inline struct place of_lkey(const struct ib_mr *mr, u64 at)
{
	return (struct place){ at, mr->lkey };
}

static inline struct place of_rkey(const struct ib_mr *mr, u64 at)
{
	return (struct place){ at, mr->rkey };
}

/*
 * Queue pair END does it; the other one is its peer.  The result is the status of the
 * completion (enum ib_wc_status), or a negative errno.  After another one than IB_WC_SUCCESS
 * the queue pairs have to be connected again.
 */
int user_rdma(struct dm_user *u, int end, enum ib_wr_opcode opcode, struct place local, u32 length,
	      struct place remote);
int user_fetch_add(struct dm_user *u, int end, struct place result, struct place remote, u64 add);
/* Ordinary memory, for the CPU and back for the device. */
void user_host_for_cpu(struct dm_user *u);
void user_host_for_device(struct dm_user *u);

/* --- pattern.c */

#define READS IB_ACCESS_REMOTE_READ
#define WRITES (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE)
#define PUT IB_WR_RDMA_WRITE
#define GET IB_WR_RDMA_READ

/* A device with the memory in a BAR copies whole words. */
#define WORD sizeof(u32)

/* The pattern of tests/lib/pattern.c. */
void fill(u8 *p, size_t n, u32 seed);
/* Byte 0 of SEED's pattern is at AT. */
int put_pattern(struct dm_user *u, struct ib_dm *dm, u64 at, size_t n, u32 seed);
int check_pattern(struct dm_user *u, struct ib_dm *dm, u64 at, size_t n, u32 seed);
int put64(struct ib_dm *dm, u64 at, u64 value);
u64 get64(struct ib_dm *dm, u64 at);

/* --- What the commands of the same names do */

/* work.c */
int run_counter(struct dm_user *u, const char *arg);
int run_serve(struct dm_user *u, const char *arg);
int run_served(struct dm_user *u, const char *arg);
int run_ring(struct dm_user *u, const char *arg);
int run_copy(struct dm_user *u, const char *arg);
int run_regions(struct dm_user *u, const char *arg);
/* limits.c */
int run_two(struct dm_user *u, const char *arg);
int run_ranges(struct dm_user *u, const char *arg);
int run_too_much(struct dm_user *u, const char *arg);
int run_budget(struct dm_user *u, const char *arg);
/* A PD of OTHER has nothing to do with the DM. */
int run_foreign(struct dm_user *u, struct ib_device *other);
/* held.c */
int run_hold(struct dm_user *u, const char *arg);
int run_take(struct dm_user *u, const char *arg);
int run_fill(struct dm_user *u, const char *arg);
int run_is_zero(struct dm_user *u, const char *arg);
int run_is_held(struct dm_user *u, const char *arg);
/* exported.c */
int run_importer(struct dm_user *u, const char *arg);
int run_export(struct dm_user *u, const char *arg);

#endif
