// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Page faults: events, answers, polling, retries after an error, and what is forgotten at the
 * end.
 */
#include "mkey_world.h"
#include "eq.h"
#include "odp.h"

#define QPS (ODP_REPORTED + 3)
#define MS 1000000ull

/* Who waits: a side of a QP. */
enum side { FAULT_REQUESTER, FAULT_RESPONDER };
static struct qp {
	struct odp_waiter fault[2];
} *qps[QPS];
static uint32_t root, child, implicit, null_key;

/* The EQ. */
static bool subscribed, eq_full;
static u8 event[28];
static unsigned int events;

bool event_subscribed(const struct hca *h, unsigned int type)
{
	assert_int_equal(type, 0xc);
	return subscribed;
}

bool event_send(struct hca *h, unsigned int type, unsigned int sub_type, const void *data,
		size_t len)
{
	assert_int_equal(type, 0xc);
	assert_int_equal(sub_type, 2);
	assert_int_equal(len, 28);
	if (eq_full)
		return false;
	memcpy(event, data, len);
	events++;
	return true;
}

static uint64_t token(void)
{
	return (uint64_t)be16_at(event + 6) << 32 | be32_at(event + 8);
}

/* Timers that run, and the time of each. */
static struct timer *timers[QPS + 1];

void timer_init(struct timer *t, void (*expired)(struct timer *t))
{
	t->expired = expired;
}

void timer_stop(struct timer *t)
{
	unsigned int i;

	for (i = 0; i < QPS; i++)
		if (timers[i] == t)
			timers[i] = NULL;
}

void timer_start(struct loop *l, struct timer *t, uint64_t ns)
{
	unsigned int i;

	timer_stop(t);
	t->when = ns;
	for (i = 0; timers[i]; i++)
		;
	assert_true(i < QPS);
	timers[i] = t;
}

uint64_t loop_now(const struct loop *l)
{
	return 0;
}

static unsigned int running(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < QPS; i++)
		n += !!timers[i];
	return n;
}

/* The one timer that runs: after NS it expires. */
static void expire(uint64_t ns)
{
	struct timer *t;
	unsigned int i;

	assert_int_equal(running(), 1);
	for (i = 0; !timers[i]; i++)
		;
	t = timers[i];
	assert_int_equal(t->when, ns);
	timers[i] = NULL;
	t->expired(t);
}

/* The waiters: which was told what, and what it does then. */
static unsigned int overs;
static struct qp *over_qp;
static enum side over_side;
static bool over_failed;
static const struct mkey_fault *again;

static void over(struct odp_waiter *w, bool failed)
{
	for (unsigned int i = 0; i < QPS; i++)
		for (enum side side = FAULT_REQUESTER; side <= FAULT_RESPONDER; side++)
			if (w == &qps[i]->fault[side]) {
				over_qp = qps[i];
				over_side = side;
			}
	overs++;
	over_failed = failed;
	assert_null(w->wait);
	if (again)
		odp_fault(&hca, w, again);
}

/* What waits for the next turn of the loop. */
static void next_turn(void)
{
	for (unsigned int i = 0; i < QPS; i++) {
		struct timer *t = timers[i];

		if (!t || t->when)
			continue;
		timers[i] = NULL;
		t->expired(t);
	}
}

static enum cmd_status answer(uint64_t t, bool error)
{
	u8 cmd[16] = { 0 };
	void *info = cmd + 8;

	IFC_SET(mem_page_fault_info, info, error, error);
	IFC_SET(mem_page_fault_info, info, fault_token_47_32, t >> 32);
	IFC_SET(mem_page_fault_info, info, fault_token_31_0, t);
	return command(odp_ops, MLX5_CMD_OP_PAGE_FAULT_RESUME, cmd, sizeof(cmd), out);
}

static enum cmd_status resume(uint64_t t, bool error)
{
	enum cmd_status status = answer(t, error);

	next_turn();
	return status;
}

