/* Runs scheduler scripts (tests/vectors/README.md) against the core and compares what it does with
 * what they expect. */
#include "base/buf.h"
#include "bench/sim/sluice_sim.h"
#include "sched/sched.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_LIMIT       (1 << 20)
#define PROCESS_LIMIT    4096 /* more than any script has in flight */
#define REPORTED_AT_MOST 20   /* differences printed of one file */

struct message {
    char *name;
    char *text; /* the addresses, cut into strings */
    struct sched_recipient *recipients;
    uint32_t count, read;
    bool is_deferred;
};

struct delivery {
    struct sched_entry *entry;
    struct message *message;
};

/* One script. */
struct script {
    struct sched_config config;
    struct sched *sched; /* NULL until the first command */
    usec_t now;
    struct message **messages; /* id = position + 1 */
    size_t message_count;
    struct delivery *deliveries; /* number = position + 1 */
    size_t delivery_count;
    struct buf output;   /* what the last command printed */
    struct buf deferred; /* lines of that output: about messages that were deferred, and that are
                          * done; unsorted */
    struct buf done;
    struct buf expected;
};

struct run {
    const char *file;
    unsigned long line, command_line;
    char title[64], command[80];
    unsigned passed, failed, differences;
    bool is_failed; /* the current script */
    struct script script;
};

static void *allocate_script_memory(void *ctx, size_t size)
{
    return malloc(size);
}

static void release_script_memory(void *ctx, void *obj)
{
    free(obj);
}

static void release_script_hosts(void *ctx, void *hosts)
{
}

static void *must(void *memory)
{
    if (memory == NULL) {
        (void)fputs("sluice-sim: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

static void bad(const struct run *r, const char *what)
{
    (void)fprintf(stderr, "%s:%lu: %s\n", r->file, r->line, what);
    exit(2);
}

/* --- parameters ------------------------------------------------------------------------------- */

struct parameter {
    const char *name;
    size_t offset;
    bool is_seconds;
};

#define NUMBER(field)                                                                              \
    {                                                                                              \
#field, offsetof(struct sched_config, field), false                                        \
    }
#define SECONDS(field)                                                                             \
    {                                                                                              \
#field, offsetof(struct sched_config, field), true                                         \
    }

static const struct parameter parameters[] = {
    NUMBER(initial_destination_concurrency),
    NUMBER(destination_concurrency_limit),
    NUMBER(destination_concurrency_failed_cohort_limit),
    NUMBER(destination_recipient_limit),
    NUMBER(delivery_slot_cost),
    NUMBER(delivery_slot_loan),
    NUMBER(delivery_slot_discount),
    NUMBER(minimum_delivery_slots),
    NUMBER(recipient_limit),
    NUMBER(extra_recipient_limit),
    NUMBER(recipient_refill_limit),
    NUMBER(message_recipient_limit),
    NUMBER(message_recipient_minimum),
    SECONDS(destination_rate_delay),
    SECONDS(transport_rate_delay),
    SECONDS(recipient_refill_delay),
    SECONDS(minimal_backoff_time),
};

static bool set_config_number(struct sched_config *c, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        const struct parameter *p = &parameters[i];
        if (strcmp(p->name, name) != 0) {
            continue;
        }
        char *end;
        long number = strtol(value, &end, 10);
        if (*end != '\0') {
            return false;
        }
        char *field = (char *)c + p->offset;
        if (p->is_seconds) {
            usec_t time = number * USEC_PER_SEC;
            memcpy(field, &time, sizeof(time));
        } else {
            int whole = (int)number;
            memcpy(field, &whole, sizeof(whole));
        }
        return true;
    }
    return false;
}

/* The rule may come behind the feedback that it does not know, so that is refused when both are
 * known. */
static void check_rule(const struct run *r)
{
    const struct sched_config *c = &r->script.config;
    if (c->concurrency_feedback_rule == SCHED_RULE_POSTFIX3 &&
        (c->destination_concurrency_positive_feedback.kind == SCHED_FEEDBACK_SQRT ||
         c->destination_concurrency_negative_feedback.kind == SCHED_FEEDBACK_SQRT)) {
        bad(r, "bad feedback: sqrt_concurrency needs concurrency_feedback_rule readme");
    }
}

static void set_scheduler(struct run *r, const char *value)
{
    static const char *const names[] = {"preemptive", "fifo", "round_robin"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], value) == 0) {
            r->script.config.scheduler = (enum sched_scheduler)i;
            return;
        }
    }
    bad(r, "unknown scheduler");
}

