/* The queue of actions that wait to be pulled, and the reasons that go with deferrals. Called by
 * every noun that has something for the shell to do. */
#include "sched/action.h"

#include "sched/recipient_pool.h"
#include "sched/transport.h"

#include <assert.h>
#include <string.h>

#define SUSPENDED_PREFIX "delivery temporarily suspended: "

void action_init(struct pending *p)
{
    list_init(&p->link);
    p->kind = SCHED_NONE;
    p->note = 0;
}

void action_queue(struct sched *s, struct pending *p, enum sched_action_kind kind)
{
    assert(p->kind == SCHED_NONE && kind != SCHED_NONE);
    p->kind = kind;
    list_push_back(&s->pending, &p->link);
}

void action_cancel(struct pending *p)
{
    if (p->kind != SCHED_NONE) {
        list_remove(&p->link);
        p->kind = SCHED_NONE;
    }
}

static void fill_from_entry(struct sched *s, struct sched_entry *e, struct sched_action *ret)
{
    ret->message_id = entry_job(e)->id;
    ret->handle = entry_job(e)->handle;
    ret->destination = entry_destination(e);
    if (ret->kind == SCHED_EXHAUSTED) {
        ret->entry = e;
        list_push_back(&s->exhausted, &e->place.link);
        return;
    }
    if (ret->kind == SCHED_DELIVER) {
        struct connection *c = connection_at(s, e->connection);
        list_push_back(&c->entries, &e->place.link);
        ret->entry = e;
        ret->connection = e->connection;
        ret->connection_is_new = c->is_new;
        ret->server = c->server;
        ret->source = s->sources.at[e->source].given.id;
        ret->lent_from = s->undelivered_from;
        const struct sched_owner *owner = purse_of(s, entry_job(e));
        ret->owner_user = owner == NULL ? NULL : owner->user;
        ret->lane_user = c->party->site == NULL ? NULL : lane_at_site(c->lane)->user;
        ret->server_notes = c->host == NULL ? 0 : destdb_notes(c->host, s->now);
        ret->is_last_server = placement_is_last(s, e);
        ret->hosts = s->held_hosts != NULL ? s->held_hosts : ret->destination->hosts;
        s->undelivered = NULL;
        s->undelivered_is_back = false;
        return;
    }
    ret->indexes = entry_indexes(e);
    ret->index_count = e->count;
    ret->reason = &e->reason->text;
    ret->is_withdrawn = e->is_withdrawn;
    if (e->is_paced) {
        ret->is_paced = true;
        ret->due = e->connection * USEC_PER_SEC;
    }
    s->spent = e;
}

static void fill_from_job(struct sched *s, struct job *j, struct sched_action *ret)
{
    ret->message_id = j->id;
    ret->handle = j->handle;
    if (ret->kind == SCHED_READ) {
        ret->wanted = recipient_pool_wanted(s, j);
        return;
    }
    job_free(s, j);
}

bool action_take(struct sched *s, struct sched_action *ret)
{
    if (list_is_empty(&s->pending)) {
        return false;
    }
    struct pending *p = list_first(&s->pending, struct pending, link);
    *ret = (struct sched_action){.kind = p->kind};
    action_cancel(p);
    switch (ret->kind) {
    case SCHED_DELIVER:
    case SCHED_EXHAUSTED:
    case SCHED_DEFER:
    case SCHED_BOUNCE:
        fill_from_entry(s, container_of(p, struct sched_entry, place), ret);
        break;
    case SCHED_READ:
    case SCHED_FINISHED:
        fill_from_job(s, container_of(p, struct job, action), ret);
        break;
    case SCHED_RESOLVE:
        ret->destination = container_of(p, struct sched_destination, resolve);
        break;
    case SCHED_CLOSE: {
        const struct connection *c = container_of(p, struct connection, close);
        ret->connection = c->number;
        ret->end_is_awaited = c->is_ending;
        break;
    }
    case SCHED_ASK:
    case SCHED_RETURN:
    case SCHED_LANE_GONE:
        grant_fill(s, p, ret);
        break;
    case SCHED_OWNER_ASKS:
    case SCHED_OWNER_RETURNS:
        purse_fill(s, p, ret);
        break;
    case SCHED_NONE:
    default:
        assert(false);
    }
    return true;
}

/* digit.1-3 digits.1-3 digits, class 4 or 5 (RFC 3463 section 2) */
static bool is_status_text(const char *text)
{
    if ((text[0] != '4' && text[0] != '5') || text[1] != '.') {
        return false;
    }
    const char *p = text + 2;
    for (int part = 0; part < 2; part++) {
        int digits = 0;
        for (; *p >= '0' && *p <= '9'; p++) {
            digits++;
        }
        if (digits < 1 || digits > 3 || *p != (part == 0 ? '.' : '\0')) {
            return false;
        }
        p++;
    }
    return true;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = strnlen(from, size - 1);
    memcpy(to, from, len);
    to[len] = '\0';
}

static void reason_fill(struct reason *to, const struct sched_reason *from, bool suspends)
{
    struct sched_reason *t = &to->text;
    char *at = t->text;
    if (suspends) {
        memcpy(at, SUSPENDED_PREFIX, sizeof(SUSPENDED_PREFIX) - 1);
        at += sizeof(SUSPENDED_PREFIX) - 1;
    }
    bool has_text = from != NULL && from->text[0] != '\0';
    copy_text(at, (size_t)(t->text + sizeof(t->text) - at),
              has_text ? from->text : "unknown error");
    const char *plain = suspends ? "4.0.0" : "5.0.0";
    bool has_status = from != NULL && is_status_text(from->status);
    copy_text(t->status, sizeof(t->status), has_status ? from->status : plain);
}

struct reason *reason_new(struct sched *s, const struct sched_reason *r, bool suspends)
{
    struct reason *reason = s->host.alloc(s->host.ctx, sizeof(*reason));
    if (reason == NULL) {
        return reason_get(&s->spare_reason);
    }
    reason->references = 1;
    reason_fill(reason, r, suspends);
    return reason;
}

struct reason *reason_get(struct reason *r)
{
    r->references++;
    return r;
}

void reason_put(struct sched *s, struct reason *r)
{
    if (r == NULL) {
        return;
    }
    assert(r->references > 0);
    r->references--;
    if (r->references == 0 && r != &s->spare_reason) {
        s->host.release(s->host.ctx, r);
    }
}
