/* Files of tokens, and who has one. */
#include "base/error.h"
#include "engine/state/tokens.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "0123456789abcdef"
/* printf %s SECRET2 | sha256sum, SECRET2 = "another secret" */
#define HASHED "2a38ea589ea53942aaadc5460a48cf8e43f1092108d181a371451050758aaf51"

static int load(const char *content, mode_t mode, struct tokens **ret, char why[512])
{
    char path[] = "/tmp/test_tokens.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(close(fd), 0);
    int err = tokens_load(path, ret, why);
    assert_int_equal(unlink(path), 0);
    return err;
}

static const char *check(const struct tokens *t, const char *authorization)
{
    bool is_reader;
    return tokens_check(t, authorization, &is_reader);
}

static void readers(void **state)
{
    (void)state;
    struct tokens *t = NULL;
    char why[512];
    bool is_reader = false;
    assert_int_equal(load("anna:" SECRET "\n read \t graph : " SECRET "1\nread:" SECRET
                          "2\nread : " SECRET "3\nreader:" SECRET "4\n",
                          0600, &t, why),
                     0);
    static const struct {
        const char *authorization, *name;
        bool is_reader;
    } cases[] = {{"Bearer " SECRET, "anna", false},
                 {"Bearer " SECRET "1", "graph", true},
                 {"Bearer " SECRET "2", "read", false},
                 {"Bearer " SECRET "3", "read", false},
                 {"Bearer " SECRET "4", "reader", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(tokens_check(t, cases[i].authorization, &is_reader), cases[i].name);
        assert_int_equal(is_reader, cases[i].is_reader);
    }
    tokens_free(t);
    assert_int_equal(load("read local:" SECRET, 0600, &t, why), ERR_SYNTAX);
    assert_int_equal(load("write anna:" SECRET, 0600, &t, why), ERR_SYNTAX);
}

static void tokens(void **state)
{
    (void)state;
    struct tokens *t = NULL;
    char why[512];
    assert_int_equal(load("# ours\n\n  anna : " SECRET "\r\nbot:" HASHED, 0600, &t, why), 0);
    assert_string_equal(check(t, "Bearer " SECRET), "anna");
    assert_string_equal(check(t, "bearer   " SECRET " "), "anna");
    assert_string_equal(check(t, "Bearer another secret"), "bot");
    assert_null(check(t, NULL));
    assert_null(check(t, ""));
    assert_null(check(t, "Bearer"));
    assert_null(check(t, "Bearer "));
    assert_null(check(t, "Bearer " HASHED)); /* the digest opens nothing */
    assert_null(check(t, "Bearer " SECRET "0"));
    assert_null(check(t, "Basic " SECRET));
    assert_null(check(t, SECRET));
    tokens_free(t);
    tokens_free(NULL);
}

static void bad_files(void **state)
{
    (void)state;
    char lines[20000] = "", line[700];
    static const struct {
        const char *content, *why;
    } cases[] = {
        {"", "it holds no token"},
        {"# nothing\n", "it holds no token"},
        {"anna\n", ":1: tokens_file: not NAME:TOKEN"},
        {"\nanna:\n", ":2: tokens_file: not NAME:TOKEN"},
        {":" SECRET, "not NAME:TOKEN"},
        {"an na:" SECRET, "not NAME:TOKEN"},
        {"local:" SECRET, "write another"},
        {"Loopback:" SECRET, "write another"},
        {"anna:short", "less than 16 bytes"},
        {"anna:0123456789 abcdef", "visible ASCII"},
        {"anna:" SECRET "\xc3\xa9", "visible ASCII"},
    };
    struct tokens *t = NULL;
    char why[512];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(load(cases[i].content, 0600, &t, why), ERR_SYNTAX);
        if (strstr(why, cases[i].why) == NULL) {
            fail_msg("%s: %s", cases[i].content, why);
        }
    }
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    (void)snprintf(lines, sizeof(lines), "anna:%s\n", line);
    assert_int_equal(load(lines, 0600, &t, why), ERR_SYNTAX);
    assert_non_null(strstr(why, "too long"));
    assert_int_equal(load("anna:" SECRET, 0640, &t, why), ERR_SYNTAX);
    assert_non_null(strstr(why, "others may read it"));
    assert_int_equal(tokens_load("/nonexistent/tokens", &t, why), -ENOENT);
    assert_non_null(strstr(why, "/nonexistent/tokens: tokens_file: cannot read"));
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(readers),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
