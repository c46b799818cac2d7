// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The first process of a guest: make a root, run one command in it, report how
 * it ended, power off.
 *
 * The initramfs holds this program as /init and a file /config: records of the
 * form KEY=VALUE.  Each ends in NUL, so that an argument can hold any other byte:
 *	dir=PATH	where the project is mounted, read-only
 *	cwd=PATH	where the command starts
 *	host=NAME	host name
 *	env=NAME=VALUE	one variable of the command's environment; repeated
 *	arg=TEXT	one word of the command; repeated, in order
 *	tty=ROWS COLS	the command has the terminal hvc0
 *	stdin=1		the command reads what the host writes to the output port
 *	modules=PATH	the kernel's modules, which become /lib/modules/VERSION
 *	config=PATH	its configuration, which becomes /boot/config-VERSION: programs read it
 *	load=PATH	a module of the initramfs, loaded before anything else; repeated, in order
 *
 * The root is an overlay: the host's userland by 9p, read-only, under a tmpfs.
 * Nothing that a guest writes reaches the host.  The command's output goes
 * through a pipe to the second virtio port: a port can be opened only once, so
 * without the pipe "echo >/dev/stderr" would fail.  The first port carries
 * "exit N SIZE" or "signal N SIZE" when the command has ended and SIZE bytes of
 * output were written, or "error TEXT" if it could not be started.  What fails
 * before there is a port is reported on the console.
 *
 * Megabytes of output may still be in the port's queue then, and QEMU drops them
 * when the guest powers off.  So the host answers with one byte when it has read
 * SIZE bytes, and the guest waits for that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define STATUS_PORT "/dev/vport0p1"
#define OUTPUT_PORT "/dev/vport0p2"
#define KMEMLEAK "/sys/kernel/debug/kmemleak"
#define SERVERS "/sys/kernel/debug/sched/fair_server/cpu*/runtime"
#define SHARE "trans=virtio,version=9p2000.L,msize=512000,cache=loose"

static int status_port = STDERR_FILENO, output_port;
static const char *dir, *cwd, *host, *tty, *modules, *config_file;
static char **env, **words;
static bool has_stdin;
static unsigned long long output_size;

static void __attribute__((noreturn)) power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void __attribute__((noreturn)) fail(const char *what, const char *which)
{
	dprintf(status_port, "error %s %s: %s\n", what, which, strerror(errno));
	power_off();
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		dprintf(fd, "%s", text);
	close(fd);
}

static void add(char ***list, char *value)
{
	static size_t counts[2];
	size_t *n = &counts[list == &env];

	*list = realloc(*list, (*n + 2) * sizeof(**list));
	if (!*list)
		fail("no memory for", "the command");
	(*list)[(*n)++] = value;
	(*list)[*n] = NULL;
}

/* A kernel that is not the kit's may have the drivers of its root as modules. */
static void load_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
		fail("cannot load", path);
	close(fd);
}

static void read_config(void)
{
	int fd = open("/config", O_RDONLY | O_CLOEXEC);
	char *config, *end, *p, *value;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail("cannot open", "/config");
	config = malloc(st.st_size + 1);
	if (!config || read(fd, config, st.st_size) != st.st_size)
		fail("cannot read", "/config");
	close(fd);
	end = config + st.st_size;
	*end = '\0';
	for (p = config; p < end; p = value + strlen(value) + 1) {
		value = p + strcspn(p, "=");
		if (*value)
			*value++ = '\0';
		if (!strcmp(p, "dir"))
			dir = value;
		else if (!strcmp(p, "cwd"))
			cwd = value;
		else if (!strcmp(p, "host"))
			host = value;
		else if (!strcmp(p, "tty"))
			tty = value;
		else if (!strcmp(p, "modules"))
			modules = value;
		else if (!strcmp(p, "config"))
			config_file = value;
		else if (!strcmp(p, "load"))
			load_module(value);
		else if (!strcmp(p, "stdin"))
			has_stdin = true;
		else
			add(strcmp(p, "env") ? &words : &env, value);
	}
}

