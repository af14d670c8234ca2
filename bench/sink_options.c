/* The command line of sluice-sink. Called once by main. */
#include "bench/sink_options.h"

#include "base/error.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
    "usage: sluice-sink [option...]\n"
    "A fast SMTP receiver that counts, times and optionally keeps what it gets.\n"
    "\n"
    "  --listen ADDR[-ADDR]:PORT[,...]  where to listen; may be repeated (127.0.0.1:2525)\n"
    "  --threads N                      (2)\n"
    "  --hostname NAME                  in the greeting (sink.test)\n"
    "  --size-limit BYTES               announced and enforced (268435456)\n"
    "  --delay-banner MS, --delay-rcpt MS, --delay-dot MS\n"
    "                                   wait before the greeting, before each answer to RCPT,\n"
    "                                   before the answer to the end of data\n"
    "  --connections-per-client N       of one client to one address; more get 421\n"
    "  --reject-rcpt SHARE:CODE:TEXT    refuse this share (0..1) of the recipients; may be "
    "repeated\n"
    "  --defer SHARE                    answer 451 to this share of the messages\n"
    "  --seed N                         of the random choices (1)\n"
    "  --tls-cert FILE, --tls-key FILE  offer STARTTLS\n"
    "  --ledger FILE                    append a JSON line for each message before it is accepted\n"
    "  --ledger-sync                    and sync it to the disk\n"
    "  --store DIR                      keep the messages there\n"
    "  --json FILE                      replace FILE by the numbers each second\n"
    "  --messages N                     exit when N messages were accepted\n"
    "\n"
    "SIGUSR1 prints the numbers to standard error; SIGTERM and SIGINT print them to standard\n"
    "output and end the program.\n";

enum option_id {
    OPT_LISTEN = 1,
    OPT_THREADS,
    OPT_HOSTNAME,
    OPT_SIZE_LIMIT,
    OPT_DELAY_BANNER,
    OPT_DELAY_RCPT,
    OPT_DELAY_DOT,
    OPT_CONNECTIONS,
    OPT_REJECT,
    OPT_DEFER,
    OPT_SEED,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_LEDGER,
    OPT_LEDGER_SYNC,
    OPT_STORE,
    OPT_JSON,
    OPT_MESSAGES,
    OPT_HELP,
};

static const struct option options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"hostname", required_argument, NULL, OPT_HOSTNAME},
    {"size-limit", required_argument, NULL, OPT_SIZE_LIMIT},
    {"delay-banner", required_argument, NULL, OPT_DELAY_BANNER},
    {"delay-rcpt", required_argument, NULL, OPT_DELAY_RCPT},
    {"delay-dot", required_argument, NULL, OPT_DELAY_DOT},
    {"connections-per-client", required_argument, NULL, OPT_CONNECTIONS},
    {"reject-rcpt", required_argument, NULL, OPT_REJECT},
    {"defer", required_argument, NULL, OPT_DEFER},
    {"seed", required_argument, NULL, OPT_SEED},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"ledger", required_argument, NULL, OPT_LEDGER},
    {"ledger-sync", no_argument, NULL, OPT_LEDGER_SYNC},
    {"store", required_argument, NULL, OPT_STORE},
    {"json", required_argument, NULL, OPT_JSON},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int read_share(const char *text, char end, double *ret, const char **ret_rest)
{
    char *rest;
    errno = 0;
    double value = strtod(text, &rest);
    if (rest == text || *rest != end || errno != 0 || !(value >= 0 && value <= 1)) {
        return ERR_SYNTAX;
    }
    *ret = value;
    *ret_rest = rest;
    return 0;
}

static int read_rejection(struct sink_options *o, const char *text)
{
    struct sink_rejection r;
    const char *rest;
    if (o->rejection_count == SINK_REJECTIONS_MAX || read_share(text, ':', &r.share, &rest) != 0) {
        return ERR_SYNTAX;
    }
    char *end;
    long code = strtol(rest + 1, &end, 10);
    if (code < 400 || code > 599 || *end != ':' || strlen(end + 1) >= sizeof(r.text)) {
        return ERR_SYNTAX;
    }
    r.code = (int)code;
    (void)snprintf(r.text, sizeof(r.text), "%s", end + 1);
    o->rejections[o->rejection_count++] = r;
    return 0;
}

