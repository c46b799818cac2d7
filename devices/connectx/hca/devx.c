// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DEVX: CREATE_UCTX, DESTROY_UCTX, CREATE_UMEM, DESTROY_UMEM (mlx5_ifc.h).
 *
 * A user context (UCTX) is a process.  The driver writes its number, the uid, into each
 * command that it carries out for the process, also into those that the process composed
 * itself.  So the number is the truth, and all else in such a command is not: objects that
 * are made with a uid belong to it, and a command with a uid finds those of this uid only.
 * The driver itself is uid 0 and finds all.
 *
 * What keeps it safe: an address in a command with a uid is never a bus address, but an
 * offset in a umem (the driver sets the *_umem_valid bits itself).  A UCTX that still has
 * objects is not destroyed, so that no other process gets its number and its objects; a
 * umem that a queue uses is not destroyed, so that its pages stay pinned.
 */
#include "devx.h"
#include "caps.h"
#include "hca.h"
#include "ifc.h"
#include "table.h"

#define MTT_READ 1
#define MTT_WRITE 2
#define MTT_FLAGS 7ull
#define ADAPTER_PAGE_SHIFT 12
#define PAGE_SHIFT_MAX 31		/* queue_buf.start has 32 bits */
#define WQ_ALIGN 64			/* of a queue in a umem */
#define DOORBELL_BYTES 8

/* User contexts. */

static char uctx_only;			/* an object without state */

/*
 * Whether any object belongs to the user.  A CQ names a UAR, and a QP, SRQ or mkey a PD, of
 * the same user, which is not freed before it.
 */
static bool uid_used(const struct hca *hca, uint16_t uid)
{
#define ANY_OF(table_, type) do {					\
	const type *o_;							\
									\
	table_each(&hca->table_, n_, o_)				\
		if (o_->uid == uid)					\
			return true;					\
} while (0)
	ANY_OF(uars, struct uar);
	ANY_OF(pds, struct number);
	ANY_OF(tds, struct number);
	ANY_OF(xrcds, struct number);
	ANY_OF(umems, struct umem);
#undef ANY_OF
	return false;
}

static enum cmd_status cmd_create_uctx(struct hca *hca, struct cmd *cmd)
{
	uint32_t cap = IFC_GET(uctx, IFC_PTR(create_uctx_in, cmd->in, uctx), cap);
	int64_t uid;

	if (cmd->uid)
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	/* Permissions that the device does not have to give. */
	if (cap & ~CAP(hca, uctx_cap))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	uid = table_add(&hca->uctxs, &uctx_only);
	if (uid < 0)
		return cmd_refuse(cmd, CMD_LIM_EXCEEDED);
	IFC_SET(create_uctx_out, cmd->out, uid, uid);
	cmd_says(cmd, "uid %u", (unsigned int)uid);
	return CMD_OK;
}

static enum cmd_status cmd_destroy_uctx(struct hca *hca, struct cmd *cmd)
{
	uint32_t uid = IFC_GET(destroy_uctx_in, cmd->in, uid);

	cmd_says(cmd, "uid %u", uid);
	if (cmd->uid)
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	if (!table_get(&hca->uctxs, uid))
		return cmd_refuse(cmd, CMD_BAD_RES);
	if (uid_used(hca, uid))
		return cmd_refuse(cmd, CMD_BAD_RES_STATE);
	table_del(&hca->uctxs, uid);
	return CMD_OK;
}

/* User memory. */

static void umem_free(void *arg, void *object)
{
	struct umem *u = object;

	queue_buf_free(arg, &u->buf);
	hca_free_memory(arg, u, sizeof(*u));
}

/* The pages: all readable, and all writable or else U is not. */
static bool read_pages(struct umem *u, const u8 *mtt)
{
	uint64_t page = 1ull << u->buf.shift;

	u->writable = true;
	for (uint32_t i = 0; i < u->buf.pages; i++, mtt += 8) {
		uint64_t entry = be64_at(mtt), addr = entry & ~MTT_FLAGS;

		if (!(entry & MTT_READ) || addr % page)
			return false;
		if (!(entry & MTT_WRITE))
			u->writable = false;
		u->buf.page[i] = addr;
	}
	return true;
}

static enum cmd_status umem_read(struct hca *hca, struct cmd *cmd, struct umem *u)
{
	const void *ctx = IFC_PTR(create_umem_in, cmd->in, umem);
	uint64_t pages = IFC_GET64(umem, ctx, num_of_mtt);
	size_t len;
	const u8 *mtt = cmd_tail(cmd, IFC_BYTES(create_umem_in), &len);

	u->uid = cmd->uid;
	u->buf.shift = IFC_GET(umem, ctx, log_page_size) + ADAPTER_PAGE_SHIFT;
	u->buf.start = IFC_GET(umem, ctx, page_offset);
	if (IFC_GET(umem, ctx, ats) || u->buf.shift > PAGE_SHIFT_MAX ||
	    u->buf.start >= 1ull << u->buf.shift)
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	if (!pages || pages > len / 8)
		return cmd_refuse(cmd, CMD_BAD_INPUT_LEN);
	u->buf.page = hca_alloc(hca, pages * sizeof(*u->buf.page));
	if (!u->buf.page)
		return cmd_refuse(cmd, CMD_NO_RESOURCES);
	u->buf.pages = pages;
	u->bytes = (pages << u->buf.shift) - u->buf.start;
	return read_pages(u, mtt) ? CMD_OK : cmd_refuse(cmd, CMD_BAD_PARAM);
}

