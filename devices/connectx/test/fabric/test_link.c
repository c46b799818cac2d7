// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The link to the fabric: frames, faults and the end of its socket, with this file at the other
 * end; and what is captured.
 */
#include "link_world.h"
#include "fabric.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char path[] = "/tmp/test_link.XXXXXX", file[] = "/tmp/test_link_pcap.XXXXXX";
static struct fabric_stream peer;
static int listener;
static u8 reply_type, reply[64];
static size_t reply_len;

/* Takes the hello, and sends the reply. */
static void *answer_hello(void *arg)
{
	int fd = accept(listener, NULL, NULL);
	const u8 *body;
	size_t len;

	fabric_init(&peer, fd);
	while (!fabric_peek(&peer, &body, &len))
		if (fabric_fill(&peer) < 0)
			return "no hello";
	if (fabric_peek(&peer, &body, &len) != FABRIC_HELLO || len != FABRIC_HELLO_SIZE ||
	    be32_at(body) != FABRIC_MAGIC || be64_at(body + 4) != MY_GUID)
		return "a wrong hello";
	fabric_next(&peer);
	if (reply_type) {
		memcpy(fabric_reserve(&peer, reply_len), reply, reply_len);
		fabric_commit(&peer, reply_type, reply_len);
		if (fabric_flush(&peer))
			return "it does not read";
	} else {
		fabric_done(&peer);
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return NULL;
}

static void begin_fabric(u8 type, const void *body, size_t len, const char *pcap)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	pthread_t thread;
	void *failed;

	begin();
	reply_type = type;
	memcpy(reply, body, len);
	reply_len = len;
	strcpy(at.sun_path, path);
	unlink(path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, answer_hello, NULL), 0);
	l = link_new(&user, path, pcap);
	pthread_join(thread, &failed);
	close(listener);
	if (failed)
		fail_msg("%s", (char *)failed);
}

static const u8 welcome[6] = { 0, 9, 0, 1, 4, 0 };

static void begin_welcome(void)
{
	begin_fabric(FABRIC_WELCOME, welcome, 6, NULL);
	assert_non_null(l);
	assert_int_equal(port.lid, 9);
	assert_int_equal(port.sm_lid, 1);
	assert_int_equal(port.state, 4);
	fake_turn();
}

static void end_fabric(void)
{
	end();
	fabric_done(&peer);
}

/* The next packet that the peer gets; false: there is none now. */
static bool peer_get(struct packet *p)
{
	const u8 *body;
	const char *why;
	size_t len;
	int type = fabric_peek(&peer, &body, &len);

	if (!type) {
		if (fabric_fill(&peer) <= 0)
			return false;
		type = fabric_peek(&peer, &body, &len);
	}
	if (!type)
		return false;
	assert_int_equal(type, FABRIC_PACKET);
	assert_int_equal(packet_parse(p, body, len, &why), 0);
	fabric_next(&peer);
	return true;
}

static bool peer_put(uint16_t dlid, uint32_t psn, int flip)
{
	static struct packet p;
	u8 *body = fabric_reserve(&peer, PACKET_WIRE_MAX);
	size_t len;

	if (!body)
		return false;
	p.slid = 3;
	p.dlid = dlid;
	p.opcode = IB_SEND_ONLY;
	p.psn = psn;
	p.length = 4096;
	len = packet_write(&p, body);
	body[40] ^= flip;
	fabric_commit(&peer, FABRIC_PACKET, len);
	return true;
}

static void packets_pass_through_the_fabric(void **state)
{
	static struct packet p;

	begin_welcome();
	for (int i = 0; i < 3; i++)
		link_send(l, make(3, i, 1000));
	link_send(l, make(9, 50, 10));		/* to itself: not over the wire */
	link_send(l, make(0xc001, 51, 10));	/* both ways */
	fake_turns(2);
	for (int i = 0; i < 3; i++) {
		assert_true(peer_get(&p));
		assert_int_equal(p.dlid, 3);
		assert_int_equal(p.slid, 9);
		assert_int_equal(p.psn, i);
		assert_int_equal(p.length, 1000);
	}
	assert_true(peer_get(&p));
	assert_int_equal(p.psn, 51);
	assert_false(peer_get(&p));
	assert_int_equal(got_count, 2);
	assert_int_equal(got_psn[0], 50);
	assert_int_equal(got_psn[1], 51);

	peer_put(9, 60, 0);
	peer_put(8, 61, 0);			/* for another one */
	peer_put(9, 62, 1);			/* damaged */
	peer_put(0xc123, 63, 0);
	fabric_flush(&peer);
	fake_turns(3);
	assert_int_equal(got_count, 4);
	assert_int_equal(got_psn[2], 60);
	assert_int_equal(got_psn[3], 63);
	assert_int_equal(available(), ALL);
	assert_int_equal(port.calls, 1);
	end_fabric();
}

