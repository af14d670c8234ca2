/* Judges the replies that the spool keeps. Called by the count for each deferred recipient; must not
 * know of groups. */
#include "engine/census/census_class.h"

#include "base/hash.h"
#include "engine/census/queue_walk.h"
#include "engine/event/reply_line.h"
#include "engine/reply/reply_set.h"
#include "engine/spool/spool_store.h"

#include <string.h>

void census_class_init(struct census_class *c)
{
    *c = (struct census_class){.seed = hash_random_seed()};
}

void census_class_fini(struct census_class *c)
{
    reply_matcher_free(c->matcher);
}

static enum reply_class judge(struct census_class *c, const struct spool_reason *reason)
{
    char room[REPLY_LINE_MAX];
    struct reply reply;
    struct reply_verdict v;
    reply_read(slice_of(reply_line(reason->code, reason->status, reason->text, room)), &reply);
    if (reply.code == 0) {
        return REPLY_CLASS_NONE;
    }
    reply_set_classify(c->set, c->matcher, &reply, &v);
    return v.class;
}

/* Rules are those of the page that is being walked over. */
static bool is_ready(struct census_class *c, const struct reply_set *set)
{
    if (set != c->set) {
        memset(c->slots, 0, sizeof(c->slots));
        c->set = set;
    }
    if (c->matcher == NULL) {
        c->matcher = reply_matcher_new();
    }
    return set != NULL && c->matcher != NULL;
}

struct slice census_class_text(struct census_class *c, const struct queue_walk *w)
{
    struct spool_reason reason;
    if (!w->recipient.is_deferred || !is_ready(c, w->from.replies) ||
        spool_read_reason(w->from.reader, w->message.envelope.id, w->recipient.index, &reason) !=
            0) {
        return SLICE("");
    }
    uint64_t hash = hash_bytes(reason.text.data, reason.text.len, c->seed + reason.code);
    hash = hash_bytes(reason.status.data, reason.status.len, hash) | 1;
    size_t at = (hash >> 1) % CENSUS_CLASS_SLOTS;
    if (c->slots[at].hash != hash) {
        c->slots[at].class = judge(c, &reason);
        c->slots[at].hash = hash;
    }
    return c->slots[at].class == REPLY_CLASS_NONE ? SLICE("")
                                                  : slice_of(reply_class_text(c->slots[at].class));
}
