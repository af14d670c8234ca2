/* The table and the rules (a) to (e) of scheduler-semantics 3.2, on verdicts; what makes which
 * verdict is test_smtp_client's. */
#include "net/outcome.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static struct outcome_verdict verdict(enum outcome_class class, enum outcome_scope scope,
                                      const char *status)
{
    return (struct outcome_verdict){
        .class = class,
        .scope = scope,
        .stage = OUTCOME_STAGE_RCPT,
        .code = 0,
        .status = outcome_status_of(status),
        .text = SLICE("some text"),
    };
}

static const enum outcome_scope SITE = OUTCOME_SCOPE_SITE;
static const enum outcome_scope MESSAGE = OUTCOME_SCOPE_MESSAGE;
static const enum outcome_scope RECIPIENT = OUTCOME_SCOPE_RECIPIENT;

struct row {
    const char *event;
    enum outcome_class class;
    enum outcome_scope scope;
    const char *status;
    enum outcome_kind kind;
    enum outcome_feedback feedback;
};

/* One server, the final one, one event. */
static const struct row rows[] = {
    {"MX lookup timeout", OUTCOME_SOFT, OUTCOME_SCOPE_SITE, "4.4.3", OUTCOME_DEFERRED,
     OUTCOME_NEGATIVE},
    {"no such domain", OUTCOME_HARD, OUTCOME_SCOPE_SITE, "5.4.4", OUTCOME_BOUNCED,
     OUTCOME_POSITIVE},
    {"null MX", OUTCOME_HARD, OUTCOME_SCOPE_SITE, "5.1.0", OUTCOME_BOUNCED, OUTCOME_POSITIVE},
    {"loop, best MX", OUTCOME_HARD, OUTCOME_SCOPE_SITE, "5.4.6", OUTCOME_BOUNCED, OUTCOME_POSITIVE},
    {"connect refused", OUTCOME_SOFT, OUTCOME_SCOPE_SITE, "4.4.1", OUTCOME_DEFERRED,
     OUTCOME_NEGATIVE},
    {"EOF before banner", OUTCOME_SOFT, OUTCOME_SCOPE_SITE, "4.4.2", OUTCOME_DEFERRED,
     OUTCOME_NEGATIVE},
    {"banner 5xx not skipped", OUTCOME_HARD, OUTCOME_SCOPE_SITE, "5.7.1", OUTCOME_BOUNCED,
     OUTCOME_POSITIVE},
    {"TLS handshake, may", OUTCOME_SOFT, OUTCOME_SCOPE_MESSAGE, "4.7.5", OUTCOME_DEFERRED,
     OUTCOME_POSITIVE},
    {"TLS handshake, mandatory", OUTCOME_SOFT, OUTCOME_SCOPE_SITE, "4.7.5", OUTCOME_DEFERRED,
     OUTCOME_NEGATIVE},
    {"larger than SIZE", OUTCOME_HARD, OUTCOME_SCOPE_MESSAGE, "5.3.4", OUTCOME_BOUNCED,
     OUTCOME_POSITIVE},
    {"MAIL 4xx", OUTCOME_SOFT, OUTCOME_SCOPE_MESSAGE, "4.2.1", OUTCOME_DEFERRED, OUTCOME_POSITIVE},
    {"MAIL 5xx", OUTCOME_HARD, OUTCOME_SCOPE_MESSAGE, "5.2.1", OUTCOME_BOUNCED, OUTCOME_POSITIVE},
    {"RCPT 4xx", OUTCOME_SOFT, OUTCOME_SCOPE_RECIPIENT, "4.2.1", OUTCOME_DEFERRED,
     OUTCOME_POSITIVE},
    {"accepted", OUTCOME_SUCCESS, OUTCOME_SCOPE_MESSAGE, "2.0.0", OUTCOME_DELIVERED,
     OUTCOME_POSITIVE},
    {"connection lost", OUTCOME_SOFT, OUTCOME_SCOPE_SITE, "4.4.2", OUTCOME_DEFERRED,
     OUTCOME_NEGATIVE},
    {"local read error", OUTCOME_SOFT, OUTCOME_SCOPE_SITE, "4.3.0", OUTCOME_DEFERRED,
     OUTCOME_NEGATIVE},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o;
        uint32_t indexes[2];
        assert_int_equal(outcome_init(&o, 2), 0);
        outcome_session_begin(&o, true);
        if (rows[i].scope != SITE) {
            assert_int_equal(outcome_take(&o, 0, indexes), 2);
        }
        struct outcome_verdict v = verdict(rows[i].class, rows[i].scope, rows[i].status);
        assert_int_equal(outcome_decide_rest(&o, &v), 2);
        outcome_session_end(&o, rows[i].scope != SITE);
        outcome_finish(&o);
        struct outcome_reason reason;
        if (outcome_feedback(&o, &reason) != rows[i].feedback ||
            o.recipients[1].kind != rows[i].kind) {
            fail_msg("%s", rows[i].event);
        }
        if (rows[i].feedback == OUTCOME_NEGATIVE) {
            assert_string_equal(reason.status, rows[i].status);
            assert_string_equal(reason.text, "some text");
        }
        assert_string_equal(o.recipients[0].text, "some text");
        assert_string_equal(o.recipients[0].status.text, rows[i].status);
        assert_int_equal(o.undecided, 0);
        assert_int_equal(o.delivered + o.deferred + o.bounced, 2);
        assert_int_equal(outcome_has_deferred(&o), rows[i].kind == OUTCOME_DEFERRED);
        outcome_fini(&o);
    }
}

