// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program: one card for one QEMU.  It waits for QEMU on a socket, serves it, and ends
 * when QEMU goes.  With --data-direct the card has a second PCI function, which QEMU connects
 * to on a socket of its own, before the first one or after it, and again if it was unplugged:
 * the card does without it meanwhile.
 *
 * The order makes the boundary: files, sockets and the fabric are opened first, then the
 * sandbox is entered, then the first byte from outside is read.  When QEMU has
 * connected to the card, its socket is removed and the sandbox gets narrower.
 */
#define _GNU_SOURCE	/* accept4() */
#include "caps.h"
#include "direct.h"
#include "dma.h"
#include "function.h"
#include "hca.h"
#include "late.h"
#include "life.h"
#include "link.h"
#include "listener.h"
#include "loop.h"
#include "pci.h"
#include "plug.h"
#include "sandbox.h"
#include "stats.h"
#include "trace.h"
#include "vfio_user.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the process takes besides what the guest's objects may; 42 MiB: one WQE of each QP. */
#define OTHER_MEMORY (256ul << 20)

struct options {
	const char *socket, *data_direct, *fabric, *pcap, *log;
	uint64_t guid, late_ms;
	bool no_paging, trace;
};

/* A PCI function of the card, and its QEMU. */
struct side {
	struct model *model;
	const char *path;		/* NULL: there is no such function */
	int listener;			/* -1: not open */
	struct dma dma;
	struct function function;
	struct work gone;		/* its QEMU left */
};

struct model {
	struct options opt;
	struct loop *loop;
	struct side card, direct;
	struct vpd vpd;			/* of direct */
	enum sandbox sandbox;
	bool narrow;			/* it is, so no socket can be removed */
	int signals;			/* -1: not open */
	int status;			/* of the process */
};

static const char usage[] =
"Usage: connectx --socket PATH [OPTION]...\n"
"Be a ConnectX-4 in InfiniBand mode for one QEMU, by vfio-user.\n"
"\n"
"  --socket PATH   the UNIX socket that QEMU connects to; made here\n"
"  --fabric PATH   the socket of connectx-fabric; without it the port is alone\n"
"  --guid GUID     16 hex digits, of the node and its port; default: from PATH\n"
"  --data-direct PATH\n"
"                  have a second PCI function for Data Direct, at this UNIX socket\n"
"  --late-data MS  its writes arrive so late, after their completions\n"
"  --no-paging     have no page faults, as some cards: no on-demand paging\n"
"  --pcap FILE     write each packet to FILE, for Wireshark\n"
"  --log FILE      add messages to FILE instead of stderr\n"
"  --trace         a line for each command, work request and packet\n"
"  --help, --version\n"
"\n"
"QEMU, whose memory has to be shared:\n"
"  -object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem\n"
"  -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"PATH\"}}'\n"
"\n"
"Prints \"listening on PATH\" when QEMU may start, and ends with status 0 when QEMU ends\n"
"or on SIGTERM or SIGINT, with 1 on an error, with 2 on a wrong option.  At the end it\n"
"prints what was executed, and how long that took here.\n";

/* ---------------------------------------------------------------------- options */

/* 16 hex digits, with colons between them or without; 0 is no GUID. */
static uint64_t parse_guid(const char *text)
{
	uint64_t guid = 0;
	int digits = 0;

	for (; *text; text++) {
		const char *all = "0123456789abcdefABCDEF", *at = strchr(all, *text);

		if (*text == ':' && digits)
			continue;
		if (!at || digits++ == 16)
			return 0;
		guid = guid << 4 | (at - all < 16 ? at - all : at - all - 6);
	}
	return digits == 16 ? guid : 0;
}

/*
 * A GUID for who does not give one: the same for the same socket, and for others another
 * one (FNV-1a).  The prefix has the bit that says "not given by a manufacturer".
 */
