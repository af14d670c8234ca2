/* The command line of sluice-sink. Called once by main. */
#include "bench/sink/sink_options.h"

#include "base/error.h"
#include "bench/tool/options.h"

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
    "  --threads N                      (1: cheapest, and fast enough where cores are few)\n"
    "  --hostname NAME                  in the greeting (sink.test)\n"
    "  --size-limit BYTES               announced and enforced (268435456)\n"
    "  --seed N                         of the random choices (1)\n"
    "  --tls-cert FILE, --tls-key FILE  offer STARTTLS\n"
    "  --ledger FILE                    append a JSON line for each message before it is accepted\n"
    "  --ledger-sync                    and sync it to the disk\n"
    "  --store DIR                      keep the messages there\n"
    "  --json FILE                      replace FILE by the numbers each second (less often where\n"
    "                                   that is much work)\n"
    "  --timeline MS                    in the numbers at the end, also those of each interval;\n"
    "                                   by listening address, and by domain for the first 16\n"
    "  --messages N                     exit when N messages were accepted\n"
    "\n"
    "How every address behaves; a behaviour file overrides it:\n"
    "  --delay-banner MS, --delay-rcpt MS, --delay-dot MS\n"
    "                                   time that the work takes: before the greeting, before "
    "each\n"
    "                                   answer to RCPT, before the answer to the end of data; "
    "10-30\n"
    "                                   is any time between them. What the client sends behind it\n"
    "                                   waits meanwhile\n"
    "  --round-trip MS                  time that every reply is under way, also 10-30: it is "
    "sent\n"
    "                                   so much later, and meanwhile what the client sends is "
    "read\n"
    "                                   and processed (a TLS handshake is not delayed)\n"
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
    "\n"
    "  --behaviour FILE                 how single addresses and recipient domains behave:\n"
    "      default { ... }                                what holds where no other says more\n"
    "      destination \"127.0.1.1-127.0.1.10\" { ... }    each of these listening addresses; "
    "also\n"
    "                                                     with :PORT; the last that fits holds\n"
    "      domain \"d1.test\" { ... }                      its recipients, in place of what the\n"
    "                                                     destination says\n"
    "      client \"127.0.0.2-127.0.0.9\" { ... }         towards clients that connect from there, "
    "in\n"
    "                                                     place of what the destination says\n"
    "      profile \"NAME\" { ... }                        for use = \"NAME\" in the others\n"
    "    with any of these keys (those with * also in a domain, those with - not in a client):\n"
    "      delay_banner, delay_ehlo, delay_mail, delay_rcpt *, delay_data, delay_dot *\n"
    "                                     ms, 20 or 10-30\n"
    "      tarpit = MS                    the n-th reply of a connection takes n times this "
    "longer\n"
    "      round_trip = MS or 10-30, hold = yes -, extensions = {pipelining, size}\n"
    "      connections = N -, connections_per_client = N  to one listening address; and\n"
    "      connection_rate_per_client = \"30/m\"           to all of the section; more get\n"
    "      connection_reply = \"421 4.7.0 too many connections\"\n"
    "      messages_per_connection = N    the MAIL behind them gets\n"
    "      messages_reply = \"421 4.7.0 too many messages on this connection\"\n"
    "      recipients_per_message = N *   452 to those behind them\n"
    "      rate = \"100/s\" * -            messages each s, m, h or d, from all clients to one\n"
    "                                     listening address; so many may come at once\n"
    "      rate_per_client = \"100/s\" *   from each client, to all addresses of the section; "
    "what\n"
    "                                     a tenth of a second allows, at least 1, may come at "
    "once.\n"
    "                                     Beyond either MAIL (in a domain: RCPT) gets\n"
    "      rate_reply = \"421 4.7.0 too many messages\" *\n"
    "      rate_stage = mail *            or rcpt (the first of a message counts), or dot\n"
    "      recipient_rate_per_client = \"3600/h\"           likewise; beyond it RCPT gets\n"
    "      recipient_reply = \"452 4.5.3 too many recipients\"\n"
    "        Each rate may be a list that changes with time, and each item may say how much may\n"
    "        come at once: {\"100/s, burst 20\", \"50/s from 60\", \"none from 120\"}; seconds "
    "since "
    "the\n"
    "        first message or connection that it limited\n"
    "      reject = {\"STAGE:SHARE:CODE TEXT\"} *          STAGE: banner, ehlo, mail, rcpt, data,\n"
    "                                     dot (in a domain: rcpt, dot); 421 also ends the "
    "connection\n"
    "      greylist = S *                 until so long after the first try of client, sender and\n"
    "                                     recipient RCPT gets\n"
    "      greylist_reply = \"451 4.7.1 greylisted, try again later\" *\n"
    "        All these replies may name {client}, {sender} and {domain} (of sender and "
    "recipient):\n"
    "        client \"127.0.0.3\" { reject = {\"mail:1:554 5.7.1 [{client}] blocked using "
    "bl.test\"} }\n"
    "      fault = {\"reset:0.01\"}         as --fault\n"
    "      silent = yes -                 accepts no connection; its backlog is full\n"
    "      use = \"NAME\"                  of a profile, as if its keys stood here; others here "
    "win\n"
    "  --profiles                       list the profiles that imitate big mailbox providers\n"
    "  --profiles-dir DIR               where they are\n"
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
    OPT_BEHAVIOUR,
    OPT_PROFILES,
    OPT_PROFILES_DIR,
    OPT_TIMELINE,
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
    {"behaviour", required_argument, NULL, OPT_BEHAVIOUR},
    {"profiles", no_argument, NULL, OPT_PROFILES},
    {"profiles-dir", required_argument, NULL, OPT_PROFILES_DIR},
    {"timeline", required_argument, NULL, OPT_TIMELINE},
    {"help", no_argument, NULL, OPTIONS_HELP},
    {NULL, 0, NULL, 0},
};

