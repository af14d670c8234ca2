/* Ceilings that a receiver's refusals set. Called by the owner of a lane when a connection is
 * opened, closed or refused, and before one is made or used again; must not know why. */
#include "sched/limit/ceiling.h"

#include "base/error.h"

#include <assert.h>

#define FORGET_TIMES 4
#define LIMIT_MOST   1000000U
#define DOUBT_TIMES  3
#define SLOT         USEC_PER_SEC

void ceiling_refused(struct ceiling *c, uint32_t had, usec_t now)
{
    uint32_t limit = had > 0 ? had : 1;
    limit = limit < LIMIT_MOST ? limit : LIMIT_MOST;
    if (c->limit == 0) {
        c->since = now;
        c->lowest = limit;
    }
    /* A refusal does not raise it: those beyond it were on their way. */
    c->limit = c->limit == 0 || limit < c->limit ? limit : c->limit;
    c->lowest = c->limit < c->lowest ? c->limit : c->lowest;
    c->last_refusal = c->changed_at = now;
    c->did_bind = false;
}

enum ceiling_word ceiling_doubt_refused(struct ceiling_doubt *d, uint32_t had, usec_t now)
{
    bool is_fresh = d->times > 0 && now - d->said_at < CEILING_DOUBT_SPAN;
    bool is_contradicted = d->contradicted_at > 0 && now - d->contradicted_at < CEILING_DOUBT_SPAN;
    bool is_same = is_fresh && had == d->had;
    d->times = is_same ? d->times + 1 : 1;
    d->had = had;
    d->said_at = now;
    if (d->times >= DOUBT_TIMES) {
        d->contradicted_at = 0; /* an older limit was another one */
        return CEILING_SAID;
    }
    return is_contradicted || (is_fresh && !is_same) ? CEILING_DENIED : CEILING_UNKNOWN;
}

void ceiling_doubt_accepted(struct ceiling_doubt *d, uint32_t have, usec_t now)
{
    if (d->times > 0 && have > d->had) {
        d->times = 0;
        d->contradicted_at = now;
    }
}

void ceiling_proved(struct ceiling *c, uint32_t have)
{
    if (c->limit > 0 && have > c->limit) {
        c->limit = have;
    }
}

bool ceiling_permits(struct ceiling *c, uint32_t have, usec_t now)
{
    if (c->limit == 0) {
        return true;
    }
    if (c->did_bind && now - c->changed_at >= CEILING_STEP_SPAN) {
        c->limit++;
        c->changed_at = now;
        c->did_bind = false;
        if (c->limit > c->lowest * FORGET_TIMES) {
            *c = (struct ceiling){0};
            return true;
        }
    }
    if (have < c->limit) {
        return true;
    }
    c->did_bind = true;
    return false;
}

usec_t ceiling_due(const struct ceiling *c)
{
    return c->limit > 0 && c->did_bind ? c->changed_at + CEILING_STEP_SPAN : USEC_NEVER;
}

bool ceiling_remember(const struct ceiling *c, usec_t now, struct ceiling_memory *ret)
{
    if (c->limit == 0) {
        return false;
    }
    *ret = (struct ceiling_memory){c->limit, c->lowest, now - c->since, now - c->last_refusal};
    return true;
}

int ceiling_recall(struct ceiling *c, const struct ceiling_memory *memory, usec_t now)
{
    bool is_sound = memory->lowest > 0 && memory->limit >= memory->lowest &&
                    memory->limit <= LIMIT_MOST && memory->age >= 0 && memory->refusal_age >= 0;
    if (!is_sound) {
        return ERR_SYNTAX;
    }
    *c = (struct ceiling){.limit = memory->limit,
                          .lowest = memory->lowest,
                          .since = now - memory->age,
                          .last_refusal = now - memory->refusal_age,
                          .changed_at = now};
    return 0;
}

static void turn_slots(struct ceiling_count *n, usec_t now)
{
    if (now - n->slot_begin < SLOT) {
        return;
    }
    n->most[1] = now - n->slot_begin < 2 * SLOT ? n->most[0] : n->open;
    n->most[0] = n->open;
    n->slot_begin = now;
}

void ceiling_count_opened(struct ceiling_count *n, struct ceiling *c, usec_t now)
{
    turn_slots(n, now);
    n->open++;
    n->most[0] = n->open > n->most[0] ? n->open : n->most[0];
    ceiling_proved(c, n->open);
}

void ceiling_count_closed(struct ceiling_count *n, usec_t now)
{
    assert(n->open > 0);
    turn_slots(n, now);
    n->open--;
    n->closing = ceiling_count_held(n, now) - n->open + 1;
    n->closed_at = now;
}

uint32_t ceiling_count_held(struct ceiling_count *n, usec_t now)
{
    if (now - n->closed_at >= CEILING_CLOSE_SPAN) {
        n->closing = 0;
    }
    return n->open + n->closing;
}

void ceiling_count_refused(struct ceiling_count *n, struct ceiling *c, usec_t now)
{
    turn_slots(n, now);
    uint32_t most = n->most[0] > n->most[1] ? n->most[0] : n->most[1];
    ceiling_refused(c, most, now);
}
