/* The limits out of arbitrary bytes. The first byte says which: the text of a rate, or operations on
 * a rate, a quota, or a pace and its ceilings, with time steps between them. */
#include "sched/limit/ceiling.h"
#include "sched/limit/pace.h"
#include "sched/limit/quota.h"
#include "sched/limit/rate_text.h"
#include "tests/sim/choices.h"
#include "tests/sim/require.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define START (USEC_PER_SEC * 1000000)

static void read_text(struct slice text)
{
    struct rate_rule rule, again;
    char why[RATE_WHY_BYTES], date_why[QUOTA_WHY_BYTES], printed[RATE_TEXT_BYTES];
    int64_t day;
    if (rate_parse(text, &rule, why) == 0) {
        REQUIRE(rule.count <= RATE_COUNT_MAX && rule.burst <= RATE_BURST_MAX);
        rate_print(&rule, printed);
        REQUIRE(rate_parse(slice_of(printed), &again, why) == 0);
        REQUIRE(again.count == rule.count && again.burst == rule.burst && again.span == rule.span);
    } else {
        REQUIRE(strlen(why) > 0 && strlen(why) < RATE_WHY_BYTES);
    }
    if (rate_parse_quota(text, &rule, why) == 0) {
        REQUIRE(rule.count == 0 || rule.span >= 3600 * USEC_PER_SEC);
    }
    if (quota_parse_date(text, &day, date_why) == 0) {
        REQUIRE(day >= 0);
    }
}

/* From nothing to a day, most of them short. */
static usec_t take_step(struct choices *c)
{
    static const usec_t units[] = {1, 1000, 100000, USEC_PER_SEC, 300 * USEC_PER_SEC};
    return units[choices_take(c, 5)] * choices_take(c, 255);
}

static struct rate_rule take_rule(struct choices *c)
{
    static const uint32_t counts[] = {1, 2, 7, 20, 100, 2000, 86399, 1000000};
    static const usec_t spans[] = {USEC_PER_SEC, 60 * USEC_PER_SEC, 3600 * USEC_PER_SEC,
                                   86400 * USEC_PER_SEC};
    return (struct rate_rule){counts[choices_take(c, 8)], choices_take(c, 20),
                              spans[choices_take(c, 4)]};
}

/* Whoever asks first and takes when it is due never takes more than the rule allows. */
static void run_rate(struct choices *c)
{
    struct rate_rule rule = take_rule(c);
    struct rate r;
    struct loan loans[4] = {0};
    usec_t now = START;
    double used = 0;
    rate_init(&r, &rule, now);
    double burst = rule.burst > 0 ? rule.burst : (double)rule.count * 1e5 / (double)rule.span + 1;
    while (choices_are_left(c)) {
        now += take_step(c);
        unsigned who = choices_take(c, 4);
        if (choices_take(c, 2) == 0) {
            rate_repay(&r, &loans[who]);
            used -= loans[who].left;
            if (rate_lend(&r, who, 1 + choices_take(c, 200), now, &loans[who]) == 0) {
                REQUIRE(loans[who].from >= now && loans[who].left > 0);
                used += loans[who].left;
            }
        } else if (rate_due(&r) <= now) {
            uint32_t amount = choices_take(c, 3);
            rate_take(&r, amount, now);
            used += amount;
            if (choices_take(c, 4) == 0) {
                rate_give_back(&r, amount);
                used -= amount;
            }
        }
        /* Loans run ahead by a tenth of a second and their own worth. */
        double most = (double)(now - START + 120000) * rule.count / (double)rule.span + burst + 3;
        for (int i = 0; i < 4; i++) {
            REQUIRE(used - loans[i].left <= most);
        }
        for (int i = 0; i < 4; i++) {
            used -= loans[i].left;
            rate_repay(&r, &loans[i]);
        }
        REQUIRE(r.part < rule.count);
    }
}