/* Soft at a server that is not the last keeps the recipients; hard never does. */
static void test_next_server(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_reason reason;
    uint32_t indexes[4];
    assert_int_equal(outcome_init(&o, 4), 0);
    outcome_session_begin(&o, false);
    assert_int_equal(outcome_take(&o, 0, indexes), 4);
    struct outcome_verdict soft = verdict(OUTCOME_SOFT, RECIPIENT, "4.2.2");
    struct outcome_verdict hard = verdict(OUTCOME_HARD, RECIPIENT, "5.1.1");
    struct outcome_verdict ok = verdict(OUTCOME_SUCCESS, MESSAGE, "2.0.0");
    assert_false(outcome_decide(&o, 1, &soft));
    assert_true(outcome_decide(&o, 2, &hard));
    assert_true(outcome_decide(&o, 2, &ok)); /* decided once, for good */
    /* the reply to end of data is not about recipient 1, which was refused here */
    assert_int_equal(outcome_decide_rest(&o, &ok), 2);
    outcome_session_end(&o, true);
    assert_int_equal(o.undecided, 1);
    assert_int_equal(o.recipients[2].kind, OUTCOME_BOUNCED);
    assert_int_equal(outcome_take(&o, 0, indexes), 0); /* not again in this session */
    outcome_session_begin(&o, true);
    struct outcome_verdict refused = verdict(OUTCOME_SOFT, SITE, "4.4.1");
    assert_int_equal(outcome_decide_rest(&o, &refused), 1);
    assert_int_equal(o.recipients[1].kind, OUTCOME_DEFERRED);
    assert_string_equal(o.recipients[1].status.text, "4.4.1");
    outcome_finish(&o);
    /* rule (d): the first session completed */
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_POSITIVE);
    outcome_fini(&o);
}

/* Without a completed session the final server's failure counts, and the first reason wins. */
static void test_two_failures(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_reason reason;
    assert_int_equal(outcome_init(&o, 1), 0);
    outcome_session_begin(&o, false);
    struct outcome_verdict first = verdict(OUTCOME_SOFT, SITE, "4.4.1");
    assert_int_equal(outcome_decide_rest(&o, &first), 0);
    outcome_session_end(&o, false);
    outcome_session_begin(&o, false);
    outcome_session_is_final(&o); /* the session limit was reached at the handshake */
    struct outcome_verdict second = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    assert_int_equal(outcome_decide_rest(&o, &second), 1);
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_NEGATIVE);
    assert_string_equal(reason.status, "4.4.2");
    outcome_fini(&o);
}

/* The last address has passed and recipients are left. */
static void test_leftovers(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_reason reason;
    assert_int_equal(outcome_init(&o, 2), 0);
    outcome_session_begin(&o, false);
    struct outcome_verdict v = verdict(OUTCOME_SOFT, SITE, "4.4.1");
    v.text = SLICE("connect to mx: refused");
    assert_int_equal(outcome_decide_rest(&o, &v), 0);
    outcome_session_end(&o, false);
    outcome_finish(&o);
    assert_int_equal(o.deferred, 2);
    assert_string_equal(o.recipients[1].text, "connect to mx: refused");
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_NEGATIVE);
    outcome_fini(&o);

    assert_int_equal(outcome_init(&o, 2), 0);
    outcome_finish(&o);
    assert_int_equal(o.deferred, 2);
    assert_string_equal(o.recipients[0].status.text, "4.3.0");
    assert_string_equal(o.recipients[0].text, "server unavailable or unable to receive mail");
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_POSITIVE);
    outcome_fini(&o);
}