static void mount_on(const char *source, const char *target, const char *type,
		     unsigned long flags, const char *data)
{
	char path[4096], *p;

	snprintf(path, sizeof(path), "%s", target);
	for (p = path; (p = strchr(p + 1, '/'));) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	mkdir(path, 0755);
	if (mount(source, target, type, flags, data))
		fail("cannot mount", target);
}

/* In the new root: what is named after the kernel's release, if there is any. */
static void link_by_release(const char *target, const char *folder, const char *prefix)
{
	struct utsname kernel;
	char path[256];

	if (!target)
		return;
	uname(&kernel);
	snprintf(path, sizeof(path), "%s/%s%s", folder, prefix, kernel.release);
	mkdir(folder, 0755);
	if (symlink(target, path))
		fail("cannot make", path);
}

static void make_root(void)
{
	char project[4096];

	mount_on("root", "/lower", "9p", MS_RDONLY, SHARE);
	mount_on("tmpfs", "/upper", "tmpfs", 0, "mode=0755");
	mkdir("/upper/data", 0755);
	mkdir("/upper/work", 0755);
	mount_on("overlay", "/new", "overlay", 0,
		 "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work");
	snprintf(project, sizeof(project), "/new%s", dir);
	mount_on("project", project, "9p", MS_RDONLY, SHARE);
	if (chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		fail("cannot enter", "the new root");
	mount_on("proc", "/proc", "proc", 0, NULL);
	mount_on("sysfs", "/sys", "sysfs", 0, NULL);
	mount_on("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mount_on("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	mount_on("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mount_on("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666,mode=0620");
	mount_on("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
	mount_on("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
	mount_on("tmpfs", "/run", "tmpfs", 0, "mode=0755");
	if (symlink("/proc/self/fd", "/dev/fd") || symlink("fd/0", "/dev/stdin") ||
	    symlink("fd/1", "/dev/stdout") || symlink("fd/2", "/dev/stderr"))
		fail("cannot make", "/dev/fd");
	link_by_release(modules, "/lib/modules", "");
	link_by_release(config_file, "/boot", "config-");
}

/*
 * Stop the servers that keep CPU time for ordinary tasks: there are no real-time tasks here from
 * which to keep it.  When the host has held up a virtual CPU for seconds, the timer of such a
 * server warns in Linux 7.3 (hrtimer_forward() of a timer that is queued already).
 */
static void stop_servers(void)
{
	glob_t files;

	if (glob(SERVERS, 0, NULL, &files))
		return; /* a kernel without them */
	for (size_t i = 0; i < files.gl_pathc; i++) {
		int fd = open(files.gl_pathv[i], O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, "0", 1) != 1)
			fail("cannot write", files.gl_pathv[i]);
		close(fd);
	}
	globfree(&files);
}

static void prepare(void)
{
	struct rlimit memory = { RLIM_INFINITY, RLIM_INFINITY }, files = { 65536, 65536 };
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sethostname(host, strlen(host)) || setrlimit(RLIMIT_MEMLOCK, &memory) ||
	    setrlimit(RLIMIT_NOFILE, &files) || ioctl(s, SIOCSIFFLAGS, &lo))
		fail("cannot set up", "host name, limits and loopback");
	close(s);
	stop_servers();
}

/* The ports appear some time after their driver. */
static int open_port(const char *path)
{
	int fd, tries;

	for (tries = 0; tries < 5000; tries++, usleep(2000)) {
		fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	fail("cannot open", path);
}

/* Copy what can be read now; false if there is nothing, or at the end of the file. */
static bool copy_some(int from, int to)
{
	static char buffer[65536];
	ssize_t size = read(from, buffer, sizeof(buffer)), n;
	char *p;

	for (p = buffer; p < buffer + size; p += n) {
		n = write(to, p, buffer + size - p);
		if (n < 0)
			break;
		if (to == output_port)
			output_size += n;
	}
	return size > 0;
}

static pid_t start(int in, int out)
{
	struct winsize size = { 0 };
	sigset_t none;
	pid_t pid = fork();

	if (pid < 0)
		fail("cannot", "fork");
	if (pid)
		return pid;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	if (tty) {
		ioctl(in, TIOCSCTTY, 0);
		sscanf(tty, "%hu %hu", &size.ws_row, &size.ws_col);
		ioctl(in, TIOCSWINSZ, &size);
	}
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	environ = env;
	if (chdir(cwd)) {
		fprintf(stderr, "guest: cannot go to %s: %s\n", cwd, strerror(errno));
		_exit(126);
	}
	execvp(words[0], words);
	fprintf(stderr, "guest: cannot run %s: %s\n", words[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Copy input and output until the command has ended; reap every process. */
static int attend(pid_t command, int out, int in)
{
	struct pollfd fds[] = { { .fd = out, .events = POLLIN },
				{ .fd = has_stdin ? output_port : -1, .events = POLLIN },
				{ .events = POLLIN } };
	struct signalfd_siginfo info;
	sigset_t child;
	int status, how;
	pid_t pid;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	fds[2].fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	for (bool gone = false; !gone;) {
		poll(fds, 3, -1);
		if (fds[0].revents && !copy_some(out, output_port))
			fds[0].fd = -1;
		if (fds[1].revents && !copy_some(output_port, in)) {
			fds[1].fd = -1;
			close(in);
		}
		if (!fds[2].revents || read(fds[2].fd, &info, sizeof(info)) < 0)
			continue;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			if (pid != command)
				continue;
			how = status;
			gone = true;
		}
	}
	return how;
}

/* Run the command, then kill the processes that it left behind. */
static int run(void)
{
	int out[2] = { -1, output_port }, in[2] = { output_port, -1 }, how, tries;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!tty) {
		if (pipe2(out, O_CLOEXEC) || pipe2(in, O_CLOEXEC))
			fail("cannot make", "a pipe");
		if (!has_stdin)
			in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		fcntl(out[0], F_SETFL, O_NONBLOCK);
	}
	how = start(in[0], out[1]);
	if (!tty) {
		close(out[1]);
		close(in[0]);
	}
	how = attend(how, out[0], in[1]);
	kill(-1, SIGKILL);
	for (tries = 0; waitpid(-1, NULL, WNOHANG) >= 0; tries++, usleep(10000)) {
		if (tries < 1000)
			continue;
		write_file("/dev/kmsg", "guest-init: a process cannot be killed\n");
		break;
	}
	if (tty)
		tcdrain(output_port);
	while (!tty && copy_some(out[0], output_port))
		;
	return how;
}

/*
 * On a debug kernel: the leak detector reports an object when a scan finds no reference to
 * it, and its bytes are those that the scan before saw, and it is older than five seconds.
 * The first scan takes part of that time.
 */
static void find_leaks(void)
{
	struct timespec when;

	clock_gettime(CLOCK_MONOTONIC, &when);
	when.tv_sec += 6;
	write_file(KMEMLEAK, "scan");
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
	write_file(KMEMLEAK, "scan");
}

int main(void)
{
	int status;
	char byte;

	read_config();
	mount_on("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	make_root();
	status_port = open_port(STATUS_PORT);
	output_port = open_port(tty ? "/dev/hvc0" : OUTPUT_PORT);
	prepare();
	status = run();
	if (!access(KMEMLEAK, W_OK))
		find_leaks();
	if (WIFEXITED(status))
		dprintf(status_port, "exit %d %llu\n", WEXITSTATUS(status), output_size);
	else
		dprintf(status_port, "signal %d %llu\n", WTERMSIG(status), output_size);
	while (read(status_port, &byte, 1) < 0 && errno == EINTR)
		;
	power_off();
}
