/* What sites and lanes cost, in steps and bytes: a site that opens does not walk over what waits there,
 * nor a lane that is due over those that are not. Each scene is counted with few and with many, and
 * the many may take more for the depth of the trees alone. */
#include "sched/sched.h"
#include "tests/unit/steps.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define SITES_MAX 100000
#ifdef SLUICE_SANITIZED
#define MANY 10000 /* nothing is counted there */
#else
#define MANY SITES_MAX
#endif
#define FEW   1000
#define STEPS 100000 /* no single call may take more */

struct scene {
    struct sched *sched;
    size_t allocated; /* bytes of the core */
    long destinations, sites;
    uint32_t sources;
    int site_limit; /* site_concurrency_limit */
    bool is_limited;
    bool is_idle; /* nothing goes out */
    uint64_t next_id;
    struct sched_entry *out[8]; /* [delivered], in flight */
    unsigned delivered, asked;
    struct sched_loan ask; /* the last one */
    char site[24];
    usec_t now,
        due; /* what is asked for is to be asked for again at `due`; 0: it is kept waiting */
};

static void *allocate(void *ctx, size_t size)
{
    struct scene *s = ctx;
    size_t *block = malloc(size + 16);
    if (block == NULL) {
        return NULL;
    }
    *block = size;
    s->allocated += size;
    return (char *)block + 16;
}

static void release(void *ctx, void *obj)
{
    struct scene *s = ctx;
    size_t *block = (size_t *)(void *)((char *)obj - 16);
    s->allocated -= *block;
    free(block);
}

static void release_hosts(void *ctx, void *hosts)
{
}

static struct slice site_of(struct scene *s, long number)
{
    int len = snprintf(s->site, sizeof(s->site), "site%ld", number % s->sites);
    return slice_make(s->site, (size_t)len);
}

static struct sched_lane_key lane_of(struct scene *s, long number, uint32_t source)
{
    return (struct sched_lane_key){site_of(s, number), source};
}

/* "dNUMBER" */
static long number_of(const struct sched_destination *d)
{
    struct slice name = sched_destination_name(d);
    long number = 0;
    for (size_t i = 1; i < name.len; i++) {
        number = 10 * number + (name.data[i] - '0');
    }
    return number;
}

static void resolve(struct scene *s, struct sched_destination *d)
{
    long number = number_of(d);
    struct sched_server server = {.key = {1}, .key_len = 1};
    const struct sched_hosts_result r = {.destination = d,
                                         .resolution = SCHED_RESOLVED,
                                         .hosts = s,
                                         .expires = USEC_NEVER,
                                         .servers = &server,
                                         .server_count = 1,
                                         .site = site_of(s, number)};
    sched_resolved(s->sched, &r, s->now);
    for (uint32_t i = 0; s->is_limited && i < s->sources; i++) {
        assert_true(sched_lane_limit(s->sched, lane_of(s, number, i + 1), true, s->now));
    }
}

static void answer(struct scene *s, const struct sched_loan *ask)
{
    const struct sched_grant later = {.due = s->due, .turn = s->due, .per_second = 1};
    s->asked++;
    s->ask = *ask;
    if (s->due > 0) {
        assert_true(sched_lane_grant(s->sched, ask->lane, &later, s->now));
    }
}

/* Everything that there is to do. */
static void run(void *ctx)
{
    struct scene *s = ctx;
    struct sched_action a;
    while (sched_pull(s->sched, &a, s->now)) {
        if (a.kind == SCHED_RESOLVE) {
            resolve(s, a.destination);
        } else if (a.kind == SCHED_ASK) {
            answer(s, a.loan);
        } else if (a.kind == SCHED_DELIVER) {
            assert_in_range(s->delivered, 0, 7);
            s->out[s->delivered++] = a.entry;
        }
    }
}

static void submit(struct scene *s, long number)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "d%ld", number);
    const struct sched_recipient to = {SLICE("u@example"), slice_of(name), 0, 0};
    const struct sched_message m = {
        .id = ++s->next_id, .handle = s, .recipients = &to, .recipient_count = 1};
    assert_int_equal(sched_submit(s->sched, &m, s->now), 0);
    run(s);
}

