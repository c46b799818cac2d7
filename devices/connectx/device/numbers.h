/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands of the objects that are a number only: UARs, PDs, transport and XRC domains. */
#ifndef CONNECTX_NUMBERS_H
#define CONNECTX_NUMBERS_H

#include "cmd.h"

extern const struct cmd_op number_ops[];

#endif
