/* Resolvers, and readers of what they have found, as the settings and this machine's addresses want them. */
#ifndef ENGINE_DNS_SETUP_H
#define ENGINE_DNS_SETUP_H

#include "base/attr.h"
#include "dns/question.h"
#include "dns/resolver.h"
#include "dns/rrset.h"

struct config;
struct settings;

/* A worker's resolver. errors: as resolver_new */
MUST_USE int dns_setup_resolver(const struct settings *settings, const struct resolver_hooks *hooks,
                                struct resolver **ret);
/* A scheduler thread's reader. errors: as resolver_new_reader */
MUST_USE int dns_setup_reader(const struct settings *settings, struct resolver **ret);
/* A resolver that was made by, or followed, the first settings goes on by the others. Does nothing
 * where they say the same of it. errors: as resolver_new, all is as before */
MUST_USE int dns_setup_follow(struct resolver *r, const struct settings *before,
                              const struct settings *now);
/* One question, waited for as dns_question_ask, 20 s at most, by a thread that has no resolver; the
 * settings are the caller's reference. errors: as dns_question_ask */
MUST_USE int dns_setup_question(const struct settings *settings, struct slice name,
                                enum dns_type type, struct dns_rrset **ret);
/* Whether a resolver can be made at all, and whether its answers can be authentic. Any thread.
 * errors: as resolver_new */
MUST_USE int dns_setup_try(const struct settings *settings, bool *ret_trusts_ad);
/* Ask the name servers of a configuration one thing, and wait. Thread: as dns_question_ask.
 * errors: as dns_question_ask */
MUST_USE int dns_setup_ask(const struct config *config, struct slice name, enum dns_type type,
                           struct dns_rrset **ret);

#endif
