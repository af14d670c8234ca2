/* The recorder: which sessions stay, what a reader gets, and that the budget holds whatever comes.
 */
#include "engine/trace/flight_recorder.h"
#include "net/smtp_client.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct flight_recorder *recorder;
static uint64_t next_session;
static usec_t now;

static void start(size_t budget)
{
    recorder = flight_recorder_new(budget, 42);
    assert_non_null(recorder);
    next_session = 1;
    now = USEC_PER_SEC;
}

static void stop(void)
{
    flight_recorder_free(recorder);
}

static uint64_t begin(struct flight **slot, const char *destination)
{
    const struct flight_names names = {.destination = slice_of(destination),
                                       .host = SLICE("mx.example.test"),
                                       .address = SLICE("192.0.2.1"),
                                       .source = SLICE("")};
    now += 10;
    flight_begin(recorder, slot, &names, next_session, now);
    return next_session++;
}

static void say(struct flight *f, const char *text)
{
    now += 10;
    flight_append(recorder, f, DIALOGUE_HEARD, slice_of(text), now);
}

/* A whole session; returns its number. */
static uint64_t session(const char *destination, bool fails)
{
    struct flight *f = NULL;
    uint64_t number = begin(&f, destination);
    say(f, "220 hi\r\n");
    if (fails) {
        say(f, "450 4.2.0 not now\r\n");
        flight_fail(recorder, f, SLICE("host said: 450 4.2.0 not now"));
    }
    flight_end(recorder, f);
    assert_null(f);
    return number;
}

static void read_some(struct flight_reading *ret, const char *destination,
                      const struct flight_filter *filter)
{
    flight_reading_init(ret, 1 << 20);
    flight_read(recorder, 0, slice_of(destination), filter, now, ret);
}

static const struct flight_filter everything = {.limit = 100};

static void last_ones_and_last_failures_stay(void **state)
{
    (void)state;
    struct flight_reading r;
    start(1 << 20);
    (void)session("a.test", true);
    uint64_t failed1 = session("a.test", true);
    uint64_t failed2 = session("a.test", true);
    uint64_t last[FLIGHT_LAST];
    for (int i = 0; i < 20; i++) {
        last[i % FLIGHT_LAST] = session("a.test", false);
    }
    (void)session("b.test", false);
    read_some(&r, "a.test", &everything);
    assert_int_equal(r.count, FLIGHT_KEPT_MAX);
    assert_false(r.has_more);
    const struct flight *f = list_first(&r.flights, struct flight, link);
    assert_int_equal(f->session, failed1);
    assert_true(f->is_failed);
    assert_string_equal(f->why, "host said: 450 4.2.0 not now");
    assert_string_equal(f->host, "mx.example.test");
    f = list_next(f, struct flight, link);
    assert_int_equal(f->session, failed2);
    for (int i = 0; i < FLIGHT_LAST; i++) {
        f = list_next(f, struct flight, link);
        assert_int_equal(f->session, last[i]);
        assert_false(f->is_failed);
    }
    flight_reading_fini(&r);
    read_some(&r, "a.test", &(struct flight_filter){.limit = 100, .failed_only = true});
    assert_int_equal(r.count, FLIGHT_FAILED);
    flight_reading_fini(&r);
    read_some(&r, "a.test", &(struct flight_filter){.limit = 1});
    assert_int_equal(r.count, 1);
    assert_true(r.has_more);
    assert_int_equal(list_first(&r.flights, struct flight, link)->session, last[3]);
    flight_reading_fini(&r);
    read_some(&r, "c.test", &everything);
    assert_int_equal(r.count, 0);
    flight_reading_fini(&r);
    stop();
}

static uint32_t count_of(const char *destination)
{
    struct flight_reading r;
    read_some(&r, destination, &everything);
    uint32_t count = r.count;
    flight_reading_fini(&r);
    return count;
}

