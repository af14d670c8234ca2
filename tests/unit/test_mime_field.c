#include "engine/compose/mime_field.h"
#include "tests/unit/unit.h"

static struct buf out;

static const char *text(void)
{
    buf_append_char(&out, '\0');
    assert_false(out.failed);
    return out.data;
}

static const char *field(const char *name, const char *value)
{
    struct mime_field f;
    buf_clear(&out);
    mime_field_begin(&f, &out, slice_of(name));
    mime_field_text(&f, slice_of(value));
    mime_field_end(&f);
    return text();
}

static const char *mailbox(const char *name, const char *address)
{
    struct mime_field f;
    buf_clear(&out);
    mime_field_begin(&f, &out, SLICE("To"));
    mime_field_mailbox(&f, slice_of(name), slice_of(address));
    mime_field_end(&f);
    return text();
}

static const char *parameter(const char *value)
{
    struct mime_field f;
    buf_clear(&out);
    mime_field_begin(&f, &out, SLICE("X"));
    mime_field_parameter(&f, "filename", slice_of(value));
    mime_field_end(&f);
    return text();
}

static size_t longest_line(const char *s)
{
    size_t most = 0;
    while (*s != '\0') {
        size_t len = strcspn(s, "\r");
        most = len > most ? len : most;
        assert_memory_equal(s + len, "\r\n", 2);
        s += len + 2;
        assert_true(*s == '\0' || *s == ' ' || *s == '\t'); /* one field only */
    }
    return most;
}

static void plain_values(void **state)
{
    assert_string_equal(field("Subject", "hello"), "Subject: hello\r\n");
    assert_string_equal(field("Subject", "  hello  world\t"), "Subject: hello  world\r\n");
    assert_string_equal(field("X-A", ""), "X-A:\r\n");
    assert_string_equal(field("X-A", "=?utf-8?Q?made?="), "X-A: =?utf-8?Q?made?=\r\n");
}

static void long_values_are_folded_at_white_space(void **state)
{
    char value[800];
    for (size_t i = 0; i < sizeof(value); i++) {
        value[i] = i % 11 == 10 ? ' ' : 'a';
    }
    value[sizeof(value) - 1] = '\0';
    const char *got = field("Subject", value);
    assert_true(longest_line(got) <= 76);
    /* Unfolding gives the value back. */
    char unfolded[1000];
    size_t len = 0;
    for (const char *at = got + 9; *at != '\0'; at++) {
        if (*at != '\r' && *at != '\n') {
            unfolded[len++] = *at;
        }
    }
    unfolded[len] = '\0';
    assert_string_equal(unfolded, value);
}

static void white_space_alone_makes_no_long_line(void **state)
{
    char value[4001];
    memset(value, ' ', sizeof(value) - 1);
    value[0] = 'a';
    value[sizeof(value) - 2] = 'b';
    value[sizeof(value) - 1] = '\0';
    assert_string_equal(field("Subject", value), "Subject: a\r\n b\r\n");
}

static void other_characters_become_encoded_words(void **state)
{
    assert_string_equal(field("Subject", "Grüße"), "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n");
    assert_string_equal(field("Subject", "日本語"), "Subject: =?utf-8?B?5pel5pys6Kqe?=\r\n");
    assert_string_equal(field("Subject", "a_b ü?"), "Subject: =?utf-8?Q?a=5Fb_=C3=BC=3F?=\r\n");
}

static void encoded_words_are_cut_between_characters(void **state)
{
    char value[4 * 100 + 1] = "";
    for (int i = 0; i < 100; i++) {
        strcat(value, "😀");
    }
    assert_true(longest_line(field("Subject", value)) <= 76);
    const char *at =
        field("X-A-Name-That-Is-Nearly-As-Long-As-A-Line-And-Leaves-No-Room-At-All", value);
    assert_true(longest_line(at) <= 76);
    while ((at = strstr(at, "=?utf-8?B?")) != NULL) {
        at += 10;
        size_t len = strcspn(at, "?");
        size_t bytes = len / 4 * 3 - (at[len - 1] == '=') - (at[len - 2] == '=');
        assert_int_equal(bytes % 4, 0); /* whole characters of four bytes */
        assert_true(bytes > 0);
    }
}

static void mailboxes(void **state)
{
    assert_string_equal(mailbox("", "a@b.example"), "To: a@b.example\r\n");
    assert_string_equal(mailbox("A B", "a@b.example"), "To: A B <a@b.example>\r\n");
    assert_string_equal(mailbox("B, A", "a@b.example"), "To: \"B, A\" <a@b.example>\r\n");
    assert_string_equal(mailbox("A \"x\" \\", "a@b.example"),
                        "To: \"A \\\"x\\\" \\\\\" <a@b.example>\r\n");
    assert_string_equal(mailbox("Jürgen <x>", "a@b.example"),
                        "To: =?utf-8?Q?J=C3=BCrgen_=3Cx=3E?= <a@b.example>\r\n");
}

static void parameters(void **state)
{
    assert_string_equal(parameter("a b.txt"), "X:;\r\n filename=\"a b.txt\"\r\n");
    assert_string_equal(parameter("a\"b\\"), "X:;\r\n filename=\"a\\\"b\\\\\"\r\n");
    assert_string_equal(parameter("ä.txt"), "X:;\r\n filename*=utf-8''%C3%A4.txt\r\n");
    assert_string_equal(parameter("0123456789012345678901234567890123456789012345678901234567890"),
                        "X:;\r\n filename*0*=utf-8''"
                        "01234567890123456789012345678901234567890123456789;\r\n"
                        " filename*1*=01234567890\r\n");
}

static void what_fits(void **state)
{
    assert_true(mime_is_field_value(SLICE("a\tb\xc3\xbc")));
    assert_false(mime_is_field_value(SLICE("a\nb")));
    assert_false(mime_is_field_value(SLICE("a\rb")));
    assert_false(mime_is_field_value(SLICE("a\0b")));
    assert_false(mime_is_field_value(SLICE("a\x7f")));
    assert_true(mime_is_field_name(SLICE("X-A")));
    assert_false(mime_is_field_name(SLICE("")));
    assert_false(mime_is_field_name(SLICE("X A")));
    assert_false(mime_is_field_name(SLICE("X:")));
    assert_false(mime_is_field_name(SLICE("X\xc3\xbc")));
    assert_false(mime_has_long_word(SLICE("a b")));
    char word[MIME_FIELD_WORD_MAX + 1];
    memset(word, 'a', sizeof(word));
    assert_true(mime_has_long_word(slice_make(word, sizeof(word))));
    assert_false(mime_has_long_word(slice_make(word, sizeof(word) - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_values),
        cmocka_unit_test(long_values_are_folded_at_white_space),
        cmocka_unit_test(white_space_alone_makes_no_long_line),
        cmocka_unit_test(other_characters_become_encoded_words),
        cmocka_unit_test(encoded_words_are_cut_between_characters),
        cmocka_unit_test(mailboxes),
        cmocka_unit_test(parameters),
        cmocka_unit_test(what_fits),
    };
    buf_init(&out, 0);
    int failed = cmocka_run_group_tests_name("mime_field", tests, NULL, NULL);
    buf_fini(&out);
    return failed;
}