/* Lost after the final dot: no other server now, though there is one. */
static void test_ambiguous(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_reason reason;
    uint32_t indexes[2];
    assert_int_equal(outcome_init(&o, 2), 0);
    outcome_session_begin(&o, false);
    assert_int_equal(outcome_take(&o, 0, indexes), 2);
    struct outcome_verdict v = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    v.is_ambiguous = true;
    assert_int_equal(outcome_decide_rest(&o, &v), 2);
    outcome_session_end(&o, false);
    assert_int_equal(o.ambiguous, 2);
    assert_true(o.recipients[0].is_ambiguous);
    assert_int_equal(o.recipients[0].kind, OUTCOME_DEFERRED);
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_NEGATIVE);
    outcome_fini(&o);
}

/* One refused here keeps its chance elsewhere, though the others may be delivered twice. */
static void test_ambiguous_spares_the_kept(void **state)
{
    (void)state;
    struct outcome o;
    uint32_t indexes[2];
    assert_int_equal(outcome_init(&o, 2), 0);
    outcome_session_begin(&o, false);
    assert_int_equal(outcome_take(&o, 0, indexes), 2);
    struct outcome_verdict refused = verdict(OUTCOME_SOFT, RECIPIENT, "4.2.2");
    assert_false(outcome_decide(&o, 0, &refused));
    struct outcome_verdict lost = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    lost.is_ambiguous = true;
    assert_int_equal(outcome_decide_rest(&o, &lost), 1);
    assert_int_equal(o.recipients[0].kind, OUTCOME_UNDECIDED);
    outcome_session_begin(&o, true);
    assert_int_equal(outcome_take(&o, 0, indexes), 1);
    assert_int_equal(indexes[0], 0);
    outcome_fini(&o);
}

/* SMTPUTF8 not offered: the next server may offer it. */
static void test_soft_unless_final(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_verdict v = verdict(OUTCOME_HARD, MESSAGE, "5.6.7");
    v.is_soft_unless_final = true;
    assert_int_equal(outcome_init(&o, 1), 0);
    outcome_session_begin(&o, false);
    assert_int_equal(outcome_decide_rest(&o, &v), 0);
    outcome_session_begin(&o, true);
    assert_int_equal(outcome_decide_rest(&o, &v), 1);
    assert_int_equal(o.recipients[0].kind, OUTCOME_BOUNCED);
    outcome_fini(&o);

    assert_int_equal(outcome_init(&o, 1), 0);
    outcome_session_begin(&o, false);
    assert_int_equal(outcome_decide_rest(&o, &v), 0);
    outcome_finish(&o); /* nobody final refused it */
    assert_int_equal(o.recipients[0].kind, OUTCOME_DEFERRED);
    assert_string_equal(o.recipients[0].status.text, "4.6.7");
    outcome_fini(&o);
}

/* A server that takes few recipients a message: several transactions in one session. */
static void test_take(void **state)
{
    (void)state;
    struct outcome o;
    uint32_t indexes[5];
    struct outcome_verdict ok = verdict(OUTCOME_SUCCESS, MESSAGE, "2.0.0");
    assert_int_equal(outcome_init(&o, 5), 0);
    outcome_session_begin(&o, true);
    assert_int_equal(outcome_take(&o, 2, indexes), 2);
    assert_int_equal(outcome_take(&o, 2, indexes), 2); /* a fresh connection for the same ones */
    assert_int_equal(indexes[1], 1);
    assert_int_equal(outcome_decide_rest(&o, &ok), 2);
    assert_int_equal(outcome_take(&o, 2, indexes), 2);
    assert_int_equal(indexes[0], 2);
    /* a loss is about those that still waited for their turn, too */
    struct outcome_verdict lost = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    assert_int_equal(outcome_decide_rest(&o, &lost), 3);
    assert_int_equal(o.delivered, 2);
    assert_int_equal(o.deferred, 3);
    outcome_fini(&o);
}

static void test_neutral(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_reason reason;
    struct outcome_verdict v = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    assert_int_equal(outcome_init(&o, 1), 0);
    outcome_session_begin(&o, true);
    assert_int_equal(outcome_decide_rest(&o, &v), 1);
    outcome_set_neutral(&o);
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_NEUTRAL);
    outcome_fini(&o);
    outcome_fini(&o);
}

