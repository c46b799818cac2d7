// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The data are two large resources, tag and length in three bytes each: the identifier
 * string, and the read-only fields, of which the last one makes the sum of all bytes up to
 * it 0.  A small resource ends them.
 */
#include "vpd.h"
#include <endian.h>
#include <stdio.h>
#include <string.h>

enum { TAG_NAME = 0x82, TAG_READ_ONLY = 0x90, TAG_END = 0x78 };

static const char name[] = "ConnectX model, Data Direct";

static uint8_t *put_tag(uint8_t *p, uint8_t tag, size_t len)
{
	*p++ = tag;
	*p++ = len;
	*p++ = len >> 8;
	return p;
}

static uint8_t *put_field(uint8_t *p, const char *keyword, const void *data, size_t len)
{
	memcpy(p, keyword, 2);
	p[2] = len;
	memcpy(p + 3, data, len);
	return p + 3 + len;
}

void vpd_init(struct vpd *v, const char *vuid)
{
	size_t len = strnlen(vuid, VPD_VUID - 1);
	uint8_t *p = v->byte, sum = 0;

	memset(v, 0, sizeof(*v));
	p = put_tag(p, TAG_NAME, sizeof(name) - 1);
	memcpy(p, name, sizeof(name) - 1);
	p += sizeof(name) - 1;
	p = put_tag(p, TAG_READ_ONLY, 3 + len + 3 + 1);
	p = put_field(p, "VU", vuid, len);
	p = put_field(p, "RV", "", 1);
	for (const uint8_t *b = v->byte; b < p; b++)
		sum += *b;
	p[-1] = -sum;
	*p = TAG_END;
}

uint32_t vpd_dword(const struct vpd *v, uint16_t offset)
{
	uint32_t dword = 0;

	if (offset <= VPD_SIZE - sizeof(dword))
		memcpy(&dword, v->byte + offset, sizeof(dword));
	return le32toh(dword);
}
