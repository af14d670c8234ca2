/* The counters as a text, so that they go on over a restart: written when the daemon has stopped, read before
 * its next life counts anything. After a crash there is no such text, and they begin at 0, as
 * monitoring systems expect of counters.
 *
 * Names stand for rows and transports, so that an order of the configuration does not matter; a list of
 * values that has another length is of another release, and left out.
 *
 * Owner: main, while no other thread counts. */
#ifndef ENGINE_TALLY_MEMORY_H
#define ENGINE_TALLY_MEMORY_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct tally;

/* A counter that is not the tally's. */
struct tally_total {
    const char *name;
    _Atomic uint64_t *value;
};

/* JSON, of one line. Out of memory shows in out->failed. */
void tally_memory_write(const struct tally *t, const struct tally_total *totals, size_t count,
                        struct buf *out);
/* Adds what the text says to the counters. errors: ERR_SYNTAX: it is no such text, and nothing was added */
MUST_USE int tally_memory_read(struct tally *t, const struct tally_total *totals, size_t count,
                               struct slice text);

#endif
