/* What the event log still tells of mail that is not queued any more, and names that are near to
 * one that nobody knows. On the slow clerk's thread. */
#ifndef ENGINE_WHY_PAST_H
#define ENGINE_WHY_PAST_H

#include "base/attr.h"
#include "engine/report/why_chain.h"

#include <stdbool.h>

struct clerk;

/* A member of a line of the log as text, such as "tenant":"acme". */
#define WHY_PAST_MEMBER_MAX 1600
struct slice why_past_member(const char *name, struct slice value,
                             char ret[static WHY_PAST_MEMBER_MAX]);

/* The events with this member, the oldest first, newest_max at most, as objects in *ret (new; empty
 * without a log), and how far it was looked for them. For a caller who is bound to a tenant only the
 * tenant's.
 *
 * searched   "all of the event log" or "256 MB of the event log, back to 3h ago"
 * errors     -errno, -ENOMEM, -ECANCELED when nobody waits any more */
#define WHY_PAST_SEARCHED_MAX 96
MUST_USE int why_past_events(struct clerk *k, struct slice member, unsigned types,
                             unsigned newest_max, json_t **ret,
                             char searched[static WHY_PAST_SEARCHED_MAX]);

/* Links: the newest failures with this member, when and why; or that there are none (false). */
bool why_past_failures(struct why *w, struct slice member);
/* Links: everything that the log has of a message. false: nothing */
MUST_USE bool why_past_message(struct why *w, uint64_t id);

/* Whether mail of this tenant came in since the start, by any case of its letters. name: replaced
 * by the tenant's own; with several that differ in case alone it is the one that is written so. */
MUST_USE bool why_past_has_tenant(const struct why *w, struct slice *name);
/* One link: there is no such `word` (tenant, destination), and what has the name in its own. */
void why_past_near(struct why *w, const char *word, struct slice name);

#endif
