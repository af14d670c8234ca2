/* A pace that was not learned just now: set, forgotten, remembered over a restart. Called by the
 * owner of a lane; must not know where it is kept. */
#include "base/error.h"
#include "sched/limit/pace.h"

void pace_set(struct pace *p, double rate, usec_t now)
{
    struct loan_turns turns = p->turns;
    enum pace_unit unit = p->unit;
    struct chance chance = p->chance;
    pace_init(p, unit, p->seed, now);
    p->turns = turns;
    p->chance = chance;
    chance_restart(&p->chance);
    rate = rate > PACE_LEAST ? rate : PACE_LEAST;
    p->rate = p->lowest = rate < PACE_MOST ? rate : PACE_MOST;
    p->gain = PACE_GAIN_KNOWN;
    p->phase = PACE_HELD;
    p->since = p->bound_since = p->lowered_at = p->last_take = p->last_refusal = now;
    p->used_until = now;
    p->next_trial = now;
}

void pace_inherit(struct pace *p, const struct pace *from, double part, usec_t now)
{
    pace_set(p, from->rate * part, now);
    p->debt = from->debt;
    p->gain = from->gain;
    p->burst = from->burst;
    p->round_trip = from->round_trip;
    p->stretch_accepted = from->stretch_accepted;
    p->used_until = now + (usec_t)(USEC_PER_SEC / p->rate);
}

void pace_forget(struct pace *p)
{
    p->phase = PACE_FREE;
    chance_restart(&p->chance);
    p->stretch_begin = p->slot_begin = p->last_take;
    p->stretch_accepted = 0;
    p->slot[0] = p->slot[1] = 0;
    p->trial = (struct pace_train){0};
}

bool pace_remember(const struct pace *p, usec_t now, struct pace_memory *ret)
{
    if (p->phase == PACE_FREE) {
        return false;
    }
    *ret = (struct pace_memory){p->rate, p->lowest, now - p->since, now - p->last_refusal};
    return true;
}

int pace_recall(struct pace *p, const struct pace_memory *memory, usec_t now)
{
    bool is_sound = memory->rate >= PACE_LEAST && memory->rate <= PACE_MOST &&
                    memory->lowest >= PACE_LEAST && memory->lowest <= memory->rate &&
                    memory->age >= 0 && memory->refusal_age >= 0;
    if (!is_sound) {
        return ERR_SYNTAX;
    }
    pace_set(p, memory->rate, now);
    p->lowest = memory->lowest;
    p->since = now - memory->age;
    p->last_refusal = now - memory->refusal_age;
    return 0;
}
