// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The messages of vfio-user, one function each (QEMU, docs/interop/vfio-user.rst; the
 * constants and most layouts are those of <linux/vfio.h>).  What is not here is answered
 * with EOPNOTSUPP: migration, I/O by descriptors, interrupts that can be masked.
 *
 * The invariant: a handler gets a body of at least the length that messages[] says, copies
 * a structure out of it before it looks at a field, and leaves descriptors alone, except
 * that it sets one to -1 when it keeps it.
 */
#include "vfio_msg.h"
#include "dma.h"
#include "trace.h"
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_CAPS 160		/* our capabilities, in JSON */

enum {
	MSG_DMA_MAP = 2, MSG_DMA_UNMAP = 3, MSG_GET_INFO = 4,
	MSG_REGION_INFO = 5, MSG_IRQ_INFO = 7, MSG_SET_IRQS = 8, MSG_REGION_READ = 9,
	MSG_REGION_WRITE = 10, MSG_RESET = 13, MSG_WRITE_MULTI = 15, MSGS,
};

struct dma_map_msg {
	uint32_t argsz, flags;
	uint64_t offset, addr, size;
};

struct dma_unmap_msg {
	uint32_t argsz, flags;
	uint64_t addr, size;
};

struct write_one {
	struct access_msg access;
	uint8_t data[8];
};

/* The structures of <linux/vfio.h> grow; these messages are as long as they were. */
_Static_assert(sizeof(struct vfio_region_info) == 32, "DEVICE_GET_REGION_INFO");
_Static_assert(sizeof(struct vfio_irq_info) == 16, "DEVICE_GET_IRQ_INFO");
_Static_assert(sizeof(struct vfio_irq_set) == 20, "DEVICE_SET_IRQS");

static void set_eventfd(struct vfu *v, unsigned int vector, int fd)
{
	if (v->eventfd[vector] >= 0)
		close(v->eventfd[vector]);
	v->eventfd[vector] = fd;
	if (fd >= 0 && v->pending & 1ull << vector)
		vfu_raise(v, vector);
}

void vfu_raise(struct vfu *v, unsigned int vector)
{
	uint64_t one = 1;

	if (vector >= v->ops->vectors)
		return;
	if (v->held || v->eventfd[vector] < 0) {
		v->pending |= 1ull << vector;
		return;
	}
	v->pending &= ~(1ull << vector);
	/* EAGAIN: the counter is full, so QEMU has an interrupt to see anyway. */
	if (write(v->eventfd[vector], &one, sizeof(one)) < 0 && errno != EAGAIN)
		note("an interrupt is lost: vector %u: %s", vector, strerror(errno));
}

void vfu_hold(struct vfu *v, bool held)
{
	v->held = held;
	for (unsigned int i = 0; !held && i < v->ops->vectors; i++)
		if (v->pending & 1ull << i)
			vfu_raise(v, i);
}

void vfu_drop_vectors(struct vfu *v)
{
	for (unsigned int i = 0; i < v->ops->vectors; i++)
		set_eventfd(v, i, -1);
}

uint64_t vfu_pending(const struct vfu *v)
{
	return v->pending;
}

void vfu_lower_all(struct vfu *v)
{
	v->pending = 0;
}

/*
 * Whether QEMU's capabilities, an object in JSON, have KEY with the value true.  The
 * key is a word that no other key or value contains, so this needs no parser.
 */
static bool offers(const char *json, const char *key)
{
	const char *p = strstr(json, key);

	if (!p)
		return false;
	p += strlen(key);
	p += strspn(p, " \t\r\n");
	if (*p++ != ':')
		return false;
	p += strspn(p, " \t\r\n");
	return !strncmp(p, "true", 4);
}

static int do_version(struct vfu *v, struct request *r)
{
	uint16_t version[2];
	const char *json = (const char *)r->body + sizeof(version);
	bool multi = false;

	memcpy(version, r->body, sizeof(version));
	if (version[0] != 0)
		note("QEMU speaks vfio-user %u.%u, and this is 0.0", version[0], version[1]);
	if (v->versioned || version[0] != 0)
		return MALFORMED;
	if (r->len > sizeof(version)) {
		if (r->body[r->len - 1])
			return MALFORMED;
		multi = offers(json, "\"write_multiple\"");
	}
	v->versioned = true;
	version[1] = 0;
	memcpy(r->out, version, sizeof(version));
	r->out_len = sizeof(version) + 1 +
		snprintf((char *)r->out + sizeof(version), MAX_CAPS,
			 "{\"capabilities\":{\"max_msg_fds\":%d,\"max_data_xfer_size\":%d,"
			 "\"max_dma_maps\":%d%s}}", MAX_FDS, MAX_DATA, DMA_REGIONS,
			 multi ? ",\"write_multiple\":true" : "");
	return 0;
}

