/* Tables and pieces of text for terminals. */
#include "engine/cli/cli_table.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static void tables(void **state)
{
    (void)state;
    static const struct cli_column columns[] = {
        {"NAME", false}, {"COUNT", true}, {"WHY", false}, {NULL, false}};
    struct cli_table t;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    cli_table_init(&t, columns);
    cli_table_print(&t, out);
    assert_int_equal(ftell(out), 0);
    cli_table_text(&t, "caf\xc3\xa9");
    cli_table_number(&t, 1234567);
    cli_table_text(&t, "");
    cli_table_text(&t, "a\x1b[2Jb\xc2\x9b");
    cli_table_cell(&t, "%d", 5);
    cli_table_text(&t, "because");
    cli_table_note(&t, "451 \xe2\x80\xae later\n");
    cli_table_print(&t, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "NAME       COUNT  WHY\n"
                              "caf\xc3\xa9     1234567  \n"
                              "a?[2Jb?        5  because\n"
                              "    451 ? later?\n");
    free(text);
    cli_table_fini(&t);
}

static void spans(void **state)
{
    (void)state;
    char text[CLI_SPAN_TEXT], when[CLI_WHEN_TEXT];
    assert_string_equal(cli_span_text(-5, text), "0s");
    assert_string_equal(cli_span_text(59.9, text), "59s");
    assert_string_equal(cli_span_text(200, text), "3m20s");
    assert_string_equal(cli_span_text(5 * 3600 + 125, text), "5h02m");
    assert_string_equal(cli_span_text(3 * 86400 + 4 * 3600, text), "3d04h");
    assert_string_equal(cli_span_text(1e300, text), "11574074d01h");
    assert_string_equal(cli_when_text(NULL, 0, when), "");
    json_t *t = json_real(100);
    assert_string_equal(cli_when_text(t, 55, when), "in 45s");
    assert_string_equal(cli_when_text(t, 145, when), "45s ago");
    json_decref(t);
    json_t *o = json_pack("{s:s, s:i}", "a", "x", "n", 7);
    assert_string_equal(cli_member_text(o, "a"), "x");
    assert_string_equal(cli_member_text(o, "n"), "");
    assert_string_equal(cli_member_text(NULL, "a"), "");
    assert_int_equal(cli_member_number(o, "n"), 7);
    assert_int_equal(cli_member_number(o, "b"), 0);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
