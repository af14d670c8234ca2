/* Trials of a learned pace: when one is sent, how long it is, and what its verdicts prove. Called by
 * sched/limit/pace.c; must not know what happens outside of a trial. */
#include "sched/limit/pace_private.h"

#include <math.h>

/* Receivers are taken to let a tenth of a second's worth pass at once, at least one, and more when a
 * trial that passed turns out wrong. A trial lasts until it would have used that up at half of its
 * gain. */
#define BURST_MOST       2.0
#define BURST_DECAY      0.97
#define QUICK_PART       2 /* of an interval: so soon it is known what became of a single, */
#define QUICK_MOST       (200 * USEC_PER_MSEC) /* and so soon at least, or each takes long */
#define GAIN_LAST        0.0401                /* that one is tried once more at once */
#define GAIN_DEAR        0.3                   /* at most, and */
#define GAIN_CUT_DEAR    4.0 /* from one that was refused to the next, where refusals are dear */
#define FLYING_MANY      300 /* units of a round trip */
#define GAIN_STEP_FLYING 2.0
#define GAIN_CUT         2.0
#define TRIAL_LEAST      4 /* units from one trial to the next, or no refusal would lower the pace */
#define CHANCE_STRIKES   2   /* lowerings: chance may be suspected */
#define TEST_LEAST       30  /* units of a test */
#define FAR_GAIN         0.5 /* now and then, where little is refused by chance at any pace */
#define BOUND_FRESH      (10 * USEC_PER_SEC)
#define BOUND_SLOW       (1800 * USEC_PER_SEC) /* of recipients and connects */
#define FALL_PART        0.2                   /* so much of a train refused is more than chance */
#define CALM_PASSES      4 /* so many trials pass before it rises quickly after such an end */

/* Units that go together. */
static double group(const struct pace *p)
{
    return p->trial.each > 1 ? p->trial.each : 1;
}

/* Whether refusals beyond what may be are to be paid for: where one more is much, and not where they may
 * be chance, of which more trials say nothing worse. */
static bool is_indebted(const struct pace *p)
{
    return p->unit == PACE_MESSAGES && p->rate < EARLY_RATE && p->chance.share <= 0 &&
           p->chance.strikes < CHANCE_STRIKES;
}

/* Whether what became of a single is known so soon that the one behind it can wait for that. */
static bool is_quick(const struct pace *p)
{
    return p->round_trip <= pace_interval(p) / QUICK_PART && p->round_trip <= QUICK_MOST;
}

/* Where too many were refused already, the rate is not sought in big steps, if a step that passes
 * costs nothing: the one behind a single that keeps its place is refused then. */
static bool is_dear(struct pace *p, usec_t now)
{
    bool is_free = is_quick(p) || p->rate * p->burst > 1;
    return is_free && is_indebted(p) && debt_is_heavy(&p->debt, now);
}

/* From one refused trial to the next: a refusal in a hundred, and five a minute at most. */
usec_t pace_between_trials(struct pace *p)
{
    double s = fmax(pace_bounded(8 + 10 / p->rate, 8, 13), TRIAL_LEAST / p->rate);
    if (p->unit != PACE_MESSAGES) {
        s = pace_bounded(150 * group(p) / p->rate, s, 3600);
    }
    return pace_seconds(s * (0.95 + 0.1 * pace_next_chance(p)));
}

/* The pace was lowered, perhaps too far. Where few may be refused, it is not raised beyond that
 * again before long, but up to there it may be soon. */
usec_t pace_after_lowering(struct pace *p, double refused, usec_t now)
{
    if (p->unit == PACE_MESSAGES) {
        return pace_between_trials(p);
    }
    p->bound = refused;
    p->bound_until = now + BOUND_SLOW;
    return pace_seconds(pace_bounded(20 * group(p) / p->rate, 10, 600));
}

double pace_burst_most(const struct pace *p)
{
    return p->unit == PACE_CONNECTS ? SLOW_SECONDS : BURST_MOST;
}

/* Units that the receiver lets pass at once: `each` of them, or none could ever pass. */
static double burst_at(const struct pace *p, double rate, uint32_t each)
{
    double least = each > 1 ? each : 1;
    return rate * p->burst > least ? rate * p->burst : least;
}

/* From one that passed to the next. What is in flight until a refusal is known goes too fast, too. */
static double gain_step(const struct pace *p)
{
    double flying = p->rate * (double)p->round_trip / USEC_PER_SEC;
    return p->unit == PACE_MESSAGES && flying >= FLYING_MANY ? GAIN_STEP_FLYING : GAIN_STEP;
}

