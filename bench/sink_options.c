/* The command line of sluice-sink. Called once by main. */
#include "bench/sink_options.h"

#include "base/error.h"
#include "base/slice.h"
#include "bench/options.h"

#include <errno.h>
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
    "                                   time that the work takes: before the greeting, before "
    "each\n"
    "                                   answer to RCPT, before the answer to the end of data;\n"
    "                                   what the client sends behind it waits meanwhile\n"
    "  --round-trip MS                  time that every reply is under way: it is sent so much\n"
    "                                   later, and meanwhile what the client sends is read and\n"
    "                                   processed (a TLS handshake is not delayed)\n"
    "  --hold                           no greeting before SIGUSR2 comes\n"
    "  --extensions LIST                announced, of pipelining, chunking, 8bitmime, smtputf8,\n"
    "                                   enhancedstatuscodes and size, or none (all but chunking)\n"
    "  --connections-per-client N       of one client to one address; more get 421\n"
    "  --reject-rcpt SHARE:CODE:TEXT    refuse this share (0..1) of the recipients; may be "
    "repeated\n"
    "  --defer SHARE                    answer 451 to this share of the messages\n"
    "  --fault KIND:SHARE               reset, stall (say nothing more) or 421 at this share of "
    "the\n"
    "                                   commands, before messages are taken and behind them; "
    "close\n"
    "                                   behind this share of the messages; may be repeated\n"
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
    OPT_LISTEN = 256, /* beyond all letters */
    OPT_THREADS,
    OPT_HOSTNAME,
    OPT_SIZE_LIMIT,
    OPT_DELAY_BANNER,
    OPT_DELAY_RCPT,
    OPT_DELAY_DOT,
    OPT_ROUND_TRIP,
    OPT_HOLD,
    OPT_EXTENSIONS,
    OPT_CONNECTIONS,
    OPT_REJECT,
    OPT_DEFER,
    OPT_FAULT,
    OPT_SEED,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_LEDGER,
    OPT_LEDGER_SYNC,
    OPT_STORE,
    OPT_JSON,
    OPT_MESSAGES,
};

static const struct option table[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"hostname", required_argument, NULL, OPT_HOSTNAME},
    {"size-limit", required_argument, NULL, OPT_SIZE_LIMIT},
    {"delay-banner", required_argument, NULL, OPT_DELAY_BANNER},
    {"delay-rcpt", required_argument, NULL, OPT_DELAY_RCPT},
    {"delay-dot", required_argument, NULL, OPT_DELAY_DOT},
    {"round-trip", required_argument, NULL, OPT_ROUND_TRIP},
    {"hold", no_argument, NULL, OPT_HOLD},
    {"extensions", required_argument, NULL, OPT_EXTENSIONS},
    {"connections-per-client", required_argument, NULL, OPT_CONNECTIONS},
    {"reject-rcpt", required_argument, NULL, OPT_REJECT},
    {"defer", required_argument, NULL, OPT_DEFER},
    {"fault", required_argument, NULL, OPT_FAULT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"ledger", required_argument, NULL, OPT_LEDGER},
    {"ledger-sync", no_argument, NULL, OPT_LEDGER_SYNC},
    {"store", required_argument, NULL, OPT_STORE},
    {"json", required_argument, NULL, OPT_JSON},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"help", no_argument, NULL, OPTIONS_HELP},
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

static int read_extensions(struct sink_options *o, const char *text)
{
    static const struct {
        const char *name;
        unsigned bit;
    } known[] = {{"none", 0},
                 {"pipelining", SINK_PIPELINING},
                 {"chunking", SINK_CHUNKING},
                 {"8bitmime", SINK_8BITMIME},
                 {"smtputf8", SINK_SMTPUTF8},
                 {"enhancedstatuscodes", SINK_ENHANCEDSTATUSCODES},
                 {"size", SINK_SIZE}};
    const size_t count = sizeof(known) / sizeof(known[0]);
    o->extensions = 0;
    for (struct slice rest = slice_of(text); rest.data != NULL;) {
        size_t len = slice_find(rest, ',');
        size_t i = 0;
        while (i < count && !slice_ieq(slice_to(rest, len), slice_of(known[i].name))) {
            i++;
        }
        if (i == count) {
            return ERR_SYNTAX;
        }
        o->extensions |= known[i].bit;
        rest = len < rest.len ? slice_from(rest, len + 1) : (struct slice){0};
    }
    return 0;
}

static int read_fault(struct sink_options *o, const char *text)
{
    static const char *const names[SINK_FAULT_COUNT] = {
        [SINK_FAULT_RESET] = "reset:",
        [SINK_FAULT_STALL] = "stall:",
        [SINK_FAULT_421] = "421:",
        [SINK_FAULT_CLOSE] = "close:",
    };
    const char *rest;
    for (int i = 0; i < SINK_FAULT_COUNT; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(text, names[i], len) == 0) {
            return read_share(text + len, '\0', &o->fault_shares[i], &rest);
        }
    }
    return ERR_SYNTAX;
}

static int set_number(struct sink_options *o, int id, const char *text)
{
    const bool is_time = id == OPT_DELAY_BANNER || id == OPT_DELAY_RCPT || id == OPT_DELAY_DOT ||
                         id == OPT_ROUND_TRIP;
    uint64_t limit = id == OPT_THREADS       ? SINK_THREADS_MAX
                     : id == OPT_CONNECTIONS ? UINT32_MAX
                     : is_time               ? 3600ULL * 1000
                                             : INT64_MAX;
    uint64_t value;
    int err = options_integer(text, limit, &value);
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
    case OPT_ROUND_TRIP:
        o->round_trip = (usec_t)value * USEC_PER_MSEC;
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

static int set(void *ctx, int id, const char *text)
{
    struct sink_options *o = ctx;
    const char *rest;
    switch (id) {
    case OPT_LISTEN:
        return endpoint_list_add(&o->listen, text);
    case OPT_HOSTNAME:
        o->hostname = text;
        return 0;
    case OPT_HOLD:
        o->does_hold = true;
        return 0;
    case OPT_EXTENSIONS:
        return read_extensions(o, text);
    case OPT_REJECT:
        return read_rejection(o, text);
    case OPT_DEFER:
        return read_share(text, '\0', &o->defer_share, &rest);
    case OPT_FAULT:
        return read_fault(o, text);
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
    static const struct options options = {"sluice-sink", usage, table, set};
    *ret = (struct sink_options){.hostname = "sink.test",
                                 .threads = 2,
                                 .seed = 1,
                                 .size_limit = 256UL * 1024 * 1024,
                                 .extensions = SINK_EXTENSIONS_USUAL};
    if (options_read_all(&options, argc, argv, ret, ret_status) < 0) {
        return -1;
    }
    if (ret->listen.count == 0 && endpoint_list_add(&ret->listen, "127.0.0.1:2525") != 0) {
        *ret_status = EX_OSERR;
        return -1;
    }
    *ret_status = EX_OK;
    return 0;
}

void sink_options_fini(struct sink_options *o)
{
    endpoint_list_fini(&o->listen);
}
