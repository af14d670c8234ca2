/* `sluice destinations`, `hosts`, `transports` and `sources`: where mail goes and from where
 * (destination_report.h, host_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <string.h>
#include <sysexits.h>

#define text_of   cli_member_text
#define number_of cli_member_number

static void add_destination(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const json_t *error = json_object_get(o, "last_error");
    char when[CLI_WHEN_TEXT];
    cli_table_text(t, text_of(o, "transport"));
    cli_table_text(t, text_of(o, "destination"));
    cli_table_text(t, text_of(o, "state"));
    cli_table_number(t, number_of(o, "window"));
    cli_table_number(t, number_of(o, "busy"));
    cli_table_number(t, number_of(o, "in_flight"));
    cli_table_number(t, number_of(o, "todo"));
    cli_table_number(t, number_of(o, "connections"));
    cli_table_number(t, number_of(o, "idle"));
    cli_table_number(t, number_of(o, "delivered"));
    cli_table_number(t, number_of(o, "deferred"));
    const char *order = text_of(o, "order");
    cli_table_cell(t, "%s%s%s%s%s", text_of(o, "why"),
                   json_object_get(o, "until") == NULL ? "" : ", again ",
                   cli_when_text(json_object_get(o, "until"), cli_now(), when),
                   order[0] == '\0' ? "" : ", order ", order);
    if (strcmp(text_of(o, "state"), "dead") == 0 && error != NULL) {
        cli_table_note(t, text_of(error, "text"));
    }
}

int cli_destinations(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TRANSPORT", false}, {"DESTINATION", false}, {"STATE", false},   {"WINDOW", true},
        {"BUSY", true},       {"FLIGHT", true},       {"WAITING", true},  {"CONNS", true},
        {"IDLE", true},       {"DELIVERED", true},    {"DEFERRED", true}, {"WHY", false},
        {NULL, false},
    };
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/destinations", "");
    api_client_query(&url, "match", args->argc > 0 ? args->argv[0] : NULL);
    api_client_query(&url, "state", cli_value(args, "state"));
    api_client_query(&url, "transport", cli_value(args, "transport"));
    api_client_query(&url, "sort", cli_value(args, "sort"));
    api_client_query(&url, "limit", cli_value(args, "limit"));
    return api_client_table(cli, "destinations", &url, columns, add_destination,
                            args->argc > 0 ? "no such destination is known"
                                           : "no destination is known");
}

static void add_host(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    struct buf notes;
    char when[CLI_WHEN_TEXT];
    const json_t *list = json_object_get(o, "notes");
    cli_table_text(t, text_of(o, "transport"));
    cli_table_cell(t, "[%s]:%lld", text_of(o, "address"), number_of(o, "port"));
    cli_table_text(t, text_of(o, "state"));
    cli_table_number(t, number_of(o, "connections"));
    cli_table_number(t, number_of(o, "in_flight"));
    cli_table_number(t, number_of(o, "failures"));
    buf_init(&notes, 0);
    if (json_object_get(o, "until") != NULL) {
        buf_printf(&notes, "again %s%s",
                   cli_when_text(json_object_get(o, "until"), cli_now(), when),
                   json_array_size(list) > 0 ? " " : "");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *note = json_string_value(json_array_get(list, i));
        buf_printf(&notes, "%s%s", i == 0 ? "" : ", ", note == NULL ? "" : note);
    }
    buf_append_char(&notes, '\0');
    cli_table_text(t, notes.failed ? "" : notes.data);
    buf_fini(&notes);
}

int cli_hosts(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TRANSPORT", false}, {"HOST", false},    {"STATE", false}, {"CONNS", true},
        {"FLIGHT", true},     {"FAILURES", true}, {"NOTES", false}, {NULL, false},
    };
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/hosts", "");
    api_client_query(&url, "match", args->argc > 0 ? args->argv[0] : NULL);
    return api_client_table(cli, "hosts", &url, columns, add_host,
                            args->argc > 0 ? "no such host is known" : "no host is known");
}

static void add_transport(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    cli_table_text(t, text_of(o, "transport"));
    cli_table_text(t, json_is_true(json_object_get(o, "hold")) ? "yes" : "no");
    cli_table_number(t, number_of(o, "destinations"));
    cli_table_number(t, number_of(o, "dead"));
    cli_table_number(t, number_of(o, "connections"));
    cli_table_number(t, number_of(o, "process_limit"));
    cli_table_number(t, number_of(o, "idle"));
    cli_table_number(t, number_of(o, "entries_in_flight"));
    cli_table_number(t, number_of(o, "entries_waiting"));
    cli_table_text(t, text_of(o, "source_pool"));
}

int cli_transports(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TRANSPORT", false}, {"HOLD", false}, {"DESTINATIONS", true}, {"DEAD", true},
        {"CONNS", true},      {"LIMIT", true}, {"IDLE", true},         {"FLIGHT", true},
        {"WAITING", true},    {"POOL", false}, {NULL, false},
    };
    struct buf url;
    (void)args; /* the command has no arguments */
    buf_init(&url, 0);
    api_client_url(&url, "/v1/transports", "");
    return api_client_table(cli, "transports", &url, columns, add_transport, NULL);
}

/* closed: NULL: it is not */
static void put_source_state(struct cli_table *t, const json_t *closed)
{
    char text[80] = "open", span[CLI_SPAN_TEXT];
    if (closed != NULL) {
        double left = json_number_value(json_object_get(closed, "remaining"));
        (void)snprintf(text, sizeof(text), "closed for %s (order %.20s)", cli_span_text(left, span),
                       text_of(closed, "order"));
    }
    cli_table_text(t, text);
}

static void add_source(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const json_t *pools = json_object_get(o, "pools");
    struct buf text;
    cli_table_text(t, text_of(o, "source"));
    cli_table_text(t, text_of(o, "address"));
    cli_table_text(t, text_of(o, "address6"));
    cli_table_text(t, text_of(o, "helo_name"));
    cli_table_text(t, text_of(o, "proxy"));
    put_source_state(t, json_object_get(o, "closed"));
    buf_init(&text, 0);
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        buf_printf(&text, "%s%s (weight %lld)", i == 0 ? "" : ", ", text_of(pool, "pool"),
                   number_of(pool, "weight"));
    }
    buf_append_char(&text, '\0');
    cli_table_text(t, text.failed ? "" : text.data);
    buf_fini(&text);
}

int cli_sources(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"SOURCE", false}, {"ADDRESS", false}, {"ADDRESS6", false}, {"HELO", false},
        {"PROXY", false},  {"STATE", false},   {"POOLS", false},    {NULL, false},
    };
    struct buf url;
    (void)args; /* the command has no arguments */
    buf_init(&url, 0);
    api_client_url(&url, "/v1/sources", "");
    return api_client_table(cli, "sources", &url, columns, add_source, "no source is configured");
}
