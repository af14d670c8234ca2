/* A record of the windows that changed. Called by sched/destination.c; a full record forgets its
 * oldest lines, so that nobody has to read it. */
#include "sched/change.h"

#include "sched/transport.h"

#include <errno.h>
#include <string.h>

int change_init(struct sched *s)
{
    s->change.records = s->host.alloc(s->host.ctx, CHANGE_RECORDS * sizeof(struct sched_change));
    return s->change.records == NULL ? -ENOMEM : 0;
}

void change_fini(struct sched *s)
{
    if (s->change.records != NULL) {
        s->host.release(s->host.ctx, s->change.records);
        s->change.records = NULL;
    }
}

static void copy_cut(char *to, size_t size, const char *from, size_t len)
{
    len = len < size - 1 ? len : size - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

static int limited(int window)
{
    return window > 0 ? window : 0;
}

void change_record(struct sched *s, struct slice name, int from, int to,
                   enum sched_change_cause cause, const struct sched_reason *reason)
{
    struct change *change = &s->change;
    struct sched_change *r = &change->records[change->written++ % CHANGE_RECORDS];
    r->time = s->now;
    r->cause = cause;
    r->from = limited(from);
    r->to = limited(to);
    copy_cut(r->name, sizeof(r->name), name.data, name.len);
    r->text[0] = '\0';
    r->is_lane = false;
    r->source = 0;
    if (reason != NULL) {
        copy_cut(r->text, sizeof(r->text), reason->text, strnlen(reason->text, sizeof(r->text)));
    }
    if (change->written - change->read > CHANGE_RECORDS) {
        change->read = change->written - CHANGE_RECORDS;
    }
}

void change_record_of_lane(struct sched *s, const struct site_lane *l, int from, int to,
                           enum sched_change_cause cause, const struct sched_reason *reason)
{
    uint64_t number = s->change.written;
    change_record(s, site_key(l->site), from, to, cause, reason);
    struct sched_change *r = &s->change.records[number % CHANGE_RECORDS];
    r->is_lane = true;
    r->source = s->sources.at[l->source].given.id;
}

bool sched_change_next(struct sched *s, struct sched_change *ret)
{
    struct change *change = &s->change;
    if (change->read == change->written) {
        return false;
    }
    *ret = change->records[change->read++ % CHANGE_RECORDS];
    return true;
}
