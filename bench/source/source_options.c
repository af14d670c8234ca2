/* The command line of sluice-source. Called once by main. */
#include "bench/source/source_options.h"

#include "base/error.h"
#include "bench/tool/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define ZIPF_MAX 20 /* beyond it everything is the first */
#define ZIPF_WHY "the exponent is a number from 0 (all the same) to 20"

static const char usage[] =
    "usage: sluice-source [option...]\n"
    "Sends numbered messages over SMTP and measures how fast they are accepted.\n"
    "\n"
    "  --to ADDR:PORT         where to (127.0.0.1:25)\n"
    "  --messages N           (1000; 0: until --seconds is over)\n"
    "  --connections N        (1)\n"
    "  --size BYTES           of a message with its header (4096)\n"
    "  --sizes LIST           instead: \"4096:0.9,102400:0.1\" (BYTES:SHARE) or\n"
    "                         \"lognormal:MEDIAN:SIGMA:MAX\" (what is above MAX becomes MAX)\n"
    "  --recipients N         of one message (1); also a list or lognormal, as --sizes\n"
    "  --domains LIST         \"a.test,b.test\", or \"d%d.test:50\" for d1.test to d50.test\n"
    "                         (example.test); recipients go round\n"
    "  --zipf S               instead of going round, each recipient's domain at random: the k-th\n"
    "                         of --domains has the weight 1/k^S (0: all the same)\n"
    "  --weights LIST         the same with these weights, one for each of --domains: \"5,1,1\"\n"
    "  --tenants N[:S]        senders bounce+t1@ to +tN@ (of --sender), a field X-Tenant: tK, and\n"
    "                         numbers for each; the k-th has the weight 1/k^S (0)\n"
    "  --tenant-prefix TEXT   in place of t\n"
    "  --header FIELD         a further header field of each message, \"X-Class: urgent\"; may be\n"
    "                         repeated\n"
    "  --rate R               open loop: messages a second on average, whether or not answers\n"
    "                         come; latency counts from the moment a message was due.\n"
    "                         Without it closed loop: the next when an answer comes\n"
    "  --arrivals KIND        with --rate: poisson (at random), even, or burst:N (N at once)\n"
    "                         (poisson)\n"
    "  --pipelining           MAIL, RCPT and DATA in one write\n"
    "  --streaming            the end of a message, and MAIL, RCPT and DATA of the next, in one\n"
    "                         write: one round trip a message\n"
    "  --chunking             MAIL, RCPT and BDAT of many messages without waiting. Each of the\n"
    "                         three falls back to what the server's extensions allow; \"mode\" in\n"
    "                         the numbers tells\n"
    "  --in-flight N          with --chunking: unanswered messages of a connection (64)\n"
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
    "  --histogram            in the numbers: [[seconds, accepted messages answered within them "
    "and\n"
    "                         not within those before], ...]\n"
    "\n"
    "Prints the numbers as JSON to standard output and one line for people to standard error;\n"
    "exit status 0 when every message was accepted.\n";

enum option_id {
    OPT_TO = 256, /* beyond all letters */
    OPT_MESSAGES,
    OPT_CONNECTIONS,
    OPT_SIZE,
    OPT_SIZES,
    OPT_RECIPIENTS,
    OPT_DOMAINS,
    OPT_ZIPF,
    OPT_WEIGHTS,
    OPT_TENANTS,
    OPT_TENANT_PREFIX,
    OPT_HEADER,
    OPT_RATE,
    OPT_ARRIVALS,
    OPT_PIPELINING,
    OPT_STREAMING,
    OPT_CHUNKING,
    OPT_IN_FLIGHT,
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
    OPT_HISTOGRAM,
};

static const struct option table[] = {
    {"to", required_argument, NULL, OPT_TO},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"size", required_argument, NULL, OPT_SIZE},
    {"sizes", required_argument, NULL, OPT_SIZES},
    {"recipients", required_argument, NULL, OPT_RECIPIENTS},
    {"domains", required_argument, NULL, OPT_DOMAINS},
    {"zipf", required_argument, NULL, OPT_ZIPF},
    {"weights", required_argument, NULL, OPT_WEIGHTS},
    {"tenants", required_argument, NULL, OPT_TENANTS},
    {"tenant-prefix", required_argument, NULL, OPT_TENANT_PREFIX},
    {"header", required_argument, NULL, OPT_HEADER},
    {"rate", required_argument, NULL, OPT_RATE},
    {"arrivals", required_argument, NULL, OPT_ARRIVALS},
    {"pipelining", no_argument, NULL, OPT_PIPELINING},
    {"streaming", no_argument, NULL, OPT_STREAMING},
    {"chunking", no_argument, NULL, OPT_CHUNKING},
    {"in-flight", required_argument, NULL, OPT_IN_FLIGHT},
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
    {"histogram", no_argument, NULL, OPT_HISTOGRAM},
    {"help", no_argument, NULL, OPTIONS_HELP},
    {NULL, 0, NULL, 0},
};

