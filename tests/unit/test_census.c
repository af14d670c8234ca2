/* Counts over a spool on a real folder: facts, states, filters, pages, bounds; and how many
 * messages are in each state (queue_figures.h). */
#include "base/error.h"
#include "base/packed.h"
#include "engine/census/census.h"
#include "engine/census/queue_figures.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/reply/reply_set.h"
#include "engine/spool/spool_record.h"
#include "engine/spool/spool_store.h"
#include "engine/state/source_table.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "source \"s1\" { address = 127.0.0.2 }\n"
    "source \"s2\" { address = 127.0.0.3 }\n"
    "pool \"both\" { sources = {\"s1\", \"s2\"} }\n"
    "transport smtp {}\n"
    "transport slow { source_pool = both }\n"
    "route \"slow.example\" { transport = slow }\n"
    "route \".relay.example\" { transport = slow nexthop = \"[127.0.0.9]:25\" }\n"
    "route \"one.example\" { transport = smtp }\n"
    "route \"two.example\" { transport = smtp }\n";

static char folder[128];
static struct spool_store *store;
static struct spool_reader *reader;
static struct config *config;
static struct router *router;
static struct source_table *sources;
static const struct reply_set *replies; /* NULL: no rules */
static uint64_t next_id;

static void complain(void *ctx, bool is_warning, const char *line)
{
    print_message("%s\n", line);
}

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    char why[SOURCE_TABLE_TEXT_MAX] = "";
    (void)snprintf(folder, sizeof(folder), "%s/spool.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    struct spool_options options = {.path = folder, .map_size = 1u << 30};
    const struct config_sink sink = {.complain = complain};
    next_id = 0;
    return spool_store_open(&options, &store, why) != 0 || spool_reader_new(store, &reader) != 0 ||
           config_load_text(text, "test", &sink, &config) != 0 ||
           (router = router_new(config)) == NULL ||
           source_table_new(config, NULL, &sources, why) != 0;
}

