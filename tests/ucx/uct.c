// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: uct TRANSPORT
 *
 * In each of two guests, with Debian's UCX as it is: guest 1, the requester, puts into memory of
 * guest 0, the owner, gets from it and adds to it, by UCX's transport API.  Both have a dma-buf,
 * which UCX registers by its fd.  The address that it gets is an iova at which nothing is mapped
 * (lib/memory.h), so there is no other way for it.
 *
 * Both compare all bytes by a mapping that UCX does not know.  Each prints "case NAME: ok"; the
 * owner of a buffer in VRAM also where it lies there, and some of its bytes.  A device without
 * peer-to-peer has the GPU move it to system memory.  What is wrong ends the program with
 * status 1.
 *
 * uct_md_mem_reg_v2() is exported, and its header is not installed: what is used of it is here.
 */
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/guests.h"
#include "lib/memory.h"
#include "lib/pattern.h"
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uct/api/uct.h>
#include <unistd.h>

#define SIZE (1ul << 20)
#define WORD 64		/* the offset of the word that is added to */
#define ADDEND 5
#define LIMIT 60	/* seconds, of an idle machine, for all of one buffer */

enum { REG_FLAGS = 1, REG_FD = 2, REG_OFFSET = 4 };
typedef struct {
	uint64_t field_mask, flags;
	int dmabuf_fd;
	size_t dmabuf_offset;
} uct_md_mem_reg_params_t;
ucs_status_t uct_md_mem_reg_v2(uct_md_h md, void *address, size_t length,
			       const uct_md_mem_reg_params_t *params, uct_mem_h *memh);

static const struct scenario {
	const char *name;
	enum memory_kind owner, requester;
} scenarios[] = {
	{ "udmabuf_and_vgem", UDMABUF, VGEM },
	{ "vgem_and_heap", VGEM, HEAP },
	{ "heap_and_virtio_gpu", HEAP, VIRTIO_GPU },
	{ "virtio_gpu_and_udmabuf", VIRTIO_GPU, UDMABUF },
	{ "qxl_and_qxl", QXL, QXL },	/* for the CPU only */
	{ "vram_and_vgem", GPU_VRAM, VGEM },
	{ "vram_and_vram", GPU_VRAM, GPU_VRAM },
};

/* UCX's objects, from the device down to the connection. */
struct stack {
	uct_component_h component;
	uct_md_h md;
	ucs_async_context_t *async;
	uct_worker_h worker;
	uct_iface_h iface;
	uct_iface_attr_t attr;
	uct_md_attr_t md_attr;
	uct_ep_h ep;
};

/* What a guest tells the other one of its end. */
struct address {
	uint8_t device[128], iface[128], ep[128], key[512];
	uint64_t memory;
};

static void check(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		fail_case("%s: %s", what, ucs_status_string(status));
}
#define ok(what) check(what, #what)

/* The component "ib" has a memory domain for each device, of the device's name. */
static void open_md(struct stack *s, const char *device)
{
	uct_component_h *all;
	unsigned int n;

	ok(uct_query_components(&all, &n));
	for (unsigned int i = 0; i < n && !s->md; i++) {
		uct_component_attr_t attr = {
			.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
				      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT,
		};
		uct_md_config_t *config;

		ok(uct_component_query(all[i], &attr));
		if (strcmp(attr.name, "ib") || !attr.md_resource_count)
			continue;
		ok(uct_md_config_read(all[i], NULL, NULL, &config));
		ok(uct_md_open(all[i], device, config, &s->md));
		uct_config_release(config);
		s->component = all[i];
	}
	uct_release_component_list(all);
	if (!s->md)
		fail_case("UCX has no InfiniBand device");
	ok(uct_md_query(s->md, &s->md_attr));
	if (!(s->md_attr.cap.flags & UCT_MD_FLAG_REG_DMABUF))
		fail_case("UCX says that %s cannot register dma-bufs", device);
}

