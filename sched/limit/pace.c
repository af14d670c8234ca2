/* The law of a learned pace. Called by the owner of a lane for each message that goes to a receiver
 * and for each verdict; must not know whose lane it is or why something was refused. */
#include "sched/limit/pace_private.h"

#include <math.h>

#define BURST_GROWTH  2.0
#define DOUBT_SPAN    (20 * USEC_PER_SEC) /* refused so soon after a trial passed: it was wrong */
#define DOUBT_UNITS   20                  /* likewise, of recipients and connects */
#define BETWEEN_MOST  4                   /* times that such a measure lowers the pace at most */
#define BETWEEN_LEAST 3 /* accepted from one refusal to the next, to be a measure */
#define CUT_LEAST     0.02
#define CUT_MOST      0.25
#define EARLY         (10 * USEC_PER_MSEC)
#define EARLY_PART    64
#define PAUSE_FIRST   USEC_PER_SEC
#define PAUSE_MOST    (300 * USEC_PER_SEC)
#define PAUSE_PARTS   10  /* shorter than that part of a stretch, it is no window's end */
#define PAUSE_DROP    16  /* a pause lowers the pace to no less than this part */
#define STRETCH_LIKE  0.3 /* two stretches whose means differ by less say the same */
#define SOUGHT_LEAST  1.0 /* units a second, where nothing is known about the rate */
#define HINT_MOST     (4 * 3600 * USEC_PER_SEC)
#define SILENT_LEAST  (USEC_PER_SEC / 2)
#define FORGET_AFTER  (600 * USEC_PER_SEC)
#define FORGET_TIMES  4
#define SLOT          USEC_PER_SEC

/* How far the schedule may be ahead of the clock: what makes up for a late caller. A receiver whose
 * burst is 1 sees each unit that is early. */
static usec_t early(const struct pace *p)
{
    return p->rate >= EARLY_RATE ? EARLY : pace_interval(p) / EARLY_PART;
}

void pace_init(struct pace *p, enum pace_unit unit, uint64_t seed, usec_t now)
{
    *p = (struct pace){.unit = unit, .seed = seed, .slot_begin = now, .stretch_begin = now};
    p->last_accepted = now;
    p->burst = BURST_SECONDS;
    p->passed_at = USEC_NEVER;
}

static usec_t probe_limit(const struct pace *p)
{
    return p->probed_at + 4 * p->round_trip + 30 * USEC_PER_SEC;
}

usec_t pace_due(struct pace *p, usec_t now)
{
    if (p->phase == PACE_FREE) {
        return 0;
    }
    if (p->phase == PACE_PAUSED) {
        return p->until;
    }
    if (p->phase == PACE_PROBING) {
        return probe_limit(p);
    }
    pace_settle(p, now);
    return p->used_until - early(p);
}

/* How long each unit went as soon as it was due, and so the pace was what bound. */
static void watch_bound(struct pace *p, usec_t now)
{
    bool is_prompt = now <= p->used_until + pace_interval(p) / 2;
    if (!is_prompt) {
        p->bound_since = now;
        if (p->phase == PACE_TRIAL) {
            /* There is not so much mail, but perhaps some more than the pace. */
            p->gain = pace_bounded(p->gain / GAIN_STEP, GAIN_LEAST, GAIN_MOST);
            if (p->trial.is_test) {
                chance_untested(&p->chance, now);
            }
            pace_trial_drop(p, now);
        }
    }
    if (is_prompt || p->rate >= p->lowest * FORGET_TIMES) {
        usec_t most = USEC_PER_SEC + pace_interval(p);
        p->bound_time += now - p->last_take < most ? now - p->last_take : most;
    }
    if (!is_prompt && p->bound_time >= FORGET_AFTER && p->rate >= p->lowest * FORGET_TIMES) {
        pace_forget(p);
    }
}

