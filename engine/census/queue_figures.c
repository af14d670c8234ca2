/* Which messages count as what. Called by queue_figures_run.c and tests; knows neither the engine
 * nor who asks. */
#include "engine/census/queue_figures.h"

#include "engine/spool/spool_store.h"

/* --- without a walk --------------------------------------------------------------------------- */

static uint64_t without(uint64_t all, uint64_t some)
{
    return all > some ? all - some : 0;
}

static void add_up(struct queue_figures *f)
{
    f->messages = 0;
    for (int state = 0; state < QUEUE_STATE_COUNT; state++) {
        f->messages += f->states[state];
    }
}

void queue_figures_derive(const struct queue_figures_known *known, struct queue_figures *ret)
{
    uint64_t idle[SPOOL_CLASS_COUNT];
    for (int class = 0; class < SPOOL_CLASS_COUNT; class ++) {
        idle[class] = without(known->waiting[class], known->active_of[class]);
    }
    uint64_t held = idle[SPOOL_HELD];
    uint64_t scheduled =
        known->is_held_suspended && known->scheduled < held ? known->scheduled : held;
    *ret = (struct queue_figures){
        .states = {[QUEUE_INCOMING] = idle[SPOOL_INCOMING],
                   [QUEUE_ACTIVE] = known->active,
                   [QUEUE_DEFERRED] = idle[SPOOL_DEFERRED],
                   [QUEUE_SCHEDULED] = scheduled,
                   [QUEUE_SUSPENDED] = held - scheduled},
    };
    add_up(ret);
}

/* --- by a walk -------------------------------------------------------------------------------- */

/* The state of the message that the walk is at; QUEUE_STATE_COUNT: all of it is done. */
static enum queue_state walked_state(struct queue_walk *w)
{
    enum queue_state state = QUEUE_STATE_COUNT;
    while (queue_walk_recipient(w)) {
        state = w->recipient.state;
        if (state != QUEUE_SUSPENDED) {
            break;
        }
    }
    return state;
}

int queue_figures_walk(const struct queue_source *from, struct queue_figures *ret)
{
    static const struct queue_filter everything;
    struct queue_figures found = {0};
    struct queue_walk w;
    queue_walk_begin(&w, from, &everything, 0, false);
    found.as_of = w.now;
    while (queue_walk_next(&w)) {
        enum queue_state state = walked_state(&w);
        if (state != QUEUE_STATE_COUNT) {
            found.states[state]++;
        }
    }
    int err = w.error;
    queue_walk_end(&w);
    if (err == 0) {
        add_up(&found);
        *ret = found;
    }
    return err;
}
