/* `sluice messages` and `sluice message ID`: what is in the queue (message_report.h). */
#include "engine/api_client.h"
#include "engine/cli.h"
#include "engine/cli_table.h"

#include <string.h>
#include <sysexits.h>

#define text_of   cli_member_text
#define number_of cli_member_number

/* --- messages ----------------------------------------------------------------------------------
 */

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
    cli_table_text(t, cli_when_text(json_object_get(o, "due"), now, when));
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

/* --- message -----------------------------------------------------------------------------------
 */

static void print_recipient(FILE *out, const json_t *o, double now)
{
    char when[CLI_WHEN_TEXT];
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
        if (number_of(o, "code") > 0) {
            (void)fprintf(out, "%lld ", number_of(o, "code"));
        }
        cli_print_safe(out, text_of(o, "status"));
        (void)fputc(' ', out);
        cli_print_safe(out, text_of(o, "reply"));
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
}

static void print_head(FILE *out, const json_t *o, double now)
{
    char created[CLI_WHEN_TEXT], due[CLI_WHEN_TEXT], expires[CLI_WHEN_TEXT];
    (void)fprintf(out, "id          %s\nsender      <", text_of(o, "id"));
    cli_print_safe(out, text_of(o, "sender"));
    (void)fprintf(out, ">\nsize        %lld bytes\nreceived    %s", number_of(o, "size"),
                  cli_when_text(json_object_get(o, "created"), now, created));
    print_reception(out, o);
    print_labels(out, o);
    (void)fprintf(out, "\nstate       %s %s\nattempts    %lld\nexpires     %s\n",
                  text_of(o, "state"), cli_when_text(json_object_get(o, "due"), now, due),
                  number_of(o, "attempts"),
                  cli_when_text(json_object_get(o, "expires"), now, expires));
    (void)fprintf(out, "recipients  %lld, of which %lld pending\n", number_of(o, "recipients"),
                  number_of(o, "pending"));
}

struct shown {
    FILE *out;
    double now;
    bool has_head, has_more;
    long long last; /* index of a recipient */
};

static void print_message(void *ctx, const json_t *o)
{
    struct shown *s = ctx;
    const json_t *list = json_object_get(o, "list");
    if (!s->has_head) {
        print_head(s->out, o, s->now);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        print_recipient(s->out, json_array_get(list, i), s->now);
        s->last = number_of(json_array_get(list, i), "index");
    }
    s->has_head = true;
    s->has_more = json_is_true(json_object_get(o, "more")) && json_array_size(list) > 0;
}

int cli_message(const struct cli *cli, const struct cli_args *args)
{
    struct shown s = {.out = cli->out, .now = cli_now()};
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