static void say_usage(const char *line)
{
    (void)fprintf(stderr, "sluice-sink: %s\n", line);
}

static int read_behaviour(struct sink_options *o, enum behaviour_key key, const char *text)
{
    char why[BEHAVIOUR_WHY_BYTES] = "no memory";
    int err = behaviour_read(&o->behaviour, key, text, why);
    if (err != 0) {
        say_usage(why);
    }
    return err;
}

/* "SHARE:CODE:TEXT" */
static int read_rejection(struct sink_options *o, const char *text)
{
    char item[2 * BEHAVIOUR_REPLY_BYTES];
    if (snprintf(item, sizeof(item), "rcpt:%s", text) >= (int)sizeof(item)) {
        return ERR_SYNTAX;
    }
    char *code = strchr(item + sizeof("rcpt:") - 1, ':');
    char *colon = code != NULL ? strchr(code + 1, ':') : NULL;
    if (colon == NULL) {
        return ERR_SYNTAX;
    }
    *colon = ' ';
    return read_behaviour(o, BEHAVIOUR_REJECT, item);
}

static int read_defer(struct sink_options *o, const char *text)
{
    char item[BEHAVIOUR_REPLY_BYTES];
    double share;
    if (options_number(text, 1, &share) != 0) {
        return ERR_SYNTAX;
    }
    (void)snprintf(item, sizeof(item), "dot:%.17g:451 4.3.0 not now", share);
    return read_behaviour(o, BEHAVIOUR_REJECT, item);
}

static uint64_t number_limit(int id)
{
    if (id == OPT_THREADS) {
        return SINK_THREADS_MAX;
    }
    return id == OPT_TIMELINE ? 86400ULL * 1000 : INT64_MAX;
}

static int set_sink_number(struct sink_options *o, int id, const char *text)
{
    uint64_t value;
    int err = options_integer(text, number_limit(id), &value);
    if (err != 0) {
        return err;
    }
    switch (id) {
    case OPT_THREADS:
        o->threads = (int)value;
        return value == 0 ? ERR_SYNTAX : 0;
    case OPT_TIMELINE:
        o->timeline = (usec_t)value * USEC_PER_MSEC;
        return value == 0 ? ERR_SYNTAX : 0;
    case OPT_SIZE_LIMIT:
        o->size_limit = value;
        return 0;
    case OPT_SEED:
        o->seed = value;
        return 0;
    default:
        o->messages = value;
        return 0;
    }
}

