/* What counts for one receiver: the options of a transport, overlaid by those of the provider that a
 * destination belongs to and by those of its domain. Of each option the narrowest section that sets
 * it counts: domain, provider, transport; of rates and quotas the smallest holds.
 *
 * A table is made once for a configuration whose transports have their numbers. Its policies are
 * shared: one for each transport and provider, made with the table, and one for each transport and
 * provider under which a `domain` section was asked for, made then. They are immutable and live as
 * long as the table, so a site or a destination keeps a pointer for as long as it keeps the settings.
 *
 * Concurrency: any thread asks without a lock. A policy of a domain is made by whoever asks for it
 * first and published by compare-and-swap in front of the domain's list, from which nothing is ever
 * removed; two who make the same one at once keep the one that came first. */
#ifndef ENGINE_POLICY_H
#define ENGINE_POLICY_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/config/config.h"
#include "engine/config/config_option.h"
#include "engine/config/config_origin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_table;
struct router;

/* What a domain inside a provider may have besides what the provider's lanes have: from all sources, by all
 * transports together; count 0: no bound. */
struct policy_bounds {
    struct rate_rule messages, recipients, quota;
};

struct policy {
    uint32_t transport;
    size_t provider;                                                 /* policy_no_provider: none */
    const struct config_receiver *provider_section, *domain_section; /* NULL: none */

    /* What counts for the destination: everything about its connections and deliveries, complete as
     * in a transport. Texts and pools belong to the sections. Rates and quotas in it are the
     * smallest. The level of TLS is policy_tls_level. */
    struct config_transport options;

    /* A provider or domain sets an option of the SMTP client, or the depth of its pipeline: sessions
     * differ from those of the transport. */
    bool has_client_options;

    /* What the lanes of its site have: this policy itself, or that of the transport and provider
     * without the domain. They differ where the domain's options leave the site alone, or where the
     * domain is a provider's. */
    const struct policy *site;
    /* The domain's options shape a lane, and no provider has the domain: it is a site of its own,
     * whatever other domains have its hosts. */
    bool has_own_site;
    /* The domain's options shape a lane, and a provider has the domain: `options` are bounds of this
     * destination beside those of its site. */
    bool is_bounded;
    /* is_bounded: deliveries to the destination that are on their way at a time; 0: no bound. */
    int most_in_flight;
    struct policy_bounds bounds; /* likewise */
};

/* errors   -ENOMEM
 * frees    the caller, with policy_table_free; c outlives it */
MUST_USE int policy_table_new(const struct config *c, struct policy_table **ret);
void policy_table_free(struct policy_table *t); /* accepts NULL */

/* The provider whose mail it is, or policy_no_provider.
 *
 * hosts    names of all hosts that the domain's mail may go to; none: they are not known (yet) */
size_t policy_provider(const struct policy_table *t, struct slice domain, const struct slice *hosts,
                       size_t host_count);
/* What policy_provider answers for none: the count of providers. */
size_t policy_no_provider(const struct policy_table *t);
/* The provider is known by domains alone: its site shares limits, but what one set of hosts said
 * of us is nothing that another one of them said. */
MUST_USE bool policy_is_by_domains(const struct policy_table *t, size_t provider);

/* transport  a number of the table's configuration
 * domain     name of the destination, in any case; one with a port or in brackets has no section
 * returns    NULL: out of memory, which only a domain with a section can lead to
 * cost       a hash of the name; where it has a section, a walk over its few policies */
const struct policy *policy_find(const struct policy_table *t, uint32_t transport, size_t provider,
                                 struct slice domain);

/* The section of a domain, in any case; NULL: it has none. */
const struct config_receiver *policy_domain(const struct policy_table *t, struct slice domain);
/* As they count where a provider has the domain. */
void policy_domain_bounds(const struct config_receiver *domain, struct policy_bounds *ret);

/* That of a destination. One whose nexthop has brackets or a port is no provider's and no domain's.
 *
 * names    dns_hosts_facts.names of its hosts; "" where they are not known
 * returns  as policy_find */
const struct policy *policy_of(const struct policy_table *t, uint32_t transport,
                               struct slice nexthop, struct slice names);

/* The level of TLS of a destination: the domain's, else the route's, else the provider's, else the
 * transport's. Before the hosts are known it is asked for without a provider; that a provider
 * cannot say `dane` or `mta-sts` makes both answers ask the resolver for the same.
 *
 * nexthop    as for router_tls_level */
enum config_tls_level policy_tls_level(const struct router *r, const struct policy *p,
                                       struct slice nexthop);

/* Whose value of an option the policy has. */
struct policy_origin {
    enum config_section section; /* CONFIG_SECTION_TRANSPORT, _PROVIDER or _DOMAIN */
    size_t index;                /* of it; config_origin has the line, or "default" */
};
/* o: a row of transports */
struct policy_origin policy_origin(const struct policy_table *t, const struct policy *p,
                                   const struct config_option *o);

#endif
