/* Four borrowers in threads of their own lend from the same limits, use a part and repay the rest,
 * report what receivers say and hear what becomes of lanes, while an operator closes and opens them,
 * reads reports and writes the memory file, and another thread reads what was done to lanes. At the end a quota is used up to the last message and
 * not beyond, a rate was kept, and all borrowers know the same. Meant for ThreadSanitizer too.
 * STRESS_SECONDS sets how long (default 2). Prints what a report of acceptance costs. */
#include "base/clock.h"
#include "base/thread.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_memory.h"
#include "engine/limit/limits_report.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BORROWERS = 4, LANES = 5, QUOTA = 100000, RATE = 20000, REPORTS = 2000000 };

#define CHECK(is_so)                                                                               \
    do {                                                                                           \
        if (!(is_so)) {                                                                            \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #is_so);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct borrower {
    struct thread thread;
    struct limits_borrower *borrower;
    struct limits_hold *quota, *rate, *said[LANES];
    struct limit_state known[LANES];
    uint64_t chance;
    uint64_t used_of_quota, used_of_rate;
};

static struct limits *limits;
static struct borrower borrowers[BORROWERS];
static _Atomic bool must_end;
static _Atomic uint32_t wakes;
static _Atomic bool has_reaction = true; /* whoever has not looked yet is not woken */

static uint32_t choose(uint64_t *chance, uint32_t below)
{
    *chance = *chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*chance >> 33) % below;
}

static void count_wake(void *ctx)
{
    (void)ctx;
    atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed);
}

static uint32_t lend_some(struct borrower *b, struct limits_hold *h)
{
    struct limit_grant g;
    const struct limit_ask ask = {.messages = 1 + choose(&b->chance, 100)};
    limits_lend(h, &ask, clock_mono(), clock_wall(), &g);
    uint32_t back = choose(&b->chance, g.messages + 1);
    if (back > 0) {
        limits_repay(h, &(struct limit_units){.messages = back}, clock_mono());
    }
    return g.messages - back;
}

static void report_some(struct borrower *b)
{
    struct limit_verdict v;
    usec_t now = clock_mono();
    struct limits_hold *h = b->said[choose(&b->chance, LANES)];
    const struct limit_accepted a = {
        .messages = 1, .recipients = 1, .tenant = choose(&b->chance, 3), .sent_at = now - 100};
    limits_accepted(h, &a, now);
    if (choose(&b->chance, 50) == 0) {
        bool is_throttled = choose(&b->chance, 3) > 0;
        const struct limit_refusal r = {
            .class = is_throttled ? REPLY_THROTTLED : REPLY_BLOCKED,
            .scope = is_throttled ? REPLY_MESSAGES + choose(&b->chance, 5) : REPLY_LANE,
            .stage = REPLY_AT_MAIL,
            .code = 450,
            .text = choose(&b->chance, 4) == 0 ? SLICE("192.0.2.1 is listed") : SLICE("no"),
            .address = SLICE("192.0.2.1"),
            .destination = choose(&b->chance, 2) == 0 ? SLICE("a.example") : SLICE("b.example"),
            .tenant = choose(&b->chance, 3),
            .message = choose(&b->chance, 1000),
            .sent_at = now,
        };
        limits_refused(h, &r, now, clock_wall(), &v);
    }
    if (choose(&b->chance, 2) == 0) {
        limits_connected(h, now, now);
        limits_disconnected(h, now);
    }
}

static void hear(struct borrower *b, usec_t now)
{
    struct limit_change change;
    while (limits_has_changes(b->borrower) && limits_next_change(b->borrower, &change, now)) {
        struct limit_state *known = change.user;
        if (known != NULL && change.kind == LIMIT_CHANGED_LANE) {
            *known = change.state;
        }
    }
}

static void run_borrower(void *arg)
{
    struct borrower *b = arg;
    while (!atomic_load_explicit(&must_end, memory_order_relaxed)) {
        b->used_of_quota += lend_some(b, b->quota);
        b->used_of_rate += lend_some(b, b->rate);
        report_some(b);
        hear(b, clock_mono());
    }
}

static void wake_reader(void *ctx)
{
    (void)ctx;
    atomic_store_explicit(&has_reaction, true, memory_order_release);
}

