/* sluice-zone: a name server for tests, which answers by rules. One thread. */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "bench/tool/endpoint.h"
#include "bench/tool/options.h"
#include "bench/zone/zone_server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

static const char usage[] =
    "usage: sluice-zone [--listen ADDR:PORT] [--ttl SECONDS] [--file FILE]... [RULE...]\n"
    "Answers DNS questions by rules; '#' stands for digits, '#%N+M' in a value for their "
    "remainder\n"
    "by N and M more, '*.' before a name for one label or more of names without other rules:\n"
    "  'd#.test MX 10 mx.d#.test'  'mx.d#.test A 127.0.1.#'  'alias.test CNAME d1.test'\n"
    "  'e#.test MX 10 mx.s#%20+1.test'  '*.w.test MX 10 mx.w.test'\n"
    "  'null.test MX 0 .'  'bad.test SERVFAIL'  'gone.test NXDOMAIN'  'slow.test DROP'\n"
    "  'd1.test DELAY 1000' (ms) and 'd1.test TC' (truncated but for TCP) beside the others\n"
    "Types: A AAAA MX CNAME TXT, NXDOMAIN SERVFAIL REFUSED DROP. A name without a rule is\n"
    "NXDOMAIN. Prints the number of questions when SIGTERM or SIGINT ends it.\n";

struct program {
    struct zone zone;
    struct endpoint_list listen;
    uint32_t ttl;
};

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

static int serve_zone(const struct program *p)
{
    struct zone_server server;
    int err = zone_server_open(&server, &p->zone, p->ttl, &p->listen.items[0]);
    if (err != 0) {
        log_error("%s", err_str(err));
        return EX_UNAVAILABLE;
    }
    int signals = open_signals();
    if (signals >= 0) {
        char name[ENDPOINT_TEXT_BYTES];
        endpoint_text(&p->listen.items[0].address, name);
        log_info("answering on %s", name);
        err = zone_server_run(&server, signals);
        (void)printf("{\"answered\": %llu}\n", (unsigned long long)server.answered);
        (void)close(signals);
    }
    zone_server_close(&server);
    if (signals < 0 || err != 0) {
        log_error("%s", err_str(signals < 0 ? signals : err));
        return EX_OSERR;
    }
    return EX_OK;
}

static int set_zone_option(void *ctx, int id, const char *text)
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
static bool parse_zone_options(struct program *p, int argc, char **argv, int *ret_status)
{
    static const struct option table[] = {{"listen", required_argument, NULL, 'l'},
                                          {"ttl", required_argument, NULL, 't'},
                                          {"file", required_argument, NULL, 'f'},
                                          {"help", no_argument, NULL, OPTIONS_HELP},
                                          {NULL, 0, NULL, 0}};
    static const struct options options = {"sluice-zone", usage, table, set_zone_option};
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
    thread_set_batch(true); /* what is measured is not interrupted for it */
    if (parse_zone_options(&p, argc, argv, &status)) {
        status = serve_zone(&p);
    }
    zone_fini(&p.zone);
    endpoint_list_fini(&p.listen);
    return status;
}
