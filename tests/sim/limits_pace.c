/* Three transports that share a lane against a receiver that accepts R a second of it (a token
 * bucket, burst max(1, R/10)) and refuses the rest at MAIL, in virtual time: what the three deliver
 * together and what is refused, from 20 s on. The bounds are those of one scheduler's own pace
 * (`sluice-sim pace`). Then the same with a configured rate for the source that is shared with
 * another lane, and one beside it without a pace.
 *
 * usage: limits_pace [SECONDS] */
#include "engine/limit/limits.h"
#include "tests/sim/require.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND USEC_PER_SEC

enum { TRANSPORTS = 3, FLIGHT_MAX = 8192, WARM_SECONDS = 20, WINDOW = 1000 };

struct flight {
    usec_t sent_at, from, back_at;
    bool is_accepted;
};

/* A transport: what is lent to it, and what is on its way. */
struct sender {
    struct limits_borrower *borrower;
    struct limits_hold *hold;
    bool is_limited;
    struct limit_grant grant;
    usec_t next_ask;
    struct flight flights[FLIGHT_MAX];
    uint32_t first, count;
    uint64_t accepted;
};

struct receiver {
    double rate, tokens;
    usec_t last;
};

static struct sender senders[TRANSPORTS];

static bool receive(struct receiver *r, usec_t now)
{
    double burst = r->rate / 10 > 1 ? r->rate / 10 : 1;
    r->tokens += (double)(now - r->last) / SECOND * r->rate;
    r->tokens = r->tokens < burst ? r->tokens : burst;
    r->last = now;
    if (r->tokens < 1) {
        return false;
    }
    r->tokens -= 1;
    return true;
}

static void send_one(struct sender *s, struct receiver *r, usec_t from, usec_t now, usec_t delay)
{
    REQUIRE(s->count < FLIGHT_MAX);
    struct flight *f = &s->flights[(s->first + s->count++) % FLIGHT_MAX];
    *f = (struct flight){now, from, now + delay, receive(r, now)};
}

static void hear(struct sender *s, usec_t now)
{
    struct limit_change change;
    while (limits_next_change(s->borrower, &change, now)) {
        s->is_limited = change.state.is_limited;
        s->next_ask = now;
    }
}

static void report(struct sender *s, const struct flight *f, usec_t now)
{
    struct limit_verdict v;
    if (f->is_accepted) {
        const struct limit_accepted a = {.messages = 1, .recipients = 1, .sent_at = f->from};
        limits_accepted(s->hold, &a, now);
        s->accepted++;
        return;
    }
    const struct limit_refusal said = {.class = REPLY_THROTTLED,
                                       .scope = REPLY_MESSAGES,
                                       .stage = REPLY_AT_MAIL,
                                       .code = 421,
                                       .text = SLICE("4.7.28 slow down"),
                                       .sent_at = f->from};
    limits_refused(s->hold, &said, now, now, &v);
}

/* One step of a sender that always has mail; returns the refusals that it heard of. */
static uint32_t step(struct sender *s, struct receiver *r, usec_t now, usec_t delay)
{
    uint32_t refused = 0;
    while (s->count > 0 && s->flights[s->first].back_at <= now) {
        struct flight f = s->flights[s->first];
        s->first = (s->first + 1) % FLIGHT_MAX;
        s->count--;
        refused += !f.is_accepted;
        report(s, &f, now);
    }
    hear(s, now);
    while (!s->is_limited && s->count < WINDOW) {
        send_one(s, r, now, now, delay);
    }
    if (s->grant.messages > 0 && now >= s->grant.until) {
        limits_repay(s->hold, &(struct limit_units){.messages = s->grant.messages}, now);
        s->grant.messages = 0;
    }
    if (s->is_limited && s->grant.messages == 0 && now >= s->next_ask && s->count < WINDOW) {
        const struct limit_ask ask = {.messages = WINDOW - s->count};
        limits_lend(s->hold, &ask, now, now, &s->grant);
        s->next_ask = s->grant.messages > 0 ? now : s->grant.due;
        hear(s, now);
    }
    while (s->grant.messages > 0 && now >= s->grant.from && s->count < WINDOW) {
        send_one(s, r, s->grant.from, now, delay);
        s->grant.messages--;
    }
    return refused;
}

static usec_t next_time(const struct sender *s, usec_t now)
{
    usec_t next = now + SECOND;
    if (s->count > 0 && s->flights[s->first].back_at < next) {
        next = s->flights[s->first].back_at;
    }
    if (s->is_limited && s->grant.messages == 0 && s->count < WINDOW && s->next_ask < next) {
        next = s->next_ask;
    }
    if (s->is_limited && s->grant.messages > 0) {
        usec_t at = now < s->grant.from ? s->grant.from : s->grant.until;
        next = at < next ? at : next;
    }
    return next > now ? next : now + 100;
}

