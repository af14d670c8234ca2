/* Password files: the first line, its limits, and what is said about a bad one. */
#include "base/error.h"
#include "engine/proxy_login.h"
#include "net/socks5.h"
#include "tests/unit/config_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Loads a configuration whose second source has this password file (content NULL: no file). */
static int load(const char *content, struct config **ret_config, struct socks5_login **ret,
                char why[static PROXY_LOGIN_TEXT_MAX])
{
    char path[] = "/tmp/test_proxy_login.XXXXXX", text[400];
    struct sample s;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)snprintf(text, sizeof(text),
                   "source a {} source b { socks5 = \"127.0.0.1:1\" socks5_user = user\n"
                   "socks5_password_file = \"%s\" }\n",
                   path);
    sample_load(&s, text);
    assert_int_equal(s.err, 0);
    if (content == NULL) {
        assert_int_equal(unlink(path), 0);
    } else {
        assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    }
    int err = proxy_logins_load(s.config, ret, why);
    assert_int_equal(close(fd), 0);
    assert_true(content == NULL || unlink(path) == 0);
    *ret_config = s.config;
    return err;
}

static void first_line(void **state)
{
    (void)state;
    static const char *const contents[] = {"secret", "secret\n", "secret\r\n", "secret\nmore\n"};
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        struct config *config;
        struct socks5_login *logins;
        char why[PROXY_LOGIN_TEXT_MAX];
        assert_int_equal(load(contents[i], &config, &logins, why), 0);
        assert_int_equal(logins[0].user.len, 0);
        assert_true(slice_eq(logins[1].user, SLICE("user")));
        assert_true(slice_eq(logins[1].password, SLICE("secret")));
        proxy_logins_free(logins, 2);
        config_free(config);
    }
}

static void bad_files(void **state)
{
    (void)state;
    char longest[258] = "";
    memset(longest, 'x', sizeof(longest) - 1);
    const struct {
        const char *content;
        int err;
        const char *said;
    } cases[] = {
        {NULL, -ENOENT, "No such file or directory"},
        {"", ERR_SYNTAX, "the first line is empty; write the password there"},
        {"\nsecret\n", ERR_SYNTAX, "the first line is empty; write the password there"},
        {longest + 1, ERR_LIMIT, "the first line has more than 255 bytes"},
        {longest, ERR_LIMIT, "the first line has more than 255 bytes"},
        {longest + 2, 0, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config *config;
        struct socks5_login *logins = NULL;
        char why[PROXY_LOGIN_TEXT_MAX] = "";
        assert_int_equal(load(cases[i].content, &config, &logins, why), cases[i].err);
        assert_non_null(strstr(why, cases[i].said));
        assert_true(cases[i].err == 0 || strstr(why, "source \"b\": socks5_password_file /tmp/"));
        proxy_logins_free(logins, 2);
        config_free(config);
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
