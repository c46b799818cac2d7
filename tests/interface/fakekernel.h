/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that includes this answers its own calls of the library: it defines ioctl(), so
 * the library's messages come here first.  Those that an old kernel does not know, or for
 * which a case has an answer, are answered here; all others go to the kernel.
 */
#ifndef FAKE_KERNEL_H
#define FAKE_KERNEL_H

#include "lib/case.h"
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What answers the library */
static struct {
	bool old;		/* a kernel without our methods */
	int reg_errno;		/* a kernel that has them says this to a registration, */
	int rereg_errno;	/* and this to a rereg; 0: the real kernel answers */
	int calls;		/* messages that the library has sent */
	int queries;		/* of these, questions for what the device can do */
} kernel;

static bool is(const struct ib_uverbs_ioctl_hdr *h, int object, int method)
{
	return h->object_id == object && h->method_id == method;
}

/* An errno, or 0 if the real kernel answers. */
static int answer(const struct ib_uverbs_ioctl_hdr *h)
{
	bool reg = is(h, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR_FD);
	bool rereg = is(h, UVERBS_OBJECT_MR, UVERBS_METHOD_REREG_MR_FD);
	bool query = is(h, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_BUFFER_CAPS);
	bool export = is(h, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_EXPORT_DMABUF);

	kernel.calls++;
	kernel.queries += query;
	if (kernel.old && (reg || rereg || query || export))
		return EPROTONOSUPPORT;
	if (reg)
		return kernel.reg_errno;
	return rereg ? kernel.rereg_errno : 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *arg;
	int err;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	err = request == RDMA_VERBS_IOCTL ? answer(arg) : 0;
	if (err) {
		errno = err;
		return -1;
	}
	return syscall(SYS_ioctl, fd, request, arg);
}

/* How often this process has mapped memfds of memfd_of(). */
static inline int mappings(void)
{
	FILE *maps = must(fopen("/proc/self/maps", "r"));
	char line[512];
	int n = 0;

	while (fgets(line, sizeof(line), maps))
		n += !!strstr(line, "memfd:memory");
	fclose(maps);
	return n;
}

#endif