static uint64_t default_guid(const char *path)
{
	char cwd[4096] = "";
	uint64_t hash = 0xcbf29ce484222325;

	if (*path != '/' && !getcwd(cwd, sizeof(cwd)))
		*cwd = 0;
	for (const char *c = cwd; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
	for (const char *c = path; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
	return 0x0200000000000000 | (hash & 0xffffffffff) | 1;
}

static void wrong_usage(const char *fmt, const char *what) __attribute__((noreturn));
static void wrong_usage(const char *fmt, const char *what)
{
	fputs("connectx: ", stderr);
	fprintf(stderr, fmt, what);
	fputs("\nTry connectx --help.\n", stderr);
	exit(2);
}

static uint64_t parse_ms(const char *text)
{
	char *end;
	unsigned long ms = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || !ms || ms > 3600000)
		wrong_usage("--late-data %s: this is not from 1 to 3600000 milliseconds", text);
	return ms;
}

static void parse_options(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "data-direct", required_argument, NULL, 'd' },
		{ "late-data", required_argument, NULL, 'm' },
		{ "fabric", required_argument, NULL, 'f' },
		{ "guid", required_argument, NULL, 'g' },
		{ "pcap", required_argument, NULL, 'p' },
		{ "log", required_argument, NULL, 'l' },
		{ "no-paging", no_argument, NULL, 'n' },
		{ "trace", no_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': o->socket = optarg; break;
		case 'd': o->data_direct = optarg; break;
		case 'm': o->late_ms = parse_ms(optarg); break;
		case 'f': o->fabric = optarg; break;
		case 'p': o->pcap = optarg; break;
		case 'l': o->log = optarg; break;
		case 'n': o->no_paging = true; break;
		case 't': o->trace = true; break;
		case 'g':
			o->guid = parse_guid(optarg);
			if (!o->guid)
				wrong_usage("--guid %s: this is not 16 hex digits, or it is 0",
					    optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case 'v':
			puts("connectx (mrfd): ConnectX-4 15b3:1013, vfio-user 0.0");
			exit(0);
		default:
			fputs("Try connectx --help.\n", stderr);
			exit(2);
		}
	}
	if (optind < argc)
		wrong_usage("%s: all arguments are options", argv[optind]);
	if (!o->socket)
		wrong_usage("--socket PATH is missing: where QEMU connects to%s", "");
	if (o->late_ms && !o->data_direct)
		wrong_usage("--late-data is about the function of --data-direct, which is missing%s",
			    "");
	if (!o->guid)
		o->guid = default_guid(o->socket);
}

/* ------------------------------------------------------------------- the device */

static void region_read(void *arg, unsigned int region, uint64_t offset, void *data, size_t size)
{
	struct side *side = arg;

	function_read(&side->function, region, offset, data, size);
}

static void region_write(void *arg, unsigned int region, uint64_t offset, const void *data,
			 size_t size)
{
	struct side *side = arg;

	function_write(&side->function, region, offset, data, size);
}

static void device_reset(void *arg)
{
	struct side *side = arg;

	function_reset(&side->function);
}

static void card_gone(void *arg, int err)
{
	struct model *m = ((struct side *)arg)->model;

	if (err)
		m->status = 1;
	loop_stop(m->loop);
}

/* The connection still uses its own memory. */
static void direct_gone(void *arg, int err)
{
	struct side *side = arg;

	side->dma.off = true;
	loop_work(side->model->loop, &side->gone);
}

static void forget_client(struct work *w)
{
	struct side *side = list_item(w, struct side, gone);

	note("the function of Data Direct is unplugged");
	vfu_free(side->function.vfu);
	function_plug(&side->function, NULL);
}

static const struct vfu_ops card_ops = {
	.region_size = { [VFU_BAR0] = PCI_BAR_SIZE, [VFU_CONFIG] = PCI_CONFIG_SIZE },
	.vectors = PCI_VECTORS,
	.read = region_read,
	.write = region_write,
	.reset = device_reset,
	.gone = card_gone,
};

static const struct vfu_ops second_ops = {
	.region_size = { [VFU_CONFIG] = PCI_CONFIG_SIZE },
	.read = region_read,
	.write = region_write,
	.reset = device_reset,
	.gone = direct_gone,
};

/* ------------------------------------------------------------------- the sockets */

static void stop_listening(struct side *side)
{
	if (side->listener < 0)
		return;
	loop_unwatch(side->model->loop, side->listener);
	close(side->listener);
	side->listener = -1;
}

