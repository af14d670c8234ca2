/* Rows of events, read back by a reader of RFC 4180 of the test's own. */
#include "base/error.h"
#include "engine/event/account_row.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum account_column all_columns[ACCOUNT_COLUMN_COUNT] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
    30,
};

static const char *source_address(void *ctx, const char *source, bool is_v6)
{
    assert_string_equal(source, "mta1");
    return is_v6 ? "2001:db8::9" : "192.0.2.9";
}

static const char *pool_of(void *ctx, const char *transport)
{
    return strcmp(transport, "smtp") == 0 ? "main" : NULL;
}

static const struct account_names names = {source_address, pool_of, NULL};

struct row {
    char text[ACCOUNT_COLUMN_COUNT][512];
    size_t count;
};

/* One record; returns where it ended. */
static const char *read_row(const char *at, struct row *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (;;) {
        assert_true(ret->count < ACCOUNT_COLUMN_COUNT);
        char *out = ret->text[ret->count++];
        if (*at == '"') {
            at++;
            while (at[0] != '"' || at[1] == '"') {
                assert_true(*at != '\0');
                at += *at == '"';
                *out++ = *at++;
            }
            at++;
        } else {
            while (strchr(",\n", *at) == NULL) {
                assert_true(*at != '"' && *at != '\r');
                *out++ = *at++;
            }
        }
        assert_true(*at == ',' || *at == '\n');
        if (*at++ == '\n') {
            return at;
        }
    }
}

static void check_row(const char *line, const enum account_column *columns, size_t count,
                      struct row *ret)
{
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(account_row(&out, slice_of(line), columns, count, &names), 0);
    buf_append_char(&out, '\0');
    assert_false(out.failed);
    assert_int_equal(*read_row(out.data, ret), '\0');
    assert_int_equal(ret->count, count);
    buf_fini(&out);
}

static void a_delivery(void **state)
{
    struct row r;
    check_row(
        "{\"type\":\"Delivery\",\"id\":\"00aa\",\"sender\":\"me@a.test\",\"recipient\":"
        "\"you@b.test\",\"queue\":\"b.test\",\"transport\":\"smtp\",\"site\":\"mx\",\"size\":"
        "1234,\"response\":{\"code\":250,\"enhanced_code\":{\"class\":2,\"subject\":1,"
        "\"detail\":5},\"content\":\"kept, \\\"thanks\\\"\",\"command\":\".\"},"
        "\"peer_address\":{\"name\":\"mx.b.test\",\"addr\":\"192.0.2.1\"},\"timestamp\":"
        "1763806587,\"event_time\":\"x\",\"created\":1763806580,\"num_attempts\":2,"
        "\"egress_source\":\"mta1\",\"campaign\":\"spring\",\"tenant\":\"acme\",\"delay\":6.5,"
        "\"mail_class\":\"urgent\",\"dkim\":\"kept\",\"dkim_keys\":[\"s1._domainkey.a.test\","
        "\"s2._domainkey.a.test\"]}",
        all_columns, ACCOUNT_COLUMN_COUNT, &r);
    static const char *const wanted[ACCOUNT_COLUMN_COUNT] = {
        "d",
        "2025-11-22 10:16:27+0000",
        "2025-11-22 10:16:20+0000",
        "me@a.test",
        "you@b.test",
        "",
        "relayed",
        "2.1.5",
        "smtp;250 2.1.5 kept, \"thanks\"",
        "mx.b.test (192.0.2.1)",
        "",
        "",
        "",
        "smtp",
        "192.0.2.9",
        "192.0.2.1",
        "",
        "1234",
        "mta1",
        "spring",
        "",
        "b.test/mta1",
        "main",
        "00aa",
        "acme",
        "2",
        "6.5",
        "",
        "urgent",
        "kept",
        "s1._domainkey.a.test s2._domainkey.a.test",
    };
    for (size_t i = 0; i < ACCOUNT_COLUMN_COUNT; i++) {
        assert_string_equal(r.text[i], wanted[i]);
    }
}

