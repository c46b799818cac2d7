// SPDX-License-Identifier: GPL-2.0-or-later
/* See other.h. */
#include "lib/other.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MADE "rxe-other"
#define NETDEV "mrfd-other"

static bool run(const char *command)
{
	return !system(command);
}

static bool make(void)
{
	return run("ip link add " NETDEV " mtu 4200 type veth peer name " NETDEV "-p mtu 4200 && "
		   "ip link set " NETDEV "-p up && ip link set " NETDEV " up && "
		   "rdma link add " MADE " type rxe netdev " NETDEV);
}

/* The network device takes the RDMA device with it, and its own peer. */
static void delete(void)
{
	if (!(run("rdma link delete " MADE) & run("ip link delete " NETDEV)))
		fail_case("delete " MADE);
}

static void find(struct other *o)
{
	const char *given = getenv("MRFD_OTHER_DEVICE");
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (given)
		snprintf(o->name, sizeof(o->name), "%s", given);
	for (int i = 0; list && list[i] && !*o->name; i++)
		if (strcmp(ibv_get_device_name(list[i]), device_name()))
			snprintf(o->name, sizeof(o->name), "%s", ibv_get_device_name(list[i]));
	if (list)
		ibv_free_device_list(list);
}

static bool gets_ready(const char *name)
{
	double end = deadline(10);

	do {
		struct ibv_context *ctx = device_open_named(name);
		struct ibv_ah_attr ah;
		bool ready = device_address(ctx, &ah);

		device_close(ctx);
		if (ready)
			return true;
		usleep(50000);
	} while (now() < end);
	return false;
}

void other_prepare(void)
{
	struct other o = {};

	find(&o);
	if (!*o.name && make() && atexit(delete))
		fail_case("atexit");
}

void other_open(struct other *o)
{
	*o = (struct other){};
	find(o);
	if (!*o->name) {
		o->made = true;
		if (!make())
			skip_case("the guest has no second RDMA device");
		snprintf(o->name, sizeof(o->name), MADE);
	}
	errno = 0;
	if (!gets_ready(o->name))
		fail_case("%s does not get ready", o->name);
}

void other_close(struct other *o)
{
	if (o->made)
		delete();
	*o = (struct other){};
}