void pace_take(struct pace *p, uint32_t n, usec_t now)
{
    if (p->phase == PACE_FREE) {
        return;
    }
    if (p->phase == PACE_PAUSED || p->phase == PACE_PROBING) {
        p->phase = PACE_PROBING;
        p->probed_at = now;
        p->last_take = now;
        p->used_until = now + (usec_t)n * pace_interval(p);
        return;
    }
    pace_settle(p, now);
    watch_bound(p, now);
    if (p->phase == PACE_FREE) {
        return;
    }
    if (p->phase == PACE_HELD) {
        chance_take(&p->chance, n, p->rate, p->round_trip, now);
    }
    if (p->phase == PACE_HELD && now >= p->next_trial && p->chance.dip_size <= 0 &&
        now - p->bound_since >= pace_later(3 * pace_interval(p), USEC_PER_SEC / 10)) {
        pace_trial_begin(p, n, now);
    }
    p->last_take = now;
    p->used_until = pace_later(p->used_until, now);
    if (p->phase == PACE_TRIAL && now >= p->trial.begin) {
        pace_trial_take(p, n, now);
    } else {
        p->used_until += (usec_t)n * pace_interval(p);
    }
}

/* Was it sent in the train, or right behind a refused one, whose excess it then shares? */
static bool is_of_trial(const struct pace *p, usec_t sent_at)
{
    const struct pace_train *t = &p->trial;
    if (t->size == 0 && !t->is_flood) {
        return false;
    }
    if (p->phase == PACE_TRIAL) {
        return sent_at >= t->begin;
    }
    usec_t behind = pace_train_is_refused(t) && !t->is_single
                        ? pace_later(2 * pace_interval(p), USEC_PER_SEC / 10)
                        : 0;
    return sent_at >= t->begin && sent_at <= t->end + behind;
}

/* The one behind a single that was taken may be too much, and says nothing about the pace. */
static bool is_excess(const struct pace *p, usec_t sent_at)
{
    return sent_at >= p->excess_begin && sent_at <= p->excess_end;
}

/* The next trial waits for that verdict, or it would be taken for one at the pace. */
static void count_excess(struct pace *p, uint32_t n, usec_t now)
{
    if (p->trial.is_single) {
        p->trial.since += n;
        pace_settle(p, now);
    }
}

void pace_give_back(struct pace *p, uint32_t n, usec_t sent_at)
{
    if (p->phase == PACE_FREE) {
        return;
    }
    if (p->phase == PACE_PROBING) {
        if (sent_at >= p->probed_at) {
            p->phase = PACE_PAUSED;
            p->until = sent_at;
        }
        return;
    }
    p->used_until -= (usec_t)n * pace_interval(p);
    if (is_of_trial(p, sent_at) && p->trial.sent >= n) {
        p->trial.sent -= n;
    }
}

static void measure_round_trip(struct pace *p, usec_t sent_at, usec_t now)
{
    usec_t took = now > sent_at ? now - sent_at : 0;
    p->round_trip = p->round_trip == 0 ? took : p->round_trip + (took - p->round_trip) / 8;
}

static void smooth_refused(struct pace *p, uint32_t n, double refused)
{
    double weight = n / pace_bounded(p->rate / 4, 16, 1e6);
    weight = weight > 1 ? 1 : weight;
    p->refused_part += (refused - p->refused_part) * weight;
}

static void begin_fall(struct pace *p, usec_t sent_at, usec_t now)
{
    if (p->fall.refused == 0) {
        usec_t took = now - sent_at;
        p->fall = (struct pace_train){.begin = sent_at,
                                      .end = now,
                                      .give_up = now + took * 3 / 2 + MEASURE_SPAN,
                                      .rate = p->rate};
    }
}

static void count_in_fall(struct pace *p, uint32_t n, bool is_refused, usec_t sent_at, usec_t now)
{
    struct pace_train *f = &p->fall;
    if (f->rate <= 0 || now > f->give_up || sent_at < f->begin || sent_at > f->end) {
        return;
    }
    if (is_refused) {
        f->refused += n;
    } else {
        f->accepted += n;
    }
}