/* What a behaviour file may say too. returns: ERR_MISSING when it is none of that */
static int set_behaviour(struct sink_options *o, int id, const char *text)
{
    switch (id) {
    case OPT_DELAY_BANNER:
        return read_behaviour(o, BEHAVIOUR_DELAY_BANNER, text);
    case OPT_DELAY_RCPT:
        return read_behaviour(o, BEHAVIOUR_DELAY_RCPT, text);
    case OPT_DELAY_DOT:
        return read_behaviour(o, BEHAVIOUR_DELAY_DOT, text);
    case OPT_ROUND_TRIP:
        return read_behaviour(o, BEHAVIOUR_ROUND_TRIP, text);
    case OPT_CONNECTIONS:
        return read_behaviour(o, BEHAVIOUR_CONNECTIONS_PER_CLIENT, text);
    case OPT_HOLD:
        return read_behaviour(o, BEHAVIOUR_HOLD, "yes");
    case OPT_EXTENSIONS:
        return read_behaviour(o, BEHAVIOUR_EXTENSIONS, text);
    case OPT_REJECT:
        return read_rejection(o, text);
    case OPT_DEFER:
        return read_defer(o, text);
    case OPT_FAULT:
        return read_behaviour(o, BEHAVIOUR_FAULT, text);
    default:
        return ERR_MISSING;
    }
}

static int set_sink_option(void *ctx, int id, const char *text)
{
    struct sink_options *o = ctx;
    int err = set_behaviour(o, id, text);
    if (err != ERR_MISSING) {
        return err;
    }
    switch (id) {
    case OPT_LISTEN:
        return endpoint_list_add(&o->listen, text);
    case OPT_HOSTNAME:
        o->hostname = text;
        return 0;
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
    case OPT_BEHAVIOUR:
        o->behaviour_path = text;
        return 0;
    case OPT_PROFILES:
        o->does_list = true;
        return 0;
    case OPT_PROFILES_DIR:
        o->profiles_dir = text;
        return 0;
    default:
        return set_sink_number(o, id, text);
    }
}

static void complain_of_option(void *ctx, const char *line)
{
    (void)ctx;
    say_usage(line);
}

static void tell_profile(const char *name, const char *description)
{
    (void)printf("%-12s %s\n", name, description);
}

/* returns: the status of the process */
static int list_profiles(const struct behaviour_reader *reader)
{
    int err = behaviour_file_list(reader, tell_profile);
    if (err != 0) {
        (void)fprintf(stderr, "sluice-sink: %s: %s; name their folder with --profiles-dir\n",
                      reader->profiles_dir, err_str(err));
    }
    return err == 0 ? EX_OK : EX_CONFIG;
}

int sink_options_parse(int argc, char **argv, struct sink_options *ret, int *ret_status)
{
    static const struct options options = {"sluice-sink", usage, table, set_sink_option};
    *ret = (struct sink_options){.hostname = "sink.test",
                                 .threads = 1,
                                 .seed = 1,
                                 .size_limit = 256UL * 1024 * 1024,
                                 .profiles_dir = SINK_PROFILES_DIR};
    behaviour_init(&ret->behaviour);
    if (options_read_all(&options, argc, argv, ret, ret_status) < 0) {
        return -1;
    }
    const struct behaviour_reader reader = {ret->profiles_dir, complain_of_option, NULL};
    if (ret->does_list) {
        *ret_status = list_profiles(&reader);
        return -1;
    }
    *ret_status = EX_CONFIG;
    if (behaviour_file_read(ret->behaviour_path, &ret->behaviour, &reader, &ret->file) != 0) {
        return -1;
    }
    *ret_status = EX_OSERR;
    if (ret->listen.count == 0 && endpoint_list_add(&ret->listen, "127.0.0.1:2525") != 0) {
        return -1;
    }
    *ret_status = EX_OK;
    return 0;
}

void sink_options_fini(struct sink_options *o)
{
    endpoint_list_fini(&o->listen);
    behaviour_fini(&o->behaviour);
    behaviour_file_fini(&o->file);
}
