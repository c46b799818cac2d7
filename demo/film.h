/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_FILM_H
#define DEMO_FILM_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "link.h"
#include "protocol.h"

#define FILM_MAX_PLACES 8
#define FILM_DEPTH (3 * FILM_MAX_PLACES) /* of the sender's queues */
#define FILM_PIECES 3 /* of registered memory that a frame may be put together from */

/*
 * Make a frame, and say in which pieces of memory its bytes are: one after the other, they are
 * the frame.  The memory of frame K must stay as it is until frame K + places is asked for.
 * Return the number of pieces, or -1 after a message.
 */
typedef int film_frame(void *of, uint32_t number, struct ibv_sge pieces[FILM_PIECES]);

/* Show a frame, which is whole.  Its place is written to anew when this returns. */
typedef void film_show(void *of, uint32_t number);

/* The number of frames that the word of an option says; if none, a message and exit status 2. */
int film_frames(const char *word);

/*
 * Check that the peer has no more places than a sender can serve, before anything else; send
 * frames; receive frames.  On failure each prints a message to stderr and returns -1.
 */
int film_check(const struct offer *o);
int film_send(struct link *l, const struct offer *o, uint32_t frames, film_frame *frame, void *of);
int film_receive(struct link *l, film_show *show, void *of);

/* Print "frame=K", and wait until whoever reads that has looked and answers with a line. */
void film_announce(uint32_t number);

#endif
