/* Which receiver a destination's mail goes to, as the core is told: the site whose windows it
 * shares, and the numbers by which the core knows whether a connection that was opened for another
 * destination of the site may carry its mail.
 *
 * A site is, of what holds first: the destination itself where the transport says site_rollup = no or
 * its `domain` section says so ("domain:NAME"); the nexthop where it has brackets ("[host]:587"); its
 * provider ("provider:NAME"), and where that is known by domains alone, a set of hosts of it
 * ("provider:NAME/mx1.example.com"); the set of hosts that the MX records name in their best preference
 * ("mx1.example.com,mx2.example.com"), with the port when the nexthop names one; a domain without MX
 * records is its own only host. No host has a name with a colon, so nobody can name his host so that
 * it is another's provider.
 *
 * A number of a text is 32 bits of a hash that is keyed at start. Only numbers of hosts that have
 * the same address, or of destinations of one site, are ever compared; two texts that differ have
 * the same one once in four thousand million such pairs, and nobody outside can look for them.
 * So nothing has to be remembered for as long as connections live.
 *
 * Pure but for the settings it reads. Called by scheduler threads. */
#ifndef ENGINE_RECEIVER_H
#define ENGINE_RECEIVER_H

#include "base/slice.h"
#include "sched/sched.h"

#include <stdint.h>

struct config;
struct dns_hosts;
struct history;
struct policy;
struct resolution;
struct settings;

#define RECEIVER_SITE_MAX 800 /* bytes of a site's name; with more a destination is on its own */

struct receiver_question {
    const struct settings *settings; /* by which the transport connects: settings_for */
    uint32_t transport;
    struct slice destination, nexthop; /* as sched_destination_name, sched_destination_nexthop */
    const struct dns_hosts *hosts;
    bool stands_apart; /* it is a site of its own, whoever has the same hosts */
};

struct receiver {
    const struct policy *options; /* what counts for the destination; NULL: out of memory */
    char site[RECEIVER_SITE_MAX];
    size_t site_len; /* 0: it has none */
    uint32_t tls;    /* what the destination demands of TLS; sched_hosts_result.tls */
    bool has_terms;  /* a provider or domain says what counts for the destination */
    struct sched_terms terms;
};

/* seed         the same for all questions about one core
 * ret_servers  [hosts->count] of these hosts: their `name` is set, to a number of the host's name and
 *              of what TLS judges it by */
void receiver_find(const struct receiver_question *q, uint64_t seed, struct receiver *ret,
                   struct sched_server *ret_servers);

/* The same for hosts that were found. */
void receiver_of(const struct settings *by, const struct resolution *r, bool stands_apart,
                 uint64_t seed, struct receiver *ret, struct sched_server *ret_servers);

/* Its destinations have the same hosts, and no section of the configuration joins them: one of them may
 * stand apart. */
MUST_USE bool receiver_is_by_hosts(struct slice site);

/* Tell the core what the provider or the domain says of the site, behind sched_resolved. */
void receiver_configure(struct sched *s, const struct receiver *r, usec_t now);
/* The same for all sites that it knows, by other settings. */
void receiver_configure_all(struct sched *s, const struct settings *by, uint32_t transport,
                            usec_t now);

/* What the lanes of a site that the core knows have, by these settings; NULL: nothing is known of the
 * transport. */
const struct policy *receiver_policy(const struct settings *by, uint32_t transport,
                                     struct slice site);

/* The provider whose site it is, or the count of providers. */
size_t receiver_provider(const struct config *c, struct slice site);

/* The site that a destination was found to belong to, as a record of a history: what was learned of it
 * is its site's, also when its mail is gone. */
struct receiver_place {
    uint64_t transport;
    char destination[64]; /* cut when longer */
    char site[248];       /* longer ones are not recorded */
};
void receiver_note(struct history *places, const struct resolution *r,
                   const struct receiver *receiver);

/* The names under which struct limits has the lanes of a site: what is configured for a provider counts
 * for all of it, what one set of hosts said for that set alone.
 *
 * ret_hosts  "" but of a provider that its domains alone name */
void receiver_limits(struct slice site, struct slice *ret_name, struct slice *ret_hosts);

#endif
