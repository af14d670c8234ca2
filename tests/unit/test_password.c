/* Password files: the first line, its limits, and what is said about a bad one. */
#include "base/error.h"
#include "engine/state/password.h"
#include "tests/unit/config_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SOCKS                                                                                      \
    "source a {} source b { socks5 = \"127.0.0.1:1\" socks5_user = user\n"                         \
    "socks5_password_file = "
#define LOGIN                                                                                      \
    "transport a {} transport b { smtp_auth_user = user\n"                                         \
    "smtp_auth_password_file = "

/* Loads a configuration whose second source or transport has this password file (content NULL: no
 * file). */
static int load(const char *start, struct slice content, struct config **ret_config,
                struct passwords *ret, char why[static PASSWORD_TEXT_MAX])
{
    char path[] = "/tmp/test_password.XXXXXX", text[400];
    struct sample s;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)snprintf(text, sizeof(text), "%s\"%s\" }\n", start, path);
    sample_load(&s, text);
    assert_int_equal(s.err, 0);
    if (content.data == NULL) {
        assert_int_equal(unlink(path), 0);
    } else {
        assert_int_equal(write(fd, content.data, content.len), (ssize_t)content.len);
    }
    int err = passwords_load(s.config, ret, why);
    assert_int_equal(close(fd), 0);
    assert_true(content.data == NULL || unlink(path) == 0);
    *ret_config = s.config;
    return err;
}

static void first_line(void **state)
{
    (void)state;
    static const char *const contents[] = {"secret", "secret\n", "secret\r\n", "secret\nmore\n"};
    for (size_t i = 0; i < 2 * sizeof(contents) / sizeof(contents[0]); i++) {
        bool is_login = i % 2 == 1;
        struct config *config;
        struct passwords passwords = {NULL, NULL, NULL};
        char why[PASSWORD_TEXT_MAX];
        assert_int_equal(
            load(is_login ? LOGIN : SOCKS, slice_of(contents[i / 2]), &config, &passwords, why), 0);
        const struct slice *found = is_login ? passwords.transports : passwords.sources;
        assert_int_equal(found[0].len, 0);
        assert_true(slice_eq(found[1], SLICE("secret")));
        passwords_free(config, &passwords);
        assert_null(passwords.transports);
        config_free(config);
    }
}

static void check(const char *start, struct slice content, int err, const char *said)
{
    struct config *config;
    struct passwords passwords = {NULL, NULL, NULL};
    char why[PASSWORD_TEXT_MAX] = "";
    assert_int_equal(load(start, content, &config, &passwords, why), err);
    assert_non_null(strstr(why, said));
    assert_true(err == 0 || strstr(why, strcmp(start, LOGIN) == 0
                                            ? "transport \"b\": smtp_auth_password_file /tmp/"
                                            : "source \"b\": socks5_password_file /tmp/"));
    passwords_free(config, &passwords);
    config_free(config);
}

static void bad_files(void **state)
{
    (void)state;
    static const char empty[] = "the first line is empty or holds a NUL byte; write the password";
    static const char *const starts[] = {SOCKS, LOGIN};
    static const size_t limits[] = {255, PASSWORD_MAX};
    static char longest[PASSWORD_MAX + 2];
    memset(longest, 'x', sizeof(longest));
    for (size_t i = 0; i < 2; i++) {
        const char *too_long =
            i == 0 ? "first line has more than 255 bytes" : "first line has more than 4000 bytes";
        check(starts[i], (struct slice){NULL, 0}, -ENOENT, "No such file or directory");
        check(starts[i], SLICE(""), ERR_SYNTAX, empty);
        check(starts[i], SLICE("\nsecret\n"), ERR_SYNTAX, empty);
        check(starts[i], SLICE("sec\0ret\n"), ERR_SYNTAX, empty);
        check(starts[i], slice_make(longest, limits[i]), 0, "");
        check(starts[i], slice_make(longest, limits[i] + 1), ERR_LIMIT, too_long);
        check(starts[i], slice_make(longest, limits[i] + 2), ERR_LIMIT, too_long);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_line),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
