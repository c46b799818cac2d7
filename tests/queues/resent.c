// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/*
 * What a requester sends again is what it sent before, whenever an answer comes, and an answer
 * without data completes no read.
 *
 * A PSN names one packet of one message.  The responder drops a packet whose PSN it has seen, so
 * another packet with this PSN loses data, or adds a message that nobody posted.
 *
 * The case is the responder: it takes the packets from the other end of the veth pair, and
 * answers when it likes.  It holds the requester in the middle of a message by its address:
 * packets to a neighbour whose address is looked up wait in the neighbour's queue, and with 65
 * packets under way the requester stops.
 */
#include "lib/access.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include <arpa/inet.h>
#include <endian.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define NEIGHBOUR "10.0.0.77"
#define ROCE_PORT 4791
#define MTU 256
#define LONG 100		/* packets of the first message: more than may be under way */
#define SHORT 4			/* and of the second one */
#define UNDER_WAY 65
/* Opcodes of RC */
#define READ_RESPONSE_ONLY 0x10
#define ACK 0x11
#define ATOMIC_ACK 0x12
#define TIMEOUT 19		/* 2.1 s; the requester gives up after the seventh time */

struct bth {
	uint8_t opcode, flags;
	uint16_t pkey;
	uint32_t qpn, psn;
} __attribute__((packed));

struct frame {
	struct ether_header eth;
	struct iphdr ip;
	struct udphdr udp;
	struct bth bth;
	uint8_t rest[MTU + 64];
} __attribute__((packed));

#define HEADERS offsetof(struct frame, rest)

struct seen {
	int times;
	uint8_t opcode;
	size_t size;		/* of what follows the BTH */
	uint8_t rest[MTU + 64];
};

FIXTURE(resent)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory memory;
	struct ibv_mr *mr;
	struct pair pair;
	struct ibv_ah_attr far;
	int wire;		/* eth0-peer */
	struct frame frame;	/* the last one, whose addresses an answer turns round */
	struct seen seen[LONG + SHORT];
};

static void run(const char *command)
{
	if (system(command))
		fail_case("%s", command);
}

static void let_packets_through(void)
{
	run("ip neigh replace " NEIGHBOUR " dev eth0 nud permanent "
	    "lladdr $(cat /sys/class/net/eth0-peer/address)");
}

static void hold_packets(void)
{
	run("ip neigh del " NEIGHBOUR " dev eth0");
}

/* The address of the case's end, by the device's IPv4 address. */
static void find_far(FIXTURE_DATA(resent) *self)
{
	struct ibv_gid_entry entry;

	if (!device_address(self->ctx, &self->far))
		fail_case("the port of %s has no address", device_name());
	for (int i = 0; !ibv_query_gid_ex(self->ctx, self->far.port_num, i, &entry, 0); i++) {
		if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    !IN6_IS_ADDR_V4MAPPED((struct in6_addr *)entry.gid.raw))
			continue;
		self->far.grh.sgid_index = i;
		inet_pton(AF_INET6, "::ffff:" NEIGHBOUR, self->far.grh.dgid.raw);
		return;
	}
	fail_case("%s has no GID of an IPv4 address", device_name());
}

FIXTURE_SETUP(resent)
{
	struct sockaddr_ll peer = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP),
				    .sll_ifindex = if_nametoindex("eth0-peer") };

	self->wire = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
	if (self->wire < 0 || bind(self->wire, (struct sockaddr *)&peer, sizeof(peer)))
		fail_case("open a packet socket on eth0-peer");
	let_packets_through();
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	memory_open_filled(&self->memory, HOST, LONG * MTU, 1);
	self->mr = memory_reg(&self->memory, self->pd, ALL_ACCESS);
	find_far(self);
	self->pair.far = &self->far;
	pair_create_end(&self->pair, 0, self->pd);
	pair_connect_end(&self->pair, 0, IBV_MTU_256, 0, TIMEOUT);
}

FIXTURE_TEARDOWN(resent)
{
	pair_close(&self->pair);
	mr_close(self->mr);
	memory_close(&self->memory);
	pd_close(self->pd);
	device_close(self->ctx);
	close(self->wire);
}

