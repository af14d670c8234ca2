/* The keys, the syntax of their values, and one behaviour laid over another. Called by the reader
 * of the file and by the command line. */
#include "bench/sink/behaviour.h"

#include "base/error.h"
#include "base/slice.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX_MSEC    (3600LL * 1000)
#define GREYLIST_MAX_SEC (30LL * 86400)
#define REJECTIONS_MAX   64

#define FIELD(f) offsetof(struct behaviour, f), sizeof(((struct behaviour *)NULL)->f)

/* Who may say it beside a listening address, and whether its values are a list. */
enum {
    LIST = 1,
    DOMAIN = 2, /* a recipient domain */
    CLIENT = 4, /* the client that connects */
};

static const struct {
    const char *name;
    size_t at, size_bytes; /* the field; 0 bytes: copied by hand */
    unsigned flags;
} keys[BEHAVIOUR_KEY_COUNT] = {
    [BEHAVIOUR_DELAY_BANNER] = {"delay_banner", FIELD(delays[STAGE_BANNER]), CLIENT},
    [BEHAVIOUR_DELAY_EHLO] = {"delay_ehlo", FIELD(delays[STAGE_EHLO]), CLIENT},
    [BEHAVIOUR_DELAY_MAIL] = {"delay_mail", FIELD(delays[STAGE_MAIL]), CLIENT},
    [BEHAVIOUR_DELAY_RCPT] = {"delay_rcpt", FIELD(delays[STAGE_RCPT]), DOMAIN | CLIENT},
    [BEHAVIOUR_DELAY_DATA] = {"delay_data", FIELD(delays[STAGE_DATA]), CLIENT},
    [BEHAVIOUR_DELAY_DOT] = {"delay_dot", FIELD(delays[STAGE_DOT]), DOMAIN | CLIENT},
    [BEHAVIOUR_ROUND_TRIP] = {"round_trip", FIELD(round_trip), CLIENT},
    [BEHAVIOUR_TARPIT] = {"tarpit", FIELD(tarpit), CLIENT},
    [BEHAVIOUR_CONNECTIONS] = {"connections", FIELD(connections), 0},
    [BEHAVIOUR_CONNECTIONS_PER_CLIENT] = {"connections_per_client", FIELD(connections_per_client),
                                          CLIENT},
    [BEHAVIOUR_MESSAGES_PER_CONNECTION] = {"messages_per_connection",
                                           FIELD(messages_per_connection), CLIENT},
    [BEHAVIOUR_RECIPIENTS_PER_MESSAGE] = {"recipients_per_message", FIELD(recipients_per_message),
                                          DOMAIN | CLIENT},
    [BEHAVIOUR_RATE] = {"rate", FIELD(rate), LIST | DOMAIN},
    [BEHAVIOUR_RATE_PER_CLIENT] = {"rate_per_client", FIELD(rate_per_client),
                                   LIST | DOMAIN | CLIENT},
    [BEHAVIOUR_RATE_STAGE] = {"rate_stage", FIELD(rate_stage), DOMAIN | CLIENT},
    [BEHAVIOUR_RATE_REPLY] = {"rate_reply", FIELD(rate_reply), DOMAIN | CLIENT},
    [BEHAVIOUR_CONNECTION_RATE_PER_CLIENT] = {"connection_rate_per_client",
                                              FIELD(connection_rate_per_client), LIST | CLIENT},
    [BEHAVIOUR_CONNECTION_REPLY] = {"connection_reply", FIELD(connection_reply), CLIENT},
    [BEHAVIOUR_MESSAGES_REPLY] = {"messages_reply", FIELD(messages_reply), CLIENT},
    [BEHAVIOUR_RECIPIENT_RATE_PER_CLIENT] = {"recipient_rate_per_client",
                                             FIELD(recipient_rate_per_client), LIST | CLIENT},
    [BEHAVIOUR_RECIPIENT_REPLY] = {"recipient_reply", FIELD(recipient_reply), CLIENT},
    [BEHAVIOUR_REJECT] = {"reject", 0, 0, LIST | DOMAIN | CLIENT},
    [BEHAVIOUR_GREYLIST] = {"greylist", FIELD(greylist), DOMAIN | CLIENT},
    [BEHAVIOUR_GREYLIST_REPLY] = {"greylist_reply", FIELD(greylist_reply), DOMAIN | CLIENT},
    [BEHAVIOUR_FAULT] = {"fault", FIELD(fault_shares), LIST | CLIENT},
    [BEHAVIOUR_SILENT] = {"silent", FIELD(is_silent), 0},
    [BEHAVIOUR_EXTENSIONS] = {"extensions", FIELD(extensions), LIST | CLIENT},
    [BEHAVIOUR_HOLD] = {"hold", FIELD(does_hold), 0},
};