/* Two pages absent; an implicit MR with that key as a child, and its null key. */
static int up(void **state)
{
	static const uint64_t none[8];
	unsigned int i;

	world_up(state);
	subscribed = true;
	eq_full = false;
	events = overs = 0;
	again = NULL;
	memset(timers, 0, sizeof(timers));
	for (i = 0; i < QPS; i++) {
		qps[i] = calloc(1, sizeof(*qps[i]));
		qps[i]->fault[0].over = qps[i]->fault[1].over = over;
	}
	root = create((struct spec){ MTT, 0x1000, 0x2000, 12, .octowords = 1, .variant = 7 });
	child = create((struct spec){ MTT, 0, 0x4000, 12, .octowords = 2 });
	null_key = create((struct spec){ MTT, .length64 = true, .log_page = 61, .octowords = 4,
					 .actual = 4, .list = none });
	implicit = create((struct spec){ KSM, .length64 = true, .log_page = 14, .octowords = 4 });
	set_klm(implicit, 0, 0, child, 0);
	set_klm(implicit, 1, 0, null_key, 0x4000);
	return 0;
}

static int down(void **state)
{
	unsigned int i, before = events;

	odp_reset(&hca);
	assert_null(hca.odp);
	assert_int_equal(events, before);
	assert_int_equal(running(), 0);
	for (i = 0; i < QPS; i++) {
		assert_null(qps[i]->fault[0].wait);
		assert_null(qps[i]->fault[1].wait);
		free(qps[i]);
	}
	return world_down(state);
}

static void set_page(uint32_t key, unsigned int i, uint64_t entry)
{
	put_be64(mkey_of(key)->translation + 8 * i, entry);
}

static struct mkey_fault fault_of(uint32_t key, uint64_t va, size_t len)
{
	const struct mkey_access a = { .key = key, .pd = PD, .qpn = QPN, .rights = RW };
	struct mkey_fault f;

	assert_int_equal(mkey_present(&hca, &a, va, len, &f), MKEY_ABSENT);
	return f;
}

static void fault(unsigned int qp, enum side side, uint32_t key, uint64_t va, size_t len)
{
	const struct mkey_fault f = fault_of(key, va, len);

	odp_fault(&hca, &qps[qp]->fault[side], &f);
}

