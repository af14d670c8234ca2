/* The files of the event log, in order: PATH, which is written, and what it became.
 *
 * A segment's identity is its number, which its first line names:
 * {"type":"Segment","number":N,...}. So it stays the same whoever renames the file. A file without
 * that line, from before there were segments, has the number in its name PATH.N, or, as PATH
 * itself, one more than the greatest. */
#ifndef ENGINE_EVENT_SEGMENT_H
#define ENGINE_EVENT_SEGMENT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_segment {
    uint64_t number;
    uint64_t size; /* bytes when it was looked at */
    dev_t dev;
    ino_t ino;
    bool is_live;     /* PATH */
    bool is_numbered; /* named PATH.DIGITS */
    char *path;
};

struct event_segments {
    struct event_segment *items; /* by number, rising; each once; only live may be empty */
    size_t count;
    uint64_t greatest; /* number, of heads and names; 0: there are none */
};

/* Look at the folder of PATH. Files that cannot be read are left out.
 *
 * errors   -errno of the folder; -ENOMEM. Nothing to free then */
MUST_USE int event_segments_scan(const char *path, struct event_segments *ret);
void event_segments_free(struct event_segments *s); /* accepts a zeroed one */

/* The live one, or NULL. */
const struct event_segment *event_segments_live(const struct event_segments *s);
/* The first with this number or a greater one that has content, or NULL. */
const struct event_segment *event_segments_from(const struct event_segments *s, uint64_t number);

#endif
