/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of mkeys, UMR and page faults share: a device with memory at three bus
 * addresses, each byte of which tells its address, and keys made by CREATE_MKEY.  It
 * stands in for hca.c and memic.c, so it is included once in a test.
 */
#ifndef CONNECTX_TEST_MKEY_WORLD_H
#define CONNECTX_TEST_MKEY_WORLD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* memfd_create() */
#endif
/* What a row of a table does not name is 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cmd.h"
#include "dma.h"
#include "hca.h"
#include "memic.h"
#include "mkey.h"
#include "table.h"
#include <sys/mman.h>
#include <unistd.h>

#define A 0x10000000ull		/* bus addresses of 4 MiB */
#define B 0x40000000ull
#define SIZE (4ull << 20)
#define R 0x50000000ull		/* 64 KiB that are only readable */
#define R_SIZE (64ull << 10)
#define MEMIC (HCA_MEMIC_START + 0x2000)	/* 0x1000 bytes, the only ones allocated */

#define PD 3
#define QPN 0x77
#define ANY_QPN 0xffffff
#define LR MKEY_LOCAL_READ
#define LW MKEY_LOCAL_WRITE
#define RR MKEY_REMOTE_READ
#define RW MKEY_REMOTE_WRITE
#define AT MKEY_ATOMIC
#define ALL (LR | LW | RR | RW | AT)

enum { PA = MLX5_MKC_ACCESS_MODE_PA, MTT = MLX5_MKC_ACCESS_MODE_MTT,
       KLM = MLX5_MKC_ACCESS_MODE_KLMS, KSM = MLX5_MKC_ACCESS_MODE_KSM,
       DM = MLX5_MKC_ACCESS_MODE_MEMIC };

static struct hca hca;
static struct dma dma;
static size_t memory_limit = HCA_MEMORY;

void *hca_alloc(struct hca *h, size_t bytes)
{
	void *p = bytes <= memory_limit - h->memory ? calloc(1, bytes) : NULL;

	if (p)
		h->memory += bytes;
	return p;
}

void hca_free_memory(struct hca *h, void *p, size_t bytes)
{
	h->memory -= bytes;
	free(p);
}

bool hca_pd_valid(const struct hca *h, uint16_t uid, uint32_t pd)
{
	return pd > 0 && pd < 16;
}

u8 *memic_at(struct hca *h, uint64_t offset, size_t len)
{
	if (offset < MEMIC || offset - MEMIC > 0x1000 || len > 0x1000 - (offset - MEMIC))
		return NULL;
	return h->memic + (offset - HCA_MEMIC_START);
}

static u8 pattern(uint64_t addr)
{
	return addr * 0x9e3779b97f4a7c15ull >> 56;
}

/* Where the test itself sees a bus address. */
static u8 *at(uint64_t addr)
{
	size_t len = 1;

	return dma_run(&dma, addr, &len, false);
}

static void fill(uint64_t addr, size_t len)
{
	for (; len; len--, addr++)
		*at(addr) = pattern(addr);
}

static void map(uint64_t addr, uint64_t size, bool writable)
{
	int fd = memfd_create("memory", 0);

	assert_int_equal(ftruncate(fd, size), 0);
	if (!writable) {
		u8 *p = mmap(NULL, size, PROT_WRITE, MAP_SHARED, fd, 0);
		uint64_t i;

		for (i = 0; i < size; i++)
			p[i] = pattern(addr + i);
		munmap(p, size);
	}
	assert_int_equal(dma_map(&dma, addr, size, fd, 0, writable), 0);
	close(fd);
	if (writable)
		fill(addr, size);
}

static int world_up(void **state)
{
	unsigned int i;

	memset(&hca, 0, sizeof(hca));
	memset(&dma, 0, sizeof(dma));
	memory_limit = HCA_MEMORY;
	hca.dma = &dma;
	hca.memic = malloc(HCA_MEMIC_SIZE);
	for (i = 0; i < HCA_MEMIC_SIZE; i++)
		hca.memic[i] = pattern(HCA_MEMIC_START + i);
	table_init(&hca.mkeys, 0x10, 1 << HCA_LOG_MKEYS);
	table_init(&hca.qps, 0x40, 1 << HCA_LOG_QPS);
	map(A, SIZE, true);
	map(B, SIZE, true);
	map(R, R_SIZE, false);
	return 0;
}

static void nothing(void *arg, void *object)
{
}

