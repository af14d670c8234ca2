/* Owns nothing: a function of the configuration and the hosts. Called by outbound connections. */
#include "engine/outbound/tls_policy.h"

#include "dns/hosts.h"
#include "dns/nexthop.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/state/settings.h"

#include <string.h>

static enum tls_level host_tls_level(enum config_tls_level level, const struct dns_hosts *hosts,
                                     const struct dns_host *host)
{
    switch (level) {
    case CONFIG_TLS_NONE:
        return TLS_LEVEL_NONE;
    case CONFIG_TLS_ENCRYPT:
        return TLS_LEVEL_ENCRYPT;
    case CONFIG_TLS_VERIFY:
        return TLS_LEVEL_VERIFY;
    case CONFIG_TLS_DANE:
        if (host->dane == DNS_DANE_RECORDS) {
            return TLS_LEVEL_DANE;
        }
        return host->dane == DNS_DANE_UNUSABLE ? TLS_LEVEL_ENCRYPT : TLS_LEVEL_MAY;
    case CONFIG_TLS_MTA_STS:
        return hosts->policy.len > 0 ? TLS_LEVEL_VERIFY : TLS_LEVEL_MAY;
    case CONFIG_TLS_MAY:
    case CONFIG_TLS_OF_TRANSPORT:
    default:
        return TLS_LEVEL_MAY;
    }
}

enum tls_level tls_policy_level(const struct config_smtp *smtp, enum config_tls_level level,
                                const struct dns_hosts *hosts, uint32_t host)
{
    enum tls_level wanted = host_tls_level(level, hosts, &hosts->list[host]);
    bool is_secret = smtp->smtp_auth_user != NULL && smtp->smtp_auth_requires_tls;
    return wanted == TLS_LEVEL_MAY && is_secret ? TLS_LEVEL_ENCRYPT : wanted;
}

bool tls_policy_choose(const struct settings *s, const struct tls_policy_peer *peer,
                       bool is_optional, bool is_broken, struct tls_policy *ret)
{
    enum config_tls_level level = policy_tls_level(s->router, peer->options, peer->destination);
    const struct config_smtp *smtp = &peer->options->options.smtp;
    ret->level = tls_policy_level(smtp, level, peer->hosts, peer->host);
    enum tls_level wanted = ret->level;
    if (is_optional && (level == CONFIG_TLS_DANE || level == CONFIG_TLS_MTA_STS)) {
        ret->level = tls_policy_level(smtp, CONFIG_TLS_MAY, peer->hosts, peer->host);
    }
    bool is_less = ret->level != wanted;
    if (ret->level == TLS_LEVEL_MAY && is_broken) {
        ret->level = TLS_LEVEL_NONE;
    }
    if (ret->level == TLS_LEVEL_NONE) {
        ret->client = SMTP_CLIENT_TLS_NONE;
    } else {
        ret->client = ret->level == TLS_LEVEL_MAY ? SMTP_CLIENT_TLS_MAY : SMTP_CLIENT_TLS_ENCRYPT;
    }
    return is_less;
}

static const char *terminated(struct slice name, char ret[static DNS_NAME_MAX + 1])
{
    size_t len = name.len < DNS_NAME_MAX ? name.len : DNS_NAME_MAX;
    memcpy(ret, name.data, len);
    ret[len] = '\0';
    return ret;
}

struct ssl_st *tls_policy_connection(const struct settings *s, const struct tls_policy_peer *peer,
                                     const struct tls_policy *p, struct tls_session_cache *cache)
{
    const struct dns_host *h = &peer->hosts->list[peer->host];
    bool is_dane = p->level == TLS_LEVEL_DANE;
    struct tls_tlsa tlsa[DNS_RECORDS_MAX];
    struct sockaddr_storage address;
    struct nexthop hop = {.port = 0};
    char name[DNS_NAME_MAX + 1];
    struct tls_peer demands = {
        .host = terminated(is_dane ? dane_base(h->tlsa) : h->name, name),
        .address_len = ip_to_sockaddr(&h->ip, h->port, &address),
        .address = (const struct sockaddr *)&address,
        .level = p->level,
        .sts_id = p->level == TLS_LEVEL_VERIFY ? peer->hosts->policy : SLICE(""),
    };
    if (is_dane) {
        /* RFC 7672 section 3.2.2: the domain of the mail is as good as the host's own name. */
        if (nexthop_parse(peer->destination, 0, &hop) == 0 && hop.name.len > 0) {
            demands.second_name = hop.name.text;
        }
        for (uint32_t i = 0; i < h->tlsa->count; i++) {
            const struct dns_tlsa *t = &h->tlsa->tlsa[i];
            tlsa[i] = (struct tls_tlsa){t->usage, t->selector, t->matching, t->data};
        }
        demands.tlsa = tlsa;
        demands.tlsa_count = h->tlsa->count;
    }
    return tls_client_connection(s->tls_clients[peer->options->transport], &demands, cache);
}

const char *tls_policy_judge(const struct tls_policy *p, const struct tls_facts *facts)
{
    bool is_met = facts->is_proved && (p->level != TLS_LEVEL_VERIFY || facts->is_verified);
    return is_met ? NULL : "Server certificate not verified";
}
