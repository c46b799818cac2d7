/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_CARD_H
#define DEMO_CARD_H

#define CARD_DRIVER_BYTES 32

/*
 * Open the card of NODE, or if that is NULL the first one whose driver is WANTED;
 * DRIVER gets the name of its driver.  -1 after a message on stderr.
 */
int card_open(const char *node, const char *wanted, char driver[CARD_DRIVER_BYTES]);

#endif
