/* Two configurations of one daemon: the one it was started with and one that a reload brings. What
 * of the second it cannot take over, and what changes how a transport connects. Pure but for
 * allocation. */
#ifndef ENGINE_CONFIG_CHANGE_H
#define ENGINE_CONFIG_CHANGE_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/config/config_option.h"

#include <stdbool.h>
#include <stddef.h>

/* Hears of each difference that only a restart brings about.
 *
 * option   "workers", "spool.path", "listener 127.0.0.1:25", "transport smtp.inet_protocols"
 * at       "FILE:LINE" in the fresh file; of what is gone from it, in the old one */
struct config_change_sink {
    void (*tell)(void *ctx, const char *option, const char *at, const char *why);
    void *ctx;
};
void config_change_list(const struct config *started, const struct config *fresh,
                        const struct config_change_sink *sink);

/* The same about each webhook and CSV file, where the event log that they would read is not there
 * before a restart. */
void config_change_list_feeds(const struct config *fresh, const struct config_change_sink *sink);

/* Whether two sections of this kind say the same. a, b: as config_section_at gives them */
MUST_USE bool config_change_is_same_section(enum config_section section, const void *a,
                                            const void *b);

/* Give the transports of `fresh` their numbers (settings.h says what that is): those that `before`
 * has keep theirs, those that are new stand behind. One that `before` has and `fresh` has not stays
 * at its number as a copy that is_gone. Routes follow.
 *
 * room       numbers that there are at most
 * ret_text   why it cannot be
 * errors     ERR_LIMIT: too many names, -ENOMEM */
#define CONFIG_CHANGE_TEXT_MAX 4600
MUST_USE int config_change_arrange(const struct config *before, struct config *fresh, size_t room,
                                   char ret_text[static CONFIG_CHANGE_TEXT_MAX]);

/* What providers and domains say otherwise in the second than in the first. */
struct config_receiver_change {
    bool has_members; /* which destinations are one site, or a provider's */
    bool has_ways;    /* what a destination is told with its hosts: options of the SMTP client, and
                       * of its own deliveries */
    bool has_limits;  /* any other option: windows, rates, pauses */
};
/* errors: -ENOMEM */
MUST_USE int config_change_receivers(const struct config *a, const struct config *b,
                                     struct config_receiver_change *ret);

/* Whether some rate or quota of a tenant, a source or a transport is another one in the second, or some
 * limit of a provider or a domain, as config_change_receivers says; or other sources send. */
MUST_USE bool config_change_has_rates(const struct config *a, const struct config *b,
                                      const struct config_receiver_change *receivers);

/* Whether the transport connects by the second as by the first: client options, sources, and the
 * TLS levels of its destinations. Passwords and files are not looked into; of providers and domains
 * config_change_receivers tells.
 *
 * transport  has the same index in both */
MUST_USE bool config_change_is_same_way(const struct config *a, const struct config *b,
                                        size_t transport);

#endif
