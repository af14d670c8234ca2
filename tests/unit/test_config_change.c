#include "base/error.h"
#include "engine/config/config_change.h"
#include "engine/config/config_option.h"
#include "engine/config/config_origin.h"
#include "tests/unit/config_sample.h"

#define FIRST                                                                                      \
    "workers = 2\nspool { path = \"/s\" }\n"                                                       \
    "dns { servers = {\"127.0.0.1\", \"[::1]:5300\"} }\n"                                          \
    "listener \"127.0.0.1:1\" { relay_from = {\"127.0.0.0/8\"} }\n"                                \
    "source \"x\" { helo_name = x.example }\npool \"p\" { sources = {x} }\n"                       \
    "transport a {}\ntransport b { source_pool = p }\nroute \"*\" { transport = a }\n"

#define FEEDS "webhook \"https://chat.example:8/T0/secret?key=secret\" {}\ncsv \"/a.csv\" {}\n"

static char told[8192];

static void tell(void *ctx, const char *option, const char *at, const char *why)
{
    size_t len = strlen(told);
    (void)ctx;
    (void)snprintf(told + len, sizeof(told) - len, "%s %s: %s\n", at, option, why);
}

static struct config *load(const char *text)
{
    static struct sample s;
    sample_load(&s, text);
    if (s.config == NULL) {
        fail_msg("%s", s.said);
    }
    return s.config;
}

static void expect_list(const char *text, const char *expected)
{
    struct config *started = load(FIRST), *fresh = load(text);
    const struct config_change_sink sink = {.tell = tell};
    told[0] = '\0';
    config_change_list(started, fresh, &sink);
    assert_string_equal(told, expected);
    config_free(fresh);
    config_free(started);
}

static bool has_rates(const char *a, const char *b)
{
    struct config *x = load(a), *y = load(b);
    struct config_receiver_change receivers;
    assert_int_equal(config_change_receivers(x, y, &receivers), 0);
    bool has = config_change_has_rates(x, y, &receivers);
    config_free(x);
    config_free(y);
    return has;
}

/* Each place where one may stand; nothing else is one. */
static void rates_that_change(void **state)
{
    static const char *const with[] = {
        "tenant t { max_message_rate = \"5/s\" }", "tenant t { max_recipient_rate = \"5/s\" }",
        "tenant t { max_message_quota = \"5/d\" }", "domain d.x { max_message_rate = \"5/s\" }",
        "domain d.x { max_message_quota = \"5/d\" }",
        "provider p { domains = {d.y} site_message_rate = \"5/s\" }",
        "source s { max_message_rate = \"5/s\" }", "source s { warmup = {\"5/d\"} since = \"2026-01-01\" }",
        "transport c { max_connection_rate = \"5/s\" }"};
    (void)state;
    for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++) {
        char a[1024], b[1024];
        (void)snprintf(a, sizeof(a), FIRST "%s\n", with[i]);
        (void)snprintf(b, sizeof(b), FIRST "%s\n", with[i]);
        assert_false(has_rates(a, b));
        *strchr(strstr(b, "= \"5/") == NULL ? strstr(b, "{\"5/") : strstr(b, "= \"5/"), '5') = '6';
        assert_true(has_rates(a, b));
        assert_true(has_rates(a, FIRST));
        assert_true(has_rates(FIRST, a));
    }
    static const char warmup[] = FIRST "source s { warmup = {\"5/d\"} since = \"2026-01-01\" }\n";
    static const char later[] = FIRST "source s { warmup = {\"5/d\"} since = \"2026-01-02\" }\n";
    assert_true(has_rates(warmup, later));
    /* And which sources there are to send. */
#define TWO FIRST "source s { } pool o { sources = {s} } pool q { sources = {x} }\n"
    assert_true(has_rates(TWO, FIRST "source s { } pool o { sources = {s, x} } pool q { sources = {x} }\n"));
    assert_true(has_rates(TWO "transport c { source_pool = o }\n", TWO "transport c { source_pool = q }\n"));
    assert_true(has_rates(TWO "tenant t { pool = o }\n", TWO "tenant t { pool = q }\n"));
    assert_false(has_rates(TWO, TWO));
