#include "tests/unit/sched_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct sched_outcome bed_done = {.feedback = SCHED_POSITIVE, .connection_open = true};
const struct sched_outcome bed_gone = {.feedback = SCHED_POSITIVE};

static void *allocate(void *ctx, size_t size)
{
    struct bed *b = ctx;
    if (b->fail_after == 0) {
        return NULL;
    }
    b->fail_after -= b->fail_after > 0;
    b->objects++;
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    struct bed *b = ctx;
    b->objects--;
    free(obj);
}

static void release_hosts(void *ctx, void *hosts)
{
    struct bed *b = ctx;
    assert_non_null(hosts);
    b->hosts--;
}

static void append(char *text, const char *more, const char *separator)
{
    size_t len = strlen(text);
    (void)snprintf(text + len, BED_TEXT - len, "%s%s", len > 0 ? separator : "", more);
}

static void check(struct bed *b)
{
    struct sched_fault fault;
    if (sched_check(b->sched, &fault) != 0) {
        fail_msg("%s", fault.text);
    }
}

void bed_init(struct bed *b)
{
    memset(b, 0, sizeof(*b));
    sched_config_defaults(&b->config);
    b->config.concurrency_feedback_rule = SCHED_RULE_POSTFIX3;
    b->config.process_limit = 1000;
    b->fail_after = -1;
}

void bed_fix_window(struct bed *b, int connections)
{
    b->config.initial_destination_concurrency = connections;
    b->config.destination_concurrency_limit = connections;
}

void bed_init_essay(struct bed *b, int pipeline_depth)
{
    bed_init(b);
    bed_fix_window(b, 4);
    b->config.must_resolve = true;
    b->config.destination_recipient_limit = 2;
    b->config.delivery_slot_cost = 0;
    b->config.pipeline_depth = pipeline_depth;
    b->config.minimal_backoff_time = 100 * USEC_PER_SEC;
    b->config.hash_seed = 7;
}

void bed_open(struct bed *b)
{
    const struct sched_host host = {allocate, release, release, b};
    b->sched = sched_new(&b->config, &host, release_hosts, 0);
    assert_non_null(b->sched);
}

static struct bed_message *message_of(struct bed *b, char letter)
{
    assert_in_range(letter, 'A', 'Z');
    return &b->messages[letter - 'A'];
}

static struct sched_message next_part(struct bed *b, char letter, uint32_t limit)
{
    struct bed_message *m = message_of(b, letter);
    uint32_t left = m->count - m->read;
    uint32_t count = left < limit ? left : limit;
    struct sched_message part = {
        .id = (uint64_t)letter,
        .handle = m,
        .recipients = m->recipients + m->read,
        .recipient_count = count,
        .unread_count = left - count,
        .more = count == limit,
    };
    m->read += count;
    return part;
}

static void log_recipients(struct bed *b, const struct sched_action *a, const char *verb)
{
    const struct bed_message *m = a->handle;
    char line[BED_TEXT];
    (void)snprintf(line, sizeof(line), "%s %c", verb, (char)a->message_id);
    for (uint32_t i = 0; i < a->index_count; i++) {
        struct slice address = m->recipients[a->indexes[i]].address;
        size_t len = strlen(line);
        (void)snprintf(line + len, sizeof(line) - len, " " SLICE_FMT, SLICE_ARG(address));
    }
    size_t len = strlen(line);
    (void)snprintf(line + len, sizeof(line) - len, " (%s %s)", a->reason->status, a->reason->text);
    append(b->log, line, "; ");
}

/* The first letter of the word of that number in the hosts, which are text. */
static char server_of(const struct sched_action *a)
{
    const char *word = a->hosts;
    for (uint32_t i = 0; i < a->server; i++) {
        word = strchr(word, ' ') + 1;
    }
    return *word;
}