/* The trial begins behind the unit that goes now: those after it are early. A receiver that lets one
 * pass at once refuses the first one that is early, and only that one. So where one is enough, it
 * goes in front of the one that is due next, and when it is refused nothing is lost. */
void pace_trial_begin(struct pace *p, uint32_t n, usec_t now)
{
    if (p->chance.is_due) {
        p->gain = p->chance.gain;
    } else if (chance_looks_far(&p->chance, now)) {
        p->gain = FAR_GAIN;
    }
    bool is_robust = p->chance.is_due || (p->chance.share > 0 && p->gain >= MEASURE_GAIN);
    double raised = p->rate * (1 + p->gain);
    double size = ceil((burst_at(p, raised, n) - 1) / (p->gain / 2));
    if (p->gain >= MEASURE_GAIN && raised >= EARLY_RATE) {
        size += raised / 4;
    }
    bool is_single = n == 1 && size <= 1 && !is_robust;
    size = size < 2.0 * n ? 2.0 * n : size;
    size = is_robust && size < TEST_LEAST ? TEST_LEAST : size;
    uint32_t units = is_single ? 1 : (uint32_t)size;
    p->trial = (struct pace_train){.begin = now + 1,
                                   .size = units,
                                   .each = n,
                                   .tolerated = chance_tolerates(&p->chance, units, p->gain),
                                   .is_single = is_single,
                                   .is_test = p->chance.is_due,
                                   .is_robust = is_robust};
    p->phase = PACE_TRIAL;
}

void pace_trial_end(struct pace *p, usec_t now)
{
    p->trial.end = now;
    p->trial.give_up = now + 4 * p->round_trip + USEC_PER_SEC;
    p->phase = PACE_VERDICT;
}

/* It says nothing: there was too little mail, or something else happened. */
void pace_trial_drop(struct pace *p, usec_t next)
{
    p->trial.is_test = false;
    p->phase = PACE_HELD;
    p->trial.end = pace_later(p->trial.end, p->trial.begin);
    p->next_trial = next;
}

/* No trial before the last ones are paid for. */
static void rest(struct pace *p, usec_t now)
{
    usec_t paid = is_indebted(p) ? debt_span(&p->debt, now) : 0;
    p->gain = GAIN_LEAST;
    p->next_trial = now + pace_later(pace_between_trials(p), paid);
}

/* The limit is between the pace and a rate that was refused just now: half of the way. */
static void search_on(struct pace *p, double gain, usec_t now)
{
    if (gain <= GAIN_LEAST) {
        rest(p, now);
    } else {
        p->gain = gain;
    }
}

static void trial_passed(struct pace *p, usec_t now)
{
    double raised = p->rate * (1 + p->gain);
    double proved = raised * (1 - (burst_at(p, raised, p->trial.each) - 1) /
                                      (p->trial.sent > 0 ? p->trial.sent : 1));
    proved = proved < raised * 0.99 ? proved : raised * 0.99;
    p->phase = PACE_HELD;
    if (p->trial.is_test) {
        proved = fmin(proved, p->chance.from);
    }
    if (proved > p->rate) {
        p->passed_from = p->rate;
        pace_change(p, proved);
        p->passed_at = now;
    }
    if (p->trial.is_test) {
        chance_proved(&p->chance, p->trial.accepted, p->trial.refused, now);
        p->trial.is_test = false;
        p->bound_until = 0;
    }
    chance_raised(&p->chance, p->rate);
    if (now < p->calm_until && ++p->calm_passes < CALM_PASSES) {
        search_on(p, GAIN_LEAST, now);
        return;
    }
    bool is_slow = p->unit != PACE_MESSAGES && p->bound > 0;
    double gain_most = is_dear(p, now) ? GAIN_DEAR : GAIN_MOST;
    p->gain =
        pace_bounded(p->gain * gain_step(p), GAIN_LEAST, is_slow ? PACE_GAIN_KNOWN : gain_most);
    p->next_trial = now + pace_interval(p);
    if (now < p->bound_until && (p->bound / p->rate - 1) / 2 < p->gain) {
        search_on(p, (p->bound / p->rate - 1) / 2, now);
    }
}

/* While the receiver refuses, what it accepts is its rate. */
static bool measure(const struct pace_train *t, double *ret)
{
    usec_t span = t->end - t->first_refused;
    if (t->since < MEASURE_LEAST || span < MEASURE_SPAN) {
        return false;
    }
    *ret = (double)t->since * USEC_PER_SEC / (double)span;
    return true;
}

