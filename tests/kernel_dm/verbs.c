// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The objects of a user and its work requests
 *
 * The two queue pairs are on one device and connected to each other, so what one posts goes
 * through the whole device and arrives at the other.  A work request is posted and waited for.
 */

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/etherdevice.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include "user.h"

#define QP_ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		   IB_ACCESS_REMOTE_ATOMIC)
#define TIMEOUT 18	/* a second: on a busy guest a packet that is only late is not sent again */
#define PATIENCE (60 * HZ)

/* --- Queue pairs */

/* A driver may call it, although nobody has asked for it. */
static void nothing_to_do(struct ib_cq *cq, void *context)
{
}

static int make_qps(struct dm_user *u)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	int i;

	u->cq = ib_create_cq(u->device, nothing_to_do, NULL, NULL, &cq_attr);
	if (IS_ERR(u->cq))
		return PTR_ERR_OR_ZERO(xchg(&u->cq, NULL));

	for (i = 0; i < 2; i++) {
		struct ib_qp_init_attr attr = {
			.send_cq = u->cq,
			.recv_cq = u->cq,
			.cap = { .max_send_wr = 4, .max_recv_wr = 1,
				 .max_send_sge = 1, .max_recv_sge = 1 },
			.sq_sig_type = IB_SIGNAL_ALL_WR,
			.qp_type = IB_QPT_RC,
		};

		u->qp[i] = ib_create_qp(u->pd, &attr);
		if (IS_ERR(u->qp[i]))
			return PTR_ERR_OR_ZERO(xchg(&u->qp[i], NULL));
	}
	return 0;
}

/* A ULP has to know it.  That of the device is that of the other end too. */
static int set_mac(struct rdma_ah_attr *ah, const struct ib_gid_attr *gid)
{
	struct net_device *netdev;
	int err = 0;

	rcu_read_lock();
	netdev = rdma_read_gid_attr_ndev_rcu(gid);
	if (IS_ERR(netdev))
		err = PTR_ERR(netdev);
	else
		ether_addr_copy(rdma_ah_retrieve_dmac(ah), netdev->dev_addr);
	rcu_read_unlock();
	return err;
}

