/* An append-only file of lines that outlives kill -9 of the process that writes it. Any thread;
 * each line is one write(2) to a descriptor opened for appending, so lines never mix. */
#ifndef BENCH_LEDGER_H
#define BENCH_LEDGER_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>

struct ledger {
    int fd;         /* -1: no ledger, writes succeed and do nothing */
    bool does_sync; /* fdatasync after each line */
};

/* path: NULL for no ledger; an existing file is continued on a new line. errors: -errno;
 * ledger_close is due even then */
MUST_USE int ledger_open(struct ledger *l, const char *path, bool does_sync);
/* Append `line`, which ends in LF. errors: -errno; -EIO when it was cut */
MUST_USE int ledger_write(const struct ledger *l, struct slice line);
void ledger_close(struct ledger *l);

static inline bool ledger_is_open(const struct ledger *l)
{
    return l->fd >= 0;
}

#endif