static void post_send(FIXTURE_DATA(resent) *self, int packets)
{
	struct ibv_sge sge = { .addr = self->memory.iova, .length = packets * MTU,
			       .lkey = self->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	errno = ibv_post_send(self->pair.qp[0], &wr, &bad);
	if (errno)
		fail_case("post a message of %d packets", packets);
}

/* The ICRC (IBTA 7.8.2, RoCEv2 annex): what a router may change counts as all ones. */
static uint32_t icrc(const struct frame *frame, size_t size)
{
	struct frame f = *frame;
	const uint8_t *p = (const uint8_t *)&f.ip;
	uint32_t crc = ~0u;

	f.ip.tos = f.ip.ttl = 0xff;
	f.ip.check = f.udp.check = 0xffff;
	f.bth.qpn |= htonl(0xff000000);
	for (size_t i = 0; i < 8 + size - sizeof(f.eth); i++) {
		crc ^= i < 8 ? 0xff : p[i - 8];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return htole32(~crc);
}

/* The packet must be as it was the last time. */
static void compare(struct seen *s, const struct frame *f, size_t size)
{
	if (!s->times++) {
		*s = (struct seen){ .times = 1, .opcode = f->bth.opcode, .size = size };
		memcpy(s->rest, f->rest, size);
	}
	if (s->opcode != f->bth.opcode || s->size != size || memcmp(s->rest, f->rest, size))
		fail_case("PSN %u was opcode %#x with %zu bytes and is now %#x with %zu",
			  ntohl(f->bth.psn) & 0xffffff, s->opcode, s->size, f->bth.opcode, size);
}

/* The PSN of the QP's next packet, or -1 if none comes for so long. */
static int take(FIXTURE_DATA(resent) *self, int ms)
{
	struct pollfd wait = { .fd = self->wire, .events = POLLIN };
	struct frame *f = &self->frame;
	struct frame got;
	size_t size, psn;

	if (poll(&wait, 1, ms) <= 0 ||
	    recv(self->wire, &got, sizeof(got), 0) < (ssize_t)HEADERS + 4 ||
	    got.ip.protocol != IPPROTO_UDP || got.udp.dest != htons(ROCE_PORT) ||
	    got.bth.qpn != htonl(FAR_QP))
		return -1;
	*f = got;
	size = ntohs(f->ip.tot_len) + sizeof(f->eth) - HEADERS - 4;
	if (size > MTU || memcmp(f->rest + size, &(uint32_t){ icrc(f, HEADERS + size) }, 4))
		fail_case("the size or the ICRC of a packet is wrong");
	psn = ntohl(f->bth.psn) & 0xffffff;
	if (psn >= LONG + SHORT)
		fail_case("PSN %zu was not due", psn);
	compare(&self->seen[psn], f, size);
	return psn;
}

/* Until this packet has come so many times. */
static void take_until(FIXTURE_DATA(resent) *self, unsigned int psn, int times)
{
	double end = deadline(20);

	while (self->seen[psn].times < times) {
		if (now() > end)
			fail_case("PSN %u came %d times and not %d times", psn,
				  self->seen[psn].times, times);
		take(self, 100);
	}
}

static uint16_t ip_checksum(struct iphdr ip)
{
	const uint16_t *words = (const uint16_t *)&ip;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(ip) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* An answer with an AETH and these bytes of data, a multiple of 4. */
static void answer(FIXTURE_DATA(resent) *self, uint8_t opcode, unsigned int psn, const void *data,
		   size_t n)
{
	const size_t size = HEADERS + 4 + n;
	unsigned long before = device_counter("rcvd_pkts");
	const struct frame *to = &self->frame;
	struct frame f = *to;

	memcpy(f.eth.ether_dhost, to->eth.ether_shost, ETH_ALEN);
	memcpy(f.eth.ether_shost, to->eth.ether_dhost, ETH_ALEN);
	f.ip.saddr = to->ip.daddr;
	f.ip.daddr = to->ip.saddr;
	f.ip.tot_len = htons(size + 4 - sizeof(f.eth));
	f.ip.check = 0;
	f.ip.check = ip_checksum(f.ip);
	f.udp.len = htons(size + 4 - sizeof(f.eth) - sizeof(f.ip));
	f.udp.check = 0;
	f.bth = (struct bth){ .opcode = opcode, .pkey = htons(0xffff),
			      .qpn = htonl(self->pair.qp[0]->qp_num), .psn = htonl(psn) };
	memcpy(f.rest, &(uint32_t){ htonl(0x1f000000) }, 4);	/* an ACK without credits */
	memcpy(f.rest + 4, data, n);
	memcpy(f.rest + 4 + n, &(uint32_t){ icrc(&f, size) }, 4);
	if (send(self->wire, &f, size + 4, 0) != (ssize_t)size + 4)
		fail_case("send an answer");
	device_wait_for_counter("rcvd_pkts", before + 1);
}

/* All up to this PSN has come. */
static void acknowledge(FIXTURE_DATA(resent) *self, unsigned int psn)
{
	answer(self, ACK, psn, "", 0);
}

/* Answer the last packet, each time that it comes, until so many messages have completed. */
static void complete(FIXTURE_DATA(resent) *self, int messages)
{
	struct ibv_wc wc;

	acknowledge(self, LONG + SHORT - 1);
	while (messages) {
		if (ibv_poll_cq(self->pair.cq, 1, &wc) == 1) {
			if (wc.status)
				fail_case("a message: %s", ibv_wc_status_str(wc.status));
			messages--;
		} else if (take(self, 10) == LONG + SHORT - 1) {
			acknowledge(self, LONG + SHORT - 1);
		}
	}
}

/*
 * The ACK of packet PSN of the first message comes late: the message is being sent again, and
 * its first part is under way.  The rest of this second time is not answered, so there is a
 * third time.
 */
static void acknowledge_late(FIXTURE_DATA(resent) *self, unsigned int psn)
{
	unsigned long sent;

	post_send(self, LONG);
	post_send(self, SHORT);
	take_until(self, LONG + SHORT - 1, 1);
	hold_packets();
	sent = device_counter("sent_pkts");
	device_wait_for_counter("sent_pkts", sent + UNDER_WAY);
	acknowledge(self, psn);
	let_packets_through();
	take_until(self, LONG + SHORT - 1, 3);
	complete(self, 2);
}

TEST_F(resent, late_ack_of_the_last_packet_changes_no_packet)
{
	acknowledge_late(self, LONG - 1);
}

TEST_F(resent, late_ack_of_a_packet_under_way_changes_no_packet)
{
	acknowledge_late(self, UNDER_WAY / 2);
}

TEST_F(resent, late_ack_of_a_packet_to_be_sent_changes_no_packet)
{
	acknowledge_late(self, LONG - 2);
}

/* It is ignored, as nothing of the second message was sent again. */
TEST_F(resent, late_ack_of_the_next_message_changes_no_packet)
{
	acknowledge_late(self, LONG + SHORT - 2);
}

static bool completes(FIXTURE_DATA(resent) *self)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(self->pair.cq, 1, &wc) != 1)
		return false;
	if (wc.status)
		fail_case("a request: %s", ibv_wc_status_str(wc.status));
	return true;
}

/*
 * The response of this one packet is lost, and the responder acknowledges a duplicate of an
 * earlier request by the last PSN that it knows.  The request is sent again, and completes when
 * its data comes.
 */
static void fetch(FIXTURE_DATA(resent) *self, enum ibv_wr_opcode opcode, uint8_t response,
		  const void *data, size_t n)
{
	struct ibv_sge sge = { .addr = self->memory.iova, .length = n, .lkey = self->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode,
					.send_flags = IBV_SEND_SIGNALED };
	double end;

	errno = ibv_post_send(self->pair.qp[0], &wr, &bad);
	if (errno)
		fail_case("post a request");
	take_until(self, 0, 1);
	acknowledge(self, 0);
	for (end = deadline(20); self->seen[0].times < 2; take(self, 100)) {
		if (completes(self))
			fail_case("the request is complete without its data");
		if (now() > end)
			fail_case("the request is not sent again");
	}
	answer(self, response, 0, data, n);
	for (end = deadline(20); !completes(self);)
		if (now() > end)
			fail_case("the request does not complete");
}

TEST_F(resent, read_does_not_complete_by_an_ack)
{
	char data[64];

	memset(data, 0x5a, sizeof(data));
	fetch(self, IBV_WR_RDMA_READ, READ_RESPONSE_ONLY, data, sizeof(data));
	ASSERT_EQ(0, memcmp(self->memory.cpu, data, sizeof(data)));
}

TEST_F(resent, atomic_does_not_complete_by_an_ack)
{
	const uint64_t was = 0x123456789abcdef0;
	uint64_t got, compare;

	fetch(self, IBV_WR_ATOMIC_FETCH_AND_ADD, ATOMIC_ACK, &(uint64_t){ htobe64(was) }, 8);
	memcpy(&got, self->memory.cpu, sizeof(got));
	ASSERT_EQ(was, got);
	/* The last field of the AtomicETH has no use here, so it must have no content either. */
	memcpy(&compare, self->seen[0].rest + 20, sizeof(compare));
	ASSERT_EQ(0, compare);
}

TEST_HARNESS_MAIN
