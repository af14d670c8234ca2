/* Replies taken apart: as a server says them, and as results and logs have them. */
#include "base/error.h"
#include "engine/reply/reply.h"
#include "engine/reply/reply_action.h"
#include "engine/reply/reply_dsn.h"
#include "tests/unit/unit.h"

static void lines_are_taken_apart(void **state)
{
    static const struct {
        const char *line;
        uint16_t code;
        const char *status, *text;
        enum reply_stage stage;
    } rows[] = {
        {"550 5.1.1 no such user", 550, "5.1.1", "5.1.1 no such user", REPLY_AT_NOTHING},
        {"550-5.1.1 no such user\r\n", 550, "5.1.1", "5.1.1 no such user", REPLY_AT_NOTHING},
        {"550 4.1.1 no such user", 550, "5.0.0", "4.1.1 no such user", REPLY_AT_NOTHING},
        {"421", 421, "4.0.0", "", REPLY_AT_NOTHING},
        {"421 busy", 421, "4.0.0", "busy", REPLY_AT_NOTHING},
        {"450 4.2 busy", 450, "4.0.0", "4.2 busy", REPLY_AT_NOTHING},
        {"450 4.2000.1 busy", 450, "4.0.0", "4.2000.1 busy", REPLY_AT_NOTHING},
        {"host mx.example[192.0.2.1] said: 450 4.7.1 try later (in reply to RCPT TO command)", 450,
         "4.7.1", "4.7.1 try later", REPLY_AT_RCPT},
        {"host mx.example[2001:db8::1] said: 554 5.7.1 no (in reply to end of DATA command)", 554,
         "5.7.1", "5.7.1 no", REPLY_AT_END},
        {"450 4.7.1 host mx.example[192.0.2.1] said: try later (in reply to RCPT TO command)", 450,
         "4.7.1", "try later", REPLY_AT_RCPT},
        {"421 no (in reply to initial greeting command)", 421, "4.0.0", "no", REPLY_AT_GREETING},
        {"421 no (in reply to nothing command)", 421, "4.0.0", "no (in reply to nothing command)",
         REPLY_AT_NOTHING},
        {"421 no command)", 421, "4.0.0", "no command)", REPLY_AT_NOTHING},
        {" command)", 0, "", "command)", REPLY_AT_NOTHING},
        {"( command)", 0, "", "( command)", REPLY_AT_NOTHING},
        {"connect to mx.example[192.0.2.1]:25: Connection refused", 0, "",
         "connect to mx.example[192.0.2.1]:25: Connection refused", REPLY_AT_NOTHING},
        {"", 0, "", "", REPLY_AT_NOTHING},
        {"42", 0, "", "42", REPLY_AT_NOTHING},
        {"4210 no", 0, "", "4210 no", REPLY_AT_NOTHING},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reply r;
        reply_read(slice_of(rows[i].line), &r);
        assert_int_equal(r.code, rows[i].code);
        assert_string_equal(r.status, rows[i].status);
        assert_true(slice_eq(r.text, slice_of(rows[i].text)));
        assert_int_equal(r.stage, rows[i].stage);
    }
}

