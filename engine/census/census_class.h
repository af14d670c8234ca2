/* What the last replies to deferred recipients mean by the rules in force: the spool keeps the reply
 * and not its class, as rules change. Equal replies are judged once, as far as they are remembered.
 * Thread: that of the walk. */
#ifndef ENGINE_CENSUS_CLASS_H
#define ENGINE_CENSUS_CLASS_H

#include "base/slice.h"
#include "engine/reply/reply.h"

#include <stdint.h>

struct queue_walk;
struct reply_matcher;
struct reply_set;

enum { CENSUS_CLASS_SLOTS = 1024 }; /* a power of two */

struct census_class {
    struct reply_matcher *matcher; /* NULL: out of memory, or not needed yet */
    const struct reply_set *set;   /* that the slots were judged by; compared only */
    uint64_t seed;
    struct {
        uint64_t hash; /* 0: free */
        enum reply_class class;
    } slots[CENSUS_CLASS_SLOTS];
};

void census_class_init(struct census_class *c);
void census_class_fini(struct census_class *c);
/* Of the recipient that the walk is at: "throttled", ...; "": it was not refused, or the failure was
 * no reply. Static. */
struct slice census_class_text(struct census_class *c, const struct queue_walk *w);

#endif
