/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The second PCI function of the card, which Data Direct goes by, as sysfs has it. */
#ifndef LIB_SECOND_H
#define LIB_SECOND_H

#include <infiniband/verbs.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct second {
	char path[PATH_MAX];
	char driver[PATH_MAX];	/* since second_unbind() */
};

void second_find(struct second *s, struct ibv_context *ctx);
/* Its file of this name, as a number. */
long second_attribute(const struct second *s, const char *name);
/* Its vendor as the configuration space says now; all ones: nobody answers. */
uint16_t second_vendor(const struct second *s);
void second_unbind(struct second *s);
void second_bind(const struct second *s);
void second_remove(const struct second *s);
void second_rescan(void);
/* By the configuration space, so that the driver does not know. */
void second_set_bus_master(const struct second *s, bool on);

#endif
