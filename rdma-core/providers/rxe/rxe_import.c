// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects of a context that a process shares with another one.
 *
 * The process that imports has the context's file descriptor and the handles of
 * the objects. It gets structs of its own for them; the objects in the kernel
 * stay those of the process that made them. So unimport frees the struct, and
 * the mapping of device memory, and does not call the kernel.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/rxe_user_ioctl_cmds.h>

#include "rxe.h"

/* The handle is all that rxe has to know of a PD, so there is nothing to ask */
struct ibv_pd *rxe_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct ibv_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	pd->context = context;
	pd->handle = pd_handle;
	return pd;
}

void rxe_unimport_pd(struct ibv_pd *pd)
{
	free(pd);
}

struct ibv_mr *rxe_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	if (ibv_cmd_query_mr(pd, vmr, mr_handle)) {
		free(vmr);
		return NULL;
	}

	return &vmr->ibv_mr;
}

void rxe_unimport_mr(struct ibv_mr *ibmr)
{
	free(verbs_get_mr(ibmr));
}

struct ibv_dm *rxe_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	DECLARE_COMMAND_BUFFER(cmdb, UVERBS_OBJECT_DM, RXE_IB_METHOD_DM_QUERY,
			       3);
	struct mminfo mi = {};
	uint64_t length = 0;
	struct rxe_dm *dm;

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;

	fill_attr_in_obj(cmdb, RXE_IB_ATTR_QUERY_DM_REQ_HANDLE, dm_handle);
	fill_attr_out_ptr(cmdb, RXE_IB_ATTR_QUERY_DM_RESP_LENGTH, &length);
	fill_attr_out_ptr(cmdb, RXE_IB_ATTR_QUERY_DM_RESP_MMAP, &mi);
	if (execute_ioctl(context, cmdb))
		goto err_free;

	dm->vdm.handle = dm_handle;
	dm->vdm.dm.handle = dm_handle;
	dm->vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->vdm.dm.context = context;

	if (rxe_map_dm(dm, &mi, length))
		goto err_free;

	return &dm->vdm.dm;

err_free:
	free(dm);
	return NULL;
}

void rxe_unimport_dm(struct ibv_dm *ibdm)
{
	struct rxe_dm *dm = to_rdm(ibdm);

	munmap(dm->map, dm->map_size);
	free(dm);
}
