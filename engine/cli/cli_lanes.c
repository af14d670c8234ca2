/* `sluice lanes`: what each receiver sees of each of our sources, what it allows and why; and orders on
 * lanes (lane_report.h, lane_order.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_lane.h"
#include "engine/cli/cli_table.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define text_of   cli_member_text
#define number_of cli_member_number

/* --- the table -------------------------------------------------------------------------------- */

static void put_state(struct cli_table *t, const json_t *o)
{
    const json_t *until = json_object_get(o, "until");
    char when[CLI_WHEN_TEXT];
    cli_table_cell(t, "%s%s%s", text_of(o, "state"), until == NULL ? "" : ", again ",
                   cli_when_text(until, cli_now(), when));
}

/* "-" where the lane has no such figure: no transport uses it now. */
static void put_number(struct cli_table *t, const json_t *o, const char *name)
{
    if (json_object_get(o, name) != NULL) {
        cli_table_number(t, number_of(o, name));
    } else {
        cli_table_text(t, "-");
    }
}

static void put_note(void *ctx, const char *name, const char *text)
{
    char line[CLI_LANE_LINE];
    (void)snprintf(line, sizeof(line), "%s: %s", name, text);
    cli_table_note(ctx, line);
}

static void add_lane(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const char *source = text_of(o, "source"), *transport = text_of(o, "transport");
    char site[CLI_LANE_SITE], pace[CLI_LANE_PACE];
    cli_table_text(t, transport[0] == '\0' ? "-" : transport);
    cli_table_text(t, cli_lane_site(text_of(o, "site"), site));
    cli_table_text(t, source[0] == '\0' ? "-" : source);
    put_state(t, o);
    cli_table_text(t, json_object_get(o, "paces") == NULL ? "-" : cli_lane_pace(o, pace));
    put_number(t, o, "window");
    put_number(t, o, "busy");
    put_number(t, o, "in_flight");
    put_number(t, o, "connections");
    put_number(t, o, "idle");
    cli_lane_facts(o, cli_now(), put_note, t);
}

/* --- one lane --------------------------------------------------------------------------------- */

static void print_line(void *ctx, const char *name, const char *text)
{
    (void)fprintf(ctx, "  %-12s  ", name);
    cli_print_safe(ctx, text);
    (void)fputc('\n', ctx);
}

static void print_core(FILE *out, const json_t *o)
{
    char line[CLI_LANE_LINE];
    if (text_of(o, "transport")[0] == '\0') {
        print_line(out, "transport", "none uses it now; it is remembered");
        return;
    }
    print_line(out, "transport", text_of(o, "transport"));
    (void)snprintf(line, sizeof(line), "%lld, of which %lld busy; deliveries in flight: %lld",
                   number_of(o, "window"), number_of(o, "busy"), number_of(o, "in_flight"));
    print_line(out, "window", line);
    (void)snprintf(line, sizeof(line), "%lld, of which %lld idle; of all transports: %lld",
                   number_of(o, "connections"), number_of(o, "idle"),
                   number_of(o, "open_connections"));
    print_line(out, "connections", line);
}

static void print_destinations(FILE *out, const json_t *o, double now)
{
    const json_t *list = json_object_get(o, "destinations");
    long long all = number_of(o, "closed_destinations");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        char line[CLI_LANE_LINE], when[CLI_WHEN_TEXT];
        (void)snprintf(
            line, sizeof(line), "%s keeps away from it, again %s: %s", text_of(one, "destination"),
            cli_when_text(json_object_get(one, "until"), now, when), text_of(one, "reason"));
        print_line(out, "destination", line);
    }
    if (all > (long long)json_array_size(list)) {
        char line[CLI_LANE_LINE];
        (void)snprintf(line, sizeof(line), "%lld more were told that they do not want it",
                       all - (long long)json_array_size(list));
        print_line(out, "destination", line);
    }
}