static int do_dma_map(struct vfu *v, struct request *r)
{
	struct dma_map_msg m;
	int ret;

	memcpy(&m, r->body, sizeof(m));
	/* Memory that may only be written is of no use: a mapping can always be read. */
	if (r->fds > 1 || !(m.flags & VFIO_DMA_MAP_FLAG_READ) ||
	    m.flags & ~(uint32_t)(VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE))
		return -EINVAL;
	ret = dma_map(v->dma, m.addr, m.size, r->fds ? r->fd[0] : -1, m.offset,
		      m.flags & VFIO_DMA_MAP_FLAG_WRITE);
	trace("dma map %#llx+%#llx %s%s: %s", (unsigned long long)m.addr,
	      (unsigned long long)m.size, r->fds ? "fd" : "no fd",
	      m.flags & VFIO_DMA_MAP_FLAG_WRITE ? "" : " read only", ret ? strerror(-ret) : "ok");
	if (ret)
		note("guest memory at %#llx (%#llx bytes) is out of reach: %s",
		     (unsigned long long)m.addr, (unsigned long long)m.size, strerror(-ret));
	return ret;
}

static int do_dma_unmap(struct vfu *v, struct request *r)
{
	struct dma_unmap_msg m;
	int ret = 0;

	memcpy(&m, r->body, sizeof(m));
	if (m.flags & ~(uint32_t)VFIO_DMA_UNMAP_FLAG_ALL)
		return -EINVAL;
	if (m.flags & VFIO_DMA_UNMAP_FLAG_ALL)
		dma_unmap_all(v->dma);
	else
		ret = dma_unmap(v->dma, m.addr, m.size);
	trace("dma unmap %#llx+%#llx: %s", (unsigned long long)m.addr,
	      (unsigned long long)m.size, ret ? strerror(-ret) : "ok");
	memcpy(r->out, &m, sizeof(m));
	r->out_len = sizeof(m);
	return ret;
}

static int do_get_info(struct vfu *v, struct request *r)
{
	const uint32_t info[4] = {
		sizeof(info), VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI,
		VFU_REGIONS, VFIO_PCI_NUM_IRQS,
	};
	uint32_t argsz;

	memcpy(&argsz, r->body, sizeof(argsz));
	if (argsz < sizeof(info))
		return -EINVAL;
	memcpy(r->out, info, sizeof(info));
	r->out_len = sizeof(info);
	return 0;
}

static int do_region_info(struct vfu *v, struct request *r)
{
	struct vfio_region_info info;

	memcpy(&info, r->body, sizeof(info));
	if (info.argsz < sizeof(info) || info.index >= VFU_REGIONS)
		return -EINVAL;
	/* Not VFIO_REGION_INFO_FLAG_MMAP: all accesses come as messages, writes posted. */
	info = (struct vfio_region_info) {
		.argsz = sizeof(info), .index = info.index,
		.size = v->ops->region_size[info.index],
	};
	if (info.size)
		info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
	memcpy(r->out, &info, sizeof(info));
	r->out_len = sizeof(info);
	return 0;
}

