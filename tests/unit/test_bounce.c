/* Notices: their parts, and what strangers cannot do to them. A parser that nobody here wrote reads
 * them in tests/integration/test_bounce_format.py. */
#include "base/error.h"
#include "engine/writer/bounce.h"
#include "tests/unit/bounce_check.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHEN (1795253382LL * USEC_PER_SEC) /* Sat, 21 Nov 2026 09:29:42 UTC */

static const struct bounce_config config = {.hostname = SLICE("relay.example"),
                                            .size_limit = 50000,
                                            .now = WHEN + 60 * USEC_PER_SEC,
                                            .retry_until = WHEN + 432000 * USEC_PER_SEC,
                                            .unique = 0x1234};

static const struct slice simple_parts[] = {
    SLICE("Subject: hello\r\nFrom: a@x.example\r"),
    SLICE("\n\r\nbody line\r\n"),
};

static const struct bounce_message simple = {.id = SLICE("0A1B"),
                                             .sender = SLICE("a@x.example"),
                                             .arrival = WHEN,
                                             .parts = simple_parts,
                                             .part_count = 2};

static const struct bounce_recipient failed = {.address = SLICE("b@y.example"),
                                               .status = SLICE("5.1.1"),
                                               .diagnostic = SLICE("550 5.1.1 no such user"),
                                               .remote_mta = SLICE("mx.y.example"),
                                               .is_reply = true};

/* The notice as a string that the caller frees. */
static char *format(const struct bounce_config *c, const struct bounce_message *m,
                    enum bounce_kind kind, const struct bounce_recipient *r, size_t count,
                    bool *ret_smtputf8)
{
    struct buf out;
    size_t len;
    buf_init(&out, 0);
    assert_int_equal(bounce_format(&out, c, m, &(struct bounce_news){kind, r, count}, ret_smtputf8),
                     0);
    const char *wrong = bounce_check(buf_slice(&out));
    if (wrong != NULL) {
        fail_msg("%s in:\n%.*s", wrong, (int)out.len, out.data);
    }
    buf_append_char(&out, '\0');
    return buf_detach(&out, &len);
}

static void expect(const char *text, const char *piece)
{
    assert_non_null(text);
    if (strstr(text, piece) == NULL) {
        fail_msg("'%s' is not in:\n%s", piece, text);
    }
}

static void refuse(const char *text, const char *piece)
{
    assert_non_null(text);
    if (strstr(text, piece) != NULL) {
        fail_msg("'%s' is in:\n%s", piece, text);
    }
}

