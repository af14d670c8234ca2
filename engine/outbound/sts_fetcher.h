/* The thread that knows MTA-STS policies: it has the cache, and fetches over HTTPS what is not in
 * it. libcurl is confined to the threads that wait for it.
 *
 * A worker that resolved a domain at level mta-sts asks it, with what the domain's TXT record said,
 * and gets the same object back with the policy in force. The answer comes at once when the policy
 * is known; otherwise it waits for the fetch, at most STS_FETCH_TIME. */
#ifndef ENGINE_STS_FETCHER_H
#define ENGINE_STS_FETCHER_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "dns/dns_wire.h"
#include "dns/ip.h"
#include "engine/tls_report/tls_tally.h"
#include "net/mta_sts.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct sts_fetcher;

#define STS_FETCH_TIME    (60 * USEC_PER_SEC)  /* RFC 8461 section 3.3 proposes one minute */
#define STS_RETRY_TIME    (300 * USEC_PER_SEC) /* a fetch that failed is not tried again before */
#define STS_ADDRESSES_MAX 8

/* Heap; a letter both ways. Freed by the worker, or by whoever finds it at shutdown. */
struct sts_question {
    /* set by the worker */
    struct list link; /* the thread's, while it waits for a fetch */
    char domain[DNS_NAME_MAX + 1];
    char id[MTA_STS_ID_MAX + 1];            /* of the TXT record; empty: it has no good one */
    struct ip addresses[STS_ADDRESSES_MAX]; /* of the policy's host */
    uint32_t address_count;
    uint16_t worker;
    uint16_t transport; /* whose CA file counts */
    void *resolution;   /* not looked into */

    /* the answer */
    bool has_failed;          /* no memory: nobody knows what holds */
    enum tls_failure failure; /* no policy is in force, although the domain says that it has one */
    bool has_policy;
    struct mta_sts_policy policy; /* its text is `text` */
    char answer_id[MTA_STS_ID_MAX + 1];
    char *text; /* owned */
};

/* Whether a policy's host may have this address: one that a stranger may choose for a server, so
 * not this machine, its network's services or a cloud's metadata. allow_loopback: the
 * configuration's; loopback and private ones too. */
MUST_USE bool sts_fetcher_may_ask(const struct ip *ip, bool allow_loopback);

void sts_question_free(struct sts_question *q); /* accepts NULL */

/* errors: -ENOMEM, -errno */
MUST_USE int sts_fetcher_new(struct engine *engine, struct sts_fetcher **ret);
struct mailbox *sts_fetcher_box(struct sts_fetcher *f);
MUST_USE int sts_fetcher_start(struct sts_fetcher *f);
void sts_fetcher_stop(struct sts_fetcher *f);
void sts_fetcher_free(struct sts_fetcher *f); /* accepts NULL */

#endif
