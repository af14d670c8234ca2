/* Owns the lookup from domain to route: one open-addressed table of lower-case names, where a name
 * may carry an exact route, a subdomain route, or both. Built once, then read by any thread. */
#include "engine/config/router.h"

#include "base/hash.h"
#include "dns/nexthop.h"

#include <stdlib.h>
#include <string.h>

#define DOMAIN_MAX_BYTES 512 /* a longer one has no route */

struct router_entry {
    struct slice name; /* empty: free */
    const struct config_route *exact, *subdomains;
};

struct router {
    const struct config *config;
    const struct config_route *any; /* "*" or NULL */
    bool *is_of_tenants; /* [transport_count]: some tenant's mail takes it in place of any's */
    const struct config_route *
        *named; /* [named_count] routes with a nexthop, by it and transport */
    size_t named_count;
    bool allow_loopback;
    bool has_levels; /* some route says what TLS its mail must have */
    size_t mask;
    uint64_t seed;
    struct router_entry entries[];
};

static size_t table_size(size_t routes)
{
    size_t size = 8;
    while (size < 2 * routes) {
        size *= 2;
    }
    return size;
}

/* The entry of this name, or the free one where it would be. */
static size_t router_place(const struct router *r, struct slice name)
{
    size_t at = (size_t)hash_bytes(name.data, name.len, r->seed) & r->mask;
    while (r->entries[at].name.len > 0 && !slice_eq(r->entries[at].name, name)) {
        at = (at + 1) & r->mask;
    }
    return at;
}

static void router_add(struct router *r, const struct config_route *route)
{
    struct slice name = slice_of(route->pattern);
    if (slice_eq(name, SLICE("*"))) {
        r->any = route;
        return;
    }
    bool is_subdomains = name.data[0] == '.';
    name = slice_from(name, is_subdomains ? 1 : 0);
    struct router_entry *e = &r->entries[router_place(r, name)];
    e->name = name;
    if (is_subdomains) {
        e->subdomains = route;
    } else {
        e->exact = route;
    }
}

static int compare_destination(size_t transport, struct slice nexthop,
                               const struct config_route *route)
{
    struct slice other = slice_of(route->nexthop);
    size_t len = nexthop.len < other.len ? nexthop.len : other.len;
    int order = memcmp(nexthop.data, other.data, len);
    if (order == 0 && nexthop.len != other.len) {
        order = nexthop.len < other.len ? -1 : 1;
    }
    if (order == 0 && transport != route->transport) {
        order = transport < route->transport ? -1 : 1;
    }
    return order;
}

static int compare_named(const void *a, const void *b)
{
    const struct config_route *const *x = a;
    const struct config_route *const *y = b;
    return compare_destination((*x)->transport, slice_of((*x)->nexthop), *y);
}

static bool collect_named(struct router *r, const struct config *c)
{
    r->named = calloc(c->route_count + 1, sizeof(*r->named));
    if (r->named == NULL) {
        return false;
    }
    for (size_t i = 0; i < c->route_count; i++) {
        if (c->routes[i].nexthop[0] != '\0') {
            r->named[r->named_count++] = &c->routes[i];
        }
    }
    qsort(r->named, r->named_count, sizeof(*r->named), compare_named);
    return true;
}

static bool collect_transports(struct router *r, const struct config *c)
{
    r->is_of_tenants = calloc(c->transport_count + 1, sizeof(*r->is_of_tenants));
    for (size_t i = 0; i < c->tenant_count && r->is_of_tenants != NULL; i++) {
        if (c->tenants[i].transport_name != NULL) {
            r->is_of_tenants[c->tenants[i].transport] = true;
        }
    }
    return r->is_of_tenants != NULL;
}

struct router *router_new(const struct config *c)
{
    size_t size = table_size(c->route_count);
    struct router *r = calloc(1, sizeof(*r) + size * sizeof(r->entries[0]));
    if (r == NULL) {
        return NULL;
    }
    r->config = c;
    r->mask = size - 1;
    r->allow_loopback = c->allow_loopback;
    r->seed = hash_random_seed();
    for (size_t i = 0; i < c->route_count; i++) {
        router_add(r, &c->routes[i]);
        r->has_levels |= c->routes[i].smtp_tls_security_level != CONFIG_TLS_OF_TRANSPORT;
    }
    if (!collect_named(r, c) || !collect_transports(r, c)) {
        router_free(r);
        return NULL;
    }
    return r;
}

