// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Fuzz of both ends of the fabric's socket: hostile models talk to connectx-fabric, or a hostile
 * fabric to the link of a device that has QPs.
 *
 * The first byte selects one of the two.
 *
 * Either hostile models talk to connectx-fabric: fabric-main.c is included, so what the
 * bytes meet is the program, with its switch, its faults and its subnet administrator.  Or
 * a hostile fabric talks to the link of a device that has QPs.
 *
 * Frames are whole or cut, and what is in them is raw or a packet with good CRCs.  After
 * each input no descriptor is open that was not before, and the loop is empty.
 *
 * The buffers of the streams are smaller, so that an input can fill them.
 */
#define _GNU_SOURCE		/* as fabric-main.c */
#include "fabric.h"
#undef FABRIC_IN
#undef FABRIC_OUT
#define FABRIC_IN (16u << 10)
#define FABRIC_OUT (32u << 10)
#include "fabric.c"
#define main fabric_program
#include "fabric-main.c"
#undef main
#include "clock.h"
#include "mad.h"
#include "program.h"
#include "wire.h"

#define PEERS 5
#define ROUNDS 64

/* What the input writes next: a frame, or what looks like one. */
struct frame {
	u8 bytes[FABRIC_HEADER + FABRIC_BODY_MAX + 64];
	size_t len;
};

static void seal_frame(struct frame *f, u8 type, size_t body)
{
	f->bytes[0] = type;
	f->bytes[1] = 0;
	put_be16(f->bytes + 2, body);
	f->len = FABRIC_HEADER + body;
}

/* A question to the subnet administrator. */
static void fill_mad(struct packet *p, struct input *in, uint64_t guid)
{
	static const u8 methods[] = { MAD_GET, MAD_SET, MAD_GET_TABLE, MAD_DELETE };
	static const uint16_t attrs[] = {
		SA_CLASS_PORT_INFO, SA_INFORM_INFO, SA_PATH_RECORD, SA_MCMEMBER_RECORD,
	};
	u8 how = in8(in), *mad = p->payload, *r = mad + MAD_DATA;

	p->dlid = SWITCH_SM_LID;
	p->dqpn = MAD_GSI_QPN;
	p->qkey = MAD_GSI_QKEY;
	p->length = MAD_SIZE;
	memset(mad, 0, MAD_SIZE);
	mad[MAD_BASE_VERSION] = 1;
	mad[MAD_CLASS] = MAD_CLASS_SA;
	mad[MAD_CLASS_VERSION] = MAD_SA_VERSION;
	mad[MAD_METHOD] = methods[how & 3];
	put_be16(mad + MAD_ATTR, attrs[how >> 2 & 3]);
	/* A join that creates a group, until the input says otherwise. */
	put_be64(r + MC_PORT_GID, SWITCH_PREFIX);
	put_be64(r + MC_PORT_GID + 8, guid);
	put_be16(r + MC_PKEY, 0xffff);
	r[MC_SCOPE_STATE] = 1 + (how >> 4);
	put_be64(mad + MAD_COMP_MASK, how & 0x80 ? in64(in) :
		 MC_HAS_MGID | MC_HAS_PORT_GID | MC_HAS_JOIN_STATE | MC_HAS_QKEY |
		 MC_HAS_PKEY | MC_HAS_SL | MC_HAS_FLOW | MC_HAS_TCLASS);
	r[MC_MGID] = 0xff;
	r[MC_MGID + 15] = in8(in);
	for (u8 n = in8(in) % 16; n; n--)
		r[in8(in) % MAD_DATA_SIZE] = in8(in);
}

