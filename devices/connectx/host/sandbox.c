// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sandbox: no_new_privs, a limit of private memory and of descriptors, and a list of
 * the system calls that the loop needs (seccomp(2)); any other one kills the process.
 *
 * The rule for the list: a call is on it if it acts on descriptors that are open, or on
 * the process' own memory.  None opens a file, makes a socket, connects, starts a process
 * or maps memory to be executed.  The one exception, unlink() for the model's socket in
 * the file system, is taken back by sandbox_narrow() before the guest has a say.  The
 * fabric has hostile clients while it listens, and the model's second function may be plugged
 * in again: these may accept() for good, but not unlink().
 *
 * A sanitizer reads /proc, starts threads and more.  A build with one has no sandbox.
 */
#define _GNU_SOURCE	/* AT_EMPTY_PATH */
#include "sandbox.h"
#include "trace.h"
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define DESCRIPTORS 256

#ifdef __SANITIZE_ADDRESS__

int sandbox_enter(enum sandbox which, size_t memory)
{
	note("built with a sanitizer: there is no sandbox");
	return 0;
}

int sandbox_narrow(enum sandbox which)
{
	return 0;
}

#else

/* Each list ends with END, which is no system call. */
#define END __NR_SCMP_UNDEF

static const int both[] = {
	/* the loop */
	SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl),
	SCMP_SYS(timerfd_settime), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
	SCMP_SYS(restart_syscall),
	/* QEMU, the fabric, the logs, signals by signalfd */
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev),
	SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom), SCMP_SYS(sendto),
	SCMP_SYS(poll), SCMP_SYS(ppoll),
	SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(lseek),
	/* memory */
	SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
	/* the end, also by the handler of SIGBUS */
	SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),
	END
};

/* What both models need besides.  sandbox_narrow() takes it back, itself too. */
static const int of_models[] = {
	SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(seccomp), END
};

static int by_argument(scmp_filter_ctx ctx)
{
	int ret;

	/* Memory, but none that can be executed. */
	ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (!ret)	/* malloc() makes parts of its heap usable by this */
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (!ret)	/* fstat() of newer C libraries: of a descriptor, not of a path */
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1,
				       SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH));
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				       SCMP_A1(SCMP_CMP_EQ, F_GETFL));
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				       SCMP_A1(SCMP_CMP_EQ, F_SETFL));
	return ret;
}

static int add_each(scmp_filter_ctx ctx, uint32_t action, const int *calls)
{
	int ret = 0;

	for (; !ret && *calls != END; calls++)
		ret = seccomp_rule_add(ctx, action, *calls, 0);
	return ret;
}

static int add_allowed(scmp_filter_ctx ctx, enum sandbox which)
{
	int ret = by_argument(ctx);

	if (!ret)
		ret = add_each(ctx, SCMP_ACT_ALLOW, both);
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(accept4), 0);
	if (!ret && which != SANDBOX_FABRIC)
		ret = add_each(ctx, SCMP_ACT_ALLOW, of_models);
	return ret;
}

static int add_taken_back(scmp_filter_ctx ctx, enum sandbox which)
{
	int ret = add_each(ctx, SCMP_ACT_KILL_PROCESS, of_models);

	if (!ret && which == SANDBOX_MODEL)
		ret = seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, SCMP_SYS(accept4), 0);
	return ret;
}

/* Make a filter, fill it by ADD, and put the process under it. */
static int load(uint32_t otherwise, int (*add)(scmp_filter_ctx ctx, enum sandbox which),
		enum sandbox which)
{
	scmp_filter_ctx ctx = seccomp_init(otherwise);
	int ret;

	if (!ctx)
		return -ENOMEM;
	/* sandbox_enter() did this, and prctl() is not allowed any more the second time. */
	ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
	if (!ret)
		ret = add(ctx, which);
	if (!ret)
		ret = seccomp_load(ctx);
	seccomp_release(ctx);
	if (ret)
		note("no sandbox: seccomp: %s; is it allowed here?", strerror(-ret));
	return ret;
}

static int limit(int resource, rlim_t most)
{
	struct rlimit r;

	if (getrlimit(resource, &r))
		return -errno;
	if (r.rlim_max != RLIM_INFINITY && r.rlim_max < most)
		most = r.rlim_max;
	r.rlim_cur = r.rlim_max = most;
	return setrlimit(resource, &r) ? -errno : 0;
}

int sandbox_enter(enum sandbox which, size_t memory)
{
	int ret;

	/* RLIMIT_DATA counts private memory that can be written, so not the guest's. */
	ret = limit(RLIMIT_DATA, memory);
	if (!ret)
		ret = limit(RLIMIT_NOFILE, DESCRIPTORS);
	if (ret) {
		note("no sandbox: a resource limit: %s", strerror(-ret));
		return ret;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		note("no sandbox: no_new_privs: %s", strerror(errno));
		return -errno;
	}
	return load(SCMP_ACT_KILL_PROCESS, add_allowed, which);
}

int sandbox_narrow(enum sandbox which)
{
	return load(SCMP_ACT_ALLOW, add_taken_back, which);
}

#endif
