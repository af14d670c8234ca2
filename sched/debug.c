/* A record of feedback as it is applied. Called by sched/destination.c; a full record forgets its
 * oldest lines, so that nobody has to read it. */
#include "sched/debug.h"

#include "sched/transport.h"

#include <errno.h>
#include <string.h>

int debug_init(struct sched *s)
{
    if (s->debug.records != NULL) {
        return 0;
    }
    s->debug.records = s->host.alloc(s->host.ctx, DEBUG_RECORDS * sizeof(struct sched_debug));
    return s->debug.records == NULL ? -ENOMEM : 0;
}

void debug_fini(struct sched *s)
{
    if (s->debug.records != NULL) {
        s->host.release(s->host.ctx, s->debug.records);
        s->debug = (struct debug){0};
    }
}

void debug_record(struct sched *s, struct slice name, const struct lane *lane, bool is_positive)
{
    struct debug *debug = &s->debug;
    if (debug->records == NULL) {
        return;
    }
    struct sched_debug *r = &debug->records[debug->written++ % DEBUG_RECORDS];
    *r = (struct sched_debug){
        .is_positive = is_positive,
        .limit = s->rule.limit,
        .window = lane->window > 0 ? lane->window : 0,
        .success = lane->feedback.success,
        .failure = lane->feedback.failure,
        .fail_cohorts = lane->feedback.fail_cohorts,
    };
    size_t len = name.len < sizeof(r->name) - 1 ? name.len : sizeof(r->name) - 1;
    memcpy(r->name, name.data, len);
    if (debug->written - debug->read > DEBUG_RECORDS) {
        debug->read = debug->written - DEBUG_RECORDS;
    }
}

bool sched_debug_next(struct sched *s, struct sched_debug *ret)
{
    struct debug *debug = &s->debug;
    if (debug->read == debug->written) {
        return false;
    }
    *ret = debug->records[debug->read++ % DEBUG_RECORDS];
    return true;
}
