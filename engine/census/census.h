/* Counts of all queued mail by any of its facts, made by walking the queue when somebody asks: no
 * running totals that could drift, nothing that receptions and deliveries would have to keep up.
 *
 * Bounds: CENSUS_ROWS_MAX groups and CENSUS_KEY_BYTES_MAX bytes of their names; what comes beyond
 * is counted together in one row. Thread: that of the walk. */
#ifndef ENGINE_CENSUS_H
#define ENGINE_CENSUS_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/census/queue_walk.h"

#include <stddef.h>
#include <stdint.h>

struct clerk;

#define CENSUS_ROWS_MAX      100000
#define CENSUS_KEY_BYTES_MAX (32u << 20)

/* What may be grouped by: the words of selectors, with their numbers, and four more. */
enum census_word {
    CENSUS_STATE = SELECTOR_COUNT,
    CENSUS_AGE,        /* since reception, in steps: census_age_text */
    CENSUS_CLASS,      /* of the last reply, which deferred it; "": none did */
    CENSUS_MAIL_CLASS, /* of the message */
    CENSUS_WORD_COUNT
};
const char *census_word_text(enum census_word word) NONNULL_RET;
/* CENSUS_WORD_COUNT: none of them. */
enum census_word census_word_find(struct slice name);
/* "<1m" .. ">3d"; an age below zero counts as zero. */
const char *census_age_text(usec_t age) NONNULL_RET;

struct census_query {
    uint32_t by; /* bits by enum census_word; 0: all in one row */
    struct queue_filter filter;
};

struct census_row {
    uint64_t recipients; /* recipients of the group that are not done */
    uint64_t messages;   /* messages with such recipients; a message may stand in several rows */
    usec_t oldest;       /* wall: the earliest reception */
    /* of the census */
    uint64_t last_message;
    uint32_t hash;
    uint32_t key_bytes;
    char *key;
};

struct census_result {
    uint32_t by;
    struct census_row *rows; /* the largest first */
    size_t row_count;
    struct census_row other;       /* what had no row any more; recipients 0: nothing */
    uint64_t recipients, messages; /* in all */
    uint64_t damaged;              /* messages that could not be read */
    usec_t as_of;                  /* wall, when the walk began */
    usec_t took;
};

/* Count what the source has. errors: -ENOMEM, -ECANCELED, of the storage */
MUST_USE int census_take(const struct queue_source *from, const struct census_query *query,
                         struct census_result **ret);
void census_result_free(struct census_result *c); /* accepts NULL */
/* What stands in a row for one of the words it is grouped by; "" for others. */
struct slice census_row_value(const struct census_result *c, const struct census_row *row,
                              enum census_word word);

/* --- for handlers (census_run.c) -------------------------------------------------------------- */

/* Count for a clerk. Equal questions within CENSUS_KEPT, or within three times as long as the count
 * took, get the same answer: who asks again and again costs a quarter of a core at most.
 *
 * ret      the clerk's, until its next census_run
 * errors   as census_take; -ECANCELED: the daemon stops */
#define CENSUS_KEPT (2 * USEC_PER_SEC)
MUST_USE int census_run(struct clerk *k, const struct census_query *query,
                        const struct census_result **ret);

#endif
