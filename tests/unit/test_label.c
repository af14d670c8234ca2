#include "engine/compose/header_filter.h"
#include "engine/config/label.h"
#include "tests/unit/unit.h"

#include <string.h>

static void what_is_a_label(void **state)
{
    char text[LABEL_MAX + 1];
    memset(text, 'x', sizeof(text));
    assert_true(label_is_valid(SLICE("a")));
    assert_true(label_is_valid(SLICE("acme/2030!~")));
    assert_true(label_is_valid(slice_make(text, LABEL_MAX)));
    assert_false(label_is_valid(slice_make(text, LABEL_MAX + 1)));
    assert_false(label_is_valid(SLICE("")));
    assert_false(label_is_valid(SLICE("a b")));
    assert_false(label_is_valid(SLICE("a\tb")));
    assert_false(label_is_valid(SLICE("a\r\nb")));
    assert_false(label_is_valid(SLICE("\xc3\xbc")));
    assert_false(label_is_valid(SLICE("a\x7f")));
}

struct search {
    const char *content;
    const char *found; /* NULL: no label */
};

static void labels_in_a_header(void **state)
{
    static const struct search searches[] = {
        {"X-T: acme\r\n\r\n", "acme"},
        {"Received: x\r\n\ty\r\nx-t:acme \t\r\n\r\nbody", "acme"},
        {"X-T : acme\r\n\r\n", "acme"},
        {"X-T:\r\n  acme\r\n\t\r\n\r\n", "acme"},
        {"X-T: first\r\nX-T: second\r\n\r\n", "first"},
        {"X-TT: no\r\nX-T: acme\r\n", "acme"},
        {"", ""},
        {"\r\nX-T: body\r\n", ""},
        {"A: b\r\n X-T: folded\r\n\r\n", ""},
        {"A: b\r\n\r\nX-T: body\r\n", ""},
        {"X-T: cut off", ""},
        {"X-T: cut off\r\n ", ""},
        {"X-T", ""},
        {"X-T: two words\r\n\r\n", NULL},
        {"X-T: two\r\n words\r\n\r\n", NULL},
        {"X-T:\r\n\r\n", NULL},
        {"X-T: \xc3\xbc\r\n\r\n", NULL},
        {"X-T: 01234567890123456789012345678901234567890123456789012345678901234\r\n\r\n", NULL},
    };
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
        struct label label;
        bool is_good = label_find(slice_of(searches[i].content), SLICE("X-T"), &label);
        assert_int_equal(is_good, searches[i].found != NULL);
        struct slice found = slice_of(searches[i].found == NULL ? "" : searches[i].found);
        if (!slice_eq(label_slice(&label), found)) {
            fail_msg("%s: " SLICE_FMT, searches[i].content, SLICE_ARG(label_slice(&label)));
        }
    }
}

/* What the header filter leaves in the message names no tenant. */
static void white_space_in_front_of_the_colon(void **state)
{
    (void)state;
    char text[1000] = "";
    struct label label;
    for (size_t more = 0; more < 2; more++) {
        size_t at = 3 + LABEL_WHITE_MAX + more;
        memset(text, ' ', at);
        memcpy(text, "X-T", 3);
        memcpy(text + at, ": acme\r\n\r\n", 11);
        assert_true(label_find(slice_make(text, at + 10), SLICE("X-T"), &label));
        assert_true(slice_eq(label_slice(&label), more == 0 ? SLICE("acme") : SLICE("")));
    }
}

static void names_of_fields(void **state)
{
    assert_true(label_is_field_name(SLICE("X-Tenant")));
    assert_false(label_is_field_name(SLICE("")));
    assert_false(label_is_field_name(SLICE("X Tenant")));
    assert_false(label_is_field_name(SLICE("X-Tenant:")));
}

static void local_parts_that_unsubscribe(void **state)
{
    (void)state;
    static const char *const good[] = {"unsubscribe", "Unsubscribe+abc", "unsub-acme", "OPT-OUT",
                                       "optout=x", "leave"};
    static const char *const others[] = {"", "unsubscribed", "x-unsubscribe", "leaves", "opt",
                                         "unsub.x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(label_is_unsubscribe(slice_of(good[i])));
        assert_false(label_is_unsubscribe(slice_of(others[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_label),
        cmocka_unit_test(labels_in_a_header),
        cmocka_unit_test(white_space_in_front_of_the_colon),
        cmocka_unit_test(names_of_fields),
        cmocka_unit_test(local_parts_that_unsubscribe),
    };
    return cmocka_run_group_tests_name("label", tests, NULL, NULL);
}
