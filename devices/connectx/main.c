// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program: one device for one QEMU.  It waits for QEMU on a socket, serves it,
 * and ends when QEMU goes.
 *
 * The order makes the boundary: files, sockets and the fabric are opened first, then the
 * sandbox is entered, then the first byte from outside is read.  When QEMU has
 * connected, the socket is removed and the sandbox gets narrower.
 */
#define _GNU_SOURCE	/* accept4() */
#include "function.h"
#include "link.h"
#include "listener.h"
#include "sandbox.h"
#include <getopt.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the process takes besides what the guest's objects may; 42 MiB: one WQE of each QP. */
#define OTHER_MEMORY (256ul << 20)

struct options {
	const char *socket, *fabric, *pcap, *log;
	uint64_t guid;
	bool no_paging, trace;
};

struct model {
	struct options opt;
	struct loop *loop;
	struct dma dma;
	struct function function;
	int listener, signals;		/* -1: not open */
	int status;			/* of the process */
};

static const char usage[] =
"Usage: connectx --socket PATH [OPTION]...\n"
"Be a ConnectX-4 in InfiniBand mode for one QEMU, by vfio-user.\n"
"\n"
"  --socket PATH   the UNIX socket that QEMU connects to; made here\n"
"  --fabric PATH   the socket of connectx-fabric; without it the port is alone\n"
"  --guid GUID     16 hex digits, of the node and its port; default: from PATH\n"
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

static void parse_options(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
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
	if (!o->guid)
		o->guid = default_guid(o->socket);
}

/* ------------------------------------------------------------------- the device */

static void region_read(void *arg, unsigned int region, uint64_t offset, void *data, size_t size)
{
	struct model *m = arg;

	function_read(&m->function, region, offset, data, size);
}

static void region_write(void *arg, unsigned int region, uint64_t offset, const void *data,
			 size_t size)
{
	struct model *m = arg;

	function_write(&m->function, region, offset, data, size);
}

static void device_reset(void *arg)
{
	struct model *m = arg;

	function_reset(&m->function);
}

static void client_gone(void *arg, int err)
{
	struct model *m = arg;

	if (err)
		m->status = 1;
	loop_stop(m->loop);
}

static const struct vfu_ops device = {
	.region_size = { [VFU_BAR0] = HCA_BAR_SIZE, [VFU_CONFIG] = PCI_CONFIG_SIZE },
	.vectors = HCA_VECTORS,
	.read = region_read,
	.write = region_write,
	.reset = device_reset,
	.gone = client_gone,
};

/* ------------------------------------------------------------------- the socket */

static void stop_listening(struct model *m)
{
	if (m->listener < 0)
		return;
	loop_unwatch(m->loop, m->listener);
	close(m->listener);
	m->listener = -1;
	unlink(m->opt.socket);
}

static void client_arrived(void *arg, uint32_t events)
{
	struct model *m = arg;
	int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		note("accept: %s", strerror(errno));
		goto err;
	}
	/* One device, one QEMU. */
	stop_listening(m);
	if (sandbox_narrow()) {
		close(fd);
		goto err;
	}
	m->function.vfu = vfu_new(m->loop, &m->dma, &device, m, fd);
	if (m->function.vfu) {
		function_reset(&m->function);
		return;
	}
	note("the client cannot be served: %s", strerror(errno));
err:
	m->status = 1;
	loop_stop(m->loop);
}

/* ---------------------------------------------------------------------- signals */

static void signalled(void *arg, uint32_t events)
{
	struct model *m = arg;
	struct signalfd_siginfo info;

	if (read(m->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo != SIGUSR1) {
		loop_stop(m->loop);
	} else if (m->function.vfu && !m->function.left) {
		note("SIGUSR1: the card leaves its slot");
		function_leave(&m->function);
	}
}

/* See dma.c.  It cannot be survived: the access would only be tried again. */
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

/* All that is opened.  What fails says so. */
static int set_up(struct model *m)
{
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
	m->listener = listener_open(m->opt.socket, 1);
	if (m->listener < 0)
		return -1;
	hca = hca_new(m->loop, &m->dma, m->opt.guid);
	if (!hca) {
		note("there is not enough memory for the device");
		return -1;
	}
	m->function.dma = &m->dma;
	m->function.hca = hca;
	function_init(&m->function);
	hca->no_paging = m->opt.no_paging;
	caps_init(hca);
	hca->raise = function_raise;
	hca->raise_arg = &m->function;
	hca->link = link_new(hca, m->opt.fabric, m->opt.pcap);
	if (!hca->link)
		return -1;	/* its note says why */
	ret = loop_watch(m->loop, m->listener, EPOLLIN, client_arrived, m);
	if (ret) {
		note("the socket cannot be watched: %s", strerror(-ret));
		return -1;
	}
	return 0;
}

static void tear_down(struct model *m)
{
	struct hca *hca = m->function.hca;

	vfu_free(m->function.vfu);
	m->function.vfu = NULL;
	if (hca) {
		/* Its queue pairs give packets back to the link, which knows the device. */
		hca_reset(hca);
		link_free(hca->link);
		hca->link = NULL;
		hca_free(hca);
	}
	stop_listening(m);
	dma_unmap_all(&m->dma);
	loop_free(m->loop);
	if (m->signals >= 0)
		close(m->signals);
}

int main(int argc, char **argv)
{
	static struct model m = { .listener = -1, .signals = -1 };
	FILE *log;

	parse_options(&m.opt, argc, argv);
	log = open_log(&m.opt);
	if (set_up(&m)) {
		m.status = 1;
		goto out;
	}
	note("listening on %s, guid %016llx", m.opt.socket, (unsigned long long)m.opt.guid);
	if (m.opt.log)
		fprintf(stderr, "connectx: listening on %s\n", m.opt.socket);
	if (sandbox_enter(SANDBOX_MODEL, HCA_MEMORY + OTHER_MEMORY))
		m.status = 1;
	else
		loop_run(m.loop);
	if (!m.status)
		stats_write(&m.function.hca->stats, log);
out:
	tear_down(&m);
	return m.status;
}