/* As the writer of the event log: each reaction once, whole, in their order; those that are too old
 * by the time that it comes are lost. */
static void run_reader(void *arg)
{
    uint64_t *count = arg, next = 0;
    struct limit_reaction r;
    while (!atomic_load_explicit(&must_end, memory_order_relaxed)) {
        if (!atomic_exchange_explicit(&has_reaction, false, memory_order_acquire)) {
            (void)usleep(100);
            continue;
        }
        for (uint64_t end = limits_reaction_await(limits); next < end; next++) {
            if (limits_reaction_get(limits, next, &r)) {
                CHECK(strcmp(r.source, "ip1") == 0 && r.site[0] == 's' && r.site[2] == '\0');
                CHECK(r.cause <= LIMIT_DONE_BY_TIME &&
                      limit_reaction_text((enum limit_reaction_kind)r.kind)[0] != '\0');
                ++*count;
            }
        }
    }
}

static struct limit_key lane_key(unsigned lane)
{
    static const char *const sites[LANES] = {"s0", "s1", "s2", "s3", "s4"};
    return (struct limit_key){SLICE("ip1"), slice_of(sites[lane]), SLICE("")};
}

static void run_operator(void *arg)
{
    static struct limit_lane_report page[LIMITS_PAGE_MAX];
    char path[64];
    uint64_t chance = 1;
    (void)arg;
    (void)snprintf(path, sizeof(path), "/tmp/limits_stress.%d", (int)getpid());
    while (!atomic_load_explicit(&must_end, memory_order_relaxed)) {
        uint32_t at = 0, count = 0, more;
        usec_t now = clock_mono();
        while ((more = limits_report(limits, &at, page, 3, now, clock_wall())) > 0) {
            count += more;
        }
        CHECK(count == LANES + BORROWERS + 1);
        struct limit_key key = lane_key(choose(&chance, LANES));
        const struct limit_order order = {.kind = choose(&chance, 4),
                                          .span = 1 + choose(&chance, 20) * USEC_PER_MSEC,
                                          .rate = 100,
                                          .reason = SLICE("stress")};
        CHECK(limits_order(limits, &key, &order, now) == 0);
        if (choose(&chance, 100) == 0) {
            CHECK(limits_memory_save(limits, path, now, clock_wall()) == 0);
        }
    }
    (void)unlink(path);
}

static struct limits_hold *hold(struct borrower *b, const struct limit_key *key,
                                const struct limit_rules *rules, void *user)
{
    struct limits_hold *h;
    CHECK(limits_hold(b->borrower, key, rules, user, clock_mono(), &h) == 0);
    return h;
}

static void make_borrower(struct borrower *b, unsigned number)
{
    static const char *const own[BORROWERS] = {"own0", "own1", "own2", "own3"};
    static const struct limit_rules none;
    const struct limit_rules of_quota = {.source.quota = {QUOTA, 0, 86400 * USEC_PER_SEC}};
    const struct limit_rules of_rate = {.site.messages = {RATE, 0, USEC_PER_SEC}};
    const struct limits_borrower_config config = {.number = number, .wake = count_wake};
    const struct limit_key quota = {SLICE("quota"), slice_of(own[number]), SLICE("")};
    const struct limit_key rate = {SLICE("ip1"), SLICE("rate"), SLICE("")};
    b->chance = number + 1;
    b->borrower = limits_borrower_new(limits, &config);
    CHECK(b->borrower != NULL);
    b->quota = hold(b, &quota, &of_quota, NULL); /* lanes of their own, of one source */
    b->rate = hold(b, &rate, &of_rate, NULL);
    for (unsigned i = 0; i < LANES; i++) {
        struct limit_key key = lane_key(i);
        b->said[i] = hold(b, &key, &none, &b->known[i]);
    }
}

