// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Fuzz of the client of the vfio-user sockets, of the card and of its function for Data Direct:
 * messages, whole and cut, with descriptors of several kinds and numbers, and its replies when
 * it is asked for memory.
 *
 * An input talks to one of the two at a time, and changes over; both are served while one asks.
 *
 * main.c is included, so the device behind the sockets is the program's own.
 *
 * After each input no descriptor is open that was not before, and no guest memory is mapped.
 */
#define main connectx_main
#include "../device/main.c"
#undef main
#include "clock.h"
#include "vfio_msg.h"
#include "world.h"
#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define SENDS 48
#define BODY_MAX 5000

static struct model m = {
	.card = { .model = &m, .listener = -1 }, .direct = { .model = &m, .listener = -1 },
	.signals = -1,
};
static struct function *const f = &m.card.function;
/* The client's ends of the sockets; -1: it has closed it, or there is none. */
static struct client {
	struct side *side;
	int peer;
} clients[2] = { { &m.card, -1 }, { &m.direct, -1 } }, *talker = clients;
static int memory = -1;
static unsigned int fds_before;

static void make_model(void)
{
	FILE *log = fopen("/dev/null", "we");

	must(log);
	trace_to(log, false);
	signal(SIGPIPE, SIG_IGN);
	clock_reset();
	memory = memfd_create("memory", MFD_CLOEXEC);
	must(memory >= 0 && !ftruncate(memory, 0x10000));
	m.loop = loop_new();
	must(m.loop);
	f->dma = &m.card.dma;
	f->hca = hca_new(m.loop, &m.card.dma, 0x0200000000000001ull);
	must(f->hca);
	function_init(f);
	direct_init(f->hca, &m.direct.dma);
	vpd_init(&m.vpd, f->hca->vuid);
	m.direct.function.dma = &m.direct.dma;
	m.direct.function.vpd = &m.vpd;
	function_init(&m.direct.function);
	m.card.dma.other = &m.direct.dma;
	m.direct.dma.other = &m.card.dma;
	work_init(&m.direct.gone, forget_client);
	f->hca->raise = function_raise;
	f->hca->raise_arg = f;
	must(hca_plug(f->hca, NULL, NULL));
}

static void plug_one(struct client *c, const struct vfu_ops *ops)
{
	struct function *function = &c->side->function;
	int sv[2], size = 1 << 14;

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv));
	/* Small, so that replies have to wait. */
	setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	c->peer = sv[1];
	must(serve(c->side, ops, sv[0]));
	function->vfu->ask.ms = 0;	/* what it has said by then */
	/* Memory and bus mastering, which an input may take away. */
	function_write(function, VFU_CONFIG, 4, "\6", 1);
}

static void plug(bool both)
{
	fds_before = open_fds();
	talker = clients;
	plug_one(&clients[0], &card_ops);
	if (both)
		plug_one(&clients[1], &second_ops);
}

static void turn_some(void)
{
	for (int i = 0; i < 4; i++)
		loop_turn(m.loop);
}

static void unplug(void)
{
	for (int i = 0; i < 2; i++) {
		if (clients[i].peer >= 0)
			close(clients[i].peer);
		clients[i].peer = -1;
	}
	turn_some();
	for (int i = 0; i < 2; i++) {
		struct function *function = &clients[i].side->function;

		vfu_free(function->vfu);
		function_plug(function, NULL);
	}
	turn_some();
	must(loop_is_empty(m.loop));
	must(!loop_watched(m.loop));
	for (int i = 0; i < 2; i++)
		must(!clients[i].side->dma.count && !clients[i].side->dma.files);
	must(!f->hca->memory);
	must(open_fds() == fds_before);
}

static int some_fd(u8 kind)
{
	int sv[2], fd;

	switch (kind % 6) {
	case 0:
		return eventfd(0, EFD_CLOEXEC | (kind & 8 ? EFD_NONBLOCK : 0));
	case 1:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 2:
		return eventfd(0xfffffffe, EFD_CLOEXEC | EFD_NONBLOCK);
	case 3:
		must(!pipe(sv));
		close(sv[kind >> 3 & 1]);
		return sv[~kind >> 3 & 1];
	default:
		fd = dup(memory);
		must(fd >= 0);
		return fd;
	}
}

