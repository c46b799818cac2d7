// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine behind every access by key: mkey.h says what it does.
 *
 * A walk goes down from the access's own key.  Each mode cuts the range into pieces and
 * hands them on, to another key or, as bus addresses, to dma_run() and dma_ask().  The lists
 * of keys are the mlx5_wqe_umr_* of mlx5dv.h; the kernel's qp.h has the same, and for pages
 * mlx5_mtt.
 *
 * What keeps it safe: a range is checked against a key before that key translates it, so
 * that positions are differences which cannot wrap; an index is compared with the size of
 * the list before it is used; each piece has one byte at least, and one walk has at most
 * MKEY_PIECES pieces and MKEY_DEPTH levels, whatever the lists say.
 */
#include "mkey.h"
#include "dma.h"
#include "hca.h"
#include "ifc.h"
#include "late.h"
#include "memic.h"
#include "table.h"

#define REPEAT_BLOCK 0x400	/* in place of the key: the list is a repeat block */
#define MTT_READ 1
#define MTT_WRITE 2
#define MTT_ADDRESS (~0xffull)
#define MIN_LOG_PAGE 12

#define RIGHTS_LOCAL (MKEY_LOCAL_READ | MKEY_LOCAL_WRITE)
#define RIGHTS_WRITE (MKEY_LOCAL_WRITE | MKEY_REMOTE_WRITE | MKEY_ATOMIC)

enum walk_op { WALK_LOOK, WALK_READ, WALK_WRITE, WALK_POINT };

struct walk {
	struct hca *hca;
	struct dma *dma;		/* of the function by which the access leaves */
	const struct mkey_access *access;
	enum walk_op op;
	bool write;			/* needs pages that are writable */
	u8 *data;			/* the caller's */
	struct mkey_word word;		/* WALK_POINT: the result */
	uint64_t va;
	size_t len, done;
	size_t asked;			/* bytes that QEMU was asked for */
	unsigned int pieces;
	struct mkey_fault *fault;
};

static enum mkey_result visit(struct walk *w, struct mkey *m, uint64_t va, size_t len,
			      unsigned int depth);

struct mkey *mkey_get(struct hca *hca, uint32_t index)
{
	return table_get(&hca->mkeys, index);
}

/* LEN is not 0. */
static bool wraps(uint64_t va, uint64_t len)
{
	return len - 1 > UINT64_MAX - va;
}

static bool inside(const struct mkey *m, uint64_t va, uint64_t len)
{
	uint64_t start = m->mode == MLX5_MKC_ACCESS_MODE_MEMIC ? 0 : m->start;

	if (wraps(va, len) || va < start)
		return false;
	if (m->length64)
		return true;
	return va - start <= m->length && len <= m->length - (va - start);
}

/* The key if it may be used at all: it exists, is not free, and its low byte is right. */
static struct mkey *usable(const struct walk *w, uint32_t key, uint8_t rights)
{
	struct mkey *m = mkey_get(w->hca, key >> 8);

	if (!m || m->free || m->key != (key & 0xff) || rights & ~m->rights)
		return NULL;
	if (m->qpn != 0xffffff && m->qpn != w->access->qpn)
		return NULL;
	return m;
}

/* The access's own key, in *M; NULL there: a key of the device. */
static enum mkey_result grant(const struct walk *w, uint64_t va, uint64_t len, struct mkey **m)
{
	const struct mkey_access *a = w->access;

	*m = NULL;
	switch (a->key) {
	case MKEY_RESERVED_LKEY:
		if (!a->privileged)
			return MKEY_DENIED;
		/* fall through */
	case MKEY_NULL:
	case MKEY_DUMP_FILL:
		return wraps(va, len) || a->rights & ~RIGHTS_LOCAL ? MKEY_DENIED : MKEY_OK;
	}
	*m = usable(w, a->key, a->rights);
	if (!*m || (!a->any_pd && (*m)->pd != a->pd) || !inside(*m, va, len))
		return MKEY_DENIED;
	return MKEY_OK;
}

