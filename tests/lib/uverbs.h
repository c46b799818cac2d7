/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls to the kernel without the library: ioctl() methods, and write() commands where the
 * kernel has such a command for the same thing, or has nothing else.
 *
 * A struct fd_call says what a registration or rereg by fd asks for.  msg_of() makes a
 * message of it, in which a case can put a mistake before it sends it.  Functions that send
 * return 0 or an errno.
 */
#ifndef LIB_UVERBS_H
#define LIB_UVERBS_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum entry { BY_IOCTL, BY_WRITE, NR_ENTRIES };

extern const char *const entry_name[NR_ENTRIES];

struct fd_call {
	bool rereg;
	uint32_t mr;		/* for a rereg only, like flags */
	uint32_t flags;
	uint32_t pd;
	uint32_t access;
	uint64_t iova;
	/* The same fields as struct ib_uverbs_buffer_desc; an ioctl() message points here. */
	uint32_t type;
	int32_t fd;
	uint32_t desc_flags;
	uint32_t optional_flags;
	uint64_t offset;
	uint64_t length;
};

struct keys {
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

#define MSG_ATTRS 24

/* The argument of ioctl(). */
union msg {
	struct ib_uverbs_ioctl_hdr hdr;
	uint8_t bytes[sizeof(struct ib_uverbs_ioctl_hdr) +
		      MSG_ATTRS * sizeof(struct ib_uverbs_attr)];
};

void msg_begin(union msg *m, uint16_t object, uint16_t method);
struct ib_uverbs_attr *msg_add(union msg *m, uint16_t id, uint16_t len, uint64_t data);
struct ib_uverbs_attr *msg_find(union msg *m, uint16_t id);
void msg_length(union msg *m);
int msg_send(int cmd_fd, union msg *m);
void msg_of(union msg *m, const struct fd_call *c, struct keys *keys);	/* uses *C until sent */

int wcmd_send(int cmd_fd, const void *w, size_t size);

/* KEYS is filled in on success. */
int fd_call(int cmd_fd, const struct fd_call *c, struct keys *keys);
int host_reg(int cmd_fd, uint32_t pd, uint64_t start, uint64_t length, uint64_t iova,
	     uint32_t access, struct keys *keys);
int host_rereg(int cmd_fd, uint32_t mr, uint32_t flags, uint32_t pd, uint64_t start,
	       uint64_t length, uint64_t iova, uint32_t access, struct keys *keys);
int dmabuf_reg(int cmd_fd, uint32_t pd, int fd, uint64_t offset, uint64_t length, uint64_t iova,
	       uint32_t access, struct keys *keys);
int mr_dereg(int cmd_fd, enum entry e, uint32_t mr);
int mw_alloc(int cmd_fd, uint32_t pd);	/* a window of type 1 */

/* CAPS is enum ib_uverbs_buffer_caps. */
int buffer_caps(int cmd_fd, uint64_t type, uint32_t *caps);
void buffer_caps_of(union msg *m, uint64_t type, uint32_t *caps);	/* its message */

struct mr_info {
	uint32_t lkey;
	uint32_t rkey;
	uint64_t length;
	uint64_t iova;
};

int mr_query(int cmd_fd, uint32_t mr, struct mr_info *info);

/* A context of its own, without the library. */
struct raw {
	int fd;
	int async_fd;	/* or -1 */
};

int raw_open(struct raw *raw, const char *dev, enum entry e);
int raw_get_context(struct raw *raw, enum entry e);
void raw_close(struct raw *raw);
int raw_alloc_pd(struct raw *raw, uint32_t *pd);

#endif
