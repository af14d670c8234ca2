/* `sluice events`: what happens to mail, as it happens, and `sluice events consumers`
 * (event_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define text_of   cli_member_text
#define number_of cli_member_number

static const struct timespec follow_interval = {.tv_nsec = 500000000};

/* --- consumers -------------------------------------------------------------------------------- */

static void add_consumer(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    char span[CLI_SPAN_TEXT];
    char when[CLI_WHEN_TEXT];
    double behind = json_number_value(json_object_get(o, "behind"));
    cli_table_text(t, text_of(o, "kind"));
    cli_table_text(t, text_of(o, "title"));
    cli_table_number(t, number_of(o, "behind_bytes"));
    cli_table_text(t, behind > 0 ? cli_span_text(behind, span) : "-");
    cli_table_number(t, number_of(o, "events"));
    cli_table_number(t, number_of(o, "failures"));
    cli_table_number(t, number_of(o, "gaps"));
    cli_table_cell(t, "%s %s", text_of(o, "why"),
                   cli_when_text(json_object_get(o, "failing_since"), cli_now(), when));
}

static int list_consumers(const struct cli *cli)
{
    static const struct cli_column columns[] = {
        {"KIND", false},    {"CONSUMER", false}, {"BEHIND", true}, {"AGE", true}, {"EVENTS", true},
        {"FAILURES", true}, {"GAPS", true},      {"WHY", false},   {NULL, false},
    };
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/events/consumers", "");
    return api_client_table(cli, "events", &url, columns, add_consumer, "nobody reads the events");
}

/* --- events ----------------------------------------------------------------------------------- */

static void print_time(FILE *out, const json_t *o)
{
    char text[32] = "";
    struct tm tm;
    time_t seconds = (time_t)number_of(o, "timestamp");
    if (localtime_r(&seconds, &tm) != NULL &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S ", &tm) > 0) {
        (void)fputs(text, out);
    }
}

static void print_word(FILE *out, const char *before, const char *text)
{
    if (text[0] != '\0') {
        (void)fputs(before, out);
        cli_print_safe(out, text);
    }
}

/* Contents that are a receiver's reply as it was said begin with its code. */
static void print_response(FILE *out, long long code, const char *content)
{
    if (code != 0 && strtoll(content, NULL, 10) != code) {
        (void)fprintf(out, " %lld", code);
    }
    print_word(out, " ", content);
}

/* "2026-11-22 10:16:27 Reaction paced to 12.5 messages/s, throttled: ip2 at provider:x: 421 slow" */
static void print_reaction(FILE *out, const json_t *o)
{
    char number[32];
    print_time(out, o);
    print_word(out, "Reaction ", text_of(o, "reaction"));
    if (number_of(o, "count") > 0) {
        (void)fprintf(out, ": %lld more that found no room\n", number_of(o, "count"));
        return;
    }
    if (json_is_number(json_object_get(o, "value"))) {
        (void)snprintf(number, sizeof(number), "%.4g",
                       json_number_value(json_object_get(o, "value")));
        print_word(out, " to ", number);
        print_word(out, " ", text_of(o, "unit"));
        print_word(out, "", text_of(o, "unit")[0] == '\0' ? "" : "/s");
    }
    print_word(out, " until ", text_of(o, "until"));
    print_word(out, ", ", text_of(o, "cause"));
    print_word(out, ": ", text_of(o, "source")[0] == '\0' ? "-" : text_of(o, "source"));
    print_word(out, " at ", text_of(o, "site"));
    print_word(out, " ", text_of(o, "hosts"));
    print_word(out, " for ", text_of(o, "destination"));
    print_word(out, ", rule ", text_of(o, "rule"));
    print_word(out, ": ", text_of(o, "text"));
    (void)fputc('\n', out);
}