static void deliver(struct bed *b, const struct sched_action *a)
{
    assert_true(b->delivered + 1 < BED_DELIVERIES);
    if (a->connection_is_new) {
        bool is_named = false;
        for (unsigned i = 0; i < b->named_count; i++) {
            is_named = is_named || b->named[i] == a->hosts;
        }
        b->server_at[a->connection] = is_named ? server_of(a) : '-';
    }
    b->deliveries[++b->delivered] = (struct bed_delivery){
        .entry = a->entry,
        .letter = (char)a->message_id,
        .connection = a->connection,
        .is_new = a->connection_is_new,
        .is_last_server = a->is_last_server,
        .server = b->server_at[a->connection],
        .server_notes = a->server_notes,
        .hosts = a->hosts,
    };
    struct slice name = sched_destination_name(a->destination);
    (void)snprintf(b->text, BED_TEXT, "%c " SLICE_FMT, (char)a->message_id, SLICE_ARG(name));
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(a->entry, &count);
    const struct bed_message *m = sched_entry_handle(a->entry);
    assert_int_equal(sched_entry_message_id(a->entry), a->message_id);
    for (uint32_t i = 0; i < count; i++) {
        struct slice address = m->recipients[indexes[i]].address;
        size_t len = strlen(b->text);
        (void)snprintf(b->text + len, BED_TEXT - len, "%c" SLICE_FMT, i == 0 ? ' ' : ',',
                       SLICE_ARG(address));
    }
}

static void act(struct bed *b, const struct sched_action *a)
{
    char line[128];
    struct sched_message part;
    struct slice name;
    switch (a->kind) {
    case SCHED_DELIVER:
        deliver(b, a);
        break;
    case SCHED_RESOLVE:
        name = sched_destination_name(a->destination);
        (void)snprintf(line, sizeof(line), "resolve " SLICE_FMT, SLICE_ARG(name));
        append(b->log, line, "; ");
        assert_true(b->asked_count < 16);
        b->asked[b->asked_count++] = a->destination;
        break;
    case SCHED_CLOSE:
        (void)snprintf(line, sizeof(line), "close %u", a->connection);
        b->end_is_awaited = a->end_is_awaited;
        append(b->log, line, "; ");
        break;
    case SCHED_DEFER:
    case SCHED_BOUNCE:
        log_recipients(b, a, a->kind == SCHED_DEFER ? "defer" : "bounce");
        break;
    case SCHED_READ:
        part = next_part(b, (char)a->message_id, a->wanted);
        assert_int_equal(sched_submit_more(b->sched, &part, b->now), 0);
        break;
    case SCHED_FINISHED:
        (void)snprintf(line, sizeof(line), "finished %c", (char)a->message_id);
        append(b->log, line, "; ");
        message_of(b, (char)a->message_id)->is_active = false;
        break;
    case SCHED_EXHAUSTED:
        (void)snprintf(line, sizeof(line), "exhausted %c", (char)a->message_id);
        append(b->log, line, "; ");
        assert_true(b->delivered + 1 < BED_DELIVERIES);
        b->deliveries[++b->delivered] =
            (struct bed_delivery){.entry = a->entry, .letter = (char)a->message_id};
        break;
    case SCHED_ASK:
    case SCHED_RETURN:
    case SCHED_LANE_GONE: /* no lane is limited */
    case SCHED_OWNER_ASKS:
    case SCHED_OWNER_RETURNS: /* nor is any owner */
    case SCHED_NONE:
    default:
        fail();
    }
    check(b);
}

static void settle(struct bed *b)
{
    struct sched_action a;
    check(b);
    while (sched_pull_pending(b->sched, &a, b->now)) {
        act(b, &a);
    }
    check(b);
}

void bed_close(struct bed *b)
{
    b->fail_after = -1;
    for (unsigned i = 1; i <= b->delivered; i++) {
        if (b->deliveries[i].entry != NULL) {
            bed_report(b, i, BED_NEUTRAL);
        }
    }
    sched_free(b->sched);
    for (int i = 0; i < BED_LETTERS; i++) {
        free(b->messages[i].text);
        free(b->messages[i].recipients);
    }
    assert_int_equal(b->objects, 0);
    assert_int_equal(b->hosts, 0);
}

