/* Rows on disk: names, rotation, files that others move, and what a crash leaves. */
#include "engine/feed/account_file.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char path[96];
static const struct account_mark unknown = {0, 0, 0};

static int set_up(void **state)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/test_account_file.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/acct.csv", folder);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static void check_file(const char *ending, const char *wanted)
{
    char name[128];
    char text[512] = "";
    (void)snprintf(name, sizeof(name), "%s%s", path, ending);
    int fd = open(name, O_RDONLY);
    if (wanted == NULL) {
        assert_int_equal(fd, -1);
        return;
    }
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    assert_string_equal(text, wanted);
}

static void rows_of_a_crash_are_taken_back(void **state)
{
    struct account_file f;
    assert_int_equal(account_file_init(&f, path, SLICE("a,b\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &unknown), 1);
    struct account_mark mark = f.mark;
    assert_int_equal(account_file_ready(&f, &mark), 0);
    assert_int_equal(account_file_append(&f, SLICE("1,2\n")), 0);
    mark = f.mark; /* stored */
    assert_int_equal(account_file_append(&f, SLICE("3,4\n")), 0);
    account_file_fini(&f); /* killed before the mark was stored */
    check_file("", "a,b\n1,2\n3,4\n");

    assert_int_equal(account_file_init(&f, path, SLICE("a,b\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &mark), 0);
    check_file("", "a,b\n1,2\n");
    assert_int_equal(account_file_append(&f, SLICE("3,4\n")), 0);
    account_file_fini(&f);
    account_file_fini(&f);
    check_file("", "a,b\n1,2\n3,4\n");
}

static void full_files_become_numbered(void **state)
{
    struct account_file f;
    assert_int_equal(account_file_init(&f, path, SLICE("a\n"), 6, 2), 0);
    struct account_mark mark = unknown;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(account_file_ready(&f, &mark), 1);
        mark = f.mark;
        char row[16];
        (void)snprintf(row, sizeof(row), "row%d\n", i);
        assert_int_equal(account_file_append(&f, slice_of(row)), 0);
    }
    account_file_fini(&f);
    check_file(".1", NULL);
    check_file(".2", NULL);
    check_file(".3", "a\nrow2\n");
    check_file(".4", "a\nrow3\n");
    check_file("", "a\nrow4\n");
}

static void other_names_begin_another_file(void **state)
{
    struct account_file f;
    assert_int_equal(account_file_init(&f, path, SLICE("a,b\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &unknown), 1);
    assert_int_equal(account_file_append(&f, SLICE("1,2\n")), 0);
    struct account_mark mark = f.mark;
    account_file_fini(&f);
    assert_int_equal(account_file_init(&f, path, SLICE("a,b,c\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &mark), 1);
    account_file_fini(&f);
    check_file(".1", "a,b\n1,2\n");
    check_file("", "a,b,c\n");
}

static void a_file_moved_away_is_begun_anew(void **state)
{
    struct account_file f;
    char moved[128];
    (void)snprintf(moved, sizeof(moved), "%s/old", folder);
    assert_int_equal(account_file_init(&f, path, SLICE("a\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &unknown), 1);
    struct account_mark mark = f.mark;
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(account_file_ready(&f, &mark), 1);
    assert_int_equal(account_file_append(&f, SLICE("1\n")), 0);
    check_file("", "a\n1\n");
    account_file_fini(&f);
}

static void errors_are_returned(void **state)
{
    struct account_file f;
    assert_int_equal(account_file_init(&f, "/nonexistent/file", SLICE("a\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &unknown), -ENOENT);
    account_file_fini(&f);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(account_file_init(&f, path, SLICE("a\n"), 0, 0), 0);
    assert_int_equal(account_file_ready(&f, &unknown), -EINVAL);
    account_file_fini(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_of_a_crash_are_taken_back),
        TEST(full_files_become_numbered),
        TEST(other_names_begin_another_file),
        TEST(a_file_moved_away_is_begun_anew),
        TEST(errors_are_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
