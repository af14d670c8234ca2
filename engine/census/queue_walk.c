/* Pages of the spool's walk, the filter, and the facts of recipients. Used by counts, searches and
 * dry runs of orders; changes nothing and knows nothing of groups or answers. */
#include "engine/census/queue_walk.h"

#include "base/error.h"
#include "base/packed.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/state/source_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 500,         /* messages in one view of the spool */
    SLOW_USEC = 10,     /* usec a message: beyond it the page was not in memory: prefetch */
    FAST_USEC = 2,      /* usec a message: below it all was in memory: do not prefetch */
    OPEN_TRIES = 200,   /* while the writer reopens the spool */
    OPEN_PAUSE = 10000, /* usec between two tries */
};

static const char *const states[QUEUE_STATE_COUNT] = {"incoming", "active", "deferred", "scheduled",
                                                      "suspended"};

const char *queue_state_text(enum queue_state state)
{
    return states[state];
}

enum queue_state queue_state_find(struct slice name)
{
    for (enum queue_state state = 0; state < QUEUE_STATE_COUNT; state++) {
        if (slice_eq(name, slice_of(states[state]))) {
            return state;
        }
    }
    return QUEUE_STATE_COUNT;
}

/* --- filters ---------------------------------------------------------------------------------- */

void queue_filter_fini(struct queue_filter *f)
{
    selector_fini(&f->selector);
    free(f->sender);
    free(f->recipient);
    *f = (struct queue_filter){0};
}

int queue_filter_copy(struct queue_filter *ret, const struct queue_filter *f)
{
    *ret = (struct queue_filter){.states = f->states, .created_before = f->created_before};
    int err = selector_copy(&ret->selector, &f->selector);
    if (err == 0 && f->sender != NULL && (ret->sender = strdup(f->sender)) == NULL) {
        err = -ENOMEM;
    }
    if (err == 0 && f->recipient != NULL && (ret->recipient = strdup(f->recipient)) == NULL) {
        err = -ENOMEM;
    }
    if (err != 0) {
        queue_filter_fini(ret);
    }
    return err;
}

