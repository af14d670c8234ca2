/* What one outbound connection said and heard, as bytes: written by the worker that owns the
 * connection, read line by line by whoever holds it or a copy of it. Knows no connection, masks
 * what it is told to mask, and allocates only within the budget it was given.
 *
 * Recording must cost next to nothing: pieces are copied as they come (several lines in one),
 * behind eight bytes of time and kind; lines are found, escaped and cut when somebody reads. All
 * that is no text is written without line feeds, so that lines are counted without being read. The
 * beginning is kept, and the end in two parts by turns: the older one is forgotten as a whole, so
 * between one and two parts of the end are there. What is between stands as a number of lines. */
#ifndef ENGINE_DIALOGUE_H
#define ENGINE_DIALOGUE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIALOGUE_HEAD_BYTES 2048 /* of the beginning */
#define DIALOGUE_TAIL_BYTES 1024 /* of the end, twice */
#define DIALOGUE_LINE_MAX   300  /* bytes of a line that are shown */
#define DIALOGUE_HEADER     8    /* bytes in front of each piece */
#define DIALOGUE_BODY_BYTES 33   /* recorded of a body */

enum dialogue_kind {
    DIALOGUE_SAID,  /* commands */
    DIALOGUE_HEARD, /* replies */
    DIALOGUE_NOTE,  /* a fact in our words */
    DIALOGUE_BODY,  /* a message in place of its bytes */
};

struct dialogue_part {
    char *bytes; /* pieces, each behind a header */
    uint16_t len, capacity;
    uint16_t last;    /* where the last piece's header stands; meaningless while len is 0 */
    bool has_failure; /* see dialogue_mark */
};

struct dialogue {
    usec_t began;                  /* monotonic */
    usec_t changed;                /* monotonic, of the last piece */
    size_t *budget;                /* bytes that may still be allocated, with others */
    struct dialogue_part parts[3]; /* the beginning, and the end by turns */
    uint8_t current;               /* the part that is written */
    bool is_open;                  /* the last piece stops within a line */
    uint32_t left_out;             /* lines that were, between the beginning and the end */
};

/* Nothing is allocated yet.
 *
 * budget   stays valid; what is allocated is taken off, and given back by _fini */
void dialogue_init(struct dialogue *d, usec_t now, size_t *budget);
void dialogue_fini(struct dialogue *d);

/* Record a piece as it is, or count its lines as left out where the budget ends. A note and a body
 * end their lines.
 *
 * now      monotonic, >= that of the call before */
void dialogue_append(struct dialogue *d, enum dialogue_kind kind, struct slice piece, usec_t now);
/* A message in place of its bytes. */
void dialogue_append_body(struct dialogue *d, uint64_t id, uint64_t size_bytes, usec_t now);
/* Commands of an AUTH exchange: of "AUTH MECHANISM" the mechanism is recorded, nothing else. */
void dialogue_append_auth(struct dialogue *d, struct slice commands, usec_t now);

/* Something went wrong at the piece that was recorded last. */
void dialogue_mark(struct dialogue *d);
/* Whether recording so many bytes needs memory; whether it makes the dialogue forget a place that
 * was marked. Both are false for nearly all pieces. */
static inline bool dialogue_is_full(const struct dialogue *d, size_t bytes)
{
    const struct dialogue_part *p = &d->parts[d->current];
    return p->len + bytes + DIALOGUE_HEADER > p->capacity;
}
bool dialogue_forgets_failure(const struct dialogue *d, size_t bytes);

/* Overwrite each occurrence of the secret. No line stands in two parts, so none is missed. */
void dialogue_mask(struct dialogue *d, struct slice secret);
/* Give back memory that is allocated and not used. */
void dialogue_shrink(struct dialogue *d);
/* errors: -ENOMEM; the budget of the copy may be another */
MUST_USE int dialogue_copy(const struct dialogue *d, struct dialogue *ret, size_t *budget);
/* Allocated for it, without the struct. */
size_t dialogue_bytes(const struct dialogue *d);
/* Lines recorded, those left out included. */
uint32_t dialogue_line_count(const struct dialogue *d);

/* --- reading ---------------------------------------------------------------------------------- */

struct dialogue_line {
    uint32_t number; /* in the whole dialogue, from 0: those left out are counted */
    usec_t at;       /* since it began; to 128 microseconds */
    char direction;  /* '>' said, '<' heard, '-' a note */
};

struct dialogue_cursor {
    const struct dialogue *d;
    struct slice piece; /* what is left of the piece under way */
    usec_t at;
    enum dialogue_kind kind;
    uint8_t turn;    /* parts read, in the order of their age */
    uint16_t offset; /* in the part, of the next header */
    uint32_t number;
    bool is_gap_due;
};

void dialogue_begin_reading(const struct dialogue *d, struct dialogue_cursor *ret);
/* The next line, until false.
 *
 * text     cleared first; printable ASCII: other bytes and backslashes are escaped, "\x00", "\\" */
MUST_USE bool dialogue_next_line(struct dialogue_cursor *c, struct dialogue_line *ret,
                                 struct buf *text);

#endif
