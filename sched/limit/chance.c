/* Which refusals are of no limit. Called by sched/limit/pace.c for verdicts at the pace and for tests;
 * must not change a pace. */
#include "sched/limit/chance.h"

#include "base/error.h"

#include <math.h>

#define FACTOR        1.4                 /* credit for each refusal that is expected */
#define CREDIT_MOST   8.0                 /* by chance alone, 1 refusal in 200 finds none then */
#define STRIKES       3                   /* lowerings until the first test */
#define STRIKES_SPAN  (60 * USEC_PER_SEC) /* two further apart are of no row */
#define PART_MOST     0.2                 /* so much refused is a limit's, or an outage's */
#define GAIN          0.5 /* of the first test, for each lane that may share the limit */
#define GAIN_MOST     4.0
#define FALL          0.8 /* of the second test: when the pace has fallen so far */
#define PAUSE_FIRST   (30 * USEC_PER_SEC)
#define PAUSE_MOST    (600 * USEC_PER_SEC)
#define PAUSE_EMPTY   (5 * USEC_PER_SEC)
#define LIMIT_LEAST   3
#define LIMIT_SURE    20
#define TOGETHER_MOST 5    /* units that one refusal takes with it */
#define LIMIT_PART    0.12 /* a limit refuses a quarter and more of what a test sends too much */
#define SEEN_REFUSED  20.0 /* expected from one look at the share to the next */
#define SEEN_SPAN     (300 * USEC_PER_SEC)
#define SHARE_LEAST   1e-5
#define DIP_REFUSED   25.0 /* expected in a dip */
#define DIP_SECONDS   20   /* a dip lasts at most */
#define DIP_LEAST     30.0
#define DIP_FIRST     (2 * USEC_PER_SEC) /* behind the test */
#define DIP_SPAN      (20 * USEC_PER_SEC)
#define DIP_REST      5 /* times as long as a dip is without one */
#define FAR_SPAN      (120 * USEC_PER_SEC)
#define COUNTED_MOST  64.0 /* refusals: those long ago count less */

static void put_off(struct chance *c, usec_t now)
{
    c->test_pause = c->test_pause == 0 ? PAUSE_FIRST : 2 * c->test_pause;
    c->test_pause = c->test_pause < PAUSE_MOST ? c->test_pause : PAUSE_MOST;
    c->next_test = now + c->test_pause;
}

/* Less is refused than is believed: half of the way. */
static void look(struct chance *c, usec_t now)
{
    bool is_time = c->seen * c->share >= SEEN_REFUSED || now - c->seen_since >= SEEN_SPAN;
    if (!is_time) {
        return;
    }
    double share = c->seen > 0 ? c->seen_refused / c->seen : 0;
    if (share < c->share * 2 / 3) {
        c->share = (c->share + share) / 2;
    } else {
        c->test_pause = 0;
    }
    if (c->share < SHARE_LEAST) {
        c->share = c->credit = 0;
    }
    c->seen = c->seen_refused = 0;
    c->seen_since = now;
}

static bool is_of_dip(const struct chance *c, usec_t sent_at)
{
    return c->dip_size > 0 && sent_at > c->dip_begin && sent_at <= c->dip_end;
}

static void end_dip(struct chance *c, usec_t now)
{
    usec_t span = now - c->dip_begin;
    c->next_dip = now + (span * DIP_REST > DIP_SPAN ? span * DIP_REST : DIP_SPAN);
    c->dip_size = 0;
    c->is_dipping = false;
}

/* What was refused below the pace is chance. */
static void judge_dip(struct chance *c, usec_t now)
{
    double all = c->dip_accepted + c->dip_refused;
    double share = all > 0 ? c->dip_refused / all : c->share;
    c->share = share < c->share / 4 ? share : (c->share + fmin(share, CHANCE_MOST)) / 2;
    end_dip(c, now);
    if (c->share < SHARE_LEAST) {
        c->share = c->credit = 0;
        put_off(c, now);
    }
}

void chance_take(struct chance *c, uint32_t n, double rate, usec_t round_trip, usec_t now)
{
    if (c->share <= 0) {
        return;
    }
    if (c->is_dipping) {
        c->dip_sent += n;
        if (c->dip_sent >= c->dip_size) {
            c->is_dipping = false;
            c->dip_end = now;
        }
    } else if (c->dip_size > 0 && now > c->dip_end + 2 * round_trip + USEC_PER_SEC / 10) {
        judge_dip(c, now);
    } else if (c->dip_size == 0 && now >= c->next_dip) {
        c->is_dipping = true;
        c->dip_size = fmax(fmin(DIP_REFUSED / c->share, rate * DIP_SECONDS), DIP_LEAST);
        c->dip_sent = c->dip_accepted = c->dip_refused = 0;
        c->dip_begin = now;
        c->dip_end = USEC_NEVER;
    }
}