static void fill_packet(struct packet *p, struct input *in, uint16_t slid, uint64_t guid)
{
	u8 how = in8(in);
	u8 to = in8(in);

	memset(p, 0, offsetof(struct packet, payload));
	p->slid = how & 1 ? in16(in) : slid;
	p->dlid = to < 0x80 ? SWITCH_SM_LID + to % 8 : to < 0xf0 ? 0xc000 + to % 8 : in16(in);
	p->opcode = how & 2 ? in8(in) : IB_UD << 5 | IB_SEND_ONLY;
	p->global = how & 4;
	p->pkey = 0xffff;
	p->dqpn = how & 8 ? in32(in) & PSN_MASK : how & 16 ? 0xffffffu : 0x40u + in8(in) % 16;
	p->qkey = SETUP_QKEY;
	p->psn = in8(in) % 16 + 0xfffff8;
	p->dgid[0] = 0xff;
	p->dgid[1] = 0x12;
	p->length = how & 32 ? in16(in) % (PACKET_MTU + 1) : in8(in);
	in_bytes(in, p->payload, p->length < 64 ? p->length : 64);
	if (how & 64)
		fill_mad(p, in, guid);
	if (!(packet_op(p->opcode) & OP_PAYLOAD))
		p->length = 0;
}

static void make_frame(struct frame *f, struct input *in, uint16_t slid, uint64_t guid)
{
	static struct packet p;
	u8 how = in8(in), *body = f->bytes + FABRIC_HEADER;
	size_t len;

	switch (how % 8) {
	case 0:
		len = in8(in);
		in_bytes(in, f->bytes, len);
		f->len = len;
		return;
	case 1:
		len = in16(in) % FABRIC_BODY_MAX;
		memset(body, 0, len);
		in_bytes(in, body, len < 100 ? len : 100);
		seal_frame(f, in8(in) % 6, len);
		break;
	case 2:
		put_be32(body, FABRIC_MAGIC);
		put_be64(body + 4, how & 8 ? in64(in) : guid);
		seal_frame(f, FABRIC_HELLO, FABRIC_HELLO_SIZE);
		break;
	default:
		fill_packet(&p, in, slid, guid);
		seal_frame(f, FABRIC_PACKET, packet_write(&p, body));
	}
	if (how & 16)
		f->bytes[in16(in) % f->len] ^= in8(in);
	if (how & 32)
		f->len -= in8(in) % f->len;
}

static void write_frame(int fd, const struct frame *f)
{
	/* What does not fit is lost in the middle of a frame: also an input. */
	if (fd >= 0 && f->len && send(fd, f->bytes, f->len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void read_all(int fd)
{
	static u8 bytes[1 << 16];

	if (fd >= 0 && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) < 0)
		return;
}

static int make_pair(int *other)
{
	int sv[2], size = 1 << 15;

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv));
	setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	*other = sv[1];
	return sv[0];
}

/* ---- hostile models */

static struct fabric fabric;
static int peer[PEERS];

static uint64_t guid_of_peer(unsigned int i)
{
	return 0x0200000000000100ull + i;
}

static void fabric_begin(struct input *in)
{
	u8 how = in8(in);
	const struct switch_faults faults = {
		.drop = how & 1 ? 0.1 : 0, .duplicate = how & 2 ? 0.3 : 0,
		.reorder = how & 4 ? 0.3 : 0, .delay_ns = how & 8 ? 5000 : 0, .seed = how,
	};

	clock_reset();
	loop_turn(fabric.loop);
	fabric.sw = switch_new(fabric.loop, &faults, NULL);
	must(fabric.sw);
	for (unsigned int i = 0; i < PEERS; i++)
		peer[i] = -1;
}

static void fabric_over(void)
{
	for (unsigned int i = 0; i < PEERS; i++)
		if (peer[i] >= 0)
			close(peer[i]);
	for (unsigned int i = 0; i < 4; i++)
		loop_turn(fabric.loop);
	while (!list_empty(&fabric.models))
		model_end(list_item(fabric.models.next, struct model, entry));
	must(!fabric.count);
	switch_free(fabric.sw);
	must(loop_is_empty(fabric.loop) && !loop_watched(fabric.loop));
}

