#include "net/smtp_command.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static void test_verbs(void **state)
{
    (void)state;
    static const struct {
        struct slice line;
        enum smtp_verb verb;
        const char *args;
    } cases[] = {
        {SLICE("EHLO x"), SMTP_VERB_EHLO, "x"},
        {SLICE("ehlo  x  "), SMTP_VERB_EHLO, "x"},
        {SLICE("QuIt"), SMTP_VERB_QUIT, ""},
        {SLICE("MAIL FROM:<>"), SMTP_VERB_MAIL, "FROM:<>"},
        {SLICE("FOO bar"), SMTP_VERB_UNKNOWN, "bar"},
        {SLICE("MAILFROM:<>"), SMTP_VERB_UNKNOWN, ""},
        {SLICE(""), SMTP_VERB_BAD, ""},
        {SLICE(" EHLO x"), SMTP_VERB_BAD, ""},
        {SLICE("EHLO\tx"), SMTP_VERB_BAD, ""},
        {SLICE("EHLO x\0y"), SMTP_VERB_BAD, ""},
        {SLICE("EHLO x\ry"), SMTP_VERB_BAD, ""},
        {SLICE("EHLO x\x7f"), SMTP_VERB_BAD, ""},
        {SLICE("GET / HTTP/1.1"), SMTP_VERB_FORBIDDEN, "/ HTTP/1.1"},
        {SLICE("post /"), SMTP_VERB_FORBIDDEN, "/"},
        {SLICE("Host: x"), SMTP_VERB_FORBIDDEN, "x"},
        {SLICE("\x16\x03\x01"), SMTP_VERB_FORBIDDEN, ""},
        {SLICE("."), SMTP_VERB_FORBIDDEN, ""},
        {SLICE("\0"), SMTP_VERB_FORBIDDEN, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct smtp_command command = smtp_command_parse(cases[i].line);
        assert_int_equal(command.verb, cases[i].verb);
        assert_true(slice_eq(command.args, slice_of(cases[i].args)));
    }
    assert_true(smtp_command_parse(SLICE("NOOP \xc3\xbc")).has_8bit);
    assert_false(smtp_command_parse(SLICE("NOOP u")).has_8bit);
}

static enum smtp_command_fault mail(const char *args, struct smtp_mail *ret)
{
    struct smtp_command_offers offers = {
        .smtputf8 = true, .auth = true, .mt_priority = true, .requiretls = true};
    return smtp_command_mail(slice_of(args), offers, ret);
}

static void test_mail_parameters(void **state)
{
    (void)state;
    struct smtp_mail m;
    assert_int_equal(mail("FROM:<a@b>", &m), SMTP_COMMAND_OK);
    assert_true(m.size == 0 && !m.is_8bitmime && !m.is_smtputf8);
    assert_int_equal(mail("from: <a@b>  size=10  body=8bitmime smtputf8 AUTH=<> ", &m),
                     SMTP_COMMAND_OK);
    assert_true(m.size == 10 && m.is_8bitmime && m.is_smtputf8);
    assert_false(m.requires_tls);
    assert_int_equal(mail("FROM:<a@b> requiretls", &m), SMTP_COMMAND_OK);
    assert_true(m.requires_tls);
    assert_int_equal(mail("FROM:<a@b> REQUIRETLS=x", &m), SMTP_COMMAND_BAD_PARAMETER);
    assert_int_equal(mail("FROM:<a@b> BODY=7BIT AUTH=a+2Bb@c", &m), SMTP_COMMAND_OK);
    assert_false(m.is_8bitmime);
    assert_int_equal(mail("FROM:<a@b> SIZE=9223372036854775808", &m), SMTP_COMMAND_OK);
    assert_true(m.size == 1ULL << 63);
    assert_false(m.has_priority);
    for (int priority = -9; priority <= 9; priority++) {
        char text[40];
        (void)snprintf(text, sizeof(text), "FROM:<a@b> mt-priority=%d", priority);
        assert_int_equal(mail(text, &m), SMTP_COMMAND_OK);
        assert_true(m.has_priority && m.priority == priority);
    }
    static const char *const huge[] = {
        "FROM:<a@b> SIZE=18446744073709551615",
        "FROM:<a@b> SIZE=18446744073709551616",
        "FROM:<a@b> SIZE=99999999999999999999999999999999999999999999999999",
        "FROM:<a@b> SIZE=184467440737095516160",
    };
    for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
        assert_int_equal(mail(huge[i], &m), SMTP_COMMAND_OK);
        assert_true(m.size == UINT64_MAX);
    }
}

