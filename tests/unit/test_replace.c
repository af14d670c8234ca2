/* Replacing a file: in which order the calls are made, and what is there when one of them fails.
 * The calls are this program's own, so that each of them can be seen and made to fail. */
#include "base/replace.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char path[128], calls[64];
static int folder;
static char failing; /* the call that fails, by its letter in `calls`; 0: none */

static bool note(char call)
{
    size_t len = strlen(calls);
    assert_true(len + 1 < sizeof(calls));
    calls[len] = call;
    calls[len + 1] = '\0';
    errno = EIO;
    return call != failing;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && folder > 0 && !note('w')) {
        return -1;
    }
    return syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return note(S_ISDIR(st.st_mode) ? 'F' : 's') ? (int)syscall(SYS_fsync, fd) : -1;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return note('r') ? (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0) : -1;
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, sizeof(path), "%s/replace.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(path) == NULL) {
        return -1;
    }
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    failing = 0;
    calls[0] = '\0';
    return folder < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    char command[160];
    (void)close(folder);
    folder = 0;
    (void)snprintf(command, sizeof(command), "rm -r %s", path);
    return system(command);
}

static const char *contents(void)
{
    static char text[64];
    int fd = openat(folder, "it", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void the_folder_is_synced_after_the_rename(void **state)
{
    assert_int_equal(replace_file(folder, "it", ".new", SLICE("one")), 0);
    assert_string_equal(calls, "wsrF");
    assert_string_equal(contents(), "one");
    assert_int_equal(replace_file(folder, "it", ".new", SLICE("two")), 0);
    assert_string_equal(contents(), "two");
}

static void a_failure_leaves_the_old_contents(void **state)
{
    assert_int_equal(replace_file(folder, "it", ".new", SLICE("one")), 0);
    for (const char *call = "wsr"; *call != '\0'; call++) {
        failing = *call;
        calls[0] = '\0';
        assert_int_equal(replace_file(folder, "it", ".new", SLICE("two")), -EIO);
        assert_int_equal(calls[strlen(calls) - 1], *call); /* and nothing behind it was done */
        assert_string_equal(contents(), "one");
    }
    failing = 'F';
    assert_int_equal(replace_file(folder, "it", ".new", SLICE("two")), -EIO);
}

static void a_folder_that_is_none_is_an_error(void **state)
{
    assert_int_equal(replace_file(-1, "it", ".new", SLICE("one")), -EBADF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_folder_is_synced_after_the_rename),
        TEST(a_failure_leaves_the_old_contents),
        TEST(a_folder_that_is_none_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
