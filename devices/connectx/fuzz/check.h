/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is true of a device between two turns, whatever the guest did. */
#ifndef CONNECTX_FUZZ_CHECK_H
#define CONNECTX_FUZZ_CHECK_H

#include "hca.h"

void check_device(struct hca *hca);

#endif
