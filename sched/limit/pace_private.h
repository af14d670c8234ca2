/* What the two halves of the law of a pace share: sched/limit/pace.c and sched/limit/pace_trial.c. */
#ifndef SCHED_LIMIT_PACE_PRIVATE_H
#define SCHED_LIMIT_PACE_PRIVATE_H

#include "sched/limit/pace.h"

#define BURST_SECONDS 0.1
#define GAIN_LEAST    0.04 /* a pace that no trial can raise is at least R / (1 + GAIN_LEAST) */
#define GAIN_MOST     1.0
#define GAIN_STEP     3.0
#define MEASURE_GAIN  0.3 /* trials of that gain are long enough to measure */
#define MEASURE_LEAST 8   /* units accepted between the first refusal and the end of a train */
#define MEASURE_SPAN  (50 * USEC_PER_MSEC)
#define BELOW         0.96 /* a little below what was measured */
#define SLOW_SECONDS  10   /* of recipients and connects: less is no measure of a rate */
#define EARLY_RATE    20.0 /* from here on a burst is 2 and more */

static inline double pace_bounded(double value, double low, double high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}

static inline usec_t pace_later(usec_t a, usec_t b)
{
    return a > b ? a : b;
}

static inline usec_t pace_seconds(double s)
{
    return (usec_t)(s * USEC_PER_SEC);
}

/* Between two units at the present pace. */
static inline usec_t pace_interval(const struct pace *p)
{
    double rate = p->chance.is_dipping ? p->rate * CHANCE_DIP : p->rate;
    rate = p->phase == PACE_TRIAL ? p->rate * (1 + p->gain) : rate;
    return (usec_t)(USEC_PER_SEC / rate);
}

static inline void pace_change(struct pace *p, double rate)
{
    p->rate = pace_bounded(rate, PACE_LEAST, PACE_MOST);
    p->lowest = p->rate < p->lowest ? p->rate : p->lowest;
}

/* splitmix64, to 0..1 */
static inline double pace_next_chance(struct pace *p)
{
    uint64_t z = p->seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) / (double)(UINT64_C(1) << 53);
}

/* pace_trial.c */
/* The trial begins behind the n units that go now; pace_trial_take: n of it go. */
void pace_trial_begin(struct pace *p, uint32_t n, usec_t now);
void pace_trial_take(struct pace *p, uint32_t n, usec_t now);
/* All of it went, or as much of it as is of use. */
void pace_trial_end(struct pace *p, usec_t now);
/* It says nothing: there was too little mail, or something else happened. */
void pace_trial_drop(struct pace *p, usec_t next);
/* Draw what follows as soon as all verdicts are there that a trial needs. */
void pace_settle(struct pace *p, usec_t now);
/* So many of it were refused that the rate was too high. */
MUST_USE bool pace_train_is_refused(const struct pace_train *t);
MUST_USE usec_t pace_between_trials(struct pace *p);
/* From lowering the pace, which was `refused`, to the next trial. */
MUST_USE usec_t pace_after_lowering(struct pace *p, double refused, usec_t now);
MUST_USE double pace_burst_most(const struct pace *p);

#endif
