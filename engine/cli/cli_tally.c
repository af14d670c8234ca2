/* `sluice tenants` and `sluice responses`: whose mail it was, and what receivers said
 * (tally_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <sysexits.h>

#define text_of   cli_member_text
#define number_of cli_member_number

/* What its mail in memory has, and how long the oldest of it has waited; "-" where there is none. */
static void add_share(struct cli_table *t, const json_t *o)
{
    char span[CLI_SPAN_TEXT];
    if (json_object_get(o, "weight") == NULL) {
        for (int i = 0; i < 4; i++) {
            cli_table_text(t, "-");
        }
        return;
    }
    cli_table_number(t, number_of(o, "weight"));
    cli_table_number(t, number_of(o, "waiting"));
    cli_table_number(t, number_of(o, "connections"));
    cli_table_text(t, cli_span_text((double)number_of(o, "longest_wait"), span));
}

static void add_tenant(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const char *name = text_of(o, "tenant");
    cli_table_text(t, name[0] == '\0' ? "-" : name);
    cli_table_number(t, number_of(o, "received"));
    cli_table_number(t, number_of(o, "recipients"));
    cli_table_number(t, number_of(o, "bytes") >> 20);
    cli_table_number(t, number_of(o, "delivered"));
    cli_table_number(t, number_of(o, "deferred"));
    cli_table_number(t, number_of(o, "failed"));
    cli_table_number(t, number_of(o, "expired"));
    cli_table_number(t, number_of(o, "dropped"));
    add_share(t, o);
}

int cli_tenants(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TENANT", false},   {"MESSAGES", true}, {"RECIPIENTS", true}, {"MB", true},
        {"DELIVERED", true}, {"DEFERRED", true}, {"FAILED", true},     {"EXPIRED", true},
        {"DROPPED", true},   {"WEIGHT", true},   {"WAITING", true},    {"CONNECTIONS", true},
        {"LONGEST", true},   {NULL, false},
    };
    struct buf url;
    (void)args; /* the command has no arguments */
    buf_init(&url, 0);
    api_client_url(&url, "/v1/tenants", "");
    return api_client_table(cli, "tenants", &url, columns, add_tenant,
                            "no mail came in since the start");
}

/* "a.example, b.example" */
static void join_names(struct buf *out, const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        buf_printf(out, "%s%s", i == 0 ? "" : ", ", name == NULL ? "" : name);
    }
    buf_append_char(out, '\0');
}

static void add_response(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    struct buf names;
    char when[CLI_WHEN_TEXT];
    cli_table_number(t, number_of(o, "count"));
    cli_table_text(t, text_of(o, "kind"));
    if (number_of(o, "code") == 0) {
        cli_table_text(t, "-");
    } else {
        cli_table_number(t, number_of(o, "code"));
    }
    cli_table_text(t, text_of(o, "status"));
    cli_table_text(t, text_of(o, "class")[0] == '\0' ? "-" : text_of(o, "class"));
    cli_table_text(t, cli_when_text(json_object_get(o, "last"), cli_now(), when));
    buf_init(&names, 0);
    join_names(&names, json_object_get(o, "destinations"));
    cli_table_text(t, names.failed ? "" : names.data);
    buf_fini(&names);
    cli_table_note(t, text_of(o, "text"));
}

int cli_responses(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"COUNT", true},  {"KIND", false}, {"CODE", true},          {"STATUS", false},
        {"CLASS", false}, {"LAST", false}, {"DESTINATIONS", false}, {NULL, false},
    };
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/responses", "");
    api_client_query(&url, "limit", cli_value(args, "limit"));
    return api_client_table(cli, "responses", &url, columns, add_response,
                            "nothing was deferred or refused since the start");
}
