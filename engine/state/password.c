#include "engine/state/password.h"

#include "base/error.h"
#include "engine/config/config.h"
#include "engine/config/config_section.h"
#include "net/socks5.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A password of the configuration: where it stands, and how long it may be. */
struct place {
    const char *section;
    struct slice name; /* as much as may be shown */
    const char *option, *path;
    size_t max; /* at most PASSWORD_MAX */
};

/* The first line of the file, without its end.
 *
 * errors   -errno; ERR_SYNTAX: the line is empty or holds a NUL, which ends a password in AUTH
 *          PLAIN (RFC 4616); ERR_LIMIT: it is longer than max */
static int read_password_line(const char *path, size_t max, char ret[static PASSWORD_MAX + 2],
                              size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, max + 2);
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
    if (len == 0 || memchr(ret, '\0', len) != NULL) {
        return ERR_SYNTAX;
    }
    return len > max ? ERR_LIMIT : 0;
}

static void complain_of_password(const struct place *p, int err,
                                 char ret_text[static PASSWORD_TEXT_MAX])
{
    char why[80];
    if (err == ERR_SYNTAX) {
        (void)snprintf(why, sizeof(why),
                       "the first line is empty or holds a NUL byte; "
                       "write the password there");
    } else if (err == ERR_LIMIT) {
        (void)snprintf(why, sizeof(why), "the first line has more than %zu bytes", p->max);
    } else {
        (void)snprintf(why, sizeof(why), "%s", err_str(err));
    }
    (void)snprintf(ret_text, PASSWORD_TEXT_MAX, "%s \"%.*s\": %s %.300s: %s", p->section,
                   (int)(p->name.len < 100 ? p->name.len : 100), p->name.data, p->option, p->path,
                   why);
}

static int load_password(const struct place *p, struct slice *ret,
                         char ret_text[static PASSWORD_TEXT_MAX])
{
    char line[PASSWORD_MAX + 2];
    size_t len = 0;
    if (p->path == NULL) {
        return 0;
    }
    int err = read_password_line(p->path, p->max, line, &len);
    if (err == 0) {
        char *password = malloc(len);
        err = password == NULL ? -ENOMEM : 0;
        if (err == 0) {
            memcpy(password, line, len);
            *ret = slice_make(password, len);
        }
    }
    explicit_bzero(line, sizeof(line));
    if (err != 0) {
        complain_of_password(p, err, ret_text);
    }
    return err;
}

int passwords_load(const struct config *config, struct passwords *ret,
                   char ret_text[static PASSWORD_TEXT_MAX])
{
    struct passwords p = {
        .sources = calloc(config->egress_source_count + 1, sizeof(*p.sources)),
        .transports = calloc(config->transport_count + 1, sizeof(*p.transports)),
        .webhooks = calloc(config->webhook_count + 1, sizeof(*p.webhooks)),
    };
    int err = p.sources == NULL || p.transports == NULL || p.webhooks == NULL ? -ENOMEM : 0;
    if (err != 0) {
        (void)snprintf(ret_text, PASSWORD_TEXT_MAX, "out of memory");
    }
    for (size_t i = 0; i < config->egress_source_count && err == 0; i++) {
        const struct config_egress_source *s = &config->egress_sources[i];
        const struct place place = {"source", slice_of(s->name), "socks5_password_file",
                                    s->socks5_password_file, SOCKS5_LOGIN_MAX};
        err = load_password(&place, &p.sources[i], ret_text);
    }
    for (size_t i = 0; i < config->transport_count && err == 0; i++) {
        const struct config_transport *t = &config->transports[i];
        const struct place place = {"transport", slice_of(t->name), "smtp_auth_password_file",
                                    t->smtp.smtp_auth_password_file, PASSWORD_MAX};
        err = t->is_gone ? 0 : load_password(&place, &p.transports[i], ret_text);
    }
    for (size_t i = 0; i < config->webhook_count && err == 0; i++) {
        const struct config_webhook *w = &config->webhooks[i];
        const struct place place = {"webhook", config_section_shown(CONFIG_SECTION_WEBHOOK, w->url),
                                    "secret_file", w->secret_file, PASSWORD_MAX};
        err = load_password(&place, &p.webhooks[i], ret_text);
    }
    if (err != 0) {
        passwords_free(config, &p);
        return err;
    }
    *ret = p;
    return 0;
}

static void wipe(struct slice *passwords, size_t count)
{
    for (size_t i = 0; passwords != NULL && i < count; i++) {
        char *password = (char *)(uintptr_t)passwords[i].data;
        if (passwords[i].len > 0) {
            explicit_bzero(password, passwords[i].len);
            free(password);
        }
    }
    free(passwords);
}

void passwords_free(const struct config *config, struct passwords *p)
{
    wipe(p->sources, config->egress_source_count);
    wipe(p->transports, config->transport_count);
    wipe(p->webhooks, config->webhook_count);
    *p = (struct passwords){NULL, NULL, NULL};
}