static void long_turn_ends_after_one_packet(void **state)
{
	begin_welcome();
	fake_loop.turn_over = true;
	for (unsigned int i = 0; i < 5; i++)
		peer_put(9, i, 0);
	fabric_flush(&peer);
	fake_turn();
	assert_int_equal(got_count, 1);
	fake_turns(5);
	assert_int_equal(got_count, 5);
	end_fabric();
}

/* A fabric that does not read: packets wait, in order, and senders find the pool empty. */
static void blocked_fabric_empties_the_pool(void **state)
{
	static struct packet p;
	unsigned int sent = 0, n = 0;
	struct packet *next;

	begin_welcome();
	while ((next = make(3, sent, 4096))) {
		link_send(l, next);
		sent++;
		fake_turn();
		assert_true(sent < LINK_PACKETS + 1000);
	}
	assert_true(sent > ALL);		/* and what fits into buffers */
	while (n < sent) {
		while (peer_get(&p))
			assert_int_equal(p.psn, n++);
		fake_turn();
	}
	assert_int_equal(available(), ALL);
	assert_int_equal(fake_loop.watch[0].events, POLLIN);
	/* What waits is dropped by a reset, but what is in the stream is whole. */
	for (n = 0; n < 500; n++)
		link_send(l, make(3, n, 4096));
	link_reset(l);
	assert_int_equal(available(), ALL);
	n = 0;
	for (int i = 0; i < 100; i++) {
		fake_turn();
		while (peer_get(&p))
			assert_int_equal(p.psn, n++);
	}
	assert_in_range(n, 50, 499);
	end_fabric();
}

/* A transport that keeps all packets: the link stops reading, and goes on later. */
static void reading_stops_while_the_pool_is_empty(void **state)
{
	uint32_t psn = 0, want = LINK_PACKETS + 5;
	int quiet = 0;

	begin_welcome();
	keep = true;
	while (quiet < 10) {
		while (psn < want && peer_put(9, psn, 0))
			psn++;
		fabric_flush(&peer);
		fake_turn();
		quiet = psn == want || fabric_pending(&peer) ? quiet + 1 : 0;
		if (got_count < LINK_PACKETS)
			quiet = 0;
	}
	assert_int_equal(got_count, LINK_PACKETS);
	assert_int_equal(fake_loop.watch[0].events, 0);
	assert_true(list_empty(&fake_loop.works));	/* idle */
	keep = false;
	for (unsigned int i = 0; i < LINK_PACKETS; i++)
		link_packet_free(l, got[i]);
	for (int i = 0; i < 100; i++) {
		while (psn < want && peer_put(9, psn, 0))
			psn++;
		fabric_flush(&peer);
		fake_turn();
	}
	assert_int_equal(got_count, want);
	for (unsigned int i = 0; i < want; i++)
		assert_int_equal(got_psn[i], i);
	assert_int_equal(available(), ALL);
	end_fabric();
}

static void check_down(void)
{
	uint64_t discards;

	fake_turns(3);
	assert_int_equal(port.calls, 2);
	assert_int_equal(port.state, 1);
	assert_int_equal(port.lid, 9);
	assert_int_equal(fake_loop.watches, 0);
	assert_int_equal(counted.link_downed, 1);
	discards = counted.xmit_discards;
	link_send(l, make(3, 1, 10));
	assert_int_equal(counted.xmit_discards, discards + 1);
	link_send(l, make(9, 2, 10));
	fake_turns(3);
	assert_int_equal(got_count, 1);		/* the loopback needs no fabric */
	assert_int_equal(available(), ALL);
}

static void lost_fabric_takes_the_port_down(void **state)
{
	begin_welcome();
	link_send(l, make(3, 1, 10));
	fabric_done(&peer);
	check_down();
	end();
}

static void lost_fabric_while_blocked_takes_the_port_down(void **state)
{
	struct packet *p;

	begin_welcome();
	while ((p = make(3, 0, 4096))) {
		link_send(l, p);
		fake_turn();
	}
	fabric_done(&peer);
	check_down();
	end();
}

