/* Owns the lookup from domain to route: one open-addressed table of lower-case names, where a name
 * may carry an exact route, a subdomain route, or both. Built once, then read by any thread. */
#include "engine/router.h"

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
    const struct config_route *any; /* "*" or NULL */
    bool allow_loopback;
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

struct router *router_new(const struct config *c)
{
    size_t size = table_size(c->route_count);
    struct router *r = calloc(1, sizeof(*r) + size * sizeof(r->entries[0]));
    if (r == NULL) {
        return NULL;
    }
    r->mask = size - 1;
    r->allow_loopback = c->allow_loopback;
    r->seed = hash_random_seed();
    for (size_t i = 0; i < c->route_count; i++) {
        router_add(r, &c->routes[i]);
    }
    return r;
}

void router_free(struct router *r)
{
    free(r);
}

static const struct config_route *find(const struct router *r, struct slice name)
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
    return scope == IP_PUBLIC || scope == IP_PRIVATE ||
           (scope == IP_LOOPBACK && r->allow_loopback);
}

bool router_route(const struct router *r, struct slice domain, struct route_result *ret)
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
    const struct config_route *route = find(r, slice_make(lower, name.len));
    if (route == NULL) {
        return false;
    }
    if (name.data[0] == '[' && route->nexthop[0] == '\0' && route->pattern[0] != '[' &&
        !is_literal_allowed(r, name)) {
        return false;
    }
    ret->route = route;
    ret->transport = route->transport;
    ret->nexthop = route->nexthop[0] == '\0' ? name : slice_of(route->nexthop);
    return true;
}
