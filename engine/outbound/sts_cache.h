/* The MTA-STS policies that are in force, in memory and as files of the spool, so that a restart
 * does not open the door that a policy closed.
 *
 * One small file a domain, replaced whole by a rename: policies are few, change seldom and have
 * nothing to do with mail, so they stay out of the spool writer's transactions, whose every commit
 * accepted mail waits for. At the limit the policy that was used longest ago goes. Owner: the
 * thread that fetches policies; it may block on files. */
#ifndef ENGINE_STS_CACHE_H
#define ENGINE_STS_CACHE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "net/mta_sts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sts_cache;

struct sts_entry {
    struct list use; /* most recently used first */
    struct sts_entry *next_in_bucket;
    struct slice domain; /* lower case; memory of the entry, like what follows */
    struct slice id;     /* 1 to MTA_STS_ID_MAX bytes */
    struct mta_sts_policy policy;
    usec_t fetched; /* wall */
    char memory[];
};

/* Open (or make) a folder and read what is in it; a file that makes no sense or has expired is
 * removed.
 *
 * limit    policies, > 0
 * now      wall, here and below
 * errors   -ENOMEM, -errno of the folder */
MUST_USE int sts_cache_open(const char *folder, uint32_t limit, usec_t now, struct sts_cache **ret);
void sts_cache_close(struct sts_cache *c); /* accepts NULL; the files stay */

/* The policy of a domain (lower case) that has not expired, or NULL; valid until the next call. */
const struct sts_entry *sts_cache_find(struct sts_cache *c, struct slice domain, usec_t now);
/* Keep a policy that was fetched just now, instead of an older one.
 *
 * id       1 to MTA_STS_ID_MAX bytes
 * policy   parsed; its text is copied
 * errors   -ENOMEM: nothing changed. -errno: it holds in memory, but its file could not be written
 */
MUST_USE int sts_cache_put(struct sts_cache *c, struct slice domain, struct slice id,
                           const struct mta_sts_policy *policy, usec_t now);
uint32_t sts_cache_count(const struct sts_cache *c);

#endif
