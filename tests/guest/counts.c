// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many the kernel has of what must not be left behind.  MRs are asked of its
 * resource tracking by netlink: what "rdma resource show" prints, without a
 * process for each time it is asked.
 */
#include "rdma.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#define attr_type(a) ((a)->nla_type & NLA_TYPE_MASK)

/* Attributes that lie one after the other; NULL behind the last. */
static const struct nlattr *next_attr(const struct nlattr *a, const void *end)
{
	const struct nlattr *next = (const void *)((const uint8_t *)a + NLA_ALIGN(a->nla_len));

	return (const uint8_t *)(next + 1) <= (const uint8_t *)end ? next : NULL;
}

static const struct nlattr *first_attr(const void *p, const void *end)
{
	return (const uint8_t *)p + NLA_HDRLEN <= (const uint8_t *)end ? p : NULL;
}

#define for_each_attr(a, p, end) \
	for (const struct nlattr *a = first_attr(p, end); a; a = next_attr(a, end))
#define for_each_inner(a, outer) \
	for_each_attr(a, (outer) + 1, (const uint8_t *)(outer) + (outer)->nla_len)

/* The number of an entry of the summary, if it is the one of MRs. */
static uint64_t mrs_of_entry(const struct nlattr *entry)
{
	uint64_t n = 0;
	bool mr = false;

	for_each_inner(a, entry) {
		if (attr_type(a) == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
			mr = !strcmp((const char *)(a + 1), "mr");
		if (attr_type(a) == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
			memcpy(&n, a + 1, sizeof(n));
	}
	return mr ? n : 0;
}

static int mrs_of_device(const struct nlmsghdr *h)
{
	int n = 0;

	for_each_attr(summary, NLMSG_DATA(h), (const uint8_t *)h + h->nlmsg_len)
		if (attr_type(summary) == RDMA_NLDEV_ATTR_RES_SUMMARY)
			for_each_inner(entry, summary)
				n += mrs_of_entry(entry);
	return n;
}

/* Of all devices and all processes. */
int mr_count(void)
{
	struct nlmsghdr ask = {
		.nlmsg_len = sizeof(ask),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA), mrs = 0;
	union {
		struct nlmsghdr h;
		uint8_t bytes[16384];
	} answer;

	if (fd < 0 || send(fd, &ask, sizeof(ask), 0) != sizeof(ask))
		die("ask for the count of MRs");
	for (;;) {
		ssize_t n = recv(fd, &answer, sizeof(answer), 0);

		if (n <= 0)
			die("no count of MRs");
		for (struct nlmsghdr *h = &answer.h; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE) {
				close(fd);
				return mrs;
			}
			if (h->nlmsg_type == NLMSG_ERROR)
				die("the count of MRs is refused");
			mrs += mrs_of_device(h);
		}
	}
}

/*
 * The objects of a cache.  Free ones of the slab that a CPU allocates from count
 * as used, and so do those that KASAN keeps, until the cache is shrunk, and as
 * soon as something is allocated again: so read at once, and take the least.
 */
long slab_objects(const char *cache)
{
	char path[128], text[32] = "";
	int shrink, objects;
	long least = LONG_MAX;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", cache);
	shrink = open(path, O_WRONLY);
	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/objects", cache);
	objects = open(path, O_RDONLY);
	for (int i = 0; i < 3; i++) {
		if (write(shrink, "1", 1) != 1 || pread(objects, text, sizeof(text) - 1, 0) < 1)
			die("%s", path);
		least = strtol(text, NULL, 10) < least ? strtol(text, NULL, 10) : least;
	}
	close(shrink);
	close(objects);
	return least;
}