bool chance_is_limit(uint32_t refused, uint32_t events, uint32_t since)
{
    uint32_t least = refused / TOGETHER_MOST > events ? refused / TOGETHER_MOST : events;
    return least >= LIMIT_LEAST + LIMIT_PART * since ||
           (refused >= LIMIT_SURE && refused > LIMIT_PART * since);
}

/* Returns whether it is no more than chance may do. */
static bool count_in_dip(struct chance *c, uint32_t n, usec_t now)
{
    c->dip_refused += n;
    if (chance_is_limit((uint32_t)c->dip_refused, 0, (uint32_t)c->dip_accepted)) {
        end_dip(c, now);
        return false;
    }
    return true;
}

void chance_accepted(struct chance *c, uint32_t n, usec_t sent_at, usec_t now)
{
    c->accepted += n;
    c->dip_accepted += is_of_dip(c, sent_at) ? n : 0;
    if (c->share > 0) {
        c->credit = fmin(c->credit + n * c->share * FACTOR, CREDIT_MOST);
        c->seen += n;
        look(c, now);
    }
}

bool chance_covers(struct chance *c, uint32_t n, usec_t sent_at, usec_t now)
{
    c->refused += n;
    if (c->refused > COUNTED_MOST) {
        c->refused /= 2;
        c->accepted /= 2;
    }
    if (c->share <= 0) {
        return false;
    }
    c->seen += n;
    c->seen_refused += n;
    look(c, now);
    if (is_of_dip(c, sent_at) && count_in_dip(c, n, now)) {
        return true;
    }
    if (c->credit < 1) {
        return false;
    }
    c->credit = fmax(c->credit - n, 0);
    return true;
}

static void suspect(struct chance *c, double from, usec_t now)
{
    c->from = from;
    c->strikes = 0;
    c->struck_at = now;
    c->has_failed = false;
    c->is_due = false;
}

void chance_restart(struct chance *c)
{
    suspect(c, 0, 0);
    c->accepted = c->refused = 0;
    c->is_dipping = false;
    c->dip_size = 0;
}

void chance_struck(struct chance *c, double before, double rate, double refused_part, usec_t now)
{
    if (refused_part > PART_MOST) {
        chance_restart(c);
        return;
    }
    if (c->from <= 0 || now - c->struck_at > STRIKES_SPAN) {
        suspect(c, before, now);
    }
    c->strikes++;
    c->struck_at = now;
    c->from = fmax(c->from, before);
    double gain = GAIN * (c->company > 0 ? c->company : 1);
    if (!c->has_failed && c->strikes >= STRIKES && now >= c->next_test && gain <= GAIN_MOST) {
        c->is_due = true;
        c->gain = gain;
    } else if (c->company <= 1 && rate <= c->from * FALL) {
        c->is_due = true; /* however soon: a limit lets the pace fall so far but once */
        c->gain = fmin(c->from / rate - 1, 1);
    }
}

void chance_raised(struct chance *c, double rate)
{
    if (c->from > 0) {
        c->from = fmax(c->from, rate);
    }
}

bool chance_looks_far(struct chance *c, usec_t now)
{
    bool is_time = c->share > 0 && now >= c->next_far;
    if (is_time) {
        c->next_far = now + FAR_SPAN;
    }
    return is_time;
}

uint32_t chance_tolerates(const struct chance *c, uint32_t size, double gain)
{
    double expected = c->share * size, excess = size / 2.0 * gain / (1 + gain);
    double most = expected + fmin(sqrt(expected), excess / 2) - 0.5;
    return most > 0 ? (uint32_t)most : 0;
}

static void believe(struct chance *c, double share, usec_t now)
{
    c->share = share;
    c->credit = CREDIT_MOST;
    c->seen = c->seen_refused = 0;
    c->seen_since = now;
    c->next_dip = now + DIP_FIRST;
}

int chance_recall(struct chance *c, double share, usec_t now)
{
    if (!(share >= SHARE_LEAST && share <= CHANCE_MOST)) {
        return ERR_SYNTAX;
    }
    believe(c, share, now);
    return 0;
}

void chance_proved(struct chance *c, uint32_t accepted, uint32_t refused, usec_t now)
{
    double all = c->accepted + c->refused + accepted + refused;
    double share = (c->refused + refused) / fmax(all, 1);
    if (share <= CHANCE_MOST) {
        believe(c, share, now);
    } else {
        c->next_test = now + PAUSE_EMPTY; /* something else: what is counted from now on may tell */
    }
    chance_restart(c);
}

void chance_disproved(struct chance *c, double rate, usec_t now)
{
    c->is_due = false;
    if (c->has_failed || rate <= c->from * FALL) {
        suspect(c, rate, now);
    }
    c->has_failed = true; /* the pace may be so high that a limit and chance refuse it */
    put_off(c, now);
}

void chance_untested(struct chance *c, usec_t now)
{
    c->is_due = false;
    c->next_test = now + PAUSE_EMPTY;
}