/* A connection may carry mail of other destinations than it was opened for. */
static void a_session_is_known_by_all_whose_mail_it_carried(void **state)
{
    (void)state;
    struct flight *f = NULL;
    char name[32];
    start(1 << 20);
    (void)begin(&f, "a.test");
    flight_carry(recorder, f, SLICE("a.test"));
    for (int i = 0; i < 3; i++) {
        flight_carry(recorder, f, SLICE("b.test"));
        flight_carry(recorder, f, SLICE("c.test"));
    }
    say(f, "250 yes\r\n");
    assert_int_equal(count_of("a.test"), 1);
    assert_int_equal(count_of("b.test"), 1);
    assert_int_equal(count_of("d.test"), 0);
    flight_end(recorder, f);
    assert_int_equal(count_of("c.test"), 1);
    (void)session("c.test", true);
    assert_int_equal(count_of("c.test"), 2);
    for (int i = 0; i < FLIGHT_KEPT_MAX; i++) { /* it goes where it began */
        (void)session("a.test", false);
    }
    assert_int_equal(count_of("b.test"), 0);
    assert_int_equal(count_of("c.test"), 1);
    (void)begin(&f, "a.test");
    for (int i = 0; i < 1000; i++) { /* of many the last ones are known */
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        flight_carry(recorder, f, slice_of(name));
    }
    assert_int_equal(count_of("d0.test"), 0);
    assert_int_equal(count_of("d999.test"), 1);
    flight_end(recorder, f);
    stop();
}

static void shared_sessions_keep_the_budget(void **state)
{
    (void)state;
    struct flight *f[8] = {NULL};
    char name[32];
    uint32_t random = 1;
    start(20000);
    for (int i = 0; i < 20000; i++) {
        random = random * 1103515245 + 12345;
        struct flight **one = &f[random >> 28 & 7];
        (void)snprintf(name, sizeof(name), "d%u.test", random >> 16 & 31);
        if (*one == NULL) {
            (void)begin(one, name);
        } else if ((random >> 8 & 7) == 0) {
            flight_end(recorder, *one);
        } else if ((random >> 8 & 7) == 1) {
            flight_rest(recorder, *one);
        } else {
            flight_resume(recorder, *one);
            flight_carry(recorder, *one, slice_of(name));
            say(*one, "451 4.3.0 a reply of some length, so that much has to be forgotten\r\n");
            if ((random >> 8 & 7) == 2) {
                flight_fail(recorder, *one, SLICE("why"));
            }
        }
        assert_in_range(flight_recorder_bytes(recorder), 0, 20000);
        (void)count_of(name);
    }
    for (int i = 0; i < 8; i++) {
        flight_end(recorder, f[i]);
    }
    stop();
}

/* A destination that found no room in a session is noted by it at a later delivery. */
static void a_guest_without_room_comes_again(void **state)
{
    (void)state;
    char name[400];
    memset(name, 'x', sizeof(name));
    uint32_t waited = 0;
    for (size_t budget = 900; budget < 3000; budget++) {
        struct flight *f = NULL;
        start(budget);
        (void)begin(&f, "a.test");
        flight_carry(recorder, f, slice_make(name, sizeof(name)));
        flight_carry(recorder, f, SLICE("b.test"));
        waited += f != NULL && count_of("b.test") == 0;
        flight_recorder_set_budget(recorder, 1 << 20);
        flight_carry(recorder, f, SLICE("b.test"));
        assert_int_equal(count_of("b.test"), f == NULL ? 0 : 1);
        flight_end(recorder, f);
        stop();
    }
    assert_in_range(waited, 100, 2000);
}

static void one_under_way_is_read_as_it_is(void **state)
{
    (void)state;
    struct flight_reading r;
    struct flight *f = NULL;
    start(1 << 20);
    uint64_t number = begin(&f, "a.test");
    say(f, "220 hi\r\n");
    usec_t mark = now + 1;
    read_some(&r, "a.test", &everything);
    assert_int_equal(r.count, 1);
    const struct flight *copy = list_first(&r.flights, struct flight, link);
    assert_int_equal(copy->session, number);
    assert_true(copy->is_open);
    assert_int_equal(dialogue_line_count(&copy->dialogue), 1);
    flight_reading_fini(&r);
    read_some(&r, "a.test", &(struct flight_filter){.limit = 9, .after = mark});
    assert_int_equal(r.count, 0);
    flight_reading_fini(&r);
    say(f, "250 ok\r\n");
    read_some(&r, "a.test", &(struct flight_filter){.limit = 9, .after = mark});
    assert_int_equal(r.count, 1);
    flight_reading_fini(&r);
    flight_end(recorder, f);
    stop();
}

