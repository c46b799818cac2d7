// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: rxe */
/*
 * The members of a multicast group hear what is sent to it, and nothing of the group is left when
 * the last one has left.
 *
 * A group needs nobody but ibv_attach_mcast(): no rdma_cm, and no socket that joins it.  Its
 * members on the host of the sender hear it too.
 */
#include "lib/depth.h"
#include "queues/datagram.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#define MULTICAST_QPN 0xffffff
#define ADDRESSES "/proc/net/dev_mcast"

FIXTURE_VARIANT(datagram)
{
	const char *group;	/* as an address of IPv6 */
	const char *mac;	/* of it, see RFC 1112 and RFC 2464 */
};

FIXTURE_VARIANT_ADD(datagram, ipv4) { "::ffff:239.129.2.3", "01005e010203" };
FIXTURE_VARIANT_ADD(datagram, ipv6) { "ff0e::129:2:3", "333300020003" };

static union ibv_gid group(const char *text)
{
	union ibv_gid gid;

	if (inet_pton(AF_INET6, text, &gid) != 1)
		fail_case("%s is not an address", text);
	return gid;
}

/* The multicast addresses of all network devices, how often each is used, and for what. */
static void addresses(char *text, size_t size)
{
	FILE *file = must(fopen(ADDRESSES, "r"));

	text[fread(text, 1, size - 1, file)] = 0;
	fclose(file);
}

TEST_F(datagram, member_hears_its_own_host)
{
	union ibv_gid gid = group(variant->group);
	struct ibv_ah *ah = address(self, self->pd, &gid);
	struct ibv_wc wc;

	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, ibv_attach_mcast(self->to, &gid, 0));
		for (int i = 0; i < MESSAGES; i++) {
			receive(self, i);
			post(self, i, ah, MULTICAST_QPN);
		}
		ASSERT_TRUE(arrived(self, MESSAGES));
		ASSERT_EQ(0, ibv_detach_mcast(self->to, &gid, 0));

		/* Only the send completes. */
		post(self, 0, ah, MULTICAST_QPN);
		ASSERT_TRUE(completed(self, &wc, 5 * patience()));
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		ASSERT_EQ(self->from->qp_num, wc.qp_num);
		ASSERT_FALSE(completed(self, &wc, 0.1));
	}
	ASSERT_EQ(0, ibv_destroy_ah(ah));
}

TEST_F(datagram, group_leaves_nothing_at_the_network_device)
{
	union ibv_gid gid = group(variant->group);
	static char before[1 << 16], inside[1 << 16], after[1 << 16];

	addresses(before, sizeof(before));
	ASSERT_EQ(NULL, strstr(before, variant->mac));
	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, ibv_attach_mcast(self->to, &gid, 0));
		ASSERT_EQ(0, ibv_attach_mcast(self->from, &gid, 0));
		addresses(inside, sizeof(inside));
		ASSERT_NE(NULL, strstr(inside, variant->mac));
		ASSERT_EQ(0, ibv_detach_mcast(self->to, &gid, 0));
		ASSERT_EQ(0, ibv_detach_mcast(self->from, &gid, 0));
		addresses(after, sizeof(after));
		ASSERT_STREQ(before, after);
	}
}

struct member {
	struct ibv_qp *qp;
	union ibv_gid gid;
};

static atomic_long leaving, met, joins;

static void *come_and_go(void *arg)
{
	struct member *m = arg;

	for (; met < depth(300, 3000); joins++) {
		met += leaving > 0;
		if ((errno = ibv_attach_mcast(m->qp, &m->gid, 0)))
			fail_case("attach to a group");
		leaving++;
		if ((errno = ibv_detach_mcast(m->qp, &m->gid, 0)))
			fail_case("detach from a group");
		leaving--;
	}
	return NULL;
}

/* A QP that got into a group which is gone already could not leave, nor be destroyed. */
TEST_F(datagram, members_come_and_go_at_the_same_time)
{
	union ibv_gid gid = group(variant->group);
	static char before[1 << 16], after[1 << 16];
	struct member m[] = { { self->from, gid }, { self->to, gid } };
	pthread_t thread[2];

	addresses(before, sizeof(before));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, come_and_go, &m[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%ld of %ld joins began while the other member left", met, joins);
	addresses(after, sizeof(after));
	ASSERT_STREQ(before, after);
}

static struct sockaddr_storage address_of(const union ibv_gid *gid)
{
	struct sockaddr_storage any = {};
	struct sockaddr_in *in = (struct sockaddr_in *)&any;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&any;

	if (is_ipv4(gid)) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, &gid->raw[12], sizeof(in->sin_addr));
	} else {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, gid, sizeof(in6->sin6_addr));
	}
	return any;
}

TEST_F(datagram, rdma_cm_joins_and_leaves)
{
	union ibv_gid gid = group(variant->group);
	struct ibv_gid_entry own = own_gid(self, is_ipv4(&gid));
	struct sockaddr_storage to = address_of(&gid), at = address_of(&own.gid);
	struct rdma_event_channel *channel = must(rdma_create_event_channel());
	static char before[1 << 16], inside[1 << 16], after[1 << 16];
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	addresses(before, sizeof(before));
	ASSERT_EQ(0, rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
	ASSERT_EQ(0, rdma_bind_addr(id, (struct sockaddr *)&at));
	ASSERT_EQ(0, rdma_join_multicast(id, (struct sockaddr *)&to, NULL)) {
		TH_LOG("%s: %m", variant->group);
	}
	ASSERT_EQ(0, rdma_get_cm_event(channel, &event));
	ASSERT_EQ(RDMA_CM_EVENT_MULTICAST_JOIN, event->event);
	ASSERT_EQ(0, event->status);
	ASSERT_EQ(0, memcmp(&gid, &event->param.ud.ah_attr.grh.dgid, sizeof(gid)));
	ASSERT_EQ(0, rdma_ack_cm_event(event));
	addresses(inside, sizeof(inside));
	ASSERT_NE(NULL, strstr(inside, variant->mac));

	ASSERT_EQ(0, rdma_leave_multicast(id, (struct sockaddr *)&to));
	addresses(after, sizeof(after));
	ASSERT_STREQ(before, after);
	ASSERT_EQ(0, rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

TEST_HARNESS_MAIN
