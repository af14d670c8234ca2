/* A spool makes room for an empty one. */
#include "base/error.h"
#include "engine/spool/spool_aside.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

static void write_file(const char *name, const char *text)
{
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void look_at_file(const char *name, const char *expected)
{
    char path[200], text[64] = "";
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t len = fread(text, 1, sizeof(text) - 1, f);
    text[len] = '\0';
    assert_int_equal(fclose(f), 0);
    assert_string_equal(text, expected);
}

static void set_aside(void)
{
    char text[256] = "";
    down();
    assert_int_equal(spool_set_aside(folder, MAP_BYTES, 7, text), 0);
    assert_non_null(strstr(text, "taken-7.mdb"));
    up();
}

static void the_next_one_is_empty(void **state)
{
    (void)put_one(1);
    set_aside();
    assert_int_equal(read_result(1), ERR_MISSING);
}

/* It was killed when the journal was away: the spool was opened once more, which made another one. */
static void the_first_journal_is_kept(void **state)
{
    (void)put_one(1);
    write_file("taken-7.journal", "of the mail that was taken over");
    write_file("journal", "");
    set_aside();
    assert_int_equal(read_result(1), ERR_MISSING);
    look_at_file("taken-7.journal", "of the mail that was taken over");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_one_is_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_journal_is_kept, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