/* The first RoCE v2 GID: both ends are on this device, so each of them works. */
static int set_gid(struct dm_user *u, struct rdma_ah_attr *ah, unsigned int gids)
{
	const struct ib_gid_attr *attr;
	union ib_gid gid;
	unsigned int i;
	int err;

	for (i = 0; i < gids; i++) {
		attr = rdma_get_gid_attr(u->device, u->port, i);
		if (IS_ERR(attr))
			continue;
		err = -EADDRNOTAVAIL;
		if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
			err = set_mac(ah, attr);
		gid = attr->gid;
		rdma_put_gid_attr(attr);
		if (!err) {
			rdma_ah_set_grh(ah, &gid, 0, i, 1, 0);
			return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

/* The address by which a queue pair of the port reaches another one of the same port. */
static int set_address(struct dm_user *u, struct rdma_ah_attr *ah)
{
	struct ib_port_attr port;
	int err;

	err = ib_query_port(u->device, u->port, &port);
	if (err)
		return err;
	if (port.state != IB_PORT_ACTIVE)
		return -ENETDOWN;

	ah->type = rdma_ah_find_type(u->device, u->port);
	rdma_ah_set_port_num(ah, u->port);
	if (ah->type == RDMA_AH_ATTR_TYPE_ROCE)
		return set_gid(u, ah, port.gid_tbl_len);
	rdma_ah_set_dlid(ah, port.lid);
	return 0;
}

static int connect_end(struct dm_user *u, int end, u32 qpn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ib_qp *qp = u->qp[end];
	int err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (err)
		return err;

	attr.qp_state = IB_QPS_INIT;
	attr.port_num = u->port;
	attr.qp_access_flags = QP_ACCESS;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			   IB_QP_ACCESS_FLAGS);
	if (err)
		return err;

	err = set_address(u, &attr.ah_attr);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = IB_MTU_1024;
	attr.dest_qp_num = qpn;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			   IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			   IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTS;
	attr.timeout = TIMEOUT;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

int user_connect(struct dm_user *u)
{
	return connect_end(u, 0, u->qp[1]->qp_num) ?: connect_end(u, 1, u->qp[0]->qp_num);
}

int user_connect_to(struct dm_user *u, u32 qpn)
{
	return connect_end(u, 0, qpn);
}

/* --- All that a user has */

static int make_host(struct dm_user *u)
{
	u->host = kzalloc(HOST_SIZE, GFP_KERNEL);
	if (!u->host)
		return -ENOMEM;

	u->host_dma = ib_dma_map_single(u->device, u->host, HOST_SIZE, DMA_BIDIRECTIONAL);
	if (!ib_dma_mapping_error(u->device, u->host_dma))
		return 0;

	kfree(u->host);
	u->host = NULL;
	return -ENOMEM;
}

static int make_all(struct dm_user *u)
{
	int err;

	u->pd = ib_alloc_pd(u->device, 0);
	if (IS_ERR(u->pd))
		return PTR_ERR_OR_ZERO(xchg(&u->pd, NULL));

	err = make_host(u);
	if (err)
		return err;
	err = make_qps(u);
	if (err)
		return err;
	return user_connect(u);
}

int user_open(struct dm_user *u, struct ib_device *device)
{
	int err;

	u->device = device;
	u->port = rdma_start_port(device);
	err = make_all(u);
	if (err)
		user_close(u);
	return err;
}

void user_close(struct dm_user *u)
{
	int i;

	user_release(u);
	for (i = 0; i < 2; i++)
		if (u->qp[i])
			ib_destroy_qp(u->qp[i]);
	if (u->cq)
		ib_destroy_cq(u->cq);
	if (u->host) {
		ib_dma_unmap_single(u->device, u->host_dma, HOST_SIZE, DMA_BIDIRECTIONAL);
		kfree(u->host);
	}
	if (u->pd)
		ib_dealloc_pd(u->pd);
	u->qp[0] = u->qp[1] = NULL;
	u->cq = NULL;
	u->host = NULL;
	u->pd = NULL;
	u->device = NULL;
}

int user_alloc(struct dm_user *u, u64 length, struct ib_dm **dm)
{
	struct ib_dm_alloc_attr attr = { .length = length };

	*dm = NULL;
	if (u->dms == MOST_DMS)
		return -ENOSPC;
	*dm = ib_alloc_dm(u->device, &attr);
	if (IS_ERR(*dm))
		return PTR_ERR_OR_ZERO(xchg(dm, NULL));
	u->dm[u->dms++] = *dm;
	return 0;
}

int user_reg(struct dm_user *u, struct ib_dm *dm, u64 offset, u64 length, int access,
	     struct ib_mr **mr)
{
	struct ib_dm_mr_attr attr = {
		.offset = offset, .length = length, .access_flags = access
	};

	*mr = NULL;
	if (u->mrs == MOST_MRS)
		return -ENOSPC;
	*mr = ib_reg_dm_mr(u->pd, dm, &attr);
	if (IS_ERR(*mr))
		return PTR_ERR_OR_ZERO(xchg(mr, NULL));
	u->mr[u->mrs++] = *mr;
	return 0;
}

void user_dereg_last(struct dm_user *u)
{
	ib_dereg_dm_mr(u->mr[--u->mrs]);
}

void user_release(struct dm_user *u)
{
	while (u->mrs)
		user_dereg_last(u);
	while (u->dms)
		ib_free_dm(u->dm[--u->dms]);
}

/* --- Work requests */

static int wait_wc(struct dm_user *u)
{
	unsigned long end = jiffies + PATIENCE;
	struct ib_wc wc;
	int n;

	do {
		n = ib_poll_cq(u->cq, 1, &wc);
		if (n)
			return n < 0 ? n : wc.status;
		usleep_range(20, 100);
	} while (time_before(jiffies, end));
	return -ETIMEDOUT;
}

static int post_and_wait(struct dm_user *u, int end, const struct ib_send_wr *wr)
{
	int err = ib_post_send(u->qp[end], wr, NULL);

	return err ?: wait_wc(u);
}

int user_rdma(struct dm_user *u, int end, enum ib_wr_opcode opcode, struct place local, u32 length,
	      struct place remote)
{
	struct ib_sge sge = { .addr = local.addr, .length = length, .lkey = local.key };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = remote.addr,
		.rkey = remote.key,
	};

	return post_and_wait(u, end, &wr.wr);
}

int user_fetch_add(struct dm_user *u, int end, struct place result, struct place remote, u64 add)
{
	struct ib_sge sge = { .addr = result.addr, .length = sizeof(u64), .lkey = result.key };
	struct ib_atomic_wr wr = {
		.wr = { .opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = remote.addr,
		.compare_add = add,
		.rkey = remote.key,
	};

	return post_and_wait(u, end, &wr.wr);
}

void user_host_for_cpu(struct dm_user *u)
{
	ib_dma_sync_single_for_cpu(u->device, u->host_dma, HOST_SIZE, DMA_BIDIRECTIONAL);
}

void user_host_for_device(struct dm_user *u)
{
	ib_dma_sync_single_for_device(u->device, u->host_dma, HOST_SIZE, DMA_BIDIRECTIONAL);
}
