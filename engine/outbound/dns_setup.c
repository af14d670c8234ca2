#include "engine/outbound/dns_setup.h"

#include "base/hash.h"
#include "engine/config/config.h"
#include "engine/state/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_MAX = 256, SERVER_TEXT = 80 };

struct dns_cache *dns_setup_cache(const struct engine *e)
{
    const struct config_dns *c = &e->config->dns;
    struct dns_cache_config config;
    dns_cache_config_defaults(&config);
    config.entry_limit = (uint32_t)c->cache_size;
    config.positive_ttl_max = c->cache_max_ttl;
    if (c->cache_negative_ttl < config.negative_ttl_max) {
        config.negative_ttl_max = c->cache_negative_ttl;
    }
    if (config.negative_ttl_min > config.negative_ttl_max) {
        config.negative_ttl_min = config.negative_ttl_max;
    }
    config.hash_seed = hash_random_seed();
    return dns_cache_new(&config);
}

/* Where this machine itself takes mail: its interfaces at the SMTP port, its listeners at theirs.
 */
static uint32_t own_addresses(const struct config *config, struct mx_own own[OWN_MAX])
{
    struct ifaddrs *list, *at;
    uint32_t count = 0;
    uint16_t port;
    if (getifaddrs(&list) == 0) {
        for (at = list; at != NULL && count < OWN_MAX; at = at->ifa_next) {
            struct sockaddr_storage address = {0};
            if (at->ifa_addr == NULL) {
                continue;
            }
            if (at->ifa_addr->sa_family == AF_INET) {
                memcpy(&address, at->ifa_addr, sizeof(struct sockaddr_in));
            } else if (at->ifa_addr->sa_family == AF_INET6) {
                memcpy(&address, at->ifa_addr, sizeof(struct sockaddr_in6));
            } else {
                continue;
            }
            if (ip_from_sockaddr(&address, &own[count].ip, &port) == 0) {
                own[count++].port = 0;
            }
        }
        freeifaddrs(list);
    }
    for (size_t i = 0; i < config->listener_count && count < OWN_MAX; i++) {
        struct mx_own *o = &own[count];
        if (ip_from_sockaddr(&config->listeners[i].bind.address, &o->ip, &o->port) == 0 &&
            ip_scope(&o->ip) != IP_UNSPECIFIED) {
            count++;
        }
    }
    return count;
}

static enum dns_families families(const struct config *config)
{
    /* One resolver serves all transports of a worker: it asks for what any of them may use. */
    bool v4 = false, v6 = false;
    for (size_t i = 0; i < config->transport_count; i++) {
        enum config_protocols p = config->transports[i].smtp.inet_protocols;
        v4 = v4 || p != CONFIG_PROTOCOLS_IPV6;
        v6 = v6 || p != CONFIG_PROTOCOLS_IPV4;
    }
    if (v4 && v6) {
        return DNS_FAMILIES_ALL;
    }
    return v6 ? DNS_FAMILIES_IPV6 : DNS_FAMILIES_IPV4;
}

/* One allocation: the pointers, then what they point to. errors: -ENOMEM, -EINVAL no address */
static int list_servers(const struct config_addresses *list, const char ***ret)
{
    const char **servers = calloc(list->count + 1, sizeof(*servers) + SERVER_TEXT);
    if (servers == NULL) {
        return -ENOMEM;
    }
    char *text = (char *)(servers + list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        const struct config_address *a = &list->items[i];
        char host[INET6_ADDRSTRLEN], port[8];
        if (getnameinfo((const struct sockaddr *)&a->address, a->len, host, sizeof(host), port,
                        sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
            free(servers);
            return -EINVAL;
        }
        (void)snprintf(text, SERVER_TEXT, a->address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                       host, port);
        servers[i] = text;
        text += SERVER_TEXT;
    }
    *ret = servers;
    return 0;
}

int dns_setup_resolver(const struct engine *e, const struct resolver_hooks *hooks,
                       struct resolver **ret)
{
    const struct config *c = e->config;
    struct mx_own *own = calloc(OWN_MAX, sizeof(*own));
    const char **servers = NULL;
    struct dns_config config;
    int err = own == NULL ? -ENOMEM : list_servers(&c->dns.servers, &servers);
    if (err != 0) {
        free(own);
        return err;
    }
    dns_config_defaults(&config);
    config.servers = servers;
    config.server_count = (uint32_t)c->dns.servers.count;
    config.query_timeout = c->dns.timeout;
    config.query_tries = c->dns.tries;
    config.families = families(c);
    config.own = own;
    config.own_count = own_addresses(c, own);
    config.allow_loopback = c->allow_loopback;
    config.trust_ad = c->dns.trust_ad;
    config.seed = hash_random_seed();
    err = resolver_new(&config, e->dns_cache, hooks, ret);
    free(servers);
    free(own);
    return err;
}
