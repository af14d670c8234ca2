/* Owns where `sluice classify --unknown` finds replies, and what it says of those that no rule knew.
 * Called by cli_classify.c; must not judge, that is the rules'.
 *
 * Each reply is judged by the rules of now, whatever it meant when it came: so a rule that was just
 * written takes its replies off the list. */

#include "base/span.h"
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/cli/csv_field.h"
#include "engine/reply/reply_set.h"
#include "engine/tally/reply_shapes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define SHAPES_MAX    10000
#define RECORD_MAX    (1 << 20) /* bytes of a row of CSV with its lines */
#define LIMIT_DEFAULT 100

/* The columns of a CSV file that are read, as account_row.h and PowerMTA name them. */
enum csv_column { CSV_TYPE, CSV_TIME, CSV_DIAG, CSV_COLUMN_COUNT };
#define CSV_NOWHERE SIZE_MAX

struct search {
    const struct cli *cli;
    const struct reply_set *set;
    struct reply_matcher *matcher;
    struct reply_shapes *shapes;
    struct slice provider;
    enum reply_stage stage;
    int64_t since;             /* wall, seconds; 0: of all time */
    uint64_t replies, unknown; /* that refuse */
    bool has_columns;          /* the line of names of a CSV file was seen: rows follow */
    size_t columns[CSV_COLUMN_COUNT]; /* places in a row, or CSV_NOWHERE */
};

/* --- one reply -------------------------------------------------------------------------------- */

static int judge(struct search *s, struct slice line, int64_t when)
{
    struct reply reply;
    struct reply_verdict v;
    reply_read(line, &reply);
    if (reply.code < REPLY_CODE_FIRST) {
        return 0; /* nobody refused, or nobody said anything */
    }
    reply.provider = s->provider;
    reply.stage = s->stage != REPLY_AT_NOTHING ? s->stage : reply.stage;
    reply_set_classify(s->set, s->matcher, &reply, &v);
    s->replies++;
    if (v.rule != REPLY_NO_RULE) {
        return 0;
    }
    s->unknown++;
    return reply_shapes_add(s->shapes, &reply, &v, when, line) == 0 ? 0 : EX_OSERR;
}