static void bad_frame_takes_the_port_down(void **state)
{
	static const struct {
		u8 frame[16];
		size_t len;
	} table[] = {
		{ { 0, 0, 0, 0 }, 4 },				/* no such type */
		{ { 5, 0, 0, 0 }, 4 },
		{ { FABRIC_PACKET, 1, 0, 0 }, 4 },
		{ { FABRIC_PACKET, 0, 0xff, 0xff }, 4 },	/* too long */
		{ { FABRIC_WELCOME, 0, 0, 6, 0, 9, 0, 1, 4, 0 }, 10 },	/* not now */
		{ { FABRIC_REFUSED, 0, 0, 1, 'x' }, 5 },
		{ { FABRIC_HELLO, 0, 0, 0 }, 4 },
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		begin_welcome();
		assert_int_equal(write(peer.fd, table[i].frame, table[i].len), table[i].len);
		check_down();
		end_fabric();
	}
	/* Packets of no bytes and of one are bad, but the connection is not. */
	begin_welcome();
	assert_int_equal(write(peer.fd, "\4\0\0\0\4\0\0\1x", 9), 9);
	fake_turns(3);
	assert_int_equal(port.calls, 1);
	assert_int_equal(counted.rcv_errors, 2);
	assert_int_equal(counted.in[0].packets, 0);
	end_fabric();
}

/* Frames that arrive in pieces. */
static void frame_may_arrive_in_pieces(void **state)
{
	begin_welcome();
	peer_put(9, 77, 0);
	for (size_t i = peer.out_start; i < peer.out_end; i++) {
		assert_int_equal(got_count, 0);
		assert_int_equal(write(peer.fd, peer.out + i, 1), 1);
		fake_turn();
	}
	fake_turn();
	assert_int_equal(got_count, 1);
	assert_int_equal(got_psn[0], 77);
	end_fabric();
}

static void bad_welcome_fails_link_new(void **state)
{
	static const struct {
		u8 type, body[8];
		size_t len;
		const char *says;
	} table[] = {
		{ FABRIC_REFUSED, "full", 4, "refused: full" },
		{ FABRIC_WELCOME, { 0, 9, 0, 1, 4 }, 5, "makes no sense" },
		{ FABRIC_WELCOME, { 0, 0, 0, 1, 4, 0 }, 6, "makes no sense" },
		{ FABRIC_WELCOME, { 0xc0, 0, 0, 1, 4, 0 }, 6, "makes no sense" },
		{ FABRIC_WELCOME, { 0, 9, 0, 1, 9, 0 }, 6, "makes no sense" },
		{ FABRIC_PACKET, { 0, 9, 0, 1, 4, 0 }, 6, "makes no sense" },
		{ 7, { 0 }, 0, "makes no sense" },
		{ 0, { 0 }, 0, "did not answer" },
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		begin_fabric(table[i].type, table[i].body, table[i].len, NULL);
		assert_null(l);
		assert_non_null(strstr(fake_note, table[i].says));
		assert_int_equal(port.calls, 0);
		assert_int_equal(fake_loop.watches, 0);
		fabric_done(&peer);
	}
	begin();
	assert_null(link_new(&user, "/nonexistent/fabric", NULL));
	assert_string_equal(fake_note, "fabric /nonexistent/fabric: No such file or directory");
	assert_null(link_new(&user, NULL, "/nonexistent/pcap"));
	assert_string_equal(fake_note, "/nonexistent/pcap: No such file or directory");
}

/* Both directions, and what is looped once. */
static void capture_has_each_packet_once(void **state)
{
	struct stat st;

	begin_fabric(FABRIC_WELCOME, welcome, 6, file);
	assert_non_null(l);
	link_send(l, make(3, 1, 100));
	link_send(l, make(9, 2, 200));
	peer_put(9, 3, 0);
	fabric_flush(&peer);
	fake_turns(3);
	assert_int_equal(got_count, 2);
	end_fabric();
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_size, 24 + 3 * (32 + 8 + 12 + 6) + 100 + 200 + 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_pass_through_the_fabric),
		cmocka_unit_test(long_turn_ends_after_one_packet),
		cmocka_unit_test(blocked_fabric_empties_the_pool),
		cmocka_unit_test(reading_stops_while_the_pool_is_empty),
		cmocka_unit_test(lost_fabric_takes_the_port_down),
		cmocka_unit_test(lost_fabric_while_blocked_takes_the_port_down),
		cmocka_unit_test(bad_frame_takes_the_port_down),
		cmocka_unit_test(frame_may_arrive_in_pieces),
		cmocka_unit_test(bad_welcome_fails_link_new),
		cmocka_unit_test(capture_has_each_packet_once),
	};
	int ret;

	close(mkstemp(path));
	close(mkstemp(file));
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	unlink(file);
	return ret;
}
