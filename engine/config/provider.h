/* From a domain and the names of its hosts to the provider whose mail it is, by the patterns of the
 * configuration's `provider` sections; name_pattern.h says what a pattern stands for.
 *
 * Immutable once made, so any thread asks without a lock. Pure but for allocation. */
#ifndef ENGINE_PROVIDER_H
#define ENGINE_PROVIDER_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/config/config.h"

#include <stdbool.h>
#include <stddef.h>

/* What one section says. A rule without any pattern matches nothing. */
struct provider_rule {
    const struct config_texts *mx;      /* every host must match one of them; none: any hosts do */
    const struct config_texts *domains; /* the domain must match one of them; none: any does */
};

struct provider_table;

/* rules    are copied; what they point to outlives the table
 * errors   -ENOMEM
 * frees    the caller, with provider_table_free */
MUST_USE int provider_table_new(const struct provider_rule *rules, size_t count,
                                struct provider_table **ret);
void provider_table_free(struct provider_table *t); /* accepts NULL */

/* The first rule that matches. Costs a binary search for each label of the domain and of the first
 * host, and a look at all hosts for each rule that these bring up.
 *
 * hosts    names of all hosts that the domain's mail may go to
 * returns  its index, or the count of rules: none matches */
size_t provider_find(const struct provider_table *t, struct slice domain, const struct slice *hosts,
                     size_t host_count);

/* The table of a configuration's providers: the rules have their indexes. As provider_table_new. */
MUST_USE int provider_table_of(const struct config *c, struct provider_table **ret);

/* That a rule could match the same domain with the same hosts as one before it. Two of which one has
 * only `mx` and the other only `domains` have an order instead: the first of them counts. */
struct provider_overlap {
    bool is_found;
    bool is_domain;                      /* the patterns are of `domains`, else of `mx` */
    size_t other;                        /* the rule before */
    struct slice pattern, other_pattern; /* as name_pattern_meets; valid like the rules */
};
/* ret      [count of rules], of each the first that was found
 * errors   ERR_LIMIT: there are too many patterns for a look at all pairs; -ENOMEM */
MUST_USE int provider_table_overlaps(const struct provider_table *t, struct provider_overlap *ret);

#endif
