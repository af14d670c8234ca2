/* `sluice explain`: which route a domain takes, and every option that counts for it. From the
 * configuration file alone; the running daemon's are GET /v1/config. */
#include "engine/cli/cli_explain.h"

#include "base/slice.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/config_text.h"
#include "engine/config/router.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* --- options ---------------------------------------------------------------------------------- */

static const struct cli_column columns[] = {
    {"OPTION", false}, {"VALUE", false}, {"SET AT", false}, {NULL, false}};

/* "" when it is not set at all */
static char *value_of(const struct config *c, enum config_section section,
                      const struct config_option *o, size_t index)
{
    struct buf text;
    buf_init(&text, 0);
    config_text_value(o, config_section_value(c, section, o, index), &text);
    char *value = text.failed ? NULL : slice_dup(buf_slice(&text));
    buf_fini(&text);
    return value;
}

/* Calls `take` for each row of one section; out of memory: for fewer. */
static void each_option(const struct config *c, enum config_section section, size_t index,
                        void (*take)(void *ctx, const char *option, const char *value,
                                     const char *at),
                        void *ctx)
{
    char at[CONFIG_ORIGIN_BYTES];
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        bool is_shown = o->section == section || (config_option_is_in(o, section) &&
                                                  config_section_sets(c, section, index, o));
        char *value = is_shown ? value_of(c, section, o, index) : NULL;
        if (value != NULL) {
            (void)config_origin(c, section, index, o->name, at); /* or "default" */
            take(ctx, o->name, value, at);
        }
        free(value);
    }
}

static void add_option_row(void *ctx, const char *option, const char *value, const char *at)
{
    struct cli_table *t = ctx;
    cli_table_text(t, option);
    cli_table_text(t, value);
    cli_table_text(t, at);
}

static void add_object(void *ctx, const char *option, const char *value, const char *at)
{
    json_t *o = json_pack("{s:s, s:s?, s:s}", "option", option, "value", value, "at", at);
    (void)json_array_append_new(ctx, o); /* NULL, not UTF-8 or no memory: the list is shorter */
}

static void print_section(FILE *out, const struct config *c, enum config_section section,
                          size_t index)
{
    char at[CONFIG_ORIGIN_BYTES];
    struct cli_table t;
    const char *title = config_section_title(c, section, index);
    if (title != NULL) {
        (void)config_origin(c, section, index, NULL, at); /* a section with a title has a place */
        (void)fprintf(out, "\n%s \"", config_sections[section].name);
        cli_print_safe(out, title);
        (void)fputs("\" at ", out);
        cli_print_safe(out, at);
        (void)fputc('\n', out);
    } else {
        (void)fprintf(out, "\n%s\n",
                      section == CONFIG_SECTION_GLOBAL ? "top level"
                                                       : config_sections[section].name);
    }
    cli_table_init(&t, columns);
    each_option(c, section, index, add_option_row, &t);
    cli_table_print(&t, out);
    cli_table_fini(&t);
}

void cli_explain_all(const struct cli *cli, const struct config *c)
{
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        size_t count = config_section_count(c, (enum config_section)s);
        for (size_t i = 0; i < count; i++) {
            print_section(cli->out, c, (enum config_section)s, i);
        }
    }
}

/* --- one way ---------------------------------------------------------------------------------- */

/* By the domain of an address, a domain, or the nexthop that some route names. */
static bool find_way(const struct config *c, const struct router *router, const char *what,
                     struct route_result *ret)
{
    for (size_t i = 0; i < c->route_count; i++) {
        const struct config_route *r = &c->routes[i];
        if (r->nexthop[0] != '\0' && strcmp(r->nexthop, what) == 0) {
            *ret = (struct route_result){
                .transport = r->transport, .nexthop = slice_of(r->nexthop), .route = r};
            return true;
        }
    }
    struct slice domain = slice_of(what);
    return router_route(router, strchr(what, '@') == NULL ? domain : router_domain(domain), ret);
}

