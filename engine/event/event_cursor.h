/* Reading the event log from a place on, across rotations, while it is written. Pure over files:
 * nothing but the files is shared with the writer, so any number of cursors may stand anywhere;
 * each belongs to one thread.
 *
 * A cursor gives each complete line once, in order, and never a torn one: not the part of a line
 * that is being written, nor what a crash left of one. It leaves a segment only when a later one
 * has begun, after which the writer does not come back to it. */
#ifndef ENGINE_EVENT_CURSOR_H
#define ENGINE_EVENT_CURSOR_H

#include "base/attr.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Between two lines. Its text is "SEGMENT:OFFSET"; whoever gets one from outside gives it back as
 * it was. {0, 0} is before the oldest line there is. */
struct event_position {
    uint64_t segment;
    uint64_t offset; /* bytes */
};

#define EVENT_POSITION_TEXT 42

void event_position_format(struct event_position at, char ret[static EVENT_POSITION_TEXT]);
/* errors: ERR_SYNTAX */
MUST_USE int event_position_parse(struct slice text, struct event_position *ret);
/* Behind the last complete line of the log at PATH. errors: -errno */
MUST_USE int event_position_end(const char *path, struct event_position *ret);
/* The position before the oldest line that is left. errors: -errno */
MUST_USE int event_position_start(const char *path, struct event_position *ret);
/* Bytes of the log behind the position. errors: -errno */
MUST_USE int event_position_behind(const char *path, struct event_position at, uint64_t *ret_bytes);

struct event_cursor {
    /* read by the owner */
    struct event_position position; /* the place behind the line that was given last */
    uint64_t skipped;               /* torn lines passed */

    /* own */
    char *path;
    int fd; /* of the segment position.segment; -1: none is open */
    dev_t dev;
    ino_t ino;
    char *data; /* [capacity] of the file from position.offset on */
    size_t begin, end, capacity;
    size_t searched; /* bytes from begin that hold no newline */
};

/* Does no input yet. errors: -ENOMEM */
MUST_USE int event_cursor_init(struct event_cursor *c, const char *path, struct event_position at);
void event_cursor_fini(struct event_cursor *c); /* accepts a zeroed one */
/* Go on from another place. */
void event_cursor_seek(struct event_cursor *c, struct event_position at);
/* The next line, without its newline; valid until the next call. Heads of segments are passed over.
 *
 * errors   ERR_AGAIN: there is none yet
 *          ERR_MISSING: lines behind the position are no longer there; the cursor now stands before
 *          the oldest that are (position says where), and goes on from there
 *          -errno: cannot read; may be tried again */
MUST_USE int event_cursor_next(struct event_cursor *c, struct slice *ret);

#endif