static_assert(BEHAVIOUR_KEY_COUNT <= 32, "a bit each in behaviour.set");

static const char *const stages[STAGE_COUNT] = {
    [STAGE_BANNER] = "banner", [STAGE_EHLO] = "ehlo", [STAGE_MAIL] = "mail",
    [STAGE_RCPT] = "rcpt",     [STAGE_DATA] = "data", [STAGE_DOT] = "dot",
};

static int read_delay(const char *text, struct behaviour_delay *ret, char *why)
{
    int64_t least = 0;
    int64_t most;
    const char *end = value_digits(text, &least);
    most = least;
    if (end != NULL && *end == '-') {
        end = value_digits(end + 1, &most);
    }
    if (end == NULL || *end != '\0') {
        return value_refuse(
            why,
            "\"%.40s\" is not a time; write milliseconds, such as 20, or 10-30 for any "
            "time between them",
            text);
    }
    if (least > most || most > TIME_MAX_MSEC) {
        return value_refuse(
            why, "%.40s is out of range; write 0 to %lld milliseconds, the smaller one first", text,
            TIME_MAX_MSEC);
    }
    *ret = (struct behaviour_delay){least * USEC_PER_MSEC, most * USEC_PER_MSEC};
    return 0;
}

/* A whole number of at most `limit`; `unit` names what it counts. */
static int read_number(const char *text, int64_t limit, const char *unit, int64_t *ret, char *why)
{
    int64_t value = 0;
    const char *end = value_digits(text, &value);
    if (end == NULL || *end != '\0') {
        return value_refuse(why, "\"%.40s\" is not a whole number; write %s, such as 20", text,
                            unit);
    }
    if (value > limit) {
        return value_refuse(why, "%.40s is out of range; write 0 to %lld %s", text,
                            (long long)limit, unit);
    }
    *ret = value;
    return 0;
}

static int read_msec(const char *text, usec_t *ret, char *why)
{
    int64_t value = 0;
    int err = read_number(text, TIME_MAX_MSEC, "milliseconds", &value, why);
    if (err == 0) {
        *ret = value * USEC_PER_MSEC;
    }
    return err;
}

static int read_limit(const char *text, const char *unit, uint32_t *ret, char *why)
{
    int64_t value = 0;
    int err = read_number(text, UINT32_MAX, unit, &value, why);
    if (err == 0) {
        *ret = (uint32_t)value;
    }
    return err;
}

/* Where a rate of messages acts. */
static int read_stage(const char *text, enum behaviour_stage *ret, char *why)
{
    static const enum behaviour_stage known[] = {STAGE_MAIL, STAGE_RCPT, STAGE_DOT};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (slice_ieq(slice_of(text), slice_of(stages[known[i]]))) {
            *ret = known[i];
            return 0;
        }
    }
    return value_refuse(why, "\"%.40s\" is no stage where a rate acts; write mail, rcpt or dot",
                        text);
}

/* "CODE TEXT" */
static int read_reply(const char *text, char ret[BEHAVIOUR_REPLY_BYTES], char *why)
{
    int64_t code = 0;
    const char *end = value_digits(text, &code);
    if (end != text + 3 || code < 400 || code > 599 || (*end != ' ' && *end != '\0')) {
        return value_refuse(
            why,
            "\"%.40s\" is not a refusal; write a code from 400 to 599 and a text, such "
            "as 451 4.7.1 try later",
            text);
    }
    if (strlen(text) >= BEHAVIOUR_REPLY_BYTES) {
        return value_refuse(why, "\"%.40s...\" is too long; write at most %d bytes", text,
                            BEHAVIOUR_REPLY_BYTES - 1);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) {
            return value_refuse(
                why, "\"%.40s\" has a byte that no reply may have; write plain ASCII", text);
        }
    }
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

