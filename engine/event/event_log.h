/* The event log's file, owned by one thread (the log thread): append whole batches of lines
 * (event.h), sync each second, begin a new segment when one is full, reopen when somebody else
 * moved it away. Lines go out by event_cursor.h. */
#ifndef ENGINE_EVENT_LOG_H
#define ENGINE_EVENT_LOG_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct event_log {
    int fd;            /* -1: closed */
    char *path;        /* owned */
    bool has_unsynced; /* bytes since the last successful sync */
    bool is_torn;      /* the last line lacks its end */
    uint64_t bytes;    /* written since open */
    uint64_t unbegun;  /* written since they last began to go to the disk, about */

    /* segments, see event_log_segment; 0 and false without them */
    uint64_t number;       /* of the segment being written */
    uint64_t size;         /* bytes of the file */
    uint64_t rotate_size;  /* bytes; 0: never */
    uint64_t rotate_at;    /* bytes; moves on when a rotation fails */
    unsigned rotate_keep;  /* closed segments; 0: all */
    bool needs_head;       /* the file is empty yet */
    bool must_sync_folder; /* a name in it is new */

    /* any thread, atomic */
    _Atomic uint64_t written; /* bytes of all segments since open; who polls for new lines looks
                               * here before it asks the system */
    _Atomic uint64_t needed;  /* number of the oldest segment that somebody still reads */
};

/* Open for appending, created with mode 0640. A line that an earlier crash cut off is ended first;
 * zeros that a power cut left at the end are cut off.
 * errors: -errno; the log is closed */
MUST_USE int event_log_open(struct event_log *log, const char *path);
/* From now on the file is one of numbered segments (event_segment.h): each begins with a line that
 * names it; one that has rotate_size bytes becomes PATH.NUMBER when the next batch comes; of those
 * the oldest beyond rotate_keep are removed, unless `needed` holds them, and beyond twice as many
 * in any case. Without effect where the log is no regular file.
 *
 * log      just opened
 * errors   -errno: the folder cannot be read; the log stays as it was */
MUST_USE int event_log_segment(struct event_log *log, uint64_t rotate_size, unsigned rotate_keep);
/* Other limits from now on: a file that is full by them goes with the next batch, and what is too
 * much with the next file that goes. */
void event_log_limit(struct event_log *log, uint64_t rotate_size, unsigned rotate_keep);
/* Write all of data, which ends with a newline. After an error nothing or a part is written; the
 * caller keeps the batch and may try again: the remains of a part are taken back where the file
 * allows it, else ended with a newline.
 * errors: -errno */
MUST_USE int event_log_append(struct event_log *log, struct slice data);
/* fdatasync when something was written since. errors: -errno; a pipe or device is no error */
MUST_USE int event_log_sync(struct event_log *log);
/* Open the same path anew (after a rotation moved the file away), then sync and close the old file.
 * errors: -errno of the open: the old file stays in use; of the sync: the new one is in use */
MUST_USE int event_log_reopen(struct event_log *log);
/* Sync and close; accepts a closed log. errors: -errno of the sync or close; closed in any case */
MUST_USE int event_log_close(struct event_log *log);

#endif