/* Of a report the reply that counts, and what its status field adds. */
static void reports_are_taken_apart(void **state)
{
    static const struct {
        const char *field, *diagnostic;
        uint16_t code;
        const char *status, *text;
        enum reply_stage stage;
    } rows[] = {
        {"5.1.1", "smtp; 550 5.1.1 no such user", 550, "5.1.1", "5.1.1 no such user",
         REPLY_AT_NOTHING},
        {"5.1.1", "smtp;550-5.1.1 no such 550 5.1.1 user", 550, "5.1.1",
         "5.1.1 no such 550 5.1.1 user", REPLY_AT_NOTHING},
        {"5.2.2 (mailbox full)", "SMTP; 554 sorry", 554, "5.2.2", "sorry", REPLY_AT_NOTHING},
        {"4.4.7", "smtp; 550 too late", 550, "5.0.0", "too late", REPLY_AT_NOTHING},
        {"5.0.0", "X-Postfix; host mx.x[192.0.2.1] said: 550 no (in reply to end of DATA command)",
         550, "5.0.0", "no", REPLY_AT_END},
        {"", "Remote Server returned '550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found'", 550,
         "5.1.10", "5.1.10 RESOLVER.ADR.RecipientNotFound; not found", REPLY_AT_NOTHING},
        {"", "192.0.2.1 does not like recipient. Remote host said: 550 no Giving up on 192.0.2.1.",
         550, "5.0.0", "no", REPLY_AT_RCPT},
        {"",
         "192.0.2.1 does not like recipient. Remote host said: 450 4.2.2 full Giving up on "
         "192.0.2.1. I'm not going to try again; this message has been in the queue too long.",
         450, "4.2.2", "4.2.2 full", REPLY_AT_RCPT},
        {"", "Sorry. I'm not going to try again; this message has been in the queue too long.", 554,
         "5.0.0", "Sorry. I'm not going to try again; this message has been in the queue too long.",
         REPLY_AT_NOTHING},
        {"", "SMTP error from remote mail server after EHLO mail.x: 550 no", 550, "5.0.0", "no",
         REPLY_AT_EHLO},
        {"5.5.0", "SMTP; 550-no more", 550, "5.0.0", "no more", REPLY_AT_NOTHING},
        {"5.1.1", "smtp;550 5.5.0 no", 550, "5.1.1", "5.5.0 no", REPLY_AT_NOTHING},
        {"5.3.0", "X-Unix; 255", 550, "5.3.0", "255", REPLY_AT_NOTHING},
        {"4.2.1", "smtp; 220-mx.x 421 4.2.1 later", 450, "4.2.1", "220-mx.x 421 4.2.1 later",
         REPLY_AT_NOTHING},
        {"", "SMTP error from remote mail server after end of data: host x [192.0.2.1]: 550 spam",
         550, "5.0.0", "spam", REPLY_AT_END},
        {"", "smtp; 5.1.0 - Unknown address error 540-'Wrong recipients' (delivery attempts: 0)",
         540, "5.0.0", "'Wrong recipients' (delivery attempts: 0)", REPLY_AT_NOTHING},
        {"", "smtp; 550 no (a@x:550 5.1.1 nobody)", 550, "5.0.0", "no (a@x:550 5.1.1 nobody)",
         REPLY_AT_NOTHING},
        {"5.1.1", "X-Postfix; unknown user: \"a\"", 550, "5.1.1", "unknown user: \"a\"",
         REPLY_AT_NOTHING},
        {"4.4.1", "connect to mx.x[192.0.2.1]:25: Connection refused", 450, "4.4.1",
         "connect to mx.x[192.0.2.1]:25: Connection refused", REPLY_AT_NOTHING},
        {"", "Sorry, no mailbox here by that name. (#5.1.1)", 550, "5.1.1",
         "Sorry, no mailbox here by that name. (#5.1.1)", REPLY_AT_NOTHING},
        {"", "could not be delivered for 450 minutes", 554, "5.0.0",
         "could not be delivered for 450 minutes", REPLY_AT_NOTHING},
        {"4.0.0", "x-unix; 75", 451, "4.0.0", "75", REPLY_AT_NOTHING},
        {"5.2.2", "", 550, "5.2.2", "", REPLY_AT_NOTHING},
        {"", "", 0, "", "", REPLY_AT_NOTHING},
        {"", ";", 554, "5.0.0", ";", REPLY_AT_NOTHING},
        {"2.0.0", "smtp; 250 2.0.0 taken", 250, "2.0.0", "2.0.0 taken", REPLY_AT_NOTHING},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reply r;
        reply_read_dsn(slice_of(rows[i].field), slice_of(rows[i].diagnostic), &r);
        assert_true(r.is_report);
        assert_int_equal(r.code, rows[i].code);
        assert_string_equal(r.status, rows[i].status);
        assert_true(slice_eq(r.text, slice_of(rows[i].text)));
        assert_int_equal(r.stage, rows[i].stage);
    }
}

static void words_find_themselves(void **state)
{
    (void)state;
    for (int i = 1; i < REPLY_CLASS_COUNT; i++) {
        assert_int_equal(reply_class_find(slice_of(reply_class_text((enum reply_class)i))), i);
    }
    for (int i = 1; i < REPLY_SCOPE_COUNT; i++) {
        assert_int_equal(reply_scope_find(slice_of(reply_scope_text((enum reply_scope)i))), i);
    }
    for (int i = 0; i < REPLY_STAGE_COUNT; i++) {
        assert_int_equal(reply_stage_find(slice_of(reply_stage_text((enum reply_stage)i))), i);
    }
    assert_int_equal(reply_class_find(SLICE("")), REPLY_CLASS_COUNT);
    assert_int_equal(reply_scope_find(SLICE("lanes")), REPLY_SCOPE_COUNT);
    assert_int_equal(reply_stage_find(SLICE("MAIL")), REPLY_STAGE_COUNT);
}