static void print_lane(void *ctx, const json_t *o)
{
    FILE *out = ctx;
    const char *source = text_of(o, "source");
    const json_t *until = json_object_get(o, "until");
    const json_t *accepted = json_object_get(o, "last_accepted");
    char when[CLI_WHEN_TEXT], line[CLI_LANE_LINE];
    double now = cli_now();
    (void)fputs("lane ", out);
    cli_print_safe(out, text_of(o, "site"));
    (void)fprintf(out, "\n  %-12s  ", "source");
    cli_print_safe(out, source[0] == '\0' ? "the system chooses the address" : source);
    (void)fputc('\n', out);
    print_core(out, o);
    (void)snprintf(line, sizeof(line), "%s%s%s", text_of(o, "state"),
                   until == NULL ? "" : ", again ", cli_when_text(until, now, when));
    print_line(out, "state", line);
    cli_lane_facts(o, now, print_line, out);
    cli_lane_rates(o, print_line, out);
    if (accepted != NULL) {
        print_line(out, "accepted", cli_when_text(accepted, now, when));
    }
    print_destinations(out, o, now);
}

/* --- orders ----------------------------------------------------------------------------------- */

/* false: out of memory */
static bool set_member(json_t *o, const char *name, const char *value)
{
    return value == NULL || json_object_set_new(o, name, json_string(value)) == 0;
}

static void print_ordered(const struct cli *cli, const json_t *o)
{
    const json_t *list = json_object_get(o, "lanes");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *lane = json_array_get(list, i);
        const json_t *until = json_object_get(lane, "until");
        char when[CLI_WHEN_TEXT], pace[CLI_LANE_PACE];
        const char *source = text_of(lane, "source");
        (void)fputs("lane ", cli->out);
        cli_print_safe(cli->out, text_of(lane, "site"));
        (void)fputs(" from ", cli->out);
        cli_print_safe(cli->out, source[0] == '\0' ? "-" : source);
        (void)fprintf(cli->out, ": %s%s%s", text_of(lane, "state"), until == NULL ? "" : ", again ",
                      cli_when_text(until, cli_now(), when));
        if (json_object_get(lane, "paces") != NULL) {
            (void)fprintf(cli->out, ", at %s", cli_lane_pace(lane, pace));
        }
        (void)fputc('\n', cli->out);
    }
}

static void print_count(const struct cli *cli, const json_t *o)
{
    long long count = cli_member_number(o, "count");
    long long more = count - (long long)json_array_size(json_object_get(o, "lanes"));
    if (count == 0) {
        (void)fputs("nothing holds a lane of it back\n", cli->out);
    } else if (more > 0) {
        (void)fprintf(cli->out, "and %lld more\n", more);
    }
}

static int give_order(const struct cli *cli, const struct cli_args *args, json_t *body)
{
    struct api_answer a = {.status = 0};
    const char *source = cli_value(args, "source");
    bool is_whole =
        body != NULL && set_member(body, "order", args->argv[0]) &&
        set_member(body, "site", args->argc > 1 ? args->argv[1] : NULL) &&
        set_member(body, "source", source != NULL && strcmp(source, "-") == 0 ? "" : source) &&
        set_member(body, "transport", cli_value(args, "transport")) &&
        set_member(body, "for", cli_value(args, "for")) &&
        set_member(body, "reason", cli_value(args, "reason")) &&
        (args->argc < 3 || set_member(body, "rate", args->argv[2]));
    char *text = is_whole ? json_dumps(body, JSON_COMPACT) : NULL;
    int code = EX_OSERR;
    if (text != NULL) {
        code = api_client_call(cli, "POST", "/v1/lanes", text, &a);
        json_t *o = code == 0 ? api_answer_object(&a) : NULL;
        if (o != NULL && cli->is_json) {
            (void)fwrite(a.body.data, 1, a.body.len,
                         cli->out); /* flushed and checked by cli_main */
        } else if (o != NULL) {
            print_ordered(cli, o);
            print_count(cli, o);
        }
        json_decref(o);
        (void)api_client_complain(cli, "lanes", &a, code);
        api_answer_fini(&a);
    }
    free(text);
    json_decref(body);
    return code;
}

