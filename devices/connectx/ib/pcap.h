/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture file that Wireshark reads: pcap with nanoseconds, of link type InfiniBand.
 * Packets are buffered, and written when the buffer is full, when none came for a while,
 * and at the end.  If a write fails, a note() says so and nothing more is captured.
 */
#ifndef CONNECTX_PCAP_H
#define CONNECTX_PCAP_H

#include "loop.h"
#include <stddef.h>
#include <stdint.h>

struct pcap;

/* Replaces the file.  NULL with errno. */
struct pcap *pcap_open(struct loop *loop, const char *path);
/* PC may be NULL: then this does nothing. */
void pcap_add(struct pcap *pc, const uint8_t *wire, size_t len);
void pcap_close(struct pcap *pc);

#endif
