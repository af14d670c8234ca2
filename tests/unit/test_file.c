/* Writing and replacing files: in which order the calls are made, and what is there when one of them
 * fails or takes only a part.
 * The calls are this program's own, so that each of them can be seen and made to fail. */
#include "base/file.h"
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
static char failing;     /* the call that fails, by its letter in `calls`; 0: none */
static size_t most = 64; /* bytes that a write takes; 0: none, without an error */

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
    return bytes > 0 && most == 0 ? 0 : syscall(SYS_write, fd, data, bytes < most ? bytes : most);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    return note('p') ? syscall(SYS_pwrite64, fd, data, bytes < most ? bytes : most, offset) : -1;
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
    most = 64;
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
    assert_int_equal(file_replace_at(folder, "it", ".new", SLICE("one")), 0);
    assert_string_equal(calls, "wsrF");
    assert_string_equal(contents(), "one");
    assert_int_equal(file_replace_at(folder, "it", ".new", SLICE("two")), 0);
    assert_string_equal(contents(), "two");
}

static void a_failure_leaves_the_old_contents(void **state)
{
    assert_int_equal(file_replace_at(folder, "it", ".new", SLICE("one")), 0);
    for (const char *call = "wsr"; *call != '\0'; call++) {
        failing = *call;
        calls[0] = '\0';
        assert_int_equal(file_replace_at(folder, "it", ".new", SLICE("two")), -EIO);
        assert_int_equal(calls[strlen(calls) - 1], *call); /* and nothing behind it was done */
        assert_string_equal(contents(), "one");
    }
    failing = 'F';
    assert_int_equal(file_replace_at(folder, "it", ".new", SLICE("two")), -EIO);
}

static void a_folder_that_is_none_is_an_error(void **state)
{
    assert_int_equal(file_replace_at(-1, "it", ".new", SLICE("one")), -EBADF);
}

static void all_bytes_are_written_in_parts(void **state)
{
    size_t done = 0;
    int fd = openat(folder, "it", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    most = 2;
    assert_int_equal(file_write(fd, SLICE("abcde"), &done), 0);
    assert_int_equal(done, 5);
    assert_string_equal(calls, "www");
    assert_int_equal(file_write_at(fd, SLICE("XYZ"), 1), 0);
    assert_string_equal(calls, "wwwpp");
    assert_string_equal(contents(), "aXYZe");
    failing = 'p';
    assert_int_equal(file_write_at(fd, SLICE("-"), 0), -EIO);
    most = 0;
    assert_int_equal(file_write(fd, SLICE("f"), &done), -EIO); /* and does not try for ever */
    assert_int_equal(done, 0);
    assert_string_equal(contents(), "aXYZe");
    (void)close(fd);
}

static void a_path_is_replaced_in_its_folder(void **state)
{
    char file[160], deep[200], name[300] = "";
    (void)snprintf(file, sizeof(file), "%s/it", path);
    (void)snprintf(deep, sizeof(deep), "%s/none/it", path);
    assert_int_equal(file_replace(file, SLICE("one")), 0);
    assert_string_equal(calls, "wsrF");
    assert_string_equal(contents(), "one");
    assert_int_equal(file_replace(deep, SLICE("one")), -ENOENT);
    memset(name, 'n', sizeof(name) - 1);
    assert_int_equal(file_replace(name, SLICE("one")), -ENAMETOOLONG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_folder_is_synced_after_the_rename), TEST(a_failure_leaves_the_old_contents),
        TEST(a_folder_that_is_none_is_an_error),     TEST(all_bytes_are_written_in_parts),
        TEST(a_path_is_replaced_in_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
