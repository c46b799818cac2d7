/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Capabilities: what the device can do, and what SET_HCA_CAP left of it. */
#ifndef CONNECTX_CAPS_H
#define CONNECTX_CAPS_H

#include "cmd.h"

extern const struct cmd_op caps_ops[];

/* The value in force of a general capability, for code that depends on it. */
#define CAP(hca, field) IFC_GET(cmd_hca_cap, caps_general(hca), field)
const void *caps_general(const struct hca *hca);

/* As at power-on; hca->caps is NULL if there is no memory. */
void caps_init(struct hca *hca);
void caps_free(struct hca *hca);

#endif