static void a_follower_hears_what_it_missed(void **state)
{
    (void)state;
    struct flight_reading r;
    start(1 << 20);
    (void)session("a.test", false);
    now++;
    read_some(&r, "a.test", &everything);
    flight_reading_fini(&r);
    usec_t seen = now;
    for (int i = 0; i < 10; i++) {
        (void)session("a.test", false);
    }
    read_some(&r, "a.test", &(struct flight_filter){.limit = 9, .after = seen});
    assert_int_equal(r.count, FLIGHT_LAST);
    assert_int_equal(r.missed_sessions, 10 - FLIGHT_LAST);
    assert_int_equal(r.missed_lines, 10 - FLIGHT_LAST);
    flight_reading_fini(&r);
    read_some(&r, "a.test", &(struct flight_filter){.limit = 9, .after = now});
    assert_int_equal(r.missed_sessions, 0);
    flight_reading_fini(&r);
    stop();
}

static void the_budget_holds_for_many_destinations(void **state)
{
    (void)state;
    enum { BUDGET = 1 << 20 };
    struct flight_reading r;
    char name[64];
    struct flight *busy[50] = {NULL};
    start(BUDGET);
    for (int i = 0; i < 50; i++) {
        (void)begin(&busy[i], "busy.test");
    }
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        (void)session(name, i % 3 == 0);
        (void)session(name, false);
        for (int k = 0; k < 5; k++) {
            say(busy[i % 50], "250 2.0.0 a reply of some length that is repeated often\r\n");
        }
        assert_in_range(flight_recorder_bytes(recorder), 0, BUDGET);
    }
    /* what was last, and who has few, is still there */
    read_some(&r, "d9999.test", &everything);
    assert_int_equal(r.count, 2);
    flight_reading_fini(&r);
    read_some(&r, "d0.test", &everything);
    assert_int_equal(r.count, 0);
    flight_reading_fini(&r);
    for (int i = 0; i < 50; i++) {
        flight_end(recorder, busy[i]);
    }
    stop();
}

static void a_tiny_budget_records_nothing_and_breaks_nothing(void **state)
{
    (void)state;
    for (size_t budget = 0; budget < 6000; budget += 37) {
        struct flight *f[5] = {NULL};
        start(budget);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 5; i++) {
                if (f[i] == NULL) {
                    (void)begin(&f[i], i % 2 == 0 ? "a.test" : "b.test");
                }
                for (int k = 0; k < 40; k++) {
                    say(f[i], "250 2.0.0 a reply of some length that is repeated often\r\n");
                }
                flight_fail(recorder, f[i], SLICE("no"));
                flight_rest(recorder, f[i]);
                assert_true(flight_recorder_bytes(recorder) <= budget);
            }
            flight_end(recorder, f[round]);
        }
        for (int i = 0; i < 5; i++) {
            flight_end(recorder, f[i]);
        }
        stop();
    }
}

static void another_budget_holds_from_then_on(void **state)
{
    (void)state;
    struct flight *f = NULL;
    start(1 << 20);
    (void)begin(&f, "under.way.test");
    say(f, "220 hi\r\n");
    for (int i = 0; i < 200; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        (void)session(name, false);
    }
    size_t used = flight_recorder_bytes(recorder);
    flight_recorder_set_budget(recorder, 2 << 20);
    assert_int_equal(flight_recorder_bytes(recorder), used);
    flight_recorder_set_budget(recorder, used / 2);
    assert_in_range(flight_recorder_bytes(recorder), 1, used / 2);
    /* What is under way stays; then nothing is begun any more. */
    flight_recorder_set_budget(recorder, 0);
    assert_non_null(f);
    assert_true(flight_recorder_bytes(recorder) > 0);
    struct flight *none = NULL;
    (void)begin(&none, "none.test");
    assert_null(none);
    say(f, "250 ok\r\n");
    flight_end(recorder, f);
    flight_recorder_set_budget(recorder, 0);
    assert_int_equal(flight_recorder_bytes(recorder), 0);
    flight_recorder_set_budget(recorder, 1 << 20);
    assert_true(session("again.test", false) > 0);
    assert_true(flight_recorder_bytes(recorder) > 0);
    stop();
}