/* The level of the destination, and where it comes from. */
static const char *tls_level_text(const struct config *c, const struct route_result *way,
                                  char ret_at[static CONFIG_ORIGIN_BYTES])
{
    static const char *const option = "smtp_tls_security_level";
    const struct config_option *o = config_option_find(CONFIG_SECTION_TRANSPORT, option);
    bool is_routes = way->route->smtp_tls_security_level != CONFIG_TLS_OF_TRANSPORT;
    size_t index = is_routes ? (size_t)(way->route - c->routes) : way->transport;
    (void)config_origin(c, is_routes ? CONFIG_SECTION_ROUTE : CONFIG_SECTION_TRANSPORT, index,
                        option, ret_at);
    return o->choices[config_route_tls_level(c, way->route)];
}

static void print_way(FILE *out, const struct config *c, const struct route_result *way)
{
    char at[CONFIG_ORIGIN_BYTES], route_at[CONFIG_ORIGIN_BYTES];
    const struct config_transport *t = &c->transports[way->transport];
    (void)config_origin(c, CONFIG_SECTION_ROUTE, (size_t)(way->route - c->routes), NULL, route_at);
    const char *level = tls_level_text(c, way, at);
    (void)fputs("route \"", out);
    cli_print_safe(out, way->route->pattern);
    (void)fprintf(out, "\" at %s\ntransport %s, destination ", route_at, t->name);
    char *nexthop = slice_dup(way->nexthop);
    cli_print_safe(out, nexthop == NULL ? "" : nexthop);
    free(nexthop);
    (void)fprintf(out, ", TLS level %s (%s)\n", level, at);
    print_section(out, c, CONFIG_SECTION_TRANSPORT, way->transport);
    for (size_t i = 0; t->pool != NULL && i < t->pool->source_names.count; i++) {
        print_section(out, c, CONFIG_SECTION_SOURCE,
                      (size_t)(t->pool->sources[i] - c->egress_sources));
    }
}

static json_t *section_object(const struct config *c, enum config_section section, size_t index)
{
    char at[CONFIG_ORIGIN_BYTES];
    json_t *options = json_array();
    (void)config_origin(c, section, index, NULL, at);
    each_option(c, section, index, add_object, options);
    return json_pack("{s:s, s:s, s:o}", "name", config_section_title(c, section, index), "at", at,
                     "options", options);
}

static json_t *describe_way(const struct config *c, const struct route_result *way)
{
    char at[CONFIG_ORIGIN_BYTES], route_at[CONFIG_ORIGIN_BYTES];
    const struct config_transport *t = &c->transports[way->transport];
    json_t *sources = json_array();
    (void)config_origin(c, CONFIG_SECTION_ROUTE, (size_t)(way->route - c->routes), NULL, route_at);
    const char *level = tls_level_text(c, way, at);
    for (size_t i = 0; t->pool != NULL && i < t->pool->source_names.count; i++) {
        size_t index = (size_t)(t->pool->sources[i] - c->egress_sources);
        (void)json_array_append_new(sources, section_object(c, CONFIG_SECTION_SOURCE, index));
    }
    return json_pack("{s:{s:s, s:s}, s:s%, s:{s:s, s:s}, s:o, s:o}", "route", "pattern",
                     way->route->pattern, "at", route_at, "destination", way->nexthop.data,
                     way->nexthop.len, "tls_level", "value", level, "at", at, "transport",
                     section_object(c, CONFIG_SECTION_TRANSPORT, way->transport), "sources",
                     sources);
}

static int explain(const struct cli *cli, const struct config *c, char *what)
{
    struct route_result way;
    struct router *router = router_new(c);
    if (router == NULL) {
        return EX_OSERR;
    }
    slice_lower(slice_of(what), what); /* as destinations are named */
    int code = EX_OK;
    if (!find_way(c, router, what, &way)) {
        (void)fputs("sluice explain: no route leads to ", cli->err);
        cli_print_safe(cli->err, what);
        (void)fputc('\n', cli->err);
        code = EX_NOHOST;
    } else if (cli->is_json) {
        json_t *o = describe_way(c, &way);
        code = o == NULL || json_dumpf(o, cli->out, JSON_INDENT(2)) < 0 ? EX_OSERR : EX_OK;
        (void)fputc('\n', cli->out);
        json_decref(o);
    } else {
        print_way(cli->out, c, &way);
    }
    router_free(router);
    return code;
}

int cli_explain(const struct cli *cli, const struct cli_args *args)
{
    struct config *config = NULL;
    int code = cli_config(cli, &config);
    if (code == 0) {
        code = explain(cli, config, args->argv[0]);
    }
    config_free(config);
    return code;
}
