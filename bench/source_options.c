/* The command line of sluice-source. Called once by main. */
#include "bench/source_options.h"

#include "base/error.h"
#include "bench/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
    "usage: sluice-source [option...]\n"
    "Sends numbered messages over SMTP and measures how fast they are accepted.\n"
    "\n"
    "  --to ADDR:PORT         where to (127.0.0.1:25)\n"
    "  --messages N           (1000; 0: until --seconds is over)\n"
    "  --connections N        (1)\n"
    "  --size BYTES           of a message with its header (4096)\n"
    "  --recipients N         of one message (1)\n"
    "  --domains LIST         \"a.test,b.test\", or \"d%d.test:50\" for d1.test to d50.test\n"
    "                         (example.test); recipients go round\n"
    "  --rate R               messages a second on average, at random (Poisson), whether or not\n"
    "                         answers come; without it: as fast as they come\n"
    "  --pipelining           MAIL, RCPT and DATA in one write\n"
    "  --per-connection N     messages, then a new connection\n"
    "  --sender ADDRESS       (bounce@source.test; may be empty)\n"
    "  --helo NAME            (source.test)\n"
    "  --id-prefix TEXT       of the X-Sluice-Id fields\n"
    "  --seconds S            offer nothing new after it\n"
    "  --timeout S            of each answer (300)\n"
    "  --retry                connect again when a connection is lost\n"
    "  --reoffer              offer a message again when its answer was lost or 4xx\n"
    "  --seed N               of the random choices (1)\n"
    "  --ledger FILE          append a JSON line for each offer and each fate\n"
    "  --ledger-sync          and sync it to the disk\n"
    "  --json FILE            replace FILE by the numbers each second\n"
    "\n"
    "Prints the numbers as JSON to standard output and one line for people to standard error;\n"
    "exit status 0 when every message was accepted.\n";

enum option_id {
    OPT_TO = 256, /* beyond all letters */
    OPT_MESSAGES,
    OPT_CONNECTIONS,
    OPT_SIZE,
    OPT_RECIPIENTS,
    OPT_DOMAINS,
    OPT_RATE,
    OPT_PIPELINING,
    OPT_PER_CONNECTION,
    OPT_SENDER,
    OPT_HELO,
    OPT_ID_PREFIX,
    OPT_SECONDS,
    OPT_TIMEOUT,
    OPT_RETRY,
    OPT_REOFFER,
    OPT_SEED,
    OPT_LEDGER,
    OPT_LEDGER_SYNC,
    OPT_JSON,
};

static const struct option table[] = {
    {"to", required_argument, NULL, OPT_TO},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"size", required_argument, NULL, OPT_SIZE},
    {"recipients", required_argument, NULL, OPT_RECIPIENTS},
    {"domains", required_argument, NULL, OPT_DOMAINS},
    {"rate", required_argument, NULL, OPT_RATE},
    {"pipelining", no_argument, NULL, OPT_PIPELINING},
    {"per-connection", required_argument, NULL, OPT_PER_CONNECTION},
    {"sender", required_argument, NULL, OPT_SENDER},
    {"helo", required_argument, NULL, OPT_HELO},
    {"id-prefix", required_argument, NULL, OPT_ID_PREFIX},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"retry", no_argument, NULL, OPT_RETRY},
    {"reoffer", no_argument, NULL, OPT_REOFFER},
    {"seed", required_argument, NULL, OPT_SEED},
    {"ledger", required_argument, NULL, OPT_LEDGER},
    {"ledger-sync", no_argument, NULL, OPT_LEDGER_SYNC},
    {"json", required_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPTIONS_HELP},
    {NULL, 0, NULL, 0},
};

static int add_domain(struct source_options *o, const char *name)
{
    if (o->domain_count == SOURCE_DOMAINS_MAX) {
        return ERR_LIMIT;
    }
    char **domains = realloc(o->domains, (o->domain_count + 1) * sizeof(*domains));
    if (domains == NULL) {
        return -ENOMEM;
    }
    o->domains = domains;
    domains[o->domain_count] = strdup(name);
    return domains[o->domain_count++] == NULL ? -ENOMEM : 0;
}

/* "d%d.test:50" */
static int add_pattern(struct source_options *o, const char *text, const char *mark)
{
    const char *colon = strrchr(text, ':');
    char *end;
    if (colon == NULL || colon < mark) {
        return ERR_SYNTAX;
    }
    unsigned long count = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || count < 1 ||
        count > SOURCE_DOMAINS_MAX) {
        return ERR_SYNTAX;
    }
    int err = 0;
    for (unsigned long i = 1; i <= count && err == 0; i++) {
        char name[256];
        int len = snprintf(name, sizeof(name), "%.*s%lu%.*s", (int)(mark - text), text, i,
                           (int)(colon - mark - 2), mark + 2);
        err = len >= (int)sizeof(name) ? ERR_SYNTAX : add_domain(o, name);
    }
    return err;
}

