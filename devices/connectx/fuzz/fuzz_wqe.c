// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Fuzz of the guest in the middle of traffic: work requests, keys and counters that make no
 * sense.
 */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct guest guest;
	struct input in = { data, size };
	struct world *w = world_get();

	world_begin(w);
	guest_init(&guest, w);
	setup_traffic(&guest, in8(&in));
	program_run(&guest, &in);
	world_end(w);
	return 0;
}
