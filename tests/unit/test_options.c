/* Command lines of the load tools. */
#include "base/error.h"
#include "bench/tool/options.h"
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

struct taken {
    uint64_t number;
    bool has_flag;
};

static int take(void *ctx, int id, const char *text)
{
    struct taken *t = ctx;
    if (id == 'f') {
        assert_null(text);
        t->has_flag = true;
        return 0;
    }
    return options_integer(text, 9, &t->number);
}

static const struct option table[] = {{"number", required_argument, NULL, 'n'},
                                      {"flag", no_argument, NULL, 'f'},
                                      {"help", no_argument, NULL, OPTIONS_HELP},
                                      {NULL, 0, NULL, 0}};
static const struct options program = {"test", "usage: test\n", table, take};

static int read_line(int (*read)(const struct options *, int, char **, void *, int *),
                     const char *line, struct taken *ret, int *ret_status)
{
    static char copy[200];
    static char name[] = "test";
    static char *argv[10];
    int argc = 1;
    char *rest = NULL;
    *ret = (struct taken){0};
    argv[0] = name;
    assert_true(snprintf(copy, sizeof(copy), "%s", line) < (int)sizeof(copy));
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    optind = 0; /* glibc: begin anew */
    return read(&program, argc, argv, ret, ret_status);
}

static void test_good(void **state)
{
    struct taken t;
    int status;
    (void)state;
    assert_int_equal(read_line(options_read_all, "--number 7 --flag", &t, &status), 0);
    assert_int_equal(t.number, 7);
    assert_true(t.has_flag);
    assert_int_equal(read_line(options_read, "--number 3 one two", &t, &status), 3);
    assert_int_equal(t.number, 3);
}

static void test_wrong(void **state)
{
    static const char *const lines[] = {"--number 10", "--number x",   "--number", "--what",
                                        "--number -1", "--number 1.5", "operand"};
    struct taken t;
    int status;
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        status = EX_OK;
        assert_int_equal(read_line(options_read_all, lines[i], &t, &status), -1);
        assert_int_equal(status, EX_USAGE);
    }
    assert_int_equal(read_line(options_read, "--help", &t, &status), -1);
    assert_int_equal(status, EX_OK);
}

static void test_values(void **state)
{
    uint64_t integer;
    double number;
    (void)state;
    assert_int_equal(options_integer("18446744073709551615", UINT64_MAX, &integer), 0);
    assert_true(integer == UINT64_MAX);
    assert_int_equal(options_integer("18446744073709551616", UINT64_MAX, &integer), ERR_SYNTAX);
    assert_int_equal(options_integer("", 5, &integer), ERR_SYNTAX);
    assert_int_equal(options_integer(" 1", 5, &integer), ERR_SYNTAX);
    assert_int_equal(options_number("0.25", 1, &number), 0);
    assert_true(number == 0.25);
    assert_int_equal(options_number("1.01", 1, &number), ERR_SYNTAX);
    assert_int_equal(options_number("nan", 1, &number), ERR_SYNTAX);
    assert_int_equal(options_number("", 1, &number), ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
