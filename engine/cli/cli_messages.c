/* `sluice messages` and `sluice message ID`: what is in the queue (message_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/event/reply_line.h"

#include <string.h>
#include <sysexits.h>

#define text_of   cli_member_text
#define number_of cli_member_number

/* --- messages --------------------------------------------------------------------------------- */

/* When the next attempt is due, or "overdue", however long ago that was. returns ret */
static const char *due_text(const json_t *o, double now, char ret[static CLI_WHEN_TEXT])
{
    const json_t *due = json_object_get(o, "due");
    if (json_is_number(due) && json_number_value(due) <= now) {
        (void)snprintf(ret, CLI_WHEN_TEXT, "overdue");
        return ret;
    }
    return cli_when_text(due, now, ret);
}

static void add_message(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    char span[CLI_SPAN_TEXT], when[CLI_WHEN_TEXT];
    double now = cli_now();
    cli_table_text(t, text_of(o, "id"));
    cli_table_text(t, cli_span_text(now - json_number_value(json_object_get(o, "created")), span));
    cli_table_number(t, number_of(o, "size"));
    cli_table_number(t, number_of(o, "recipients"));
    cli_table_number(t, number_of(o, "pending"));
    cli_table_text(t, text_of(o, "state"));
    cli_table_text(t, due_text(o, now, when));
    cli_table_text(t, text_of(o, "tenant"));
    cli_table_cell(t, "<%s>", text_of(o, "sender"));
    if (text_of(o, "last_reply")[0] != '\0') {
        cli_table_note(t, text_of(o, "last_reply"));
    }
}

int cli_messages(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"ID", false},   {"AGE", true},     {"SIZE", true},
        {"RCPTS", true}, {"PENDING", true}, {"STATE", false},
        {"DUE", false},  {"TENANT", false}, {"SENDER, LAST REPLY", false},
        {NULL, false},
    };
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/messages", "");
    api_client_query(&url, "limit", cli_value(args, "limit"));
    api_client_query(&url, "after", cli_value(args, "after"));
    cli_filter(&url, args);
    return api_client_table(cli, "messages", &url, columns, add_message, "nothing is queued");
}

/* --- message ---------------------------------------------------------------------------------- */

static void print_recipient(FILE *out, const json_t *o, double now)
{
    char when[CLI_WHEN_TEXT], line[REPLY_LINE_MAX];
    (void)fprintf(out, "  %-9s ", text_of(o, "state"));
    cli_print_safe(out, text_of(o, "recipient"));
    if (text_of(o, "destination")[0] != '\0') {
        (void)fprintf(out, "  via %s, ", text_of(o, "transport"));
        cli_print_safe(out, text_of(o, "destination"));
    }
    (void)fputc('\n', out);
    if (text_of(o, "reply")[0] != '\0') {
        (void)fprintf(out,
                      "            %s: ", cli_when_text(json_object_get(o, "time"), now, when));
        cli_print_safe(out,
                       reply_line((unsigned)number_of(o, "code"), slice_of(text_of(o, "status")),
                                  slice_of(text_of(o, "reply")), line));
        if (text_of(o, "remote_mta")[0] != '\0') {
            (void)fputs(" from ", out);
            cli_print_safe(out, text_of(o, "remote_mta"));
        }
        (void)fputc('\n', out);
    }
}

static void print_reception(FILE *out, const json_t *o)
{
    if (text_of(o, "peer_address")[0] != '\0') {
        (void)fputs(" from ", out);
        cli_print_safe(out, text_of(o, "peer_name"));
        (void)fputs(" [", out);
        cli_print_safe(out, text_of(o, "peer_address"));
        (void)fputs("] with ", out);
        cli_print_safe(out, text_of(o, "protocol"));
    }
    if (text_of(o, "auth_user")[0] != '\0') {
        (void)fputs(", user ", out);
        cli_print_safe(out, text_of(o, "auth_user"));
    }
}

static void print_labels(FILE *out, const json_t *o)
{
    if (text_of(o, "tenant")[0] != '\0') {
        (void)fputs("\ntenant      ", out);
        cli_print_safe(out, text_of(o, "tenant"));
    }
    if (text_of(o, "campaign")[0] != '\0') {
        (void)fputs("\ncampaign    ", out);
        cli_print_safe(out, text_of(o, "campaign"));
    }
    (void)fprintf(out, "\nmail class  %s", text_of(o, "mail_class"));
}

static void print_signatures(FILE *out, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        (void)fputs("\nsigned by   ", out);
        cli_print_safe(out, text_of(o, "domain"));
        (void)fputs(" (selector ", out);
        cli_print_safe(out, text_of(o, "selector"));
        (void)fputs(", ", out);
        cli_print_safe(out, text_of(o, "algorithm"));
        (void)fputc(')', out);
    }
}

