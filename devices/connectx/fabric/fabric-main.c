// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * connectx-fabric: joins the models of several guests to one InfiniBand subnet.  It
 * listens on a Unix socket, gives each model that connects a port of the switch
 * (switch.c), and moves frames (fabric.h) between sockets and switch.
 *
 * A model is not trusted.  It has two buffers of fixed size and nothing else: if it does
 * not read, its output buffer is full and the switch drops what goes to it; if what it
 * sends has to wait for another port, its socket is not read; if it sends what is no frame,
 * or does not say hello in time, its connection ends.  Each turn handles FABRIC_TURN of
 * its frames.  Before it accepts the first one it enters the sandbox.
 */
#define _GNU_SOURCE		/* accept4() */
#include "fabric.h"
#include "ifc.h"
#include "list.h"
#include "listener.h"
#include "loop.h"
#include "pcap.h"
#include "sandbox.h"
#include "switch.h"
#include "trace.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define FABRIC_TURN 64
#define FABRIC_HELLO_NS 5000000000ull
#define FABRIC_PORT_ACTIVE 4
/* Buffers of all ports are 40 MiB, held packets 17 MiB; groups and services are small. */
#define FABRIC_MEMORY (256ul << 20)

struct fabric {
	struct loop *loop;
	struct ib_switch *sw;
	struct pcap *pcap;
	int listener, signals;
	struct list models;
	unsigned int count;
};

struct model {
	struct list entry;
	struct fabric *fabric;
	struct fabric_stream stream;
	struct switch_port *port;	/* NULL: no hello yet */
	struct timer hello;
	uint32_t events;
	bool held;			/* the switch said to wait */
	bool full;			/* we said so to the switch */
	bool ended;			/* it goes at the end of this turn */
	struct work in, out, end;
};

static void watch(struct model *m, uint32_t events)
{
	if (m->events == events)
		return;
	m->events = events;
	loop_rewatch(m->fabric->loop, m->stream.fd, events);
}

/* Frees it. */
static void model_end(struct model *m)
{
	if (m->port)
		switch_detach(m->port);
	timer_stop(&m->hello);
	work_stop(&m->in);
	work_stop(&m->out);
	work_stop(&m->end);
	loop_unwatch(m->fabric->loop, m->stream.fd);
	fabric_done(&m->stream);
	list_del(&m->entry);
	m->fabric->count--;
	free(m);
}

static void end_run(struct work *w)
{
	model_end(list_item(w, struct model, end));
}

/* In a turn of its own, because the switch or a caller may still be at work with it. */
static void model_fail(struct model *m, const char *why)
{
	if (m->ended)
		return;
	if (m->port)
		note("LID %u: %s", switch_lid(m->port), why);
	else
		note("a connection: %s", why);
	m->ended = true;
	watch(m, 0);
	loop_work(m->fabric->loop, &m->end);
}

/* ---- towards the model ---- */

static void out_run(struct work *w)
{
	struct model *m = list_item(w, struct model, out);
	int err = fabric_flush(&m->stream);

	if (err) {
		model_fail(m, strerror(-err));
		return;
	}
	if (fabric_pending(&m->stream))
		watch(m, m->events | EPOLLOUT);
	else
		watch(m, m->events & ~EPOLLOUT);
	if (m->full && fabric_pending(&m->stream) < FABRIC_OUT / 4) {
		m->full = false;
		switch_room(m->port);
	}
}

static bool deliver(void *arg, const u8 *wire, size_t len)
{
	struct model *m = arg;
	u8 *body;

	if (m->ended)
		return true;
	body = fabric_reserve(&m->stream, len);
	if (!body) {
		m->full = true;
		return false;
	}
	memcpy(body, wire, len);
	fabric_commit(&m->stream, FABRIC_PACKET, len);
	if (!(m->events & EPOLLOUT))
		loop_work(m->fabric->loop, &m->out);
	return true;
}

/* ---- from the model ---- */

static void resume(void *arg)
{
	struct model *m = arg;

	m->held = false;
	if (m->ended)
		return;
	watch(m, m->events | EPOLLIN);
	loop_work(m->fabric->loop, &m->in);
}

static void refuse(struct model *m, const char *why)
{
	u8 *body = fabric_reserve(&m->stream, strlen(why));

	memcpy(body, why, strlen(why));
	fabric_commit(&m->stream, FABRIC_REFUSED, strlen(why));
	fabric_flush(&m->stream);
	model_fail(m, why);
}

