#include "base/error.h"
#include "engine/compose/mime_body.h"
#include "tests/unit/unit.h"

static struct buf out;

static const char *write(const struct mime_body *body)
{
    size_t wrong;
    buf_clear(&out);
    assert_int_equal(mime_body_write(&out, body, &wrong), 0);
    buf_append_char(&out, '\0');
    assert_false(out.failed);
    return out.data;
}

static const char *text_part(const char *text)
{
    const struct mime_body body = {.has_text = true, .text = slice_of(text), .unique = 1};
    return write(&body);
}

#define PLAIN  "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
#define SEVEN  PLAIN "Content-Transfer-Encoding: 7bit\r\n\r\n"
#define QUOTED PLAIN "Content-Transfer-Encoding: quoted-printable\r\n\r\n"

static void text_that_is_mail_already(void **state)
{
    assert_string_equal(text_part("a\nb\r\nc\rd"), SEVEN "a\r\nb\r\nc\r\nd\r\n");
    assert_string_equal(text_part(""), SEVEN);
    assert_string_equal(text_part(".\n..\n"), SEVEN ".\r\n..\r\n");
}

static void text_that_has_to_be_encoded(void **state)
{
    assert_string_equal(text_part("ü=\n"), QUOTED "=C3=BC=3D\r\n");
    assert_string_equal(text_part("From me\n"), QUOTED "=46rom me\r\n");
    assert_string_equal(text_part("--=_x\n"), QUOTED "--=3D_x\r\n");
    assert_string_equal(text_part("ü \n.\n"), QUOTED "=C3=BC=20\r\n=2E\r\n");
    assert_string_equal(text_part("a\x01"), QUOTED "a=01\r\n");
}

static void quoted_lines_are_short(void **state)
{
    char text[2000];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    const char *at = text_part(text) + strlen(QUOTED);
    size_t total = 0;
    for (; *at != '\0'; at += strcspn(at, "\n") + 1) {
        size_t len = strcspn(at, "\r");
        assert_true(len <= 76);
        total += len - (at[len - 1] == '=');
    }
    assert_int_equal(total, sizeof(text) - 1);
}

static void alternatives(void **state)
{
    const struct mime_body body = {.has_text = true,
                                   .has_html = true,
                                   .text = SLICE("t\n"),
                                   .html = SLICE("<p>"),
                                   .unique = 10};
    assert_string_equal(write(&body), "MIME-Version: 1.0\r\n"
                                      "Content-Type: multipart/alternative;\r\n"
                                      " boundary=\"=_000000000000000a.1\"\r\n"
                                      "\r\n--=_000000000000000a.1\r\n"
                                      "Content-Type: text/plain; charset=utf-8\r\n"
                                      "Content-Transfer-Encoding: 7bit\r\n\r\n"
                                      "t\r\n"
                                      "\r\n--=_000000000000000a.1\r\n"
                                      "Content-Type: text/html; charset=utf-8\r\n"
                                      "Content-Transfer-Encoding: 7bit\r\n\r\n"
                                      "<p>"
                                      "\r\n--=_000000000000000a.1--\r\n");
}

static void attachments(void **state)
{
    const struct mime_part parts[] = {
        {.content_type = SLICE("image/png"),
         .content_id = SLICE("logo"),
         .content = SLICE("aGFs\nbG8="),
         .is_inline = true},
        {.content_type = SLICE("text/csv"), .filename = SLICE("a.csv"), .content = SLICE("")},
    };
    struct mime_body body = {
        .has_html = true, .html = SLICE("x"), .parts = parts, .part_count = 2, .unique = 1};
    const char *got = write(&body);
    /* mixed { related { html, logo }, csv } */
    assert_string_equal(got, "MIME-Version: 1.0\r\n"
                             "Content-Type: multipart/mixed;\r\n"
                             " boundary=\"=_0000000000000001.0\"\r\n"
                             "\r\n--=_0000000000000001.0\r\n"
                             "Content-Type: multipart/related; type=\"text/html\";\r\n"
                             " boundary=\"=_0000000000000001.2\"\r\n"
                             "\r\n--=_0000000000000001.2\r\n"
                             "Content-Type: text/html; charset=utf-8\r\n"
                             "Content-Transfer-Encoding: 7bit\r\n\r\n"
                             "x"
                             "\r\n--=_0000000000000001.2\r\n"
                             "Content-Type: image/png\r\n"
                             "Content-Transfer-Encoding: base64\r\n"
                             "Content-Disposition: inline\r\n"
                             "Content-ID: <logo>\r\n\r\n"
                             "aGFsbG8=\r\n"
                             "\r\n--=_0000000000000001.2--\r\n"
                             "\r\n--=_0000000000000001.0\r\n"
                             "Content-Type: text/csv\r\n"
                             "Content-Transfer-Encoding: base64\r\n"
                             "Content-Disposition: attachment;\r\n filename=\"a.csv\"\r\n\r\n"
                             "\r\n--=_0000000000000001.0--\r\n");
    /* Without html nothing can show it. */
    body.has_html = false;
    assert_null(strstr(write(&body), "related"));
}

static void what_is_no_base64(void **state)
{
    static const char long_wrong[] = "aGFsaGFsaGFsaGFsaGFsaGFsaGFsaGFsaGFsaGFsaGFsaGFsaGFs"
                                     "aGFsaGFsaGFsaGFsaGFsaG==aGFs";
    static const char *const wrong[] = {"a",    "aGF",  "aGF=aGFs", "aG==aGFs",
                                        "a!Fs", "====", long_wrong};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct mime_part parts[] = {
            {.content_type = SLICE("a/b"), .content = SLICE("aGFs")},
            {.content_type = SLICE("a/b"), .content = slice_of(wrong[i])},
        };
        const struct mime_body body = {.parts = parts, .part_count = 2};
        size_t index = 0;
        buf_clear(&out);
        assert_int_equal(mime_body_write(&out, &body, &index), ERR_SYNTAX);
        assert_int_equal(index, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_mail_already),
        cmocka_unit_test(text_that_has_to_be_encoded),
        cmocka_unit_test(quoted_lines_are_short),
        cmocka_unit_test(alternatives),
        cmocka_unit_test(attachments),
        cmocka_unit_test(what_is_no_base64),
    };
    buf_init(&out, 0);
    int failed = cmocka_run_group_tests_name("mime_body", tests, NULL, NULL);
    buf_fini(&out);
    return failed;
}
