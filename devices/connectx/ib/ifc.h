/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The layouts of the device, taken from where its driver and its library take them, at
 * build time: mlx5_ifc.h of the kernel for commands, contexts and registers, mlx5dv.h of
 * rdma-core for WQEs and CQEs.  Nothing is copied here.
 *
 * mlx5_ifc.h describes each layout as a structure that has one u8 for each BIT.  So
 * offsetof() and sizeof() count bits.  All fields are big endian.  No field crosses a
 * dword, except those of 64 bits, which are aligned to 32.
 *
 * IFC_GET(qpc, p, pd) reads field pd of struct mlx5_ifc_qpc_bits at P.  The caller
 * guarantees that P has IFC_BYTES(qpc) bytes of private memory.
 */
#ifndef CONNECTX_IFC_H
#define CONNECTX_IFC_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
#define BIT(n) (1u << (n))
#define BIT_ULL(n) (1ull << (n))
#define DECLARE_FLEX_ARRAY(type, name) struct { struct {} empty_##name; type name[]; }
#include CONNECTX_IFC_HEADER	/* linux/mlx5/mlx5_ifc.h by its path: the Makefile defines it */
#include <infiniband/mlx5dv.h>

#define IFC_BYTES(type) (sizeof(struct mlx5_ifc_##type##_bits) / 8)
#define IFC_BIT(type, field) offsetof(struct mlx5_ifc_##type##_bits, field)
#define IFC_WIDTH(type, field) sizeof(((struct mlx5_ifc_##type##_bits *)0)->field)
/* Where FIELD begins; it has to begin at a byte. */
#define IFC_PTR(type, p, field) ((void *)((uintptr_t)(p) + IFC_BIT(type, field) / 8))
#define IFC_GET(type, p, field) ifc_get(p, IFC_BIT(type, field), IFC_WIDTH(type, field))
#define IFC_SET(type, p, field, value) \
	ifc_set(p, IFC_BIT(type, field), IFC_WIDTH(type, field), value)
/* Fields of 64 bits. */
#define IFC_GET64(type, p, field) be64_at(IFC_PTR(type, p, field))
#define IFC_SET64(type, p, field, value) put_be64(IFC_PTR(type, p, field), value)

static inline uint16_t be16_at(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return be16toh(v);
}

static inline uint32_t be32_at(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline uint64_t be64_at(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void put_be16(void *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put_be32(void *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put_be64(void *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint32_t ifc_get(const void *p, size_t bit, size_t width)
{
	uint32_t v = be32_at((const u8 *)p + bit / 32 * 4) >> (32 - width - bit % 32);

	return width == 32 ? v : v & ((1u << width) - 1);
}

static inline void ifc_set(void *p, size_t bit, size_t width, uint32_t value)
{
	uint32_t mask = width == 32 ? ~0u : (1u << width) - 1, shift = 32 - width - bit % 32;
	u8 *dword = (u8 *)p + bit / 32 * 4;

	put_be32(dword, (be32_at(dword) & ~(mask << shift)) | (value & mask) << shift);
}

#endif