static void a_failure_is_told_three_times(void **state)
{
    bool is_utf8 = true;
    char *text = format(&config, &simple, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    assert_false(is_utf8);
    expect(text, "Date: Sat, 21 Nov 2026 09:30:42 +0000\r\n");
    expect(text, "From: \"Mail Delivery System\" <MAILER-DAEMON@relay.example>\r\n");
    expect(text, "To: <a@x.example>\r\n");
    expect(text, "Auto-Submitted: auto-replied\r\n");
    expect(text, "Content-Type: multipart/report; report-type=delivery-status;\r\n");
    expect(text, "charset=us-ascii\r\n");
    expect(text, "<b@y.example>:\r\n    host mx.y.example said:\r\n    550 5.1.1 no such user\r\n");
    expect(text, "Content-Type: message/delivery-status\r\n\r\n"
                 "Reporting-MTA: dns; relay.example\r\n"
                 "X-Sluice-Message-Id: 0A1B\r\n"
                 "Arrival-Date: Sat, 21 Nov 2026 09:29:42 +0000\r\n\r\n"
                 "Final-Recipient: rfc822; b@y.example\r\n"
                 "Action: failed\r\n"
                 "Status: 5.1.1\r\n"
                 "Remote-MTA: dns; mx.y.example\r\n"
                 "Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n\r\n--");
    expect(text, "Content-Type: message/rfc822\r\n\r\n"
                 "Subject: hello\r\nFrom: a@x.example\r\n\r\nbody line\r\n\r\n--");
    refuse(text, "8bit");
    refuse(text, "Will-Retry-Until");
    free(text);
}

static void a_delay_is_a_warning(void **state)
{
    bool is_utf8;
    struct bounce_recipient delayed = failed;
    struct bounce_message message = simple;
    delayed.status = SLICE("4.4.1");
    delayed.is_reply = false;
    delayed.original = SLICE("rfc822;c@z.example");
    message.envid = SLICE("QQ314159");
    char *text = format(&config, &message, BOUNCE_DELAY, &delayed, 1, &is_utf8);
    expect(text, "Subject: Delayed mail");
    expect(text, "It will be tried until Thu, 26 Nov 2026 09:29:42 +0000.\r\n");
    expect(text, "Original-Envelope-Id: QQ314159\r\nReporting-MTA");
    expect(text, "Original-Recipient: rfc822;c@z.example\r\nFinal-Recipient");
    expect(text, "Action: delayed\r\nStatus: 4.4.1\r\n");
    expect(text, "Diagnostic-Code: x-sluice; 550 5.1.1 no such user\r\n");
    expect(text, "Will-Retry-Until: Thu, 26 Nov 2026 09:29:42 +0000\r\n");
    expect(text, "Content-Type: text/rfc822-headers\r\n\r\n"
                 "Subject: hello\r\nFrom: a@x.example\r\n\r\n--");
    free(text);
}

static void an_expiry_is_told_in_words(void **state)
{
    bool is_utf8;
    struct bounce_recipient expired = failed;
    expired.is_expired = true;
    expired.status = SLICE("4.4.1");
    expired.diagnostic = expired.remote_mta = SLICE("");
    char *text = format(&config, &simple, BOUNCE_FAILURE, &expired, 1, &is_utf8);
    expect(text, "<b@y.example>:\r\n    given up, it took too long");
    expect(text, "no reason is known");
    expect(text, "Action: failed\r\nStatus: 4.4.1\r\n");
    refuse(text, "Diagnostic-Code");
    refuse(text, "Remote-MTA");
    free(text);
}

static void strangers_cannot_add_lines(void **state)
{
    bool is_utf8;
    struct bounce_message message = simple;
    const struct bounce_recipient evil = {
        .address = SLICE("b@y.example>\r\nBcc: <victim@z.example"),
        .original = SLICE("rfc822;\r\n\r\n--x\r\n"),
        .status = SLICE("5.1.1\r\nAction: delivered"),
        .diagnostic = SLICE("550 no\r\n\r\n--=_sluice_\x1b[31m\0red\x7f\xff \xc2\x9b"
                            "8m"),
        .remote_mta = SLICE("mx\r\n.y"),
        .is_reply = true};
    message.sender = SLICE("a@x.example>\r\nSubject: gotcha\r\nX: <");
    message.envid = SLICE("1\r\nStatus: 2.0.0");
    char *text = format(&config, &message, BOUNCE_FAILURE, &evil, 1, &is_utf8);
    refuse(text, "\r\nBcc:");
    refuse(text, "\r\nSubject: gotcha");
    refuse(text, "\r\nStatus: 2.0.0");
    refuse(text, "\r\nAction: delivered");
    expect(text, "\r\nStatus: 5.0.0\r\n");
    expect(text, "550 no --=_sluice_ [31m red ? ?8m\r\n");
    free(text);
}

static void statuses_are_of_their_form(void **state)
{
    static const struct {
        struct slice in;
        const char *out;
    } rows[] = {
        {SLICE("5.1.1"), "Status: 5.1.1\r\n"},    {SLICE("4.999.12"), "Status: 4.999.12\r\n"},
        {SLICE("2.0.0"), "Status: 5.0.0\r\n"},    {SLICE(""), "Status: 5.0.0\r\n"},
        {SLICE("5.1"), "Status: 5.0.0\r\n"},      {SLICE("5.1."), "Status: 5.0.0\r\n"},
        {SLICE("5..1"), "Status: 5.0.0\r\n"},     {SLICE("5.1.1 "), "Status: 5.0.0\r\n"},
        {SLICE("5.1.1234"), "Status: 5.0.0\r\n"}, {SLICE("5.1234.1"), "Status: 5.0.0\r\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_utf8;
        struct bounce_recipient r = failed;
        r.status = rows[i].in;
        char *text = format(&config, &simple, BOUNCE_FAILURE, &r, 1, &is_utf8);
        expect(text, rows[i].out);
        free(text);
    }
}

#define GRUESSE "gr\xc3\xbc\xc3\x9f"

static void utf8_goes_where_it_may(void **state)
{
    bool is_utf8;
    struct bounce_message message = simple;
    const struct slice parts[] = {SLICE("Subject: " GRUESSE "\r\n\r\n" GRUESSE "\r\n")};
    const struct bounce_recipient r = {.address = SLICE(GRUESSE "+tag=x@y.example"),
                                       .status = SLICE("5.1.1"),
                                       .diagnostic = SLICE("550 " GRUESSE),
                                       .is_reply = true};
    message.parts = parts;
    message.part_count = 1;
    char *text = format(&config, &message, BOUNCE_FAILURE, &r, 1, &is_utf8);
    assert_false(is_utf8);
    expect(text, "Final-Recipient: rfc822; gr??+tag=x@y.example\r\n");
    expect(text, "Diagnostic-Code: smtp; 550 gr??\r\n");
    expect(text, "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n");
    expect(text, "<" GRUESSE "+tag=x@y.example>:");
    expect(text, "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n");
    free(text);

    message.is_smtputf8 = true;
    message.sender = SLICE("\xc3\xa4@x.example");
    text = format(&config, &message, BOUNCE_FAILURE, &r, 1, &is_utf8);
    assert_true(is_utf8);
    expect(text, "To: <\xc3\xa4@x.example>\r\n");
    expect(text, "message/global-delivery-status\r\nContent-Transfer-Encoding: 8bit\r\n");
    expect(text, "Final-Recipient: utf-8; " GRUESSE "\\x{2B}tag\\x{3D}x@y.example\r\n");
    expect(text, "Diagnostic-Code: smtp; 550 " GRUESSE "\r\n");
    expect(text, "Content-Type: message/global\r\n");
    free(text);
    text = format(&config, &message, BOUNCE_DELAY, &failed, 1, &is_utf8);
    expect(text, "Content-Type: message/global-headers\r\n");
    expect(text, "Content-Type: message/delivery-status\r\n");
    free(text);

    message = simple;
    message.is_smtputf8 = true;
    text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    assert_false(is_utf8);
    refuse(text, "global");
    free(text);
}

static void large_originals_come_back_as_header(void **state)
{
    bool is_utf8;
    struct bounce_message message = simple;
    char *body = malloc(60000);
    assert_non_null(body);
    memset(body, 'x', 60000);
    struct slice parts[] = {SLICE("Subject: big\r\n"), SLICE("\r\n"), {body, 60000}};
    message.parts = parts;
    message.part_count = 3;
    char *text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    expect(text, "Its header is attached.");
    expect(text, "text/rfc822-headers\r\n\r\nSubject: big\r\n\r\n--");
    free(text);
    parts[2].len = config.size_limit - 16;
    text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    expect(text, "message/rfc822\r\n\r\nSubject: big\r\n\r\nxxxx");
    assert_true(strlen(text) > config.size_limit);
    free(text);
    message.is_headers_only = true;
    text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    expect(text, "text/rfc822-headers\r\n\r\nSubject: big\r\n\r\n--");
    free(text);
    /* A header without an end is cut at a line. */
    for (size_t i = 99; i < 60000; i += 100) {
        body[i] = '\n';
    }
    for (size_t i = 0; i < 3; i++) {
        parts[i] = slice_make(body, 60000);
    }
    text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    assert_true(strlen(text) > 131072 && strlen(text) < 136000);
    expect(text, "xxx\r\n\r\n--=_sluice");
    free(text);
    free(body);
}

static void odd_originals_are_made_lines(void **state)
{
    bool is_utf8;
    struct bounce_message message = simple;
    const struct slice parts[] = {SLICE("Subject: x\n\nbare\rcr\r\r\nnul:\0 end\r")};
    message.parts = parts;
    message.part_count = 1;
    char *text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    expect(text, "\r\n\r\nSubject: x\r\n\r\nbare\r\ncr\r\n\r\nnul:? end\r\n\r\n--");
    free(text);

    message.part_count = 0;
    text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    expect(text, "message/rfc822\r\n\r\n\r\n--");
    free(text);

    /* Lines of three-byte characters: broken between them. */
    static char wide[3003];
    for (size_t i = 0; i < sizeof(wide); i++) {
        wide[i] = "\xe2\x82\xac"[i % 3];
    }
    for (size_t shift = 0; shift < 3; shift++) {
        const struct slice shifted[] = {SLICE("A: b\r\n\r\n"), slice_make("xxx", shift),
                                        slice_make(wide, sizeof(wide))};
        message.parts = shifted;
        message.part_count = 3;
        text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
        const char *at = strstr(text, "\xe2\x82\xac");
        assert_non_null(at);
        unsigned count = 0;
        for (; *at != '-'; count += *at == '\xe2', at += *at == '\xe2' ? 3 : 1) {
            assert_true(memcmp(at, "\xe2\x82\xac", 3) == 0 || strchr("\r\n ", *at) != NULL);
        }
        assert_int_equal(count, sizeof(wide) / 3);
        free(text);
    }
}

/* An original that holds the very boundary, and the ones that would come next. */
static void boundaries_are_not_guessed(void **state)
{
    bool is_utf8;
    struct bounce_message message = simple;
    char *guesses = malloc(4096);
    size_t len = 0;
    assert_non_null(guesses);
    for (unsigned salt = 0; salt < 40; salt++) {
        len += (size_t)snprintf(guesses + len, 4096 - len, "\r\n--=_sluice_%016llx_%llx_%u",
                                (unsigned long long)config.unique, (unsigned long long)config.now,
                                salt);
        const struct slice parts[] = {SLICE("A: b\r\n\r\n"), slice_make(guesses, len)};
        message.parts = parts;
        message.part_count = 2;
        char *text = format(&config, &message, BOUNCE_FAILURE, &failed, 1, &is_utf8);
        expect(text, salt < 16 ? "message/rfc822" : "text/rfc822-headers");
        free(text);
    }
    free(guesses);
}

static void long_values_are_cut_or_folded(void **state)
{
    bool is_utf8;
    struct bounce_message message = simple;
    char *junk = malloc(20000);
    assert_non_null(junk);
    for (int spaces = 0; spaces <= 1; spaces++) {
        for (size_t i = 0; i < 20000; i++) {
            junk[i] = spaces && i % 11 == 10 ? ' ' : (char)('a' + i % 26);
        }
        const struct slice all = slice_make(junk, 20000);
        const struct bounce_recipient r = {
            .address = all, .original = all, .status = all, .diagnostic = all, .remote_mta = all};
        message.sender = message.envid = message.id = all;
        char *text = format(&config, &message, BOUNCE_FAILURE, &r, 1, &is_utf8);
        assert_true(strlen(text) < 14000);
        free(text);
    }
    free(junk);
}

static void many_recipients_are_told_as_a_number(void **state)
{
    bool is_utf8;
    size_t count = BOUNCE_RECIPIENTS_MAX + 5;
    struct bounce_recipient *all = calloc(count, sizeof(*all));
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) {
        all[i] = failed;
    }
    char *text = format(&config, &simple, BOUNCE_FAILURE, all, count, &is_utf8);
    expect(text, "... and 5 more.\r\n");
    free(text);
    free(all);
}

static void a_full_buffer_is_told(void **state)
{
    struct buf out;
    bool is_utf8;
    char *text = format(&config, &simple, BOUNCE_FAILURE, &failed, 1, &is_utf8);
    size_t len = strlen(text);
    free(text);
    for (size_t limit = len; --limit > 0;) {
        buf_init(&out, limit);
        const struct bounce_news news = {BOUNCE_FAILURE, &failed, 1};
        assert_int_equal(bounce_format(&out, &config, &simple, &news, &is_utf8), ERR_LIMIT);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_told_three_times),
        cmocka_unit_test(a_delay_is_a_warning),
        cmocka_unit_test(an_expiry_is_told_in_words),
        cmocka_unit_test(strangers_cannot_add_lines),
        cmocka_unit_test(statuses_are_of_their_form),
        cmocka_unit_test(utf8_goes_where_it_may),
        cmocka_unit_test(large_originals_come_back_as_header),
        cmocka_unit_test(odd_originals_are_made_lines),
        cmocka_unit_test(boundaries_are_not_guessed),
        cmocka_unit_test(long_values_are_cut_or_folded),
        cmocka_unit_test(many_recipients_are_told_as_a_number),
        cmocka_unit_test(a_full_buffer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
