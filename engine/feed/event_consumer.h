/* A consumer reads the event log and follows it as it grows: its place there, which outlives the
 * process, its retries, and the figures for reports. The feed thread owns all consumers and calls
 * `step`; any thread that is online under RCU may read the atomics, which only the owner writes,
 * and the constants: one that a reload takes away is freed after a grace period.
 *
 * The place is a file of the spool, FEED/NAME: "SEGMENT:OFFSET", and below it "DEV:INO:SIZE" where
 * a file of rows goes with it. It is replaced as a whole, by rename, after what it says is true: so
 * a consumer sees each line at least once, whatever happens. */
#ifndef ENGINE_EVENT_CONSUMER_H
#define ENGINE_EVENT_CONSUMER_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/rcu.h"
#include "base/slice.h"
#include "engine/config/config_option.h"
#include "engine/event/event_cursor.h"
#include "engine/feed/account_file.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct config_texts;
struct event_log;

#define EVENT_CONSUMER_NAME_MAX 96
#define EVENT_CONSUMER_WHY_MAX  96

/* What every consumer is made of. */
struct event_consumer_place {
    const char *folder; /* where places are kept */
    struct event_log *log;
    struct event_position begin; /* of a consumer whose place is not known yet */
};

struct event_consumer {
    /* set at creation */
    const char *kind; /* "webhook", "csv", "subscriber" */
    enum config_section section;
    char *section_title; /* of the section that it was made of; NULL: a subscriber */
    char *name;          /* of its file; letters, digits and -_. */
    char *title;         /* for people */
    char *place;         /* path of its file */
    struct event_log *log;
    unsigned types; /* bits of event_line_type_bit; 0: all that are about mail */
    /* Read and hand on events. is_last: the log does not grow any more, so do not wait for more.
     * returns true when there is more to do at once */
    bool (*step)(struct event_consumer *c, usec_t now, bool is_last);
    /* Whether something is under way that a stop may wait a moment for; NULL: never. */
    bool (*is_busy)(const struct event_consumer *c);
    void (*free)(struct event_consumer *c);

    /* feed thread only */
    struct event_cursor cursor;  /* how far it has read */
    struct event_position acked; /* every line before it is handed on */
    struct account_mark mark;    /* stored with `acked` in the place file */
    usec_t retry_at, backoff;    /* monotonic; 0: no failure since the last success */
    usec_t saved;                /* monotonic: when the place file was written the last time */
    uint64_t seen;               /* event_log.written when the end of the log was reached */
    bool is_at_end;              /* the end of the log was reached at `seen` */
    bool is_saved;               /* `acked` is in its file */
    bool is_leaving;             /* no longer wanted: ends when nothing of it is under way */
    struct rcu_retired retired;

    /* any thread, atomic */
    _Atomic(struct event_consumer *) next; /* of all; set before it is published */
    _Atomic uint64_t segment, offset;      /* acked */
    _Atomic uint64_t events;               /* lines done since start */
    _Atomic uint64_t failures;             /* tries that failed, since start */
    _Atomic uint64_t gaps;                 /* how often lines were gone before it read them */
    _Atomic int64_t oldest;        /* wall, usec: the first line read and not done; 0: none */
    _Atomic int64_t failing_since; /* wall, usec; 0: it works */
    _Atomic int why;               /* the last failure, see event_consumer_why */
};

/* Read its place. One that has none begins at at->begin.
 *
 * c        zeroed; kind, section and calls set by the caller
 * types    NULL or empty: all that are about mail
 * errors   -ENOMEM, -errno of the log's folder; event_consumer_fini is due all the same */
MUST_USE int event_consumer_init(struct event_consumer *c, const struct event_consumer_place *at,
                                 const char *name, const char *title,
                                 const struct config_texts *types);
void event_consumer_fini(struct event_consumer *c);

/* The next line of the consumer's types, as event_cursor_next gives it. Lines that are gone before
 * they were read are skipped, with a warning.
 *
 * budget   lines that may be looked at, counted down
 * errors   ERR_AGAIN: none now, or the budget is spent; -errno */
MUST_USE int event_consumer_next(struct event_consumer *c, unsigned *budget, struct slice *ret);
/* Go on as one that was made of the same section by other options: with its figures. The place is
 * in the file already. */
void event_consumer_inherit(struct event_consumer *c, const struct event_consumer *from);
/* Every line read so far is handed on. lines: how many were of the consumer's types; with 0 the
 * place file need not be written at once. */
void event_consumer_ack(struct event_consumer *c, uint64_t lines, usec_t now);
/* Write its place now. */
void event_consumer_save(struct event_consumer *c, usec_t now);
/* Try again later. why: as event_consumer_why takes it */
void event_consumer_fail(struct event_consumer *c, int why, usec_t now);
/* Read again from `acked`. */
void event_consumer_rewind(struct event_consumer *c);

/* A failure in words: a code of enum err or -errno; above 0 an HTTP status; from
 * EVENT_CONSUMER_CURL on downwards one of curl's. */
#define EVENT_CONSUMER_CURL (-100000)
void event_consumer_why(int why, char ret[static EVENT_CONSUMER_WHY_MAX]);

#endif