static void send_some(const u8 *bytes, size_t len, unsigned int fds, u8 kind)
{
	union {
		struct cmsghdr align;
		u8 bytes[CMSG_SPACE(MAX_FDS * 2 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd[MAX_FDS * 2];

	if (talker->peer < 0)
		return;
	for (unsigned int i = 0; i < fds; i++)
		fd[i] = some_fd(kind + i);
	if (fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(fds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fd, fds * sizeof(int));
	}
	if (len)
		sendmsg(talker->peer, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned int i = 0; i < fds; i++)
		close(fd[i]);
}

static void put(u8 *at, uint64_t value, size_t len)
{
	memcpy(at, &value, len);	/* the protocol is in the host's byte order */
}

static size_t access_body(struct input *in, u8 *body, bool write)
{
	u8 how = in8(in);
	uint32_t count = how & 1 ? in16(in) : 1u << (how >> 1 & 3);
	bool config = how & 8;
	uint64_t offset = how & 16 ? in64(in) : in32(in) % (config ? PCI_CONFIG_SIZE : 0x20000);

	put(body, offset, 8);
	put(body + 8, how & 32 ? in8(in) : config ? VFU_CONFIG : VFU_BAR0, 4);
	put(body + 12, count, 4);
	if (!write)
		return 16;
	if (count > 64)
		in_bytes(in, body + 16, 64);
	else
		in_bytes(in, body + 16, count);
	return 16 + (count < 4096 ? count : 4096);
}

static size_t map_body(struct input *in, u8 *body, bool unmap)
{
	u8 how = in8(in);
	uint64_t addr = in8(in) * 0x1000ull, size = (in8(in) % 16 + 1) * 0x1000ull;

	put(body, unmap ? 24 : 32, 4);
	put(body + 4, how & 1 ? in8(in) : unmap ? 0 : 3, 4);
	if (how & 2)
		addr = in64(in);
	if (how & 4)
		size = in64(in);
	if (how >> 4 == 15)
		addr = -size;		/* ends at 2^64 */
	if (unmap) {
		put(body + 8, addr, 8);
		put(body + 16, size, 8);
		return 24;
	}
	put(body + 8, how & 8 ? in64(in) : 0, 8);
	put(body + 16, addr, 8);
	put(body + 24, size, 8);
	return 32;
}

static size_t irqs_body(struct input *in, u8 *body, unsigned int *fds)
{
	u8 how = in8(in);

	put(body, 20, 4);
	put(body + 4, how & 1 ? in8(in) : 0x24, 4);
	put(body + 8, how & 2 ? in8(in) : VFIO_PCI_MSIX_IRQ_INDEX, 4);
	put(body + 12, how & 4 ? in32(in) : how >> 4, 4);
	*fds = in8(in) % (MAX_FDS * 2);
	put(body + 16, how & 8 ? in32(in) : *fds, 4);
	return 20;
}

/* Many stores in one message: {offset, region, count, 8 bytes} each. */
static size_t multi_body(struct input *in, u8 *body)
{
	unsigned int count = in8(in) % 20;

	put(body, count, 8);
	for (unsigned int i = 0; i < count; i++) {
		u8 how = in8(in), *at = body + 8 + i * 24;

		put(at, in32(in) % 0x20000, 8);
		put(at + 8, how & 1 ? VFU_CONFIG : VFU_BAR0, 4);
		put(at + 12, how & 2 ? in8(in) : 1u << (how >> 2 & 3), 4);
		in_bytes(in, at + 16, 8);
	}
	return 8 + count * 24;
}

static void send_message(struct input *in)
{
	static const u8 commands[] = { 1, 2, 2, 3, 4, 5, 7, 8, 9, 10, 10, 13, 15, 10, 9, 2 };
	static u8 bytes[sizeof(struct header) + BODY_MAX];
	u8 how = in8(in), kind = in8(in), *body = bytes + sizeof(struct header);
	unsigned int fds = how & 0x80 ? kind % 4 : 0;
	struct header h = {
		.id = how, .command = commands[how % sizeof(commands)],
		.flags = how & 0x20 ? 0x10 : 0,
	};
	static const char version[] = "{\"capabilities\":{\"max_msg_fds\":8,"
				      "\"write_multiple\": true}}";
	size_t len;

	memset(bytes, 0, sizeof(bytes));
	switch (h.command) {
	case MSG_VERSION:
		memcpy(body + 4, version, sizeof(version));
		len = 4 + sizeof(version);
		break;
	case 2:
	case 3:
		len = map_body(in, body, h.command == 3);
		if (h.command == 2 && !(kind & 0x10))
			fds = 1;
		break;
	case 8:
		len = irqs_body(in, body, &fds);
		break;
	case 9:
	case 10:
		len = access_body(in, body, h.command == 10);
		break;
	case 15:
		len = multi_body(in, body);
		break;
	default:
		len = 32;
		put(body, how & 0x10 ? in32(in) : 32, 4);
		put(body + 8, in8(in), 4);
	}
	if (how & 0x40) {			/* something is wrong with it */
		h.command = kind & 1 ? in16(in) : h.command;
		h.flags = kind & 2 ? in32(in) : h.flags;
		len += kind & 4 ? (int8_t)in8(in) : 0;
		if (len > BODY_MAX)
			len = 0;
		if (kind & 8)
			body[in16(in) % BODY_MAX] ^= in8(in);
	}
	h.size = sizeof(h) + len;
	if (how & 0x40 && kind & 0x20)
		h.size = in32(in);
	memcpy(bytes, &h, sizeof(h));
	send_some(bytes, sizeof(h) + len, fds, kind);
}

static void send_raw(struct input *in)
{
	u8 bytes[256], len = in8(in);

	send_some(bytes, in_bytes(in, bytes, len), in8(in) % 3, len);
}

/* The device asks; the client may have answered already, with what came before or with this. */
static void ask_client(struct input *in)
{
	static u8 bytes[sizeof(struct header) + 16 + DMA_ASK_MAX], data[2 * DMA_ASK_MAX];
	struct vfu *vfu = talker->side->function.vfu;
	struct dma *dma = &talker->side->dma;
	u8 how = in8(in), what = in8(in);
	bool write = how & 1;
	size_t len = how & 2 ? in16(in) % sizeof(data) : 8, body;
	struct header h = {
		.id = vfu ? vfu->ask.id + 1 + (how & 4 ? in8(in) : 0) : 0,
		.command = how & 8 ? in8(in) : write ? MSG_DMA_WRITE : MSG_DMA_READ,
		.flags = 1 | (how & 16 ? 0x20 : 0),
	};

	body = 16 + (write ? 0 : len < DMA_ASK_MAX ? len : DMA_ASK_MAX);
	if (how & 32)
		body = in8(in);
	h.size = sizeof(h) + body;
	memcpy(bytes, &h, sizeof(h));
	in_bytes(in, bytes + sizeof(h) + 16, 8);
	if (!(how & 64))
		send_some(bytes, sizeof(h) + body, what % 8 == 7, what);
	if (what & 16)
		send_message(in);
	dma_ask(dma, 0x100000000ull, data, len, write);
	must(!dma_asking(dma) && (!vfu || vfu->ask.state == ASK_NOTHING));
	if (what & 32)
		dma_ask(dma, 0x100000000ull, data, len, write);
}

static void read_replies(void)
{
	static u8 bytes[8192];

	for (int i = 0; i < 2; i++)
		if (clients[i].peer >= 0 &&
		    recv(clients[i].peer, bytes, sizeof(bytes), MSG_DONTWAIT) < 0)
			continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	u8 first = in8(&in);

	if (!f->hca)
		make_model();
	clock_reset();
	plug(first & 8);
	for (int i = first & 8 ? 1 : 0; i >= 0; i--) {
		talker = &clients[i];
		if (first % 8)
			send_message(&(struct input){ NULL, 0 });	/* VERSION */
	}
	for (unsigned int i = 0; i < SENDS && in.left; i++) {
		u8 what = in8(&in);

		if (what < 0xa0)
			send_message(&in);
		else if (what < 0xb0)
			send_raw(&in);
		else if (what < 0xe0)
			loop_turn(m.loop);
		else if (what < 0xf0)
			read_replies();
		else if (what < 0xf8)
			f->hca->raise(f->hca->raise_arg, in8(&in));
		else if (what < 0xfa)
			shutdown(talker->peer, SHUT_WR);
		else if (what == 0xfa)
			talker = &clients[talker == clients];
		else
			ask_client(&in);
	}
	for (int i = 0; i < 8; i++) {
		loop_turn(m.loop);
		read_replies();
	}
	unplug();
	return 0;
}
