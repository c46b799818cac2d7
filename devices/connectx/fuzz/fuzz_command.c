// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Fuzz of the guest from power-on: its commands, queues and doorbells, in any order.
 *
 * The first byte says how far the driver got before the program begins.
 */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct guest guest;
	struct input in = { data, size };
	struct world *w = world_get();

	world_begin(w);
	guest_init(&guest, w);
	switch (in8(&in) % 4) {
	case 0:
		break;
	case 1:
		guest_boot(&guest);
		break;
	default:
		setup_driver(&guest);
	}
	program_run(&guest, &in);
	world_end(w);
	return 0;
}