/* "2026-11-22 10:16:27 Bounce 00aa: me@a.test to you@b.test at mx[192.0.2.1]:25: 550 no" */
static void print_event(FILE *out, const json_t *o)
{
    const json_t *response = json_object_get(o, "response");
    if (strcmp(text_of(o, "type"), "Reaction") == 0) {
        print_reaction(out, o);
        return;
    }
    print_time(out, o);
    cli_print_safe(out, text_of(o, "type"));
    print_word(out, " ", text_of(o, "id"));
    print_word(out, ": ", text_of(o, "sender")[0] == '\0' ? "<>" : text_of(o, "sender"));
    print_word(out, " to ", text_of(o, "recipient"));
    if (number_of(o, "recipient_count") > 1) {
        (void)fprintf(out, " and %lld more", number_of(o, "recipient_count") - 1);
    }
    print_word(out, " at ", text_of(o, "site"));
    if (response != NULL) {
        (void)fputs(":", out);
        print_response(out, number_of(response, "code"), text_of(response, "content"));
    }
    (void)fputc('\n', out);
}

/* One answer: its events to the output, its cursor for the next. errors: an exit code */
static int print_page(const struct cli *cli, const struct slice body, uint64_t *left,
                      char ret_cursor[static 64], bool *ret_has_more)
{
    struct slice rest = body;
    while (rest.len > 0) {
        size_t end = slice_find(rest, '\n');
        struct slice line = slice_to(rest, end);
        rest = slice_from(rest, end < rest.len ? end + 1 : end);
        json_t *o = json_loadb(line.data, line.len, JSON_ALLOW_NUL, NULL);
        if (rest.len == 0 && json_is_true(json_object_get(o, "end"))) {
            (void)snprintf(ret_cursor, 64, "%s", text_of(o, "cursor"));
            *ret_has_more = json_is_true(json_object_get(o, "more"));
            if (json_is_true(json_object_get(o, "lost"))) {
                (void)fputs("sluice events: some were removed before\n", cli->err);
            }
            json_decref(o);
            return ret_cursor[0] == '\0' ? EX_PROTOCOL : 0;
        }
        if (cli->is_json) {
            (void)fprintf(cli->out, "%.*s\n", (int)line.len, line.data);
        } else if (o != NULL) {
            print_event(cli->out, o);
        }
        json_decref(o);
        *left -= *left > 0;
    }
    return EX_PROTOCOL; /* the answer ended without its last line */
}

static int ask_events(const struct cli *cli, const char *after, const char *type, uint64_t *left,
                      char ret_cursor[static 64], bool *ret_has_more)
{
    struct api_answer a;
    struct buf url;
    char limit[24];
    (void)snprintf(limit, sizeof(limit), "%llu",
                   (unsigned long long)(*left > 10000 ? 10000 : *left));
    buf_init(&url, 0);
    api_client_url(&url, "/v1/events", "");
    api_client_query(&url, "after", after);
    api_client_query(&url, "type", type);
    api_client_query(&url, "limit", limit);
    int code = url.failed ? EX_OSERR : 0;
    if (code == 0) {
        code = api_client_call(cli, "GET", url.data, NULL, &a);
        if (code != 0) {
            code = api_client_complain(cli, "events", &a, code);
        } else {
            code = print_page(cli, buf_slice(&a.body), left, ret_cursor, ret_has_more);
            if (code != 0) {
                (void)fputs("sluice events: the answer is not complete\n", cli->err);
            }
        }
        api_answer_fini(&a);
    }
    buf_fini(&url);
    return code;
}

static int list_events(const struct cli *cli, const struct cli_args *args)
{
    bool is_following = cli_has(args, "follow");
    const char *limit = cli_value(args, "limit");
    const char *after = cli_value(args, "after");
    uint64_t left = limit != NULL ? strtoull(limit, NULL, 10) : UINT64_MAX;
    char cursor[64] = "";
    int code = 0;
    if (after == NULL && !is_following) {
        after = "start";
    }
    while (code == 0 && left > 0) {
        bool has_more = false;
        code = ask_events(cli, cursor[0] != '\0' ? cursor : after, cli_value(args, "type"), &left,
                          cursor, &has_more);
        if (fflush(cli->out) != 0) {
            return EX_IOERR; /* the program that read our output has gone */
        }
        if (code == 0 && !has_more) {
            if (!is_following) {
                break;
            }
            (void)nanosleep(&follow_interval, NULL);
        }
    }
    return code;
}

int cli_events(const struct cli *cli, const struct cli_args *args)
{
    if (args->argc == 0) {
        return list_events(cli, args);
    }
    if (strcmp(args->argv[0], "consumers") == 0) {
        return list_consumers(cli);
    }
    (void)fputs("sluice events: it takes no operand but consumers\n", cli->err);
    return EX_USAGE;
}
