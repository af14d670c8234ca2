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

/* AGED_PER_LOOK: flows of a site that are looked through for what has come by itself; a site may have very many. */
enum { SITES_PER_LOOK = 64, AGED_PER_LOOK = 256, RECALL_MOST = 2000, FIRST_CAPACITY = 4 };

struct absent_message {
    usec_t turn; /* wall */
    uint64_t id;
};

/* What a flow has at a site, in the order of its turns. */
struct absent_flow {
    struct list in_site; /* in one of the site's lists */
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
    /* absent_flow */
    struct list ready;  /* nothing of it is under way; the one called longest ago first */
    struct list called; /* something is; the one called longest ago first, within STUCK_SPAN */
    struct list stuck;  /* something is for longer: it gets no places */
    uint32_t ready_count;
    struct list *aged; /* in `ready`, or its head: which one is looked through next */
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

static void enter_ready(struct absent_flow *f)
{
    list_push_back(&f->site->ready, &f->in_site);
    f->site->ready_count++;
}

static void leave_ready(struct absent_flow *f)
{
    struct absent_site *s = f->site;
    s->aged = s->aged == &f->in_site ? f->in_site.next : s->aged;
    s->ready_count--;
    list_remove(&f->in_site);
}

/* It is in no list. */
static void forget_flow(struct absent *a, struct absent_flow *f)
{
    struct absent_flow **at = flow_chain_of(a, f->site, f->number);
    while (*at != f) {
        at = &(*at)->chain;
    }
    *at = f->chain;
    a->count -= f->count;
    a->flow_count--;
    recall_account_put(f->called);
    free(f->ring);
    free(f);
}

static void forget_flows(struct absent *a, struct list *flows)
{
    list_foreach_safe(f, flows, struct absent_flow, in_site)
    {
        list_remove(&f->in_site);
        forget_flow(a, f);
    }
}

static void forget(struct absent *a, struct absent_site *s)
{
    struct absent_site **at = chain_of(a, slice_make(s->key, s->len));
    while (*at != s) {
        at = &(*at)->chain;
    }
    *at = s->chain;
    forget_flows(a, &s->ready);
    forget_flows(a, &s->called);
    forget_flows(a, &s->stuck);
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
    list_init(&s->ready);
    list_init(&s->called);
    list_init(&s->stuck);
    s->aged = &s->ready;
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
    enter_ready(f);
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

/* Returns how many are called back. */
static uint32_t recall_of(struct absent *a, struct absent_flow *f, uint32_t most,
                          const struct absent_recall *r)
{
    most = most < f->count ? most : f->count;
    struct recall *recall = most == 0 ? NULL : recall_new(most, f->called);
    if (recall == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < most; i++) {
        struct absent_message m = take_first(a, f);
        recall->at[recall->count++] =
            (struct spool_position){SPOOL_DEFERRED, (uint64_t)m.turn, m.id, f->number};
    }
    f->out = most;
    f->called_at = r->now;
    letter_put_recall(r->to_activator, recall);
    return most;
}

/* What will come by itself goes. */
static void age(struct absent *a, struct absent_flow *f, usec_t wall)
{
    while (f->count > 0 && at(f, 0)->turn <= wall + SOON) {
        (void)take_first(a, f);
    }
}

/* Whether something of a flow that is in no list is under way still; else it is ready, or forgotten. */
static bool is_under_way(struct absent *a, struct absent_flow *f)
{
    if (recall_account_is_open(f->called)) {
        return true;
    }
    if (f->count > 0) {
        enter_ready(f);
    } else {
        forget_flow(a, f);
    }
    return false;
}

/* Returns how many were called back a moment ago and are not active yet. */
static uint32_t review_called(struct absent *a, struct absent_site *s, usec_t now)
{
    uint32_t out = 0;
    list_foreach_safe(f, &s->called, struct absent_flow, in_site)
    {
        if (now - f->called_at < STUCK_SPAN && recall_account_is_open(f->called)) {
            out += f->out;
            continue;
        }
        list_remove(&f->in_site);
        if (is_under_way(a, f)) {
            list_push_back(&s->stuck, &f->in_site);
        }
    }
    return out;
}

/* Of very many flows some in each look. */
static void review_stuck(struct absent *a, struct absent_site *s, usec_t wall)
{
    const struct list *last = s->stuck.prev;
    bool is_last = list_is_empty(&s->stuck);
    for (uint32_t n = 0; n < AGED_PER_LOOK && !is_last; n++) {
        struct absent_flow *f = list_first(&s->stuck, struct absent_flow, in_site);
        is_last = &f->in_site == last;
        list_remove(&f->in_site);
        age(a, f, wall);
        if (is_under_way(a, f)) {
            list_push_back(&s->stuck, &f->in_site);
        }
    }
}

static void review_ready(struct absent *a, struct absent_site *s, usec_t wall)
{
    uint32_t n = s->ready_count < AGED_PER_LOOK ? s->ready_count : AGED_PER_LOOK;
    for (; n > 0; n--) {
        s->aged = s->aged == &s->ready ? s->ready.next : s->aged;
        struct absent_flow *f = container_of(s->aged, struct absent_flow, in_site);
        s->aged = s->aged->next;
        age(a, f, wall);
        if (f->count == 0) {
            leave_ready(f);
            forget_flow(a, f);
        }
    }
}

/* As much of each flow; what is not called back now is first in the next look. */
static void recall_some(struct absent *a, struct absent_site *s, const struct absent_recall *r)
{
    usec_t wall = clock_wall();
    uint32_t out = review_called(a, s, r->now);
    review_stuck(a, s, wall);
    review_ready(a, s, wall);
    uint32_t most = s->ready_count == 0 ? 0 : wanted(r, slice_make(s->key, s->len));
    most = most > out ? most - out : 0;
    uint32_t ready = s->ready_count < RECALL_MOST ? s->ready_count : RECALL_MOST;
    for (; most > 0 && ready > 0; ready--) {
        struct absent_flow *f = list_first(&s->ready, struct absent_flow, in_site);
        uint32_t part = (most + s->ready_count - 1) / s->ready_count;
        leave_ready(f);
        age(a, f, wall);
        most -= recall_of(a, f, part, r);
        if (is_under_way(a, f)) {
            list_push_back(&s->called, &f->in_site);
        }
    }
}

void absent_recall(struct absent *a, const struct absent_recall *r)
{
    if (r->now < absent_wake_at(a)) {
        return;
    }
    a->next = r->now + LOOK_SPAN;
    const struct list *last = a->all.prev;
    bool is_last = list_is_empty(&a->all);
    for (int i = 0; i < SITES_PER_LOOK && !is_last; i++) {
        struct absent_site *s = list_first(&a->all, struct absent_site, all);
        is_last = &s->all == last;
        list_remove(&s->all);
        list_push_back(&a->all, &s->all);
        recall_some(a, s, r);
        if (list_is_empty(&s->ready) && list_is_empty(&s->called) && list_is_empty(&s->stuck)) {
            forget(a, s);
        }
    }
}
