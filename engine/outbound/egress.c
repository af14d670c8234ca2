/* Owns nothing. Called by the outbound connections of its worker; knows nothing of what is said over
 * them. */
#include "engine/outbound/egress.h"

#include "base/clock.h"
#include "base/error.h"
#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/order/order_book.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "net/stream.h"

#include <errno.h>
#include <stdio.h>

static bool reaches(const struct config_egress_source *s, int family)
{
    if (s == NULL || (s->address.family == 0 && s->address6.family == 0)) {
        return true;
    }
    return (family == 4 ? s->address.family : s->address6.family) != 0;
}

bool egress_find(const struct settings *s, size_t transport, uint32_t id, int family,
                 struct egress *ret)
{
    const struct transport_sources *sources = &s->sources->transports[transport];
    uint32_t place = source_table_place(sources, id);
    if (place == sources->count || !reaches(sources->sections[place], family)) {
        return false;
    }
    *ret = (struct egress){sources->sections[place], place};
    return true;
}

bool egress_is_closed(const struct order_book *orders, const struct config_egress_source *s)
{
    /* The clock is asked only when there is such an order. */
    return orders != NULL && s != NULL && order_book_has_source_orders(orders) &&
           order_book_bars_source(orders, slice_of(s->name), clock_wall());
}

const struct config_address *egress_proxy(const struct egress *c)
{
    if (c->source == NULL) {
        return NULL;
    }
    if (c->source->haproxy.len > 0) {
        return &c->source->haproxy;
    }
    return c->source->socks5.len > 0 ? &c->source->socks5 : NULL;
}

int egress_connect(const struct egress *c, const struct dns_host *target, struct stream *s)
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

struct ip egress_address(const struct egress *c, const struct dns_host *target,
                         const struct stream *s)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);
    struct ip ip = {.family = 0};
    uint16_t port;
    if (c->source != NULL) {
        ip = target->ip.family == 6 ? c->source->address6 : c->source->address;
    }
    if (ip.family == 0 && egress_proxy(c) == NULL && stream_is_open(s) &&
        getsockname(s->fd, (struct sockaddr *)&local, &len) == 0 &&
        ip_from_sockaddr(&local, &ip, &port) != 0) {
        ip = (struct ip){.family = 0};
    }
    return ip;
}

bool egress_is_own_failure(const struct egress *c, int err)
{
    return egress_proxy(c) != NULL || err == -EADDRNOTAVAIL || err == -EMFILE || err == -ENFILE ||
           err == -ENOBUFS || err == -ENOMEM;
}

const char *egress_error_text(int err)
{
    return err == -ETIMEDOUT ? "Connection timed out" : err_str(err);
}

const char *egress_describe(const struct egress *c, char text[static EGRESS_TEXT_MAX])
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

struct slice egress_source_name(const struct egress *c)
{
    return c->source == NULL ? SLICE("") : slice_of(c->source->name);
}