static void turn_slots(struct pace *p, usec_t now)
{
    if (now - p->slot_begin >= 2 * SLOT) {
        p->slot[0] = p->slot[1] = 0;
        p->slot_begin = now;
    } else if (now - p->slot_begin >= SLOT) {
        p->slot[1] = p->slot[0];
        p->slot[0] = 0;
        p->slot_begin += SLOT;
    }
}

/* The pace after a stretch that ended with a pause, and of which `mean` a second was accepted. */
static void take_mean(struct pace *p, double mean)
{
    if (mean * BELOW < p->rate) {
        pace_change(p, pace_bounded(mean * BELOW, p->rate / PAUSE_DROP, p->rate));
        p->gain = MEASURE_GAIN;
    }
}

/* Next to nothing was accepted for a while. That may be the rate; it may as well be that nothing was
 * let through then and everything is now, and the next unit tells. */
static void doubt_mean(struct pace *p, double mean)
{
    double least = fmax(p->rate / PAUSE_DROP, SOUGHT_LEAST);
    pace_change(p, pace_bounded(mean * BELOW, least, fmax(p->rate, least)));
    p->gain = GAIN_MOST;
    p->bound = 0;
    p->bound_until = 0;
    p->debt = (struct debt){0};
}

/* The receiver lets something through again. A limit by windows of time shows in what went in all
 * from the end of the last pause to the end of this one. */
static void end_pause(struct pace *p, usec_t now)
{
    double span = (double)(now - p->stretch_begin) / USEC_PER_SEC;
    double mean = (double)p->stretch_accepted / (span > 1 ? span : 1);
    bool is_alike = fabs(mean - p->stretch_rate) < p->stretch_rate * STRETCH_LIKE;
    p->phase = PACE_HELD;
    if (p->stretch_accepted < MEASURE_LEAST && !is_alike) {
        doubt_mean(p, mean);
    } else {
        take_mean(p, mean);
    }
    bool is_of_stretch = (now - p->paused_at) * PAUSE_PARTS >= now - p->stretch_begin;
    if (is_of_stretch && is_alike) {
        p->calm_until = now + (now - p->stretch_begin) * 3 / 2;
        p->gain = GAIN_LEAST;
    }
    p->calm_passes = 0;
    p->stretch_rate = mean;
    p->passed_at = USEC_NEVER;
    p->burst = BURST_SECONDS; /* it was the end of a window, not of a burst */
    p->pause = 0;
    p->refused_in_row = 0;
    p->refused_part = 0;
    p->lowered_at = now;
    p->stretch_begin = now;
    p->stretch_accepted = 0;
    p->used_until = now + pace_interval(p);
    p->bound_since = now;
    p->next_trial = now < p->calm_until ? now + pace_between_trials(p) : now;
}

void pace_accepted(struct pace *p, uint32_t n, usec_t sent_at, usec_t now)
{
    p->last_accepted = now;
    p->stretch_accepted += n;
    p->since_refusal += n;
    debt_accepted(&p->debt, n);
    if (p->phase == PACE_FREE) {
        turn_slots(p, now);
        p->slot[0] += n;
        return;
    }
    measure_round_trip(p, sent_at, now);
    p->refused_in_row = 0;
    if (p->phase == PACE_PAUSED) {
        p->phase = PACE_HELD; /* it was not everything after all */
    } else if (p->phase == PACE_PROBING) {
        if (sent_at >= p->probed_at) {
            end_pause(p, now);
        }
    } else if (is_of_trial(p, sent_at)) {
        p->trial.accepted += n;
        p->trial.since += p->trial.refused > 0 && sent_at > p->trial.first_refused ? n : 0;
        pace_settle(p, now);
    } else if (is_excess(p, sent_at)) {
        count_excess(p, n, now);
    } else if (sent_at >= p->lowered_at) {
        smooth_refused(p, n, 0);
        chance_accepted(&p->chance, n, sent_at, now);
    }
    count_in_fall(p, n, false, sent_at, now);
}

