/* Owns nothing: turns settings into what dns/ is told. Called when a worker is made, by workers and
 * scheduler threads when settings have changed, and by main to try them. */
#include "engine/outbound/dns_setup.h"

#include "base/slice.h"
#include "dns/cache.h"
#include "dns/question.h"
#include "engine/config/config.h"
#include "engine/config/config_change.h"
#include "engine/state/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_MAX = 256, SERVER_TEXT = 80 };

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

/* What a resolver is told, with the lists that it copies. */
struct setup {
    struct dns_config config;
    const char **servers;
    struct mx_own *own;
};

static void setup_fini(struct setup *s)
{
    free(s->servers);
    free(s->own);
}

/* errors: -ENOMEM, -EINVAL no address; setup_fini is due all the same */
static int setup_init(struct setup *s, const struct settings *settings)
{
    const struct config *c = settings->config;
    *s = (struct setup){.own = calloc(OWN_MAX, sizeof(*s->own))};
    int err = s->own == NULL ? -ENOMEM : list_servers(&c->dns.servers, &s->servers);
    if (err != 0) {
        return err;
    }
    struct dns_config *config = &s->config;
    dns_config_defaults(config);
    config->servers = s->servers;
    config->server_count = (uint32_t)c->dns.servers.count;
    config->query_timeout = c->dns.timeout;
    config->query_tries = c->dns.tries;
    config->families = families(c);
    config->own = s->own;
    config->own_count = own_addresses(c, s->own);
    config->allow_loopback = c->allow_loopback;
    config->trust_ad = c->dns.trust_ad;
    config->seed = dns_cache_hash(settings->dns_cache, SLICE(""), DNS_TYPE_MX); /* all workers' */
    return 0;
}

int dns_setup_resolver(const struct settings *settings, const struct resolver_hooks *hooks,
                       struct resolver **ret)
{
    struct setup s;
    int err = setup_init(&s, settings);
    err = err != 0 ? err : resolver_new(&s.config, settings->dns_cache, hooks, ret);
    setup_fini(&s);
    return err;
}

int dns_setup_reader(const struct settings *settings, struct resolver **ret)
{
    struct setup s;
    int err = setup_init(&s, settings);
    err = err != 0 ? err : resolver_new_reader(&s.config, settings->dns_cache, ret);
    setup_fini(&s);
    return err;
}

int dns_setup_question(const struct settings *settings, struct slice name, enum dns_type type,
                       struct dns_rrset **ret)
{
    static const usec_t question_time = 20 * USEC_PER_SEC;
    struct setup s;
    int err = setup_init(&s, settings);
    if (err == 0) {
        s.config.deadline = s.config.deadline < question_time ? s.config.deadline : question_time;
        err = dns_question_ask(&s.config, name, type, ret);
    }
    setup_fini(&s);
    return err;
}

static bool is_same_setup(const struct settings *a, const struct settings *b)
{
    return a->dns_cache == b->dns_cache && a->config->allow_loopback == b->config->allow_loopback &&
           families(a->config) == families(b->config) &&
           config_change_is_same_section(CONFIG_SECTION_DNS, &a->config->dns, &b->config->dns);
}

int dns_setup_follow(struct resolver *r, const struct settings *before, const struct settings *now)
{
    struct setup s;
    if (is_same_setup(before, now)) {
        return 0;
    }
    int err = setup_init(&s, now);
    err = err != 0 ? err : resolver_reconfigure(r, &s.config, now->dns_cache);
    setup_fini(&s);
    return err;
}

/* The sockets of a resolver that is never asked. */
static void ignore_socket(void *ctx, int fd, bool want_read, bool want_write)
{
    (void)ctx;
    (void)fd;
    (void)want_read;
    (void)want_write;
}

int dns_setup_try(const struct settings *settings, bool *ret_trusts_ad)
{
    const struct resolver_hooks hooks = {.watch = ignore_socket};
    struct resolver *r = NULL;
    int err = dns_setup_resolver(settings, &hooks, &r);
    if (err == 0) {
        *ret_trusts_ad = resolver_trusts_ad(r);
        resolver_free(r);
    }
    return err;
}

int dns_setup_ask(const struct config *config, struct slice name, enum dns_type type,
                  struct dns_rrset **ret)
{
    const char **servers;
    struct dns_config how;
    int err = list_servers(&config->dns.servers, &servers);
    if (err != 0) {
        return err;
    }
    dns_config_defaults(&how);
    how.servers = servers;
    how.server_count = (uint32_t)config->dns.servers.count;
    how.query_timeout = config->dns.timeout;
    how.query_tries = config->dns.tries;
    how.trust_ad = config->dns.trust_ad;
    err = dns_question_ask(&how, name, type, ret);
    free(servers);
    return err;
}