static struct limits *begin(const struct limit_rules *rules, usec_t now)
{
    struct limits *l = limits_new(&(struct limits_config){.lane_memory = 3600 * SECOND, .seed = 1});
    const struct limit_key key = {SLICE("ip1"), SLICE("site"), SLICE("")};
    REQUIRE(l != NULL);
    for (unsigned i = 0; i < TRANSPORTS; i++) {
        const struct limits_borrower_config config = {.number = i};
        senders[i] = (struct sender){.borrower = limits_borrower_new(l, &config)};
        REQUIRE(senders[i].borrower != NULL);
        REQUIRE(limits_hold(senders[i].borrower, &key, rules, NULL, now, &senders[i].hold) == 0);
    }
    return l;
}

static void end(struct limits *l, usec_t now)
{
    for (unsigned i = 0; i < TRANSPORTS; i++) {
        limits_release(senders[i].hold, now);
        limits_borrower_free(senders[i].borrower);
    }
    limits_free(l);
}

struct scenario {
    double rate;   /* the receiver's */
    double wanted; /* so many a second are to arrive, of which a twentieth may be missing */
    usec_t delay;  /* until a reply is there */
    const struct limit_rules *rules;
    bool is_late; /* each fourth time the threads come up to 15 ms late, else up to 0.5 ms: then a
                    * tenth may be missing */
};

static usec_t lateness(uint64_t *chance)
{
    *chance = *chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t drawn = *chance >> 33;
    return (usec_t)(drawn % 4 == 0 ? drawn / 4 % 15000 : drawn / 4 % 500);
}

static bool run(const struct scenario *c, uint32_t seconds)
{
    double rate = c->rate, wanted = c->wanted;
    usec_t delay = c->delay;
    const struct limit_rules *rules = c->rules;
    uint64_t chance = 1;
    struct receiver r = {.rate = rate, .tokens = 1, .last = SECOND};
    usec_t now = SECOND, warm = now + WARM_SECONDS * SECOND, stop = warm + seconds * SECOND;
    uint64_t before = 0, accepted = 0, refused = 0;
    struct limits *l = begin(rules, now);
    while (now < stop) {
        usec_t next = stop;
        uint32_t heard = 0;
        for (unsigned i = 0; i < TRANSPORTS; i++) {
            heard += step(&senders[i], &r, now, delay + (usec_t)i * delay / 10);
        }
        for (unsigned i = 0; i < TRANSPORTS; i++) {
            usec_t at = next_time(&senders[i], now);
            next = at < next ? at : next;
        }
        refused += now >= warm ? heard : 0;
        now = next + (c->is_late ? lateness(&chance) : 0);
        accepted = senders[0].accepted + senders[1].accepted + senders[2].accepted;
        before = now < warm ? accepted : before;
    }
    accepted -= before;
    double part = (double)accepted / (wanted * seconds);
    double most = 0.01 * (double)accepted + 5.0 * seconds / 60;
    (void)printf("%6g a second, %4lld ms%s: accepted %5.1f %%, refused %4llu of at most %.0f, "
                 "shares %llu %llu %llu\n",
                 rate, (long long)(delay / 1000), c->is_late ? ", late" : "", part * 100,
                 (unsigned long long)refused, most, (unsigned long long)senders[0].accepted,
                 (unsigned long long)senders[1].accepted, (unsigned long long)senders[2].accepted);
    end(l, now);
    double least = c->is_late ? 0.90 : 0.95;
    return part >= least && part <= 1.02 && (double)refused <= most;
}

int main(int argc, char **argv)
{
    static const double rates[] = {2, 20, 200, 2000};
    static const usec_t delays[] = {20000, 500000};
    uint32_t seconds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 120;
    const struct limit_rules none = {0};
    const struct limit_rules half = {.source.messages = {100, 0, SECOND}};
    const struct limit_rules more = {.source.messages = {100000, 0, SECOND},
                                     .site.messages = {3000, 0, SECOND}};
    bool is_well = true;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        for (size_t d = 0; d < sizeof(delays) / sizeof(delays[0]); d++) {
            const struct scenario alone = {rates[i], rates[i], delays[d], &none, false};
            const struct scenario beside = {rates[i], rates[i], delays[d], &more, false};
            const struct scenario late = {rates[i], rates[i], delays[d], &none, true};
            is_well &= run(&alone, seconds);
            is_well &= run(&beside, seconds);
            is_well &= i == 0 || run(&late, seconds); /* at 2 a second chance decides */
        }
    }
    is_well &= run(&(struct scenario){200, 100, 20000, &half, false}, seconds);
    return is_well ? 0 : 1;
}
