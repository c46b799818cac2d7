/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RDMA device under test, as the kit describes it in the environment (see
 * kit/mrfd/devices.py):
 *
 *	MRFD_DEVICE		its name in the names of cases: rxe
 *	MRFD_VERBS_DEVICE	its verbs name in the guest: rxe0
 *	MRFD_NETDEV		its network device: eth0
 *	MRFD_ADDRESS		the IP address by which rdma_cm finds it
 *	MRFD_DEVICE_CAN		words for what it can do and another device may not:
 *
 *	reg_mr_fd	ibv_reg_mr_fd() of a dma-buf in system memory
 *	rereg_mr_fd	ibv_rereg_mr_fd()
 *	memfd		the same of a memfd
 *	io-memory	the same of a dma-buf in I/O memory
 *	vmap		it reaches a dma-buf by the CPU, through dma_buf_vmap()
 *	native		the kernel's methods and the provider do this; without it the library
 *			registers a dma-buf by ibv_reg_dmabuf_mr()'s method, and a memfd by a
 *			mapping
 *	old-op		its driver registers for ibv_reg_dmabuf_mr() by an operation of its own
 *	keeps-keys	a rereg never changes the keys of an MR; without it new memory may
 *	on-demand	registration for on-demand paging
 *	switches-on-demand	a rereg of the rights can turn on-demand paging on and off; without
 *			it only one that gives the MR new memory can
 *	reads-read-only	an on-demand MR with the right to write can be read where the process may
 *			only read; without it a read asks for the right to write too
 *	counts-faults	"rdma statistic" tells the page faults of an MR
 *	atomics		fetch and add, compare and swap
 *	atomic-write	atomic write
 *	flush		flush to global visibility
 *	window-type-1	memory windows
 *	window-type-2	memory windows that a send queue binds
 *	window-dma-buf	windows on an MR of a dma-buf
 *	window-holds	while a window is bound, the calls that would end or change its MR or
 *			its QP are refused
 *	window-checks	to bind a window to what it cannot open, and to invalidate one that is
 *			not bound, fails; without it only the access through the window does
 *	access-events	an access of a peer that is refused, and takes no receive, raises
 *			IBV_EVENT_QP_ACCESS_ERR
 *	new-keys	an MR does not get the keys of one that was just deregistered
 *	sqd		a QP can go to the state SQD
 *	rdma-cm		connections by IP address
 *	add-delete	"rdma link" adds and deletes it
 *	read-middles	a duplicate of the rest of a read is answered with packets of its
 *			middle, and not with one that begins a response
 *	rxe-queues	its work queues are those of <rdma/rdma_user_rxe.h>, in memory
 *			that the process writes
 *	mlx5-queues	its work queues are those of <infiniband/mlx5dv.h>
 *	follows-moves	an MR of a dma-buf does not hold it in place: when the buffer has moved,
 *			packets go to where it is then
 *	gives-back	an MR of a dma-buf pins it, and the exporter may take the memory back
 *	pci		it is a PCI function, whose driver is a module
 *	direct		lib/memory.h registers dma-bufs by Data Direct, on the card's second function
 *	p2p		it reaches the memory of another PCI device, if the kernel lets it
 *	dm		device memory: ibv_alloc_dm(), and MRs of it
 *	dm-bytes	its library copies any bytes to and from device memory; without it whole
 *			words of four
 *	dm-export	device memory as a dma-buf: ibv_dm_export_dmabuf_fd()
 *
 * interface/device compares the words with what the device reports.
 */
#ifndef LIB_DEVICE_H
#define LIB_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

const char *device_name(void);	/* its verbs name */
const char *device_ip(void);	/* its address for rdma_cm */
uint32_t device_driver_id(void);	/* as ioctl() messages name it */
bool device_can(const char *word);
/* Skip the case if the device cannot; call it before the case makes objects of its own. */
void need(const char *word);

struct ibv_context *device_open(void);
/* Open another device of the guest. */
struct ibv_context *device_open_named(const char *name);
/* Whether the words above are about this one. */
bool device_is_under_test(struct ibv_context *ctx);
/* NULL if the device does not exist, or cannot connect yet. */
struct ibv_context *device_open_if_ready(void);
void device_close(struct ibv_context *ctx);
void pd_close(struct ibv_pd *pd);

/* Whether the device exists, and whether it gets ready within ten seconds. */
bool device_exists(void);
bool device_gets_ready(void);
/* "rdma link": true if it succeeds.  A delete takes the device from who has it open. */
bool device_add(void);
void device_delete_exec(void) __attribute__((noreturn));
/* A hardware counter of the port, such as "rcvd_pkts"; the second waits until it has this VALUE. */
unsigned long device_counter(const char *name);
void device_wait_for_counter(const char *name, unsigned long value);
/* Print the port's counters that are not 0 to stderr. */
void device_print_counters(void);

/* The address by which a QP of the device reaches another QP of the device. */
bool device_address(struct ibv_context *ctx, struct ibv_ah_attr *ah);

#endif