/* A number from 0 to 1 that ends at `end`. returns: the byte behind it, or NULL */
static const char *read_share(const char *text, char end, double *ret)
{
    char *rest;
    errno = 0;
    double value = strtod(text, &rest);
    if (rest == text || *rest != end || errno != 0 || !(value >= 0 && value <= 1)) {
        return NULL;
    }
    *ret = value;
    return rest + (end != '\0' ? 1 : 0);
}

/* "STAGE:SHARE:CODE TEXT" */
static int read_rejection(struct behaviour *b, const char *text, char *why)
{
    struct behaviour_rejection r;
    size_t stage = 0;
    size_t len = strcspn(text, ":");
    while (stage < STAGE_COUNT && !slice_ieq(slice_make(text, len), slice_of(stages[stage]))) {
        stage++;
    }
    const char *reply =
        stage < STAGE_COUNT && text[len] == ':' ? read_share(text + len + 1, ':', &r.share) : NULL;
    if (reply == NULL) {
        return value_refuse(
            why,
            "\"%.60s\" is not a rejection; write STAGE:SHARE:CODE TEXT with a stage of "
            "banner, ehlo, mail, rcpt, data and dot and a share from 0 to 1, such as "
            "rcpt:0.05:550 5.1.1 no such user",
            text);
    }
    int err = read_reply(reply, r.reply, why);
    if (err != 0) {
        return err;
    }
    if (b->rejection_count == REJECTIONS_MAX) {
        return value_refuse(why, "there are too many; write at most %d", REJECTIONS_MAX);
    }
    r.stage = (enum behaviour_stage)stage;
    struct behaviour_rejection *all =
        realloc(b->rejections, (b->rejection_count + 1) * sizeof(*all));
    if (all == NULL) {
        return -ENOMEM;
    }
    all[b->rejection_count++] = r;
    b->rejections = all;
    return 0;
}

static int read_fault(struct behaviour *b, const char *text, char *why)
{
    static const char *const names[FAULT_COUNT] = {
        [FAULT_RESET] = "reset:",
        [FAULT_STALL] = "stall:",
        [FAULT_421] = "421:",
        [FAULT_CLOSE] = "close:",
    };
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(text, names[i], len) == 0 &&
            read_share(text + len, '\0', &b->fault_shares[i]) != NULL) {
            return 0;
        }
    }
    return value_refuse(
        why,
        "\"%.40s\" is not a fault; write KIND:SHARE with a kind of reset, stall, 421 and "
        "close and a share from 0 to 1, such as reset:0.01",
        text);
}

/* Read the name of an extension, or several with commas between them. */
static int read_extensions(unsigned *extensions, const char *text, char *why)
{
    static const struct {
        const char *name;
        unsigned bit;
    } known[] = {{"none", 0},
                 {"pipelining", EXTENSION_PIPELINING},
                 {"chunking", EXTENSION_CHUNKING},
                 {"8bitmime", EXTENSION_8BITMIME},
                 {"smtputf8", EXTENSION_SMTPUTF8},
                 {"enhancedstatuscodes", EXTENSION_ENHANCEDSTATUSCODES},
                 {"size", EXTENSION_SIZE}};
    const size_t count = sizeof(known) / sizeof(known[0]);
    for (struct slice rest = slice_of(text); rest.data != NULL;) {
        size_t len = slice_find(rest, ',');
        struct slice name = slice_trim(slice_to(rest, len));
        size_t i = 0;
        while (i < count && !slice_ieq(name, slice_of(known[i].name))) {
            i++;
        }
        if (i == count) {
            return value_refuse(
                why,
                "there is no extension \"%.40s\"; write none, pipelining, chunking, "
                "8bitmime, smtputf8, enhancedstatuscodes or size",
                text);
        }
        *extensions |= known[i].bit;
        rest = len < rest.len ? slice_from(rest, len + 1) : (struct slice){0};
    }
    return 0;
}