static void hello(struct model *m, int type, const u8 *body, size_t len)
{
	static const struct switch_port_ops ops = { deliver, resume };
	const char *why;
	u8 *welcome;

	if (type != FABRIC_HELLO || len != FABRIC_HELLO_SIZE || be32_at(body) != FABRIC_MAGIC) {
		refuse(m, "no hello of this version of the protocol");
		return;
	}
	m->port = switch_attach(m->fabric->sw, be64_at(body + 4), &ops, m, &why);
	if (!m->port) {
		refuse(m, why);
		return;
	}
	timer_stop(&m->hello);
	note("LID %u is GUID 0x%016llx", switch_lid(m->port),
	     (unsigned long long)be64_at(body + 4));
	welcome = fabric_reserve(&m->stream, FABRIC_WELCOME_SIZE);
	put_be16(welcome, switch_lid(m->port));
	put_be16(welcome + 2, SWITCH_SM_LID);
	welcome[4] = FABRIC_PORT_ACTIVE;
	welcome[5] = 0;
	fabric_commit(&m->stream, FABRIC_WELCOME, FABRIC_WELCOME_SIZE);
	loop_work(m->fabric->loop, &m->out);
}

/* One frame; false: no more in this turn. */
static bool take_frame(struct model *m)
{
	const u8 *body;
	size_t len;
	int type = fabric_peek(&m->stream, &body, &len);

	if (!type)
		return false;
	if (!m->port && type > 0) {
		hello(m, type, body, len);
	} else if (type != FABRIC_PACKET) {
		model_fail(m, "it sent a frame that does not belong here");
	} else if (!switch_send(m->port, body, len)) {
		m->held = true;
		watch(m, m->events & ~EPOLLIN);
		return false;
	}
	if (m->ended)
		return false;
	fabric_next(&m->stream);
	return true;
}

static void in_run(struct work *w)
{
	struct model *m = list_item(w, struct model, in);
	unsigned int n = 0;
	const u8 *body;
	size_t len;
	ssize_t got;

	if (m->held || m->ended)
		return;
	if (!fabric_peek(&m->stream, &body, &len)) {
		got = fabric_fill(&m->stream);
		if (got < 0) {
			model_fail(m, got == -ECONNRESET ? "it closed the connection" :
				   strerror(-got));
			return;
		}
	}
	while (n < FABRIC_TURN && take_frame(m))
		n++;
	if (n == FABRIC_TURN)
		loop_work(m->fabric->loop, w);
}

static void model_ready(void *arg, uint32_t events)
{
	struct model *m = arg;

	if (events & EPOLLOUT)
		out_run(&m->out);
	if (events & EPOLLIN)
		in_run(&m->in);
	else if (events & (EPOLLHUP | EPOLLERR))
		model_fail(m, "it closed the connection");
}

static void hello_expired(struct timer *t)
{
	model_fail(list_item(t, struct model, hello), "it did not say hello");
}

/* ---- the program ---- */

static void model_new(struct fabric *f, int fd)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m || fabric_init(&m->stream, fd)) {
		if (!m)
			close(fd);
		free(m);
		note("no memory for a connection");
		return;
	}
	m->fabric = f;
	m->events = EPOLLIN;
	work_init(&m->in, in_run);
	work_init(&m->out, out_run);
	work_init(&m->end, end_run);
	timer_init(&m->hello, hello_expired);
	list_init(&m->entry);
	list_add(&f->models, &m->entry);
	f->count++;
	if (loop_watch(f->loop, fd, m->events, model_ready, m)) {
		model_end(m);
		return;
	}
	timer_start(f->loop, &m->hello, FABRIC_HELLO_NS);
	/* One may be without a port for a moment, to be told so. */
	if (f->count > SWITCH_PORTS)
		refuse(m, "all ports are taken");
}

static void listener_ready(void *arg, uint32_t events)
{
	struct fabric *f = arg;
	int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		model_new(f, fd);
	} else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		note("accept: %s", strerror(errno));
		loop_stop(f->loop);
	}
}

static void signal_ready(void *arg, uint32_t events)
{
	struct fabric *f = arg;

	loop_stop(f->loop);
}

static const char usage[] =
"connectx-fabric: an InfiniBand fabric between models of connectx\n"
"\n"
"	--socket PATH	listen here; give the same path to connectx --fabric\n"
"	--drop P	lose P percent of the packets\n"
"	--duplicate P	deliver P percent twice\n"
"	--reorder P	let others overtake P percent\n"
"	--delay US	hold each packet for so many microseconds\n"
"	--seed N	choose other packets for these\n"
"	--pcap FILE	capture all packets, for Wireshark\n"
"	--trace		a line for each packet\n"
"	--help		this\n";

struct options {
	const char *socket, *pcap;
	struct switch_faults faults;
	bool trace;
};

