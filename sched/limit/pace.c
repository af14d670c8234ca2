/* The law of a learned pace. Called by the owner of a lane for each message that goes to a receiver
 * and for each verdict; must not know whose lane it is or why something was refused. */
#include "sched/limit/pace.h"

#include <math.h>

/* Receivers are taken to let a tenth of a second's worth pass at once, at least one, and more when a
 * trial that passed turns out wrong. A trial lasts until it would have used that up at half of its
 * gain. */
#define BURST_SECONDS 0.1
#define BURST_MOST    2.0
#define BURST_GROWTH  2.0
#define BURST_DECAY   0.97
#define DOUBT_SPAN    (20 * USEC_PER_SEC) /* refused so soon after a trial passed: it was wrong */
#define DOUBT_UNITS   20                  /* likewise, of recipients and connects */
#define GAIN_LEAST    0.04 /* a pace that no trial can raise is at least R / (1 + GAIN_LEAST) */
#define GAIN_MOST     1.0
#define GAIN_STEP     3.0
#define TRIAL_LEAST   4   /* units from one trial to the next, or no refusal would lower the pace */
#define MEASURE_GAIN  0.3 /* trials of that gain are long enough to measure */
#define TEST_LEAST    30  /* units of a test */
#define FAR_GAIN      0.5 /* now and then, where little is refused by chance at any pace */
#define MEASURE_LEAST 8   /* units accepted between the first refusal and the end of a train */
#define MEASURE_SPAN  (50 * USEC_PER_MSEC)
#define BOUND_FRESH   (10 * USEC_PER_SEC)
#define BOUND_SLOW    (1800 * USEC_PER_SEC) /* of recipients and connects */
#define BELOW         0.96                  /* a little below what was measured */
#define SLOW_SECONDS  10 /* of recipients and connects: less is no measure of a rate */
#define BETWEEN_MOST  4  /* times that such a measure lowers the pace at most */
#define BETWEEN_LEAST 3  /* accepted from one refusal to the next, to be a measure */

#define FALL_PART 0.2 /* so much of a train refused is more than chance */

#define CUT_LEAST 0.02
#define CUT_MOST  0.25

#define EARLY        (10 * USEC_PER_MSEC)
#define EARLY_RATE   20.0 /* from here on a burst is 2 and more */
#define EARLY_PART   64
#define PAUSE_FIRST  USEC_PER_SEC
#define PAUSE_MOST   (300 * USEC_PER_SEC)
#define PAUSE_PARTS  10  /* shorter than that part of a stretch, it is no window's end */
#define CALM_PASSES  4   /* so many trials pass before it rises quickly after such an end */
#define PAUSE_DROP   16  /* a pause lowers the pace to no less than this part */
#define STRETCH_LIKE 0.3 /* two stretches whose means differ by less say the same */
#define SOUGHT_LEAST 1.0 /* units a second, where nothing is known about the rate */
#define HINT_MOST    (4 * 3600 * USEC_PER_SEC)
#define SILENT_LEAST (USEC_PER_SEC / 2)
#define FORGET_AFTER (600 * USEC_PER_SEC)
#define FORGET_TIMES 4
#define SLOT         USEC_PER_SEC

/* splitmix64, to 0..1 */
static double next_chance(struct pace *p)
{
    uint64_t z = p->seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) / (double)(UINT64_C(1) << 53);
}

static double bounded(double value, double low, double high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}

static usec_t later(usec_t a, usec_t b)
{
    return a > b ? a : b;
}

static usec_t seconds(double s)
{
    return (usec_t)(s * USEC_PER_SEC);
}

/* Between two units at the present pace. */
static usec_t interval(const struct pace *p)
{
    double rate = p->chance.is_dipping ? p->rate * CHANCE_DIP : p->rate;
    rate = p->phase == PACE_TRIAL ? p->rate * (1 + p->gain) : rate;
    return (usec_t)(USEC_PER_SEC / rate);
}

/* How far the schedule may be ahead of the clock: what makes up for a late caller. A receiver whose
 * burst is 1 sees each unit that is early. */
