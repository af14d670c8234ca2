/* sluice-zone: a name server for tests, which answers by rules over UDP. One thread. */
#include "base/error.h"
#include "base/log.h"
#include "bench/endpoint.h"
#include "bench/options.h"
#include "bench/zone_answer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#define QUERY_MAX 4096

static const char usage[] =
    "usage: sluice-zone [--listen ADDR:PORT] [--ttl SECONDS] [--file FILE]... [RULE...]\n"
    "Answers DNS questions over UDP by rules; '#' stands for digits:\n"
    "  'd#.test MX 10 mx.d#.test'  'mx.d#.test A 127.0.1.#'  'alias.test CNAME d1.test'\n"
    "  'null.test MX 0 .'  'bad.test SERVFAIL'  'gone.test NXDOMAIN'  'slow.test DROP'\n"
    "Types: A AAAA MX CNAME TXT, NXDOMAIN SERVFAIL REFUSED DROP. A name without a rule is\n"
    "NXDOMAIN. Prints the number of questions when SIGTERM or SIGINT ends it.\n";

struct program {
    struct zone zone;
    struct endpoint_list listen;
    uint32_t ttl;
};

static int open_socket(const struct endpoint *e)
{
    int fd = socket(e->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (const struct sockaddr *)&e->address, e->len) != 0) {
        int err = -errno;
        (void)close(fd);
        return err;
    }
    return fd;
}

static int open_signals(void)
{
    sigset_t set;
    if (sigemptyset(&set) != 0 || sigaddset(&set, SIGTERM) != 0 || sigaddset(&set, SIGINT) != 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return -errno;
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Answer what waits. returns: questions answered */
static uint64_t answer_waiting(const struct program *p, int fd)
{
    char query[QUERY_MAX];
    uint8_t answer[ZONE_ANSWER_MAX];
    uint64_t answered = 0;
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        ssize_t n = recvfrom(fd, query, sizeof(query), 0, (struct sockaddr *)&peer, &len);
        if (n < 0) {
            return answered; /* nothing waits, or a peer that is gone said so */
        }
        size_t size = zone_answer(&p->zone, slice_make(query, (size_t)n), p->ttl, answer);
        if (size > 0 &&
            sendto(fd, answer, size, 0, (struct sockaddr *)&peer, len) == (ssize_t)size) {
            answered++;
        }
    }
}

static int serve(const struct program *p)
{
    int fd = open_socket(&p->listen.items[0]);
    if (fd < 0) {
        log_error("%s", err_str(fd));
        return EX_UNAVAILABLE;
    }
    int signals = open_signals();
    if (signals < 0) {
        log_error("%s", err_str(signals));
        (void)close(fd);
        return EX_OSERR;
    }
    char name[ENDPOINT_TEXT_BYTES];
    endpoint_text(&p->listen.items[0].address, name);
    log_info("answering on %s", name);
    uint64_t answered = 0;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            break;
        }
        answered += answer_waiting(p, fd);
    }
    (void)printf("{\"answered\": %llu}\n", (unsigned long long)answered);
    (void)close(fd);
    (void)close(signals);
    return EX_OK;
}

static int set(void *ctx, int id, const char *text)
{
    struct program *p = ctx;
    uint64_t value = 0;
    int line = 0;
    int err = 0;
    switch (id) {
    case 'l':
        return endpoint_list_add(&p->listen, text);
    case 't':
        err = options_integer(text, UINT32_MAX, &value);
        p->ttl = (uint32_t)value;
        return err;
    default:
        err = zone_add_file(&p->zone, text, &line);
        if (err != 0) {
            log_error("%s:%d: %s", text, line, err_str(err));
        }
        return err;
    }
}

/* returns: false when the process should exit with *ret_status */
static bool parse(struct program *p, int argc, char **argv, int *ret_status)
{
    static const struct option table[] = {{"listen", required_argument, NULL, 'l'},
                                          {"ttl", required_argument, NULL, 't'},
                                          {"file", required_argument, NULL, 'f'},
                                          {"help", no_argument, NULL, OPTIONS_HELP},
                                          {NULL, 0, NULL, 0}};
    static const struct options options = {"sluice-zone", usage, table, set};
    int first = options_read(&options, argc, argv, p, ret_status);
    if (first < 0) {
        return false;
    }
    for (int i = first; i < argc; i++) {
        int err = zone_add(&p->zone, argv[i]);
        if (err != 0) {
            log_error("rule '%s': %s; see --help", argv[i], err_str(err));
            return false;
        }
    }
    if (p->listen.count == 0 && endpoint_list_add(&p->listen, "127.0.0.1:5300") != 0) {
        *ret_status = EX_OSERR;
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct program p = {.ttl = 300};
    int status;
    if (parse(&p, argc, argv, &status)) {
        status = serve(&p);
    }
    zone_fini(&p.zone);
    endpoint_list_fini(&p.listen);
    return status;
}
