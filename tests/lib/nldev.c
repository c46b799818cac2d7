// SPDX-License-Identifier: GPL-2.0-or-later
/* See nldev.h. */
#include "lib/nldev.h"
#include "lib/case.h"
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define attr_type(a) ((a)->nla_type & NLA_TYPE_MASK)

/* The attribute after A, or NULL if A is the last. */
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

/* The count in an entry of the summary if it is the entry of MRs, else 0. */
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

static void add_mrs_of_device(const struct nlmsghdr *h, void *mrs)
{
	for_each_attr(summary, NLMSG_DATA(h), (const uint8_t *)h + h->nlmsg_len)
		if (attr_type(summary) == RDMA_NLDEV_ATTR_RES_SUMMARY)
			for_each_inner(entry, summary)
				*(int *)mrs += mrs_of_entry(entry);
}

union answer {
	struct nlmsghdr h;
	uint8_t bytes[16384];
};

/* A socket on which the answer to ASK will come. */
static int ask_kernel(const struct nlmsghdr *ask)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	if (fd < 0 || send(fd, ask, ask->nlmsg_len, 0) != ask->nlmsg_len)
		fail_case("RDMA netlink");
	return fd;
}

/* Give each message of the answer to ASK, which has NLM_F_DUMP, to TAKE. */
static void dump(const struct nlmsghdr *ask, void (*take)(const struct nlmsghdr *h, void *arg),
		 void *arg)
{
	int fd = ask_kernel(ask);
	union answer answer;

	for (;;) {
		ssize_t n = recv(fd, &answer, sizeof(answer), 0);

		if (n <= 0)
			fail_case("no answer by RDMA netlink");
		for (struct nlmsghdr *h = &answer.h; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE) {
				close(fd);
				return;
			}
			if (h->nlmsg_type == NLMSG_ERROR)
				fail_case("the kernel refuses to tell of MRs");
			take(h, arg);
		}
	}
}

int mr_count(void)
{
	struct nlmsghdr ask = {
		.nlmsg_len = sizeof(ask),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	int mrs = 0;

	dump(&ask, add_mrs_of_device, &mrs);
	return mrs;
}

static void add_counter(const struct nlattr *counter, struct mr_stat *stat)
{
	const char *name = "";
	uint64_t value = 0;

	for_each_inner(a, counter) {
		if (attr_type(a) == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)
			name = (const char *)(a + 1);
		if (attr_type(a) == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE)
			memcpy(&value, a + 1, sizeof(value));
	}
	if (!strcmp(name, "page_faults"))
		stat->faults += value;
	if (!strcmp(name, "page_invalidations"))
		stat->invalidations += value;
}

static void add_counters_of_mrs(const struct nlmsghdr *h, void *stat)
{
	for_each_attr(mrs, NLMSG_DATA(h), (const uint8_t *)h + h->nlmsg_len) {
		if (attr_type(mrs) != RDMA_NLDEV_ATTR_RES_MR)
			continue;
		for_each_inner(mr, mrs)
			for_each_inner(counters, mr) {
				if (attr_type(counters) != RDMA_NLDEV_ATTR_STAT_HWCOUNTERS)
					continue;
				((struct mr_stat *)stat)->mrs++;
				for_each_inner(counter, counters)
					add_counter(counter, stat);
			}
	}
}

struct mr_stat nldev_mr_stat(uint32_t index)
{
	struct {
		struct nlmsghdr h;
		struct nlattr index_attr;
		uint32_t index;
		struct nlattr of_attr;
		uint32_t of;
	} ask = {
		.h = {
			.nlmsg_len = sizeof(ask),
			.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_STAT_GET),
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.index_attr = { NLA_HDRLEN + 4, RDMA_NLDEV_ATTR_DEV_INDEX },
		.index = index,
		.of_attr = { NLA_HDRLEN + 4, RDMA_NLDEV_ATTR_STAT_RES },
		.of = RDMA_NLDEV_ATTR_RES_MR,
	};
	struct mr_stat stat = {};

	dump(&ask.h, add_counters_of_mrs, &stat);
	return stat;
}

uint32_t nldev_driver_id(uint32_t index)
{
	struct {
		struct nlmsghdr h;
		struct nlattr index_attr;
		uint32_t index;
		struct nlattr type_attr;
		char type[8];
	} ask = {
		.h = {
			.nlmsg_len = sizeof(ask),
			.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV),
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.index_attr = { NLA_HDRLEN + 4, RDMA_NLDEV_ATTR_DEV_INDEX },
		.index = index,
		.type_attr = { NLA_HDRLEN + sizeof("uverbs"), RDMA_NLDEV_ATTR_CHARDEV_TYPE },
		.type = "uverbs",
	};
	int fd = ask_kernel(&ask.h);
	union answer answer;
	ssize_t n = recv(fd, &answer, sizeof(answer), 0);
	uint64_t id;

	close(fd);
	if (n <= 0 || answer.h.nlmsg_type == NLMSG_ERROR)
		fail_case("RDMA netlink does not know device %u", index);
	for_each_attr(a, NLMSG_DATA(&answer.h), answer.bytes + answer.h.nlmsg_len) {
		if (attr_type(a) == RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID) {
			memcpy(&id, a + 1, sizeof(id));
			return id;
		}
	}
	fail_case("RDMA netlink does not name the driver of device %u", index);
}
