/* Event lines, parsed by a library that nobody here wrote; delays against the vectors LG; the file
 * through rotation and torn ends. */
#include "engine/event/event.h"
#include "engine/event/event_log.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void delays_have_two_digits(void **state)
{
    static const struct {
        usec_t delay;
        unsigned resolution;
        const char *text;
    } rows[] = {
        {0, 2, "0"},
        {4999, 2, "0"},
        {5000, 2, "0.01"},
        {12345, 2, "0.01"},
        {44000, 2, "0.04"},
        {99500, 2, "0.1"},
        {123456, 2, "0.12"},
        {994999, 2, "0.99"},
        {995000, 2, "1"},
        {1004000, 2, "1"},
        {1049000, 2, "1"},
        {1050000, 2, "1.1"},
        {1234000, 2, "1.2"},
        {3050000, 2, "3.1"},
        {9940000, 2, "9.9"},
        {9950000, 2, "10"},
        {10400000, 2, "10"},
        {10500000, 2, "11"},
        {12345000, 2, "12"},
        {99500000, 2, "100"},
        {100499999, 2, "100"},
        {1234567000, 2, "1235"},
        {123456, 0, "0"},
        {995000, 0, "1"},
        {10500000, 0, "11"},
        {99500, 1, "0.1"},
        {44000, 1, "0"},
        {12345, 3, "0.012"},
        {4999, 3, "0.005"},
        {123456, 3, "0.12"},
        {1, 6, "0.000001"},
        {-5, 2, "0"},
        {432000 * USEC_PER_SEC, 2, "432000"},
    };
    struct buf out;
    buf_init(&out, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&out);
        event_format_delay(&out, rows[i].delay, rows[i].resolution);
        buf_append_char(&out, '\0');
        assert_string_equal(out.data, rows[i].text);
    }
    buf_fini(&out);
}

static void check_delays(struct event_stamps stamps, usec_t total, usec_t a, usec_t b, usec_t c,
                         usec_t d)
{
    struct event_delays delays;
    event_delays(&stamps, &delays);
    assert_int_equal(delays.total, total);
    assert_int_equal(delays.a, a);
    assert_int_equal(delays.b, b);
    assert_int_equal(delays.c, c);
    assert_int_equal(delays.d, d);
}

static void missing_stamps_are_filled(void **state)
{
    check_delays((struct event_stamps){100, 110, 130, 170, 250}, 150, 10, 20, 40, 80);
    check_delays((struct event_stamps){100, 110, 130, 0, 250}, 150, 10, 20, 120, 0);
    check_delays((struct event_stamps){100, 110, 0, 0, 250}, 150, 10, 140, 0, 0);
    check_delays((struct event_stamps){100, 0, 0, 0, 250}, 150, 150, 0, 0, 0);
    check_delays((struct event_stamps){0, 110, 130, 170, 250}, 0, 0, 0, 0, 0);
    check_delays((struct event_stamps){100, 90, 130, 120, 110}, 10, 0, 40, 0, 0);
}