static void fabric_step(struct input *in)
{
	static struct frame frame;
	u8 what = in8(in), i = what % PEERS;

	if (peer[i] < 0)
		model_new(&fabric, make_pair(&peer[i]));
	switch (what / PEERS % 16) {
	case 0:
		seal_frame(&frame, FABRIC_HELLO, FABRIC_HELLO_SIZE);
		put_be32(frame.bytes + FABRIC_HEADER, FABRIC_MAGIC);
		put_be64(frame.bytes + FABRIC_HEADER + 4, guid_of_peer(i));
		write_frame(peer[i], &frame);
		loop_turn(fabric.loop);
		break;
	case 1:
		close(peer[i]);
		peer[i] = -1;
		break;
	case 2:
		clock_move(1ull << in8(in) % 34);
		/* fall through */
	case 3:
	case 4:
	case 5:
		for (u8 n = in8(in) % 8; n; n--)
			loop_turn(fabric.loop);
		break;
	case 6:
		read_all(peer[i]);
		break;
	case 7:					/* many of the same: full queues */
		make_frame(&frame, in, SWITCH_FIRST_LID + i, guid_of_peer(i));
		for (u8 n = in8(in) % 64; n; n--)
			write_frame(peer[i], &frame);
		break;
	default:
		make_frame(&frame, in, SWITCH_FIRST_LID + i, guid_of_peer(i));
		write_frame(peer[i], &frame);
	}
}

/* ---- a hostile fabric */

static void welcome(struct input *in, int fd)
{
	struct frame f;
	u8 how = in8(in), *body = f.bytes + FABRIC_HEADER;

	if (how & 1) {
		make_frame(&f, in, 1, 1);
		write_frame(fd, &f);
	}
	seal_frame(&f, FABRIC_WELCOME, FABRIC_WELCOME_SIZE);
	put_be16(body, how & 2 ? in16(in) : 5);
	put_be16(body + 2, how & 4 ? in16(in) : SWITCH_SM_LID);
	body[4] = how & 8 ? in8(in) : FABRIC_PORT_ACTIVE;
	body[5] = 0;
	if (how & 16)
		f.len -= in8(in) % f.len;
	write_frame(fd, &f);
}

static void device_steps(struct guest *g, struct input *in, int *other)
{
	static struct frame frame;

	for (unsigned int n = 0; n < ROUNDS && in->left; n++) {
		u8 what = in8(in);

		switch (what % 16) {
		case 0:
			if (what >= 0xf0 && *other >= 0) {
				close(*other);
				*other = -1;
			}
			/* fall through */
		case 1:
			read_all(*other);
			break;
		case 2:
		case 3:
		case 4:
			loop_turn(g->w->loop);
			break;
		case 5:
		case 6:
		case 7:
			program_step(g, in);
			break;
		case 8:
			make_frame(&frame, in, in8(in), 1);
			for (u8 i = in8(in) % 64; i; i--)
				write_frame(*other, &frame);
			break;
		default:
			make_frame(&frame, in, in8(in), 1);
			/* To this port, unless the input wants that to be wrong. */
			if (what & 0x80 && frame.len > FABRIC_HEADER + 8)
				put_be16(frame.bytes + FABRIC_HEADER + 2, g->w->hca->port.lid);
			write_frame(*other, &frame);
		}
	}
}

static void fuzz_device(struct input *in, u8 without)
{
	static struct guest guest;
	struct world *w = world_get();
	int other, fd;

	world_begin(w);
	guest_init(&guest, w);
	fd = make_pair(&other);
	welcome(in, other);
	if (wire_plug(w->hca->link, fd)) {
		setup_traffic(&guest, without);
		device_steps(&guest, in, &other);
		program_finish(&guest);
	}
	if (other >= 0)
		close(other);
	wire_unplug(w->hca->link);
	world_end(w);
	must(!loop_watched(w->loop));
}

static void make(void)
{
	world_get();		/* quiet from here on */
	fabric.loop = loop_new();
	must(fabric.loop);
	fabric.listener = fabric.signals = -1;
	list_init(&fabric.models);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	u8 how = in8(&in);
	unsigned int fds;

	if (!fabric.loop)
		make();
	fds = open_fds();
	if (how & 1) {
		fuzz_device(&in, how >> 1);
	} else {
		fabric_begin(&in);
		for (unsigned int n = 0; n < ROUNDS && in.left; n++)
			fabric_step(&in);
		fabric_over();
	}
	must(open_fds() == fds);
	return 0;
}
