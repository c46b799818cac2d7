// SPDX-License-Identifier: GPL-2.0-or-later
/* See second.h. */
#include "lib/second.h"
#include "lib/case.h"
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND 4		/* in the configuration space */
#define BUS_MASTER 4

void second_find(struct second *s, struct ibv_context *ctx)
{
	char path[PATH_MAX - 8];

	errno = mlx5dv_get_data_direct_sysfs_path(ctx, path, sizeof(path));
	if (errno)
		fail_case("find the path of the second function");
	snprintf(s->path, sizeof(s->path), "/sys%s", path);
}

static int open_file(const struct second *s, const char *name, int flags)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", s->path, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		fail_case("%s", path);
	return fd;
}

long second_attribute(const struct second *s, const char *name)
{
	int fd = open_file(s, name, O_RDONLY);
	char text[32] = "";

	if (read(fd, text, sizeof(text) - 1) <= 0)
		fail_case("read %s of the second function", name);
	close(fd);
	return strtol(text, NULL, 0);
}

uint16_t second_vendor(const struct second *s)
{
	int fd = open_file(s, "config", O_RDONLY);
	uint16_t vendor;

	if (pread(fd, &vendor, 2, 0) != 2)
		fail_case("read the configuration space");
	close(fd);
	return vendor;
}

/* In this thread: the kernel does what the file is for before write() returns. */
static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail_case("write %s to %s", text, path);
	close(fd);
}

static const char *name_of(const struct second *s)
{
	return strrchr(s->path, '/') + 1;
}

void second_unbind(struct second *s)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/driver", s->path);
	if (!realpath(path, s->driver))
		fail_case("find the driver of the second function");
	strcat(path, "/unbind");
	write_file(path, name_of(s));
}

void second_bind(const struct second *s)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/bind", s->driver);
	write_file(path, name_of(s));
}

void second_remove(const struct second *s)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/remove", s->path);
	write_file(path, "1");
}

void second_rescan(void)
{
	write_file("/sys/bus/pci/rescan", "1");
}

void second_set_bus_master(const struct second *s, bool on)
{
	int fd = open_file(s, "config", O_RDWR);
	uint16_t command;

	if (pread(fd, &command, 2, COMMAND) != 2)
		fail_case("read the configuration space");
	command = on ? command | BUS_MASTER : command & ~BUS_MASTER;
	if (pwrite(fd, &command, 2, COMMAND) != 2)
		fail_case("write the configuration space");
	close(fd);
}
