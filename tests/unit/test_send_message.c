#include "base/error.h"
#include "engine/compose/send_message.h"
#include "tests/unit/config_sample.h"

static const struct send_options plain = {
    .sender = {"me@host.example", 15},
    .full_name = {"", 0},
    .hostname = {"host.example", 12},
    .now = 1700000000LL * USEC_PER_SEC,
    .unique = 0xabc,
};

struct made {
    struct buf out, recipients;
    int err;
};

static void make(struct made *m, const char *header, bool takes_recipients)
{
    struct send_options o = plain;
    o.takes_recipients = takes_recipients;
    buf_init(&m->out, 0);
    buf_init(&m->recipients, 0);
    m->err = send_message_header(slice_of(header), &o, &m->out, &m->recipients);
    buf_append_char(&m->out, '\0');
    for (size_t i = 0; i < m->recipients.len; i++) {
        m->recipients.data[i] = m->recipients.data[i] == '\0' ? '|' : m->recipients.data[i];
    }
    buf_append_char(&m->recipients, '\0');
}

static void unmake(struct made *m)
{
    buf_fini(&m->out);
    buf_fini(&m->recipients);
}

#define COMPLETE "From: a@b\nDate: x\nMessage-ID: <y>\n"

static void missing_headers(void **state)
{
    (void)state;
    struct made m;
    make(&m, "Subject: s\n", false);
    assert_string_equal(m.out.data, "Subject: s\r\nFrom: <me@host.example>\r\n"
                                    "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
                                    "Message-ID: <20231114221320.0000000000000abc@host.example>\r\n"
                                    "\r\n");
    unmake(&m);
    make(&m, "from: a@b\r\nDATE: x\r\nMessage-Id: <y>\r\n", false);
    assert_string_equal(m.out.data, "from: a@b\r\nDATE: x\r\nMessage-Id: <y>\r\n\r\n");
    unmake(&m);
    make(&m, "", false);
    assert_non_null(strstr(m.out.data, "From: <me@host.example>\r\n"));
    unmake(&m);
    make(&m, "From joe Mon Jan  1\n" COMPLETE, false);
    assert_string_equal(m.out.data, "From: a@b\r\nDate: x\r\nMessage-ID: <y>\r\n\r\n");
    unmake(&m);
}

static void recipients_from_headers(void **state)
{
    (void)state;
    struct made m;
    make(&m, "To: a@b, \"x, y\" <c@d>\n , e\nCC: (no) f@g (h)\nbcc: i@j,\n k@l\n" COMPLETE, true);
    assert_int_equal(m.err, 0);
    assert_string_equal(m.recipients.data, "a@b|c@d|e@host.example|f@g|i@j|k@l|");
    assert_null(strstr(m.out.data, "i@j"));
    assert_null(strstr(m.out.data, "k@l"));
    assert_non_null(strstr(m.out.data, "To: a@b, \"x, y\" <c@d>\r\n , e\r\nCC: "));
    unmake(&m);
    make(&m, "Bcc: i@j\nTo: a@b\n" COMPLETE, false);
    assert_string_equal(m.recipients.data, "");
    assert_non_null(strstr(m.out.data, "Bcc: i@j\r\n"));
    unmake(&m);
    make(&m, "To: a@b\nResent-To: r@s\nResent-Bcc: t@u\n" COMPLETE, true);
    assert_string_equal(m.recipients.data, "r@s|t@u|");
    assert_null(strstr(m.out.data, "t@u"));
    unmake(&m);
    make(&m, "To: <a@b\n" COMPLETE, true);
    assert_int_equal(m.err, ERR_SYNTAX);
    unmake(&m);
}

static void where_the_header_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_all, is_known;
        size_t header, body;
    } cases[] = {
        {"A: b\n\nbody", false, true, 5, 6},
        {"A: b\r\n\r\nbody", false, true, 6, 8},
        {"A: b\n c\nbody\n", false, true, 8, 8},
        {"A: b\n", false, false, 0, 0},
        {"A: b", false, false, 0, 0},
        {"A: b", true, true, 4, 4},
        {"body\n", false, true, 0, 0},
        {"\nbody", false, true, 0, 1},
        {"", true, true, 0, 0},
        {"", false, false, 0, 0},
        {"From x\nA: b\n\n", false, true, 12, 13},
        {"A: b\nFrom x\n", false, true, 5, 5},
        {" x\n", false, true, 0, 0},
        {"A : b\n\n", false, true, 6, 7},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t header = 0, body = 0;
        bool is_known =
            send_message_split(slice_of(cases[i].text), cases[i].is_all, &header, &body);
        assert_int_equal(is_known, cases[i].is_known);
        assert_true(!is_known || (header == cases[i].header && body == cases[i].body));
    }
}

static void bodies(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        bool dot_ends;
        const char *out;
    } cases[] = {
        {"", true, ".\r\n"},
        {"a\nb\n", true, "a\r\nb\r\n.\r\n"},
        {"a\r\nb", true, "a\r\nb\r\n.\r\n"},
        {"a\rb\r", true, "a\r\nb\r\n.\r\n"},
        {".a\n..\n", true, "..a\r\n...\r\n.\r\n"},
        {"a\n.\nb\n", true, "a\r\n.\r\n"},
        {"a\r\n.\r\nb\r\n", true, "a\r\n.\r\n"},
        {"a\n.\nb\n", false, "a\r\n..\r\nb\r\n.\r\n"},
        {"a\n.", false, "a\r\n..\r\n.\r\n"},
        {"a\n.", true, "a\r\n.\r\n"},
        {"\n\n", true, "\r\n\r\n.\r\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t piece = 1; piece < 8; piece++) {
            struct send_body b = {.dot_ends = cases[i].dot_ends};
            struct buf out;
            size_t len = strlen(cases[i].in);
            buf_init(&out, 0);
            for (size_t at = 0; at < len; at += piece) {
                size_t n = len - at < piece ? len - at : piece;
                send_body_convert(&b, slice_make(cases[i].in + at, n), &out);
            }
            send_body_finish(&b, &out);
            buf_append_char(&out, '\0');
            assert_string_equal(out.data, cases[i].out);
            buf_fini(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_headers),
        cmocka_unit_test(recipients_from_headers),
        cmocka_unit_test(where_the_header_ends),
        cmocka_unit_test(bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
