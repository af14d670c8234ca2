/* Owns the turns of the sources, and what a source means for a socket. Called by the outbound
 * connections of its worker; knows nothing of what is said over them. */
#include "engine/outbound/egress.h"

#include "base/clock.h"
#include "base/error.h"
#include "dns/hosts.h"
#include "dns/mx.h"
#include "engine/config/config.h"
#include "engine/order/order_book.h"
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct egress {
    const struct config_egress_pool *pools; /* only to tell which one is meant */
    size_t count;
    const struct order_book *orders; /* or NULL */
    /* For each pool, IPv4 then IPv6: the credit of each source (egress.h); the sum of a pool is 0
     * after each choice. */
    int64_t *(*gains)[2];
};

int egress_new(const struct config *config, const struct order_book *orders, struct egress **ret)
{
    struct egress *e = calloc(1, sizeof(*e));
    size_t count = config->egress_pool_count;
    if (e == NULL) {
        return -ENOMEM;
    }
    e->pools = config->egress_pools;
    e->count = count;
    e->orders = orders;
    e->gains = calloc(count == 0 ? 1 : count, sizeof(*e->gains));
    bool is_complete = e->gains != NULL;
    for (size_t i = 0; i < 2 * count && is_complete; i++) {
        int64_t **gains = &e->gains[i / 2][i % 2];
        *gains = calloc(config->egress_pools[i / 2].source_names.count, sizeof(**gains));
        is_complete = *gains != NULL;
    }
    if (!is_complete) {
        egress_free(e);
        return -ENOMEM;
    }
    *ret = e;
    return 0;
}

void egress_free(struct egress *e)
{
    if (e == NULL) {
        return;
    }
    for (size_t i = 0; e->gains != NULL && i < 2 * e->count; i++) {
        free(e->gains[i / 2][i % 2]);
    }
    free(e->gains);
    free(e);
}

static bool reaches(const struct config_egress_source *s, int family)
{
    bool has_any = s->address.family != 0 || s->address6.family != 0;
    return !has_any || (family == 4 ? s->address.family : s->address6.family) != 0;
}

bool egress_can_reach(const struct config_egress_pool *pool, int family)
{
    for (size_t i = 0; pool != NULL && i < pool->source_names.count; i++) {
        if (pool->weights.items[i] > 0 && reaches(pool->sources[i], family)) {
            return true;
        }
    }
    return pool == NULL;
}

struct dns_hosts *egress_reachable(const struct config_egress_pool *pool, struct dns_hosts *hosts)
{
    bool keep[MX_TARGETS_MAX];
    uint32_t count = 0;
    assert(hosts->count <= MX_TARGETS_MAX);
    for (uint32_t i = 0; i < hosts->count; i++) {
        keep[i] = egress_can_reach(pool, hosts->list[i].ip.family);
        count += keep[i];
    }
    if (count == 0 || count == hosts->count) {
        return hosts;
    }
    struct dns_hosts *fewer = dns_hosts_restrict(hosts, keep, hosts->policy);
    if (fewer == NULL) {
        return hosts; /* out of memory: hosts that cannot be reached cost an attempt each */
    }
    dns_hosts_put(hosts);
    return fewer;
}

bool egress_is_closed(const struct order_book *orders, const struct config_egress_source *s)
{
    /* The clock is asked only when there is such an order. */
    return orders != NULL && s != NULL && order_book_has_source_orders(orders) &&
           order_book_bars_source(orders, slice_of(s->name), clock_wall());
}

bool egress_choose(struct egress *e, const struct config_egress_pool *pool, int family,
                   struct egress_choice *ret)
{
    *ret = (struct egress_choice){NULL, 0};
    if (pool == NULL) {
        return true;
    }
    int64_t *gains = e->gains[pool - e->pools][family == 4 ? 0 : 1];
    int64_t sum = 0;
    for (uint32_t i = 0; i < pool->source_names.count; i++) {
        if (pool->weights.items[i] == 0 || !reaches(pool->sources[i], family) ||
            egress_is_closed(e->orders, pool->sources[i])) {
            continue;
        }
        gains[i] += pool->weights.items[i];
        sum += pool->weights.items[i];
        if (ret->source == NULL || gains[i] > gains[ret->slot]) {
            *ret = (struct egress_choice){pool->sources[i], i};
        }
    }
    if (ret->source == NULL) {
        return false;
    }
    gains[ret->slot] -= sum;
    return true;
}

const struct config_address *egress_proxy(const struct egress_choice *c)
{
    if (c->source == NULL) {
        return NULL;
    }
    if (c->source->haproxy.len > 0) {
        return &c->source->haproxy;
    }
    return c->source->socks5.len > 0 ? &c->source->socks5 : NULL;
}

int egress_connect(const struct egress_choice *c, const struct dns_host *target, struct stream *s)
{
    struct sockaddr_storage peer, local;
    socklen_t local_len = 0;
    const struct config_address *proxy = egress_proxy(c);
    if (proxy != NULL) {
        /* The source's addresses are the proxy's: here the system chooses. */
        return stream_connect(s, (const struct sockaddr *)&proxy->address, proxy->len, NULL, 0);
    }
    socklen_t peer_len = ip_to_sockaddr(&target->ip, target->port, &peer);
    if (c->source != NULL) {
        const struct ip *from = target->ip.family == 4 ? &c->source->address : &c->source->address6;
        local_len = from->family == 0 ? 0 : ip_to_sockaddr(from, 0, &local);
    }
    return stream_connect(s, (const struct sockaddr *)&peer, peer_len,
                          local_len > 0 ? (const struct sockaddr *)&local : NULL, local_len);
}

bool egress_is_own_failure(const struct egress_choice *c, int err)
{
    return egress_proxy(c) != NULL || err == ERR_MISSING || err == -EADDRNOTAVAIL ||
           err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

const char *egress_error_text(int err)
{
    if (err == ERR_MISSING) {
        return "no source of the pool that may be used reaches addresses of this family";
    }
    return err == -ETIMEDOUT ? "Connection timed out" : err_str(err);
}

const char *egress_describe(const struct egress_choice *c, char text[static EGRESS_TEXT_MAX])
{
    const struct config_address *proxy = egress_proxy(c);
    char address[IP_TEXT_MAX];
    struct ip ip;
    uint16_t port;
    text[0] = '\0';
    if (c->source == NULL) {
        return text;
    }
    int len = snprintf(text, EGRESS_TEXT_MAX, " from source \"%s\"", c->source->name);
    if (proxy != NULL && ip_from_sockaddr(&proxy->address, &ip, &port) == 0) {
        (void)snprintf(text + len, EGRESS_TEXT_MAX - (size_t)len,
                       ip.family == 6 ? " through [%s]:%u" : " through %s:%u",
                       ip_text(&ip, address), (unsigned)port);
    }
    return text;
}

struct slice egress_source_name(const struct egress_choice *c)
{
    return c->source == NULL ? SLICE("") : slice_of(c->source->name);
}