/* A piece is found; P is NULL for a key that has no memory behind it. */
static void take(struct walk *w, u8 *p, size_t len)
{
	switch (w->op) {
	case WALK_LOOK:
		break;
	case WALK_READ:
		if (p)
			memcpy(w->data + w->done, p, len);
		else
			memset(w->data + w->done, 0, len);
		break;
	case WALK_WRITE:
		if (p)
			memcpy(p, w->data + w->done, len);
		break;
	case WALK_POINT:
		w->word.host = w->done ? NULL : p;	/* more than one piece: no pointer */
		w->word.bus = 0;
		break;
	}
	w->done += len;
}

static void count(struct walk *w, size_t len)
{
	struct dma_traffic *t = &w->dma->traffic;

	if (w->op == WALK_READ) {
		t->reads++;
		t->read_bytes += len;
	} else if (w->op == WALK_WRITE) {
		t->writes++;
		t->written_bytes += len;
	}
}

/* The same for memory of the guest, at P. */
static void take_near(struct walk *w, uint64_t addr, u8 *p, size_t len)
{
	if (w->dma->late && w->op == WALK_WRITE) {
		late_write(w->dma->late, addr, w->data + w->done, len);
		w->done += len;
	} else {
		take(w, p, len);
	}
	count(w, len);
}

/*
 * The same for what only QEMU reaches, as much as a packet has: the list of a UMR may be of
 * a megabyte, for which QEMU would be asked for seconds, in one turn of work.
 */
static bool take_far(struct walk *w, uint64_t addr, size_t len)
{
	switch (w->op) {
	case WALK_LOOK:
		break;
	case WALK_READ:
	case WALK_WRITE:
		w->asked += len;
		if (w->asked > DMA_ASK_MAX)
			return false;
		if (dma_ask(w->dma, addr, w->data + w->done, len, w->op == WALK_WRITE))
			return false;
		break;
	case WALK_POINT:
		w->word.host = NULL;
		w->word.bus = w->done ? 0 : addr;
		break;
	}
	w->done += len;
	count(w, len);
	return true;
}

static enum mkey_result bus(struct walk *w, uint64_t addr, size_t len)
{
	w->word.dma = w->dma;
	if (w->op == WALK_READ || w->op == WALK_POINT)
		late_flush(w->dma->late);
	while (len) {
		size_t n = len;
		u8 *p = dma_run(w->dma, addr, &n, w->write);

		if (p) {
			take_near(w, addr, p, n);
		} else {
			n = dma_gap(w->dma, addr, len);
			late_flush(w->dma->late);
			if (!n || !take_far(w, addr, n))
				return MKEY_DENIED;
		}
		addr += n;
		len -= n;
	}
	return MKEY_OK;
}

static enum mkey_result absent(struct walk *w, const struct mkey *m, uint64_t va, size_t len)
{
	if (w->fault)
		*w->fault = (struct mkey_fault){
			.key = m->index << 8 | m->key, .va = va, .length = len,
			.access = *w->access, .access_va = w->va + w->done,
			.access_length = w->len - w->done,
		};
	return MKEY_ABSENT;
}

static enum mkey_result visit_mtt(struct walk *w, struct mkey *m, uint64_t va, size_t len)
{
	uint64_t page = 1ull << m->log_page, pos = va - (m->start & ~(page - 1));
	uint64_t need = w->write ? MTT_WRITE : MTT_READ;

	if (m->log_page < MIN_LOG_PAGE)
		return MKEY_DENIED;
	while (len) {
		uint64_t index = pos >> m->log_page, in = pos & (page - 1), entry;
		size_t n = page - in < len ? page - in : len;
		enum mkey_result r;

		if (index >= 2ull * m->octowords)
			return MKEY_DENIED;
		entry = be64_at(m->translation + 8 * index);
		if (!(entry & need))
			return absent(w, m, va, len);
		r = bus(w, (entry & MTT_ADDRESS) + in, n);
		if (r)
			return r;
		pos += n;
		va += n;
		len -= n;
	}
	return MKEY_OK;
}