#undef TWO
    assert_false(has_rates(FIRST "tenant t { weight = 2 }\n", FIRST "tenant t { weight = 3 }\n"));
    assert_false(has_rates(FIRST, FIRST "hostname = other.example\n"));
}

static void what_needs_a_restart(void **state)
{
    (void)state;
    expect_list(FIRST, "");
    expect_list(FIRST "hostname = other.example\nprocess_limit = 7\nroute x.y { transport = b }\n"
                      "source \"y\" {}\npool \"q\" { sources = {y, x} }\n",
                "");
    expect_list("workers = 3\nspool { path = \"/t\" }\ntransport c {}\ntransport b {\n"
                "inet_protocols = ipv6 }\ntransport a {}\nlistener \"127.0.0.1:2\" {}\n"
                "dns { servers = {\"127.0.0.1\"} }\nevent_log { path = none }\n"
                "control { path = \"/s/control\" }\nroute \"*\" { transport = a }\n",
                "f:1 workers: needs a restart\n"
                "f:2 spool.path: needs a restart\n"
                "f:7 listener 127.0.0.1:2: it is new and needs a restart\n"
                "f:4 listener 127.0.0.1:1: it is gone, and stays until a restart\n"
                "f:9 event_log.path: needs a restart\n");
    expect_list(FIRST FEEDS, "");
}

static void what_needs_an_event_log(void **state)
{
    (void)state;
    const struct config_change_sink sink = {.tell = tell};
    struct config *fresh = load(FIRST FEEDS);
    told[0] = '\0';
    config_change_list_feeds(fresh, &sink);
    assert_string_equal(
        told, "f:10 webhook https://chat.example:8: the event log that it reads needs a restart\n"
              "f:11 csv /a.csv: the event log that it reads needs a restart\n");
    config_free(fresh);
}

static void transports_keep_their_numbers(void **state)
{
    (void)state;
    char why[CONFIG_CHANGE_TEXT_MAX], at[CONFIG_ORIGIN_BYTES];
    struct config *started = load(FIRST);
    struct config *fresh = load("transport c {}\ntransport b { process_limit = 3 }\n"
                                "transport a {}\nroute \"*\" { transport = b }\n");
    assert_int_equal(config_change_arrange(started, fresh, 3, why), 0);
    assert_string_equal(fresh->transports[0].name, "a");
    assert_string_equal(fresh->transports[1].name, "b");
    assert_string_equal(fresh->transports[2].name, "c");
    assert_int_equal(fresh->routes[0].transport, 1);
    assert_true(config_origin(fresh, CONFIG_SECTION_TRANSPORT, 1, "process_limit", at));
    assert_string_equal(at, "f:2");
    assert_true(config_origin(fresh, CONFIG_SECTION_TRANSPORT, 2, NULL, at));
    assert_string_equal(at, "f:1");
    /* One is gone: its number stays, with what it was. The others keep theirs. */
    struct config *less = load("transport d {}\ntransport c {}\ntransport a {}\n"
                               "route \"*\" { transport = d }\n");
    assert_int_equal(config_change_arrange(fresh, less, 4, why), 0);
    assert_int_equal(less->transport_count, 4);
    assert_true(less->transports[1].is_gone && !less->transports[2].is_gone);
    assert_string_equal(less->transports[1].name, "b");
    assert_int_equal(less->transports[1].sched.process_limit, 3);
    assert_string_equal(less->transports[3].name, "d");
    assert_int_equal(less->routes[0].transport, 3);
    assert_false(config_origin(less, CONFIG_SECTION_TRANSPORT, 1, NULL, at));
    assert_true(config_origin(less, CONFIG_SECTION_TRANSPORT, 3, NULL, at));
    assert_string_equal(at, "f:1");
    /* It comes back, and one too many is new. */
    struct config *more = load(FIRST "transport d {}\ntransport c {}\n");
    assert_int_equal(config_change_arrange(less, more, 4, why), 0);
    assert_false(more->transports[1].is_gone);
    assert_string_equal(more->transports[1].source_pool, "p");
    struct config *many = load("transport e {}\nroute \"*\" { transport = e }\n");
    assert_int_equal(config_change_arrange(more, many, 4, why), ERR_LIMIT);
    assert_non_null(strstr(why, "there is room for 4"));
    config_free(many);
    config_free(more);
    config_free(less);
    config_free(fresh);
    config_free(started);
}