static void fault_event_names_key_and_pages(void **state)
{
	static const struct { uint64_t va; size_t len; uint32_t pages; } t[] = {
		{ 0x1000, 1, 1 }, { 0x1000, 0x1000, 1 }, { 0x1fff, 2, 2 }, { 0x1001, 0x1000, 2 },
		{ 0x1800, 0x1800, 2 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		fault(i, FAULT_RESPONDER, root, t[i].va, t[i].len);
		assert_int_equal(events, i + 1);
		assert_int_equal(event[0], 0x80);
		assert_int_equal(be32_at(event + 2), 0);	/* no pages around it */
		assert_int_equal(be32_at(event + 12), t[i].pages << 12);
		assert_int_equal(be32_at(event + 16), root);
		assert_int_equal(be64_at(event + 20), t[i].va);
	}
	/* More than the field can say. */
	odp_fault(&hca, &qps[i]->fault[FAULT_REQUESTER],
		  &(struct mkey_fault){ .key = root, .length = 1ull << 33 });
	assert_int_equal(be32_at(event + 12), 0xfffff000);
	assert_int_equal(overs, 0);
}

static void resume_ends_its_fault_once(void **state)
{
	uint64_t first, second;

	fault(0, FAULT_REQUESTER, root, 0x1000, 8);
	first = token();
	fault(0, FAULT_RESPONDER, root, 0x2000, 8);
	second = token();
	assert_int_not_equal(first, second);
	fault(0, FAULT_RESPONDER, root, 0x1000, 8);	/* that side waits already */
	assert_int_equal(events, 2);

	/* Not in the command: the QP may have to ask QEMU, which waits for that. */
	assert_int_equal(answer(second, false), CMD_OK);
	assert_int_equal(overs, 0);
	assert_int_equal(answer(second, true), CMD_OK);
	next_turn();
	assert_int_equal(overs, 1);
	assert_ptr_equal(over_qp, qps[0]);
	assert_int_equal(over_side, FAULT_RESPONDER);
	assert_false(over_failed);
	/* A token is good once; one that was never given is refused. */
	assert_int_equal(resume(second, false), CMD_OK);
	assert_int_equal(overs, 1);
	assert_int_equal(resume(second + 10 * ODP_REPORTED, false), CMD_BAD_PARAM);
	assert_int_equal(resume(0, false), CMD_BAD_PARAM);
	assert_int_equal(resume(0xffffffffffff, true), CMD_BAD_PARAM);

	/* An error for the access's own key is final. */
	assert_int_equal(resume(first, true), CMD_OK);
	assert_int_equal(overs, 2);
	assert_int_equal(over_side, FAULT_REQUESTER);
	assert_true(over_failed);
}

static void resume_without_a_fault_is_bad_param(void **state)
{
	assert_int_equal(resume(1025, false), CMD_BAD_PARAM);
}

/* The slot of a fault that is over is used again, and its old token means nothing. */
static void old_token_ends_no_new_fault(void **state)
{
	uint64_t old;

	fault(0, FAULT_REQUESTER, root, 0x1000, 8);
	old = token();
	odp_forget(&hca, qps[0]->fault, 2);
	fault(1, FAULT_REQUESTER, root, 0x1000, 8);
	assert_int_equal(token() % ODP_REPORTED, old % ODP_REPORTED);
	assert_int_equal(resume(old, true), CMD_OK);
	assert_int_equal(overs, 0);
	assert_int_equal(resume(token(), false), CMD_OK);
	assert_ptr_equal(over_qp, qps[1]);
}

/* It was answered, and is destroyed before it goes on. */
static void answered_qp_may_be_forgotten_first(void **state)
{
	fault(0, FAULT_RESPONDER, root, 0x1000, 8);
	assert_int_equal(answer(token(), false), CMD_OK);
	odp_forget(&hca, qps[0]->fault, 2);
	assert_int_equal(running(), 0);
	assert_int_equal(overs, 0);
}

static void fault_without_subscriber_polls_its_pages(void **state)
{
	subscribed = false;
	fault(0, FAULT_REQUESTER, root, 0x1ff0, 0x20);
	assert_int_equal(events, 0);
	expire(10 * MS);
	set_page(root, 0, A + 3);
	expire(10 * MS);		/* the second page is absent still */
	set_page(root, 1, A + 1);
	expire(10 * MS);		/* and then read only */
	assert_int_equal(overs, 0);
	set_page(root, 1, A + 3);
	expire(10 * MS);
	assert_int_equal(overs, 1);
	assert_false(over_failed);
	assert_int_equal(events, 0);
}

/* Somebody subscribes while an access polls; an EQ that takes nothing is like none. */
static void later_subscriber_gets_a_polling_fault(void **state)
{
	subscribed = false;
	fault(0, FAULT_REQUESTER, root, 0x1ff0, 0x20);
	set_page(root, 0, A + 3);
	subscribed = eq_full = true;
	expire(10 * MS);
	assert_int_equal(events, 0);
	eq_full = false;
	expire(10 * MS);
	assert_int_equal(events, 1);
	assert_int_equal(be64_at(event + 20), 0x2000);	/* as it is now */
	assert_int_equal(running(), 0);
	assert_int_equal(resume(token(), false), CMD_OK);
	assert_int_equal(overs, 1);
}

/* The key is gone: the QP's own walk has to find that. */
static void freed_key_ends_the_wait(void **state)
{
	subscribed = false;
	fault(0, FAULT_REQUESTER, root, 0x1000, 8);
	mkey_of(root)->free = true;
	expire(10 * MS);
	assert_int_equal(overs, 1);
	assert_false(over_failed);
}

/* The driver refuses a child that it is taking out of its parent. */
static void refused_child_is_walked_again(void **state)
{
	fault(0, FAULT_REQUESTER, implicit, 0x1000, 8);
	assert_int_equal(be32_at(event + 16), child);
	assert_int_equal(be64_at(event + 20), 0x1000);
	assert_int_equal(resume(token(), true), CMD_OK);
	assert_int_equal(resume(token(), true), CMD_OK);	/* twice: counts once */
	assert_int_equal(overs, 0);
	expire(1 * MS);
	assert_int_equal(events, 2);
	assert_int_equal(be32_at(event + 16), child);
	assert_int_equal(resume(token(), true), CMD_OK);
	set_klm(implicit, 0, 0, null_key, 0);
	expire(2 * MS);
	assert_int_equal(events, 3);
	assert_int_equal(be32_at(event + 16), null_key);
	assert_int_equal(be64_at(event + 20), 0x1000);
	assert_int_equal(resume(token(), false), CMD_OK);
	assert_int_equal(overs, 1);
	assert_false(over_failed);
}

static void child_errors_end_after_the_retries(void **state)
{
	unsigned int i;

	fault(0, FAULT_REQUESTER, implicit, 0x5000, 8);
	assert_int_equal(be32_at(event + 16), null_key);
	for (i = 0; i < ODP_RETRIES; i++) {
		assert_int_equal(resume(token(), true), CMD_OK);
		assert_int_equal(overs, 0);
		expire(MS << i);
	}
	assert_int_equal(resume(token(), true), CMD_OK);
	assert_int_equal(overs, 1);
	assert_true(over_failed);
	assert_int_equal(events, ODP_RETRIES + 1);
}

/* The QP faults again as soon as it goes on. */
static void qp_may_fault_again_at_once(void **state)
{
	const struct mkey_fault f = fault_of(root, 0x2000, 8);
	unsigned int i;

	again = &f;
	fault(0, FAULT_REQUESTER, root, 0x1000, 8);
	for (i = 1; i < 5000; i++) {
		assert_int_equal(resume(token(), false), CMD_OK);
		assert_int_equal(overs, i);
		assert_int_equal(events, i + 1);
	}
	again = NULL;
}

/* So many faults that not all are reported: the others follow as slots become free. */
static void faults_beyond_the_slots_wait(void **state)
{
	uint64_t first = 0;
	unsigned int i;

	for (i = 0; i < QPS; i++) {
		fault(i, FAULT_REQUESTER, root, 0x1000, 8);
		if (!i)
			first = token();
	}
	assert_int_equal(events, ODP_REPORTED);
	odp_forget(&hca, qps[ODP_REPORTED]->fault, 2);		/* the first in the queue */
	assert_int_equal(resume(first, false), CMD_OK);
	assert_int_equal(events, ODP_REPORTED + 1);
	assert_int_equal(resume(token(), false), CMD_OK);
	assert_ptr_equal(over_qp, qps[ODP_REPORTED + 1]);
	assert_int_equal(events, ODP_REPORTED + 2);
	odp_forget(&hca, qps[1]->fault, 2);
	assert_int_equal(resume(token(), false), CMD_OK);
	assert_ptr_equal(over_qp, qps[ODP_REPORTED + 2]);
	assert_int_equal(events, ODP_REPORTED + 2);
}

/* Nobody listens any more: what is in the queue polls. */
static void queued_faults_poll_without_a_subscriber(void **state)
{
	unsigned int i;

	for (i = 0; i < QPS; i++)
		fault(i, FAULT_REQUESTER, root, 0x1000, 8);
	subscribed = false;
	odp_forget(&hca, qps[5]->fault, 2);
	assert_int_equal(running(), QPS - ODP_REPORTED);
}

static void forgotten_qp_is_not_resumed(void **state)
{
	fault(0, FAULT_REQUESTER, root, 0x1000, 8);
	fault(0, FAULT_RESPONDER, implicit, 0x1000, 8);
	assert_int_equal(resume(token(), true), CMD_OK);
	assert_int_equal(running(), 1);
	odp_forget(&hca, qps[0]->fault, 2);
	assert_int_equal(running(), 0);
	odp_forget(&hca, qps[0]->fault, 2);
	odp_forget(&hca, qps[1]->fault, 2);
	assert_int_equal(overs, 0);
}

/* All that is outstanding ends with the reset, in silence: see down(). */
static void reset_ends_faults_in_silence(void **state)
{
	unsigned int i;

	for (i = 0; i < QPS; i++)
		fault(i, FAULT_REQUESTER, root, 0x1000, 8);
	subscribed = false;
	fault(3, FAULT_RESPONDER, root, 0x1000, 8);
	subscribed = true;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(fault_event_names_key_and_pages), CASE(resume_ends_its_fault_once),
		CASE(resume_without_a_fault_is_bad_param), CASE(old_token_ends_no_new_fault),
		CASE(fault_without_subscriber_polls_its_pages),
		CASE(later_subscriber_gets_a_polling_fault), CASE(freed_key_ends_the_wait),
		CASE(refused_child_is_walked_again), CASE(child_errors_end_after_the_retries),
		CASE(qp_may_fault_again_at_once),
		CASE(faults_beyond_the_slots_wait), CASE(queued_faults_poll_without_a_subscriber),
		CASE(forgotten_qp_is_not_resumed), CASE(reset_ends_faults_in_silence),
		CASE(answered_qp_may_be_forgotten_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