static int teardown(void **state)
{
    char command[160];
    router_free(router);
    source_table_free(sources);
    config_free(config);
    spool_reader_free(reader);
    spool_store_close(store);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static struct spool_txn *begin(void)
{
    struct spool_txn *t = NULL;
    assert_int_equal(spool_begin(store, &t), 0);
    return t;
}

/* A message to addresses separated by blanks. */
static struct spool_position put(struct spool_txn *t, const char *tenant, const char *campaign,
                                 const char *recipients, usec_t age, usec_t not_before)
{
    char packed[4096];
    size_t len = 0;
    uint32_t count = 0;
    struct slice rest = slice_of(recipients);
    while (rest.len > 0) {
        size_t end = slice_find(rest, ' ');
        assert_true(packed_fill(packed, sizeof(packed), &len, slice_to(rest, end)));
        rest = slice_from(rest, end < rest.len ? end + 1 : end);
        count++;
    }
    struct spool_position at;
    struct spool_envelope e = {.id = ++next_id,
                               .created = clock_wall() - age,
                               .recipient_count = count,
                               .sender = SLICE("Sales@back.example"),
                               .tenant = slice_of(tenant),
                               .campaign = slice_of(campaign),
                               .not_before = not_before};
    assert_int_equal(spool_put_message(t, &e, slice_make(packed, len), SLICE("body"), &at), 0);
    return at;
}

static void settle(struct spool_txn *t, struct spool_position at, uint32_t count, uint32_t index,
                   enum spool_recipient_state state)
{
    const struct spool_retry retry = {.attempts = 1, .due = 1};
    struct spool_position to = {SPOOL_DEFERRED, 1, at.id, 0};
    assert_int_equal(spool_set_recipient(t, at.id, count, index, state, NULL), 0);
    assert_int_equal(spool_requeue(t, &at, &to, &retry), 0);
}

/* Five messages: ids 1 to 5. */
static void fill(void)
{
    struct spool_txn *t = begin();
    (void)put(t, "acme", "spring", "a@One.example b@one.example c@two.example", 0, 0);
    settle(t, put(t, "acme", "", "a@slow.example b@one.example", 600 * USEC_PER_SEC, 0), 2, 1,
           SPOOL_RECIPIENT_DELIVERED);
    settle(t, put(t, "globex", "", "a@x.relay.example", 7200 * USEC_PER_SEC, 0), 1, 0,
           SPOOL_RECIPIENT_DEFERRED);
    (void)put(t, "globex", "spring", "a@two.example", 0, USEC_NEVER);
    (void)put(t, "", "", "a@nowhere.example", 5 * 86400 * USEC_PER_SEC, 0);
    assert_int_equal(spool_commit(t), 0);
}

static const uint64_t active[] = {1};

static struct queue_source source(void)
{
    return (struct queue_source){
        .reader = reader,
        .config = config,
        .router = router,
        .sources = sources,
        .replies = replies,
        .active = active,
        .active_count = 1,
    };
}

static struct census_result *take(uint32_t by, struct queue_filter filter)
{
    struct queue_source from = source();
    struct census_query query = {.by = by, .filter = filter};
    struct census_result *c = NULL;
    assert_int_equal(census_take(&from, &query, &c), 0);
    return c;
}

/* "value/value recipients messages, ..." in the order of the rows. */
static void expect(uint32_t by, struct queue_filter filter, const char *wanted)
{
    char got[2048] = "";
    size_t len = 0;
    struct census_result *c = take(by, filter);
    for (size_t i = 0; i < c->row_count; i++) {
        for (unsigned word = 0; word < CENSUS_WORD_COUNT; word++) {
            if ((by & 1u << word) != 0) {
                struct slice value = census_row_value(c, &c->rows[i], word);
                len +=
                    (size_t)snprintf(got + len, sizeof(got) - len, SLICE_FMT "/", SLICE_ARG(value));
            }
        }
        len += (size_t)snprintf(got + len, sizeof(got) - len, " %d %d, ",
                                (int)c->rows[i].recipients, (int)c->rows[i].messages);
    }
    census_result_free(c);
    assert_string_equal(got, wanted);
}

#define BY(word) (1u << (word))

static void test_words(void **state)
{
    assert_int_equal(census_word_find(SLICE("tenant")), SELECTOR_TENANT);
    assert_int_equal(census_word_find(SLICE("state")), CENSUS_STATE);
    assert_int_equal(census_word_find(SLICE("age")), CENSUS_AGE);
    assert_int_equal(census_word_find(SLICE("Age")), CENSUS_WORD_COUNT);
    assert_int_equal(census_word_find(SLICE("class")), CENSUS_CLASS);
    assert_int_equal(queue_state_find(SLICE("suspended")), QUEUE_SUSPENDED);
    assert_int_equal(queue_state_find(SLICE("")), QUEUE_STATE_COUNT);
    assert_string_equal(census_age_text(-5), "<1m");
    assert_string_equal(census_age_text(60 * USEC_PER_SEC), "1m-5m");
    assert_string_equal(census_age_text(3599 * USEC_PER_SEC), "15m-1h");
    assert_string_equal(census_age_text(86400 * USEC_PER_SEC), "1d-3d");
    assert_string_equal(census_age_text(3 * 86400 * USEC_PER_SEC), ">3d");
}

static void test_empty(void **state)
{
    struct census_result *c = take(0, (struct queue_filter){0});
    assert_int_equal(c->row_count, 0);
    assert_int_equal(c->messages, 0);
    assert_int_equal(c->other.recipients, 0);
    census_result_free(c);
}

static void test_groups(void **state)
{
    const struct queue_filter all = {0};
    fill();
    expect(0, all, " 7 5, ");
    expect(BY(SELECTOR_TENANT), all, "acme/ 4 2, globex/ 2 2, / 1 1, ");
    expect(BY(CENSUS_STATE), all, "active/ 3 1, deferred/ 2 2, incoming/ 1 1, scheduled/ 1 1, ");
    expect(BY(SELECTOR_DOMAIN), all,
           "one.example/ 2 1, two.example/ 2 2, slow.example/ 1 1, nowhere.example/ 1 1, "
           "x.relay.example/ 1 1, ");
    expect(BY(SELECTOR_DESTINATION) | BY(SELECTOR_TRANSPORT), all,
           "one.example/smtp/ 2 1, two.example/smtp/ 2 2, // 1 1, "
           "slow.example/slow/ 1 1, [127.0.0.9]:25/slow/ 1 1, ");
    expect(BY(SELECTOR_SOURCE), all, "/ 5 3, s1,s2/ 2 2, ");
    expect(BY(SELECTOR_CAMPAIGN) | BY(CENSUS_AGE), all,
           "spring/<1m/ 4 2, />3d/ 1 1, /1h-4h/ 1 1, /5m-15m/ 1 1, ");
}

static struct queue_filter with(const char *word, const char *value)
{
    struct queue_filter f = {0};
    assert_int_equal(selector_set(&f.selector, slice_of(word), slice_of(value)), 0);
    return f;
}

/* Of what the spool keeps of a reply, by the rules in force; without rules there is none. */
static void test_classes(void **state)
{
    static const struct {
        uint16_t code;
        const char *status, *text;
    } said[] = {
        {421, "4.7.28", "host mx[192.0.2.1] said: 421 4.7.28 slow (in reply to MAIL FROM command)"},
        {421, "4.7.28", "host mx[192.0.2.1] said: 421 4.7.28 slow (in reply to MAIL FROM command)"},
        {452, "4.2.2", "host mx[192.0.2.1] said: 452 4.2.2 full (in reply to RCPT TO command)"},
        {451, "4.3.0", "host mx[192.0.2.1] said: 451 4.3.0 my own words"},
        {0, "4.4.1", "connect to mx[192.0.2.1]:25: timed out"},
    };
    const struct config_sink sink = {.complain = complain};
    const char *rules =
        "rule \"mine\" { text = 'my own words' class = content example = \"451 my own words\" }\n";
    struct reply_set *set = NULL;
    assert_int_equal(reply_set_load_text(slice_of(rules), "mine", &sink, &set), 0);
    fill();
    struct spool_txn *t = begin();
    struct spool_position at = put(t, "umbrella", "",
                                   "a@one.example b@one.example c@one.example "
                                   "d@one.example e@one.example f@one.example",
                                   0, 0);
    for (uint32_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        const struct spool_reason reason = {.state = SPOOL_RECIPIENT_DEFERRED,
                                            .code = said[i].code,
                                            .status = slice_of(said[i].status),
                                            .text = slice_of(said[i].text)};
        assert_int_equal(spool_set_recipient(t, at.id, 6, i, SPOOL_RECIPIENT_DEFERRED, &reason), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    expect(BY(CENSUS_CLASS), (struct queue_filter){0}, "/ 13 6, ");
    replies = set;
    struct queue_filter mine = with("tenant", "umbrella");
    expect(BY(SELECTOR_TENANT) | BY(CENSUS_CLASS), mine,
           "umbrella// 2 1, umbrella/throttled/ 2 1, umbrella/full/ 1 1, umbrella/content/ 1 1, ");
    selector_fini(&mine.selector);
    replies = NULL;
    reply_set_free(set);
}

static void test_filters(void **state)
{
    static const struct {
        const char *word, *value, *wanted;
    } rows[] = {
        {"tenant", "AC*", "acme/ 4 2, "},
        {"campaign", "spring", "acme/ 3 1, globex/ 1 1, "},
        {"domain", "one.example", "acme/ 2 1, "},
        {"destination", "[127.*", "globex/ 1 1, "},
        {"transport", "smtp", "acme/ 3 1, globex/ 1 1, "},
        {"source", "s2", "acme/ 1 1, globex/ 1 1, "},
        {"tenant", "nobody", ""},
    };
    fill();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct queue_filter f = with(rows[i].word, rows[i].value);
        expect(BY(SELECTOR_TENANT), f, rows[i].wanted);
        selector_fini(&f.selector);
    }
    expect(BY(SELECTOR_TENANT), (struct queue_filter){.sender = (char[]){"sales@*"}},
           "acme/ 4 2, globex/ 2 2, / 1 1, ");
    expect(BY(SELECTOR_TENANT), (struct queue_filter){.sender = (char[]){"a*"}}, "");
    expect(BY(SELECTOR_TENANT), (struct queue_filter){.recipient = (char[]){"c@*"}}, "acme/ 1 1, ");
    expect(BY(SELECTOR_TENANT),
           (struct queue_filter){.states = BY(QUEUE_DEFERRED) | BY(QUEUE_SCHEDULED)},
           "globex/ 2 2, acme/ 1 1, ");
    expect(BY(SELECTOR_TENANT),
           (struct queue_filter){.created_before = clock_wall() - 3600 * USEC_PER_SEC},
           "/ 1 1, globex/ 1 1, ");
}

static void test_filter_copy(void **state)
{
    struct queue_filter copy, f = with("tenant", "a");
    f.sender = strdup("x*");
    f.states = 3;
    assert_int_equal(queue_filter_copy(&copy, &f), 0);
    assert_true(queue_filter_eq(&copy, &f));
    free(copy.sender);
    copy.sender = NULL;
    assert_false(queue_filter_eq(&copy, &f));
    queue_filter_fini(&copy);
    assert_false(queue_filter_eq(&copy, &f));
    assert_null(copy.selector.value[SELECTOR_TENANT]);
    queue_filter_fini(&f);
}

static bool suspends_globex(void *ctx, const struct slice facts[static SELECTOR_COUNT],
                            usec_t received)
{
    return slice_eq(facts[SELECTOR_TENANT], SLICE("globex")) &&
           slice_eq(facts[SELECTOR_TRANSPORT], SLICE("slow"));
}

static void test_suspended(void **state)
{
    struct queue_source from = source();
    from.is_suspended = suspends_globex;
    struct census_query query = {.filter = {.states = BY(QUEUE_SUSPENDED)}};
    struct census_result *c = NULL;
    fill();
    assert_int_equal(census_take(&from, &query, &c), 0);
    assert_int_equal(c->recipients, 1);
    census_result_free(c);
}

static void expect_figures(const struct queue_figures *f, uint64_t incoming, uint64_t active_now,
                           uint64_t deferred, uint64_t scheduled, uint64_t suspended)
{
    assert_int_equal(f->states[QUEUE_INCOMING], incoming);
    assert_int_equal(f->states[QUEUE_ACTIVE], active_now);
    assert_int_equal(f->states[QUEUE_DEFERRED], deferred);
    assert_int_equal(f->states[QUEUE_SCHEDULED], scheduled);
    assert_int_equal(f->states[QUEUE_SUSPENDED], suspended);
    assert_int_equal(f->messages, incoming + active_now + deferred + scheduled + suspended);
}

static bool suspends_two(void *ctx, const struct slice facts[static SELECTOR_COUNT],
                         usec_t received)
{
    return slice_eq(facts[SELECTOR_DOMAIN], SLICE("two.example"));
}

/* A message is suspended when all of it is that is not done; active and scheduled ones as in
 * counts.
 */
static void test_figures_by_walk(void **state)
{
    struct queue_source from = source();
    struct queue_figures f;
    fill();
    assert_int_equal(queue_figures_walk(&from, &f), 0);
    expect_figures(&f, 1, 1, 2, 1, 0);
    from.is_suspended = suspends_globex;
    assert_int_equal(queue_figures_walk(&from, &f), 0);
    expect_figures(&f, 1, 1, 1, 1, 1);
    from.is_suspended = suspends_two;
    from.active_count = 0;
    assert_int_equal(queue_figures_walk(&from, &f), 0);
    expect_figures(&f, 2, 0, 2, 0, 1); /* one with a recipient elsewhere as well is incoming */
    struct spool_txn *t = begin();
    settle(t, put(t, "done", "", "a@one.example", 0, 0), 1, 0, SPOOL_RECIPIENT_DELIVERED);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(queue_figures_walk(&from, &f), 0);
    expect_figures(&f, 2, 0, 2, 0, 1); /* nothing of it is left */
}

static void test_figures_without_a_walk(void **state)
{
    struct queue_figures f;
    struct queue_figures_known known = {
        .waiting = {70, 20, 9}, .active_of = {50, 5, 2}, .active = 60, .scheduled = 3};
    queue_figures_derive(&known, &f);
    expect_figures(&f, 20, 60, 15, 7, 0);
    known.is_held_suspended = true;
    queue_figures_derive(&known, &f);
    expect_figures(&f, 20, 60, 15, 3, 4);
    known.scheduled = 100; /* fewer are left */
    queue_figures_derive(&known, &f);
    expect_figures(&f, 20, 60, 15, 7, 0);
    known.active_of[SPOOL_INCOMING] = 71; /* what the journal alone has is active as well */
    queue_figures_derive(&known, &f);
    expect_figures(&f, 0, 60, 15, 7, 0);
}

static void test_messages(void **state)
{
    struct queue_source from = source();
    struct queue_filter f = with("domain", "two.example");
    struct queue_walk w;
    fill();
    queue_walk_begin(&w, &from, &f, 1, false);
    uint64_t found = 0;
    while (queue_walk_next(&w)) {
        if (queue_walk_fits(&w)) {
            found = found * 10 + w.message.envelope.id;
        }
    }
    assert_int_equal(w.error, 0);
    queue_walk_end(&w);
    assert_int_equal(found, 4);
    selector_fini(&f.selector);
}

static bool stop_at_second(void *ctx, struct queue_walk *w)
{
    queue_walk_configure(w, config, router, sources, NULL);
    return ++*(int *)ctx < 2;
}

/* More messages than a page has, and a walk that is told to stop. */
static void test_pages(void **state)
{
    enum { MESSAGES = 1700 };
    struct spool_txn *t = begin();
    for (int i = 0; i < MESSAGES; i++) {
        (void)put(t, "t", "", "a@one.example", 0, 0);
    }
    assert_int_equal(spool_commit(t), 0);
    expect(BY(SELECTOR_DESTINATION), (struct queue_filter){0}, "one.example/ 1700 1700, ");
    int calls = 0;
    struct queue_source from = source();
    from.between = stop_at_second;
    from.ctx = &calls;
    struct census_query query = {0};
    struct census_result *c = NULL;
    assert_int_equal(census_take(&from, &query, &c), -ECANCELED);
    assert_null(c);
    assert_int_equal(calls, 2);
}

/* A stranger may write to as many domains as he likes. */
static void test_bounds(void **state)
{
    enum { EXTRA = 50, EACH = 100 };
    for (int i = 0; i < (CENSUS_ROWS_MAX + EXTRA) / EACH; i += 100) {
        struct spool_txn *t = begin();
        for (int j = i; j < i + 100 && j < (CENSUS_ROWS_MAX + EACH) / EACH; j++) {
            char recipients[4000] = "";
            size_t len = 0;
            for (int k = 0; k < EACH; k++) {
                len += (size_t)snprintf(recipients + len, sizeof(recipients) - len,
                                        "%sa@d%d.example", k == 0 ? "" : " ", j * EACH + k);
            }
            (void)put(t, "t", "", recipients, 0, 0);
        }
        assert_int_equal(spool_commit(t), 0);
    }
    struct spool_txn *t = begin();
    (void)put(t, "t", "", "a@last.example b@last.example", 0, 0);
    assert_int_equal(spool_commit(t), 0);
    struct census_result *c = take(BY(SELECTOR_DOMAIN), (struct queue_filter){0});
    assert_int_equal(c->row_count, CENSUS_ROWS_MAX);
    assert_int_equal(c->recipients, next_id * EACH - EACH + 2);
    assert_int_equal(c->other.recipients, c->recipients - CENSUS_ROWS_MAX);
    assert_true(c->other.messages >= 1);
    census_result_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_filter_copy),
        cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suspended, setup, teardown),
        cmocka_unit_test_setup_teardown(test_figures_by_walk, setup, teardown),
        cmocka_unit_test(test_figures_without_a_walk),
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