static void fail(struct model *m)
{
	m->status = 1;
	loop_stop(m->loop);
}

/* A connection, or -1: there is none. */
static int accept_client(struct side *side)
{
	int fd = accept4(side->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		note("accept: %s", strerror(errno));
		fail(side->model);
	}
	return fd;
}

static bool serve(struct side *side, const struct vfu_ops *ops, int fd)
{
	struct model *m = side->model;
	struct vfu *vfu = vfu_new(m->loop, &side->dma, ops, side, fd);

	if (!vfu) {
		note("QEMU cannot be served: %s", strerror(errno));
		return false;
	}
	function_plug(&side->function, vfu);
	if (m->card.function.vfu && m->direct.function.vfu)
		vfu_pair(m->card.function.vfu, m->direct.function.vfu);
	return true;
}

/* One card, one QEMU. */
static void card_arrived(void *arg, uint32_t events)
{
	struct side *side = arg;
	struct model *m = side->model;
	int fd = accept_client(side);

	if (fd < 0)
		return;
	stop_listening(side);
	unlink(side->path);
	m->narrow = true;
	if (sandbox_narrow(m->sandbox)) {
		close(fd);
		fail(m);
	} else if (!serve(side, &card_ops, fd)) {
		fail(m);
	}
}

static void direct_arrived(void *arg, uint32_t events)
{
	struct side *side = arg;
	int fd = accept_client(side);

	if (fd < 0)
		return;
	/* QEMU may be back before its old connection was put away. */
	if (work_queued(&side->gone)) {
		work_stop(&side->gone);
		forget_client(&side->gone);
	}
	if (!side->function.vfu) {
		serve(side, &second_ops, fd);
		return;
	}
	note("the function of Data Direct has a QEMU already");
	close(fd);
}

/* ---------------------------------------------------------------------- signals */

static void leave(struct side *side, const char *who)
{
	if (!side->function.vfu || side->function.left)
		return;
	note("%s leaves its slot", who);
	function_leave(&side->function);
}