static void pause_from(struct pace *p, usec_t hint, usec_t now)
{
    p->paused_at = p->pause == 0 ? now : p->paused_at;
    p->pause = p->pause == 0 ? PAUSE_FIRST : 2 * p->pause;
    p->pause = p->pause < PAUSE_MOST ? p->pause : PAUSE_MOST;
    usec_t span = hint > 0 ? hint : p->pause;
    span = span < HINT_MOST ? span : HINT_MOST;
    /* Never shorter than asked for. */
    double spread = hint > 0 ? 1 + 0.1 * pace_next_chance(p) : 0.75 + 0.5 * pace_next_chance(p);
    p->until = now + (usec_t)((double)span * spread);
    p->trial.is_test = false;
    p->phase = PACE_PAUSED;
}

static void begin_pace(struct pace *p, usec_t sent_at, usec_t now)
{
    turn_slots(p, now);
    double span = (double)(now - p->slot_begin + SLOT) / USEC_PER_SEC;
    double accepted = (double)p->slot[0] + p->slot[1];
    if (p->unit != PACE_MESSAGES && accepted > 0) {
        span = fmax(span, SLOW_SECONDS);
    }
    if (p->unit == PACE_CONNECTS && accepted > 1) {
        p->burst = SLOW_SECONDS;
    }
    p->rate = p->lowest = PACE_MOST;
    double rate = pace_bounded(accepted, 1, PACE_MOST) / span;
    if (p->unit == PACE_MESSAGES &&
        accepted < MEASURE_LEAST) { /* that is no measure of a low rate */
        rate = fmax(rate, SOUGHT_LEAST);
    }
    pace_change(p, rate * BELOW);
    p->gain = GAIN_MOST;
    p->since = now;
    p->bound_since = now;
    p->bound_time = 0;
    p->lowered_at = now;
    p->last_take = now;
    p->refused_part = 0;
    p->refused_in_row = 0;
    p->pause = 0;
    /* What is in flight tells more: while the receiver refuses, what it accepts is its rate. */
    p->round_trip = now > sent_at ? now - sent_at : 0;
    p->trial = (struct pace_train){.begin = sent_at,
                                   .end = now,
                                   .give_up = now + p->round_trip * 3 / 2 + MEASURE_SPAN,
                                   .first_refused = sent_at,
                                   .refused = 1,
                                   .is_flood = true};
    p->phase = PACE_VERDICT;
    p->used_until = now + pace_interval(p);
}

/* What a bucket lets through from one refusal to the next, when it is empty both times, is its rate:
 * however much it held at first. Where one in a hundred may be refused, that is soon enough known. */
static double between_refusals(const struct pace *p, usec_t now)
{
    if (p->unit == PACE_MESSAGES || p->since_refusal < BETWEEN_LEAST) {
        return HUGE_VAL;
    }
    double span = (double)(now - p->last_refusal) / USEC_PER_SEC;
    return fmax(p->since_refusal / span * BELOW, p->rate / BETWEEN_MOST);
}

/* A trial that passed so short a while ago may have used up what a bucket held. */
static usec_t doubt_span(const struct pace *p)
{
    usec_t units = p->unit == PACE_MESSAGES ? 0 : DOUBT_UNITS * pace_interval(p);
    return pace_later(DOUBT_SPAN, units) + 2 * p->round_trip;
}