static usec_t early(const struct pace *p)
{
    return p->rate >= EARLY_RATE ? EARLY : interval(p) / EARLY_PART;
}

void pace_init(struct pace *p, enum pace_unit unit, uint64_t seed, usec_t now)
{
    *p = (struct pace){.unit = unit, .seed = seed, .slot_begin = now, .stretch_begin = now};
    p->last_accepted = now;
    p->burst = BURST_SECONDS;
    p->passed_at = USEC_NEVER;
}

static void set_rate(struct pace *p, double rate)
{
    p->rate = bounded(rate, PACE_LEAST, PACE_MOST);
    p->lowest = p->rate < p->lowest ? p->rate : p->lowest;
}

/* Units that go together. */
static double group(const struct pace *p)
{
    return p->trial.each > 1 ? p->trial.each : 1;
}

/* From one refused trial to the next: a refusal in a hundred, and five a minute at most. */
static usec_t between_trials(struct pace *p)
{
    double s = fmax(bounded(8 + 10 / p->rate, 8, 13), TRIAL_LEAST / p->rate);
    if (p->unit != PACE_MESSAGES) {
        s = bounded(150 * group(p) / p->rate, s, 3600);
    }
    return seconds(s * (0.95 + 0.1 * next_chance(p)));
}

/* The pace was lowered, perhaps too far. Where few may be refused, it is not raised beyond that
 * again before long, but up to there it may be soon. */
static usec_t after_lowering(struct pace *p, double refused, usec_t now)
{
    if (p->unit == PACE_MESSAGES) {
        return between_trials(p);
    }
    p->bound = refused;
    p->bound_until = now + BOUND_SLOW;
    return seconds(bounded(20 * group(p) / p->rate, 10, 600));
}

/* Units that the receiver lets pass at once: `each` of them, or none could ever pass. */
static double burst_at(const struct pace *p, double rate, uint32_t each)
{
    double least = each > 1 ? each : 1;
    return rate * p->burst > least ? rate * p->burst : least;
}

/* The trial begins behind the unit that goes now: those after it are early. A receiver that lets one
 * pass at once refuses the first one that is early, and only that one. So where one is enough, it
 * goes in front of the one that is due next, and when it is refused nothing is lost. */
static void begin_trial(struct pace *p, uint32_t n, usec_t now)
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

static void end_trial(struct pace *p, usec_t now)
{
    p->trial.end = now;
    p->trial.give_up = now + 4 * p->round_trip + USEC_PER_SEC;
    p->phase = PACE_VERDICT;
}

/* It says nothing: there was too little mail, or something else happened. */
static void drop_trial(struct pace *p, usec_t next)
{
    p->trial.is_test = false;
    p->phase = PACE_HELD;
    p->trial.end = later(p->trial.end, p->trial.begin);
    p->next_trial = next;
}

