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
    const struct token_grant *grant = tokens_check(t, authorization);
    return grant == NULL ? NULL : grant->name;
}

static void scopes(void **state)
{
    (void)state;
    struct tokens *t = NULL;
    char why[512];
    assert_int_equal(load("anna:" SECRET "\n read \t graph : " SECRET "1\nread:" SECRET
                          "2\nread : " SECRET "3\nreader:" SECRET "4\nfull bot:" SECRET
                          "5\ninject app:" SECRET "6\ntenant=acme one:" SECRET
                          "7\nread tenant=a.b:c  two : " SECRET
                          "8\ninject\ttenant=Acme\tthree:" SECRET "9\nfull tenant=x four:" HASHED
                          "\ninject:" SECRET "a\nfull :" SECRET "b\n",
                          0600, &t, why),
                     0);
    static const struct {
        const char *authorization, *name;
        unsigned rights;
        const char *tenant;
    } cases[] = {{"Bearer " SECRET, "anna", TOKEN_ALL, ""},
                 {"Bearer " SECRET "1", "graph", TOKEN_LOOK, ""},
                 {"Bearer " SECRET "2", "read", TOKEN_ALL, ""},
                 {"Bearer " SECRET "3", "read", TOKEN_ALL, ""},
                 {"Bearer " SECRET "4", "reader", TOKEN_ALL, ""},
                 {"Bearer " SECRET "5", "bot", TOKEN_ALL, ""},
                 {"Bearer " SECRET "6", "app", TOKEN_INJECT, ""},
                 {"Bearer " SECRET "7", "one", TOKEN_ALL, "acme"},
                 {"Bearer " SECRET "8", "two", TOKEN_LOOK, "a.b:c"},
                 {"Bearer " SECRET "9", "three", TOKEN_INJECT, "Acme"},
                 {"Bearer another secret", "four", TOKEN_ALL, "x"},
                 {"Bearer " SECRET "a", "inject", TOKEN_ALL, ""},
                 {"Bearer " SECRET "b", "full", TOKEN_ALL, ""}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct token_grant *grant = tokens_check(t, cases[i].authorization);
        assert_non_null(grant);
        assert_string_equal(grant->name, cases[i].name);
        assert_int_equal(grant->rights, cases[i].rights);
        assert_true(slice_eq(label_slice(&grant->tenant), slice_of(cases[i].tenant)));
    }
    tokens_free(t);
    static const char *const wrong[] = {
        "read local:",  "write anna:",        "read inject anna:",        "tenant= anna:",
        "tenant=* a:",  "read tenant=a*b c:", "tenant=x read anna:",      "tenant=a tenant=b c:",
        "tenant=acme:", "read\ttenant=acme:", "inject tenant=\xc3\xa4 a:"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char line[100];
        (void)snprintf(line, sizeof(line), "%s" SECRET "\n", wrong[i]);
        assert_int_equal(load(line, 0600, &t, why), ERR_SYNTAX);
    }
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
        {"anna\n", ":1: tokens_file: not [full|read|inject] [tenant=T] NAME:TOKEN"},
        {"\nanna:\n", ":2: tokens_file: not [full|read|inject] [tenant=T] NAME:TOKEN"},
        {":" SECRET, "not [full|read|inject] [tenant=T] NAME:TOKEN"},
        {"an na:" SECRET, "not [full|read|inject] [tenant=T] NAME:TOKEN"},
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
        cmocka_unit_test(scopes),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