static int do_irq_info(struct vfu *v, struct request *r)
{
	struct vfio_irq_info info;

	memcpy(&info, r->body, sizeof(info));
	if (info.argsz < sizeof(info) || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	info.argsz = sizeof(info);
	info.flags = info.count = 0;
	if (info.index == VFIO_PCI_MSIX_IRQ_INDEX) {
		/* Not VFIO_IRQ_INFO_NORESIZE: vectors may come one by one. */
		info.flags = VFIO_IRQ_INFO_EVENTFD;
		info.count = v->ops->vectors;
	}
	memcpy(r->out, &info, sizeof(info));
	r->out_len = sizeof(info);
	return 0;
}

static int assign_vectors(struct vfu *v, struct request *r, uint32_t start, uint32_t count)
{
	/* No descriptor at all takes those away that the vectors have. */
	if (r->fds && r->fds != count)
		return -EINVAL;
	/* A write to it must not block the loop. */
	for (unsigned int i = 0; i < r->fds; i++) {
		int flags = fcntl(r->fd[i], F_GETFL);

		if (flags < 0 || (!(flags & O_NONBLOCK) &&
				  fcntl(r->fd[i], F_SETFL, flags | O_NONBLOCK)))
			return -errno;
	}
	for (uint32_t i = 0; i < count; i++) {
		set_eventfd(v, start + i, r->fds ? r->fd[i] : -1);
		if (r->fds)
			r->fd[i] = -1;
	}
	return 0;
}

static int do_set_irqs(struct vfu *v, struct request *r)
{
	struct vfio_irq_set m;

	memcpy(&m, r->body, sizeof(m));
	trace("set irqs index %u flags %#x start %u count %u fds %u", m.index, m.flags, m.start,
	      m.count, r->fds);
	if (m.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	if (m.index != VFIO_PCI_MSIX_IRQ_INDEX)
		return m.count ? -EINVAL : 0;
	if (m.start > v->ops->vectors || m.count > v->ops->vectors - m.start)
		return -EINVAL;

	switch (m.flags) {
	case VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER:
		return assign_vectors(v, r, m.start, m.count);
	case VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER:
		if (!m.count)	/* all of them, by definition */
			vfu_drop_vectors(v);
		for (uint32_t i = 0; i < m.count; i++)
			vfu_raise(v, m.start + i);
		return 0;
	default:
		/* They cannot be masked, as do_irq_info() says. */
		return -EOPNOTSUPP;
	}
}

static bool in_region(const struct vfu *v, const struct access_msg *m)
{
	uint64_t size = m->region < VFU_REGIONS ? v->ops->region_size[m->region] : 0;

	return m->offset <= size && m->count <= size - m->offset;
}

/* The largest piece that is aligned, as the bus would carry it. */
static size_t piece(uint64_t offset, size_t left)
{
	size_t n = 8;

	while (offset % n || n > left)
		n /= 2;
	return n;
}

static int do_region_read(struct vfu *v, struct request *r)
{
	struct access_msg m;

	memcpy(&m, r->body, sizeof(m));
	if (m.count > MAX_DATA || !in_region(v, &m))
		return -EINVAL;
	memcpy(r->out, &m, sizeof(m));
	r->out_len = sizeof(m) + m.count;
	for (size_t done = 0, n; done < m.count; done += n) {
		n = piece(m.offset + done, m.count - done);
		v->ops->read(v->arg, m.region, m.offset + done, r->out + sizeof(m) + done, n);
	}
	return 0;
}

static int region_write(struct vfu *v, const struct access_msg *m, const uint8_t *data)
{
	if (!in_region(v, m))
		return -EINVAL;
	for (size_t done = 0, n; done < m->count; done += n) {
		n = piece(m->offset + done, m->count - done);
		v->ops->write(v->arg, m->region, m->offset + done, data + done, n);
	}
	return 0;
}

static int do_region_write(struct vfu *v, struct request *r)
{
	struct access_msg m;

	memcpy(&m, r->body, sizeof(m));
	if (m.count > MAX_DATA || r->len - sizeof(m) != m.count)
		return MALFORMED;
	memcpy(r->out, &m, sizeof(m));
	r->out_len = sizeof(m);
	return region_write(v, &m, r->body + sizeof(m));
}

static int do_write_multi(struct vfu *v, struct request *r)
{
	struct write_one one;
	uint64_t count;
	int ret = 0;

	memcpy(&count, r->body, sizeof(count));
	if (count > MAX_MESSAGE / sizeof(one) || r->len != sizeof(count) + count * sizeof(one))
		return MALFORMED;
	memcpy(r->out, &count, sizeof(count));
	r->out_len = sizeof(count);
	for (uint64_t i = 0; i < count; i++) {
		int err;

		memcpy(&one, r->body + sizeof(count) + i * sizeof(one), sizeof(one));
		if (one.access.count > sizeof(one.data))
			return MALFORMED;
		/* One that is refused does not hold those up that follow it. */
		err = region_write(v, &one.access, one.data);
		if (!ret)
			ret = err;
	}
	return ret;
}

static int do_reset(struct vfu *v, struct request *r)
{
	trace("device reset");
	vfu_lower_all(v);
	v->ops->reset(v->arg);
	return 0;
}

/* By command; LEN is what the body must have at least. */
static const struct {
	const char *name;
	size_t len;
	int (*run)(struct vfu *v, struct request *r);
} messages[MSGS] = {
	[MSG_VERSION] = { "VERSION", 4, do_version },
	[MSG_DMA_MAP] = { "DMA_MAP", sizeof(struct dma_map_msg), do_dma_map },
	[MSG_DMA_UNMAP] = { "DMA_UNMAP", sizeof(struct dma_unmap_msg), do_dma_unmap },
	[MSG_GET_INFO] = { "DEVICE_GET_INFO", 16, do_get_info },
	[MSG_REGION_INFO] = { "DEVICE_GET_REGION_INFO", sizeof(struct vfio_region_info),
			      do_region_info },
	[MSG_IRQ_INFO] = { "DEVICE_GET_IRQ_INFO", sizeof(struct vfio_irq_info), do_irq_info },
	[MSG_SET_IRQS] = { "DEVICE_SET_IRQS", sizeof(struct vfio_irq_set), do_set_irqs },
	[MSG_REGION_READ] = { "REGION_READ", sizeof(struct access_msg), do_region_read },
	[MSG_REGION_WRITE] = { "REGION_WRITE", sizeof(struct access_msg), do_region_write },
	[MSG_RESET] = { "DEVICE_RESET", 0, do_reset },
	[MSG_WRITE_MULTI] = { "REGION_WRITE_MULTI", 8, do_write_multi },
};

const char *vfu_message_name(unsigned int command)
{
	return command < MSGS && messages[command].name ? messages[command].name : "message";
}

int vfu_message(struct vfu *v, unsigned int command, struct request *r)
{
	if (command >= MSGS || !messages[command].run)
		return -EOPNOTSUPP;
	if (r->len < messages[command].len)
		return MALFORMED;
	return messages[command].run(v, r);
}
