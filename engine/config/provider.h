/* From a domain and the names of its hosts to the provider whose mail it is, by the patterns of the
 * configuration's `provider` sections.
 *
 * A pattern is a host or domain name, before which stand any number of "*.", each for exactly one
 * label: "*.google.com" is mx1.google.com and neither google.com nor a.mx1.google.com. Letters match
 * in either case; a dot at the end of a name means nothing.
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

/* Whether the text is a pattern. Pure. */
MUST_USE bool provider_pattern_is_valid(struct slice text);
/* Whether the name is one that the pattern stands for. Pure. */
MUST_USE bool provider_pattern_matches(struct slice pattern, struct slice name);
/* Whether some name is one that both patterns stand for. Pure. */
MUST_USE bool provider_patterns_meet(struct slice a, struct slice b);

#endif
