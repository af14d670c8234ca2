/* Rings of messages by site. Called by sched_thread.c for what its core sends away, and in each pass;
 * must not decide what leaves memory, which is the core's. */
#include "engine/schedule/absent.h"

#include "base/hash.h"
#include "engine/activator/recall.h"
#include "engine/config/config.h"
#include "engine/post/letter.h"
#include "engine/schedule/lanes.h"
#include "engine/writer/retry.h"
#include "sched/sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_SPAN (250 * USEC_PER_MSEC)
/* The core keeps what its lanes take within 30 s. What is called back stays well below. */
#define KEEP_SECONDS  20
#define SHORT_SECONDS 10
#define SOON          USEC_PER_SEC /* whose turn is that near comes by itself */
/* What was called back is active by then, unless its flow has no place for it: nobody waits for that. */
#define STUCK_SPAN (2 * USEC_PER_SEC)

enum { SITES_PER_LOOK = 64, FLOWS_PER_SITE = 64, RECALL_MOST = 2000, FIRST_CAPACITY = 4 };

struct absent_message {
    usec_t turn; /* wall */
    uint64_t id;
};

/* What a flow has at a site, in the order of its turns. */
struct absent_flow {
    struct list in_site;
    struct absent_flow *chain;
    struct absent_site *site;
    struct absent_message *ring; /* [capacity], a power of 2 */
    uint32_t capacity, first, count;
    uint32_t number;
    struct recall_account
        *called;      /* what was called back and is not active yet: nothing else until then */
    uint32_t out;     /* of that, at most */
    usec_t called_at; /* monotonic */
};

struct absent_site {
    struct list all;
    struct absent_site *chain;
    struct list flows; /* absent_flow, the one called longest ago first */
    size_t len;
    char key[];
};

void absent_init(struct absent *a)
{
    *a = (struct absent){.count = 0};
    list_init(&a->all);
}

static struct absent_site **chain_of(struct absent *a, struct slice key)
{
    return &a->sites[hash_checksum(key.data, key.len) % ABSENT_SITE_CHAINS];
}

static struct absent_flow **flow_chain_of(struct absent *a, const struct absent_site *s,
                                          uint32_t number)
{
    return &a->flows[hash_bytes(s->key, s->len, number) % ABSENT_FLOW_CHAINS];
}

static struct absent_site *find(struct absent *a, struct slice key)
{
    struct absent_site *s = *chain_of(a, key);
    while (s != NULL && !slice_eq(slice_make(s->key, s->len), key)) {
        s = s->chain;
    }
    return s;
}

static struct absent_flow *find_flow(struct absent *a, const struct absent_site *s, uint32_t number)
{
    struct absent_flow *f = *flow_chain_of(a, s, number);
    while (f != NULL && (f->site != s || f->number != number)) {
        f = f->chain;
    }
    return f;
}

static void forget_flow(struct absent *a, struct absent_flow *f)
{
    struct absent_flow **at = flow_chain_of(a, f->site, f->number);
    while (*at != f) {
        at = &(*at)->chain;
    }
    *at = f->chain;
    a->count -= f->count;
    a->flow_count--;
    list_remove(&f->in_site);
    recall_account_put(f->called);
    free(f->ring);
    free(f);
}

static void forget(struct absent *a, struct absent_site *s)
{
    struct absent_site **at = chain_of(a, slice_make(s->key, s->len));
    while (*at != s) {
        at = &(*at)->chain;
    }
    *at = s->chain;
    list_foreach_safe(f, &s->flows, struct absent_flow, in_site)
    {
        forget_flow(a, f);
    }
    list_remove(&s->all);
    free(s);
}

void absent_fini(struct absent *a)
{
    for (unsigned i = 0; i < ABSENT_SITE_CHAINS; i++) {
        while (a->sites[i] != NULL) {
            forget(a, a->sites[i]);
        }
    }
}

static struct absent_site *obtain(struct absent *a, struct slice key)
{
    struct absent_site *s = find(a, key);
    if (s != NULL) {
        return s;
    }
    s = calloc(1, sizeof(*s) + key.len);
    if (s == NULL) {
        return NULL;
    }
    list_init(&s->flows);
    s->len = key.len;
    memcpy(s->key, key.data, key.len);
    s->chain = *chain_of(a, key);
    *chain_of(a, key) = s;
    list_push_back(&a->all, &s->all);
    return s;
}

static struct absent_flow *obtain_flow(struct absent *a, struct absent_site *s, uint32_t number)
{
    struct absent_flow *f = find_flow(a, s, number);
    if (f != NULL || a->flow_count >= ABSENT_FLOWS_MOST) {
        return f;
    }
    f = calloc(1, sizeof(*f));
    struct recall_account *called = f == NULL ? NULL : recall_account_new();
    if (called == NULL) {
        free(f);
        return NULL;
    }
    f->site = s;
    f->number = number;
    f->called = called;
    f->chain = *flow_chain_of(a, s, number);
    *flow_chain_of(a, s, number) = f;
    list_push_back(&s->flows, &f->in_site);
    a->flow_count++;
    return f;
}

static struct absent_message *at(const struct absent_flow *f, uint32_t number)
{
    return &f->ring[(f->first + number) & (f->capacity - 1)];
}

static bool make_room(struct absent_flow *f)
{
    if (f->count < f->capacity) {
        return true;
    }
    uint32_t capacity = f->capacity == 0 ? FIRST_CAPACITY : 2 * f->capacity;
    struct absent_message *ring = malloc(capacity * sizeof(*ring));
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        ring[i] = *at(f, i);
    }
    free(f->ring);
    f->ring = ring;
    f->capacity = capacity;
    f->first = 0;
    return true;
}