/* The limit is between the pace and a rate that was refused just now: half of the way. */
static void search_on(struct pace *p, double gain, usec_t now)
{
    p->gain = gain;
    if (gain <= GAIN_LEAST) {
        p->gain = GAIN_LEAST;
        p->next_trial = now + between_trials(p);
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
        set_rate(p, proved);
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
    p->gain = bounded(p->gain * GAIN_STEP, GAIN_LEAST, is_slow ? PACE_GAIN_KNOWN : GAIN_MOST);
    p->next_trial = now + interval(p);
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

static void trial_failed(struct pace *p, usec_t now)
{
    double measured;
    p->phase = PACE_HELD;
    if (p->trial.is_test) {
        chance_disproved(&p->chance, p->rate, now);
        p->trial.is_test = false;
    }
    if (p->gain >= MEASURE_GAIN && measure(&p->trial, &measured)) {
        if (measured * BELOW > p->rate) {
            set_rate(p, measured * BELOW);
        }
        p->gain = PACE_GAIN_KNOWN;
    } else if (p->trial.is_flood) {
        p->gain = GAIN_MOST;
    } else {
        p->burst = bounded(p->burst * BURST_DECAY, BURST_SECONDS, BURST_MOST);
        p->bound = p->rate * (1 + p->gain);
        p->bound_until = now + (p->unit == PACE_MESSAGES ? BOUND_FRESH : BOUND_SLOW);
        p->gain = p->trial.is_robust ? GAIN_LEAST : p->gain / 2;
    }
    /* Not before the receiver's burst is there again. */
    p->next_trial = now + 2 * interval(p) + seconds(p->burst / p->gain);
    search_on(p, p->gain, now);
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
        set_rate(p, measured * BELOW);
        p->lowered_at = now + 2 * interval(p);
        p->gain = PACE_GAIN_KNOWN;
        p->next_trial = now + USEC_PER_SEC;
    }
    f->refused = 0;
}

/* So many of it were refused that the rate was too high. */
static bool is_refused(const struct pace_train *t)
{
    return t->is_robust ? chance_is_limit(t->refused, t->events, t->since)
                        : t->refused > t->tolerated;
}

/* Are all verdicts there that the trial needs? */
static void settle(struct pace *p, usec_t now)
{
    const struct pace_train *t = &p->trial;
    settle_fall(p, now);
    if (p->phase != PACE_VERDICT) {
        return;
    }
    bool has_all = t->accepted + t->refused >= t->sent && (!t->is_single || t->since > 0);
    bool is_over = now >= t->give_up || (has_all && !t->is_flood);
    if (is_refused(t) && (is_over || p->gain < MEASURE_GAIN)) {
        trial_failed(p, now);
    } else if (is_over && t->accepted > 0 && t->accepted >= t->sent - t->sent / 5) {
        trial_passed(p, now);
    } else if (is_over) {
        drop_trial(p, now + between_trials(p));
    }
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
    settle(p, now);
    return p->used_until - early(p);
}

/* How long each unit went as soon as it was due, and so the pace was what bound. */
static void watch_bound(struct pace *p, usec_t now)
{
    bool is_prompt = now <= p->used_until + interval(p) / 2;
    if (!is_prompt) {
        p->bound_since = now;
        if (p->phase == PACE_TRIAL) {
            /* There is not so much mail, but perhaps some more than the pace. */
            p->gain = bounded(p->gain / GAIN_STEP, GAIN_LEAST, GAIN_MOST);
            if (p->trial.is_test) {
                chance_untested(&p->chance, now);
            }
            drop_trial(p, now);
        }
    }
    if (is_prompt || p->rate >= p->lowest * FORGET_TIMES) {
        usec_t most = USEC_PER_SEC + interval(p);
        p->bound_time += now - p->last_take < most ? now - p->last_take : most;
    }
    if (!is_prompt && p->bound_time >= FORGET_AFTER && p->rate >= p->lowest * FORGET_TIMES) {
        pace_forget(p);
    }
}

static void take_for_trial(struct pace *p, uint32_t n, usec_t now)
{
    usec_t raised = interval(p);
    p->trial.sent += n;
    if (p->trial.sent < p->trial.size) {
        p->used_until += (usec_t)n * raised;
        return;
    }
    end_trial(p, now);
    p->used_until += (usec_t)n * interval(p);
    if (p->trial.is_single) {
        /* The one that was due keeps its place: an interval of the pace behind the unit before. */
        p->used_until -= raised;
        p->trial.begin = now;
        p->excess_begin = now + 1;
        p->excess_end = now + 3 * interval(p) / 2;
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
        p->used_until = now + (usec_t)n * interval(p);
        return;
    }
    settle(p, now);
    watch_bound(p, now);
    if (p->phase == PACE_FREE) {
        return;
    }
    if (p->phase == PACE_HELD) {
        chance_take(&p->chance, n, p->rate, p->round_trip, now);
    }
    if (p->phase == PACE_HELD && now >= p->next_trial && p->chance.dip_size <= 0 &&
        now - p->bound_since >= later(3 * interval(p), USEC_PER_SEC / 10)) {
        begin_trial(p, n, now);
    }
    p->last_take = now;
    p->used_until = later(p->used_until, now);
    if (p->phase == PACE_TRIAL && now >= p->trial.begin) {
        take_for_trial(p, n, now);
    } else {
        p->used_until += (usec_t)n * interval(p);
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
    usec_t behind = is_refused(t) && !t->is_single ? later(2 * interval(p), USEC_PER_SEC / 10) : 0;
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
        settle(p, now);
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
    p->used_until -= (usec_t)n * interval(p);
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
    double weight = n / bounded(p->rate / 4, 16, 1e6);
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
        set_rate(p, bounded(mean * BELOW, p->rate / PAUSE_DROP, p->rate));
        p->gain = MEASURE_GAIN;
    }
}

/* Next to nothing was accepted for a while. That may be the rate; it may as well be that nothing was
 * let through then and everything is now, and the next unit tells. */
static void doubt_mean(struct pace *p, double mean)
{
    double least = fmax(p->rate / PAUSE_DROP, SOUGHT_LEAST);
    set_rate(p, bounded(mean * BELOW, least, fmax(p->rate, least)));
    p->gain = GAIN_MOST;
    p->bound = 0;
    p->bound_until = 0;
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
    p->used_until = now + interval(p);
    p->bound_since = now;
    p->next_trial = now < p->calm_until ? now + between_trials(p) : now;
}

void pace_accepted(struct pace *p, uint32_t n, usec_t sent_at, usec_t now)
{
    p->last_accepted = now;
    p->stretch_accepted += n;
    p->since_refusal += n;
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
        settle(p, now);
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
    double spread = hint > 0 ? 1 + 0.1 * next_chance(p) : 0.75 + 0.5 * next_chance(p);
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
    p->rate = p->lowest = PACE_MOST;
    set_rate(p, bounded(accepted, 1, PACE_MOST) / span * BELOW);
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
    p->used_until = now + interval(p);
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
    usec_t units = p->unit == PACE_MESSAGES ? 0 : DOUBT_UNITS * interval(p);
    return later(DOUBT_SPAN, units) + 2 * p->round_trip;
}

/* Refused at the pace itself. */
static void lower(struct pace *p, usec_t now)
{
    double refused = p->rate;
    double lower_rate = p->rate * (1 - bounded(p->refused_part / 2, CUT_LEAST, CUT_MOST));
    if (p->passed_at != USEC_NEVER && now - p->passed_at < doubt_span(p)) {
        p->burst = bounded(p->burst * BURST_GROWTH, BURST_SECONDS, BURST_MOST);
        lower_rate = p->unit == PACE_MESSAGES ? lower_rate : fmin(lower_rate, p->passed_from);
    }
    p->passed_at = USEC_NEVER;
    set_rate(p, fmin(lower_rate, between_refusals(p, now)));
    /* The first ones at the new pace may stand close behind the last ones at the old one. */
    p->lowered_at = now + 2 * interval(p);
    if (p->phase == PACE_VERDICT && p->trial.is_flood) {
        return;
    }
    if (p->stretch_accepted < MEASURE_LEAST) { /* that is no rate that was known about */
        p->gain = GAIN_MOST;
        drop_trial(p, now + 2 * interval(p));
    } else {
        p->gain = GAIN_LEAST;
        drop_trial(p, now + after_lowering(p, refused, now));
    }
    chance_struck(&p->chance, refused, p->rate, p->refused_part, now);
    if (p->chance.is_due) {
        p->next_trial = p->lowered_at;
    }
}

static bool is_silent(const struct pace *p, usec_t now)
{
    usec_t wait = later(2 * p->round_trip, 3 * interval(p));
    return p->refused_in_row >= 3 && now - p->last_accepted > later(wait, SILENT_LEAST);
}

/* Returns whether the trial is refused by that. */
static bool refused_in_trial(struct pace *p, uint32_t n, usec_t sent_at, usec_t now)
{
    struct pace_train *t = &p->trial;
    if (t->refused == 0 || sent_at < t->first_refused) {
        t->first_refused = sent_at;
    }
    usec_t together = interval(p) / 2 < USEC_PER_MSEC ? interval(p) / 2 : USEC_PER_MSEC;
    t->events += t->refused == 0 || now - t->event_at > together;
    t->event_at = now;
    t->refused += n;
    bool is_too_much = is_refused(t);
    if (p->phase == PACE_TRIAL && is_too_much) {
        end_trial(p, now);
    }
    settle(p, now);
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