bool bed_try_message(struct bed *b, char letter, const char *addresses)
{
    struct bed_message *m = message_of(b, letter);
    assert_false(m->is_active);
    free(m->text);
    free(m->recipients);
    *m = (struct bed_message){.text = strdup(addresses)};
    char *position = m->text;
    for (char *word; (word = strtok_r(NULL, " ", &position)) != NULL; m->count++) {
        m->recipients = realloc(m->recipients, (m->count + 1) * sizeof(struct sched_recipient));
        m->recipients[m->count] =
            (struct sched_recipient){slice_of(word), slice_of(strrchr(word, '@') + 1), m->count, 0};
    }
    struct sched_message part = next_part(b, letter, sched_read_limit(b->sched));
    int err = sched_submit(b->sched, &part, b->now);
    m->is_active = err == 0;
    settle(b);
    return err == 0;
}

void bed_message(struct bed *b, char letter, const char *addresses)
{
    assert_true(bed_try_message(b, letter, addresses));
}

void bed_spread(struct bed *b, char letter, int count)
{
    char *addresses = calloc((size_t)count, 32);
    size_t len = 0;
    for (int i = 0; i < count; i++) {
        len += (size_t)snprintf(addresses + len, 32, "u@%c%05d ", letter - 'A' + 'a', i);
    }
    bed_message(b, letter, addresses);
    free(addresses);
}

const char *bed_select(struct bed *b)
{
    struct sched_action a;
    (void)snprintf(b->text, BED_TEXT, "none");
    while (sched_pull(b->sched, &a, b->now)) {
        act(b, &a);
        if (a.kind == SCHED_DELIVER) {
            break;
        }
    }
    check(b);
    return b->text;
}

static void report(struct bed *b, unsigned number, enum bed_outcome outcome, bool is_open)
{
    static const struct sched_reason reason = {"4.4.1", "no answer"};
    static const enum sched_feedback_sign signs[] = {SCHED_POSITIVE, SCHED_POSITIVE, SCHED_NEGATIVE,
                                                     SCHED_NEUTRAL};
    assert_non_null(b->deliveries[number].entry);
    struct sched_outcome o = {
        .entry = b->deliveries[number].entry,
        .feedback = signs[outcome],
        .has_deferred = outcome == BED_DEFER || outcome == BED_FAIL,
        .connection_open = is_open,
        .reason = &reason,
    };
    b->deliveries[number].entry = NULL;
    sched_report(b->sched, &o, b->now);
    settle(b);
}

void bed_report(struct bed *b, unsigned number, enum bed_outcome outcome)
{
    report(b, number, outcome, false);
}

void bed_report_open(struct bed *b, unsigned number)
{
    report(b, number, BED_OK, true);
}

void bed_resolved(struct bed *b, unsigned asked, enum sched_resolution resolution, void *hosts,
                  usec_t expires)
{
    static const struct sched_reason soft = {"4.4.3", "name server timeout"};
    static const struct sched_reason hard = {"5.4.4", "no such domain"};
    assert_true(asked < b->asked_count && b->asked[asked] != NULL);
    struct sched_hosts_result r = {
        .destination = b->asked[asked],
        .resolution = resolution,
        .hosts = hosts,
        .expires = expires,
        .reason = resolution == SCHED_RESOLVE_HARD ? &hard : &soft,
    };
    b->asked[asked] = NULL;
    b->hosts += resolution == SCHED_RESOLVED;
    sched_resolved(b->sched, &r, b->now);
    settle(b);
}

void bed_servers(struct bed *b, unsigned asked, const char *servers)
{
    struct sched_server list[SCHED_SERVERS_MAX] = {0};
    uint32_t count = 0;
    for (const char *word = servers - 1; word != NULL; word = strchr(word + 1, ' ')) {
        list[count].key[0] = (uint8_t)word[1];
        list[count].key_len = 1;
        list[count++].preference = (uint16_t)strtoul(word + 2, NULL, 10);
    }
    assert_true(asked < b->asked_count && b->asked[asked] != NULL);
    struct sched_hosts_result r = {
        .destination = b->asked[asked],
        .resolution = SCHED_RESOLVED,
        .hosts = (void *)(uintptr_t)servers,
        .expires = USEC_NEVER,
        .servers = list,
        .server_count = count,
    };
    b->asked[asked] = NULL;
    b->hosts++;
    assert_true(b->named_count < 16);
    b->named[b->named_count++] = servers;
    sched_resolved(b->sched, &r, b->now);
    settle(b);
}

void bed_ask(struct bed *b, char letter, const char *addresses, const char *servers)
{
    bed_message(b, letter, addresses);
    bed_servers(b, b->asked_count - 1, servers);
}

