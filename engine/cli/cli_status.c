/* `sluice status`: the totals of the daemon (status_report.h). `sluice cluster`: the nodes beside it, and
 * `adopt` and `forget` (nodes_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <string.h>
#include <sysexits.h>

#define text_of   cli_member_text
#define number_of cli_member_number

static void print_gates(FILE *out, const json_t *gates)
{
    for (size_t i = 0; i < json_array_size(gates); i++) {
        const char *text = json_string_value(json_array_get(gates, i));
        (void)fputs(i == 0 ? "no mail is taken: " : ", ", out);
        cli_print_safe(out, text == NULL ? "" : text);
    }
    if (json_array_size(gates) > 0) {
        (void)fputc('\n', out);
    }
}

static double real_of(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name)); /* 0 when it is absent */
}

static void print_rates(FILE *out, const json_t *rates)
{
    if (rates != NULL) {
        (void)fprintf(out,
                      "a second, over the last 10: received %.1f, delivered %.1f, deferred %.1f, "
                      "failed %.1f\n",
                      real_of(rates, "received"), real_of(rates, "delivered"),
                      real_of(rates, "deferred"), real_of(rates, "failed"));
    }
}

/* The states add up to the messages. Counted just now they say nothing of when. */
static void print_states(FILE *out, const json_t *o)
{
    char as_of[CLI_WHEN_TEXT];
    const json_t *when = json_object_get(o, "states_as_of");
    (void)fprintf(out,
                  "messages %lld: incoming %lld, active %lld, deferred %lld, scheduled %lld, "
                  "suspended %lld",
                  number_of(o, "messages"), number_of(o, "incoming"), number_of(o, "active"),
                  number_of(o, "deferred"), number_of(o, "scheduled"), number_of(o, "suspended"));
    if (json_is_true(json_object_get(o, "is_estimate"))) {
        (void)fputs(" (about: being counted, as orders have changed)", out);
    } else if (json_number_value(when) + 2 < real_of(o, "now")) {
        (void)fprintf(out, " (counted %s)", cli_when_text(when, cli_now(), as_of));
    }
    (void)fprintf(out, "; quarantined %lld\n", number_of(o, "quarantined"));
}

/* Mail that went out signed, and by why what did not: nobody should have to hear it from a receiver. */
static void print_seals(FILE *out, const json_t *seals)
{
    static const struct {
        const char *name, *text;
    } causes[] = {{"no_key", "no key for it"},
                  {"foreign", "another tenant's domain or key"},
                  {"unknown", "a key that there is not"},
                  {"from", "no From that is certain"},
                  {"shape", "a header that is none"},
                  {"unreadable", "its content is unreadable"}};
    const char *before = ": ";
    long long unsigned_count = 0;
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        unsigned_count += number_of(seals, causes[i].name);
    }
    (void)fprintf(out, "signed %lld, sent again as signed %lld; unsigned %lld",
                  number_of(seals, "signed"), number_of(seals, "kept"), unsigned_count);
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        long long count = number_of(seals, causes[i].name);
        if (count > 0) {
            (void)fprintf(out, "%s%s %lld", before, causes[i].text, count);
            before = ", ";
        }
    }
    long long failed = number_of(seals, "failed");
    if (failed > 0) {
        (void)fprintf(out, "; keys failed %lld times", failed);
    }
    (void)fputc('\n', out);
}

void cli_status_print(void *ctx, const json_t *o)
{
    FILE *out = ctx;
    char started[CLI_WHEN_TEXT];
    (void)fprintf(out, "sluice %s at ", text_of(o, "version"));
    cli_print_safe(out, text_of(o, "hostname"));
    (void)fprintf(out, ", started %s\n",
                  cli_when_text(json_object_get(o, "started"), cli_now(), started));
    print_gates(out, json_object_get(o, "gates"));
    print_states(out, o);
    (void)fprintf(
        out,
        "since start: messages received %lld; recipients delivered %lld, deferred %lld, "
        "failed %lld, expired %lld\n"
        "destinations %lld, dead %lld; connections %lld, idle %lld; standing orders %lld\n"
        "entries waiting %lld, in flight %lld; recipients in memory %lld\n"
        "spool %lld MB used, %lld MB left (%s)\n",
        number_of(o, "received"), number_of(o, "delivered"), number_of(o, "deferrals"),
        number_of(o, "failed"), number_of(o, "expired"), number_of(o, "destinations"),
        number_of(o, "dead"), number_of(o, "connections"), number_of(o, "idle"),
        number_of(o, "orders"), number_of(o, "entries_waiting"), number_of(o, "entries_in_flight"),
        number_of(o, "recipients_in_core"), number_of(o, "used_bytes") >> 20,
        number_of(o, "free_bytes") >> 20,
        strcmp(text_of(o, "free_limit"), "disk") == 0 ? "then the disk is full"
                                                      : "then the map is full: map_size");
    if (json_object_get(o, "dkim") != NULL) {
        print_seals(out, json_object_get(o, "dkim"));
    }
    print_rates(out, json_object_get(o, "rates"));
}

