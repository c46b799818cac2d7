/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory keys: the one engine through which every access to guest memory on behalf of a
 * QP goes.  It checks the key, its state, PD, QP, rights and bounds, and translates the
 * address through what the key describes:
 *
 *	PA	the address is the bus address
 *	MTT	a list of pages; bit 0 says readable, bit 1 writable, neither: not present
 *	KSM	a list of other keys, each for the same number of bytes
 *	KLM	a list of other keys with a length each
 *	MEMIC	the device's own memory
 *	CROSSING	another key, and so the function of Data Direct (direct.h)
 *
 * A KLM list may also be one repeat block (mlx5dv_wr_mr_interleaved()).
 *
 * A key of a key is followed up to MKEY_DEPTH deep.  The outer key is the one that grants;
 * of an inner key only bounds, local rights, QPN, and the PD of the key that holds it are
 * checked.  The PD has to be: a process writes these lists itself.
 *
 * Translations are private copies that only CREATE_MKEY and UMR change, so a list is
 * never read from guest memory during an access, and nothing changes one while QEMU
 * is asked for memory that is not mapped here (dma.h).
 */
#ifndef CONNECTX_MKEY_H
#define CONNECTX_MKEY_H

#include "cmd.h"

struct umem;

#define MKEY_DEPTH 5
#define MKEY_PIECES 16384	/* entries of lists that one access may go through */
#define MKEY_RESERVED_LKEY 0x100	/* index 1: addresses are bus addresses; privileged */
#define MKEY_NULL 0x200			/* reads as 0, writes vanish, in lists too */
#define MKEY_DUMP_FILL 0x300		/* the same */

enum { MKEY_LOCAL_READ = 1, MKEY_LOCAL_WRITE = 2, MKEY_REMOTE_READ = 4, MKEY_REMOTE_WRITE = 8,
       MKEY_ATOMIC = 16 };

struct mkey {
	struct hca *hca;
	uint32_t index;
	u8 key;			/* low byte of the lkey and rkey */
	bool free;		/* exists, but grants nothing; UMR changes this */
	bool umr_enabled;
	u8 mode;		/* MLX5_MKC_ACCESS_MODE_* */
	u8 rights;
	bool length64;		/* the whole address space */
	bool remote_invalidate;
	bool direct;		/* PA: by the function of Data Direct */
	uint32_t crossed, crossed_pd;	/* CROSSING: the key that it leads to, and its PD */
	uint32_t pd, qpn;	/* qpn 0xffffff: any */
	uint64_t start, length;
	unsigned int log_page;
	uint32_t octowords;	/* size of the translation, in 16 bytes */
	u8 *translation;	/* big endian, as the guest gave it */
	uint64_t *sums;		/* KLM: bytes of the entries up to this one */
	uint32_t summed;	/* entries of which that is known */
	uint32_t uid;
	struct umem *umem;	/* whose pages these are, or NULL */
	u8 context[IFC_BYTES(mkc)];	/* as QUERY_MKEY returns it; the fields above are truth */
};

/* One access.  RIGHTS is what it needs.  PD and QPN: of the QP. */
struct mkey_access {
	uint32_t key;
	uint32_t pd, qpn;
	u8 rights;
	bool any_pd;		/* the lists of the driver's UMR QP, which has no PD */
	bool privileged;	/* the QP may use the reserved lkey */
};

enum mkey_result {
	MKEY_OK,
	MKEY_DENIED,	/* no such key, or PD, rights or bounds */
	MKEY_ABSENT,	/* a page is not present: a page fault, see struct mkey_fault */
};

struct mkey_fault {
	uint32_t key;		/* of the mkey that has to be filled: lkey of the fault */
	uint64_t va;
	size_t length;		/* from va to the end of the access, within that mkey */
	/* What is left of the access, for another walk from its own key: odp.c. */
	struct mkey_access access;
	uint64_t access_va;
	size_t access_length;
};

extern const struct cmd_op mkey_ops[];

/*
 * Whether the access's own key allows the whole range.  What the key leads to is not
 * looked at, which takes time with the length.  An access to 0 bytes is always allowed.
 */
enum mkey_result mkey_check(struct hca *hca, const struct mkey_access *a, uint64_t va,
			    uint64_t len);
/* FAULT, which is filled for MKEY_ABSENT, may be NULL.  On an error a part may be copied. */
enum mkey_result mkey_read(struct hca *hca, const struct mkey_access *a, uint64_t va, void *to,
			   size_t len, struct mkey_fault *fault);
enum mkey_result mkey_write(struct hca *hca, const struct mkey_access *a, uint64_t va,
			    const void *from, size_t len, struct mkey_fault *fault);
/*
 * Whether all pages of the range are present: an access without the copy.  RIGHTS say
 * whether it writes.
 */
enum mkey_result mkey_present(struct hca *hca, const struct mkey_access *a, uint64_t va,
			      size_t len, struct mkey_fault *fault);
/* Where a word is: here, for an atomic operation by the CPU, or where dma_ask() reaches it. */
struct mkey_word {
	struct dma *dma;	/* of the function that reaches it; NULL: on the device */
	void *host;		/* or NULL, and then at this address of DMA: */
	uint64_t bus;
};
/* SIZE bytes (4 or 8) that lie in one page and are naturally aligned. */
enum mkey_result mkey_atomic(struct hca *hca, const struct mkey_access *a, uint64_t va,
			     size_t size, struct mkey_word *word, struct mkey_fault *fault);

struct mkey *mkey_get(struct hca *hca, uint32_t index);
/* From the wire: invalidate RKEY for a QP (send with invalidate).  false: not allowed. */
bool mkey_invalidate_remote(struct hca *hca, uint32_t rkey, uint32_t pd, uint32_t qpn);
/* The context with the current fields, for QUERY_MKEY. */
void mkey_context(const struct mkey *m, void *mkc);
/* Read the fields of a context; false, with M as it was, if they make no sense. */
bool mkey_from_context(struct mkey *m, const void *mkc);
void mkey_reset(struct hca *hca);

#endif