/* Whatever is read is printed as it may be read again. */
static void actions_are_read_and_printed(void **state)
{
    static const struct {
        const char *text, *printed;
    } rows[] = {
        {"slow", "slow"},
        {"slow 0.5", "slow 0.5"},
        {" pause  600s ", "pause 10m"},
        {"close 2h", "close 2h"},
        {"close-site 90s after 3 in 60s", "close-site 90s after 3 in 1m"},
        {"next-host", "next-host"},
        {"defer", "defer"},
        {"defer 1d", "defer 1d"},
        {"defer after 2 in 1h", "defer after 2 in 1h"},
        {"bounce after 5 in 1d", "bounce after 5 in 1d"},
        {"suspend-tenant 1h", "suspend-tenant 1h"},
        {"suspend-campaign 30m after 20 in 10m", "suspend-campaign 30m after 20 in 10m"},
        {"none", "none"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[REPLY_ACTION_WHY_MAX], text[REPLY_ACTION_TEXT_MAX];
        struct reply_action a;
        assert_int_equal(reply_action_parse(slice_of(rows[i].text), &a, why), 0);
        assert_string_equal(reply_action_text(&a, text), rows[i].printed);
    }
}

static void wrong_actions_say_what_would_be_right(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "\"\" is no action; write slow, pause, close, close-site, next-host, defer, bounce, "
             "suspend-tenant, suspend-campaign or none"},
        {"puase 5m", "\"puase\" is no action; did you mean \"pause\"?"},
        {"pause", "a time is missing; write a whole number and one of s, m, h, d, w: 90s, 15m, 2h"},
        {"pause 0s", "\"0s\" is no time at all; write at least 1s"},
        {"pause 5m30s",
         "\"5m30s\" has two units; write a whole number and one of s, m, h, d, w: 90s, 15m, 2h"},
        {"pause 5y", "\"5y\" is not a time; write a whole number and one of s, m, h, d, w: 90s, "
                     "15m, 2h"},
        {"pause 8d", "\"8d\" is too long; write at most 7d"},
        {"slow 2", "\"2\" is not a factor; write the part of the pace that is left, from 0.05 to "
                   "0.99"},
        {"slow 0", "\"0\" is not a factor; write the part of the pace that is left, from 0.05 to "
                   "0.99"},
        {"next-host 5m", "\"5m\" is too much here; remove it, or write it as another action"},
        {"bounce after 0 in 5m",
         "\"0\" is no number of replies; write after N in PERIOD, such as after 3 in 10m"},
        {"bounce after 3 within 5m",
         "\"within\" stands where \"in\" is due; write after N in PERIOD, such as after 3 in 10m"},
        {"bounce after 3 in 0m", "\"0m\" is no time at all; write at least 1s"},
        {"bounce after 3 in 5m 3", "\"3\" is too much here; remove it, or write it as another "
                                   "action"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[REPLY_ACTION_WHY_MAX];
        struct reply_action a;
        assert_int_equal(reply_action_parse(slice_of(rows[i].text), &a, why), ERR_SYNTAX);
        assert_string_equal(why, rows[i].why);
    }
}

/* As the client's core puts it of a session that did not begin. */
static void who_refused_to_talk_is_cut(void **state)
{
    struct reply r;
    reply_read(SLICE("host mx.x[192.0.2.1] refused to talk to me: 421 4.7.0 too many connections"),
               &r);
    assert_int_equal(r.code, 421);
    assert_string_equal(r.status, "4.7.0");
    assert_true(slice_eq(slice_trim(r.text), SLICE("4.7.0 too many connections")) ||
                slice_eq(slice_trim(r.text), SLICE("too many connections")));
    reply_read(SLICE("SASL authentication failed; server mx.x[192.0.2.1] said: 535 5.7.8 no"), &r);
    assert_int_equal(r.code, 535);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_refused_to_talk_is_cut),
        cmocka_unit_test(lines_are_taken_apart),
        cmocka_unit_test(reports_are_taken_apart),
        cmocka_unit_test(words_find_themselves),
        cmocka_unit_test(actions_are_read_and_printed),
        cmocka_unit_test(wrong_actions_say_what_would_be_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