static enum cmd_status cmd_create_umem(struct hca *hca, struct cmd *cmd)
{
	enum cmd_status status;
	struct umem *u;
	int64_t number;

	/* umem_uid_0 is not offered. */
	if (!cmd->uid)
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	u = hca_alloc(hca, sizeof(*u));
	if (!u)
		return cmd_refuse(cmd, CMD_NO_RESOURCES);
	status = umem_read(hca, cmd, u);
	if (status)
		goto free_umem;
	number = table_add(&hca->umems, u);
	if (number < 0) {
		status = cmd_refuse(cmd, CMD_LIM_EXCEEDED);
		goto free_umem;
	}
	u->number = number;
	IFC_SET(create_umem_out, cmd->out, umem_id, u->number);
	cmd_says(cmd, "umem %#x of uid %u, %u pages of 1 << %u from %#x%s", u->number, u->uid,
		 u->buf.pages, u->buf.shift, u->buf.start, u->writable ? "" : ", read only");
	return CMD_OK;

free_umem:
	umem_free(hca, u);
	return status;
}

struct umem *umem_of_cmd(struct hca *hca, const struct cmd *cmd, uint32_t number)
{
	struct umem *u = table_get(&hca->umems, number);

	return u && uid_owns(cmd->uid, u->uid) ? u : NULL;
}

static enum cmd_status cmd_destroy_umem(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(destroy_umem_in, cmd->in, umem_id);
	struct umem *u = umem_of_cmd(hca, cmd, number);

	cmd_says(cmd, "umem %#x", number);
	if (!u)
		return cmd_refuse(cmd, CMD_BAD_RES);
	if (u->users)
		return cmd_refuse(cmd, CMD_BAD_RES_STATE);
	table_del(&hca->umems, number);
	umem_free(hca, u);
	return CMD_OK;
}

enum cmd_status umem_buffer(struct hca *hca, struct cmd *cmd, struct umem_use *use,
			    uint32_t number, uint64_t offset, uint64_t bytes, bool write,
			    struct queue_buf *b)
{
	struct umem *u = umem_of_cmd(hca, cmd, number);
	uint64_t at, first, page;
	size_t pages;

	if (!u)
		return REFUSE(cmd, CMD_BAD_RES, "no umem %#x", number);
	if (!umem_inside(u, offset, bytes) || !bytes || (write && !u->writable))
		return REFUSE(cmd, CMD_BAD_PARAM, "%llu bytes at %#llx of umem %#x",
			      (unsigned long long)bytes, (unsigned long long)offset, number);
	at = u->buf.start + offset;
	if (at % WQ_ALIGN)
		return REFUSE(cmd, CMD_BAD_PARAM, "a queue at %#llx of a page",
			      (unsigned long long)at);
	page = 1ull << u->buf.shift;
	first = at >> u->buf.shift;
	pages = ((at + bytes + page - 1) >> u->buf.shift) - first;
	b->page = hca_alloc(hca, pages * sizeof(*b->page));
	if (!b->page)
		return REFUSE(cmd, CMD_NO_RESOURCES, "no memory for a list of pages");
	memcpy(b->page, u->buf.page + first, pages * sizeof(*b->page));
	b->pages = pages;
	b->shift = u->buf.shift;
	b->start = at & (page - 1);
	u->users++;
	use->buffer = u;
	return CMD_OK;
}

enum cmd_status umem_doorbell(struct hca *hca, struct cmd *cmd, struct umem_use *use,
			      uint32_t number, uint64_t *addr)
{
	struct umem *u = umem_of_cmd(hca, cmd, number);
	uint64_t offset = *addr;
	int err;

	if (!u)
		return REFUSE(cmd, CMD_BAD_RES, "no umem %#x", number);
	/* Aligned, it does not cross into another page. */
	if (!umem_inside(u, offset, DOORBELL_BYTES) || (u->buf.start + offset) % DOORBELL_BYTES)
		return REFUSE(cmd, CMD_BAD_PARAM, "doorbell record at %#llx of umem %#x",
			      (unsigned long long)offset, number);
	*addr = queue_buf_addr(&u->buf, offset, &err);
	u->users++;
	use->doorbell = u;
	return CMD_OK;
}

void umem_put(struct umem_use *use)
{
	if (use->buffer)
		use->buffer->users--;
	if (use->doorbell)
		use->doorbell->users--;
	use->buffer = use->doorbell = NULL;
}

static void nothing(void *arg, void *object)
{
}

void devx_reset(struct hca *hca)
{
	table_clear(&hca->umems, umem_free, hca);
	table_clear(&hca->uctxs, nothing, NULL);
}

const struct cmd_op devx_ops[] = {
	CMD_OP(CREATE_UCTX, create_uctx),
	CMD_OP(DESTROY_UCTX, destroy_uctx),
	CMD_OP(CREATE_UMEM, create_umem),
	CMD_OP(DESTROY_UMEM, destroy_umem),
	{ },
};
