/* sluice-inject: so many messages a second over HTTP, cheaply enough to run beside what is
 * measured. Reads the options, starts the load and prints its numbers. */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "bench/source/http_load.h"
#include "bench/tool/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
    "usage: sluice-inject [option...]\n"
    "Posts messages to /v1/inject over connections that stay, at a fixed rate, whether or not\n"
    "answers come; latency counts from the moment a message was due.\n"
    "\n"
    "  --to ADDR:PORT         a door of the daemon for HTTP (127.0.0.1:8025)\n"
    "  --rate N               messages a second (1000)\n"
    "  --seconds S            (10)\n"
    "  --connections N        (20)\n"
    "  --batch N              messages of a request, at most 1000 (1)\n"
    "  --size BYTES           of a message, about (4096)\n"
    "  --domain NAME          of the recipient (example.test)\n"
    "  --sender ADDRESS       (bounce@source.test)\n"
    "\n"
    "Prints the numbers as JSON; exit status 0 when every message was accepted.\n";

#define INJECT_MESSAGES_MAX 1000 /* that the daemon takes in a request */

struct program {
    struct http_load_options options;
    struct endpoint_list to;
    char host[ENDPOINT_TEXT_BYTES];
};

/* Between 1 and most. errors: ERR_SYNTAX */
static int set_inject_number(const char *text, uint64_t most, uint64_t *ret)
{
    int err = options_integer(text, most, ret);
    return err == 0 && *ret == 0 ? ERR_SYNTAX : err;
}

/* What goes into JSON as it is. errors: ERR_SYNTAX */
static int set_host_name(const char *text, const char **ret)
{
    if (text[0] == '\0' || strpbrk(text, "\"\\ \t\r\n") != NULL || strlen(text) > 250) {
        return ERR_SYNTAX;
    }
    *ret = text;
    return 0;
}

static int set_inject_option(void *ctx, int id, const char *text)
{
    struct program *p = ctx;
    struct http_load_options *o = &p->options;
    switch (id) {
    case 't':
        return endpoint_list_add(&p->to, text);
    case 'r':
        return set_inject_number(text, 1000000, &o->rate);
    case 's':
        return set_inject_number(text, 1000000, &o->seconds);
    case 'c':
        return set_inject_number(text, 10000, &o->connections);
    case 'n':
        return set_inject_number(text, INJECT_MESSAGES_MAX, &o->batch);
    case 'b':
        return set_inject_number(text, 16 << 20, &o->size);
    case 'd':
        return set_host_name(text, &o->domain);
    default:
        return set_host_name(text, &o->sender);
    }
}

/* returns: false when the process should exit with *ret_status */
static bool parse_inject_options(struct program *p, int argc, char **argv, int *ret_status)
{
    static const struct option table[] = {
        {"to", required_argument, NULL, 't'},      {"rate", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'}, {"connections", required_argument, NULL, 'c'},
        {"batch", required_argument, NULL, 'n'},   {"size", required_argument, NULL, 'b'},
        {"domain", required_argument, NULL, 'd'},  {"sender", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, OPTIONS_HELP}, {NULL, 0, NULL, 0}};
    static const struct options options = {"sluice-inject", usage, table, set_inject_option};
    if (options_read_all(&options, argc, argv, p, ret_status) != 0) {
        return false;
    }
    if (p->to.count == 0 && endpoint_list_add(&p->to, "127.0.0.1:8025") != 0) {
        *ret_status = EX_OSERR;
        return false;
    }
    p->options.to = p->to.items[0];
    endpoint_text(&p->options.to.address, p->host);
    p->options.host = p->host;
    return true;
}

static int run_inject(const struct http_load_options *options)
{
    static struct http_load load; /* static, as its histogram is too large for a stack */
    struct buf text;
    int err = http_load_init(&load, options);
    err = err == 0 ? http_load_run(&load) : err;
    bool is_complete = http_load_is_complete(&load);
    buf_init(&text, 0);
    if (err == 0) {
        http_load_report(&load, &text);
        (void)fwrite(text.data, 1, text.len, stdout); /* fflush tells */
        err = text.failed ? -ENOMEM : 0;
    }
    if (err == 0 && fflush(stdout) != 0) {
        err = -errno;
    }
    if (err != 0) {
        log_error("%s", err_str(err));
    }
    buf_fini(&text);
    http_load_fini(&load);
    if (err != 0) {
        return EX_OSERR;
    }
    return is_complete ? EX_OK : EX_TEMPFAIL;
}

int main(int argc, char **argv)
{
    struct program p = {.options = {.rate = 1000,
                                    .seconds = 10,
                                    .connections = 20,
                                    .batch = 1,
                                    .size = 4096,
                                    .domain = "example.test",
                                    .sender = "bounce@source.test"}};
    int status = EX_OK;
    thread_set_batch(true); /* what is measured is not interrupted for it */
    if (parse_inject_options(&p, argc, argv, &status)) {
        status = run_inject(&p.options);
    }
    endpoint_list_fini(&p.to);
    return status;
}