int cli_status(const struct cli *cli, const struct cli_args *args)
{
    (void)args; /* the command has no arguments */
    return api_client_show(cli, "status", "/v1/status", cli_status_print, cli->out);
}

/* --- the cluster ------------------------------------------------------------------------------ */

struct node_list {
    struct cli_table table;
    long long messages, received, delivered, deferrals, failed, expired; /* of all nodes */
};

static void add_node(void *ctx, const json_t *o)
{
    struct node_list *list = ctx;
    struct cli_table *t = &list->table;
    char seen[CLI_WHEN_TEXT], started[CLI_WHEN_TEXT];
    bool is_self = json_is_true(json_object_get(o, "self"));
    cli_table_cell(t, "%s%s", text_of(o, "node"), is_self ? " (this one)" : "");
    cli_table_text(t, text_of(o, "state"));
    cli_table_text(t, text_of(o, "address"));
    cli_table_text(t, cli_when_text(json_object_get(o, "seen"), cli_now(), seen));
    cli_table_text(t, cli_when_text(json_object_get(o, "started"), cli_now(), started));
    cli_table_number(t, number_of(o, "number"));
    cli_table_number(t, number_of(o, "messages"));
    cli_table_number(t, number_of(o, "received"));
    cli_table_number(t, number_of(o, "delivered"));
    cli_table_text(t, text_of(o, "version"));
    list->messages += number_of(o, "messages");
    list->received += number_of(o, "received");
    list->delivered += number_of(o, "delivered");
    list->deferrals += number_of(o, "deferrals");
    list->failed += number_of(o, "failed");
    list->expired += number_of(o, "expired");
}

/* DELETE: forget it; POST: take its mail over */
static int order_one(const struct cli *cli, const char *method, const char *node)
{
    struct api_answer a = {.status = 0};
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/cluster/", node);
    int code = url.failed ? EX_OSERR : api_client_call(cli, method, url.data, NULL, &a);
    if (code == 0 && cli->is_json) {
        (void)fwrite(a.body.data, 1, a.body.len, cli->out); /* flushed and checked by cli_main */
    } else if (code == 0) {
        (void)fputs(method[0] == 'D' ? "forgotten: " : "taking over: ", cli->out);
        cli_print_safe(cli->out, node);
        (void)fputc('\n', cli->out);
    }
    (void)api_client_complain(cli, "cluster", &a, code);
    api_answer_fini(&a);
    buf_fini(&url);
    return code;
}

int cli_cluster(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"NODE", false},     {"STATE", false},   {"ADDRESS", false}, {"SEEN", false},
        {"STARTED", false},  {"NUMBER", true},   {"QUEUED", true},   {"RECEIVED", true},
        {"DELIVERED", true}, {"VERSION", false}, {NULL, false},
    };
    struct node_list list = {.messages = 0};
    struct buf url;
    bool is_adopt = args->argc > 0 && strcmp(args->argv[0], "adopt") == 0;
    if (args->argc > 0 &&
        ((!is_adopt && strcmp(args->argv[0], "forget") != 0) || args->argc != 2)) {
        (void)fprintf(cli->err, "sluice cluster: nothing, adopt NODE or forget NODE\n");
        return EX_USAGE;
    }
    if (args->argc == 2) {
        return order_one(cli, is_adopt ? "POST" : "DELETE", args->argv[1]);
    }
    buf_init(&url, 0);
    api_client_url(&url, "/v1/cluster", "");
    cli_table_init(&list.table, columns);
    int code = url.failed ? EX_OSERR
                          : api_client_list(cli, "cluster", url.data, add_node, &list,
                                            "no node: the configuration has no cluster, or its "
                                            "servers have not answered");
    cli_table_print(&list.table, cli->out);
    if (list.table.row_count > 0) {
        (void)fprintf(cli->out,
                      "all nodes: messages %lld; since each node's start: messages received %lld; "
                      "recipients delivered %lld, deferred %lld, failed %lld, expired %lld\n",
                      list.messages, list.received, list.delivered, list.deferrals, list.failed,
                      list.expired);
    }
    cli_table_fini(&list.table);
    buf_fini(&url);
    return code;
}