/* Refused at the pace itself. */
static void lower(struct pace *p, usec_t now)
{
    double refused = p->rate;
    double lower_rate = p->rate * (1 - pace_bounded(p->refused_part / 2, CUT_LEAST, CUT_MOST));
    if (p->passed_at != USEC_NEVER && now - p->passed_at < doubt_span(p)) {
        p->burst = pace_bounded(p->burst * BURST_GROWTH, BURST_SECONDS, pace_burst_most(p));
        lower_rate = p->unit == PACE_MESSAGES ? lower_rate : fmin(lower_rate, p->passed_from);
    }
    p->passed_at = USEC_NEVER;
    pace_change(p, fmin(lower_rate, between_refusals(p, now)));
    /* The first ones at the new pace may stand close behind the last ones at the old one. */
    p->lowered_at = now + 2 * pace_interval(p);
    if (p->phase == PACE_VERDICT && p->trial.is_flood) {
        return;
    }
    if (p->stretch_accepted < MEASURE_LEAST) { /* that is no rate that was known about */
        p->gain = GAIN_MOST;
        pace_trial_drop(p, now + 2 * pace_interval(p));
    } else {
        p->gain = GAIN_LEAST;
        pace_trial_drop(p, now + pace_after_lowering(p, refused, now));
    }
    chance_struck(&p->chance, refused, p->rate, p->refused_part, now);
    if (p->chance.is_due) {
        p->next_trial = p->lowered_at;
    }
}

static bool is_silent(const struct pace *p, usec_t now)
{
    usec_t wait = pace_later(2 * p->round_trip, 3 * pace_interval(p));
    return p->refused_in_row >= 3 && now - p->last_accepted > pace_later(wait, SILENT_LEAST);
}

/* Returns whether the trial is refused by that. */
static bool refused_in_trial(struct pace *p, uint32_t n, usec_t sent_at, usec_t now)
{
    struct pace_train *t = &p->trial;
    if (t->refused == 0 || sent_at < t->first_refused) {
        t->first_refused = sent_at;
    }
    usec_t together = pace_interval(p) / 2 < USEC_PER_MSEC ? pace_interval(p) / 2 : USEC_PER_MSEC;
    t->events += t->refused == 0 || now - t->event_at > together;
    t->event_at = now;
    t->refused += n;
    bool is_too_much = pace_train_is_refused(t);
    if (p->phase == PACE_TRIAL && is_too_much) {
        pace_trial_end(p, now);
    }
    pace_settle(p, now);
    return is_too_much;
}

/* Of what was sent since the pace is what it is. Returns false when it is taken for chance. */
static bool refused_outside(struct pace *p, uint32_t n, usec_t sent_at, usec_t now)
{
    if (chance_covers(&p->chance, n, sent_at, now)) {
        smooth_refused(p, n, 0);
        return false;
    }
    if (p->trial.is_test) {
        return false; /* that is what the test is about */
    }
    begin_fall(p, sent_at, now);
    smooth_refused(p, n, 1);
    lower(p, now);
    return true;
}

/* Returns whether the pace learns something from it. */
static bool refused_at_pace(struct pace *p, uint32_t n, usec_t hint, usec_t sent_at, usec_t now)
{
    bool is_news = true;
    if (p->phase == PACE_PAUSED) {
        return true;
    }
    measure_round_trip(p, sent_at, now);
    if (p->phase == PACE_PROBING) {
        if (sent_at >= p->probed_at) {
            pause_from(p, hint, now);
        }
        return true;
    }
    p->refused_in_row += n;
    if (is_of_trial(p, sent_at)) {
        is_news = refused_in_trial(p, n, sent_at, now);
    } else if (is_excess(p, sent_at)) {
        count_excess(p, n, now);
    } else if (sent_at >= p->lowered_at) {
        is_news = refused_outside(p, n, sent_at, now);
    }
    count_in_fall(p, n, true, sent_at, now);
    if (is_silent(p, now)) {
        pause_from(p, hint, now);
        is_news = true;
    }
    return is_news;
}

void pace_refused(struct pace *p, uint32_t n, usec_t hint, usec_t sent_at, usec_t now)
{
    bool is_news = true;
    debt_refused(&p->debt, n, now);
    if (p->phase != PACE_FREE) {
        is_news = refused_at_pace(p, n, hint, sent_at, now);
    } else if (chance_covers(&p->chance, n, sent_at, now)) {
        is_news = false;
    } else {
        begin_pace(p, sent_at, now);
    }
    if (is_news) {
        p->bound_time = 0;
        p->last_refusal = now;
        p->since_refusal = 0;
    }
}
