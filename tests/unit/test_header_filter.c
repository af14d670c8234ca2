/* Control headers taken out of a message: what goes, what stays, and that it does not matter how
 * the message is cut. */
#include "base/buf.h"
#include "engine/compose/header_filter.h"
#include "engine/config/label.h"
#include "tests/unit/unit.h"

static const char *const two[] = {"X-Tenant", "X-Campaign"};

/* The message in pieces of these lengths, again and again; what stays is taken out of the buffer
 * whenever it is that long. */
static void filter_in_pieces(struct slice message, size_t piece, size_t cut, struct buf *out)
{
    struct header_filter f;
    struct buf b;
    buf_init(&b, 0);
    buf_append_str(&b, "Received: X\r\n");
    header_filter_init(&f, two, 2, b.len);
    for (size_t at = 0; at < message.len;) {
        size_t len = message.len - at < piece ? message.len - at : piece;
        buf_append(&b, message.data + at, len);
        at += len;
        size_t ready = header_filter_run(&f, &b);
        assert_true(ready <= b.len);
        assert_true(b.len - ready <= LABEL_WHITE_MAX + 10 + piece);
        if (ready >= cut) {
            buf_append(out, b.data, ready);
            buf_consume(&b, ready);
            header_filter_cut(&f);
        }
    }
    assert_int_equal(header_filter_run(&f, &b), b.len);
    buf_append_slice(out, buf_slice(&b));
    assert_false(out->failed || b.failed);
    buf_fini(&b);
}

static void check_cut(struct slice message, struct slice expected, size_t piece, size_t cut)
{
    struct buf out;
    buf_init(&out, 0);
    filter_in_pieces(message, piece, cut, &out);
    if (!slice_eq(slice_from(buf_slice(&out), 13), expected)) { /* behind our own field */
        print_error("pieces of %zu, cut from %zu:\n%.*s\n  gave\n%.*s\n", piece, cut,
                    (int)message.len, message.data, (int)out.len, out.data);
        fail();
    }
    buf_fini(&out);
}

static void check(const char *message, const char *expected)
{
    for (size_t piece = 1; piece <= strlen(message) + 1; piece++) {
        check_cut(slice_of(message), slice_of(expected), piece, 1);
        check_cut(slice_of(message), slice_of(expected), piece, 20);
        check_cut(slice_of(message), slice_of(expected), piece, SIZE_MAX);
    }
}

static void fields_go(void **state)
{
    (void)state;
    check("X-Tenant: a\r\nSubject: b\r\n\r\nc\r\n", "Subject: b\r\n\r\nc\r\n");
    check("Subject: b\r\nx-tenant:a\r\nX-CAMPAIGN :a\r\n\r\nc\r\n", "Subject: b\r\n\r\nc\r\n");
    check("X-Tenant: a\r\nX-Tenant: a\r\nA: b\r\nX-Campaign \t : c\r\nX-tenant:\r\n\r\n",
          "A: b\r\n\r\n");
    check("X-Campaign: a\r\n b\r\n\tc\r\nTo: d\r\n e\r\n\r\nf\r\n", "To: d\r\n e\r\n\r\nf\r\n");
    check("X-Tenant:\r\n \r\n a\r\nTo: d\r\n\r\n", "To: d\r\n\r\n");
    check("X-Tenant: a\r\n\r\nX-Tenant: b\r\n", "\r\nX-Tenant: b\r\n");
    check("X-Tenant: only\r\n", "");
    check("", "");
}

static void others_stay(void **state)
{
    (void)state;
    const char *const same[] = {
        "X-Tenants: a\r\nX-Tenan: b\r\nXX-Tenant: c\r\nX-Tenant-Id: d\r\n\r\n",
        "Subject: X-Tenant: a\r\n X-Tenant: b\r\n\r\nX-Tenant: c\r\n",
        "\r\nX-Tenant: a\r\n",
        " X-Tenant: a\r\n\r\n",
        "X-Tenant\r\n: a\r\n\r\n",
        "X-Tenant a: b\r\nX-Tenant\r\n",
        "X-Tenant  \r\nX-Campaig\r\n",
        "a\r\n b\r\nc: d\r\n",
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        check(same[i], same[i]);
    }
}

static void much_white_space_is_no_field(void **state)
{
    (void)state;
    char text[1000] = "", less[1000] = "";
    memset(text, ' ', 8 + LABEL_WHITE_MAX + 1);
    memcpy(text, "X-Tenant", 8);
    memcpy(text + 8 + LABEL_WHITE_MAX + 1, ": a\r\n", 6);
    check(text, text);
    memcpy(less, text, 8 + LABEL_WHITE_MAX);
    memcpy(less + 8 + LABEL_WHITE_MAX, ": a\r\n", 6);
    check(less, "");
}

