// SPDX-License-Identifier: GPL-2.0-or-later
/* See device.h. */
#include "lib/device.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/nldev.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 1
#define NO_DRIVER UINT32_MAX

static uint32_t driver_id = NO_DRIVER;	/* known when device_open() has returned */

static const char *described(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		errno = 0;
		fail_case("%s is not set: make check describes the device, and scripts/boot does, "
			  "with --rxe for example", name);
	}
	return value;
}

static const char *kind(void)
{
	return described("MRFD_DEVICE");
}

const char *device_name(void)
{
	return described("MRFD_VERBS_DEVICE");
}

const char *device_ip(void)
{
	return described("MRFD_ADDRESS");
}

bool device_can(const char *word)
{
	const char *at = described("MRFD_DEVICE_CAN");
	size_t n = strlen(word);

	for (; *at; at += strcspn(at, " ")) {
		at += strspn(at, " ");
		if (strcspn(at, " ") == n && !strncmp(at, word, n))
			return true;
	}
	return false;
}

void need(const char *word)
{
	if (!device_can(word))
		skip_case("%s has no %s", kind(), word);
}

/*
 * The library loads the providers of all devices when it looks for the first one.  Each case
 * is a process of its own, so let their parent do it, once.  On the debug kernel this is half
 * of the time of a short case.
 */
static void __attribute__((constructor)) load_providers(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list)
		ibv_free_device_list(list);
}

static struct ibv_context *open_if_there(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

struct ibv_context *device_open_named(const char *name)
{
	struct ibv_context *ctx = open_if_there(name);

	if (!ctx)
		fail_case("the RDMA device %s cannot be opened", name);
	return ctx;
}

bool device_is_under_test(struct ibv_context *ctx)
{
	return !strcmp(ibv_get_device_name(ctx->device), device_name());
}

struct ibv_context *device_open(void)
{
	struct ibv_context *ctx = device_open_named(device_name());

	if (driver_id == NO_DRIVER)
		driver_id = nldev_driver_id(ibv_get_device_index(ctx->device));
	return ctx;
}

uint32_t device_driver_id(void)
{
	if (driver_id == NO_DRIVER)
		device_close(device_open());
	return driver_id;
}

/*
 * On Ethernet the first RoCE v2 GID: each of them works, as both ends are on this device.
 * On InfiniBand the port's LID.
 */
bool device_address(struct ibv_context *ctx, struct ibv_ah_attr *ah)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;

	*ah = (struct ibv_ah_attr){ .port_num = PORT };
	if (ibv_query_port(ctx, PORT, &port) || port.state != IBV_PORT_ACTIVE)
		return false;
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		ah->dlid = port.lid;
		return true;
	}
	for (int i = 0; i < port.gid_tbl_len && i < 16; i++) {
		if (ibv_query_gid_ex(ctx, PORT, i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		ah->is_global = 1;
		ah->grh.dgid = entry.gid;
		ah->grh.sgid_index = i;
		ah->grh.hop_limit = 1;
		return true;
	}
	return false;
}

struct ibv_context *device_open_if_ready(void)
{
	struct ibv_context *ctx = open_if_there(device_name());
	struct ibv_ah_attr ah;

	if (!ctx || device_address(ctx, &ah))
		return ctx;
	device_close(ctx);
	return NULL;
}

bool device_gets_ready(void)
{
	double end = deadline(10);

	do {
		struct ibv_context *ctx = device_open_if_ready();

		if (ctx) {
			device_close(ctx);
			return true;
		}
		usleep(100000);
	} while (now() < end);
	return false;
}

void device_close(struct ibv_context *ctx)
{
	if (ctx && ibv_close_device(ctx))
		fail_case("close the device");
}

void pd_close(struct ibv_pd *pd)
{
	if (pd && (errno = ibv_dealloc_pd(pd)))
		fail_case("deallocate a PD");
}

bool device_exists(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", device_name());
	return !access(path, F_OK);
}

bool device_add(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rdma link add %s type %s netdev %s", device_name(),
		 kind(), described("MRFD_NETDEV"));
	return !system(command);
}

void device_delete_exec(void)
{
	execlp("rdma", "rdma", "link", "delete", device_name(), NULL);
	_exit(127);
}

unsigned long device_counter(const char *name)
{
	char path[256];
	unsigned long value;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/hw_counters/%s",
		 device_name(), PORT, name);
	f = must(fopen(path, "r"));
	if (fscanf(f, "%lu", &value) != 1)
		fail_case("read %s", path);
	fclose(f);
	return value;
}

void device_wait_for_counter(const char *name, unsigned long value)
{
	double end = deadline(20);

	while (device_counter(name) < value) {
		if (now() > end)
			fail_case("%s is %lu, and does not get to %lu", name, device_counter(name),
				  value);
		usleep(1000);
	}
}

void device_print_counters(void)
{
	char command[256];

	snprintf(command, sizeof(command), "cd /sys/class/infiniband/%s/ports/%d/hw_counters && "
		 "grep -v '^0$' * | sed 's/^/# /' >&2", device_name(), PORT);
	if (system(command))
		fprintf(stderr, "# %s has no counters\n", device_name());
}
