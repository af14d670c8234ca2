/* `sluice sites`: receivers (site_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_lane.h"
#include "engine/cli/cli_table.h"

#include <string.h>

#define text_of   cli_member_text
#define number_of cli_member_number

static void put_state(struct cli_table *t, const json_t *o)
{
    const json_t *until = json_object_get(o, "until");
    char when[CLI_WHEN_TEXT];
    cli_table_cell(t, "%s%s%s", text_of(o, "state"), until == NULL ? "" : ", again ",
                   cli_when_text(until, cli_now(), when));
}

static void put_connections(struct cli_table *t, const json_t *o)
{
    cli_table_number(t, number_of(o, "window"));
    cli_table_number(t, number_of(o, "busy"));
    cli_table_number(t, number_of(o, "in_flight"));
}

static void put_note(void *ctx, const char *name, const char *text)
{
    char line[CLI_LANE_LINE + 20];
    (void)snprintf(line, sizeof(line), "%s: %s", name, text);
    cli_table_note(ctx, line);
}

static void add_site(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const json_t *error = json_object_get(o, "last_error");
    cli_table_text(t, text_of(o, "transport"));
    cli_table_text(t, text_of(o, "site"));
    put_state(t, o);
    put_connections(t, o);
    cli_table_number(t, number_of(o, "todo"));
    cli_table_number(t, number_of(o, "connections"));
    cli_table_number(t, number_of(o, "idle"));
    cli_table_number(t, number_of(o, "destinations"));
    cli_table_number(t, number_of(o, "lanes"));
    cli_table_number(t, number_of(o, "closed_lanes"));
    cli_table_number(t, number_of(o, "paced_lanes"));
    if (strcmp(text_of(o, "state"), "dead") == 0 && error != NULL) {
        cli_table_note(t, text_of(error, "text"));
    }
    cli_lane_suspensions(o, cli_now(), put_note, t);
}

static void ask(struct buf *url, const struct cli_args *args, const char *path)
{
    buf_init(url, 0);
    api_client_url(url, path, "");
    api_client_query(url, "match", args->argc > 0 ? args->argv[0] : NULL);
    api_client_query(url, "state", cli_value(args, "state"));
    api_client_query(url, "transport", cli_value(args, "transport"));
    api_client_query(url, "sort", cli_value(args, "sort"));
    api_client_query(url, "limit", cli_value(args, "limit"));
}

int cli_sites(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TRANSPORT", false}, {"SITE", false},        {"STATE", false},  {"WINDOW", true},
        {"BUSY", true},       {"FLIGHT", true},       {"WAITING", true}, {"CONNS", true},
        {"IDLE", true},       {"DESTINATIONS", true}, {"LANES", true},   {"CLOSED", true},
        {"PACED", true},      {NULL, false},
    };
    struct buf url;
    ask(&url, args, "/v1/sites");
    return api_client_table(cli, "sites", &url, columns, add_site,
                            args->argc > 0 ? "no such site is known" : "no site is known");
}