static int read_yes(const char *text, bool *ret, char *why)
{
    bool is_yes = slice_ieq(slice_of(text), SLICE("yes"));
    if (!is_yes && !slice_ieq(slice_of(text), SLICE("no"))) {
        return value_refuse(why, "\"%.40s\" is neither yes nor no; write yes or no", text);
    }
    *ret = is_yes;
    return 0;
}

void behaviour_init(struct behaviour *b)
{
    *b = (struct behaviour){.extensions = EXTENSIONS_USUAL,
                            .rate_stage = STAGE_MAIL,
                            .rate_reply = "421 4.7.0 too many messages",
                            .connection_reply = "421 4.7.0 too many connections",
                            .messages_reply = "421 4.7.0 too many messages on this connection",
                            .recipient_reply = "452 4.5.3 too many recipients",
                            .greylist_reply = "451 4.7.1 greylisted, try again later"};
}

void behaviour_fini(struct behaviour *b)
{
    free(b->rejections);
    *b = (struct behaviour){0};
}

enum behaviour_key behaviour_key_find(const char *name)
{
    size_t i = 0;
    while (i < BEHAVIOUR_KEY_COUNT && strcmp(keys[i].name, name) != 0) {
        i++;
    }
    return (enum behaviour_key)i;
}

const char *behaviour_key_name(enum behaviour_key key)
{
    return keys[key].name;
}

bool behaviour_key_is_list(enum behaviour_key key)
{
    return (keys[key].flags & LIST) != 0;
}

bool behaviour_key_is_for_domains(enum behaviour_key key)
{
    return (keys[key].flags & DOMAIN) != 0;
}

bool behaviour_key_is_for_clients(enum behaviour_key key)
{
    return (keys[key].flags & CLIENT) != 0;
}

/* The field of a rate, or NULL. */
static struct rate_plan *plan_of(struct behaviour *b, enum behaviour_key key)
{
    if (key == BEHAVIOUR_RATE) {
        return &b->rate;
    }
    if (key == BEHAVIOUR_RATE_PER_CLIENT) {
        return &b->rate_per_client;
    }
    if (key == BEHAVIOUR_CONNECTION_RATE_PER_CLIENT) {
        return &b->connection_rate_per_client;
    }
    return key == BEHAVIOUR_RECIPIENT_RATE_PER_CLIENT ? &b->recipient_rate_per_client : NULL;
}

/* The field of a reply, or NULL. */
static char *reply_of(struct behaviour *b, enum behaviour_key key)
{
    if (key == BEHAVIOUR_RATE_REPLY) {
        return b->rate_reply;
    }
    if (key == BEHAVIOUR_CONNECTION_REPLY) {
        return b->connection_reply;
    }
    if (key == BEHAVIOUR_MESSAGES_REPLY) {
        return b->messages_reply;
    }
    if (key == BEHAVIOUR_RECIPIENT_REPLY) {
        return b->recipient_reply;
    }
    return key == BEHAVIOUR_GREYLIST_REPLY ? b->greylist_reply : NULL;
}

/* The first item of a list replaces what another behaviour or the default brought along. */
static void begin_list(struct behaviour *b, enum behaviour_key key)
{
    if (key == BEHAVIOUR_REJECT) {
        b->rejection_count = 0;
    } else if (key == BEHAVIOUR_FAULT) {
        memset(b->fault_shares, 0, sizeof(b->fault_shares));
    } else if (key == BEHAVIOUR_EXTENSIONS) {
        b->extensions = 0;
    } else if (plan_of(b, key) != NULL) {
        plan_of(b, key)->count = 0;
    }
}

