// SPDX-License-Identifier: GPL-2.0-or-later
/* See lists.h. */
#include "mkeys/lists.h"
#include "lib/case.h"
#include <stdio.h>
#include <string.h>

#define INLINE 512	/* bytes of a list go into the work request */

void ends_connect(struct ends *e)
{
	pair_connect(&e->pair, IBV_MTU_1024);
}

static void memory_of_ends(struct ends *e)
{
	memory_open(&e->host, HOST, SIZE);
	e->mr = memory_reg(&e->host, e->pd, ALL_ACCESS);
}

void ends_open(struct ends *e)
{
	e->ctx = device_open();
	e->pd = must(ibv_alloc_pd(e->ctx));
	pair_open_in(&e->pair, e->pd);
	memory_of_ends(e);
}

static struct ibv_qp *make_qp(struct ends *e)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = e->pair.cq,
		.recv_cq = e->pair.cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4,
			 .max_recv_sge = 4, .max_inline_data = INLINE },
		.pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct mlx5dv_qp_init_attr more = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED |
				  MLX5DV_QP_EX_WITH_MKEY_CONFIGURE,
	};

	return must(mlx5dv_create_qp(e->ctx, &attr, &more));
}

void ends_open_for_lists(struct ends *e)
{
	need("mlx5-queues");
	e->ctx = device_open();
	e->pd = must(ibv_alloc_pd(e->ctx));
	e->pair.ctx = e->ctx;
	e->pair.cq = must(ibv_create_cq(e->ctx, 64, NULL, NULL, 0));
	for (int i = 0; i < 2; i++)
		e->pair.qp[i] = make_qp(e);
	ends_connect(e);
	memory_of_ends(e);
}

void ends_close(struct ends *e)
{
	pair_close(&e->pair);
	mr_close(e->mr);
	memory_close(&e->host);
	pd_close(e->pd);
	device_close(e->ctx);
	*e = (struct ends){};
}

size_t bytes_of(const struct piece *p, int n)
{
	size_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += p[i].n;
	return bytes;
}

struct mlx5dv_mkey *list_make(struct ends *e)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = e->pd, .max_entries = ENTRIES,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};

	return must(mlx5dv_create_mkey(&attr));
}

void list_close(struct mlx5dv_mkey *list)
{
	if (list && (errno = mlx5dv_destroy_mkey(list)))
		fail_case("destroy a list");
}

static struct mlx5dv_qp_ex *umr_begin(struct ends *e)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(e->pair.qp[1]);

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	return mlx5dv_qp_ex_from_ibv_qp_ex(qp);
}

static enum ibv_wc_status umr_end(struct ends *e)
{
	if ((errno = ibv_wr_complete(ibv_qp_to_qp_ex(e->pair.qp[1]))))
		fail_case("post a UMR");
	return wait_wc(&e->pair, NULL);
}

enum ibv_wc_status list_fill_sge(struct ends *e, struct mlx5dv_mkey *list, int access,
				 struct ibv_sge *sge, int n, bool configure)
{
	struct mlx5dv_mkey_conf_attr attr = {};
	struct mlx5dv_qp_ex *qp = umr_begin(e);

	if (configure) {
		mlx5dv_wr_mkey_configure(qp, list, 2, &attr);
		mlx5dv_wr_set_mkey_access_flags(qp, access);
		mlx5dv_wr_set_mkey_layout_list(qp, n, sge);
	} else {
		mlx5dv_wr_mr_list(qp, list, access, n, sge);
	}
	return umr_end(e);
}

enum ibv_wc_status list_fill(struct ends *e, struct mlx5dv_mkey *list, int access,
			     const struct piece *p, int n)
{
	struct ibv_sge sge[ENTRIES];

	for (int i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ p[i].of->iova + p[i].at, p[i].n, p[i].mr->lkey };
	return list_fill_sge(e, list, access, sge, n, false);
}

enum ibv_wc_status list_interleave(struct ends *e, struct mlx5dv_mkey *list, int access,
				   uint32_t repeat, struct mlx5dv_mr_interleaved *data, int n)
{
	mlx5dv_wr_mr_interleaved(umr_begin(e), list, access, repeat, n, data);
	return umr_end(e);
}

static void mark(const struct piece *p, int n)
{
	for (int i = 0; i < n; i++)
		memory_mark(p[i].of);
}

static bool as_marked(const struct piece *p, int n)
{
	for (int i = 0; i < n; i++) {
		if (memory_untouched(p[i].of))
			continue;
		fprintf(stderr, "# the memory of piece %d is not as expected\n", i);
		return false;
	}
	return true;
}

bool key_writes(struct ends *e, uint32_t rkey, uint64_t addr, const struct piece *p, int n,
		uint32_t seed)
{
	size_t bytes = bytes_of(p, n), pos = 0;
	enum ibv_wc_status status;

	fill(e->host.cpu, bytes, seed);
	mark(p, n);
	for (int i = 0; i < n; pos += p[i++].n)	/* what has to be there afterwards */
		memcpy(p[i].of->before + p[i].at, e->host.cpu + pos, p[i].n);
	status = rdma_op(&e->pair, IBV_WR_RDMA_WRITE, e->mr, e->host.iova, bytes, addr, rkey);
	if (status)
		fprintf(stderr, "# a write by key %#x: %s\n", rkey, ibv_wc_status_str(status));
	return !status && as_marked(p, n);
}

bool key_reads(struct ends *e, uint32_t rkey, uint64_t addr, const struct piece *p, int n,
	       uint32_t seed)
{
	size_t bytes = bytes_of(p, n), pos = 0;
	enum ibv_wc_status status;

	fill(e->host.cpu, bytes, seed);
	for (int i = 0; i < n; pos += p[i++].n)
		memcpy(p[i].of->cpu + p[i].at, e->host.cpu + pos, p[i].n);
	memset(e->host.cpu, 0, bytes);
	mark(p, n);
	status = rdma_op(&e->pair, IBV_WR_RDMA_READ, e->mr, e->host.iova, bytes, addr, rkey);
	if (status)
		fprintf(stderr, "# a read by key %#x: %s\n", rkey, ibv_wc_status_str(status));
	return !status && filled(e->host.cpu, bytes, seed, "read by the key") && as_marked(p, n);
}

bool key_refuses(struct ends *e, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
		 uint32_t length, const struct piece *p, int n)
{
	enum ibv_wc_status status;
	bool same;

	fill(e->host.cpu, SIZE, 0xbad);
	mark(p, n);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		status = atomic_op(&e->pair, opcode, e->mr, addr, rkey, 1, 0);
	else
		status = rdma_op(&e->pair, opcode, e->mr, e->host.iova, length, addr, rkey);
	same = as_marked(p, n);
	ends_connect(e);
	if (status == IBV_WC_REM_ACCESS_ERR)
		return same;
	fprintf(stderr, "# an access of %u bytes at %#llx was not refused: %s\n", length,
		(unsigned long long)addr, ibv_wc_status_str(status));
	return false;
}

int reg_until_number(struct memory *m, struct ibv_pd *pd, uint32_t key, struct ibv_mr **mr)
{
	for (int n = 0; n < TRIES; n++) {
		mr[n] = memory_reg(m, pd, ALL_ACCESS);
		if (mr[n]->lkey >> 8 == key >> 8)
			return n + 1;
	}
	fail_case("no MR has the number of a key that ended");
}
