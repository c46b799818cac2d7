// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory (DM) of rxe.
 *
 * The memory is the kernel's. It belongs to the device's budget and not to the
 * process, which reaches it through one mapping of the device's file. The
 * mapping lives as long as the struct rxe_dm: it is made before the application
 * has the DM, and removed only after the kernel has freed it. A DM that the
 * kernel refuses to free, because MRs use it, stays as usable as it was.
 *
 * The memory goes back to the budget when the kernel has freed the DM and
 * nobody maps it. So an application may allocate it again at once.
 */

#include <config.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/rxe_user_ioctl_cmds.h>

#include "rxe.h"

static bool in_range(const struct rxe_dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

/* How many of the bytes stand before the first aligned word */
static size_t bytes_before_word(const uint8_t *at, size_t length)
{
	size_t before = -(uintptr_t)at % sizeof(unsigned long);

	return before < length ? before : length;
}

/*
 * Packets are received at any time, so the memory changes during a copy. An
 * aligned word of it is copied as a whole and is never a mixture of the old and
 * the new value. On 64 bits that is what a remote atomic operation changes. The
 * host's side may have any alignment.
 */
static int rxe_memcpy_to_dm(struct ibv_dm *ibdm, uint64_t dm_offset,
			    const void *host_addr, size_t length)
{
	struct rxe_dm *dm = to_rdm(ibdm);
	const uint8_t *from = host_addr;
	unsigned long word;
	uint8_t *to;
	size_t part;

	if (!in_range(dm, dm_offset, length))
		return EFAULT;

	to = dm->map + dm_offset;
	part = bytes_before_word(to, length);
	memcpy(to, from, part);

	for (; length - part >= sizeof(word); part += sizeof(word)) {
		memcpy(&word, from + part, sizeof(word));
		atomic_store_explicit((atomic_ulong *)(to + part), word,
				      memory_order_relaxed);
	}
	memcpy(to + part, from + part, length - part);
	return 0;
}

static int rxe_memcpy_from_dm(void *host_addr, struct ibv_dm *ibdm,
			      uint64_t dm_offset, size_t length)
{
	struct rxe_dm *dm = to_rdm(ibdm);
	uint8_t *to = host_addr;
	unsigned long word;
	uint8_t *from;
	size_t part;

	if (!in_range(dm, dm_offset, length))
		return EFAULT;

	from = dm->map + dm_offset;
	part = bytes_before_word(from, length);
	memcpy(to, from, part);

	for (; length - part >= sizeof(word); part += sizeof(word)) {
		word = atomic_load_explicit((atomic_ulong *)(from + part),
					    memory_order_relaxed);
		memcpy(to + part, &word, sizeof(word));
	}
	memcpy(to + part, from + part, length - part);
	return 0;
}

/*
 * Map the memory of a DM that the kernel has. vdm is valid; the rest of the
 * struct is set here. Returns 0 or an errno value, which errno has too.
 */
int rxe_map_dm(struct rxe_dm *dm, const struct mminfo *mi, size_t length)
{
	void *map;

	map = mmap(NULL, mi->size, PROT_READ | PROT_WRITE, MAP_SHARED,
		   dm->vdm.dm.context->cmd_fd, mi->offset);
	if (map == MAP_FAILED)
		return errno;

	dm->map = map;
	dm->map_size = mi->size;
	dm->length = length;
	dm->vdm.dm.memcpy_to_dm = rxe_memcpy_to_dm;
	dm->vdm.dm.memcpy_from_dm = rxe_memcpy_from_dm;
	return 0;
}

struct ibv_dm *rxe_alloc_dm(struct ibv_context *context,
			    struct ibv_alloc_dm_attr *attr)
{
	DECLARE_COMMAND_BUFFER(driver, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			       1);
	struct mminfo mi = {};
	struct rxe_dm *dm;
	int err;

	if (!check_comp_mask(attr->comp_mask, 0)) {
		errno = EINVAL;
		return NULL;
	}

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;

	fill_attr_out_ptr(driver, RXE_IB_ATTR_ALLOC_DM_RESP_MMAP, &mi);
	err = ibv_cmd_alloc_dm(context, attr, &dm->vdm, driver);
	if (err) {
		/* To a kernel whose rxe has no DM the method is unknown */
		if (err == EPROTONOSUPPORT)
			err = EOPNOTSUPP;
		goto err_free;
	}

	err = rxe_map_dm(dm, &mi, attr->length);
	if (err)
		goto err_free_dm;

	return &dm->vdm.dm;

err_free_dm:
	ibv_cmd_free_dm(&dm->vdm);
err_free:
	free(dm);
	errno = err;
	return NULL;
}

int rxe_free_dm(struct ibv_dm *ibdm)
{
	struct rxe_dm *dm = to_rdm(ibdm);
	int ret;

	ret = ibv_cmd_free_dm(&dm->vdm);
	if (ret)
		return ret;

	munmap(dm->map, dm->map_size);
	free(dm);
	return 0;
}

struct ibv_mr *rxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
			     uint64_t dm_offset, size_t length,
			     unsigned int access)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	ret = ibv_cmd_reg_dm_mr(pd, &to_rdm(ibdm)->vdm, dm_offset, length,
				access, vmr, NULL);
	if (ret) {
		free(vmr);
		return NULL;
	}

	return &vmr->ibv_mr;
}

int rxe_dm_export_dmabuf_fd(struct ibv_dm *ibdm)
{
	return ibv_cmd_dm_export_dmabuf_fd(&to_rdm(ibdm)->vdm);
}