void router_free(struct router *r)
{
    if (r != NULL) {
        free(r->named);
        free(r->is_of_tenants);
        free(r);
    }
}

static const struct config_route *find_route(const struct router *r, struct slice name)
{
    const struct router_entry *e = &r->entries[router_place(r, name)];
    if (e->exact != NULL) {
        return e->exact;
    }
    /* Address literals have no subdomains. */
    size_t dot = name.data[0] == '[' ? name.len : slice_find(name, '.');
    while (dot < name.len) {
        name = slice_from(name, dot + 1);
        e = &r->entries[router_place(r, name)];
        if (name.len > 0 && e->subdomains != NULL) {
            return e->subdomains;
        }
        dot = slice_find(name, '.');
    }
    return r->any;
}

struct slice router_domain(struct slice address)
{
    for (size_t i = address.len; i > 0; i--) {
        if (address.data[i - 1] == '@') {
            return slice_from(address, i);
        }
    }
    return SLICE("");
}

/* May a recipient choose this host by writing its address? The same hosts as by an MX record. */
static bool is_literal_allowed(const struct router *r, struct slice literal)
{
    struct nexthop host;
    if (nexthop_parse(literal, 0, &host) < 0 || host.ip.family == 0) {
        return false;
    }
    enum ip_scope scope = ip_scope(&host.ip);
    return scope == IP_PUBLIC || scope == IP_PRIVATE || (scope == IP_LOOPBACK && r->allow_loopback);
}

static size_t transport_of(const struct router *r, const struct config_route *route,
                           struct slice tenant)
{
    const struct config_tenant *t = route == r->any ? config_tenant_find(r->config, tenant) : NULL;
    return t != NULL && t->transport_name != NULL ? t->transport : route->transport;
}

bool router_route(const struct router *r, struct slice domain, struct slice tenant,
                  struct route_result *ret)
{
    char lower[DOMAIN_MAX_BYTES];
    struct slice name = domain;
    if (name.len > 0 && name.data[name.len - 1] == '.') {
        name.len--;
    }
    if (name.len == 0 || name.len > sizeof(lower)) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    const struct config_route *route = find_route(r, slice_make(lower, name.len));
    if (route == NULL) {
        return false;
    }
    if (name.data[0] == '[' && route->nexthop[0] == '\0' && route->pattern[0] != '[' &&
        !is_literal_allowed(r, name)) {
        return false;
    }
    ret->route = route;
    ret->transport = transport_of(r, route, tenant);
    ret->nexthop = route->nexthop[0] == '\0' ? name : slice_of(route->nexthop);
    return true;
}

static const struct config_route *find_named(const struct router *r, size_t transport,
                                             struct slice nexthop)
{
    size_t low = 0;
    size_t high = r->named_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_destination(transport, nexthop, r->named[middle]);
        if (order == 0) {
            return r->named[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* Whether mail goes to that transport by the route, some tenant's at least. */
static bool leads_to(const struct router *r, const struct config_route *route, size_t transport)
{
    return route->transport == transport || (route == r->any && r->is_of_tenants[transport]);
}

const struct config_route *router_level_route(const struct router *r, size_t transport,
                                              struct slice nexthop)
{
    if (!r->has_levels) {
        return NULL;
    }
    const struct config_route *route = find_named(r, transport, nexthop);
    if (route == NULL && r->any != NULL && slice_eq(slice_of(r->any->nexthop), nexthop) &&
        leads_to(r, r->any, transport)) {
        route = r->any;
    }
    if (route == NULL && nexthop.len > 0) {
        route = find_route(r, nexthop);
        if (route != NULL && (!leads_to(r, route, transport) || route->nexthop[0] != '\0')) {
            route = NULL;
        }
    }
    return route != NULL && route->smtp_tls_security_level != CONFIG_TLS_OF_TRANSPORT ? route
                                                                                      : NULL;
}

enum config_tls_level router_route_level(const struct router *r, size_t transport,
                                         struct slice nexthop)
{
    const struct config_route *route = router_level_route(r, transport, nexthop);
    return route != NULL ? route->smtp_tls_security_level : CONFIG_TLS_OF_TRANSPORT;
}

enum config_tls_level router_tls_level(const struct router *r, size_t transport,
                                       struct slice nexthop)
{
    enum config_tls_level level = router_route_level(r, transport, nexthop);
    return level != CONFIG_TLS_OF_TRANSPORT
               ? level
               : r->config->transports[transport].smtp.smtp_tls_security_level;
}
