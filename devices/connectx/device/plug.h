/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The device's link to the fabric. */
#ifndef CONNECTX_PLUG_H
#define CONNECTX_PLUG_H

#include <stdbool.h>

struct hca;

/* hca->link, as link_new() makes it of FABRIC and PCAP.  false with a note(). */
bool hca_plug(struct hca *hca, const char *fabric, const char *pcap);

#endif
