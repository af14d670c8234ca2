/* Owns the life of a configuration snapshot and the questions asked of it. Called by everybody;
 * must not read files. */
#include "engine/config/config.h"

#include "engine/config/config_option.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_value.h"

#include <stdlib.h>
#include <string.h>

static void clear_section(enum config_section section, void *base)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (config_option_is_in(o, section)) {
            config_value_clear(o, (char *)base + o->offset);
        }
    }
}

void config_free(struct config *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->webhook_count; i++) {
        free(c->webhooks[i].url);
        clear_section(CONFIG_SECTION_WEBHOOK, &c->webhooks[i]);
    }
    for (size_t i = 0; i < c->csv_count; i++) {
        free(c->csvs[i].path);
        clear_section(CONFIG_SECTION_CSV, &c->csvs[i]);
    }
    for (size_t i = 0; i < c->listener_count; i++) {
        free(c->listeners[i].name);
        clear_section(CONFIG_SECTION_LISTENER, &c->listeners[i]);
    }
    for (size_t i = 0; i < c->http_door_count; i++) {
        free(c->http_doors[i].name);
        clear_section(CONFIG_SECTION_HTTP, &c->http_doors[i]);
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        free(c->tenants[i].name);
        clear_section(CONFIG_SECTION_TENANT, &c->tenants[i]);
    }
    for (size_t i = 0; i < c->dkim_count; i++) {
        free(c->dkims[i].name);
        clear_section(CONFIG_SECTION_DKIM, &c->dkims[i]);
    }
    for (size_t i = 0; i < c->suppression_count; i++) {
        free(c->suppressions[i].name);
        clear_section(CONFIG_SECTION_SUPPRESSION, &c->suppressions[i]);
    }
    for (size_t i = 0; i < c->egress_source_count; i++) {
        free(c->egress_sources[i].name);
        free(c->egress_sources[i].warmup);
        clear_section(CONFIG_SECTION_SOURCE, &c->egress_sources[i]);
    }
    for (size_t i = 0; i < c->egress_pool_count; i++) {
        free(c->egress_pools[i].name);
        free(c->egress_pools[i].sources);
        free(c->egress_pools[i].list);
        clear_section(CONFIG_SECTION_POOL, &c->egress_pools[i]);
    }
    for (size_t i = 0; i < c->transport_count; i++) {
        free(c->transports[i].name);
        clear_section(CONFIG_SECTION_TRANSPORT, &c->transports[i]);
    }
    for (size_t i = 0; i < c->provider_count; i++) {
        free(c->providers[i].options.name);
        clear_section(CONFIG_SECTION_PROVIDER, &c->providers[i]);
    }
    for (size_t i = 0; i < c->domain_count; i++) {
        free(c->domains[i].options.name);
        clear_section(CONFIG_SECTION_DOMAIN, &c->domains[i]);
    }
    for (size_t i = 0; i < c->route_count; i++) {
        free(c->routes[i].pattern);
        clear_section(CONFIG_SECTION_ROUTE, &c->routes[i]);
    }
    free(c->webhooks);
    free(c->csvs);
    free(c->listeners);
    free(c->http_doors);
    free(c->tenants);
    free(c->dkims);
    free(c->tenant_order);
    free(c->suppressions);
    free(c->suppression_order);
    free(c->egress_sources);
    free(c->egress_pools);
    free(c->transports);
    free(c->providers);
    free(c->domains);
    free(c->routes);
    clear_section(CONFIG_SECTION_DNS, &c->dns);
    clear_section(CONFIG_SECTION_SPOOL, c);
    clear_section(CONFIG_SECTION_EVENT_LOG, c);
    clear_section(CONFIG_SECTION_CONTROL, c);
    clear_section(CONFIG_SECTION_REPLIES, c);
    clear_section(CONFIG_SECTION_TLS_REPORT, c);
    clear_section(CONFIG_SECTION_CLUSTER, c);
    clear_section(CONFIG_SECTION_GLOBAL, c);
    config_origins_free(c->origins);
    free(c->path);
    free(c);
}

static bool network_has(const struct config_network *n, const uint8_t address[16])
{
    int whole = n->bits / 8;
    int rest = n->bits % 8;
    if (memcmp(n->address, address, (size_t)whole) != 0) {
        return false;
    }
    uint8_t mask = (uint8_t)(0xff00 >> rest);
    return rest == 0 || ((n->address[whole] ^ address[whole]) & mask) == 0;
}

bool config_listener_trusts(const struct config_listener *l, const struct sockaddr *peer)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint8_t address[16];
    if (peer->sa_family == AF_UNIX) {
        return true;
    }
    if (peer->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, peer, sizeof(v4));
        memcpy(address, mapped, sizeof(mapped));
        memcpy(address + sizeof(mapped), &v4.sin_addr, 4);
    } else if (peer->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, peer, sizeof(v6));
        memcpy(address, &v6.sin6_addr, sizeof(address));
    } else {
        return false;
    }
    for (size_t i = 0; i < l->relay_from.count; i++) {
        if (network_has(&l->relay_from.items[i], address)) {
            return true;
        }
    }
    return false;
}

size_t config_transport_room(const struct config *started)
{
    enum { SPARE = 64 }; /* names that may come beside those of the start */
    return started->transport_count + SPARE;
}

usec_t config_lane_memory(const struct config *c)
{
    usec_t most = 0;
    for (size_t i = 0; i < c->transport_count; i++) {
        usec_t span = c->transports[i].sched.lane_memory;
        most = span > most ? span : most;
    }
    return most;
}

size_t config_transport_find(const struct config *c, struct slice name)
{
    size_t i = 0;
    while (i < c->transport_count && !slice_eq(slice_of(c->transports[i].name), name)) {
        i++;
    }
    return i;
}

bool config_has_tls_level(const struct config *c, enum config_tls_level level)
{
    for (size_t i = 0; i < c->transport_count; i++) {
        if (c->transports[i].smtp.smtp_tls_security_level == level) {
            return true;
        }
    }
    for (size_t i = 0; i < c->route_count; i++) {
        if (c->routes[i].smtp_tls_security_level == level) {
            return true;
        }
    }
    for (size_t i = 0; i < c->domain_count;
         i++) { /* one that sets none has that of zeroed memory */
        if (level != CONFIG_TLS_NONE &&
            c->domains[i].options.smtp.smtp_tls_security_level == level) {
            return true;
        }
    }
    return false;
}
