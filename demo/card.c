// SPDX-License-Identifier: GPL-2.0-or-later
/* Find a DRM card: the one that the user names, or by the name of its driver. */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#include "card.h"

#define MAX_CARDS 16

static int open_card(const char *node, char driver[CARD_DRIVER_BYTES])
{
	int fd = open(node, O_RDWR | O_CLOEXEC);
	drmVersionPtr version;

	if (fd < 0)
		return -1;
	version = drmGetVersion(fd);
	if (!version) {
		close(fd);
		return -1;
	}
	snprintf(driver, CARD_DRIVER_BYTES, "%s", version->name);
	drmFreeVersion(version);
	return fd;
}

int card_open(const char *node, const char *wanted, char driver[CARD_DRIVER_BYTES])
{
	char name[32];
	int i, fd;

	if (node) {
		fd = open_card(node, driver);
		if (fd < 0)
			warn("cannot open %s as a DRM card", node);
		return fd;
	}
	/* The numbers may have gaps, and a machine may have several cards. */
	for (i = 0; i < MAX_CARDS; i++) {
		snprintf(name, sizeof(name), "/dev/dri/card%d", i);
		fd = open_card(name, driver);
		if (fd < 0)
			continue;
		if (!strcmp(driver, wanted))
			return fd;
		close(fd);
	}
	warnx("no card in /dev/dri has the driver %s; name one with --card", wanted);
	return -1;
}