static void signalled(void *arg, uint32_t events)
{
	struct model *m = arg;
	struct signalfd_siginfo info;

	if (read(m->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		leave(&m->card, "SIGUSR1: the card");
		leave(&m->direct, "SIGUSR1: the function of Data Direct");
	} else if (info.ssi_signo == SIGUSR2) {
		leave(&m->direct, "SIGUSR2: the function of Data Direct");
	} else {
		loop_stop(m->loop);
	}
}

/* See dma_file.c.  It cannot be survived: the access would only be tried again. */
static void bus_error(int sig)
{
	static const char text[] = "connectx: SIGBUS: a file of guest memory got shorter than "
				   "its mapping; did QEMU resize it?\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(3);
	_exit(1);
}

static int open_signals(struct model *m)
{
	struct sigaction bus = { .sa_handler = bus_error }, ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	m->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (m->signals < 0)
		return -errno;
	return loop_watch(m->loop, m->signals, EPOLLIN, signalled, m);
}

/* ------------------------------------------------------------------------- main */

static FILE *open_log(const struct options *o)
{
	FILE *file = stderr;

	if (o->log) {
		file = fopen(o->log, "ae");
		if (!file) {
			fprintf(stderr, "connectx: --log %s: %s\n", o->log, strerror(errno));
			exit(1);
		}
	}
	trace_to(file, o->trace);
	return file;
}

/* What fails says so, here and below. */
static int listen_at(struct side *side, void (*arrived)(void *arg, uint32_t events))
{
	int ret;

	side->listener = listener_open(side->path, 1);
	if (side->listener < 0)
		return -1;
	ret = loop_watch(side->model->loop, side->listener, EPOLLIN, arrived, side);
	if (ret)
		note("the socket cannot be watched: %s", strerror(-ret));
	return ret;
}

/* Before the first byte of QEMU. */
static int set_up_direct(struct model *m, struct hca *hca)
{
	struct side *side = &m->direct;

	direct_init(hca, &side->dma);
	vpd_init(&m->vpd, hca->vuid);
	side->function.dma = &side->dma;
	side->function.vpd = &m->vpd;
	function_init(&side->function);
	side->dma.other = &m->card.dma;
	m->card.dma.other = &side->dma;
	work_init(&side->gone, forget_client);
	if (m->opt.late_ms) {
		side->dma.late = late_new(m->loop, &side->dma, m->opt.late_ms * 1000000);
		if (!side->dma.late) {
			note("there is not enough memory for late data");
			return -1;
		}
	}
	return listen_at(side, direct_arrived);
}

/* All that is opened. */
static int set_up(struct model *m)
{
	struct side *side = &m->card;
	struct hca *hca;
	int ret;

	m->loop = loop_new();
	if (!m->loop) {
		note("the event loop cannot be made: %s", strerror(errno));
		return -1;
	}
	ret = open_signals(m);
	if (ret) {
		note("signals cannot be watched: %s", strerror(-ret));
		return -1;
	}
	hca = hca_new(m->loop, &side->dma, m->opt.guid);
	if (!hca) {
		note("there is not enough memory for the device");
		return -1;
	}
	side->function.dma = &side->dma;
	side->function.hca = hca;
	function_init(&side->function);
	hca->no_paging = m->opt.no_paging;
	hca->raise = function_raise;
	hca->raise_arg = &side->function;
	if (m->direct.path && set_up_direct(m, hca))
		return -1;
	caps_init(hca);
	if (!hca_plug(hca, m->opt.fabric, m->opt.pcap))
		return -1;
	return listen_at(side, card_arrived);
}

/* A socket at which the sandbox let us listen to the end stays: it may not be removed. */
static void stop_side(struct side *side)
{
	vfu_free(side->function.vfu);
	side->function.vfu = NULL;
	late_free(side->dma.late);
	side->dma.late = NULL;
	dma_unmap_all(&side->dma);
	if (side->listener >= 0 && !side->model->narrow)
		unlink(side->path);
	stop_listening(side);
}

static void tear_down(struct model *m)
{
	struct hca *hca = m->card.function.hca;

	stop_side(&m->direct);
	stop_side(&m->card);
	if (hca) {
		/* Its queue pairs give packets back to the link, which knows the device. */
		hca_reset(hca);
		link_free(hca->link);
		hca->link = NULL;
		hca_free(hca);
	}
	loop_free(m->loop);
	if (m->signals >= 0)
		close(m->signals);
}

static void write_traffic(const char *which, const struct dma_traffic *t, FILE *to)
{
	fprintf(to, "connectx: by keys, %s function: %llu reads (%llu bytes), "
		"%llu writes (%llu bytes), %llu atomics\n", which,
		(unsigned long long)t->reads, (unsigned long long)t->read_bytes,
		(unsigned long long)t->writes, (unsigned long long)t->written_bytes,
		(unsigned long long)t->atomics);
}

static void write_stats(const struct model *m, FILE *to)
{
	const struct stats *s = &m->card.function.hca->stats;

	stats_write(s, to);
	if (!s->rows)
		return;
	write_traffic("first", &m->card.dma.traffic, to);
	if (m->direct.path)
		write_traffic("second", &m->direct.dma.traffic, to);
}

int main(int argc, char **argv)
{
	static struct model m = {
		.card = { .model = &m, .listener = -1 },
		.direct = { .model = &m, .listener = -1 },
		.signals = -1,
	};
	FILE *log;

	parse_options(&m.opt, argc, argv);
	m.card.path = m.opt.socket;
	m.direct.path = m.opt.data_direct;
	log = open_log(&m.opt);
	if (set_up(&m)) {
		m.status = 1;
		goto out;
	}
	note("listening on %s, guid %016llx", m.opt.socket, (unsigned long long)m.opt.guid);
	if (m.opt.log)
		fprintf(stderr, "connectx: listening on %s\n", m.opt.socket);
	m.sandbox = m.direct.path ? SANDBOX_DIRECT : SANDBOX_MODEL;
	if (sandbox_enter(m.sandbox, HCA_MEMORY + OTHER_MEMORY))
		m.status = 1;
	else
		loop_run(m.loop);
	if (!m.status)
		write_stats(&m, log);
out:
	tear_down(&m);
	return m.status;
}
