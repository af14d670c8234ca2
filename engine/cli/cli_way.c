/* `sluice explain`: which route a domain takes, whose options count for it, and where each of them
 * was set. From the configuration file alone: nobody is asked for the domain's hosts, which decide
 * between providers; --mx says them. What stands of its lanes now is the running daemon's. */
#include "base/slice.h"
#include "dns/nexthop.h"
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_explain.h"
#include "engine/cli/cli_lane.h"
#include "engine/cli/cli_table.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/config_text.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* What is asked, and what leads there. */
struct way {
    const struct cli *cli;
    const struct config *config;
    const char *mx, *source, *tenant; /* options; NULL: not given */
    struct router *router;
    struct policy_table *policies;
    struct route_result route;
    const struct policy *policy;
    const struct config_tenant *tenant_section;    /* NULL: none */
    const struct config_egress_pool *pool;         /* NULL: the system chooses the address */
    const struct config_egress_source *one_source; /* --source */
    bool has_lanes;                                /* a daemon runs, and said what it has learned */
    struct api_answer lanes;
};

/* --- finding it ------------------------------------------------------------------------------- */

/* By the domain of an address, a domain, or the nexthop that some route names. */
static bool find_route(struct way *w, const char *what)
{
    const struct config *c = w->config;
    for (size_t i = 0; i < c->route_count; i++) {
        const struct config_route *r = &c->routes[i];
        if (r->nexthop[0] != '\0' && strcmp(r->nexthop, what) == 0) {
            w->route = (struct route_result){
                .transport = r->transport, .nexthop = slice_of(r->nexthop), .route = r};
            return true;
        }
    }
    struct slice domain = slice_of(what);
    return router_route(w->router, strchr(what, '@') == NULL ? domain : router_domain(domain),
                        slice_of(w->tenant == NULL ? "" : w->tenant), &w->route);
}

static const struct config_egress_source *find_source(const struct way *w)
{
    for (size_t i = 0; w->pool != NULL && i < w->pool->source_names.count; i++) {
        if (strcmp(w->pool->sources[i]->name, w->source) == 0) {
            return w->pool->sources[i];
        }
    }
    return NULL;
}

/* returns an exit code, having said what is wrong */
static int find_way(struct way *w, const char *what)
{
    FILE *err = w->cli->err;
    if (!find_route(w, what)) {
        (void)fputs("sluice explain: no route leads to ", err);
        cli_print_safe(err, what);
        (void)fputc('\n', err);
        return EX_NOHOST;
    }
    w->policy = policy_of(w->policies, (uint32_t)w->route.transport, w->route.nexthop,
                          slice_of(w->mx == NULL ? "" : w->mx));
    if (w->policy == NULL) {
        return EX_OSERR;
    }
    if (w->tenant != NULL) {
        w->tenant_section = config_tenant_find(w->config, slice_of(w->tenant));
    }
    bool has_pool = w->tenant_section != NULL && w->tenant_section->pool != NULL;
    w->pool = has_pool ? w->tenant_section->pool : w->config->transports[w->route.transport].pool;
    w->one_source = w->source == NULL ? NULL : find_source(w);
    if (w->source != NULL && w->one_source == NULL) {
        (void)fputs("sluice explain: no mail leaves there from source ", err);
        cli_print_safe(err, w->source);
        (void)fprintf(err, "; its sources are %s\n", w->pool == NULL ? "none" : w->pool->list);
        return EX_NOHOST;
    }
    return EX_OK;
}

/* --- where a value is from -------------------------------------------------------------------- */

/* "FILE:LINE", with the section behind it where that is not the transport. */
static void put_origin(const struct way *w, enum config_section section, size_t index,
                       const char *option, struct buf *out)
{
    char at[CONFIG_ORIGIN_BYTES];
    (void)config_origin(w->config, section, index, option, at); /* or "default" */
    buf_append_str(out, at);
    if (section != CONFIG_SECTION_TRANSPORT) {
        buf_printf(out, " (%s %s)", config_sections[section].name,
                   config_section_title(w->config, section, index));
    }
}

/* The options of the transport with what counts instead of some of them. Those that the domain says
 * of the lanes of its provider's site are not of the site: they stand with the domain. */
static void each_option(const struct way *w, cli_explain_take *take, void *ctx)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->section != CONFIG_SECTION_TRANSPORT) {
            continue;
        }
        const struct policy *p = o->is_lanes && w->policy->is_bounded ? w->policy->site : w->policy;
        struct policy_origin origin = policy_origin(w->policies, p, o);
        struct buf value, at;
        buf_init(&value, 0);
        buf_init(&at, 0);
        config_text_value(o, (const char *)&p->options + o->offset, &value);
        put_origin(w, origin.section, origin.index, o->name, &at);
        char *value_text = value.failed ? NULL : slice_dup(buf_slice(&value));
        char *at_text = at.failed ? NULL : slice_dup(buf_slice(&at));
        if (value_text != NULL && at_text != NULL) { /* else the list is shorter */
            take(ctx, o->name, value_text, at_text);
        }
        free(value_text);
        free(at_text);
        buf_fini(&value);
        buf_fini(&at);
    }
}