/* The failure of a site is one also when it is said of a single recipient. */
static void test_site_of_one(void **state)
{
    (void)state;
    struct outcome o;
    struct outcome_reason reason;
    uint32_t indexes[2];
    struct outcome_verdict v = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    assert_int_equal(outcome_init(&o, 2), 0);
    outcome_session_begin(&o, true);
    assert_int_equal(outcome_take(&o, 0, indexes), 2);
    assert_true(outcome_decide(&o, 0, &v));
    assert_true(outcome_decide(&o, 1, &v));
    outcome_session_end(&o, false);
    outcome_finish(&o);
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_NEGATIVE);
    assert_string_equal(reason.status, "4.4.2");
    outcome_fini(&o);
}

/* An address that cannot be reached for a reason of ours: before or after one whose server failed,
 * alone, and before one that works. */
static void test_own(void **state)
{
    (void)state;
    static const struct {
        const char *order; /* o: own, s: site, d: delivered */
        enum outcome_feedback feedback;
        const char *status;
    } cases[] = {
        {"o", OUTCOME_NEUTRAL, "4.4.0"},   {"oo", OUTCOME_NEUTRAL, "4.4.0"},
        {"os", OUTCOME_NEGATIVE, "4.4.2"}, {"so", OUTCOME_NEGATIVE, "4.4.2"},
        {"od", OUTCOME_POSITIVE, "2.0.0"}, {"sood", OUTCOME_POSITIVE, "2.0.0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome o;
        struct outcome_reason reason;
        assert_int_equal(outcome_init(&o, 1), 0);
        for (const char *at = cases[i].order; *at != '\0'; at++) {
            struct outcome_verdict v = *at == 'o'
                                           ? verdict(OUTCOME_SOFT, OUTCOME_SCOPE_OWN, "4.4.0")
                                       : *at == 's' ? verdict(OUTCOME_SOFT, SITE, "4.4.2")
                                                    : verdict(OUTCOME_SUCCESS, MESSAGE, "2.0.0");
            outcome_session_begin(&o, at[1] == '\0');
            (void)outcome_decide_rest(&o, &v);
            outcome_session_end(&o, *at == 'd');
        }
        outcome_finish(&o);
        assert_int_equal(outcome_feedback(&o, &reason), cases[i].feedback);
        assert_string_equal(o.recipients[0].status.text, cases[i].status);
        outcome_fini(&o);
    }
}

/* Texts are cut to their limits between characters. */
static void test_long_text(void **state)
{
    (void)state;
    char text[OUTCOME_TEXT_MAX + 100];
    for (size_t i = 0; i + 1 < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    struct outcome o;
    struct outcome_reason reason;
    struct outcome_verdict v = verdict(OUTCOME_SOFT, SITE, "4.4.2");
    v.text = slice_make(text, sizeof(text));
    assert_int_equal(outcome_init(&o, 1), 0);
    outcome_session_begin(&o, true);
    assert_int_equal(outcome_decide_rest(&o, &v), 1);
    assert_int_equal(strlen(o.recipients[0].text), OUTCOME_TEXT_MAX);
    assert_int_equal(outcome_feedback(&o, &reason), OUTCOME_NEGATIVE);
    assert_int_equal(strlen(reason.text), OUTCOME_REASON_MAX - 1);
    outcome_fini(&o);
}

static void test_recipient_limit(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        const char *status;
        bool is_limit;
    } replies[] = {
        {452, "4.5.3", true},  {451, "4.5.3", true},  {552, "5.5.3", true},  {452, "4.2.2", false},
        {552, "5.2.2", false}, {552, "5.0.0", false}, {450, "4.5.3", false}, {550, "5.5.3", false},
    };
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        struct outcome_verdict v = verdict(replies[i].code < 500 ? OUTCOME_SOFT : OUTCOME_HARD,
                                           RECIPIENT, replies[i].status);
        v.code = replies[i].code;
        assert_int_equal(outcome_is_recipient_limit(&v), replies[i].is_limit);
        v.stage = OUTCOME_STAGE_DATA;
        assert_false(outcome_is_recipient_limit(&v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_next_server),
        cmocka_unit_test(test_two_failures),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_ambiguous),
        cmocka_unit_test(test_soft_unless_final),
        cmocka_unit_test(test_ambiguous_spares_the_kept),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_neutral),
        cmocka_unit_test(test_site_of_one),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_recipient_limit),
        cmocka_unit_test(test_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