/* What each order takes. NULL: it is complete */
static const char *order_fault(const struct cli_args *args)
{
    bool is_pace = strcmp(args->argv[0], "pace") == 0;
    bool is_close = strcmp(args->argv[0], "close") == 0;
    bool is_open = !is_pace && !is_close;
    if (args->argc < 2 && !(is_open && cli_has(args, "source"))) {
        return "SITE is missing: a site as `sluice sites` names it, a provider or a destination";
    }
    if (is_pace && args->argc < 3) {
        return "RATE is missing: messages a second, minute or hour such as 20/s, or none";
    }
    if (!is_pace && args->argc > 2) {
        return "only `pace` takes a rate";
    }
    if (!is_close && cli_has(args, "for")) {
        return "--for is how long `close` lasts";
    }
    if (cli_has(args, "state") || cli_has(args, "sort") || cli_has(args, "limit") ||
        cli_has(args, "destination")) {
        return "--state, --destination, --sort and --limit are for lists";
    }
    if (cli_has(args, "transport")) {
        return "an order is for all transports";
    }
    if (cli_has(args, "node") || cli_has(args, "all-nodes")) {
        return "an order is given at the node that is asked, and all nodes learn of it";
    }
    return NULL;
}

static bool is_order(const struct cli_args *args)
{
    static const char *const words[] = {"open", "close", "pace"};
    for (size_t i = 0; args->argc > 0 && i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(args->argv[0], words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* --- the command ------------------------------------------------------------------------------ */

static void ask(struct buf *url, const struct cli_args *args, bool is_detailed)
{
    buf_init(url, 0);
    api_client_url(url, "/v1/lanes", "");
    api_client_query(url, "match", args->argc > 0 ? args->argv[0] : NULL);
    api_client_query(url, "destination", cli_value(args, "destination"));
    api_client_query(url, "source", cli_value(args, "source"));
    api_client_query(url, "state", cli_value(args, "state"));
    api_client_query(url, "transport", cli_value(args, "transport"));
    api_client_query(url, "sort", cli_value(args, "sort"));
    api_client_query(url, "limit", cli_value(args, "limit"));
    api_client_query(url, "destinations", is_detailed ? "256" : NULL);
}

int cli_lanes(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TRANSPORT", false}, {"SITE", false},  {"SOURCE", false}, {"STATE", false},
        {"PACE", true},       {"WINDOW", true}, {"BUSY", true},    {"FLIGHT", true},
        {"CONNS", true},      {"IDLE", true},   {NULL, false},
    };
    struct buf url;
    const char *fault = NULL;
    bool is_given = is_order(args);
    if (is_given) {
        fault = order_fault(args);
    } else if (args->argc > 1) {
        fault = "one TEXT, or open, close or pace with a SITE";
    } else if (cli_has(args, "for") || cli_has(args, "reason")) {
        fault = "--for and --reason are of orders: sluice lanes close SITE --for 2h";
    }
    if (fault != NULL) {
        (void)fprintf(cli->err, "sluice lanes: %s\n", fault);
        return EX_USAGE;
    }
    if (is_given) {
        return give_order(cli, args, json_object());
    }
    bool names_site = args->argc > 0 || cli_has(args, "destination");
    bool is_detailed = names_site && cli_has(args, "source");
    const char *nothing = names_site ? "no such lane is known" : "no lane is known";
    ask(&url, args, is_detailed);
    if (!is_detailed) {
        return api_client_table(cli, "lanes", &url, columns, add_lane, nothing);
    }
    int code = url.failed ? EX_OSERR
                          : api_client_list(cli, "lanes", url.data, print_lane, cli->out, nothing);
    buf_fini(&url);
    return code;
}
