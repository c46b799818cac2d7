/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For tests of UMR: flags, masks, results, and the queue pairs that post. */
#ifndef CONNECTX_TEST_UMR_WORLD_H
#define CONNECTX_TEST_UMR_WORLD_H

#include "mkey_world.h"
#include "wqe.h"

#define CHECK_QPN 0x08
#define OFFSET 0x10
#define MUST_BE_FREE 0x20
#define MUST_NOT_BE_FREE 0x40
#define INLINE 0x80

#define M_LEN BIT_ULL(0)
#define M_PAGE BIT_ULL(1)
#define M_START BIT_ULL(6)
#define M_PD BIT_ULL(7)
#define M_RINVAL BIT_ULL(8)
#define M_KEY BIT_ULL(13)
#define M_QPN BIT_ULL(14)
#define M_LR BIT_ULL(17)
#define M_LW BIT_ULL(18)
#define M_RR BIT_ULL(19)
#define M_RW BIT_ULL(20)
#define M_A BIT_ULL(21)
#define M_SMALL_FENCE BIT_ULL(23)
#define M_FREE BIT_ULL(29)
#define M_ENABLE 0x203e20c3ull	/* what mlx5_ib sets to register */

#define QP_OP MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR
#define BIND MLX5_CQE_SYNDROME_MW_BIND_ERR
#define PROT MLX5_CQE_SYNDROME_LOCAL_PROT_ERR

static struct mkey_access kernel, ulp, user;	/* the UMR QP, one of the kernel's, a process's */
static u8 wqe[WQE_MAX];
static uint32_t dma_key;	/* the kernel PD's key for bus addresses */

static int up(void **state)
{
	world_up(state);
	memset(&kernel, 0, sizeof(kernel));
	memset(&ulp, 0, sizeof(ulp));
	memset(&user, 0, sizeof(user));
	kernel.qpn = 0x41;
	kernel.any_pd = true;		/* it has none */
	kernel.privileged = true;
	ulp.qpn = 0x42;
	ulp.pd = PD;
	ulp.privileged = true;
	user.qpn = QPN;
	user.pd = PD;
	dma_key = create((struct spec){ PA, .length64 = true, .pd = 1 });
	return 0;
}

static void list_at(uint64_t addr, const uint64_t *list, unsigned int octowords)
{
	unsigned int i;

	for (i = 0; i < 2 * octowords; i++)
		put_be64(at(addr + 8 * i), list[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, up, world_down)

#endif