static void print_head(FILE *out, const json_t *o, double now)
{
    char created[CLI_WHEN_TEXT], due[CLI_WHEN_TEXT], expires[CLI_WHEN_TEXT], scan[CLI_WHEN_TEXT];
    (void)fprintf(out, "id          %s\nsender      <", text_of(o, "id"));
    cli_print_safe(out, text_of(o, "sender"));
    (void)fprintf(out, ">\nsize        %lld bytes\nreceived    %s", number_of(o, "size"),
                  cli_when_text(json_object_get(o, "created"), now, created));
    print_reception(out, o);
    print_labels(out, o);
    print_signatures(out, json_object_get(o, "signatures"));
    (void)fprintf(out, "\nstate       %s %s", text_of(o, "state"), due_text(o, now, due));
    if (json_object_get(o, "next_scan") != NULL) {
        (void)fprintf(out, ", next scan %s",
                      cli_when_text(json_object_get(o, "next_scan"), now, scan));
    }
    (void)fprintf(out, "\nattempts    %lld%s\nexpires     %s\n", number_of(o, "attempts"),
                  json_is_true(json_object_get(o, "paced"))
                      ? ", then waits for what its receiver lets through"
                      : "",
                  cli_when_text(json_object_get(o, "expires"), now, expires));
    (void)fprintf(out, "recipients  %lld, of which %lld pending\n", number_of(o, "recipients"),
                  number_of(o, "pending"));
}

struct shown {
    FILE *out;
    double now;
    bool has_head, has_more;
    bool is_of_nodes; /* what comes is of another node each time */
    long long last;   /* index of a recipient */
};

static void print_event(FILE *out, const json_t *o, double now)
{
    char when[CLI_WHEN_TEXT], line[REPLY_LINE_MAX], status[40] = "";
    const json_t *response = json_object_get(o, "response");
    const json_t *code = json_object_get(response, "enhanced_code");
    (void)fprintf(out, "  %-16s %s  ", text_of(o, "type"),
                  cli_when_text(json_object_get(o, "timestamp"), now, when));
    cli_print_safe(out, text_of(o, "recipient"));
    if (text_of(o, "recipient")[0] == '\0') {
        (void)fputs("from <", out);
        cli_print_safe(out, text_of(o, "sender"));
        (void)fputc('>', out);
    }
    if (text_of(o, "queue")[0] != '\0') {
        (void)fprintf(out, "  via %s, ", text_of(o, "transport"));
        cli_print_safe(out, text_of(o, "queue"));
    }
    (void)fputc('\n', out);
    if (code != NULL) {
        (void)snprintf(status, sizeof(status), "%lld.%lld.%lld", number_of(code, "class"),
                       number_of(code, "subject"), number_of(code, "detail"));
    }
    if (response != NULL) {
        (void)fputs("            ", out);
        cli_print_safe(out, reply_line((unsigned)number_of(response, "code"), slice_of(status),
                                       slice_of(text_of(response, "content")), line));
        (void)fputc('\n', out);
    }
}

/* It has left the queue. */
static void print_past(struct shown *s, const json_t *o)
{
    const json_t *events = json_object_get(o, "events");
    (void)fprintf(s->out,
                  "id          %s\nstate       not in the queue any more\n"
                  "events      of %s\n",
                  text_of(o, "id"), text_of(o, "searched"));
    for (size_t i = 0; i < json_array_size(events); i++) {
        print_event(s->out, json_array_get(events, i), s->now);
    }
    s->has_head = true;
    s->has_more = false;
}

static void print_message(void *ctx, const json_t *o)
{
    struct shown *s = ctx;
    const json_t *list = json_object_get(o, "list");
    s->has_head = s->has_head && !s->is_of_nodes;
    if (json_object_get(o, "events") != NULL) {
        print_past(s, o);
        return;
    }
    if (!s->has_head) {
        print_head(s->out, o, s->now);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        print_recipient(s->out, json_array_get(list, i), s->now);
        s->last = number_of(json_array_get(list, i), "index");
    }
    s->has_head = true;
    s->has_more = json_is_true(json_object_get(o, "more")) && json_array_size(list) > 0;
    if (s->is_of_nodes && s->has_more) {
        (void)fprintf(s->out, "  and others: sluice message %s --node NAME has all\n",
                      text_of(o, "id"));
        s->has_more = false;
    }
}

int cli_message(const struct cli *cli, const struct cli_args *args)
{
    struct shown s = {.out = cli->out, .now = cli_now(), .is_of_nodes = cli->is_all_nodes};
    int code = 0;
    do {
        struct buf url;
        char last[32];
        (void)snprintf(last, sizeof(last), "%lld", s.last);
        buf_init(&url, 0);
        api_client_url(&url, "/v1/messages/", args->argv[0]);
        api_client_query(&url, "after", s.has_head ? last : NULL);
        api_client_query(&url, "limit", "10000");
        code = url.failed ? EX_OSERR : api_client_show(cli, "message", url.data, print_message, &s);
        buf_fini(&url);
    } while (code == 0 && s.has_more);
    return code;
}
