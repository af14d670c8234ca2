#include "engine/proxy_login.h"

#include "base/error.h"
#include "engine/config.h"
#include "net/socks5.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of the file, without its end. *ret_len is at most SOCKS5_LOGIN_MAX.
 *
 * errors   -errno; ERR_SYNTAX: the line is empty; ERR_LIMIT: it is longer */
static int read_line(const char *path, char ret[SOCKS5_LOGIN_MAX + 2], size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, SOCKS5_LOGIN_MAX + 2);
    int err = n < 0 ? -errno : 0;
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    if (err != 0) {
        return err;
    }
    size_t len = slice_find(slice_make(ret, (size_t)n), '\n');
    len -= len > 0 && ret[len - 1] == '\r' ? 1 : 0;
    *ret_len = len;
    return len == 0 ? ERR_SYNTAX : len > SOCKS5_LOGIN_MAX ? ERR_LIMIT : 0;
}

static int load(const struct config_egress_source *s, struct socks5_login *ret, char *ret_text)
{
    char line[SOCKS5_LOGIN_MAX + 2];
    size_t len = 0;
    if (s->socks5_password_file == NULL) {
        return 0;
    }
    int err = read_line(s->socks5_password_file, line, &len);
    if (err == 0) {
        char *password = malloc(len);
        err = password == NULL ? -ENOMEM : 0;
        if (err == 0) {
            memcpy(password, line, len);
            *ret = (struct socks5_login){slice_of(s->socks5_user), slice_make(password, len)};
        }
    }
    explicit_bzero(line, sizeof(line));
    if (err != 0) {
        (void)snprintf(ret_text, PROXY_LOGIN_TEXT_MAX,
                       "source \"%s\": socks5_password_file %.300s: %s", s->name,
                       s->socks5_password_file,
                       err == ERR_SYNTAX  ? "the first line is empty; write the password there"
                       : err == ERR_LIMIT ? "the first line has more than 255 bytes"
                                          : err_str(err));
    }
    return err;
}

int proxy_logins_load(const struct config *config, struct socks5_login **ret,
                      char ret_text[static PROXY_LOGIN_TEXT_MAX])
{
    size_t count = config->egress_source_count;
    struct socks5_login *logins = calloc(count == 0 ? 1 : count, sizeof(*logins));
    if (logins == NULL) {
        (void)snprintf(ret_text, PROXY_LOGIN_TEXT_MAX, "out of memory");
        return -ENOMEM;
    }
    int err = 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        err = load(&config->egress_sources[i], &logins[i], ret_text);
    }
    if (err != 0) {
        proxy_logins_free(logins, count);
        return err;
    }
    *ret = logins;
    return 0;
}

void proxy_logins_free(struct socks5_login *logins, size_t count)
{
    for (size_t i = 0; logins != NULL && i < count; i++) {
        char *password = (char *)(uintptr_t)logins[i].password.data;
        if (password != NULL) {
            explicit_bzero(password, logins[i].password.len);
        }
        free(password);
    }
    free(logins);
}