static int world_down(void **state)
{
	mkey_reset(&hca);
	assert_int_equal(hca.memory, 0);
	table_clear(&hca.qps, nothing, NULL);
	dma_unmap_all(&dma);
	free(hca.memic);
	return 0;
}

/* Commands, without cmdif.c. */
static enum cmd_status command(const struct cmd_op *ops, uint16_t op, u8 *in, size_t in_len,
			       u8 *out)
{
	struct cmd c = { .in = in, .in_len = in_len, .out = out, .op = op,
			 .uid = be16_at(in + 2) };

	for (; ops->name; ops++)
		if (ops->op == op) {
			assert_true(in_len >= ops->in_len);
			c.out_len = ops->out_len;
			memset(out, 0, ops->out_len);
			return ops->run(&hca, &c);
		}
	fail_msg("command %#x is not in the given table of commands", op);
	return CMD_BAD_OP;
}

struct spec {
	unsigned int mode;
	uint64_t start, length;
	unsigned int log_page, rights, pd, qpn, octowords;	/* 0: ALL, PD, ANY_QPN */
	bool free, umr, length64, rinval, no_pg_access;
	u8 variant;
	uint16_t uid;
	unsigned int actual;		/* octowords that are given */
	const uint64_t *list;		/* host order */
};

static u8 in[0x110 + 8 * 64], out[0x200];

static size_t spec_fill(const struct spec *s)
{
	u8 *mkc = in + IFC_BIT(create_mkey_in, memory_key_mkey_entry) / 8;
	unsigned int rights = s->rights ? s->rights : ALL, i;

	memset(in, 0, sizeof(in));
	IFC_SET(create_mkey_in, in, uid, s->uid);
	IFC_SET(create_mkey_in, in, pg_access, !s->no_pg_access);
	IFC_SET(mkc, mkc, access_mode_1_0, s->mode & 3);
	IFC_SET(mkc, mkc, access_mode_4_2, s->mode >> 2);
	IFC_SET64(mkc, mkc, start_addr, s->start);
	IFC_SET64(mkc, mkc, len, s->length);
	IFC_SET(mkc, mkc, log_page_size, s->log_page);
	IFC_SET(mkc, mkc, lr, !!(rights & LR));
	IFC_SET(mkc, mkc, lw, !!(rights & LW));
	IFC_SET(mkc, mkc, rr, !!(rights & RR));
	IFC_SET(mkc, mkc, rw, !!(rights & RW));
	IFC_SET(mkc, mkc, a, !!(rights & AT));
	IFC_SET(mkc, mkc, pd, s->pd ? s->pd : PD);
	IFC_SET(mkc, mkc, qpn, s->qpn ? s->qpn : ANY_QPN);
	IFC_SET(mkc, mkc, mkey_7_0, s->variant);
	IFC_SET(mkc, mkc, free, s->free);
	IFC_SET(mkc, mkc, umr_en, s->umr);
	IFC_SET(mkc, mkc, length64, s->length64);
	IFC_SET(mkc, mkc, en_rinval, s->rinval);
	IFC_SET(mkc, mkc, translations_octword_size, s->octowords);
	IFC_SET(create_mkey_in, in, translations_octword_actual_size, s->actual);
	assert_true(s->actual <= 32);
	for (i = 0; i < 2 * s->actual; i++)
		put_be64(in + IFC_BYTES(create_mkey_in) + 8 * i, s->list[i]);
	return IFC_BYTES(create_mkey_in) + 16 * s->actual;
}

/* The key's lkey. */
static uint32_t create(struct spec s)
{
	size_t len = spec_fill(&s);

	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len, out), CMD_OK);
	return IFC_GET(create_mkey_out, out, mkey_index) << 8 | s.variant;
}

static struct mkey *mkey_of(uint32_t key)
{
	struct mkey *m = mkey_get(&hca, key >> 8);

	assert_non_null(m);
	return m;
}

/* Entry I of a KLM or KSM list. */
static inline void set_klm(uint32_t key, uint32_t i, uint32_t bytes, uint32_t to, uint64_t va)
{
	struct mkey *m = mkey_of(key);

	assert_true(i < m->octowords);
	put_be32(m->translation + 16ull * i, bytes);
	put_be32(m->translation + 16ull * i + 4, to);
	put_be64(m->translation + 16ull * i + 8, va);
	m->summed = 0;
}

#endif
