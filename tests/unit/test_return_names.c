#include "base/buf.h"
#include "engine/heard/return_names.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/sluice-names-XXXXXX";
static char path[64];
static struct return_names *names;

static void open_again(void)
{
    return_names_free(names);
    names = return_names_new();
    assert_non_null(names);
    assert_int_equal(return_names_open(names, path), 0);
}

static int begin(void **state)
{
    (void)state;
    (void)unlink(path);
    open_again();
    return 0;
}

static uint32_t note(const char *tenant, const char *campaign)
{
    return_names_note(names, slice_of(tenant), slice_of(campaign));
    assert_int_equal(return_names_keep(names), 0);
    return return_names_find(names, slice_of(tenant), slice_of(campaign));
}

static void check_names(uint32_t number, const char *tenant, const char *campaign)
{
    struct slice t, c;
    assert_true(return_names_get(names, number, &t, &c));
    assert_true(slice_eq(t, slice_of(tenant)) && slice_eq(c, slice_of(campaign)));
}

static void numbers_stay_over_a_restart(void **state)
{
    assert_int_equal(note("", ""), 0);
    uint32_t spring = note("acme", "spring"), acme = note("acme", ""), other = note("b", "spring");
    assert_true(spring != acme && acme != other && spring != other && other != 0);
    assert_int_equal(note("acme", "spring"), spring);
    for (int i = 0; i < 2; i++) {
        check_names(spring, "acme", "spring");
        check_names(acme, "acme", "");
        check_names(other, "b", "spring");
        open_again();
        assert_int_equal(return_names_find(names, SLICE("acme"), SLICE("spring")), spring);
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(note("", "nobody's") > other);
}

static void nothing_is_found_before_it_is_kept(void **state)
{
    struct slice t, c;
    return_names_note(names, SLICE("acme"), SLICE(""));
    return_names_note(names, SLICE("acme"), SLICE(""));
    assert_int_equal(return_names_find(names, SLICE("acme"), SLICE("")), 0);
    assert_false(return_names_get(names, 1, &t, &c));
    assert_int_equal(return_names_keep(names), 0);
    assert_int_equal(return_names_find(names, SLICE("acme"), SLICE("")), 1);
    assert_false(return_names_get(names, 2, &t, &c));
    assert_false(return_names_get(names, UINT32_MAX, &t, &c));
}

/* A file that is cut off at any place, or has a wrong byte anywhere, gives no name a wrong number. */
static void damaged_files(void **state)
{
    (void)note("acme", "one");
    (void)note("acme", "two");
    char whole[400];
    int fd = open(path, O_RDONLY);
    ssize_t len = read(fd, whole, sizeof(whole));
    assert_true(len > 0);
    (void)close(fd);
    for (ssize_t at = 0; at < 2 * len; at++) {
        char text[400];
        memcpy(text, whole, (size_t)len);
        text[at % len] ^= at < len ? 1 : 0;
        fd = open(path, O_WRONLY | O_TRUNC);
        ssize_t left = at < len ? len : at - len;
        assert_int_equal(write(fd, text, (size_t)left), left);
        (void)close(fd);
        open_again();
        struct slice t, c;
        for (uint32_t number = 1; number <= 3; number++) {
            if (return_names_get(names, number, &t, &c)) {
                assert_true(slice_eq(t, SLICE("acme")));
                assert_true(
                    slice_eq(c, number == 1 ? SLICE("") : slice_of(number == 2 ? "one" : "two")));
            }
        }
        uint32_t fresh = note("fresh", "");
        /* One byte is wrong, or lines are missing altogether: no line that was there has its number again. */
        assert_true(at >= len || text[at] == '\n' || whole[at] == '\n' || fresh > 3);
        open_again();
        assert_int_equal(return_names_find(names, SLICE("fresh"), SLICE("")), fresh);
        check_names(fresh, "fresh", "");
    }
}

static void many(void **state)
{
    for (int i = 0; i < 5000; i++) {
        char campaign[20];
        (void)snprintf(campaign, sizeof(campaign), "c%d", i);
        return_names_note(names, SLICE("acme"), slice_of(campaign));
    }
    assert_int_equal(return_names_keep(names), 0);
    open_again();
    for (uint32_t i = 0; i < 5000; i++) {
        char campaign[20];
        (void)snprintf(campaign, sizeof(campaign), "c%u", i);
        check_names(i + 2, "acme", campaign);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(numbers_stay_over_a_restart, begin),
        cmocka_unit_test_setup(nothing_is_found_before_it_is_kept, begin),
        cmocka_unit_test_setup(damaged_files, begin),
        cmocka_unit_test_setup(many, begin),
    };
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/names", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return_names_free(names);
    (void)unlink(path);
    (void)rmdir(folder);
    return failed;
}
