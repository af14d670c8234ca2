/* Records and policies as domains publish them, and as they should not. */
#include "base/error.h"
#include "net/mta_sts.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static void one_record_gives_an_id(void **state)
{
    static const struct {
        const char *text;
        const char *id; /* NULL: refused */
    } rows[] = {
        {"v=STSv1; id=20160831085700Z;", "20160831085700Z"},
        {"v=STSv1;id=1", "1"},
        {"v=STSv1 ; id=a ; x=y", "a"},
        {"v=STSv1; x.y-z=%; id=abcdefghijabcdefghijabcdefghij12;",
         "abcdefghijabcdefghijabcdefghij12"},
        {"v=STSv1; id=abcdefghijabcdefghijabcdefghij123;", NULL},
        {"v=STSv1; id=;", NULL},
        {"v=STSv1; id=a-b", NULL},
        {"v=STSv1; id=a; id=b", NULL},
        {"v=STSv1; id=a; ; x=y", NULL},
        {"v=STSv1; id=a; x", NULL},
        {"v=STSv1; id=a; x=a=b", NULL},
        {"v=STSv1; _=a; id=a", NULL},
        {"v=STSv1;", NULL},
        {"v=STSv1", NULL},
        {"v=STSv2; id=a", NULL},
        {" v=STSv1; id=a", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_of(rows[i].text);
        struct slice id;
        int err = mta_sts_record(&text, 1, &id);
        if ((err == 0) != (rows[i].id != NULL) ||
            (err == 0 && !slice_eq(id, slice_of(rows[i].id)))) {
            fail_msg("%s: %d", rows[i].text, err);
        }
    }
}

static void two_records_are_none(void **state)
{
    const struct slice texts[] = {SLICE("v=spf1 -all"), SLICE("v=STSv1; id=a;"),
                                  SLICE("v=STSv1; id=b;")};
    struct slice id;
    assert_int_equal(mta_sts_record(texts, 0, &id), ERR_MISSING);
    assert_int_equal(mta_sts_record(texts, 1, &id), ERR_MISSING);
    assert_int_equal(mta_sts_record(texts, 2, &id), 0);
    assert_true(slice_eq(id, SLICE("a")));
    assert_int_equal(mta_sts_record(texts, 3, &id), ERR_MISSING);
}

static void policies_are_read(void **state)
{
    struct mta_sts_policy p;
    struct slice text = SLICE("version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\n"
                              "mx: *.example.net\r\nmx: backupmx.example.com\r\n"
                              "max_age: 604800\r\n");
    assert_int_equal(mta_sts_policy_parse(text, &p), 0);
    assert_int_equal(p.mode, MTA_STS_ENFORCE);
    assert_int_equal(p.max_age, 604800);
    assert_true(mta_sts_policy_allows(&p, SLICE("mail.example.com")));
    assert_true(mta_sts_policy_allows(&p, SLICE("Mail.Example.COM")));
    assert_true(mta_sts_policy_allows(&p, SLICE("backupmx.example.com")));
    assert_true(mta_sts_policy_allows(&p, SLICE("a.example.net")));
    assert_false(mta_sts_policy_allows(&p, SLICE("a.b.example.net")));
    assert_false(mta_sts_policy_allows(&p, SLICE("example.net")));
    assert_false(mta_sts_policy_allows(&p, SLICE(".example.net")));
    assert_false(mta_sts_policy_allows(&p, SLICE("aexample.net")));
    assert_false(mta_sts_policy_allows(&p, SLICE("other.example.com")));
    assert_false(mta_sts_policy_allows(&p, SLICE("")));

    /* bare LF, unknown fields, what stands twice, no line end, blank lines */
    text = SLICE("version:STSv1\nfuture: x: y\nmode:testing \nmode: enforce\n\nmax_age: 0\n"
                 "max_age: 9\nversion: no\nmx: a.b");
    assert_int_equal(mta_sts_policy_parse(text, &p), 0);
    assert_int_equal(p.mode, MTA_STS_TESTING);
    assert_int_equal(p.max_age, 0);
    text = SLICE("version: STSv1\nmode: none\nmax_age: 9999999999\n");
    assert_int_equal(mta_sts_policy_parse(text, &p), 0);
    assert_int_equal(p.mode, MTA_STS_NONE);
    assert_int_equal(p.max_age, MTA_STS_MAX_AGE_MAX);
}

/* 63 bytes, in any place (RFC 1035 2.3.4). */
static void labels_have_a_longest(void **state)
{
    static const char *const around[][2] = {{"", ".b"}, {"*.", ".b"}, {"a.", ""}};
    char label[64];
    memset(label, 'x', sizeof(label));
    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
        for (int len = 63; len <= 64; len++) {
            struct mta_sts_policy p;
            char text[160];
            (void)snprintf(text, sizeof(text),
                           "version: STSv1\nmode: enforce\nmax_age: 1\nmx: %s%.*s%s\n",
                           around[i][0], len, label, around[i][1]);
            assert_int_equal(mta_sts_policy_parse(slice_of(text), &p), len == 63 ? 0 : ERR_SYNTAX);
        }
    }
}

static void bad_policies_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "version: STSv1\nmode: enforce\nmax_age: 1\n",
        "version: STSv1\nmode: testing\nmax_age: 1\n",
        "version: STSv1\nmode: enforce\nmx: a.b\n",
        "version: STSv1\nmax_age: 1\nmx: a.b\n",
        "mode: enforce\nmax_age: 1\nmx: a.b\n",
        "version: STSv2\nmode: enforce\nmax_age: 1\nmx: a.b\n",
        "version: STSv1\nmode: Enforce\nmax_age: 1\nmx: a.b\n",
        "version: STSv1\nmode: enforce\nmax_age: -1\nmx: a.b\n",
        "version: STSv1\nmode: enforce\nmax_age: 1s\nmx: a.b\n",
        "version: STSv1\nmode: enforce\nmax_age:\nmx: a.b\n",
        "version: STSv1\nmode: enforce\nmax_age: 10000000000\nmx: a.b\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: *\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: *.\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: a..b\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: a.*.b\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: a.b.\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: a.b, c.d\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: a.b\nhello\n",
        "version: STSv1\nmode: enforce\nmax_age: 1\nmx: a.b\n: x\n",
        "<html>\nversion: STSv1\nmode: enforce\nmax_age: 1\nmx: a.b\n",
    };
    struct mta_sts_policy p;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (mta_sts_policy_parse(slice_of(bad[i]), &p) != ERR_SYNTAX) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    static char large[MTA_STS_POLICY_MAX + 1];
    memset(large, '\n', sizeof(large));
    static const char good[] = "version: STSv1\nmode: none\nmax_age: 1\n";
    memcpy(large, good, sizeof(good) - 1);
    assert_int_equal(mta_sts_policy_parse(slice_make(large, sizeof(large) - 1), &p), 0);
    assert_int_equal(mta_sts_policy_parse(slice_make(large, sizeof(large)), &p), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_record_gives_an_id), cmocka_unit_test(two_records_are_none),
        cmocka_unit_test(policies_are_read),      cmocka_unit_test(bad_policies_are_refused),
        cmocka_unit_test(labels_have_a_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