static void set_parameter(struct run *r, const char *name, const char *value)
{
    struct sched_config *c = &r->script.config;
    int err = 0;
    if (strcmp(name, "scheduler") == 0) {
        set_scheduler(r, value);
    } else if (strcmp(name, "concurrency_feedback_rule") == 0) {
        bool is_postfix3 = strcmp(value, "postfix3") == 0;
        if (!is_postfix3 && strcmp(value, "readme") != 0) {
            bad(r, "unknown concurrency_feedback_rule");
        }
        c->concurrency_feedback_rule = is_postfix3 ? SCHED_RULE_POSTFIX3 : SCHED_RULE_README;
    } else if (strcmp(name, "destination_concurrency_positive_feedback") == 0) {
        err = sched_feedback_parse(value, SCHED_RULE_README,
                                   &c->destination_concurrency_positive_feedback);
    } else if (strcmp(name, "destination_concurrency_negative_feedback") == 0) {
        err = sched_feedback_parse(value, SCHED_RULE_README,
                                   &c->destination_concurrency_negative_feedback);
    } else if (!set_config_number(c, name, value)) {
        bad(r, "unknown parameter or bad value");
    }
    if (err != 0) {
        bad(r, "bad feedback");
    }
}

/* --- what the core does ----------------------------------------------------------------------- */

static void append_addresses(struct buf *out, const struct message *m, const uint32_t *indexes,
                             uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_append_char(out, ',');
        }
        buf_append_slice(out, m->recipients[indexes[i]].address);
    }
}

/* The core's next recipients of a message, as a spool would give them: stopping at the limit leaves
 * open whether there are more. */
static struct sched_message next_script_part(struct message *m, uint64_t id, uint32_t limit)
{
    uint32_t left = m->count - m->read;
    uint32_t count = left < limit ? left : limit;
    struct sched_message part = {
        .id = id,
        .handle = m,
        .recipients = m->recipients + m->read,
        .recipient_count = count,
        .unread_count = left - count,
        .more = count == limit,
    };
    m->read += count;
    return part;
}

static void deliver_scripted(struct script *s, const struct sched_action *a)
{
    struct message *m = a->handle;
    s->deliveries = must(realloc(s->deliveries, (s->delivery_count + 1) * sizeof(struct delivery)));
    s->deliveries[s->delivery_count++] = (struct delivery){a->entry, m};
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(a->entry, &count);
    buf_printf(&s->output, "> #%zu %s " SLICE_FMT " ", s->delivery_count, m->name,
               SLICE_ARG(sched_destination_name(a->destination)));
    append_addresses(&s->output, m, indexes, count);
    buf_append_char(&s->output, '\n');
}

static void read_more_of_script(struct script *s, const struct sched_action *a)
{
    struct sched_message part = next_script_part(a->handle, a->message_id, a->wanted);
    if (sched_submit_more(s->sched, &part, s->now) != 0) {
        must(NULL);
    }
}

static void act_script(struct script *s, const struct sched_action *a)
{
    struct message *m = a->handle;
    switch (a->kind) {
    case SCHED_DEFER:
        for (uint32_t i = 0; i < a->index_count; i++) {
            buf_printf(&s->deferred, "> deferred %s " SLICE_FMT "\n", m->name,
                       SLICE_ARG(m->recipients[a->indexes[i]].address));
        }
        m->is_deferred = true;
        break;
    case SCHED_READ:
        read_more_of_script(s, a);
        break;
    case SCHED_FINISHED:
        buf_printf(&s->done, "> done %s %s\n", m->name, m->is_deferred ? "deferred" : "delivered");
        break;
    case SCHED_DELIVER:
        deliver_scripted(s, a);
        break;
    case SCHED_CLOSE:
        break;
    case SCHED_BOUNCE:
    case SCHED_RESOLVE:
    case SCHED_EXHAUSTED:
    case SCHED_ASK:
    case SCHED_RETURN:
    case SCHED_LANE_GONE: /* no lane is limited */
    case SCHED_OWNER_ASKS:
    case SCHED_OWNER_RETURNS: /* nor is any owner */
    case SCHED_NONE:
    default:
        assert(false);
    }
}

static void settle_script(struct script *s)
{
    struct sched_action a;
    while (sched_pull_pending(s->sched, &a, s->now)) {
        act_script(s, &a);
    }
}

/* --- commands --------------------------------------------------------------------------------- */

static void start_script(struct script *s)
{
    if (s->sched == NULL) {
        const struct sched_host host = {allocate_script_memory, release_script_memory,
                                        release_script_memory, NULL};
        s->sched = must(sched_new(&s->config, &host, release_script_hosts, 0));
    }
}

