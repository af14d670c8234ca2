/* One question to name servers by a thread that has nothing else to do than wait for the answer.
 *
 * For commands and threads of their own; a worker's loop asks through its resolver. Nothing is
 * shared: each question makes and frees its own channel. */
#ifndef DNS_QUESTION_H
#define DNS_QUESTION_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "dns/dns_config.h"
#include "dns/rrset.h"

/* Ask for the records of a name and wait. Thread: registered with RCU and online; it is offline
 * while it waits.
 *
 * config    of it only servers, query_timeout, query_tries, deadline and trust_ad count
 * name      lower case, valid (dns_name_from_text)
 * ret       one reference, the caller's; also when there are no records, or no server answered: the
 *           status says so
 * errors    as resolver_new; -ETIMEDOUT: nothing within the deadline of the config */
MUST_USE int dns_question_ask(const struct dns_config *config, struct slice name,
                              enum dns_type type, struct dns_rrset **ret);

#endif
