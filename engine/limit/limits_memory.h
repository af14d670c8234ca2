/* What lanes learned, over a restart: one file of lines, replaced as a whole. It has spans and not
 * times, as the monotonic clock begins anew; a quota's window is of the calendar. Called by whoever
 * has time for the disk; read at start, before anybody borrows. */
#ifndef ENGINE_LIMITS_MEMORY_H
#define ENGINE_LIMITS_MEMORY_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/limit/limits.h"

#include <stdbool.h>

#define LIMITS_SAVE_SPAN (10 * USEC_PER_SEC)

/* Has something changed, and is the last file LIMITS_SAVE_SPAN old? */
MUST_USE bool limits_memory_is_due(struct limits *l, usec_t now);
/* Replace the file. Holds the lock for a page of lanes at a time; a second caller waits until the
 * first has written. errors: -errno, -ENOMEM; the file is as it was */
MUST_USE int limits_memory_save(struct limits *l, const char *path, usec_t now, usec_t wall);
/* Take over what stands in a file; nothing when there is none. Lines that this version does not know
 * are passed over.
 *
 * errors   ERR_CORRUPT: not all of it is what was written, and nothing was taken over; -errno,
 *          -ENOMEM */
MUST_USE int limits_memory_load(struct limits *l, const char *path, usec_t now, usec_t wall);

#endif