/*
 * N bytes of PARENT go on at TO of another key.
 *
 * The null key does not fault.  The driver takes the key of a fault for one of its memory
 * regions, and a process can write the null key into lists that are none: of a memory window,
 * of mlx5dv_create_mkey().  An implicit MR has to fault where no child is, but by the memory
 * scheme, which is the only one here, the driver does not write the null key there: each
 * implicit MR has a key of its own for that, of pages that are not present
 * (alloc_implicit_mr_null_mkey() in its odp.c), and visit_mtt() reports that one.
 */
static enum mkey_result follow(struct walk *w, struct mkey *parent, uint32_t key, uint64_t to,
			       size_t n, unsigned int depth)
{
	struct mkey *m;

	if (++w->pieces > MKEY_PIECES || depth == MKEY_DEPTH)
		return MKEY_DENIED;
	if (key == MKEY_NULL || key == MKEY_DUMP_FILL) {
		take(w, NULL, n);
		return MKEY_OK;
	}
	m = usable(w, key, w->write ? MKEY_LOCAL_WRITE : MKEY_LOCAL_READ);
	if (!m || m->pd != parent->pd || !inside(m, to, n))
		return MKEY_DENIED;
	return visit(w, m, to, n, depth + 1);
}

/* Entry I of a list of other keys.  In a list of equal blocks its length means nothing. */
static const struct mlx5_wqe_umr_klm_seg *klm_at(const struct mkey *m, uint64_t i)
{
	return (const void *)(m->translation + sizeof(struct mlx5_wqe_umr_klm_seg) * i);
}

/* The header of a repeat block is as long as an entry, and lies where entry 0 would. */
static const struct mlx5_wqe_umr_repeat_block_seg *repeat_block(const struct mkey *m)
{
	return (const void *)m->translation;
}

/*
 * The first entry is for the block that begins at the key's start, aligned or not.  The driver
 * asks for an iova and blocks that are aligned to each other because of that; UCX counts on it:
 * the start of its keys for atomics is a few words beside that of their one block.
 */
static enum mkey_result visit_ksm(struct walk *w, struct mkey *m, uint64_t va, size_t len,
				  unsigned int depth)
{
	uint64_t block = 1ull << m->log_page, pos = va - m->start;

	if (m->log_page < MIN_LOG_PAGE)
		return MKEY_DENIED;
	while (len) {
		uint64_t index = pos >> m->log_page, in = pos & (block - 1);
		size_t n = block - in < len ? block - in : len;
		const struct mlx5_wqe_umr_klm_seg *e;
		enum mkey_result r;

		if (index >= m->octowords)
			return MKEY_DENIED;
		e = klm_at(m, index);
		r = follow(w, m, be32toh(e->mkey), be64toh(e->address) + in, n, depth);
		if (r)
			return r;
		pos += n;
		va += n;
		len -= n;
	}
	return MKEY_OK;
}

static bool is_repeat_block(const struct mkey *m)
{
	return m->octowords && be32toh(repeat_block(m)->op) == REPEAT_BLOCK;
}

/* Entries that changed since the last walk. */
static void sum_up(struct mkey *m)
{
	bool repeat = is_repeat_block(m);

	for (; m->summed < m->octowords; m->summed++) {
		uint32_t i = m->summed;
		uint64_t bytes = !repeat ? be32toh(klm_at(m, i)->byte_count) :
				 i ? be16toh(repeat_block(m)->entries[i - 1].byte_count) : 0;

		m->sums[i] = bytes + (i ? m->sums[i - 1] : 0);
	}
}