static void open_iface(struct stack *s, const char *transport)
{
	uct_tl_resource_desc_t *all;
	unsigned int n, i = 0;
	uct_iface_config_t *config;
	uct_iface_params_t params = {
		.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
		.open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
	};

	ok(uct_md_query_tl_resources(s->md, &all, &n));
	while (i < n && strcmp(all[i].tl_name, transport))
		i++;
	if (i == n)
		fail_case("UCX has no transport %s on the device", transport);
	params.mode.device.tl_name = all[i].tl_name;
	params.mode.device.dev_name = all[i].dev_name;
	ok(uct_md_iface_config_read(s->md, transport, NULL, NULL, &config));
	ok(uct_iface_open(s->md, s->worker, &params, config, &s->iface));
	uct_config_release(config);
	uct_release_tl_resource_list(all);
	ok(uct_iface_query(s->iface, &s->attr));
	uct_iface_progress_enable(s->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

static bool connects_to_ep(const struct stack *s)
{
	return s->attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_EP;
}

static void tell_address(struct stack *s, uct_mem_h memh, const struct memory *m, int tcp)
{
	struct address a = { .memory = m->iova };

	if (s->attr.device_addr_len > sizeof(a.device) || s->attr.iface_addr_len > sizeof(a.iface) ||
	    s->attr.ep_addr_len > sizeof(a.ep) || s->md_attr.rkey_packed_size > sizeof(a.key))
		fail_case("UCX's addresses are longer than struct address");
	ok(uct_iface_get_device_address(s->iface, (void *)a.device));
	if (s->attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE)
		ok(uct_iface_get_address(s->iface, (void *)a.iface));
	if (connects_to_ep(s)) {
		uct_ep_params_t params = {
			.field_mask = UCT_EP_PARAM_FIELD_IFACE, .iface = s->iface,
		};

		ok(uct_ep_create(&params, &s->ep));
		ok(uct_ep_get_address(s->ep, (void *)a.ep));
	}
	ok(uct_md_mkey_pack(s->md, memh, a.key));
	say(tcp, &a, sizeof(a));
}

static void connect_ep(struct stack *s, const struct address *far)
{
	uct_ep_params_t params = {
		.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
			      UCT_EP_PARAM_FIELD_IFACE_ADDR,
		.iface = s->iface, .dev_addr = (void *)far->device, .iface_addr = (void *)far->iface,
	};

	if (connects_to_ep(s))
		ok(uct_ep_connect_to_ep(s->ep, (void *)far->device, (void *)far->ep));
	else
		ok(uct_ep_create(&params, &s->ep));
}

/* Completions */

struct request {
	uct_completion_t done;	/* first: UCX gives it back */
	bool over;
};

static void request_over(uct_completion_t *done)
{
	((struct request *)done)->over = true;
}

/* Until the request, whose post gave STATUS, has ended. */
static void finish(struct stack *s, struct request *r, ucs_status_t status, const char *what)
{
	double end = deadline(LIMIT);

	if (status != UCS_INPROGRESS) {
		check(status, what);
		return;
	}
	while (!r->over) {
		uct_worker_progress(s->worker);
		if (now() > end)
			fail_case("%s: no completion", what);
	}
	check(r->done.status, what);
}

/* Post until there is room for it, then wait for its end. */
#define run(s, post) do {								\
	struct request r = { .done = { .func = request_over, .count = 1 } };		\
	double run_end = deadline(LIMIT);						\
	ucs_status_t run_status;							\
											\
	while ((run_status = (post)) == UCS_ERR_NO_RESOURCE && now() < run_end)		\
		uct_worker_progress((s)->worker);					\
	finish(s, &r, run_status, #post);						\
} while (0)

static void move(struct stack *s, bool get, const struct memory *m, uct_mem_h memh,
		 uint64_t far, uct_rkey_t key)
{
	size_t most = get ? s->attr.cap.get.max_zcopy : s->attr.cap.put.max_zcopy;

	for (size_t at = 0; at < SIZE;) {
		size_t n = SIZE - at < most ? SIZE - at : most;
		uct_iov_t iov = {
			.buffer = (void *)(m->iova + at), .length = n, .memh = memh, .count = 1,
		};

		if (get)
			run(s, uct_ep_get_zcopy(s->ep, &iov, 1, far + at, key, &r.done));
		else
			run(s, uct_ep_put_zcopy(s->ep, &iov, 1, far + at, key, &r.done));
		at += n;
	}
	run(s, uct_ep_flush(s->ep, 0, &r.done));
}

/* The two ends */

static uint64_t word_of(const struct memory *m)
{
	uint64_t word;

	memcpy(&word, m->cpu + WORD, sizeof(word));
	return word;
}

static void requester(struct stack *s, const struct memory *m, uct_mem_h memh,
		      const struct address *far, int tcp)
{
	uct_rkey_bundle_t key;
	uint64_t was = 0, word;
	char go;

	ok(uct_rkey_unpack(s->component, far->key, &key));
	fill(m->cpu, SIZE, 1);
	move(s, false, m, memh, far->memory, key.rkey);
	say(tcp, "p", 1);
	hear(tcp, &go, 1);	/* the owner has compared, and filled with another pattern */
	move(s, true, m, memh, far->memory, key.rkey);
	if (!filled(m->cpu, SIZE, 2, "get"))
		fail_case("get brought wrong bytes");
	word = word_of(m);
	run(s, uct_ep_atomic64_fetch(s->ep, UCT_ATOMIC_OP_ADD, ADDEND, &was, far->memory + WORD,
				     key.rkey, &r.done));
	if (was != word)
		fail_case("fetch and add brought %#lx, not %#lx", was, word);
	say(tcp, "a", 1);
	hear(tcp, &go, 1);
	uct_rkey_release(s->component, &key);
}

static void say_where(const struct memory *m)
{
	struct mrfd_gpu_query q = gpu_query(m);

	if (q.place != MRFD_GPU_VRAM)
		fail_case("the buffer is not in VRAM");
	printf("VRAM at %llu:", (unsigned long long)q.offset);
	for (int i = 0; i < 64; i++)
		printf(" %02x", m->cpu[SIZE / 2 + i]);
	printf("\n");
}

static void owner(struct stack *s, const struct memory *m, int tcp)
{
	uint64_t word;
	char go;

	hear(tcp, &go, 1);
	if (!filled(m->cpu, SIZE, 1, "put"))
		fail_case("put brought wrong bytes");
	fill(m->cpu, SIZE, 2);
	word = word_of(m);
	say(tcp, "g", 1);
	hear(tcp, &go, 1);
	if (word_of(m) != word + ADDEND)
		fail_case("fetch and add made %#lx of %#lx", word_of(m), word);
	if (m->kind == GPU_VRAM && device_can("p2p"))
		say_where(m);
	say(tcp, "e", 1);
}

static void run_scenario(const struct scenario *sc, const char *transport, int tcp)
{
	enum memory_kind kind = is_guest0() ? sc->owner : sc->requester;
	struct stack s = {};
	struct address far;
	struct memory m;
	uct_mem_h memh;

	ok(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &s.async));
	ok(uct_worker_create(s.async, UCS_THREAD_MODE_SINGLE, &s.worker));
	open_md(&s, getenv("MRFD_VERBS_DEVICE"));
	open_iface(&s, transport);
	memory_open(&m, kind, SIZE);
	uct_md_mem_reg_params_t params = {
		.field_mask = REG_FLAGS | REG_FD | REG_OFFSET, .flags = UCT_MD_MEM_ACCESS_ALL,
		.dmabuf_fd = m.fd,
	};
	ok(uct_md_mem_reg_v2(s.md, (void *)m.iova, SIZE, &params, &memh));
	tell_address(&s, memh, &m, tcp);
	hear(tcp, &far, sizeof(far));
	connect_ep(&s, &far);
	say(tcp, "c", 1);
	hear(tcp, &(char){ 0 }, 1);
	if (is_guest0())
		owner(&s, &m, tcp);
	else
		requester(&s, &m, memh, &far, tcp);
	uct_ep_destroy(s.ep);
	ok(uct_md_mem_dereg(s.md, memh));
	uct_iface_close(s.iface);
	uct_md_close(s.md);
	uct_worker_destroy(s.worker);
	ucs_async_context_destroy(s.async);
	memory_close(&m);
	if (!nothing_left())
		fail_case("MRs or dma-bufs are left");
	printf("case %s: ok\n", sc->name);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int listens = -1;

	if (argc != 2) {
		fprintf(stderr, "usage: uct TRANSPORT\n");
		return 2;
	}
	if (is_guest0())
		listens = guest0_listens(1);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (scenarios[i].owner == QXL && !device_can("vmap"))
			continue;
		int tcp = is_guest0() ? guest0_accepts(listens) : guest1_connects();

		run_scenario(&scenarios[i], argv[1], tcp);
		close(tcp);
	}
	return 0;
}