static void run_message(struct run *r, char *arguments)
{
    struct script *s = &r->script;
    struct message *m = must(calloc(1, sizeof(*m)));
    m->text = must(strdup(arguments));
    char *position = m->text;
    m->name = strtok_r(NULL, " ", &position);
    for (char *word; (word = strtok_r(NULL, " ", &position)) != NULL;) {
        const char *at = strrchr(word, '@');
        if (at == NULL) {
            bad(r, "address without @");
        }
        m->recipients =
            must(realloc(m->recipients, (m->count + 1) * sizeof(struct sched_recipient)));
        m->recipients[m->count] = (struct sched_recipient){
            .address = slice_of(word), .nexthop = slice_of(at + 1), .index = m->count};
        m->count++;
    }
    s->messages = must(realloc(s->messages, (s->message_count + 1) * sizeof(struct message *)));
    s->messages[s->message_count++] = m;
    struct sched_message part = next_script_part(m, s->message_count, sched_read_limit(s->sched));
    if (sched_submit(s->sched, &part, s->now) != 0) {
        must(NULL);
    }
}

static void run_select(struct script *s)
{
    struct sched_action a;
    for (;;) {
        if (!sched_pull(s->sched, &a, s->now)) {
            buf_append_str(&s->output, "> none\n");
            return;
        }
        act_script(s, &a);
        if (a.kind == SCHED_DELIVER) {
            return;
        }
    }
}

static void run_report(struct run *r, const char *arguments)
{
    struct script *s = &r->script;
    char *end;
    unsigned long number = strtoul(arguments + (*arguments == '#'), &end, 10);
    if (number < 1 || number > s->delivery_count || *end != ' ') {
        bad(r, "report of an unknown delivery");
    }
    struct delivery *d = &s->deliveries[number - 1];
    if (d->entry == NULL) {
        bad(r, "second report of a delivery");
    }
    bool is_failure = strcmp(end + 1, "fail") == 0;
    bool is_deferral = is_failure || strcmp(end + 1, "defer") == 0;
    const struct sched_reason reason = {"4.4.1", "connection refused"};
    struct sched_outcome outcome = {
        .entry = d->entry,
        .feedback = is_failure ? SCHED_NEGATIVE : SCHED_POSITIVE,
        .has_deferred = is_deferral,
        .reason = &reason,
    };
    d->message->is_deferred = d->message->is_deferred || is_deferral;
    d->entry = NULL;
    sched_report(s->sched, &outcome, s->now);
}