static int read_number(const char *text, unsigned long long limit, unsigned long long *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > limit) {
        return ERR_SYNTAX;
    }
    *ret = value;
    return 0;
}

static int set_number(struct sink_options *o, int id, const char *text)
{
    const bool is_delay = id == OPT_DELAY_BANNER || id == OPT_DELAY_RCPT || id == OPT_DELAY_DOT;
    unsigned long long limit = id == OPT_THREADS       ? SINK_THREADS_MAX
                               : id == OPT_CONNECTIONS ? UINT32_MAX
                               : is_delay              ? 3600ULL * 1000
                                                       : INT64_MAX;
    unsigned long long value;
    int err = read_number(text, limit, &value);
    if (err != 0) {
        return err;
    }
    switch (id) {
    case OPT_THREADS:
        o->threads = (int)value;
        return value == 0 ? ERR_SYNTAX : 0;
    case OPT_SIZE_LIMIT:
        o->size_limit = value;
        return 0;
    case OPT_DELAY_BANNER:
        o->delay_banner = (usec_t)value * USEC_PER_MSEC;
        return 0;
    case OPT_DELAY_RCPT:
        o->delay_rcpt = (usec_t)value * USEC_PER_MSEC;
        return 0;
    case OPT_DELAY_DOT:
        o->delay_dot = (usec_t)value * USEC_PER_MSEC;
        return 0;
    case OPT_CONNECTIONS:
        o->connections_per_client = (uint32_t)value;
        return 0;
    case OPT_SEED:
        o->seed = value;
        return 0;
    default:
        o->messages = value;
        return 0;
    }
}

static int set(struct sink_options *o, int id, const char *text)
{
    const char *rest;
    switch (id) {
    case OPT_LISTEN:
        return endpoint_list_add(&o->listen, text);
    case OPT_HOSTNAME:
        o->hostname = text;
        return 0;
    case OPT_REJECT:
        return read_rejection(o, text);
    case OPT_DEFER:
        return read_share(text, '\0', &o->defer_share, &rest);
    case OPT_TLS_CERT:
        o->tls_certificate = text;
        return 0;
    case OPT_TLS_KEY:
        o->tls_key = text;
        return 0;
    case OPT_LEDGER:
        o->ledger_path = text;
        return 0;
    case OPT_LEDGER_SYNC:
        o->does_ledger_sync = true;
        return 0;
    case OPT_STORE:
        o->store_path = text;
        return 0;
    case OPT_JSON:
        o->json_path = text;
        return 0;
    default:
        return set_number(o, id, text);
    }
}

int sink_options_parse(int argc, char **argv, struct sink_options *ret, int *ret_status)
{
    *ret = (struct sink_options){
        .hostname = "sink.test", .threads = 2, .seed = 1, .size_limit = 256UL * 1024 * 1024};
    int id;
    int index = 0;
    while ((id = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (id == OPT_HELP) {
            (void)fputs(usage, stdout);
            *ret_status = EX_OK;
            return -1;
        }
        if (id == '?') {
            *ret_status = EX_USAGE;
            return -1;
        }
        if (set(ret, id, optarg) != 0) {
            (void)fprintf(stderr, "sluice-sink: --%s %s: not understood; see --help\n",
                          options[index].name, optarg);
            *ret_status = EX_USAGE;
            return -1;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "sluice-sink: %s: no such argument; see --help\n", argv[optind]);
        *ret_status = EX_USAGE;
        return -1;
    }
    if (ret->listen.count == 0 && endpoint_list_add(&ret->listen, "127.0.0.1:2525") != 0) {
        *ret_status = EX_OSERR;
        return -1;
    }
    return 0;
}

void sink_options_fini(struct sink_options *o)
{
    endpoint_list_fini(&o->listen);
}