static int read_value(struct behaviour *b, enum behaviour_key key, const char *text, char *why)
{
    int64_t value = 0;
    int err;
    switch (key) {
    case BEHAVIOUR_DELAY_BANNER:
    case BEHAVIOUR_DELAY_EHLO:
    case BEHAVIOUR_DELAY_MAIL:
    case BEHAVIOUR_DELAY_RCPT:
    case BEHAVIOUR_DELAY_DATA:
    case BEHAVIOUR_DELAY_DOT:
        return read_delay(text, &b->delays[key - BEHAVIOUR_DELAY_BANNER], why);
    case BEHAVIOUR_ROUND_TRIP:
        return read_delay(text, &b->round_trip, why);
    case BEHAVIOUR_TARPIT:
        return read_msec(text, &b->tarpit, why);
    case BEHAVIOUR_CONNECTIONS:
        return read_limit(text, "connections (0: no limit)", &b->connections, why);
    case BEHAVIOUR_CONNECTIONS_PER_CLIENT:
        return read_limit(text, "connections (0: no limit)", &b->connections_per_client, why);
    case BEHAVIOUR_MESSAGES_PER_CONNECTION:
        return read_limit(text, "messages (0: no limit)", &b->messages_per_connection, why);
    case BEHAVIOUR_RECIPIENTS_PER_MESSAGE:
        return read_limit(text, "recipients (0: no limit)", &b->recipients_per_message, why);
    case BEHAVIOUR_RATE:
        return rate_plan_add(&b->rate, text, RATE_BURST_SPAN, why);
    case BEHAVIOUR_RATE_PER_CLIENT:
    case BEHAVIOUR_CONNECTION_RATE_PER_CLIENT:
    case BEHAVIOUR_RECIPIENT_RATE_PER_CLIENT:
        return rate_plan_add(plan_of(b, key), text, RATE_BURST_TENTH, why);
    case BEHAVIOUR_RATE_STAGE:
        return read_stage(text, &b->rate_stage, why);
    case BEHAVIOUR_RATE_REPLY:
    case BEHAVIOUR_CONNECTION_REPLY:
    case BEHAVIOUR_MESSAGES_REPLY:
    case BEHAVIOUR_RECIPIENT_REPLY:
    case BEHAVIOUR_GREYLIST_REPLY:
        return read_reply(text, reply_of(b, key), why);
    case BEHAVIOUR_REJECT:
        return read_rejection(b, text, why);
    case BEHAVIOUR_GREYLIST:
        err = read_number(text, GREYLIST_MAX_SEC, "seconds", &value, why);
        b->greylist = err == 0 ? value * USEC_PER_SEC : b->greylist;
        return err;
    case BEHAVIOUR_FAULT:
        return read_fault(b, text, why);
    case BEHAVIOUR_SILENT:
        return read_yes(text, &b->is_silent, why);
    case BEHAVIOUR_EXTENSIONS:
        return read_extensions(&b->extensions, text, why);
    case BEHAVIOUR_HOLD:
        return read_yes(text, &b->does_hold, why);
    case BEHAVIOUR_KEY_COUNT:
        break;
    }
    assert(false);
    return ERR_SYNTAX;
}

int behaviour_read(struct behaviour *b, enum behaviour_key key, const char *text,
                   char ret_why[BEHAVIOUR_WHY_BYTES])
{
    if (!behaviour_has(b, key)) {
        begin_list(b, key);
    }
    int err = read_value(b, key, text, ret_why);
    b->set |= 1U << key; /* also after a mistake: the next item must not begin the list anew */
    return err;
}

static int copy_rejections(struct behaviour *into, const struct behaviour *from)
{
    struct behaviour_rejection *copy = NULL;
    size_t bytes = from->rejection_count * sizeof(*copy);
    if (bytes > 0) {
        copy = malloc(bytes);
        if (copy == NULL) {
            return -ENOMEM;
        }
        memcpy(copy, from->rejections, bytes);
    }
    free(into->rejections);
    into->rejections = copy;
    into->rejection_count = from->rejection_count;
    return 0;
}

int behaviour_overlay(struct behaviour *into, const struct behaviour *from)
{
    if (behaviour_has(from, BEHAVIOUR_REJECT)) {
        int err = copy_rejections(into, from);
        if (err != 0) {
            return err;
        }
    }
    for (size_t i = 0; i < BEHAVIOUR_KEY_COUNT; i++) {
        if (behaviour_has(from, (enum behaviour_key)i)) {
            memcpy((char *)into + keys[i].at, (const char *)from + keys[i].at, keys[i].size_bytes);
        }
    }
    into->set |= from->set;
    return 0;
}