static int set_domains(struct source_options *o, const char *text)
{
    const char *mark = strstr(text, "%d");
    if (mark != NULL) {
        return add_pattern(o, text, mark);
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return -ENOMEM;
    }
    char *rest = NULL;
    int err = ERR_SYNTAX;
    for (char *item = strtok_r(copy, ", ", &rest); item != NULL;
         item = strtok_r(NULL, ", ", &rest)) {
        err = add_domain(o, item);
        if (err != 0) {
            break;
        }
    }
    free(copy);
    return err;
}

static int set_number(struct source_options *o, int id, const char *text)
{
    double limit = id == OPT_CONNECTIONS  ? SOURCE_CONNECTIONS_MAX
                   : id == OPT_SIZE       ? (double)SOURCE_SIZE_MAX
                   : id == OPT_RECIPIENTS ? SOURCE_RECIPIENTS_MAX
                                          : 1e9;
    double value;
    int err = options_number(text, limit, &value);
    if (err != 0) {
        return err;
    }
    switch (id) {
    case OPT_MESSAGES:
        o->messages = (uint64_t)value;
        return 0;
    case OPT_CONNECTIONS:
        o->connections = (uint32_t)value;
        return value < 1 ? ERR_SYNTAX : 0;
    case OPT_SIZE:
        o->size_bytes = (size_t)value;
        return 0;
    case OPT_RECIPIENTS:
        o->recipients = (uint32_t)value;
        return value < 1 ? ERR_SYNTAX : 0;
    case OPT_RATE:
        o->rate = value;
        return 0;
    case OPT_PER_CONNECTION:
        o->per_connection = (uint32_t)value;
        return 0;
    case OPT_SECONDS:
        o->duration = (usec_t)(value * (double)USEC_PER_SEC);
        return 0;
    case OPT_TIMEOUT:
        o->timeout = (usec_t)(value * (double)USEC_PER_SEC);
        return o->timeout == 0 ? ERR_SYNTAX : 0;
    default:
        o->seed = (uint64_t)value;
        return 0;
    }
}

static int set(void *ctx, int id, const char *text)
{
    struct source_options *o = ctx;
    switch (id) {
    case OPT_TO:
        endpoint_list_fini(&o->to);
        return endpoint_list_add(&o->to, text);
    case OPT_DOMAINS:
        return set_domains(o, text);
    case OPT_PIPELINING:
        o->does_pipeline = true;
        return 0;
    case OPT_SENDER:
        o->sender = text;
        return 0;
    case OPT_HELO:
        o->helo = text;
        return 0;
    case OPT_ID_PREFIX:
        o->id_prefix = text;
        return strlen(text) < 40 ? 0 : ERR_LIMIT;
    case OPT_RETRY:
        o->does_retry = true;
        return 0;
    case OPT_REOFFER:
        o->does_reoffer = true;
        return 0;
    case OPT_LEDGER:
        o->ledger_path = text;
        return 0;
    case OPT_LEDGER_SYNC:
        o->does_ledger_sync = true;
        return 0;
    case OPT_JSON:
        o->json_path = text;
        return 0;
    default:
        return set_number(o, id, text);
    }
}

static int complete(struct source_options *o)
{
    int err = 0;
    if (o->to.count == 0) {
        err = endpoint_list_add(&o->to, "127.0.0.1:25");
    }
    if (err == 0 && o->domain_count == 0) {
        err = add_domain(o, "example.test");
    }
    if (err != 0) {
        (void)fprintf(stderr, "sluice-source: %s\n", err_str(err));
    } else if (o->to.count != 1 || (o->messages == 0 && o->duration == 0)) {
        (void)fprintf(stderr, o->to.count != 1
                                  ? "sluice-source: --to: one address only\n"
                                  : "sluice-source: no end: --messages or --seconds\n");
        err = ERR_SYNTAX;
    }
    return err;
}

int source_options_parse(int argc, char **argv, struct source_options *ret, int *ret_status)
{
    static const struct options options = {"sluice-source", usage, table, set};
    *ret = (struct source_options){.messages = 1000,
                                   .connections = 1,
                                   .size_bytes = 4096,
                                   .recipients = 1,
                                   .sender = "bounce@source.test",
                                   .helo = "source.test",
                                   .timeout = 300 * USEC_PER_SEC,
                                   .seed = 1};
    if (options_read_all(&options, argc, argv, ret, ret_status) < 0) {
        return -1;
    }
    *ret_status = EX_USAGE;
    return complete(ret) != 0 ? -1 : 0;
}

void source_options_fini(struct source_options *o)
{
    endpoint_list_fini(&o->to);
    for (size_t i = 0; i < o->domain_count; i++) {
        free(o->domains[i]);
    }
    free(o->domains);
    o->domains = NULL;
    o->domain_count = 0;
}
