/* The record of what was done to lanes. Written with the lock held by whatever did it, one at a time;
 * read by any thread without it (base/history.h). Must not decide anything.
 *
 * Concurrency: whoever reacts puts the record and then exchanges false into is_reaction_awaited; who
 * writes records down exchanges true into it and then looks at their number. Both are
 * read-modify-writes, so one comes first: the record is seen, or `wake` is called. While it is not
 * awaited, thousands of reactions cost no wake-up. */
#include "base/history.h"
#include "engine/limit/limits_private.h"

#include <assert.h>
#include <stddef.h>

static_assert(sizeof(struct limit_reaction) % 8 == 0, "a record of base/history.h");

const char *limit_reaction_text(enum limit_reaction_kind kind)
{
    static const char *const texts[LIMIT_REACTED_COUNT] = {
        [LIMIT_REACTED_PACE] = "paced",
        [LIMIT_REACTED_CONNECTIONS] = "connections",
        [LIMIT_REACTED_SESSION] = "session",
        [LIMIT_REACTED_PAUSE] = "paused",
        [LIMIT_REACTED_CLOSED] = "closed",
        [LIMIT_REACTED_CLOSED_DESTINATION] = "destination-closed",
        [LIMIT_REACTED_CLOSED_SITE] = "site-closed",
        [LIMIT_REACTED_OPENED] = "opened",
        [LIMIT_REACTED_UNPACED] = "unpaced",
        [LIMIT_REACTED_SUSPENDED_TENANT] = "tenant-suspended",
        [LIMIT_REACTED_SUSPENDED_CAMPAIGN] = "campaign-suspended",
    };
    return texts[kind];
}

void limits_reacted(struct limits *l, const struct limits_lane *lane,
                    const struct limits_reacted *what, usec_t now)
{
    struct limit_reaction r = {
        .time = clock_wall(),
        .value = what->value,
        .lane = lane->id,
        .kind = what->kind,
        .cause = what->cause,
        .class = what->class,
        .unit = what->unit,
    };
    (void)now;
    r.until = what->span > 0 ? r.time + what->span : 0;
    limits_copy_text(r.source, sizeof(r.source), limits_lane_source(lane));
    limits_copy_text(r.site, sizeof(r.site), limits_place_site(lane->place));
    limits_copy_text(r.hosts, sizeof(r.hosts), limits_place_hosts(lane->place));
    limits_copy_text(r.destination, sizeof(r.destination), what->destination);
    limits_copy_text(r.rule, sizeof(r.rule), what->rule);
    limits_copy_text(r.text, sizeof(r.text), what->text);
    history_put(l->reactions, &r);
    atomic_fetch_add_explicit(&lane->figure->reactions[what->kind], 1, memory_order_relaxed);
    l->changes++;
    if (l->reaction_wake != NULL &&
        atomic_exchange_explicit(&l->is_reaction_awaited, false, memory_order_acq_rel)) {
        l->reaction_wake(l->reaction_ctx);
    }
}

void limits_forgot_pace(struct limits *l, const struct limits_lane *lane, enum pace_unit unit,
                        usec_t now)
{
    limits_fact_end(lane->learned, LIMITS_FACT_PACE + unit);
    limits_reacted(l, lane,
                   &(struct limits_reacted){
                       .kind = LIMIT_REACTED_UNPACED, .cause = LIMIT_DONE_BY_TIME, .unit = unit},
                   now);
}

void limits_reaction_watch(struct limits *l, void (*wake)(void *ctx), void *ctx)
{
    l->reaction_wake = wake;
    l->reaction_ctx = ctx;
}

uint64_t limits_reaction_await(struct limits *l)
{
    /* Acquire pairs with the release of limits_reacted, which has put its record. */
    (void)atomic_exchange_explicit(&l->is_reaction_awaited, true, memory_order_acq_rel);
    return history_end(l->reactions);
}

uint64_t limits_reaction_begin(const struct limits *l)
{
    return history_begin(l->reactions);
}

uint64_t limits_reaction_end(const struct limits *l)
{
    return history_end(l->reactions);
}

bool limits_reaction_get(const struct limits *l, uint64_t number, struct limit_reaction *ret)
{
    return history_get(l->reactions, number, ret);
}