/* What is wrong has been said. */
static void misuse(void) __attribute__((noreturn));
static void misuse(void)
{
	fputs("Try connectx-fabric --help.\n", stderr);
	exit(2);
}

static double number(const char *name, const char *text, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= max)) {
		fprintf(stderr, "connectx-fabric: --%s %s: not a number from 0 to %g\n", name,
			text, max);
		misuse();
	}
	return value;
}

static void parse_options(int argc, char **argv, struct options *o)
{
	enum { SOCKET = 1, DROP, DUPLICATE, REORDER, DELAY, SEED, PCAP, TRACE, HELP };
	static const struct option options[] = {
		{ "socket", required_argument, NULL, SOCKET },
		{ "drop", required_argument, NULL, DROP },
		{ "duplicate", required_argument, NULL, DUPLICATE },
		{ "reorder", required_argument, NULL, REORDER },
		{ "delay", required_argument, NULL, DELAY },
		{ "seed", required_argument, NULL, SEED },
		{ "pcap", required_argument, NULL, PCAP },
		{ "trace", no_argument, NULL, TRACE },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case SOCKET:
			o->socket = optarg;
			break;
		case DROP:
			o->faults.drop = number("drop", optarg, 100) / 100;
			break;
		case DUPLICATE:
			o->faults.duplicate = number("duplicate", optarg, 100) / 100;
			break;
		case REORDER:
			o->faults.reorder = number("reorder", optarg, 100) / 100;
			break;
		case DELAY:
			o->faults.delay_ns = number("delay", optarg, 1e6) * 1000;
			break;
		case SEED:
			o->faults.seed = number("seed", optarg, 0x1p53);
			break;
		case PCAP:
			o->pcap = optarg;
			break;
		case TRACE:
			o->trace = true;
			break;
		case HELP:
			fputs(usage, stdout);
			exit(0);
		default:
			misuse();
		}
	}
	if (!o->socket || optind < argc) {
		fprintf(stderr, "connectx-fabric: %s%s\n",
			o->socket ? "unexpected argument: " : "--socket PATH is missing",
			o->socket ? argv[optind] : "");
		misuse();
	}
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "connectx-fabric: %s: %s\n", what, strerror(err));
	return 1;
}

/* 0, or the exit status; fabric_end() frees what there is. */
static int fabric_start(struct fabric *f, const struct options *o)
{
	sigset_t stop;

	list_init(&f->models);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	f->listener = -1;
	f->signals = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
	f->loop = loop_new();
	if (f->signals < 0 || !f->loop)
		return fail("start", errno);
	if (o->pcap && !(f->pcap = pcap_open(f->loop, o->pcap)))
		return fail(o->pcap, errno);
	f->sw = switch_new(f->loop, &o->faults, f->pcap);
	if (!f->sw)
		return fail("start", ENOMEM);
	f->listener = listener_open(o->socket, SWITCH_PORTS);
	if (f->listener < 0)
		return 1;	/* its note says why */
	if (loop_watch(f->loop, f->listener, EPOLLIN, listener_ready, f) ||
	    loop_watch(f->loop, f->signals, EPOLLIN, signal_ready, f))
		return fail("start", ENOMEM);
	return 0;
}

/* The sandbox removes no file, so the socket stays; the next fabric replaces it. */
static void fabric_end(struct fabric *f)
{
	while (!list_empty(&f->models))
		model_end(list_item(f->models.next, struct model, entry));
	if (f->listener >= 0) {
		loop_unwatch(f->loop, f->listener);
		close(f->listener);
	}
	switch_free(f->sw);
	pcap_close(f->pcap);
	if (f->loop) {
		loop_unwatch(f->loop, f->signals);
		loop_free(f->loop);
	}
	if (f->signals >= 0)
		close(f->signals);
}

static void report(const struct switch_count *c)
{
	note("%llu packets; %llu bad, %llu to nobody, %llu dropped, %llu duplicated, "
	     "%llu reordered, %llu to a full port", (unsigned long long)c->packets,
	     (unsigned long long)c->bad, (unsigned long long)c->unknown,
	     (unsigned long long)c->dropped, (unsigned long long)c->duplicated,
	     (unsigned long long)c->reordered, (unsigned long long)c->stalled);
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct fabric f = { 0 };
	int ret;

	parse_options(argc, argv, &o);
	trace_to(stderr, o.trace);
	ret = fabric_start(&f, &o);
	if (!ret) {
		note("listening on %s", o.socket);
		ret = !!sandbox_enter(SANDBOX_FABRIC, FABRIC_MEMORY);
	}
	if (!ret) {
		loop_run(f.loop);
		report(switch_counters(f.sw));
	}
	fabric_end(&f);
	return ret;
}