/*
 * The entry, from FIRST on and before END, that holds byte POS; END if none does.
 * HINT is tried first.
 */
static uint32_t entry_at(const struct mkey *m, uint32_t first, uint32_t end, uint64_t pos,
			 uint32_t hint)
{
	if (hint >= first && hint < end && m->sums[hint] > pos &&
	    (hint == first || m->sums[hint - 1] <= pos))
		return hint;
	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (m->sums[middle] > pos)
			end = middle;
		else
			first = middle + 1;
	}
	return end;
}

/* The entries of the block give the bytes of one cycle; each goes on by its stride. */
static enum mkey_result visit_repeat(struct walk *w, struct mkey *m, uint64_t va, size_t len,
				     unsigned int depth)
{
	const struct mlx5_wqe_umr_repeat_block_seg *block = repeat_block(m);
	uint64_t cycle = be32toh(block->byte_count), pos = va - m->start;
	uint32_t repeat = be32toh(block->repeat_count), i = 0;
	uint32_t count = be16toh(block->num_ent);

	if (!cycle || count >= m->octowords || m->sums[count] != cycle)
		return MKEY_DENIED;
	while (len) {
		const struct mlx5_wqe_umr_repeat_ent_seg *e;
		uint64_t round = pos / cycle, in = pos % cycle, rest, to;
		enum mkey_result r;
		size_t n;

		if (round >= repeat)
			return MKEY_DENIED;
		i = entry_at(m, 1, count + 1, in, i + 1);
		e = &block->entries[i - 1];
		rest = m->sums[i] - in;
		n = rest < len ? rest : len;
		to = be64toh(e->va) + round * be16toh(e->stride) + be16toh(e->byte_count) - rest;
		r = follow(w, m, be32toh(e->memkey), to, n, depth);
		if (r)
			return r;
		pos += n;
		va += n;
		len -= n;
	}
	return MKEY_OK;
}

static enum mkey_result visit_klm(struct walk *w, struct mkey *m, uint64_t va, size_t len,
				  unsigned int depth)
{
	uint64_t pos = va - m->start;
	uint32_t i = 0;

	sum_up(m);
	if (is_repeat_block(m))
		return visit_repeat(w, m, va, len, depth);
	while (len) {
		const struct mlx5_wqe_umr_klm_seg *e;
		enum mkey_result r;
		uint64_t rest, to;
		size_t n;

		i = entry_at(m, 0, m->octowords, pos, i + 1);
		if (i == m->octowords)
			return MKEY_DENIED;
		e = klm_at(m, i);
		rest = m->sums[i] - pos;
		n = rest < len ? rest : len;
		to = be64toh(e->address) + be32toh(e->byte_count) - rest;
		r = follow(w, m, be32toh(e->mkey), to, n, depth);
		if (r)
			return r;
		pos += n;
		va += n;
		len -= n;
	}
	return MKEY_OK;
}

static enum mkey_result visit_memic(struct walk *w, struct mkey *m, uint64_t va, size_t len)
{
	u8 *p = memic_at(w->hca, m->start + va, len);

	if (!p)
		return MKEY_DENIED;
	take(w, p, len);
	return MKEY_OK;
}

static enum mkey_result visit_pa(struct walk *w, const struct mkey *m, uint64_t va, size_t len)
{
	struct dma *own = w->dma;
	enum mkey_result r;

	if (m->direct)
		w->dma = w->hca->direct;
	r = bus(w, va, len);
	w->dma = own;
	return r;
}

/* The one place where the PD changes: the driver alone makes such a key. */
static enum mkey_result visit_crossing(struct walk *w, struct mkey *m, uint64_t va, size_t len,
				       unsigned int depth)
{
	struct mkey *to = usable(w, m->crossed, w->write ? MKEY_LOCAL_WRITE : MKEY_LOCAL_READ);

	/* Its number may be another one's by now. */
	if (depth || !to || to->uid || to->pd != m->crossed_pd ||
	    to->mode != MLX5_MKC_ACCESS_MODE_KSM || !inside(to, va, len))
		return MKEY_DENIED;
	trace("%s by Data Direct: %#llx+%#zx", w->write ? "write" : "read",
	      (unsigned long long)va, len);
	return visit(w, to, va, len, depth + 1);
}