static void end_borrower(struct borrower *b)
{
    struct limit_lane_report report;
    for (unsigned i = 0; i < LANES; i++) {
        struct limit_key key = lane_key(i);
        usec_t now = clock_mono();
        CHECK(limits_report_lane(limits, &key, now, clock_wall(), &report));
        hear(b, now); /* what becomes of a lane by time is not so before it */
        CHECK(b->known[i].is_closed == report.state.is_closed);
        CHECK(b->known[i].most_connections == report.state.most_connections);
        CHECK(b->known[i].most_messages == report.state.most_messages);
        CHECK(b->known[i].is_limited || !report.state.is_limited);
        limits_release(b->said[i], now);
    }
    limits_release(b->quota, clock_mono());
    limits_release(b->rate, clock_mono());
    limits_borrower_free(b->borrower);
}

/* Takes the rest of a day's quota; the time of day that the test was begun in does not matter, but
 * when it runs over midnight there are two quotas. */
static void use_up(struct borrower *b)
{
    struct limit_grant g;
    const struct limit_ask ask = {.messages = 1000};
    do {
        limits_lend(b->quota, &ask, clock_mono(), clock_wall(), &g);
        b->used_of_quota += g.messages;
    } while (g.messages > 0);
}

static void print_cost(struct borrower *b)
{
    struct limit_key key = {SLICE("ip2"), SLICE("free"), SLICE("")};
    static const struct limit_rules none;
    struct limits_hold *h = hold(b, &key, &none, NULL);
    usec_t begin = clock_mono();
    for (unsigned i = 0; i < REPORTS; i++) {
        const struct limit_accepted a = {.messages = 1, .recipients = 1, .sent_at = begin};
        limits_accepted(h, &a, begin + i / 1000);
    }
    usec_t took = clock_mono() - begin;
    (void)printf("%d reports of acceptance, nothing limited: %.1f ns each\n", REPORTS,
                 (double)took * 1000 / REPORTS);
    limits_release(h, clock_mono());
}

int main(void)
{
    const char *text = getenv("STRESS_SECONDS");
    unsigned seconds = text == NULL ? 2 : (unsigned)strtoul(text, NULL, 10);
    uint64_t reactions = 0;
    struct thread operator, reader;
    limits = limits_new(&(struct limits_config){.lane_memory = 3600 * USEC_PER_SEC});
    CHECK(limits != NULL);
    limits_reaction_watch(limits, wake_reader, NULL);
    int64_t day = clock_wall() / (86400 * USEC_PER_SEC);
    usec_t begin = clock_mono();
    for (unsigned i = 0; i < BORROWERS; i++) {
        make_borrower(&borrowers[i], i);
    }
    for (unsigned i = 0; i < BORROWERS; i++) {
        CHECK(thread_start(&borrowers[i].thread, "borrower", run_borrower, &borrowers[i]) == 0);
    }
    CHECK(thread_start(&operator, "operator", run_operator, NULL) == 0);
    CHECK(thread_start(&reader, "reader", run_reader, &reactions) == 0);
    (void)sleep(seconds);
    atomic_store_explicit(&must_end, true, memory_order_relaxed);
    thread_join(&operator);
    thread_join(&reader);
    CHECK(reactions > 0);
    uint64_t of_quota = 0, of_rate = 0;
    for (unsigned i = 0; i < BORROWERS; i++) {
        thread_join(&borrowers[i].thread);
    }
    usec_t elapsed = clock_mono() - begin;
    for (unsigned i = 0; i < BORROWERS; i++) {
        use_up(&borrowers[i]);
        of_quota += borrowers[i].used_of_quota;
        of_rate += borrowers[i].used_of_rate;
    }
    bool is_one_day = clock_wall() / (86400 * USEC_PER_SEC) == day;
    CHECK(of_quota == QUOTA || !is_one_day);
    /* What is lent ahead is for the next 100 ms, the burst is as much, and a loan is worth 10 ms. */
    double most = ((double)elapsed / USEC_PER_SEC + 0.21) * RATE + 1;
    CHECK((double)of_rate <= most);
    (void)printf("quota %llu of %d, rate %llu of at most %.0f, %u wakes, %llu reactions read\n",
                 (unsigned long long)of_quota, QUOTA, (unsigned long long)of_rate, most,
                 (unsigned)wakes, (unsigned long long)reactions);
    print_cost(&borrowers[0]);
    for (unsigned i = 0; i < BORROWERS; i++) {
        end_borrower(&borrowers[i]);
    }
    limits_free(limits);
    return 0;
}