/* What a receiver said at an attempt; an Expiration only says again what the last attempt heard. */
static bool is_attempt(const json_t *event)
{
    static const char *const types[] = {"TransientFailure", "Bounce", "OOB"};
    const char *type = cli_member_text(event, "type");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(type, types[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int judge_event(struct search *s, const json_t *event)
{
    const json_t *response = json_object_get(event, "response");
    const char *content = cli_member_text(response, "content");
    int64_t when = cli_member_number(event, "timestamp");
    if (!is_attempt(event) || (s->since > 0 && when < s->since)) {
        return 0;
    }
    struct reply reply;
    reply_read(slice_of(content), &reply);
    long long code = cli_member_number(response, "code");
    if (reply.code != 0 || code < REPLY_CODE_FIRST) {
        return judge(s, slice_of(content), when);
    }
    char line[2048]; /* others' logs have the code beside the text */
    int len = snprintf(line, sizeof(line), "%lld %s", code, content);
    return judge(s, slice_of_printed(line, sizeof(line), len), when);
}

/* --- rows of CSV ------------------------------------------------------------------------------ */

/* Whether the line has the names of columns, which are noted then. */
static bool find_columns(struct search *s, struct slice line)
{
    static const char *const names[CSV_COLUMN_COUNT] = {"type", "timeLogged", "dsnDiag"};
    size_t places[CSV_COLUMN_COUNT] = {CSV_NOWHERE, CSV_NOWHERE, CSV_NOWHERE};
    struct buf field;
    buf_init(&field, 0);
    for (size_t at = 0; csv_field_next(&line, &field); at++) {
        for (size_t i = 0; i < CSV_COLUMN_COUNT; i++) {
            if (slice_eq(buf_slice(&field), slice_of(names[i]))) {
                places[i] = at;
            }
        }
    }
    buf_fini(&field);
    if (places[CSV_TYPE] == CSV_NOWHERE || places[CSV_DIAG] == CSV_NOWHERE) {
        return false;
    }
    memcpy(s->columns, places, sizeof(places));
    s->has_columns = true;
    return true;
}

/* "2026-11-22 10:16:27+0000"; 0: it is none */
static int64_t read_csv_time(struct slice text)
{
    char copy[40];
    struct tm tm = {.tm_year = 0};
    if (text.len >= sizeof(copy)) {
        return 0;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    const char *end = strptime(copy, "%Y-%m-%d %H:%M:%S%z", &tm);
    long offset = tm.tm_gmtoff; /* timegm clears it */
    return end == NULL || *end != '\0' ? 0 : (int64_t)timegm(&tm) - offset;
}

/* "smtp;550 5.1.1 TEXT": of an expiration and of what an order ended there is no code in front. */
static int judge_diagnosis(struct search *s, struct slice text, int64_t when)
{
    static const struct slice scheme = SLICE("smtp;");
    if (text.len < scheme.len || !slice_ieq(slice_to(text, scheme.len), scheme)) {
        return EX_OK;
    }
    text = slice_from(text, scheme.len);
    bool has_code = text.len > 3 && text.data[0] >= '4' && text.data[0] <= '5' &&
                    text.data[1] >= '0' && text.data[1] <= '9' && text.data[3] == ' ';
    if (!has_code) {
        return EX_OK;
    }
    /* "550 5.1.1 host NAME said: 550 5.1.1 TEXT" of our own files: as the event has it. */
    struct slice content = slice_trim(slice_from(text, 4));
    content = slice_trim(slice_from(content, reply_status_len(content)));
    bool is_told = content.len > 5 && memcmp(content.data, "host ", 5) == 0;
    return judge(s, is_told ? content : text, when);
}

static int judge_row(struct search *s, struct slice line)
{
    struct buf fields[CSV_COLUMN_COUNT], other;
    int code = EX_OK;
    buf_init(&other, 0);
    for (size_t i = 0; i < CSV_COLUMN_COUNT; i++) {
        buf_init(&fields[i], 0);
    }
    for (size_t at = 0; line.data != NULL; at++) {
        struct buf *field = &other;
        for (size_t i = 0; i < CSV_COLUMN_COUNT; i++) {
            field = s->columns[i] == at ? &fields[i] : field;
        }
        if (!csv_field_next(&line, field)) {
            break; /* a row that a crash cut off */
        }
        code = field->failed ? EX_OSERR : code;
    }
    struct slice type = buf_slice(&fields[CSV_TYPE]);
    int64_t when = read_csv_time(buf_slice(&fields[CSV_TIME]));
    bool is_attempt = type.len == 1 && memchr("tbo", type.data[0], 3) != NULL;
    if (code == EX_OK && is_attempt && (s->since == 0 || when >= s->since)) {
        code = judge_diagnosis(s, buf_slice(&fields[CSV_DIAG]), when);
    }
    for (size_t i = 0; i < CSV_COLUMN_COUNT; i++) {
        buf_fini(&fields[i]);
    }
    buf_fini(&other);
    return code;
}

/* A line of the event log, a reply, or one of a CSV file: behind its line of names all are rows. */
static int take_line(struct search *s, struct slice line)
{
    json_t *event = NULL;
    if (line.len == 0) {
        return 0;
    }
    if (line.data[0] == '{') {
        event = json_loadb(line.data, line.len, JSON_ALLOW_NUL, NULL);
    } else if (find_columns(s, line)) {
        return EX_OK;
    } else if (s->has_columns) {
        return judge_row(s, line);
    }
    int code = event != NULL ? judge_event(s, event) : judge(s, line, 0);
    json_decref(event);
    return code;
}

/* --- where they are --------------------------------------------------------------------------- */

static int read_lines(struct search *s, FILE *in)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int code = EX_OK;
    struct buf record;
    buf_init(&record, 0);
    while (code == EX_OK && (len = getline(&line, &room, in)) >= 0) {
        buf_append(&record, line, (size_t)len);
        bool goes_on = s->has_columns && record.len < RECORD_MAX &&
                       csv_field_is_open(buf_slice(&record));
        if (!goes_on) {
            code = record.failed ? EX_OSERR : take_line(s, slice_trim(buf_slice(&record)));
            buf_clear(&record);
        }
    }
    buf_fini(&record);
    free(line);
    return code;
}

static int read_file(struct search *s, const char *path)
{
    if (strcmp(path, "-") == 0) {
        return read_lines(s, s->cli->in);
    }
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        (void)fprintf(s->cli->err, "sluice classify: %s: %s\n", path, strerror(errno));
        return EX_NOINPUT;
    }
    int code = read_lines(s, in);
    (void)fclose(in); /* it was only read */
    return code;
}

/* One page of the daemon's event log; its last line tells where the next one begins. */
static int take_page(struct search *s, struct slice body, char cursor[static 64],
                     bool *ret_has_more)
{
    int code = EX_OK;
    cursor[0] = '\0';
    while (body.len > 0 && code == EX_OK) {
        size_t end = slice_find(body, '\n');
        struct slice line = slice_to(body, end);
        body = slice_from(body, end < body.len ? end + 1 : end);
        if (body.len > 0) {
            code = take_line(s, line);
            continue;
        }
        json_t *last = json_loadb(line.data, line.len, 0, NULL);
        (void)snprintf(cursor, 64, "%s", cli_member_text(last, "cursor"));
        *ret_has_more = json_is_true(json_object_get(last, "more"));
        json_decref(last);
    }
    if (code == EX_OK && cursor[0] == '\0') {
        (void)fputs("sluice classify: the answer is not complete\n", s->cli->err);
        code = EX_PROTOCOL;
    }
    return code;
}

static int ask_page(struct search *s, char cursor[static 64], bool *ret_has_more)
{
    struct api_answer a;
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/events", "");
    api_client_query(&url, "after", cursor);
    api_client_query(&url, "type", "TransientFailure,Bounce,OOB");
    api_client_query(&url, "limit", "10000");
    int code = url.failed ? EX_OSERR : EX_OK;
    if (code == EX_OK) {
        code = api_client_call(s->cli, "GET", url.data, NULL, &a);
        code = code != 0 ? api_client_complain(s->cli, "classify", &a, code)
                         : take_page(s, buf_slice(&a.body), cursor, ret_has_more);
        api_answer_fini(&a);
    }
    buf_fini(&url);
    return code;
}

static int ask_daemon(struct search *s)
{
    char cursor[64] = "start";
    bool has_more = true;
    int code = EX_OK;
    while (code == EX_OK && has_more) {
        has_more = false;
        code = ask_page(s, cursor, &has_more);
    }
    return code;
}

/* --- what is said ----------------------------------------------------------------------------- */

static const char *last_text(int64_t last, char ret[static 32])
{
    struct tm tm;
    time_t t = (time_t)last;
    if (last == 0 || localtime_r(&t, &tm) == NULL || strftime(ret, 32, "%F %T", &tm) == 0) {
        (void)snprintf(ret, 32, "-");
    }
    return ret;
}

static void say_shape(FILE *out, const struct reply_shape *shape)
{
    json_t *o = json_pack("{s:I, s:s, s:s, s:i, s:s}", "count", (json_int_t)shape->count, "class",
                          reply_class_text(shape->class), "why", shape->why, "code",
                          (int)shape->code, "status", shape->status);
    if (shape->last != 0) {
        (void)json_object_set_new(o, "last", json_integer(shape->last)); /* else it is missing */
    }
    (void)json_object_set_new(o, "shape", json_stringn(shape->text, shape->len)); /* or not UTF-8 */
    (void)json_object_set_new(o, "reply", json_string(shape->example));
    (void)json_dumpf(o, out, JSON_COMPACT); /* a full disk is told at the flush */
    (void)fputc('\n', out);
    json_decref(o);
}

static void add_shape(struct cli_table *table, const struct reply_shape *shape)
{
    char when[32];
    cli_table_number(table, (long long)shape->count);
    cli_table_text(table, reply_class_text(shape->class));
    cli_table_text(table, shape->why);
    cli_table_text(table, last_text(shape->last, when));
    cli_table_note(table, shape->example);
}

static void say_all(struct search *s, size_t limit)
{
    static const struct cli_column columns[] = {
        {"COUNT", true}, {"CLASS", false}, {"BY", false}, {"LAST", false}, {NULL, false}};
    struct cli_table table;
    size_t count;
    uint64_t replies, dropped = reply_shapes_dropped(s->shapes, &replies);
    const struct reply_shape *shapes = reply_shapes_list(s->shapes, &count);
    cli_table_init(&table, columns);
    for (size_t i = 0; i < count && i < limit; i++) {
        if (s->cli->is_json) {
            say_shape(s->cli->out, &shapes[i]);
        } else {
            add_shape(&table, &shapes[i]);
        }
    }
    cli_table_print(&table, s->cli->out);
    cli_table_fini(&table);
    if (!s->cli->is_json) {
        (void)fprintf(s->cli->out, "no rule knew %llu of %llu replies, of %zu kinds\n",
                      (unsigned long long)s->unknown, (unsigned long long)s->replies, count);
    }
    if (dropped > 0) {
        (void)fprintf(
            s->cli->err,
            "sluice classify: there were more than %d kinds; %llu of the rarer ones, with "
            "%llu replies, were left out\n",
            SHAPES_MAX, (unsigned long long)dropped, (unsigned long long)replies);
    }
}

int cli_unknown(const struct cli *cli, const struct cli_args *args, const struct reply_set *set,
                struct reply_matcher *m)
{
    const char *provider = cli_value(args, "provider"), *stage = cli_value(args, "stage");
    const char *file = cli_value(args, "file"), *limit = cli_value(args, "limit");
    const char *since = cli_value(args, "since");
    usec_t span = 0;
    if (args->argc > 0) {
        (void)fputs("sluice classify: --unknown takes no REPLY\n", cli->err);
        return EX_USAGE;
    }
    struct search s = {
        .cli = cli,
        .set = set,
        .matcher = m,
        .shapes = reply_shapes_new(SHAPES_MAX),
        .provider = slice_of(provider == NULL ? "" : provider),
        .stage = stage == NULL ? REPLY_AT_NOTHING : reply_stage_find(slice_of(stage)),
    };
    if (s.shapes == NULL) {
        return EX_OSERR;
    }
    if (since != NULL && span_parse(slice_of(since), &span)) {
        s.since = (int64_t)cli_now() - (int64_t)(span / USEC_PER_SEC);
    }
    int code = file != NULL ? read_file(&s, file) : ask_daemon(&s);
    if (code == EX_OK) {
        say_all(&s, limit == NULL ? LIMIT_DEFAULT : strtoul(limit, NULL, 10));
    }
    reply_shapes_free(s.shapes);
    return code;
}
