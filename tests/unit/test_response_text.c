/* Templates of replies: what varies is a star, what tells reasons apart stays. */
#include "engine/response_text.h"
#include "tests/unit/unit.h"

static void check(const char *text, const char *expected)
{
    char out[RESPONSE_TEXT_MAX];
    size_t len = response_text_template(slice_of(text), out);
    if (!slice_eq(slice_make(out, len), slice_of(expected))) {
        print_error("%s\n  gave     %.*s\n  expected %s\n", text, (int)len, out, expected);
        fail();
    }
}

static void plain_words_stay(void **state)
{
    check("", "");
    check("Mailbox full", "Mailbox full");
    check("Try again later. Can't connect.", "Try again later. Can't connect.");
    check("  a\r\n\tb\x01  ", "a b");
    check("ung\xc3\xbcltig", "ung\xc3\xbcltig");
    check("see https://support.example.com/mail/answer/81126",
          "see https://support.example.com/mail/answer/*");
}

static void numbers_are_stars(void **state)
{
    check("5.7.1 too many (300) in 12:34:56", "* too many (*) in *");
    check("wait 35 seconds.", "wait * seconds.");
    check("2026-11-22T10:15:00Z", "*");
    check("limit=35/70", "limit=*");
}

static void addresses_are_stars(void **state)
{
    check("<ann.b+c@example.com>: user unknown", "<*>: user unknown");
    check("user ann@example.com. Unknown", "user *. Unknown");
    check("bounce+a=b.org@example.com refused", "* refused");
    check("[192.0.2.1] is listed", "[*] is listed");
    check("client 2001:db8::1: blocked", "client *: blocked");
    check("from ::1 now", "from * now");
    check("mx7.example.com said", "* said");
    check("dead:beef it is not", "dead:beef it is not");
}

static void tokens_are_stars(void **state)
{
    check("queued as 4cT2bN1x0fRz", "queued as *");
    check("e9-20020a05620a0f8900b006bb - gsmtp", "* - gsmtp");
    check("id 5f3a9c1e-abcd-4aaa-bcde-0123456789ab", "id *");
    check("key QWxhZGRpbjpvcGVuIHNlc2FtZQ== bad", "key *== bad");
    check("AbCdEfGhIjKlMnOpQrStUvWxYz end", "* end");
}

static void who_said_it_is_left_out(void **state)
{
    check("host mx.example.com[192.0.2.1] said: 450 4.2.2 Mailbox full (in reply to RCPT TO "
          "command)",
          "Mailbox full (in reply to RCPT TO command)");
    check("550 5.1.1 no such user", "no such user");
    check("550 no such user", "no such user");
    check("host is said to be down", "host is said to be down");
    check("connect to mx.example.com[2001:db8::1]:25: Connection refused",
          "connect to *[*]:*: Connection refused");
    check("lost connection with mx.example.com[192.0.2.1] while sending",
          "lost connection with *[*] while sending");
    check("421", "*");
    check("300 messages is too much", "messages is too much");
}

static void codes_stay(void **state)
{
    check("[TSS04] Messages deferred", "[TSS04] Messages deferred");
    check("part of their network (S3150)", "part of their network (S3150)");
    check("TSS040001 is none", "* is none");
    check("AUP#1260", "AUP#*");
}

static void quoted_is_a_star(void **state)
{
    check("user \"ann b\" unknown", "user \"*\" unknown");
    check("user 'ann b' unknown", "user '*' unknown");
    check("an \"open end", "an \"open end");
}

static void the_end_is_cut(void **state)
{
    char text[5000], out[RESPONSE_TEXT_MAX];
    memset(text, 'a', sizeof(text));
    assert_int_equal(response_text_template(slice_make(text, sizeof(text)), out),
                     RESPONSE_TEXT_MAX);
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = "1/"[i % 2];
    }
    assert_int_equal(response_text_template(slice_make(text, sizeof(text)), out), 2);
    for (int c = 0; c < 256; c++) {
        memset(text, c, sizeof(text));
        assert_true(response_text_template(slice_make(text, sizeof(text)), out) <=
                    RESPONSE_TEXT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_words_stay),        cmocka_unit_test(numbers_are_stars),
        cmocka_unit_test(addresses_are_stars),     cmocka_unit_test(tokens_are_stars),
        cmocka_unit_test(who_said_it_is_left_out), cmocka_unit_test(codes_stay),
        cmocka_unit_test(quoted_is_a_star),        cmocka_unit_test(the_end_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