static void run_quota(struct choices *c)
{
    struct rate_rule rule = {1 + choices_take(c, 100), 0,
                             choices_take(c, 2) == 0 ? 3600 * USEC_PER_SEC : 86400 * USEC_PER_SEC};
    struct quota q;
    struct quota_loan loan = {0};
    usec_t wall = START;
    quota_init(&q, &rule, NULL);
    while (choices_are_left(c)) {
        usec_t step = take_step(c);
        wall = choices_take(c, 4) == 0 && wall > step ? wall - step : wall + step;
        uint32_t amount = 1 + choices_take(c, 9);
        int64_t before = q.window;
        usec_t due = quota_due(&q, amount, wall);
        REQUIRE(q.window >= before || q.window == wall / rule.span + 1);
        REQUIRE(due <= wall || due % rule.span == 0);
        if (due <= wall) {
            int64_t window = quota_take(&q, amount, wall);
            REQUIRE(q.used <= rule.count || q.used == amount);
            if (choices_take(c, 4) == 0) {
                quota_give_back(&q, amount, window);
            }
        } else if (quota_lend(&q, amount, wall, &loan) == 0) {
            REQUIRE(q.used <= rule.count);
            quota_repay(&q, &loan);
        }
        struct quota_state state = quota_export(&q);
        quota_init(&q, &rule, NULL);
        quota_import(&q, &state);
        REQUIRE(q.window == state.window && q.used == state.used);
    }
}

static void check_pace(const struct pace *p)
{
    REQUIRE(p->chance.share >= 0 && p->chance.share <= CHANCE_MOST && p->chance.credit >= 0);
    REQUIRE(p->phase <= PACE_PROBING);
    REQUIRE(p->phase == PACE_FREE || (p->rate > 0 && p->lowest > 0 && p->lowest <= p->rate));
    REQUIRE(p->refused_part >= 0 && p->refused_part <= 1 && p->gain >= 0 && p->gain <= 1);
}

static void run_pace(struct choices *c)
{
    struct pace p;
    struct pace_memory memory;
    struct ceiling ceiling = {0};
    struct ceiling_count count = {0};
    usec_t now = START, sent = START;
    pace_init(&p, (enum pace_unit)choices_take(c, 3), choices_take(c, 200), now);
    while (choices_are_left(c)) {
        now += take_step(c);
        uint32_t n = 1 + choices_take(c, 50);
        switch (choices_take(c, 8)) {
        case 0:
        case 1:
            if (pace_due(&p, now) <= now) {
                pace_take(&p, n, now);
                sent = now;
            }
            break;
        case 2:
            pace_accepted(&p, n, sent, now);
            ceiling_count_opened(&count, &ceiling, now);
            break;
        case 3:
            pace_refused(&p, n, 0, sent, now);
            ceiling_count_refused(&count, &ceiling, now);
            REQUIRE(ceiling.limit > 0 && ceiling.lowest <= ceiling.limit);
            break;
        case 4:
            pace_refused(&p, n, take_step(c), sent, now);
            break;
        case 5:
            pace_give_back(&p, n, sent);
            break;
        case 6:
            if (count.open > 0) {
                ceiling_count_closed(&count, now);
            }
            (void)!ceiling_permits(&ceiling, ceiling_count_held(&count, now), now);
            break;
        default:
            if (pace_remember(&p, now, &memory)) {
                REQUIRE(pace_recall(&p, &memory, now) == 0);
            } else if (choices_take(c, 4) == 0) {
                pace_set(&p, 1 + choices_take(c, 100), now);
            }
            break;
        }
        check_pace(&p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct choices c = {data + 1, size - 1, 0};
    switch (data[0] % 4) {
    case 0:
        read_text(slice_make((const char *)data + 1, size - 1));
        break;
    case 1:
        run_rate(&c);
        break;
    case 2:
        run_quota(&c);
        break;
    default:
        run_pace(&c);
        break;
    }
    return 0;
}
