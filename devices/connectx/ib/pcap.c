// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes a capture: the pcap file format (draft-ietf-opsawg-pcap) with the magic number of
 * nanosecond time stamps, in little endian.  Each packet, from the LRH to the VCRC, has the
 * header of an ERF record of type InfiniBand (Endace Extensible Record Format) before it,
 * because Wireshark knows no InfiniBand packet without one: it refuses
 * LINKTYPE_INFINIBAND (247).
 *
 * The memory is one buffer.  A packet is added whole or, after a failed write, not at all,
 * so that the file ends in a part of a packet only if the disk was full.
 */
#include "pcap.h"
#include "ifc.h"
#include "list.h"
#include "packet.h"
#include "trace.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PCAP_BUFFER (256u << 10)
#define PCAP_IDLE_NS 200000000ull
#define PCAP_MAGIC_NS 0xa1b23c4du
#define LINKTYPE_ERF 197
#define ERF_HEADER 16
#define ERF_INFINIBAND 21
#define ERF_VARYING_LENGTH 4	/* flag: a record is as long as its packet */
#define FILE_HEADER 24
#define RECORD_HEADER 16

struct pcap {
	struct loop *loop;
	struct timer idle;
	int fd;			/* -1 after a write failed */
	size_t used;
	uint8_t buf[PCAP_BUFFER];
};

static void flush(struct pcap *pc)
{
	size_t done = 0;
	ssize_t n;

	timer_stop(&pc->idle);
	while (pc->fd >= 0 && done < pc->used) {
		n = write(pc->fd, pc->buf + done, pc->used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			note("capture stopped: %s", strerror(n ? errno : EIO));
			close(pc->fd);
			pc->fd = -1;
			break;
		}
		done += n;
	}
	pc->used = 0;
}

static void idle_expired(struct timer *t)
{
	flush(list_item(t, struct pcap, idle));
}

static uint8_t *put_le32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
	return to + 4;
}

struct pcap *pcap_open(struct loop *loop, const char *path)
{
	struct pcap *pc = malloc(sizeof(*pc));
	uint8_t *to;

	if (!pc)
		return NULL;
	pc->loop = loop;
	pc->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
	if (pc->fd < 0) {
		free(pc);
		return NULL;
	}
	timer_init(&pc->idle, idle_expired);
	to = put_le32(pc->buf, PCAP_MAGIC_NS);
	to = put_le32(to, 4 << 16 | 2);		/* version 2.4 */
	to = put_le32(to, 0);
	to = put_le32(to, 0);
	to = put_le32(to, ERF_HEADER + PACKET_WIRE_MAX);
	put_le32(to, LINKTYPE_ERF);
	pc->used = FILE_HEADER;
	flush(pc);
	return pc;
}

void pcap_add(struct pcap *pc, const uint8_t *wire, size_t len)
{
	struct timespec now;
	uint8_t *to;

	if (!pc || pc->fd < 0 || len > PACKET_WIRE_MAX)
		return;
	if (pc->used + RECORD_HEADER + ERF_HEADER + len > PCAP_BUFFER)
		flush(pc);
	clock_gettime(CLOCK_REALTIME, &now);
	to = put_le32(pc->buf + pc->used, now.tv_sec);
	to = put_le32(to, now.tv_nsec);
	to = put_le32(to, ERF_HEADER + len);
	to = put_le32(to, ERF_HEADER + len);
	/* The time again: seconds and a binary fraction, little endian; the rest is big. */
	to = put_le32(to, ((uint64_t)now.tv_nsec << 32) / 1000000000);
	to = put_le32(to, now.tv_sec);
	*to++ = ERF_INFINIBAND;
	*to++ = ERF_VARYING_LENGTH;
	put_be16(to, ERF_HEADER + len);
	put_be16(to + 2, 0);		/* nothing was lost */
	put_be16(to + 4, len);
	memcpy(to + 6, wire, len);
	if (!pc->used)
		timer_start(pc->loop, &pc->idle, PCAP_IDLE_NS);
	pc->used += RECORD_HEADER + ERF_HEADER + len;
}

void pcap_close(struct pcap *pc)
{
	if (!pc)
		return;
	flush(pc);
	if (pc->fd >= 0)
		close(pc->fd);
	free(pc);
}
