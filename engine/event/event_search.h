/* Looking backwards through the event log for lines with certain texts in them: what became of mail
 * that the queue has no longer. Pure over files; any thread, which it keeps busy for as long as
 * reading `bytes_max` takes. */
#ifndef ENGINE_EVENT_SEARCH_H
#define ENGINE_EVENT_SEARCH_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_SEARCH_LINES_MAX 200

struct event_search {
    /* set by the caller */
    struct slice texts[2]; /* bytes that a line has to have, such as "\"id\":\"...\""; the second
                              may be empty */
    unsigned types;        /* bits of event_line_type_bit; 0: all */
    uint32_t lines_max;    /* the search ends with so many lines, 1 to EVENT_SEARCH_LINES_MAX, */
    uint64_t bytes_max;    /* or when it has looked at so many bytes */
    /* A line that fits, the newest first; valid during the call. */
    void (*take)(void *ctx, struct slice line);
    /* Called after each block; false ends the search. NULL: nothing to do */
    bool (*between)(void *ctx);
    void *ctx;

    /* set by event_search */
    uint32_t lines;
    uint64_t bytes;   /* looked at */
    usec_t oldest;    /* wall, of the oldest line looked at; 0: there was none */
    bool is_complete; /* all of the event log was looked at */
};

/* errors: -errno of the folder, -ENOMEM. A file that cannot be read is passed over, and then it is
 * not complete. */
MUST_USE int event_search(struct event_search *s, const char *path);

#endif