/* Longer than any buffer: the field goes, and no more of it is kept than its name. */
static void a_long_field_goes(void **state)
{
    (void)state;
    struct buf message, expected;
    buf_init(&message, 0);
    buf_init(&expected, 0);
    buf_append_str(&message, "From: a\r\nX-Tenant:");
    for (int i = 0; i < 20000; i++) {
        buf_append_str(&message, i % 9 == 0 ? "\r\n\t0123456789" : "0123456789");
    }
    buf_append_str(&message, "\r\nTo: b\r\n\r\nx\r\n");
    buf_append_str(&expected, "From: a\r\nTo: b\r\n\r\nx\r\n");
    for (size_t piece = 1; piece < 100000; piece = piece * 3 + 1) {
        check_cut(buf_slice(&message), buf_slice(&expected), piece, 1);
        check_cut(buf_slice(&message), buf_slice(&expected), piece, 4096);
    }
    buf_fini(&message);
    buf_fini(&expected);
}

static void without_names_nothing_is_read(void **state)
{
    (void)state;
    const char *const none[] = {NULL, "List-Id"};
    struct header_filter f;
    struct buf b;
    buf_init(&b, 0);
    buf_append_str(&b, "List-Id: a\r\nX-Tenant: b\r\n\r\n");
    header_filter_init(&f, none, 2, 0);
    assert_int_equal(f.state, HEADER_FILTER_DONE);
    assert_int_equal(header_filter_run(&f, &b), 27);
    assert_int_equal(b.len, 27);
    buf_fini(&b);
}

static void what_mail_needs_is_spared(void **state)
{
    (void)state;
    const char *const needed[] = {"from",    "FROM",         "List-Id",        "list-unsubscribe",
                                  "Subject", "Feedback-ID",  "DKIM-Signature", "Content-Type",
                                  "Date",    "Resent-From",  "ARC-Seal",       "Received",
                                  "To",      "MIME-Version", "Message-ID",     "Return-Path"};
    const char *const others[] = {"X-Tenant", "Fromm", "X-List-Id", "L", "list-", "Campaign", "x"};
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        assert_true(header_filter_spares(slice_of(needed[i])));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(header_filter_spares(slice_of(others[i])),
                         strcmp(others[i], "list-") == 0);
    }
}

/* --- against a model that sees the whole message ---------------------------------------------- */

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*seed >> 33) % below;
}

static bool goes(struct slice line)
{
    for (size_t i = 0; i < 2; i++) {
        size_t at = strlen(two[i]);
        if (line.len > at && strncasecmp(line.data, two[i], at) == 0) {
            while (line.data[at] == ' ' || line.data[at] == '\t') {
                at++;
            }
            if (line.data[at] == ':') {
                return true;
            }
        }
    }
    return false;
}

/* The message ends with LF. */
static void model(struct slice message, struct buf *out)
{
    bool is_header = true, is_removing = false;
    while (message.len > 0) {
        struct slice line = slice_to(message, slice_find(message, '\n') + 1);
        is_header = is_header && line.data[0] != '\r';
        if (line.data[0] != ' ' && line.data[0] != '\t') {
            is_removing = is_header && goes(line);
        }
        if (!is_header || !is_removing) {
            buf_append_slice(out, line);
        }
        message = slice_from(message, line.len);
    }
}

static void any_message_in_any_pieces(void **state)
{
    (void)state;
    static const char *const pieces[] = {"X-Tenant", "x-campaign", ":",       " ",  "\t",
                                         "\r\n",     "\r\n",       "From",    "ab", "X-Ten",
                                         "\r\n ",    ": v\r\n",    "\r\n\r\n"};
    uint64_t seed = 4711;
    for (int round = 0; round < STRESS_ROUNDS(20000); round++) {
        struct buf message, expected;
        buf_init(&message, 0);
        buf_init(&expected, 0);
        for (uint32_t i = draw(&seed, 40); i > 0; i--) {
            buf_append_str(&message, pieces[draw(&seed, sizeof(pieces) / sizeof(pieces[0]))]);
        }
        buf_append_str(&message, "\r\n");
        model(buf_slice(&message), &expected);
        check_cut(buf_slice(&message), buf_slice(&expected), 1 + draw(&seed, 40),
                  1 + draw(&seed, 60));
        buf_fini(&message);
        buf_fini(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_go),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(much_white_space_is_no_field),
        cmocka_unit_test(a_long_field_goes),
        cmocka_unit_test(without_names_nothing_is_read),
        cmocka_unit_test(what_mail_needs_is_spared),
        cmocka_unit_test(any_message_in_any_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
