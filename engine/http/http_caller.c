/* Owns the rules of who may ask for what over HTTP. Called by http_exchange.c when a request's head
 * is there, and when its answer is. A route that says nothing of tenants is none that a token of a
 * tenant reaches, so a new one is closed to them until somebody has thought of it. */
#include "engine/http/http_caller.h"

#include "base/log.h"
#include "engine/config/config.h"
#include "engine/http/api_private.h"
#include "engine/http/http_guard.h"
#include "engine/http/http_private.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *header_of(const struct api_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* The door in the settings in force. Valid in this pass. */
static const struct settings_door *settings_of_door(const struct http_door *d)
{
    return &settings_of(d->http->engine)->doors[d->number];
}

static void take_address(struct api_call *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *peer = info == NULL ? NULL : info->client_addr;
    const void *address = NULL;
    static_assert(API_ADDRESS_MAX >= INET6_ADDRSTRLEN, "an address fits");
    if (peer != NULL && peer->sa_family == AF_INET) {
        address = &((const struct sockaddr_in *)(const void *)peer)->sin_addr;
    } else if (peer != NULL && peer->sa_family == AF_INET6) {
        address = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    }
    if (address != NULL) {
        (void)inet_ntop(peer->sa_family, address, c->address, API_ADDRESS_MAX); /* it fits */
    }
}

void http_caller_take(const struct http_door *d, struct api_call *c)
{
    (void)snprintf(c->who, sizeof(c->who), "%s", d->is_control ? "local" : "loopback");
    c->rights = d->is_control ? TOKEN_ALL : 0;
    take_address(c);
}

bool http_caller_is_own_page(const struct http_door *d, struct api_call *c)
{
    const char *host = header_of(c, "Host"), *origin = header_of(c, "Origin");
    const struct config *now = settings_of(d->http->engine)->config;
    if (d->is_control) {
        return true;
    }
    if (host != NULL && !http_guard_host(slice_of(host), now->hostname)) {
        api_deny(c, DENIAL_ORIGIN,
                 "the Host header must be an IP address, localhost or the daemon's hostname");
        return false;
    }
    if (origin != NULL &&
        !http_guard_origin(slice_of(origin), slice_of(host == NULL ? "" : host))) {
        api_deny(c, DENIAL_ORIGIN, "the request comes from a page of another origin");
        return false;
    }
    return true;
}

/* false: the door wants a token that it knows, and there is none. */
static bool take_grant(struct api_call *c, const struct settings_door *door)
{
    if (door->tokens == NULL) { /* on loopback, or the configuration would be wrong */
        c->rights = door->section->trust_loopback ? TOKEN_ALL : TOKEN_LOOK | TOKEN_INJECT;
        return true;
    }
    const struct token_grant *grant = tokens_check(door->tokens, header_of(c, "Authorization"));
    if (grant == NULL) {
        return false;
    }
    (void)snprintf(c->who, sizeof(c->who), "%s", grant->name);
    c->rights = grant->rights;
    c->tenant = grant->tenant;
    return true;
}

static void check_right(struct api_call *c, const struct settings_door *door)
{
    unsigned needed = api_route_right(c->route);
    if ((c->rights & needed) != needed) {
        if (door->tokens == NULL) {
            api_deny(c, DENIAL_RIGHT,
                     "without a token this door is for looking and injecting only; write "
                     "tokens_file or trust_loopback = yes, or use the control socket");
        } else {
            api_deny(c, DENIAL_RIGHT, "this token is for %s only",
                     c->rights == TOKEN_LOOK ? "looking (GET)" : "injecting mail");
        }
    } else if (needed != 0 && c->tenant.len > 0 && !c->route->is_tenants) {
        api_deny(c, DENIAL_TENANT,
                 "this is about all tenants, and the token is bound to " SLICE_FMT,
                 SLICE_ARG(label_slice(&c->tenant)));
    }
}

void http_caller_check(const struct http_door *d, struct api_call *c)
{
    if (d->is_control) {
        return;
    }
    const struct settings_door *door = settings_of_door(d);
    bool is_known = take_grant(c, door);
    if (!is_known && (c->route == NULL || !c->route->is_open)) {
        c->allow = NULL;
        (void)snprintf(c->who, sizeof(c->who), "nobody");
        api_deny(c, DENIAL_TOKEN, "a valid token is needed: Authorization: Bearer TOKEN");
    } else if (c->route != NULL) {
        check_right(c, door);
    }
}

void http_caller_check_inner(struct api_call *c)
{
    unsigned needed = api_route_right(c->route);
    if (!c->is_from_node) {
        return;
    }
    if ((c->rights & needed) != needed || c->route->reach == API_HERE || api_is_for_nodes(c)) {
        api_deny(c, DENIAL_RIGHT, "nodes do not ask each other for this");
    } else if (c->tenant.len > 0 && !c->route->is_tenants) {
        api_deny(c, DENIAL_TENANT, "this is about all tenants");
    }
}

void http_caller_note(const struct http_door *d, const struct api_call *c)
{
    uint64_t silent;
    if (c->denial == DENIAL_NONE ||
        !denial_count(&d->http->engine->denials, c->denial, clock_mono(), &silent)) {
        return;
    }
    /* Not the path as it came: it is a stranger's text. */
    log_warning("%s: %s%s%s%s was refused to %s from %s (%s)%s", d->name,
                c->route == NULL ? "a request" : c->route->method, c->route == NULL ? "" : " ",
                c->route == NULL ? "" : c->route->path,
                c->tenant.len > 0 ? " of a tenant's token" : "", c->who,
                c->address[0] == '\0' ? "the control socket" : c->address, denial_text(c->denial),
                silent > 0 ? "; more of the kind were not logged" : "");
}