/* Says what would be right; the reader of the command line then names the option. */
static int wrong_option(const char *option, const char *why)
{
    (void)fprintf(stderr, "sluice-source: %s: %s\n", option, why);
    return ERR_SYNTAX;
}

static int add_domain(struct source_options *o, const char *name)
{
    if (o->domain_count == SOURCE_DOMAINS_MAX) {
        return wrong_option("--domains", "at most 1000000");
    }
    if ((o->domain_count & (o->domain_count - 1)) == 0) { /* room up to the next power of two */
        size_t capacity = o->domain_count == 0 ? 1 : o->domain_count * 2;
        char **domains = realloc(o->domains, capacity * sizeof(*domains));
        if (domains == NULL) {
            return -ENOMEM;
        }
        o->domains = domains;
    }
    o->domains[o->domain_count] = strdup(name);
    return o->domains[o->domain_count++] == NULL ? -ENOMEM : 0;
}

/* "d%d.test:50" */
static int add_pattern(struct source_options *o, const char *text, const char *mark)
{
    const char *colon = strrchr(text, ':');
    char *end;
    if (colon == NULL || colon < mark) {
        return wrong_option("--domains", "a pattern ends in :COUNT, such as \"d%d.test:50\"");
    }
    unsigned long count = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || count < 1 ||
        count > SOURCE_DOMAINS_MAX) {
        return wrong_option("--domains", "the count behind the colon is from 1 to 1000000");
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

static double number_limit(int id)
{
    switch (id) {
    case OPT_CONNECTIONS:
        return SOURCE_CONNECTIONS_MAX;
    case OPT_SIZE:
        return (double)SOURCE_SIZE_MAX;
    case OPT_IN_FLIGHT:
        return SOURCE_IN_FLIGHT_MAX;
    default:
        return 1e9;
    }
}

static int set_source_number(struct source_options *o, int id, const char *text)
{
    double value;
    int err = options_number(text, number_limit(id), &value);
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
        amount_fini(&o->size);
        o->size = amount_constant((uint64_t)value);
        return 0;
    case OPT_IN_FLIGHT:
        o->in_flight = (uint32_t)value;
        return value < 1 ? wrong_option("--in-flight", "from 1 to 65536") : 0;
    case OPT_RATE:
        o->arrivals.rate = value;
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

static int add_header(struct source_options *o, const char *field)
{
    const char *colon = strchr(field, ':');
    if (colon == NULL || colon == field || strpbrk(field, "\r\n") != NULL) {
        return wrong_option("--header", "a field of one line, such as \"X-Class: urgent\"");
    }
    buf_append_str(&o->headers, "\r\n");
    buf_append_str(&o->headers, field);
    return o->headers.failed ? -ENOMEM : 0;
}

static int set_amount(struct amount *a, const char *option, const char *text, uint64_t limit)
{
    const char *why;
    amount_fini(a);
    int err = amount_parse(a, text, limit, &why);
    return err == ERR_SYNTAX ? wrong_option(option, why) : err;
}

/* Beside set_source_option(): distributions and arrivals. */
static int set_load(struct source_options *o, int id, const char *text)
{
    switch (id) {
    case OPT_SIZES:
        return set_amount(&o->size, "--sizes", text, SOURCE_SIZE_MAX);
    case OPT_RECIPIENTS:
        return set_amount(&o->recipients, "--recipients", text, SOURCE_RECIPIENTS_MAX);
    case OPT_ZIPF:
        o->zipf_text = text;
        return 0;
    case OPT_WEIGHTS:
        o->weights_text = text;
        return 0;
    case OPT_TENANTS:
        o->tenants_text = text;
        return 0;
    case OPT_TENANT_PREFIX:
        o->tenant_prefix = text;
        return text[0] != '\0' && strlen(text) < 40 && strpbrk(text, " \r\n@<>\"\\") == NULL
                   ? 0
                   : wrong_option("--tenant-prefix", "1 to 39 letters or digits");
    case OPT_HEADER:
        return add_header(o, text);
    case OPT_ARRIVALS:
        o->has_arrivals = true;
        return arrivals_parse(&o->arrivals, text) == 0
                   ? 0
                   : wrong_option("--arrivals", "poisson, even or burst:N, N from 1");
    default:
        return set_source_number(o, id, text);
    }
}

static int set_source_option(void *ctx, int id, const char *text)
{
    struct source_options *o = ctx;
    switch (id) {
    case OPT_TO:
        endpoint_list_fini(&o->to);
        return endpoint_list_add(&o->to, text);
    case OPT_DOMAINS:
        return set_domains(o, text);
    case OPT_PIPELINING:
        o->mode = SOURCE_PIPELINING;
        return 0;
    case OPT_STREAMING:
        o->mode = SOURCE_STREAMING;
        return 0;
    case OPT_CHUNKING:
        o->mode = SOURCE_CHUNKING;
        return 0;
    case OPT_HISTOGRAM:
        o->has_histogram = true;
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
        return set_load(o, id, text);
    }
}

/* --zipf or --weights, once the domains are known. */
static int complete_popularity(struct source_options *o)
{
    double exponent;
    double *weights;
    uint32_t count;
    const char *why;
    if (o->zipf_text != NULL && o->weights_text != NULL) {
        return wrong_option("--weights", "either --zipf or --weights");
    }
    if (o->zipf_text != NULL) {
        if (options_number(o->zipf_text, ZIPF_MAX, &exponent) != 0) {
            return wrong_option("--zipf", ZIPF_WHY);
        }
        return choice_init_zipf(&o->popularity, (uint32_t)o->domain_count, exponent);
    }
    if (o->weights_text == NULL) {
        return 0;
    }
    int err = amount_parse_weights(o->weights_text, &weights, &count, &why);
    if (err != 0) {
        return err == ERR_SYNTAX ? wrong_option("--weights", why) : err;
    }
    if (count != o->domain_count) {
        (void)fprintf(stderr,
                      "sluice-source: --weights: one for each of --domains, that is %zu, not %u\n",
                      o->domain_count, count);
        err = ERR_SYNTAX;
    } else {
        err = choice_init(&o->popularity, weights, count);
    }
    free(weights);
    return err;
}

/* "N" or "N:S" */
static int complete_tenants(struct source_options *o)
{
    char number[24] = "";
    double exponent = 0;
    uint64_t count = 0;
    if (o->tenants_text == NULL) {
        return 0;
    }
    size_t len = strcspn(o->tenants_text, ":");
    if (len < sizeof(number)) {
        memcpy(number, o->tenants_text, len);
    }
    if (options_integer(number, SOURCE_TENANTS_MAX, &count) != 0 || count == 0) {
        return wrong_option("--tenants", "N or N:S, such as \"100:1.1\"; N from 1 to 10000");
    }
    if (o->tenants_text[len] == ':' &&
        options_number(o->tenants_text + len + 1, ZIPF_MAX, &exponent) != 0) {
        return wrong_option("--tenants", "behind the colon: " ZIPF_WHY);
    }
    if (strchr(o->sender, '@') == NULL) {
        return wrong_option("--tenants",
                            "needs a --sender with an @, in front of which the tenant goes");
    }
    o->tenants = (uint32_t)count;
    return choice_init_zipf(&o->tenant_popularity, o->tenants, exponent);
}

static int check_options(const struct source_options *o)
{
    if (o->to.count != 1) {
        return wrong_option("--to", "one address only");
    }
    if (o->messages == 0 && o->duration == 0) {
        return wrong_option("no end", "--messages or --seconds");
    }
    if (o->has_arrivals && o->arrivals.rate <= 0) {
        return wrong_option("--arrivals", "needs --rate, as arrivals are those of an open loop");
    }
    return 0;
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
    if (err == 0) {
        err = check_options(o);
    }
    if (err == 0) {
        err = complete_popularity(o);
    }
    if (err == 0) {
        err = complete_tenants(o);
    }
    if (err != 0 && err != ERR_SYNTAX) { /* a syntax error was told already */
        (void)fprintf(stderr, "sluice-source: %s\n", err_str(err));
    }
    o->arrivals.seed = o->seed;
    return err;
}

int source_options_parse(int argc, char **argv, struct source_options *ret, int *ret_status)
{
    static const struct options options = {"sluice-source", usage, table, set_source_option};
    *ret = (struct source_options){.messages = 1000,
                                   .connections = 1,
                                   .size = amount_constant(4096),
                                   .recipients = amount_constant(1),
                                   .in_flight = SOURCE_IN_FLIGHT,
                                   .arrivals = {.burst = 1},
                                   .tenant_prefix = "t",
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
    buf_fini(&o->headers);
    amount_fini(&o->size);
    amount_fini(&o->recipients);
    choice_fini(&o->popularity);
    choice_fini(&o->tenant_popularity);
}