static bool text_eq(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool queue_filter_eq(const struct queue_filter *a, const struct queue_filter *b)
{
    return selector_eq(&a->selector, &b->selector) && text_eq(a->sender, b->sender) &&
           text_eq(a->recipient, b->recipient) && a->states == b->states &&
           a->created_before == b->created_before;
}

/* --- pages of messages ------------------------------------------------------------------------ */

static bool is_about_routes(const struct queue_filter *f)
{
    return f->selector.value[SELECTOR_DESTINATION] != NULL ||
           f->selector.value[SELECTOR_TRANSPORT] != NULL ||
           f->selector.value[SELECTOR_SOURCE] != NULL;
}

void queue_walk_begin(struct queue_walk *w, const struct queue_source *from,
                      const struct queue_filter *filter, uint64_t after, bool has_routes)
{
    *w = (struct queue_walk){.from = *from, .filter = filter, .after = after, .now = clock_wall()};
    w->needs_route = has_routes || is_about_routes(filter) || from->is_suspended != NULL;
    w->sees_recipients = is_about_routes(filter) || filter->recipient != NULL ||
                         filter->selector.value[SELECTOR_DOMAIN] != NULL || filter->states != 0;
}

void queue_walk_configure(struct queue_walk *w, const struct config *config,
                          const struct router *router, const struct source_table *sources,
                          const struct reply_set *replies)
{
    w->from.config = config;
    w->from.router = router;
    w->from.sources = sources;
    w->from.replies = replies;
}

static void close_page(struct queue_walk *w)
{
    if (w->is_open) {
        w->damaged += w->spool.damaged;
        spool_reader_end(w->from.reader);
        w->is_open = false;
    }
}

/* errors: -ECANCELED, of the storage */
static int open_page(struct queue_walk *w)
{
    bool is_first = w->page_began == 0;
    if (!is_first) {
        usec_t limit = (usec_t)PAGE * (w->prefetches ? FAST_USEC : SLOW_USEC);
        w->prefetches = clock_mono() - w->page_began > limit;
    }
    int rc;
    close_page(w);
    for (int tries = 0;; tries++) {
        if ((!is_first || tries > 0) && w->from.between != NULL &&
            !w->from.between(w->from.ctx, w)) {
            return -ECANCELED;
        }
        rc = spool_reader_begin(w->from.reader);
        if (rc != ERR_AGAIN || tries >= OPEN_TRIES) {
            break;
        }
        (void)usleep(OPEN_PAUSE); /* shorter is as good */
    }
    if (rc != 0) {
        return rc;
    }
    w->is_open = true;
    w->page_left = PAGE;
    w->page_began = clock_mono();
    rc = spool_walk_begin(&w->spool, w->from.reader, w->after);
    if (rc == 0 && w->prefetches) {
        spool_walk_prefetch(&w->spool, PAGE);
    }
    return rc;
}

static bool is_active(const struct queue_walk *w, uint64_t id)
{
    size_t low = 0, high = w->from.active_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->from.active[middle] == id) {
            return true;
        }
        if (w->from.active[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

/* Whether the message fits those parts of the filter that its envelope alone decides. */
static bool message_fits(const struct queue_walk *w, const struct spool_envelope *e)
{
    const struct queue_filter *f = w->filter;
    const struct label *owner = &w->from.owner;
    return (owner->len == 0 || slice_eq(label_slice(owner), e->tenant)) &&
           (f->created_before == 0 || e->created < f->created_before) &&
           (f->sender == NULL || selector_glob_matches(f->sender, e->sender)) &&
           selector_matches_word(&f->selector, SELECTOR_TENANT, e->tenant) &&
           selector_matches_word(&f->selector, SELECTOR_CAMPAIGN, e->campaign);
}

bool queue_walk_next(struct queue_walk *w)
{
    while (w->error == 0) {
        if (!w->is_open || w->page_left == 0) {
            w->error = open_page(w);
            if (w->error != 0) {
                break;
            }
        }
        w->page_left--;
        int rc = spool_walk_next(&w->spool, &w->message);
        w->after = w->spool.last;
        if (rc == ERR_MISSING) {
            close_page(w);
            break;
        }
        w->error = rc;
        const struct spool_envelope *e = &w->message.envelope;
        if (rc == 0 && message_fits(w, e)) {
            w->is_active = is_active(w, e->id);
            w->is_scheduled = !w->is_active && e->not_before > w->now;
            w->batch = 0;
            w->batch_index = 0;
            w->packed = w->message.packed;
            w->states = w->message.states;
            w->recipient.facts[SELECTOR_TENANT] = e->tenant;
            w->recipient.facts[SELECTOR_CAMPAIGN] = e->campaign;
            if (w->message.batch_count > 0 &&
                spool_walk_batch(&w->spool, e->id, 0, &w->packed, &w->states) != 0) {
                w->packed = SLICE(""); /* damaged: it has no recipients to show */
            }
            return true;
        }
    }
    return false;
}

void queue_walk_end(struct queue_walk *w)
{
    close_page(w);
}

/* --- recipients ------------------------------------------------------------------------------- */

/* Moves to the message's next recipient that has no final result. */
static bool next_undone(struct queue_walk *w)
{
    struct queue_recipient *r = &w->recipient;
    for (;;) {
        if (!packed_next(&w->packed, &r->address)) {
            if (++w->batch >= w->message.batch_count ||
                spool_walk_batch(&w->spool, w->message.envelope.id, w->batch, &w->packed,
                                 &w->states) != 0) {
                return false;
            }
            w->batch_index = 0;
            continue;
        }
        uint32_t at = w->batch_index++;
        uint8_t state = at < w->states.len ? (uint8_t)w->states.data[at] : SPOOL_RECIPIENT_PENDING;
        if (state != SPOOL_RECIPIENT_DELIVERED && state != SPOOL_RECIPIENT_FAILED) {
            r->index = w->batch * SPOOL_BATCH_RECIPIENTS + at;
            r->is_deferred = state == SPOOL_RECIPIENT_DEFERRED;
            return true;
        }
    }
}

static void find_facts(struct queue_walk *w)
{
    struct queue_recipient *r = &w->recipient;
    struct slice domain = router_domain(r->address);
    if (domain.len > sizeof(w->domain)) {
        domain.len = 0; /* longer than any domain */
    }
    slice_lower(domain, w->domain);
    domain.data = w->domain;
    r->facts[SELECTOR_DOMAIN] = domain;
    r->facts[SELECTOR_DESTINATION] = SLICE("");
    r->facts[SELECTOR_TRANSPORT] = SLICE("");
    r->facts[SELECTOR_SOURCE] = SLICE("");
    struct route_result route;
    if (w->needs_route && router_route(w->from.router, domain, r->facts[SELECTOR_TENANT], &route)) {
        r->facts[SELECTOR_DESTINATION] = route.nexthop;
        r->facts[SELECTOR_TRANSPORT] = slice_of(w->from.config->transports[route.transport].name);
        r->facts[SELECTOR_SOURCE] = source_table_list(w->from.sources, w->from.config,
                                                      route.transport, r->facts[SELECTOR_TENANT]);
    }
}

/* The state of the message by its place in the queue, without a look at orders. */
static enum queue_state message_state(const struct queue_walk *w)
{
    if (w->is_active) {
        return QUEUE_ACTIVE;
    }
    if (w->is_scheduled) {
        return QUEUE_SCHEDULED;
    }
    /* What its receiver let through no sooner has had no attempt, and waits for its time all the same. */
    const struct spool_retry *retry = &w->message.retry;
    return retry->attempts > 0 || retry->is_paced ? QUEUE_DEFERRED : QUEUE_INCOMING;
}

static enum queue_state recipient_state(const struct queue_walk *w)
{
    bool is_suspended =
        !w->is_active && w->from.is_suspended != NULL &&
        w->from.is_suspended(w->from.ctx, w->recipient.facts, w->message.envelope.created);
    return is_suspended ? QUEUE_SUSPENDED : message_state(w);
}

bool queue_walk_recipient(struct queue_walk *w)
{
    const struct queue_filter *f = w->filter;
    while (next_undone(w)) {
        find_facts(w);
        w->recipient.state = recipient_state(w);
        if ((f->states == 0 || (f->states & 1u << w->recipient.state) != 0) &&
            (f->recipient == NULL || selector_glob_matches(f->recipient, w->recipient.address)) &&
            selector_matches(&f->selector, w->recipient.facts)) {
            return true;
        }
    }
    return false;
}

bool queue_walk_fits(struct queue_walk *w)
{
    bool is_found = (w->sees_recipients || w->from.is_suspended != NULL) && queue_walk_recipient(w);
    w->state = is_found ? w->recipient.state : message_state(w);
    return is_found || !w->sees_recipients;
}