/* What is not noted comes when its turn does. A site without flows is forgotten when it is looked at. */
static void note(struct absent *a, struct slice site, uint32_t flow, const struct absent_message *m)
{
    struct absent_site *s = a->count < ABSENT_MOST ? obtain(a, site) : NULL;
    struct absent_flow *f = s == NULL ? NULL : obtain_flow(a, s, flow);
    if (f == NULL || (f->count > 0 && at(f, f->count - 1)->id == m->id)) {
        return; /* of the same message: it comes with the first one */
    }
    if (make_room(f)) {
        f->count++;
        *at(f, f->count - 1) = *m;
        a->count++;
    }
}

usec_t absent_turn(const struct config *c, usec_t wait, usec_t wall)
{
    usec_t longest = retry_longest(c->minimal_backoff_time, c->maximal_backoff_time);
    usec_t most = longest - USEC_PER_SEC;
    usec_t turn = wait < most ? wait : most;
    return turn > 0 ? wall + turn : wall;
}

void absent_note(struct absent *a, const struct lanes *lanes, const struct sched_action *sent,
                 uint32_t flow, usec_t now, usec_t turn)
{
    bool is_of_lanes =
        sent->destination != NULL && sent->due > now && !sched_destination_waits(sent->destination);
    struct slice site = is_of_lanes ? sched_destination_site(sent->destination) : SLICE("");
    if (site.len > 0 && isfinite(lanes_rate(lanes, site))) {
        note(a, site, flow, &(struct absent_message){turn, sent->message_id});
    }
}

static struct absent_message take_first(struct absent *a, struct absent_flow *f)
{
    struct absent_message m = *at(f, 0);
    f->first = (f->first + 1) & (f->capacity - 1);
    f->count--;
    a->count--;
    return m;
}

/* How many the lanes of the site take soon, beyond what waits for them. */
static uint32_t wanted(const struct absent_recall *r, struct slice key)
{
    struct sched_site_view view;
    double waiting = sched_view_site(r->sched, key, &view) ? view.todo : 0;
    double rate = lanes_rate(r->lanes, key);
    if (waiting > rate * SHORT_SECONDS) {
        return 0;
    }
    double most = rate * KEEP_SECONDS - waiting;
    return most < RECALL_MOST ? (uint32_t)ceil(most) : RECALL_MOST;
}

static bool is_ready(const struct absent_flow *f)
{
    return f->count > 0 && !recall_account_is_open(f->called);
}

static void recall_of(struct absent *a, struct absent_flow *f, uint32_t most,
                      const struct absent_recall *r)
{
    most = most < f->count ? most : f->count;
    struct recall *recall = most == 0 ? NULL : recall_new(most, f->called);
    if (recall == NULL) {
        return;
    }
    for (uint32_t i = 0; i < most; i++) {
        struct absent_message m = take_first(a, f);
        recall->at[recall->count++] =
            (struct spool_position){SPOOL_DEFERRED, (uint64_t)m.turn, m.id, f->number};
    }
    f->out = most;
    f->called_at = r->now;
    letter_put_recall(r->to_activator, recall);
}

/* What will come by itself goes, and so does a flow that has nothing. Returns how many were called back a
 * moment ago and are not active yet; *ret_ready: flows of which something may be called back. */
static uint32_t review_flows(struct absent *a, struct absent_site *s, usec_t now,
                             uint32_t *ret_ready)
{
    usec_t wall = clock_wall();
    uint32_t out = 0;
    *ret_ready = 0;
    list_foreach_safe(f, &s->flows, struct absent_flow, in_site)
    {
        while (f->count > 0 && at(f, 0)->turn <= wall + SOON) {
            (void)take_first(a, f);
        }
        bool is_out = recall_account_is_open(f->called);
        out += is_out && now - f->called_at < STUCK_SPAN ? f->out : 0;
        *ret_ready += is_ready(f);
        if (f->count == 0 && !is_out) {
            forget_flow(a, f);
        }
    }
    return out;
}

/* As much of each flow; what is not called back now is first in the next look. */
static void recall_some(struct absent *a, struct absent_site *s, const struct absent_recall *r)
{
    uint32_t ready;
    uint32_t out = review_flows(a, s, r->now, &ready);
    uint32_t most = ready == 0 ? 0 : wanted(r, slice_make(s->key, s->len));
    most = most > out ? most - out : 0;
    for (int i = 0; i < FLOWS_PER_SITE && most > 0 && ready > 0;) {
        struct absent_flow *f = list_first(&s->flows, struct absent_flow, in_site);
        list_remove(&f->in_site);
        list_push_back(&s->flows, &f->in_site);
        if (is_ready(f)) {
            uint32_t part = (most + ready - 1) / ready, before = f->count;
            recall_of(a, f, part, r);
            most -= before - f->count;
            ready--;
            i++;
        }
    }
}

void absent_recall(struct absent *a, const struct absent_recall *r)
{
    if (r->now < absent_wake_at(a)) {
        return;
    }
    a->next = r->now + LOOK_SPAN;
    for (int i = 0; i < SITES_PER_LOOK && !list_is_empty(&a->all); i++) {
        struct absent_site *s = list_first(&a->all, struct absent_site, all);
        list_remove(&s->all);
        list_push_back(&a->all, &s->all);
        recall_some(a, s, r);
        if (list_is_empty(&s->flows)) {
            forget(a, s);
        }
    }
}