/* The level of the destination, and where it comes from. */
static const char *tls_level_text(const struct way *w, struct buf *ret_at)
{
    static const char *const option = "smtp_tls_security_level";
    const struct config_option *o = config_option_find(CONFIG_SECTION_TRANSPORT, option);
    struct policy_origin origin = policy_origin(w->policies, w->policy, o);
    bool is_routes = w->route.route->smtp_tls_security_level != CONFIG_TLS_OF_TRANSPORT;
    if (is_routes && origin.section != CONFIG_SECTION_DOMAIN) {
        origin = (struct policy_origin){CONFIG_SECTION_ROUTE,
                                        (size_t)(w->route.route - w->config->routes)};
    }
    char at[CONFIG_ORIGIN_BYTES];
    (void)config_origin(w->config, origin.section, origin.index, option, at);
    buf_append_str(ret_at, at);
    return o->choices[policy_tls_level(w->router, w->policy, w->route.nexthop)];
}

/* What the domain's section makes of its site. */
static const char *site_text(const struct policy *p)
{
    if (p->has_own_site) {
        return "a site of its own";
    }
    return p->is_bounded ? "bounds of its own within the provider's site"
                         : "the site stays as it is";
}

/* As engine/schedule/receiver.h names it. Which hosts MX records name, the daemon finds out. */
static void put_site(const struct way *w, struct buf *out)
{
    const struct policy *p = w->policy;
    struct nexthop hop;
    if (!w->config->transports[w->route.transport].site_rollup || p->has_own_site) {
        buf_printf(out, "domain:" SLICE_FMT, SLICE_ARG(w->route.nexthop));
    } else if (nexthop_parse(w->route.nexthop, 0, &hop) != 0 || !hop.wants_mx) {
        buf_append_slice(out, w->route.nexthop);
    } else if (p->provider_section != NULL) {
        bool is_by_hosts = policy_is_by_domains(w->policies, p->provider);
        buf_printf(out, "provider:%s%s", p->provider_section->options.name,
                   is_by_hosts ? "/ and its MX hosts of the best preference" : "");
    } else {
        buf_append_str(out, "its MX hosts of the best preference");
    }
}

static bool wants_hosts(const struct way *w)
{
    bool is_mx = false;
    for (size_t i = 0; i < w->config->provider_count; i++) {
        is_mx = is_mx || w->config->providers[i].mx.count > 0;
    }
    return is_mx && w->mx == NULL && w->policy->provider_section == NULL;
}

static size_t source_index(const struct way *w, size_t i)
{
    return (size_t)(w->pool->sources[i] - w->config->egress_sources);
}

static bool is_asked(const struct way *w, size_t i)
{
    return w->one_source == NULL || w->pool->sources[i] == w->one_source;
}

static size_t pool_index(const struct way *w)
{
    return (size_t)(w->pool - w->config->egress_pools);
}

/* --- what stands now -------------------------------------------------------------------------- */

/* Of the daemon, by the configuration that it has; without one, or with one that does not say, nothing
 * is told. */
static void ask_lanes(struct way *w)
{
    char *destination = slice_dup(w->route.nexthop);
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/lanes", "");
    api_client_query(&url, "destination", destination == NULL ? "" : destination);
    api_client_query(&url, "transport", w->config->transports[w->route.transport].name);
    api_client_query(&url, "source", w->source);
    int code = url.failed ? EX_OSERR : api_client_get(w->config, url.data, &w->lanes);
    if (url.failed) {
        buf_init(&w->lanes.body, 0);
    }
    w->has_lanes = code == 0;
    buf_fini(&url);
    free(destination);
}

/* The next lane of a source that the mail may have, the caller's reference; NULL at the end. */
static json_t *next_lane(struct way *w)
{
    json_t *o;
    while ((o = api_answer_next(&w->lanes)) != NULL) {
        const char *source = cli_member_text(o, "source");
        bool is_one = w->pool == NULL && source[0] == '\0';
        for (size_t i = 0; w->pool != NULL && i < w->pool->source_names.count; i++) {
            is_one = is_one || strcmp(w->pool->sources[i]->name, source) == 0;
        }
        if (is_one) {
            return o;
        }
        json_decref(o);
    }
    return NULL;
}

static void print_fact(void *ctx, const char *name, const char *text)
{
    (void)fprintf(ctx, "    %s: ", name);
    cli_print_safe(ctx, text);
    (void)fputc('\n', ctx);
}

