// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * When a message fails: the completion and the state of each end.
 *
 * There are three messages; the first one arrives, the second one has the error, and the third
 * one comes too late.
 */
#include "transport_fakes.h"
#include "transport.h"

static int answers;

static void post_sends(unsigned int recvs, void (*second)(void))
{
	for (unsigned int i = 0; i < recvs; i++)
		post_recv(1, 0x8000 + i * 0x1000, 100);
	post(0, MLX5_OPCODE_SEND, 0, 0, 100);
	second();
	post(0, MLX5_OPCODE_SEND, 0x2000, 0, 100);
}

static void sends_100(void) { post(0, MLX5_OPCODE_SEND, 0x1000, 0, 100); }
static void sends_101(void) { post(0, MLX5_OPCODE_SEND, 0x1000, 0, 101); }
static void reads(void) { post(0, MLX5_OPCODE_RDMA_READ, 0x1000, 0, 100); }
static void adds(void) { post(0, MLX5_OPCODE_ATOMIC_FA, 0x1000, 0, 8); }
static void invalidates(void) { post(0, MLX5_OPCODE_SEND_INVAL, 0x1000, 0, 100)->imm = 0xbad; }

static void binds(void)
{
	umr_syndrome = MLX5_CQE_SYNDROME_MW_BIND_ERR;
	post(0, MLX5_OPCODE_UMR, 0, 0, 0);
}

/* The answer to the second message, wrong in different ways. */
static bool is_second(const struct packet *p)
{
	u8 op = packet_operation(p);

	return op >= IB_READ_RESP_FIRST && op <= IB_ATOMIC_ACK && ++answers == 2;
}

static int no_such_nak(struct packet *p, int n)
{
	if (is_second(p))
		p->syndrome = AETH_NAK | 9;
	return 0;
}

static int too_short(struct packet *p, int n)
{
	if (is_second(p))
		p->length--;
	return 0;
}

static int of_a_read(struct packet *p, int n)
{
	if (is_second(p))
		p->opcode = IB_READ_RESP_ONLY;
	return 0;
}

static void not_ready(void) { post_sends(1, sends_100); }
static void bad_nak(void) { fake_link.fate = no_such_nak; post_sends(3, sends_100); }
static void bad_read(void) { fake_link.fate = too_short; post_sends(3, reads); }
static void bad_atomic(void) { fake_link.fate = of_a_read; post_sends(3, adds); }
static void no_bind(void) { post_sends(3, binds); }
static void too_long(void) { post_sends(3, sends_101); }
static void no_such_key(void) { post_sends(3, invalidates); }

static void no_place(void)
{
	post_sends(3, sends_100);
	rq[1][1].seg[0].lkey = 0x77;
}

static const struct {
	const char *name;
	void (*post)(void);
	const char *sender, *receiver;	/* syndromes of the completions */
	enum qp_state sender_is, receiver_is;
} t[] = {
	{ "no receive posted: the receiver does not know", not_ready, "0 16 5", "0",
	  QPS_ERR, QPS_RTS },
	{ "a NAK that there is not: the messages arrived", bad_nak, "0 10 5", "0 0 0",
	  QPS_ERR, QPS_RTS },
	{ "a response to a read that is too short", bad_read, "0 10 5", "0 0", QPS_ERR, QPS_RTS },
	{ "a response of a read to an atomic", bad_atomic, "0 10 5", "0 0", QPS_ERR, QPS_RTS },
	{ "a bind that is refused: nothing is sent", no_bind, "0 6 5", "0", QPS_ERR, QPS_RTS },
	{ "too long for the receive", too_long, "0 12 5", "0 1", QPS_ERR, QPS_ERR },
	{ "no memory behind the receive", no_place, "0 14 5", "0 4", QPS_ERR, QPS_ERR },
	{ "a key that cannot be invalidated", no_such_key, "0 13 5", "0 11", QPS_ERR, QPS_ERR },
};

/* The syndromes of END's completions, in order. */
static const char *syndromes(int end)
{
	static char text[2][256];
	size_t used = 0;

	text[end][0] = 0;
	for (unsigned int i = 0; i < dones; i++) {
		if (end_of(done[i].qp) != end)
			continue;
		assert_int_equal(done[i].recv, end);
		used += snprintf(text[end] + used, sizeof(text[end]) - used, "%s%x",
				 used ? " " : "", done[i].syndrome);
	}
	return text[end];
}

static void both_ends_complete_with_the_right_syndrome(void **state)
{
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		print_message("  %s\n", t[i].name);
		world_new(QP_RC, QP_RC, 10);
		qps[0].rnr_retry = 1;
		qps[0].req.rnr_retries = 1;
		answers = 0;
		t[i].post();
		for (int k = 0; k < 10; k++) {
			world_run();
			world_wait();
		}
		assert_string_equal(syndromes(0), t[i].sender);
		assert_string_equal(syndromes(1), t[i].receiver);
		assert_int_equal(qps[0].state, t[i].sender_is);
		assert_int_equal(qps[1].state, t[i].receiver_is);
		assert_memory_equal(memory[0], memory[1] + 0x8000, 100);
		world_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_complete_with_the_right_syndrome),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