static void run_advance(struct script *s, const char *arguments)
{
    usec_t target = s->now + atol(arguments) * USEC_PER_SEC;
    for (usec_t at; (at = sched_wake_at(s->sched)) <= target;) {
        s->now = at;
        settle_script(s);
    }
    s->now = target;
    settle_script(s);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Append the lines of one buffer to another, in order. */
static void append_sorted(struct buf *to, struct buf *from)
{
    size_t count = 0;
    char **lines = NULL;
    buf_append_char(from, '\0');
    char *position = from->data;
    for (char *line; (line = strtok_r(NULL, "\n", &position)) != NULL; count++) {
        lines = must(realloc(lines, (count + 1) * sizeof(char *)));
        lines[count] = line;
    }
    if (count > 0) {
        qsort(lines, count, sizeof(char *), compare_lines);
    }
    for (size_t i = 0; i < count; i++) {
        buf_append_str(to, lines[i]);
        buf_append_char(to, '\n');
    }
    free(lines);
    buf_clear(from);
}

static void run_queues(struct script *s)
{
    struct buf lines;
    buf_init(&lines, 0);
    struct sched_destination_view v;
    uint64_t cursor = 0;
    while (sched_view_destinations(s->sched, &cursor, &v)) {
        buf_printf(&lines, "> " SLICE_FMT " window=", SLICE_ARG(v.name));
        if (v.state == SCHED_DESTINATION_DEAD || v.state == SCHED_DESTINATION_SUSPENDED) {
            buf_append_str(&lines, v.state == SCHED_DESTINATION_DEAD ? "dead" : "suspended");
        } else {
            buf_printf(&lines, "%d", v.window);
        }
        buf_printf(&lines, " busy=%d todo=%d\n", v.busy, v.todo);
    }
    if (lines.len == 0) {
        buf_append_str(&lines, "> none\n");
    }
    append_sorted(&s->output, &lines);
    buf_fini(&lines);
}

static void run_command(struct run *r, char *line)
{
    struct script *s = &r->script;
    char *arguments = strchr(line, ' ');
    if (arguments != NULL) {
        *arguments++ = '\0';
    } else {
        arguments = line + strlen(line);
    }
    if (strcmp(line, "global") == 0 || strcmp(line, "transport") == 0) {
        char *value = strchr(arguments, ' ');
        if (value == NULL || s->sched != NULL) {
            bad(r, "misplaced parameter");
        }
        *value++ = '\0';
        set_parameter(r, arguments, value);
        return;
    }
    check_rule(r);
    start_script(s);
    if (strcmp(line, "message") == 0) {
        run_message(r, arguments);
    } else if (strcmp(line, "select") == 0) {
        run_select(s);
    } else if (strcmp(line, "report") == 0) {
        run_report(r, arguments);
    } else if (strcmp(line, "advance") == 0) {
        run_advance(s, arguments);
    } else if (strcmp(line, "queues") == 0) {
        run_queues(s);
    } else {
        bad(r, "unknown command");
    }
    settle_script(s);
    append_sorted(&s->output, &s->deferred);
    append_sorted(&s->output, &s->done);
    struct sched_fault fault;
    if (sched_check(s->sched, &fault) != 0) {
        buf_printf(&s->output, "! broken: %s\n", fault.text);
    }
}

/* --- scripts and files ------------------------------------------------------------------------ */

/* The last command and its expected lines are complete. After the first difference the states have
 * parted, so the rest of the script says nothing. */
static void compare_run(struct run *r)
{
    struct script *s = &r->script;
    if (!slice_eq(buf_slice(&s->output), buf_slice(&s->expected)) && !r->is_failed) {
        r->is_failed = true;
        if (r->differences++ < REPORTED_AT_MOST) {
            (void)printf("%s:%lu: %s: %s\n--- expected\n" SLICE_FMT "+++ got\n" SLICE_FMT, r->file,
                         r->command_line, r->title, r->command, SLICE_ARG(buf_slice(&s->expected)),
                         SLICE_ARG(buf_slice(&s->output)));
        }
    }
    buf_clear(&s->output);
    buf_clear(&s->expected);
}

static void report_the_rest(struct script *s)
{
    for (size_t i = 0; i < s->delivery_count; i++) {
        if (s->deliveries[i].entry != NULL) {
            struct sched_outcome outcome = {.entry = s->deliveries[i].entry};
            sched_report(s->sched, &outcome, s->now);
            settle_script(s);
        }
    }
}

static void end_script(struct run *r)
{
    struct script *s = &r->script;
    compare_run(r);
    if (s->sched != NULL) {
        report_the_rest(s);
        sched_free(s->sched);
    }
    for (size_t i = 0; i < s->message_count; i++) {
        free(s->messages[i]->text);
        free(s->messages[i]->recipients);
        free(s->messages[i]);
    }
    free(s->messages);
    free(s->deliveries);
    buf_fini(&s->output);
    buf_fini(&s->deferred);
    buf_fini(&s->done);
    buf_fini(&s->expected);
    if (r->title[0] != '\0') {
        r->failed += r->is_failed;
        r->passed += !r->is_failed;
    }
    r->title[0] = '\0';
    r->is_failed = false;
}

static void begin_script(struct run *r, const char *title)
{
    struct script *s = &r->script;
    *s = (struct script){0};
    sched_config_defaults(&s->config);
    s->config.process_limit = PROCESS_LIMIT;
    s->config.unasked_selection = true;
    (void)snprintf(r->title, sizeof(r->title), "%s", title);
}

static void run_line(struct run *r, char *line)
{
    struct script *s = &r->script;
    if (strncmp(line, "=== ", 4) == 0) {
        end_script(r);
        begin_script(r, line + 4);
    } else if (strncmp(line, "> ", 2) == 0) {
        buf_append_str(&s->expected, line);
        buf_append_char(&s->expected, '\n');
    } else if (line[0] != '\0' && line[0] != '#') {
        compare_run(r);
        if (!r->is_failed) {
            r->command_line = r->line;
            (void)snprintf(r->command, sizeof(r->command), "%s", line);
            run_command(r, line);
        }
    }
}

static bool run_file(struct run *r, const char *name)
{
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        perror(name);
        return false;
    }
    char *line = must(malloc(LINE_LIMIT));
    r->file = name;
    r->line = 0;
    r->differences = 0;
    begin_script(r, "");
    while (fgets(line, LINE_LIMIT, file) != NULL) {
        r->line++;
        line[strcspn(line, "\r\n")] = '\0';
        run_line(r, line);
    }
    end_script(r);
    free(line);
    bool is_complete = ferror(file) == 0;
    (void)fclose(file); /* only read */
    return is_complete;
}

int sim_script(int argc, char **argv)
{
    struct run r = {0};
    bool is_complete = true;
    for (int i = 0; i < argc; i++) {
        is_complete = run_file(&r, argv[i]) && is_complete;
    }
    (void)printf("%u passed, %u failed\n", r.passed, r.failed);
    return r.failed == 0 && r.passed > 0 && is_complete ? 0 : 1;
}