/* A message for each destination; windows of one connection. */
static void begin(struct scene *s)
{
    const struct sched_host host = {allocate, release, release, s};
    struct sched_source sources[3];
    struct sched_config c;
    sched_config_defaults(&c);
    c.must_resolve = true;
    c.initial_destination_concurrency = c.destination_concurrency_limit = 1;
    c.message_recipient_limit = 4 * MANY; /* nothing is shed */
    c.recipient_limit = 4 * MANY;
    c.site_concurrency_limit = s->site_limit;
    c.process_limit = s->is_idle ? 1 : 100;
    s->now = USEC_PER_SEC;
    s->sched = sched_new(&c, &host, release_hosts, s->now);
    assert_non_null(s->sched);
    for (uint32_t i = 0; i < s->sources; i++) {
        sources[i] = (struct sched_source){.id = i + 1, .weight = 1, .families = 1};
    }
    assert_int_equal(sched_set_sources(s->sched, sources, s->sources, NULL, s->now), 0);
    for (long i = 0; i < s->destinations; i++) {
        submit(s, i);
    }
}

static void report(struct scene *s, unsigned number)
{
    const struct sched_outcome o = {
        .entry = s->out[number], .feedback = SCHED_POSITIVE, .connection_open = false};
    sched_report(s->sched, &o, s->now);
}

/* Those from `first` on are in flight; what waits is left. */
static void end(struct scene *s, unsigned first)
{
    struct sched_fault fault;
    for (unsigned i = first; i < s->delivered; i++) {
        report(s, i);
    }
    if (s->destinations <= FEW && sched_check(s->sched, &fault) != 0) {
        fail_msg("%s", fault.text);
    }
    sched_free(s->sched);
    assert_int_equal(s->allocated, 0);
}

/* The same call with few and with many: how often the second takes the first. */
static void compare(void (*call)(void *ctx), struct scene *few, struct scene *many)
{
    long of_few = steps_of(call, few, STEPS), of_many = steps_of(call, many, STEPS);
    if (of_few < 0 || of_many < 0) {
        print_message("steps cannot be counted here\n");
        return;
    }
    print_message("%ld steps of few, %ld of many\n", of_few, of_many);
    assert_in_range(of_few, 1, STEPS);
    assert_in_range(of_many, 1, 3 * of_few);
}

/* --- one site ---------------------------------------------------------------------------------- */

static void prepare_site(struct scene *s, long destinations, int site_limit)
{
    *s = (struct scene){
        .destinations = destinations, .sites = 1, .sources = 2, .site_limit = site_limit};
    begin(s);
    assert_int_equal(s->delivered, site_limit == 0 ? 2 : site_limit);
}

static void report_and_run(void *ctx)
{
    struct scene *s = ctx;
    report(s, 0);
    run(s);
}

static void a_window_opens(void **state)
{
    static struct scene few, many;
    prepare_site(&few, FEW, 0);
    prepare_site(&many, MANY, 0);
    compare(report_and_run, &few, &many);
    report_and_run(&many);
    assert_int_equal(many.delivered, 3);
    end(&few, 0);
    end(&many, 1);
}

/* Its limit is reached and left. */
static void a_site_limit_opens(void **state)
{
    static struct scene few, many;
    prepare_site(&few, FEW, 1);
    prepare_site(&many, MANY, 1);
    compare(report_and_run, &few, &many);
    report_and_run(&many);
    assert_int_equal(many.delivered, 2);
    end(&few, 0);
    end(&many, 1);
}

static void close_lane(void *ctx)
{
    struct scene *s = ctx;
    static const struct sched_reason reason = {"4.7.1", "listed"};
    (void)sched_lane_close(s->sched, lane_of(s, 0, 2), USEC_NEVER, &reason, s->now);
    run(s);
}

static void open_lane(void *ctx)
{
    struct scene *s = ctx;
    (void)sched_lane_open(s->sched, lane_of(s, 0, 2), s->now);
    run(s);
}

/* The first of two lanes is full, and the second is closed. */
static void prepare_lane(struct scene *s, long destinations)
{
    *s = (struct scene){.destinations = 1, .sites = 1, .sources = 2};
    begin(s);
    close_lane(s);
    s->destinations = destinations;
    for (long i = 1; i < destinations; i++) {
        submit(s, i);
    }
    assert_int_equal(s->delivered, 1);
}