static void print_lanes(struct way *w)
{
    FILE *out = w->cli->out;
    bool has_any = false;
    json_t *o;
    while (w->has_lanes && (o = next_lane(w)) != NULL) {
        const char *source = cli_member_text(o, "source");
        const json_t *until = json_object_get(o, "until");
        char when[CLI_WHEN_TEXT];
        (void)fputs(has_any ? "" : "\nnow\n", out);
        has_any = true;
        (void)fputs("  lane ", out);
        cli_print_safe(out, cli_member_text(o, "site"));
        (void)fputs(source[0] == '\0' ? "" : " from ", out);
        cli_print_safe(out, source);
        (void)fprintf(out, ": %s%s%s, window %lld, in flight %lld\n", cli_member_text(o, "state"),
                      until == NULL ? "" : ", again ", cli_when_text(until, cli_now(), when),
                      cli_member_number(o, "window"), cli_member_number(o, "in_flight"));
        cli_lane_facts(o, cli_now(), print_fact, out);
        cli_lane_rates(o, print_fact, out);
        json_decref(o);
    }
    if (w->has_lanes && !has_any) {
        (void)fputs("\nnow\n  no mail for it has gone to a scheduler lately\n", out);
    }
}

static json_t *lane_list(struct way *w)
{
    json_t *list = json_array(), *o;
    while ((o = next_lane(w)) != NULL) {
        (void)json_array_append_new(list, o); /* out of memory leaves it out */
    }
    return list;
}

/* --- for people ------------------------------------------------------------------------------- */

static void print_receiver(const struct way *w)
{
    FILE *out = w->cli->out;
    char at[CONFIG_ORIGIN_BYTES];
    const struct policy *p = w->policy;
    if (p->provider_section != NULL) {
        (void)config_origin(w->config, CONFIG_SECTION_PROVIDER, p->provider, NULL, at);
        (void)fprintf(out, "provider %s at %s\n", p->provider_section->options.name, at);
    } else if (wants_hosts(w)) {
        (void)fputs("provider: its MX hosts decide; say them with --mx HOST,HOST\n", out);
    }
    struct buf site;
    buf_init(&site, 0);
    put_site(w, &site);
    buf_append_char(&site, '\0');
    (void)fputs("site ", out);
    cli_print_safe(out, site.failed ? "" : site.data);
    (void)fputc('\n', out);
    buf_fini(&site);
    if (p->domain_section != NULL) {
        size_t index = (size_t)(p->domain_section - w->config->domains);
        (void)config_origin(w->config, CONFIG_SECTION_DOMAIN, index, NULL, at);
        (void)fprintf(out, "domain %s at %s: %s\n", p->domain_section->options.name, at,
                      site_text(p));
    }
}

static void print_way(struct way *w)
{
    FILE *out = w->cli->out;
    const struct config *c = w->config;
    char at[CONFIG_ORIGIN_BYTES];
    struct buf level_at;
    struct cli_table t;
    const struct config_route *r = w->route.route;
    buf_init(&level_at, 0);
    (void)config_origin(c, CONFIG_SECTION_ROUTE, (size_t)(r - c->routes), NULL, at);
    const char *level = tls_level_text(w, &level_at);
    (void)fputs("route \"", out);
    cli_print_safe(out, r->pattern);
    (void)fprintf(out, "\" at %s\ntransport %s, destination ", at,
                  c->transports[w->route.transport].name);
    char *nexthop = slice_dup(w->route.nexthop);
    cli_print_safe(out, nexthop == NULL ? "" : nexthop);
    free(nexthop);
    (void)fprintf(out, ", TLS level %s (" SLICE_FMT ")\n", level, SLICE_ARG(buf_slice(&level_at)));
    buf_fini(&level_at);
    print_receiver(w);
    (void)config_origin(c, CONFIG_SECTION_TRANSPORT, w->route.transport, NULL, at);
    (void)fprintf(out, "\ntransport \"%s\" at %s\n", c->transports[w->route.transport].name, at);
    cli_explain_begin(&t);
    each_option(w, cli_explain_row, &t);
    cli_table_print(&t, out);
    cli_table_fini(&t);
    if (w->policy->is_bounded) {
        cli_explain_section(out, c, CONFIG_SECTION_DOMAIN,
                            (size_t)(w->policy->domain_section - c->domains));
    }
    if (w->pool != NULL) {
        cli_explain_section(out, c, CONFIG_SECTION_POOL, pool_index(w));
    }
    for (size_t i = 0; w->pool != NULL && i < w->pool->source_names.count; i++) {
        if (is_asked(w, i)) {
            cli_explain_section(out, c, CONFIG_SECTION_SOURCE, source_index(w, i));
        }
    }
    if (w->tenant_section != NULL) {
        cli_explain_section(out, c, CONFIG_SECTION_TENANT,
                            (size_t)(w->tenant_section - c->tenants));
    }
    print_lanes(w);
}