static void many_idle_ones_cost_little(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    start(64 << 20);
    struct flight **f = calloc(COUNT, sizeof(*f));
    struct flight_reading r;
    for (int i = 0; i < COUNT; i++) {
        (void)begin(&f[i], i % 2 == 0 ? "a.test" : "b.test");
        for (int k = 0; k < 10; k++) {
            say(f[i], "250 2.0.0 a reply of some length that is repeated often\r\n");
        }
        flight_rest(recorder, f[i]);
        flight_rest(recorder, f[i]);
    }
    assert_in_range(flight_recorder_bytes(recorder), 1, 200 << 10);
    assert_null(f[0]);
    assert_non_null(f[COUNT - 1]);
    flight_resume(recorder, f[COUNT - 1]);
    say(f[COUNT - 1], "421 bye\r\n");
    read_some(&r, "b.test", &(struct flight_filter){.limit = 100, .after = now});
    assert_int_equal(r.count, 1);
    flight_reading_fini(&r);
    for (int i = 0; i < COUNT; i++) {
        flight_end(recorder, f[i]);
    }
    free(f);
    stop();
}

static void a_failure_outlives_what_follows_it(void **state)
{
    (void)state;
    struct flight_reading r;
    struct flight *f = NULL;
    start(1 << 20);
    uint64_t number = begin(&f, "a.test");
    for (int i = 0; i < 400; i++) {
        say(f, "250 2.0.0 a reply of some length that is repeated often\r\n");
        if (i == 100 || i == 110) {
            say(f, i == 100 ? "450 4.2.0 first\r\n" : "450 4.2.0 second\r\n");
            flight_fail(recorder, f, SLICE("450"));
        }
    }
    read_some(&r, "a.test", &everything);
    assert_int_equal(r.count, 2); /* the excerpt, and the session */
    const struct flight *copy = list_first(&r.flights, struct flight, link);
    assert_int_equal(copy->session, number);
    assert_true(copy->is_excerpt && copy->is_failed);
    struct dialogue_cursor c;
    struct dialogue_line line;
    struct buf text = {.limit = 0};
    bool has_second = false;
    dialogue_begin_reading(&copy->dialogue, &c);
    while (dialogue_next_line(&c, &line, &text)) {
        buf_append_char(&text, '\0');
        has_second = has_second || strcmp(text.data, "450 4.2.0 second") == 0;
    }
    assert_true(has_second);
    buf_fini(&text);
    flight_reading_fini(&r);
    flight_end(recorder, f);
    stop();
}

static void secrets_are_in_no_copy(void **state)
{
    (void)state;
    struct smtp_client_config config;
    smtp_client_config_defaults(&config);
    config.auth_user = SLICE("user");
    config.auth_password = SLICE("secret");
    struct flight *f = NULL;
    struct flight_reading r;
    start(1 << 20);
    (void)begin(&f, "a.test");
    f->auth = &config;
    flight_auth(recorder, f, SLICE("AUTH PLAIN AHVzZXIAc2VjcmV0\r\n"), now);
    say(f, "535 AHVzZXIAc2VjcmV0 or c2VjcmV0 that is secret\r\n");
    flight_fail(recorder, f, SLICE("said: secret c2VjcmV0"));
    for (int round = 0; round < 2; round++) { /* under way, and over */
        read_some(&r, "a.test", &everything);
        assert_int_equal(r.count, 1);
        const struct flight *copy = list_first(&r.flights, struct flight, link);
        struct dialogue_cursor c;
        struct dialogue_line line;
        struct buf text = {.limit = 0};
        dialogue_begin_reading(&copy->dialogue, &c);
        assert_true(dialogue_next_line(&c, &line, &text));
        assert_memory_equal(text.data, "AUTH PLAIN ***", text.len);
        assert_true(dialogue_next_line(&c, &line, &text));
        assert_memory_equal(text.data, "535 **************** or ******** that is ******", 47);
        assert_string_equal(copy->why, "said: ****** ********");
        buf_fini(&text);
        flight_reading_fini(&r);
        flight_end(recorder, f);
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_ones_and_last_failures_stay),
        cmocka_unit_test(a_session_is_known_by_all_whose_mail_it_carried),
        cmocka_unit_test(shared_sessions_keep_the_budget),
        cmocka_unit_test(a_guest_without_room_comes_again),
        cmocka_unit_test(one_under_way_is_read_as_it_is),
        cmocka_unit_test(a_follower_hears_what_it_missed),
        cmocka_unit_test(the_budget_holds_for_many_destinations),
        cmocka_unit_test(a_tiny_budget_records_nothing_and_breaks_nothing),
        cmocka_unit_test(another_budget_holds_from_then_on),
        cmocka_unit_test(many_idle_ones_cost_little),
        cmocka_unit_test(a_failure_outlives_what_follows_it),
        cmocka_unit_test(secrets_are_in_no_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