static void ways_of_connecting(void **state)
{
    static const struct {
        const char *text;
        bool a, b; /* the same way */
    } rows[] = {
        {FIRST, true, true},
        {FIRST "process_limit = 3 destination_concurrency_limit = 1\n", true, true},
        {FIRST "smtp_mail_timeout = 5s\n", false, false},
        {FIRST "hostname = other.example\n", false, false},
        {FIRST "route x.y { transport = a }\n", true, true},
        {FIRST "route x.y { transport = a smtp_tls_security_level = verify }\n", false, true},
        {"source \"x\" { helo_name = z.example }\npool \"p\" { sources = {x} }\n"
         "transport a {}\ntransport b { source_pool = p }\nroute \"*\" { transport = a }\n",
         true, false},
        {"source \"x\" { helo_name = x.example }\npool \"p\" { sources = {x} weights = {2} }\n"
         "transport a {}\ntransport b { source_pool = p }\nroute \"*\" { transport = a }\n",
         true, false},
        {"transport a {}\ntransport b {}\nroute \"*\" { transport = a }\n", true, false},
    };
    (void)state;
    struct config *started = load(FIRST);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config *fresh = load(rows[i].text);
        if (config_change_is_same_way(started, fresh, 0) != rows[i].a ||
            config_change_is_same_way(started, fresh, 1) != rows[i].b) {
            fail_msg("row %zu", i);
        }
        config_free(fresh);
    }
    config_free(started);
}

static void receivers_that_change(void **state)
{
#define SECOND "provider \"p\" { mx = {\"*.a.test\"} max_message_rate = \"5/s\" }\n"
#define THIRD  "domain \"d.test\" { smtp_mail_timeout = 5s }\n"
    static const struct {
        const char *text, *change; /* of members, ways and limits */
    } rows[] = {
        {FIRST THIRD SECOND, ""},
        {FIRST SECOND THIRD "process_limit = 3\n", ""},
        {FIRST SECOND THIRD "domain \"a.test\" {}\n", ""},
        {FIRST SECOND, "w"},
        {FIRST THIRD, "m"},
        {FIRST SECOND "domain \"d.test\" { smtp_mail_timeout = 6s }\n", "w"},
        {FIRST SECOND "domain \"e.test\" { smtp_mail_timeout = 5s }\n", "w"},
        {FIRST SECOND "domain \"d.test\" { smtp_mail_timeout = 5s pipeline_depth = 1 }\n", "mwl"},
        {FIRST THIRD "provider \"p\" { mx = {\"*.a.test\"} max_message_rate = \"6/s\" }\n", "l"},
        {FIRST THIRD "provider \"p\" { mx = {\"*.b.test\"} max_message_rate = \"5/s\" }\n", "m"},
        {FIRST THIRD SECOND "provider \"q\" {}\n", "m"},
        {FIRST SECOND "domain \"d.test\" { smtp_mail_timeout = 5s\n"
                      "smtp_tls_security_level = none }\n",
         "w"}, /* the built-in zero is set */
    };
    (void)state;
    struct config *started = load(FIRST SECOND THIRD);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config *fresh = load(rows[i].text);
        for (int turn = 0; turn < 2; turn++) {
            struct config_receiver_change change;
            char said[8];
            assert_int_equal(config_change_receivers(turn == 0 ? started : fresh,
                                                     turn == 0 ? fresh : started, &change),
                             0);
            (void)snprintf(said, sizeof(said), "%s%s%s", change.has_members ? "m" : "",
                           change.has_ways ? "w" : "", change.has_limits ? "l" : "");
            if (strcmp(said, rows[i].change) != 0) {
                fail_msg("row %zu: %s", i, said);
            }
        }
        config_free(fresh);
    }
    config_free(started);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_that_change),
        cmocka_unit_test(what_needs_a_restart),          cmocka_unit_test(what_needs_an_event_log),
        cmocka_unit_test(transports_keep_their_numbers), cmocka_unit_test(ways_of_connecting),
        cmocka_unit_test(receivers_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