/* --- for programs ----------------------------------------------------------------------------- */

/* null where there is none */
static json_t *receiver_object(const struct way *w, const struct config_receiver *r,
                               enum config_section section, size_t index)
{
    return r == NULL ? json_null() : cli_explain_section_object(w->config, section, index);
}

static json_t *describe_way(struct way *w)
{
    const struct config *c = w->config;
    const struct policy *p = w->policy;
    char at[CONFIG_ORIGIN_BYTES], route_at[CONFIG_ORIGIN_BYTES];
    struct buf level_at;
    json_t *sources = json_array(), *options = json_array();
    buf_init(&level_at, 0);
    (void)config_origin(c, CONFIG_SECTION_ROUTE, (size_t)(w->route.route - c->routes), NULL,
                        route_at);
    (void)config_origin(c, CONFIG_SECTION_TRANSPORT, w->route.transport, NULL, at);
    const char *level = tls_level_text(w, &level_at);
    for (size_t i = 0; w->pool != NULL && i < w->pool->source_names.count; i++) {
        if (is_asked(w, i)) {
            (void)json_array_append_new(
                sources, cli_explain_section_object(c, CONFIG_SECTION_SOURCE, source_index(w, i)));
        }
    }
    each_option(w, cli_explain_object, options);
    struct slice level_text = buf_slice(&level_at);
    json_t *o =
        json_pack("{s:{s:s, s:s}, s:s%, s:{s:s, s:s%}, s:{s:s, s:s, s:o}, s:o}", "route", "pattern",
                  w->route.route->pattern, "at", route_at, "destination", w->route.nexthop.data,
                  w->route.nexthop.len, "tls_level", "value", level, "at", level_text.data,
                  level_text.len, "transport", "name", c->transports[w->route.transport].name, "at",
                  at, "options", options, "sources", sources);
    buf_fini(&level_at);
    if (o != NULL) { /* a field that there is no memory for is not there */
        (void)json_object_set_new(
            o, "provider",
            receiver_object(w, p->provider_section, CONFIG_SECTION_PROVIDER, p->provider));
        (void)json_object_set_new(o, "domain",
                                  receiver_object(w, p->domain_section, CONFIG_SECTION_DOMAIN,
                                                  p->domain_section == NULL
                                                      ? 0
                                                      : (size_t)(p->domain_section - c->domains)));
        struct buf site;
        buf_init(&site, 0);
        put_site(w, &site);
        struct slice text = buf_slice(&site);
        (void)json_object_set_new(o, "site", json_stringn(text.data, text.len));
        buf_fini(&site);
        (void)json_object_set_new(o, "has_own_site", json_boolean(p->has_own_site));
        (void)json_object_set_new(o, "is_bounded", json_boolean(p->is_bounded));
        (void)json_object_set_new(o, "needs_mx", json_boolean(wants_hosts(w)));
        if (w->pool != NULL) {
            (void)json_object_set_new(
                o, "pool", cli_explain_section_object(c, CONFIG_SECTION_POOL, pool_index(w)));
        }
        if (w->has_lanes) {
            (void)json_object_set_new(o, "lanes", lane_list(w));
        }
        if (w->tenant_section != NULL) {
            (void)json_object_set_new(
                o, "tenant",
                cli_explain_section_object(c, CONFIG_SECTION_TENANT,
                                           (size_t)(w->tenant_section - c->tenants)));
        }
    }
    return o;
}

/* --- the command ------------------------------------------------------------------------------ */

static int explain(struct way *w, char *what)
{
    w->router = router_new(w->config);
    if (w->router == NULL || policy_table_new(w->config, &w->policies) != 0) {
        return EX_OSERR;
    }
    slice_lower(slice_of(what), what); /* as destinations are named */
    int code = find_way(w, what);
    if (code == EX_OK) {
        ask_lanes(w);
    }
    if (code == EX_OK && w->cli->is_json) {
        json_t *o = describe_way(w);
        code = o == NULL || json_dumpf(o, w->cli->out, JSON_INDENT(2)) < 0 ? EX_OSERR : EX_OK;
        (void)fputc('\n', w->cli->out);
        json_decref(o);
    } else if (code == EX_OK) {
        print_way(w);
    }
    return code;
}

int cli_explain(const struct cli *cli, const struct cli_args *args)
{
    struct config *config = NULL;
    int code = cli_config(cli, false, &config);
    if (code == 0) {
        struct way w = {.cli = cli,
                        .config = config,
                        .mx = cli_value(args, "mx"),
                        .source = cli_value(args, "source"),
                        .tenant = cli_value(args, "tenant")};
        code = explain(&w, args->argv[0]);
        api_answer_fini(&w.lanes);
        policy_table_free(w.policies);
        router_free(w.router);
    }
    config_free(config);
    return code;
}
