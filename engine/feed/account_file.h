/* An accounting file: lines appended, a first line of names, rotation by size. One owner.
 *
 * With the mark that its owner stores beside its place in the event log, rows that were written but
 * not accounted for before a crash are taken back at the next open, so that none is there twice. */
#ifndef ENGINE_ACCOUNT_FILE_H
#define ENGINE_ACCOUNT_FILE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* Which file, and how much of it counts. All 0: unknown. */
struct account_mark {
    uint64_t dev, ino, size;
};

struct account_file {
    int fd; /* -1: closed */
    char *path;
    char *names;              /* the first line, newline included */
    struct account_mark mark; /* of the file as it is */
    uint64_t rotate_size;     /* bytes; 0: never */
    unsigned rotate_keep;     /* files; 0: all */
};

/* Does not open the file. errors: -ENOMEM */
MUST_USE int account_file_init(struct account_file *f, const char *path, struct slice names,
                               uint64_t rotate_size, unsigned rotate_keep);
void account_file_fini(struct account_file *f); /* accepts a zeroed one */

/* Open the file for appending, created with mode 0640, and begin a new one when it is full, or when
 * its first line has other names. Does nothing when the file is open, still at its path and not
 * full. The owner's mark must cover all rows at this call.
 *
 * mark     the file as it was when the owner stored its mark the last time
 * returns  1: f->mark has changed and must be stored before rows are written; 0: it has not
 * errors   -errno */
MUST_USE int account_file_ready(struct account_file *f, const struct account_mark *mark);
/* Write rows and sync them. After an error none of them is there.
 * errors: -errno; the file is closed then */
MUST_USE int account_file_append(struct account_file *f, struct slice rows);

#endif
