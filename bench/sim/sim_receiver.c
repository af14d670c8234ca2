/* Buckets and windows of a simulated receiver. Called by bench/sim/sim_lane.c. */
#include "bench/sim/sim_receiver.h"

void sim_limit_init(struct sim_limit *l, double rate, double burst, usec_t now)
{
    *l = (struct sim_limit){.rate = rate, .burst = burst, .filled_at = now};
    if (burst <= 0) {
        l->burst = rate / 10 > 1 ? rate / 10 : 1;
    }
    l->tokens = l->burst;
}

static void fill(struct sim_limit *l, usec_t now)
{
    if (now <= l->filled_at) {
        return;
    }
    if (l->window > 0) {
        if (now / l->window > l->filled_at / l->window) {
            l->tokens = l->rate * (double)l->window / USEC_PER_SEC;
        }
    } else {
        l->tokens += (double)(now - l->filled_at) / USEC_PER_SEC * l->rate;
        l->tokens = l->tokens < l->burst ? l->tokens : l->burst;
    }
    l->filled_at = now;
}

void sim_limit_change(struct sim_limit *l, double rate, usec_t now)
{
    fill(l, now);
    l->rate = rate;
    l->burst = rate / 10 > 1 ? rate / 10 : 1;
    l->tokens = l->tokens < l->burst ? l->tokens : l->burst;
}

bool sim_limit_take(struct sim_limit *l, usec_t now)
{
    if (l->rate <= 0) {
        return true;
    }
    fill(l, now);
    if (l->tokens < 1) {
        return false;
    }
    l->tokens -= 1;
    return true;
}
