#include "base/log.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char captured[8192];
static int standard_error;
static int capture;

static void capture_start(void)
{
    capture = memfd_create("stderr", 0);
    standard_error = dup(STDERR_FILENO);
    assert_true(capture >= 0 && standard_error >= 0);
    assert_true(dup2(capture, STDERR_FILENO) >= 0);
}

/* What went to standard error since capture_start, in `captured`. */
static void capture_end(void)
{
    assert_true(dup2(standard_error, STDERR_FILENO) >= 0);
    ssize_t len = pread(capture, captured, sizeof(captured) - 1, 0);
    assert_true(len >= 0);
    captured[len] = '\0';
    (void)close(capture);
    (void)close(standard_error);
}

static bool matches(const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool is_match = regexec(&regex, captured, 0, NULL, 0) == 0;
    regfree(&regex);
    return is_match;
}

static void a_line_has_time_and_level(void **state)
{
    capture_start();
    log_info("listening on %s:%d", "[::1]", 25);
    log_error("bad");
    capture_end();
    assert_true(
        matches("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z info: "
                "listening on \\[::1\\]:25\n20[^ ]+ error: bad\n$"));
}

static void control_characters_are_escaped(void **state)
{
    capture_start();
    log_warning("%s", "a\r\nb\t\x1b[2J\x7f\xc3\xa4\\");
    capture_end();
    assert_non_null(strstr(captured, " warning: a\\r\\nb\\t\\x1b[2J\\x7f\\xc3\\xa4\\\\\n"));
    assert_int_equal(strchr(captured, '\n') - captured, strlen(captured) - 1);
}

static void lines_above_the_level_are_dropped(void **state)
{
    capture_start();
    log_debug("hidden");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("shown");
    log_set_level(LOG_LEVEL_ERROR);
    log_warning("hidden");
    log_set_level(LOG_LEVEL_INFO);
    capture_end();
    assert_null(strstr(captured, "hidden"));
    assert_non_null(strstr(captured, "debug: shown\n"));
}

static void a_long_line_is_cut(void **state)
{
    char text[5000];
    memset(text, '\x01', sizeof(text) - 1); /* the worst case: four bytes for one */
    text[sizeof(text) - 1] = '\0';
    capture_start();
    log_info("%s", text);
    capture_end();
    size_t len = strlen(captured);
    assert_in_range(len, 3900, 4100);
    assert_string_equal(captured + len - 8, "\\x01...\n");
}

static void errno_survives(void **state)
{
    capture_start();
    errno = ENOSPC;
    log_info("%m");
    int after = errno;
    capture_end();
    assert_int_equal(after, ENOSPC);
    assert_non_null(strstr(captured, "info: No space left on device\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_and_level),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(lines_above_the_level_are_dropped),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(errno_survives),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