/* Exactly one line; the caller releases the object. */
static json_t *parse(const struct event *event)
{
    struct buf out;
    json_error_t error;
    buf_init(&out, 0);
    event_format(&out, event);
    assert_false(out.failed);
    assert_ptr_equal(memchr(out.data, '\n', out.len), out.data + out.len - 1);
    json_t *object = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (object == NULL) {
        fail_msg("%s: %.*s", error.text, (int)out.len, out.data);
    }
    buf_fini(&out);
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

#define WHEN (1795253382LL * USEC_PER_SEC) /* Sat, 21 Nov 2026 09:29:42 UTC */

static void every_field_has_its_place(void **state)
{
    const struct event_stamps stamps = {WHEN, WHEN + 5000, WHEN + 5000, WHEN + 1005000,
                                        WHEN + 1234567};
    const struct event event = {
        .type = EVENT_DELIVERY,
        .id = SLICE("0001"),
        .sender = SLICE("a@x.example"),
        .recipient = SLICE("\"odd\\\" one\"@y.example"),
        .queue = SLICE("y.example"),
        .transport = SLICE("smtp"),
        .site = SLICE("mx.y.example[192.0.2.1]:25"),
        .size = 4096,
        .response = {.code = 250,
                     .class_ = 2,
                     .subject = 1,
                     .detail = 5,
                     .content = SLICE("queued\r\n\x1b[31mas 17"),
                     .command = SLICE(".")},
        .peer_name = SLICE("mx.y.example"),
        .peer_address = SLICE("192.0.2.1"),
        .created = WHEN,
        .event_time = WHEN + 1234567,
        .num_attempts = 3,
        .egress_source = SLICE("pool-1"),
        .delivery_protocol = SLICE("ESMTP"),
        .reception_protocol = SLICE("HTTP"),
        .nodeid = SLICE("n1"),
        .session_id = SLICE("s1"),
        .tls_cipher = SLICE("TLS_AES_256_GCM_SHA384"),
        .tls_protocol_version = SLICE("TLSv1.3"),
        .tls_verdict = SLICE("DANE"),
        .bounce_classification = SLICE("throttled"),
        .is_tls_resumed = true,
        .is_ambiguous = true,
        .members = SLICE(",\"dkim\":\"signed\",\"dkim_keys\":[\"s._domainkey.x.example\"]"),
        .stamps = &stamps,
        .delay_resolution = 2,
    };
    json_t *o = parse(&event);
    assert_string_equal(text_of(o, "type"), "Delivery");
    assert_string_equal(text_of(o, "id"), "0001");
    assert_string_equal(text_of(o, "sender"), "a@x.example");
    assert_string_equal(text_of(o, "recipient"), "\"odd\\\" one\"@y.example");
    assert_string_equal(text_of(o, "queue"), "y.example");
    assert_string_equal(text_of(o, "transport"), "smtp");
    assert_string_equal(text_of(o, "site"), "mx.y.example[192.0.2.1]:25");
    assert_int_equal(number_of(o, "size"), 4096);
    const json_t *response = json_object_get(o, "response");
    assert_int_equal(number_of(response, "code"), 250);
    assert_string_equal(text_of(response, "content"), "queued\r\n\x1b[31mas 17");
    assert_string_equal(text_of(response, "command"), ".");
    const json_t *enhanced = json_object_get(response, "enhanced_code");
    assert_int_equal(number_of(enhanced, "class"), 2);
    assert_int_equal(number_of(enhanced, "subject"), 1);
    assert_int_equal(number_of(enhanced, "detail"), 5);
    assert_string_equal(text_of(json_object_get(o, "peer_address"), "name"), "mx.y.example");
    assert_string_equal(text_of(json_object_get(o, "peer_address"), "addr"), "192.0.2.1");
    assert_int_equal(number_of(o, "timestamp"), 1795253383);
    assert_int_equal(number_of(o, "created"), 1795253382);
    assert_string_equal(text_of(o, "created_time"), "2026-11-21T09:29:42.000000Z");
    assert_string_equal(text_of(o, "event_time"), "2026-11-21T09:29:43.234567Z");
    assert_int_equal(number_of(o, "num_attempts"), 3);
    assert_string_equal(text_of(o, "egress_source"), "pool-1");
    assert_string_equal(text_of(o, "delivery_protocol"), "ESMTP");
    assert_string_equal(text_of(o, "reception_protocol"), "HTTP");
    assert_string_equal(text_of(o, "nodeid"), "n1");
    assert_string_equal(text_of(o, "session_id"), "s1");
    assert_string_equal(text_of(o, "tls_cipher"), "TLS_AES_256_GCM_SHA384");
    assert_string_equal(text_of(o, "tls_protocol_version"), "TLSv1.3");
    assert_string_equal(text_of(o, "tls_verdict"), "DANE");
    assert_string_equal(text_of(o, "bounce_classification"), "throttled");
    assert_true(json_is_true(json_object_get(o, "is_tls_resumed")));
    assert_true(json_is_true(json_object_get(o, "is_ambiguous")));
    assert_string_equal(text_of(o, "dkim"), "signed");
    assert_string_equal(json_string_value(json_array_get(json_object_get(o, "dkim_keys"), 0)),
                        "s._domainkey.x.example");
    assert_true(json_number_value(json_object_get(o, "delay")) == 1.2);
    const json_t *delays = json_object_get(o, "delays");
    assert_int_equal(json_array_size(delays), 4);
    assert_true(json_number_value(json_array_get(delays, 0)) == 0.01);
    assert_true(json_number_value(json_array_get(delays, 1)) == 0);
    assert_true(json_number_value(json_array_get(delays, 2)) == 1);
    assert_true(json_number_value(json_array_get(delays, 3)) == 0.23);
    json_decref(o);
}

static void empty_fields_are_left_out(void **state)
{
    static const char *const names[EVENT_TYPE_COUNT] = {
        "Reception",   "Delivery",  "TransientFailure", "Bounce",           "Expiration",
        "AdminBounce", "AdminDrop", "Suppressed",       "SuppressionAdded", "SuppressionRemoved",
        "OOB",         "Feedback",  "AutoReply"};
    for (int type = 0; type < EVENT_TYPE_COUNT; type++) {
        const struct event event = {
            .type = (enum event_type)type, .id = SLICE("1"), .recipient_count = type == 0 ? 7 : 0};
        json_t *o = parse(&event);
        assert_string_equal(text_of(o, "type"), names[type]);
        assert_string_equal(text_of(o, "sender"), "");
        assert_int_equal(number_of(o, "size"), 0);
        assert_string_equal(text_of(o, "event_time"), "1970-01-01T00:00:00.000000Z");
        assert_int_equal(json_object_size(o), 7);
        assert_int_equal(number_of(o, "recipient_count"), type == 0 ? 7 : 0);
        json_decref(o);
    }
}

/* Against the C library, through leap days and centuries. */
static void dates_are_those_of_the_calendar(void **state)
{
    for (int64_t day = 0; day < 200 * 366; day++) {
        time_t seconds = (time_t)(day * 86400 + day % 86400);
        struct tm tm;
        char expected[40];
        const struct event event = {.type = EVENT_BOUNCE,
                                    .event_time = (usec_t)seconds * USEC_PER_SEC};
        json_t *o = parse(&event);
        assert_non_null(gmtime_r(&seconds, &tm));
        assert_true(strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000000Z", &tm) > 0);
        assert_string_equal(text_of(o, "event_time"), expected);
        json_decref(o);
        day += day > 400 ? 27 : 0;
    }
}

static char folder[] = "/tmp/sluice-log-XXXXXX";
static char path[64], moved[64];

static void check_file(const char *name, const char *expected)
{
    char content[256];
    int fd = open(name, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, content, sizeof(content) - 1);
    assert_true(n >= 0);
    content[n] = '\0';
    assert_string_equal(content, expected);
    close(fd);
}

static void write_file(const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static void lines_go_to_the_end(void **state)
{
    struct event_log log;
    struct stat st;
    assert_int_equal(event_log_open(&log, path), 0);
    assert_int_equal(event_log_append(&log, SLICE("one\ntwo\n")), 0);
    assert_true(log.has_unsynced);
    assert_int_equal(log.bytes, 8);
    assert_int_equal(event_log_sync(&log), 0);
    assert_false(log.has_unsynced);
    assert_int_equal(event_log_sync(&log), 0);

    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(event_log_append(&log, SLICE("three\n")), 0);
    assert_int_equal(event_log_reopen(&log), 0);
    assert_int_equal(event_log_append(&log, SLICE("four\n")), 0);
    assert_int_equal(event_log_close(&log), 0);
    assert_int_equal(event_log_close(&log), 0);
    assert_int_equal(event_log_append(&log, SLICE("five\n")), -EBADF);
    check_file(moved, "one\ntwo\nthree\n");
    check_file(path, "four\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777 & ~0640, 0);

    write_file("cut of");
    assert_int_equal(event_log_open(&log, path), 0);
    assert_int_equal(event_log_append(&log, SLICE("whole\n")), 0);
    assert_int_equal(event_log_close(&log), 0);
    check_file(path, "cut of\nwhole\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(moved), 0);
}

/* Power loss on ext4: the length is there, the last bytes of it are not. */
static void zeros_at_the_end_go(void **state)
{
    static const char *const before[] = {"one\n", "one\ncut of", ""};
    static const char *const after[] = {"one\nwhole\n", "one\ncut of\nwhole\n", "whole\n"};
    static const off_t zeros[] = {1, 508, 512, 4000};
    struct event_log log;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        for (size_t j = 0; j < sizeof(zeros) / sizeof(zeros[0]); j++) {
            write_file(before[i]);
            assert_int_equal(truncate(path, (off_t)strlen(before[i]) + zeros[j]), 0);
            assert_int_equal(event_log_open(&log, path), 0);
            assert_int_equal(event_log_append(&log, SLICE("whole\n")), 0);
            assert_int_equal(event_log_close(&log), 0);
            check_file(path, after[i]);
        }
    }
    assert_int_equal(unlink(path), 0);
}

/* A batch that fits only in part is taken back, and fits whole once there is room. */
static void a_part_is_taken_back(void **state)
{
    struct event_log log;
    struct rlimit limit;
    assert_int_equal(event_log_open(&log, path), 0);
    assert_int_equal(event_log_append(&log, SLICE("first\n")), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit small = {.rlim_cur = 10, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int err = event_log_append(&log, SLICE("second\nthird\n"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(err, -EFBIG);
    check_file(path, "first\n");
    assert_int_equal(event_log_append(&log, SLICE("second\nthird\n")), 0);
    check_file(path, "first\nsecond\nthird\n");
    assert_int_equal(event_log_close(&log), 0);
    assert_int_equal(unlink(path), 0);
}

static void errors_are_returned(void **state)
{
    struct event_log log;
    assert_int_equal(event_log_open(&log, "/nonexistent/log"), -ENOENT);
    assert_int_equal(event_log_close(&log), 0);
    assert_int_equal(event_log_open(&log, folder), -EISDIR);

    /* A rotation that cannot open goes on with the file there is. */
    assert_int_equal(event_log_open(&log, path), 0);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(event_log_reopen(&log), -EISDIR);
    assert_int_equal(event_log_append(&log, SLICE("still here\n")), 0);
    assert_int_equal(event_log_close(&log), 0);
    check_file(moved, "still here\n");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(unlink(moved), 0);

    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(event_log_open(&log, path), -ENXIO);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(event_log_open(&log, path), 0);
    assert_int_equal(event_log_append(&log, SLICE("to a pipe\n")), 0);
    assert_int_equal(event_log_sync(&log), 0);
    assert_int_equal(event_log_close(&log), 0);
    close(reader);
    assert_int_equal(unlink(path), 0);
}

static int begin(void **state)
{
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/events", folder);
    (void)snprintf(moved, sizeof(moved), "%s/events.1", folder);
    return 0;
}

static int end(void **state)
{
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_have_two_digits),
        cmocka_unit_test(missing_stamps_are_filled),
        cmocka_unit_test(every_field_has_its_place),
        cmocka_unit_test(empty_fields_are_left_out),
        cmocka_unit_test(dates_are_those_of_the_calendar),
        cmocka_unit_test(lines_go_to_the_end),
        cmocka_unit_test(zeros_at_the_end_go),
        cmocka_unit_test(a_part_is_taken_back),
        cmocka_unit_test(errors_are_returned),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