/* While what was refused once is not passed again. */
static usec_t bound_span(struct pace *p, usec_t now)
{
    if (p->unit != PACE_MESSAGES) {
        return BOUND_SLOW;
    }
    return BOUND_FRESH + (is_indebted(p) ? debt_span(&p->debt, now) : 0);
}

/* After one that was refused, and is no measure of the rate. */
static double next_gain(struct pace *p, usec_t now)
{
    if (p->trial.is_robust) {
        return 0;
    }
    if (!is_dear(p, now)) {
        return p->gain / GAIN_CUT;
    }
    return p->gain > GAIN_LAST ? fmax(p->gain / GAIN_CUT_DEAR, GAIN_LAST) : 0;
}

static void trial_failed(struct pace *p, usec_t now)
{
    double measured, gain = p->gain;
    p->phase = PACE_HELD;
    if (p->trial.is_test) {
        chance_disproved(&p->chance, p->rate, now);
        p->trial.is_test = false;
    }
    if (p->gain >= MEASURE_GAIN && measure(&p->trial, &measured)) {
        if (measured * BELOW > p->rate) {
            pace_change(p, measured * BELOW);
        }
        gain = PACE_GAIN_KNOWN;
    } else if (p->trial.is_flood) {
        gain = GAIN_MOST;
    } else {
        p->burst = pace_bounded(p->burst * BURST_DECAY, BURST_SECONDS, pace_burst_most(p));
        p->bound = p->rate * (1 + p->gain);
        p->bound_until = now + bound_span(p, now);
        gain = next_gain(p, now);
    }
    /* Not before the receiver's burst is there again. */
    p->next_trial = now + 2 * pace_interval(p) + pace_seconds(p->burst / fmax(gain, GAIN_LEAST));
    search_on(p, gain, now);
}

/* All verdicts on what went until a refusal was known are there: a receiver that changed its mind
 * shows it in one step, however long the round trip is. */
static void settle_fall(struct pace *p, usec_t now)
{
    struct pace_train *f = &p->fall;
    if (f->refused == 0 || now < f->give_up) {
        return;
    }
    double all = f->accepted + f->refused;
    double measured = f->rate * f->accepted / all;
    if (all >= MEASURE_LEAST && f->refused >= all * FALL_PART && f->accepted > 0 &&
        measured * BELOW < p->rate) {
        pace_change(p, measured * BELOW);
        p->lowered_at = now + 2 * pace_interval(p);
        p->gain = PACE_GAIN_KNOWN;
        p->next_trial = now + USEC_PER_SEC;
    }
    f->refused = 0;
}

/* So many of it were refused that the rate was too high. */
bool pace_train_is_refused(const struct pace_train *t)
{
    return t->is_robust ? chance_is_limit(t->refused, t->events, t->since)
                        : t->refused > t->tolerated;
}

/* A single that was refused took nothing: the one behind it need not wait for its sake. */
static void advance_next(struct pace *p)
{
    struct pace_train *t = &p->trial;
    if (t->is_single && t->is_quick && p->last_take == t->begin) {
        p->used_until -= t->raised;
    }
}

/* Are all verdicts there that the trial needs? */
void pace_settle(struct pace *p, usec_t now)
{
    const struct pace_train *t = &p->trial;
    settle_fall(p, now);
    if (p->phase != PACE_VERDICT) {
        return;
    }
    bool waits = t->is_single && !t->is_quick && t->since == 0; /* for the one behind it */
    bool has_all = t->accepted + t->refused >= t->sent && !waits;
    bool is_over = now >= t->give_up || (has_all && !t->is_flood);
    if (pace_train_is_refused(t) && (is_over || p->gain < MEASURE_GAIN)) {
        advance_next(p);
        trial_failed(p, now);
    } else if (is_over && t->accepted > 0 && t->accepted >= t->sent - t->sent / 5) {
        trial_passed(p, now);
    } else if (is_over) {
        pace_trial_drop(p, now + pace_between_trials(p));
    }
}

void pace_trial_take(struct pace *p, uint32_t n, usec_t now)
{
    usec_t raised = pace_interval(p);
    p->trial.sent += n;
    if (p->trial.sent < p->trial.size) {
        p->used_until += (usec_t)n * raised;
        return;
    }
    pace_trial_end(p, now);
    p->used_until += (usec_t)n * pace_interval(p);
    if (!p->trial.is_single) {
        return;
    }
    p->trial.begin = now;
    p->trial.raised = raised;
    p->trial.is_quick = is_quick(p);
    if (!p->trial.is_quick) {
        /* The one that was due keeps its place: an interval of the pace behind the unit before. */
        p->used_until -= raised;
        p->excess_begin = now + 1;
        p->excess_end = now + 3 * pace_interval(p) / 2;
    }
}