static void a_lane_opens_and_closes(void **state)
{
    static struct scene few, many;
    prepare_lane(&few, FEW);
    prepare_lane(&many, MANY);
    compare(open_lane, &few, &many);
    open_lane(&few);
    open_lane(&many);
    assert_int_equal(many.delivered, 2);
    compare(close_lane, &few, &many);
    close_lane(&few);
    close_lane(&many);
    end(&few, 0);
    end(&many, 0);
}

static void lend(void *ctx)
{
    struct scene *s = ctx;
    const struct sched_grant lent = {.messages = 1,
                                     .connects = 1,
                                     .recipients = SCHED_NO_BOUND,
                                     .from = s->now,
                                     .until = s->now + USEC_PER_SEC,
                                     .per_second = MANY};
    (void)sched_lane_grant(s->sched, lane_of(s, 0, 1), &lent, s->now);
    run(s);
}

static void a_loan_comes(void **state)
{
    static struct scene few, many;
    few = (struct scene){.destinations = FEW, .sites = 1, .sources = 1, .is_limited = true};
    many = (struct scene){.destinations = MANY, .sites = 1, .sources = 1, .is_limited = true};
    begin(&few);
    begin(&many);
    assert_int_equal(many.asked, 1);
    compare(lend, &few, &many);
    lend(&many);
    assert_int_equal(many.delivered, 1);
    end(&few, 0);
    end(&many, 0);
}

/* --- many sites -------------------------------------------------------------------------------- */

static void wake(void *ctx)
{
    struct scene *s = ctx;
    s->now = sched_wake_at(s->sched);
    run(s);
}

/* Each lane waits for a time of its own, and asks when it has come. */
static void prepare_due(struct scene *s, long sites)
{
    *s = (struct scene){.sites = sites, .sources = 1, .is_limited = true};
    begin(s);
    for (s->destinations = 0; s->destinations < sites; s->destinations++) {
        s->due = 1000 * USEC_PER_SEC + s->destinations * 7919 % sites * USEC_PER_SEC;
        submit(s, s->destinations);
    }
    assert_int_equal(s->asked, sites);
    s->due = 1000000 * USEC_PER_SEC;
}

static void lanes_are_due_one_by_one(void **state)
{
    static struct scene few, many;
    prepare_due(&few, 100);
    prepare_due(&many, 10000);
    assert_int_equal(sched_wake_at(many.sched), 1000 * USEC_PER_SEC);
    compare(wake, &few, &many);
    wake(&many);
    assert_int_equal(many.asked, 10001); /* the one that was due */
    assert_int_equal(sched_wake_at(many.sched), 1001 * USEC_PER_SEC);
    end(&few, 0);
    end(&many, 0);
}

/* 300,000 lanes are as many as there may be; one more site has none, and its mail goes on its own. */
static void lanes_take_their_bytes_and_no_more_of_them(void **state)
{
    static struct scene s, plain;
    plain = (struct scene){.destinations = MANY, .sites = MANY, .sources = 1};
    s = (struct scene){.destinations = MANY, .sites = MANY, .sources = 3};
    plain.is_idle = s.is_idle = true;
    begin(&plain);
    begin(&s);
    long lane = (long)(s.allocated - plain.allocated) / (2 * MANY);
    print_message("%ld bytes a lane\n", lane);
    assert_in_range(lane, 100, 480);
    struct sched_counters c;
    sched_view_counters(s.sched, &c);
    assert_int_equal(c.sites, MANY);
    s.sites++;
    submit(&s, MANY);
    sched_view_counters(s.sched, &c);
    assert_int_equal(c.sites, MANY < SITES_MAX ? MANY + 1 : SITES_MAX);
    end(&plain, 0);
    end(&s, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_opens),
        cmocka_unit_test(a_site_limit_opens),
        cmocka_unit_test(a_lane_opens_and_closes),
        cmocka_unit_test(a_loan_comes),
        cmocka_unit_test(lanes_are_due_one_by_one),
        cmocka_unit_test(lanes_take_their_bytes_and_no_more_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