void bed_outcome(struct bed *b, unsigned number, struct sched_outcome o)
{
    assert_non_null(b->deliveries[number].entry);
    o.entry = b->deliveries[number].entry;
    b->deliveries[number].entry = NULL;
    sched_report(b->sched, &o, b->now);
    check(b);
}

void bed_start(struct bed *b, const char *servers)
{
    bed_open(b);
    bed_ask(b, 'A', BED_TEN " " BED_TEN " " BED_TEN, servers);
    assert_string_equal(bed_log(b), "resolve aa");
}

void bed_report_depth(struct bed *b, unsigned number, uint16_t depth)
{
    struct sched_outcome o = bed_done;
    o.depth = depth;
    bed_outcome(b, number, o);
}

static const char *place(struct bed *b, char *text, size_t size)
{
    if (strcmp(bed_select(b), "none") == 0) {
        return "none";
    }
    const struct bed_delivery *d = &b->deliveries[b->delivered];
    (void)snprintf(text, size, "%c%u%s", d->server, d->connection, d->is_new ? "+" : "");
    return text;
}

const char *bed_place(struct bed *b)
{
    return place(b, b->text, BED_TEXT);
}

const char *bed_places(struct bed *b, unsigned count)
{
    char places[BED_TEXT] = "";
    char word[32];
    for (unsigned i = 0; i < count; i++) {
        append(places, place(b, word, sizeof(word)), " ");
    }
    memcpy(b->text, places, BED_TEXT);
    return b->text;
}

const char *bed_host(struct bed *b, char server)
{
    static const char *const states[] = {"unused", "closed", "idle", "active", "retry"};
    struct sched_host_view v;
    uint64_t cursor = 0;
    while (sched_view_hosts(b->sched, &cursor, &v)) {
        if (v.key_len == 1 && v.key[0] == server) {
            (void)snprintf(b->text, BED_TEXT, "%s %d %d %d", states[v.state], v.connections,
                           v.in_flight, v.failures);
            return b->text;
        }
    }
    return "-";
}

void bed_advance(struct bed *b, usec_t seconds)
{
    usec_t target = b->now + seconds * USEC_PER_SEC;
    for (usec_t at; (at = sched_wake_at(b->sched)) <= target;) {
        b->now = at > b->now ? at : b->now;
        settle(b);
        /* What waits for a selection would wake again and again. */
        if (sched_wake_at(b->sched) <= b->now) {
            break;
        }
    }
    b->now = target;
    settle(b);
}

const char *bed_log(struct bed *b)
{
    settle(b);
    memcpy(b->text, b->log, BED_TEXT);
    b->log[0] = '\0';
    return b->text;
}

struct sched_destination_view bed_view(const struct bed *b, const char *name)
{
    struct sched_destination_view v;
    assert_true(sched_view_destination(b->sched, slice_of(name), &v));
    return v;
}

const char *bed_queue(struct bed *b, const char *name)
{
    struct sched_destination_view v;
    if (!sched_view_destination(b->sched, slice_of(name), &v)) {
        return "-";
    }
    static const char *const states[] = {"", "dead", "suspended", "resolving"};
    char window[16];
    (void)snprintf(window, sizeof(window), "%d", v.window);
    (void)snprintf(b->text, BED_TEXT, "%s %d %d",
                   v.state == SCHED_DESTINATION_READY ? window : states[v.state], v.busy, v.todo);
    return b->text;
}

const char *bed_order(struct bed *b, unsigned count)
{
    char order[BED_TEXT] = "";
    char last = '\0';
    unsigned times = 0;
    for (unsigned i = 0; i <= count; i++) {
        char letter = '\0';
        if (i < count && strcmp(bed_select(b), "none") != 0) {
            letter = b->text[0];
            bed_report(b, b->delivered, BED_OK);
        }
        if (letter != last && times > 0) {
            char word[32];
            (void)snprintf(word, sizeof(word), times > 1 ? "%c x%u" : "%c", last, times);
            append(order, word, " ");
            times = 0;
        }
        last = letter;
        times++;
        if (letter == '\0') {
            break;
        }
    }
    memcpy(b->text, order, BED_TEXT);
    return b->text;
}
