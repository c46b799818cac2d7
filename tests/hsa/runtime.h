/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inside of the stand-in for the HSA runtime: what memory.c has of runtime.c.
 */
#ifndef HSA_RUNTIME_H
#define HSA_RUNTIME_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CPU_AGENT = 0x10, GPU_AGENT };	/* the handles of the agents */
enum { VRAM_POOL = 0x20 };		/* of the one pool, which is the GPU's */

extern atomic_int runtime_users;	/* calls of hsa_init() without hsa_shut_down() so far */
/* These do not change after the first hsa_init(). */
extern int runtime_card;		/* a file of the GPU */
extern uint64_t runtime_vram_size;

/* Say on stderr what is refused and why; returns STATUS. */
hsa_status_t runtime_refuse(const char *function, hsa_status_t status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Those of hsa_ext_amd.h are of another enum. */
#define refuse(status, ...)	\
	runtime_refuse(__func__, (hsa_status_t)HSA_STATUS_##status, __VA_ARGS__)
#define demand(what, status, ...) do {				\
	if (!(what))						\
		return refuse(ERROR_##status, __VA_ARGS__);	\
} while (0)
#define demand_init() demand(runtime_users, NOT_INITIALIZED, "no hsa_init()")

bool are_agents(const hsa_agent_t *agents, size_t n);
bool is_signal(hsa_signal_t signal);

#endif
