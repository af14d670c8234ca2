/* Asks servers. Any thread that may wait; keeps nothing. */
#include "engine/nodes/server_probe.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 2000,
    LINE_MAX_BYTES = 32768,
    PAGE_MAX_BYTES = 1 << 20,
    HOST_SIZE = 256,
};

/* --- the first line --------------------------------------------------------------------------- */

static int split_address(const char *server, char host[static HOST_SIZE], char port[static 8])
{
    const char *at = strstr(server, "://");
    at = at == NULL ? server : at + 3;
    const char *user = strrchr(at, '@');
    at = user == NULL ? at : user + 1;
    bool has_brackets = at[0] == '[';
    at += has_brackets ? 1 : 0;
    size_t len = strcspn(at, has_brackets ? "]" : ":/");
    if (len == 0 || len >= HOST_SIZE) {
        return ERR_SYNTAX;
    }
    memcpy(host, at, len);
    host[len] = '\0';
    at += len + (has_brackets && at[len] == ']' ? 1 : 0);
    (void)snprintf(port, 8, "%.*s", (int)strcspn(at[0] == ':' ? at + 1 : "4222", "/"),
                   at[0] == ':' ? at + 1 : "4222");
    return 0;
}

static int wait_for(int fd, short events, usec_t deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    usec_t left = deadline - clock_mono();
    int n = left <= 0 ? 0 : poll(&p, 1, (int)(left / 1000) + 1);
    if (n < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    return n == 0 ? -ETIMEDOUT : 0;
}

static int connect_one(const struct addrinfo *a, usec_t deadline, int *ret)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;
    socklen_t size = sizeof(error);
    if (fd < 0) {
        return -errno;
    }
    int err = connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS ? 0 : -errno;
    err = err != 0 ? err : wait_for(fd, POLLOUT, deadline);
    if (err == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0) {
        err = -error;
    }
    if (err != 0) {
        (void)close(fd); /* nothing was written */
        return err;
    }
    *ret = fd;
    return 0;
}

static int connect_to(const char *server, usec_t deadline, int *ret)
{
    char host[HOST_SIZE], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int err = split_address(server, host, port);
    if (err == 0 && getaddrinfo(host, port, &hints, &list) != 0) {
        return ERR_MISSING;
    }
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        err = connect_one(a, deadline, ret);
        if (err == 0) {
            break;
        }
    }
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return err;
}

/* What it begins with, up to its end of line. errors: -errno, -ETIMEDOUT, ERR_SYNTAX */
static int read_line(int fd, usec_t deadline, char ret[static LINE_MAX_BYTES])
{
    size_t len = 0;
    while (len < LINE_MAX_BYTES - 1) {
        int err = wait_for(fd, POLLIN, deadline);
        ssize_t n = err == 0 ? recv(fd, ret + len, LINE_MAX_BYTES - 1 - len, 0) : 0;
        if (err != 0) {
            return err;
        }
        if (n <= 0) {
            return n == 0 ? ERR_SYNTAX : -errno;
        }
        len += (size_t)n;
        char *end = memchr(ret, '\n', len);
        if (end != NULL) {
            *end = '\0';
            return 0;
        }
    }
    return ERR_SYNTAX;
}

static bool is_at_least(const char *version, const char *oldest)
{
    char *end_is, *end_least;
    unsigned long is = strtoul(version, &end_is, 10), least = strtoul(oldest, &end_least, 10);
    if (is != least || *end_is != '.' || *end_least != '.') {
        return is > least;
    }
    return strtoul(end_is + 1, NULL, 10) >= strtoul(end_least + 1, NULL, 10);
}

static int read_info(const char *line, struct server_probe *ret)
{
    static const char word[] = "INFO ";
    json_t *o =
        strncmp(line, word, strlen(word)) == 0 ? json_loads(line + strlen(word), 0, NULL) : NULL;
    const char *version = json_string_value(json_object_get(o, "version"));
    if (version != NULL) {
        (void)snprintf(ret->version, sizeof(ret->version), "%s", version);
        ret->has_jetstream = json_is_true(json_object_get(o, "jetstream"));
        ret->is_new_enough = is_at_least(version, SERVER_PROBE_OLDEST);
    }
    json_decref(o);
    return version == NULL ? ERR_SYNTAX : 0;
}

int server_probe_ask(const char *server, struct server_probe *ret)
{
    char line[LINE_MAX_BYTES];
    int fd = -1;
    usec_t deadline = clock_mono() + PATIENCE_MS * (usec_t)1000;
    int err = connect_to(server, deadline, &fd);
    err = err != 0 ? err : read_line(fd, deadline, line);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return err != 0 ? err : read_info(line, ret);
}

/* --- the monitoring page ---------------------------------------------------------------------- */

static size_t take_page(char *data, size_t size, size_t count, void *ctx)
{
    struct buf *page = ctx;
    buf_append(page, data, size * count);
    return page->failed ? 0 : size * count;
}

static int get_page(const char *url, struct buf *page)
{
    CURL *curl = curl_easy_init();
    if (curl == NULL) {
        return -ENOMEM;
    }
    bool is_set = curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_page) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_WRITEDATA, page) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)PATIENCE_MS) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L) == CURLE_OK;
    int err = is_set && curl_easy_perform(curl) == CURLE_OK ? 0 : ERR_CLOSED;
    curl_easy_cleanup(curl);
    return err;
}

int server_probe_syncs(const char *monitor, bool *ret)
{
    char url[512];
    struct buf page;
    (void)snprintf(url, sizeof(url), "%.400s/jsz?config=true", monitor);
    buf_init(&page, PAGE_MAX_BYTES);
    int err = get_page(url, &page);
    json_t *o = err == 0 ? json_loadb(page.data, page.len, 0, NULL) : NULL;
    const json_t *config = json_object_get(o, "config");
    if (err == 0 && !json_is_object(config)) {
        err = ERR_SYNTAX;
    }
    if (err == 0) {
        *ret = json_is_true(json_object_get(config, "sync_always"));
    }
    json_decref(o);
    buf_fini(&page);
    return err;
}
