/* MTA-STS (RFC 8461): the TXT record that says which policy a domain has, and the policy itself.
 *
 * Pure: text in, values out; no allocation, clock or I/O. Called with what strangers publish. A
 * parsed policy is a view of its text. */
#ifndef NET_MTA_STS_H
#define NET_MTA_STS_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTA_STS_LABEL       "_mta-sts" /* in front of a domain: the TXT record; section 3.1 */
#define MTA_STS_HOST_LABEL  "mta-sts"  /* in front of a domain: who gives out the policy; 3.3 */
#define MTA_STS_ID_MAX      32         /* bytes; section 3.1 */
#define MTA_STS_POLICY_MAX  65536      /* bytes; section 3.3 proposes 64 kilobytes */
#define MTA_STS_MAX_AGE_MAX 31557600U  /* seconds, about a year; section 3.2 */

enum mta_sts_mode { MTA_STS_NONE, MTA_STS_TESTING, MTA_STS_ENFORCE };

struct mta_sts_policy {
    enum mta_sts_mode mode;
    uint32_t max_age;  /* seconds; what exceeds MTA_STS_MAX_AGE_MAX is that */
    struct slice text; /* the whole policy */
};

/* The policy's id from the TXT records of a domain, a view of one of them.
 *
 * errors   ERR_MISSING: no record is one of MTA-STS, or several are (which counts as none);
 *          ERR_SYNTAX: the one there is makes no sense */
MUST_USE int mta_sts_record(const struct slice *texts, uint32_t count, struct slice *ret_id);
/* errors   ERR_SYNTAX, ERR_LIMIT: longer than MTA_STS_POLICY_MAX */
MUST_USE int mta_sts_policy_parse(struct slice text, struct mta_sts_policy *ret);
/* Whether an MX host is one of the policy's.
 * host     without a last dot, any case */
MUST_USE bool mta_sts_policy_allows(const struct mta_sts_policy *policy, struct slice host);

#endif
