/* Records of TLS-RPT as domains publish them, and as they should not. */
#include "base/error.h"
#include "net/tls_rpt.h"
#include "tests/unit/unit.h"

#include <string.h>

static void records_say_where_reports_go(void **state)
{
    static const struct {
        const char *text;
        int count; /* of addresses that are kept; -1: refused */
        int skipped;
    } rows[] = {
        {"v=TLSRPTv1;rua=mailto:reports@example.com", 1, 0}, /* RFC 8460 section 3.1.1 */
        {"v=TLSRPTv1; rua=https://reporting.example.com/v1/tlsrpt", 1, 0}, /* 3.1.2 */
        {"v=TLSRPTv1 ; rua = mailto:a@b.example", -1, 0},
        {"v=TLSRPTv1; rua=mailto:a@b.example , HTTPS://b.example/x ; x.y-z=%;", 2, 0},
        {"v=TLSRPTv1; rua=http://b.example/,mailto:a@b.example", 1, 1},
        {"v=TLSRPTv1; rua=ftp://b.example/", 0, 1},
        {"v=TLSRPTv1; rua=mailto:a@b,mailto:a@b,mailto:a@b,mailto:a@b,mailto:a@b,mailto:a@b,"
         "mailto:a@b,mailto:a@b,mailto:a@b",
         8, 1},
        {"v=TLSRPTv1; rua=mailto:a@b.example,", -1, 0},
        {"v=TLSRPTv1; rua=reports@example.com", -1, 0},
        {"v=TLSRPTv1; rua=mailto:", -1, 0},
        {"v=TLSRPTv1; rua=", -1, 0},
        {"v=TLSRPTv1; rua=mailto:a@b; rua=mailto:c@d", -1, 0},
        {"v=TLSRPTv1; ruf=mailto:a@b", -1, 0},
        {"v=TLSRPTv1; rua=mailto:a b@c", -1, 0},
        {"v=TLSRPTv1; ; rua=mailto:a@b", -1, 0},
        {"v=TLSRPTv1;", -1, 0},
        {"v=TLSRPTv1", -1, 0},
        {"v=TLSRPTv2; rua=mailto:a@b", -1, 0},
        {"V=TLSRPTv1; rua=mailto:a@b", -1, 0},
        {"", -1, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_of(rows[i].text);
        struct tls_rpt_record r = {.count = 0};
        int err = tls_rpt_record(&text, 1, &r);
        if ((err == 0) != (rows[i].count >= 0) ||
            (err == 0 && ((int)r.count != rows[i].count || (int)r.skipped != rows[i].skipped))) {
            fail_msg("%s: %d, %u, %u", rows[i].text, err, r.count, r.skipped);
        }
    }
}

static void ways_are_told_apart(void **state)
{
    struct slice text = SLICE("v=TLSRPTv1; rua=mailto:a@b.example?subject=x, https://b.example/r");
    struct tls_rpt_record r;
    assert_int_equal(tls_rpt_record(&text, 1, &r), 0);
    assert_int_equal(r.count, 2);
    assert_int_equal(r.rua[0].way, TLS_RPT_MAIL);
    assert_true(slice_eq(r.rua[0].uri, SLICE("mailto:a@b.example?subject=x")));
    assert_int_equal(r.rua[1].way, TLS_RPT_HTTPS);
    assert_true(slice_eq(r.rua[1].uri, SLICE("https://b.example/r")));
}

static void several_records_are_none(void **state)
{
    const struct slice texts[] = {SLICE("v=spf1 -all"), SLICE("v=TLSRPTv1; rua=mailto:a@b"),
                                  SLICE("v=TLSRPTv1; rua=mailto:c@d")};
    struct tls_rpt_record r;
    assert_int_equal(tls_rpt_record(texts, 0, &r), ERR_MISSING);
    assert_int_equal(tls_rpt_record(texts, 1, &r), ERR_MISSING);
    assert_int_equal(tls_rpt_record(texts, 2, &r), 0);
    assert_int_equal(tls_rpt_record(texts, 3, &r), ERR_MISSING);
}

static void mailboxes_are_decoded(void **state)
{
    static const struct {
        const char *uri, *mailbox; /* NULL: refused */
    } rows[] = {
        {"mailto:tls@example.com", "tls@example.com"},
        {"MAILTO:tls%2breports%40example.com?subject=a", "tls+reports@example.com"},
        {"mailto:a%2Cb@example.com", NULL},
        {"mailto:a:b@example.com", NULL},
        {"mailto:a(b)@example.com", NULL},
        {"mailto:a;b@example.com", NULL},
        {"mailto:a%5C@example.com", NULL},
        {"mailto:%22a@example.com", NULL},
        {"mailto:%22a%22@example.com", NULL},
        {"mailto:x@[", NULL},
        {"mailto:*@*", NULL},
        {"mailto:x@[127.0.0.1]", NULL},
        {"mailto:x@[IPv6:::1]", NULL},
        {"mailto:a@b.example,c@d.example", NULL},
        {"mailto:a%0d%0aRCPT@b.example", NULL},
        {"mailto:a%20b@c.example", NULL},
        {"mailto:a%3e@c.example", NULL},
        {"mailto:a%4@c.example", NULL},
        {"mailto:a@b.example%", NULL},
        {"mailto:a%00@c.example", NULL},
        {"mailto:@c.example", NULL},
        {"mailto:a@", NULL},
        {"mailto:a@b@c", NULL},
        {"mailto:", NULL},
        {"nothing", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char mailbox[TLS_RPT_MAILBOX_MAX + 1] = "";
        int err = tls_rpt_mailbox(slice_of(rows[i].uri), mailbox);
        if ((err == 0) != (rows[i].mailbox != NULL) ||
            (err == 0 && strcmp(mailbox, rows[i].mailbox) != 0)) {
            fail_msg("%s: %d %s", rows[i].uri, err, mailbox);
        }
    }
    char uri[TLS_RPT_MAILBOX_MAX + 20] = "mailto:", mailbox[TLS_RPT_MAILBOX_MAX + 1];
    memset(uri + 7, 'a', TLS_RPT_MAILBOX_MAX + 1);
    uri[7 + 64] = '@';
    for (size_t label = 1; label < 4; label++) {
        uri[7 + 64 + label * 64] = '.';
    }
    assert_int_equal(tls_rpt_mailbox(slice_make(uri, 7 + TLS_RPT_MAILBOX_MAX), mailbox), 0);
    assert_int_equal(tls_rpt_mailbox(slice_make(uri, 8 + TLS_RPT_MAILBOX_MAX), mailbox),
                     ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_say_where_reports_go),
        cmocka_unit_test(ways_are_told_apart),
        cmocka_unit_test(several_records_are_none),
        cmocka_unit_test(mailboxes_are_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