/* The range is inside of M. */
static enum mkey_result visit(struct walk *w, struct mkey *m, uint64_t va, size_t len,
			      unsigned int depth)
{
	switch (m->mode) {
	case MLX5_MKC_ACCESS_MODE_PA:
		return visit_pa(w, m, va, len);
	case MLX5_MKC_ACCESS_MODE_CROSSING:
		return visit_crossing(w, m, va, len, depth);
	case MLX5_MKC_ACCESS_MODE_MTT:
		return visit_mtt(w, m, va, len);
	case MLX5_MKC_ACCESS_MODE_KLMS:
		return visit_klm(w, m, va, len, depth);
	case MLX5_MKC_ACCESS_MODE_KSM:
		return visit_ksm(w, m, va, len, depth);
	case MLX5_MKC_ACCESS_MODE_MEMIC:
		return visit_memic(w, m, va, len);
	}
	return MKEY_DENIED;
}

static enum mkey_result walk(struct walk *w)
{
	enum mkey_result r;
	struct mkey *m;

	if (!w->len)
		return MKEY_OK;
	r = grant(w, w->va, w->len, &m);
	if (r)
		return r;
	if (m)
		return visit(w, m, w->va, w->len, 0);
	if (w->access->key == MKEY_RESERVED_LKEY)
		return bus(w, w->va, w->len);
	take(w, NULL, w->len);
	return MKEY_OK;
}

enum mkey_result mkey_check(struct hca *hca, const struct mkey_access *a, uint64_t va,
			    uint64_t len)
{
	struct walk w = { .hca = hca, .dma = hca->dma, .access = a };
	struct mkey *m;

	return len ? grant(&w, va, len, &m) : MKEY_OK;
}

enum mkey_result mkey_read(struct hca *hca, const struct mkey_access *a, uint64_t va, void *to,
			   size_t len, struct mkey_fault *fault)
{
	struct walk w = { .hca = hca, .dma = hca->dma, .access = a, .op = WALK_READ, .data = to, .va = va,
			  .len = len, .fault = fault };

	return walk(&w);
}

enum mkey_result mkey_write(struct hca *hca, const struct mkey_access *a, uint64_t va,
			    const void *from, size_t len, struct mkey_fault *fault)
{
	/* WALK_WRITE only reads from data. */
	struct walk w = { .hca = hca, .dma = hca->dma, .access = a, .op = WALK_WRITE, .write = true,
			  .data = (u8 *)from, .va = va, .len = len, .fault = fault };

	return walk(&w);
}

enum mkey_result mkey_present(struct hca *hca, const struct mkey_access *a, uint64_t va,
			      size_t len, struct mkey_fault *fault)
{
	struct walk w = { .hca = hca, .dma = hca->dma, .access = a, .op = WALK_LOOK,
			  .write = a->rights & RIGHTS_WRITE, .va = va, .len = len,
			  .fault = fault };

	return walk(&w);
}

enum mkey_result mkey_atomic(struct hca *hca, const struct mkey_access *a, uint64_t va,
			     size_t size, struct mkey_word *word, struct mkey_fault *fault)
{
	struct walk w = { .hca = hca, .dma = hca->dma, .access = a, .op = WALK_POINT,
			  .write = true, .va = va, .len = size, .fault = fault };
	enum mkey_result result = walk(&w);

	if (result)
		return result;
	if ((!w.word.host && !w.word.bus) || (uintptr_t)w.word.host % size ||
	    w.word.bus % size)
		return MKEY_DENIED;
	*word = w.word;
	return MKEY_OK;
}