static void types_and_categories(void **state)
{
    static const enum account_column columns[] = {ACCOUNT_TYPE,       ACCOUNT_DSN_ACTION,
                                                  ACCOUNT_BOUNCE_CAT, ACCOUNT_SRC_MTA,
                                                  ACCOUNT_DSN_MTA,    ACCOUNT_DLV_SOURCE_IP};
    static const struct {
        const char *line;
        const char *wanted[6];
    } rows[] = {
        {"{\"type\":\"Bounce\",\"response\":{\"code\":550,\"enhanced_code\":{\"class\":5,"
         "\"subject\":1,\"detail\":1},\"content\":\"no\"},\"egress_source\":\"mta1\","
         "\"peer_address\":{\"name\":\"\",\"addr\":\"2001:db8::1\"}}",
         {"b", "failed", "bad-mailbox", "", "2001:db8::1", "2001:db8::9"}},
        {"{\"type\":\"Expiration\",\"response\":{\"code\":450,\"content\":\"later\"}}",
         {"b", "failed", "message-expired", "", "", ""}},
        {"{\"type\":\"TransientFailure\",\"response\":{\"code\":0,\"enhanced_code\":{\"class\":4,"
         "\"subject\":4,\"detail\":1},\"content\":\"refused\"}}",
         {"t", "delayed", "no-answer-from-host", "", "", ""}},
        {"{\"type\":\"TransientFailure\"}", {"t", "delayed", "other", "", "", ""}},
        {"{\"type\":\"Reception\",\"peer_address\":{\"name\":\"client\",\"addr\":\"192.0.2.7\"}}",
         {"r", "", "", "client (192.0.2.7)", "", ""}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct row r;
        check_row(rows[i].line, columns, 6, &r);
        for (size_t j = 0; j < 6; j++) {
            assert_string_equal(r.text[j], rows[i].wanted[j]);
        }
    }
}

static void anything_can_be_quoted(void **state)
{
    static const enum account_column columns[] = {ACCOUNT_ORIG, ACCOUNT_RCPT};
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"plain", "plain"},
        {"a,b", "a,b"},
        {"\\\"", "\""},
        {"\\\"\\\"", "\"\""},
        {",", ","},
        {"\\r\\n", "\r\n"},
        {"a\\nb,\\\"c\\\"", "a\nb,\"c\""},
        {" x ", " x "},
        {"", ""},
        {"\\u00e4\\u20ac", "\xc3\xa4\xe2\x82\xac"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[256];
        struct row r;
        (void)snprintf(line, sizeof(line),
                       "{\"type\":\"Delivery\",\"sender\":\"%s\",\"recipient\":\"x%s\"}",
                       rows[i].json, rows[i].json);
        check_row(line, columns, 2, &r);
        assert_string_equal(r.text[0], rows[i].text);
        assert_string_equal(r.text[1] + 1, rows[i].text);
    }
}

static void what_is_no_event_has_no_row(void **state)
{
    static const char *const lines[] = {"",
                                        "{",
                                        "[]",
                                        "{}",
                                        "7",
                                        "{\"type\":7}",
                                        "{\"type\":\"Segment\",\"number\":1}",
                                        "{\"type\":\"Delivery\"",
                                        "{\"type\":\"Delivery\"}}"};
    struct buf out;
    buf_init(&out, 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(
            account_row(&out, slice_of(lines[i]), all_columns, ACCOUNT_COLUMN_COUNT, NULL),
            ERR_SYNTAX);
    }
    assert_int_equal(out.len, 0);
    /* Members of other types than ours are left out. */
    assert_int_equal(account_row(&out,
                                 SLICE("{\"type\":\"Bounce\",\"sender\":[1],\"response\":3,"
                                       "\"peer_address\":\"x\",\"timestamp\":-1,\"created\":"
                                       "9223372036854775807,\"num_attempts\":{}}"),
                                 all_columns, ACCOUNT_COLUMN_COUNT, NULL),
                     0);
    buf_fini(&out);
}

static void columns_have_names(void **state)
{
    struct buf out;
    struct row r;
    buf_init(&out, 0);
    account_row_names(&out, all_columns, ACCOUNT_COLUMN_COUNT);
    buf_append_char(&out, '\0');
    assert_int_equal(*read_row(out.data, &r), '\0');
    for (size_t i = 0; i < ACCOUNT_COLUMN_COUNT; i++) {
        assert_int_equal(account_column_find(slice_of(r.text[i])), i);
    }
    assert_int_equal(account_column_find(SLICE("Type")), ACCOUNT_COLUMN_COUNT);
    assert_int_equal(account_column_find(SLICE("")), ACCOUNT_COLUMN_COUNT);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delivery),
        cmocka_unit_test(types_and_categories),
        cmocka_unit_test(anything_can_be_quoted),
        cmocka_unit_test(what_is_no_event_has_no_row),
        cmocka_unit_test(columns_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