static void test_mail_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        enum smtp_command_fault fault;
    } cases[] = {
        {"", SMTP_COMMAND_BAD_SYNTAX},
        {"FROM", SMTP_COMMAND_BAD_SYNTAX},
        {"TO:<a@b>", SMTP_COMMAND_BAD_SYNTAX},
        {"FROM:a@b", SMTP_COMMAND_BAD_ADDRESS},
        {"FROM:", SMTP_COMMAND_BAD_ADDRESS},
        {"FROM:<a@b>SIZE=1", SMTP_COMMAND_BAD_SYNTAX},
        {"FROM:<a@b> SIZE", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SIZE=", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SIZE=-1", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SIZE=+1", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SIZE=0x10", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SIZE=1e9", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SIZE=1 SIZE=1", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> BODY=", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> BODY", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> BODY=BINARYMIME", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> SMTPUTF8=1", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> AUTH=", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> AUTH=a+0D+0Ab", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> AUTH=a+00", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> AUTH=a+7F", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> AUTH=a+", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=-", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=-0", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=+1", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=10", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=-10", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=01", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=x", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> MT-PRIORITY=1 MT-PRIORITY=1", SMTP_COMMAND_BAD_PARAMETER},
        {"FROM:<a@b> RET=FULL", SMTP_COMMAND_UNKNOWN_PARAMETER},
        {"FROM:<a@b> ENVID=x", SMTP_COMMAND_UNKNOWN_PARAMETER},
        {"FROM:<a@b> =x", SMTP_COMMAND_UNKNOWN_PARAMETER},
        {"FROM:<a@b> x", SMTP_COMMAND_UNKNOWN_PARAMETER},
        {"FROM:<\xc3\xbc@b>", SMTP_COMMAND_NEEDS_UTF8},
        {"FROM:<@d\xc3\xb6m.test:a@b>", SMTP_COMMAND_NEEDS_UTF8},
        {"FROM:<\xff@b> SMTPUTF8", SMTP_COMMAND_BAD_ADDRESS},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct smtp_mail m;
        assert_int_equal(mail(cases[i].args, &m), cases[i].fault);
    }
    struct smtp_mail m;
    struct smtp_command_offers none = {0};
    assert_int_equal(smtp_command_mail(SLICE("FROM:<a@b> SMTPUTF8"), none, &m),
                     SMTP_COMMAND_UNKNOWN_PARAMETER);
    assert_int_equal(smtp_command_mail(SLICE("FROM:<a@b> MT-PRIORITY=1"), none, &m),
                     SMTP_COMMAND_UNKNOWN_PARAMETER);
    assert_int_equal(smtp_command_mail(SLICE("FROM:<a@b> REQUIRETLS"), none, &m),
                     SMTP_COMMAND_UNKNOWN_PARAMETER);
    assert_int_equal(smtp_command_mail(SLICE("FROM:<a@b> AUTH=<>"), none, &m),
                     SMTP_COMMAND_UNKNOWN_PARAMETER);
}

static void test_rcpt(void **state)
{
    (void)state;
    struct smtp_address a;
    assert_int_equal(smtp_command_rcpt(SLICE("TO:<a@B>"), false, &a), SMTP_COMMAND_OK);
    assert_true(slice_eq(smtp_address_slice(&a), SLICE("a@b")));
    assert_int_equal(smtp_command_rcpt(SLICE("to: <postmaster>"), false, &a), SMTP_COMMAND_OK);
    assert_int_equal(smtp_command_rcpt(SLICE("TO:<>"), false, &a), SMTP_COMMAND_BAD_ADDRESS);
    assert_int_equal(smtp_command_rcpt(SLICE("<a@b>"), false, &a), SMTP_COMMAND_BAD_SYNTAX);
    assert_int_equal(smtp_command_rcpt(SLICE("TO:<a@b>x"), false, &a), SMTP_COMMAND_BAD_SYNTAX);
    assert_int_equal(smtp_command_rcpt(SLICE("TO:<a@b> NOTIFY=NEVER"), false, &a),
                     SMTP_COMMAND_UNKNOWN_PARAMETER);
    assert_int_equal(smtp_command_rcpt(SLICE("TO:<\xc3\xbc@b>"), false, &a),
                     SMTP_COMMAND_NEEDS_UTF8);
    assert_int_equal(smtp_command_rcpt(SLICE("TO:<\xc3\xbc@b>"), true, &a), SMTP_COMMAND_OK);
    /* What stands behind the line in the buffer is not of it. */
    assert_int_equal(smtp_command_rcpt(slice_make("TO:<a@b>\xc3\xbc", 8), false, &a),
                     SMTP_COMMAND_OK);
}

static void test_bdat(void **state)
{
    (void)state;
    uint64_t size;
    bool is_last;
    assert_true(smtp_command_bdat(SLICE("0"), &size, &is_last) && size == 0 && !is_last);
    assert_true(smtp_command_bdat(SLICE("12 last"), &size, &is_last) && size == 12 && is_last);
    assert_true(smtp_command_bdat(SLICE("18446744073709551616"), &size, &is_last));
    assert_true(size == UINT64_MAX);
    static const char *const bad[] = {"",     "-1",    "+1",      "0x10",        "1e9",
                                      "LAST", "1 LAS", "1 LASTX", "1 LAST LAST", "1LAST",
                                      "1.0",  "1 2",   "\xd9\xa1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(smtp_command_bdat(slice_of(bad[i]), &size, &is_last));
    }
    assert_true(smtp_command_is_bdat(SLICE("bdat\t5")));
    assert_false(smtp_command_is_bdat(SLICE("BDA")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verbs),        cmocka_unit_test(test_mail_parameters),
        cmocka_unit_test(test_mail_refuses), cmocka_unit_test(test_rcpt),
        cmocka_unit_test(test_bdat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
