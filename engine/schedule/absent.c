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

enum { SITES_PER_LOOK = 64, RECALL_MOST = 2000, FIRST_CAPACITY = 64 };

struct absent_message {
    usec_t turn; /* wall */
    uint64_t id;
    uint32_t flow;
};

struct absent_site {
    struct list all;
    struct absent_site *chain;
    struct absent_message *ring; /* [capacity], a power of 2 */
    uint32_t capacity, first, count;
    struct recall_account *called; /* what was called back and is not active yet: nothing else until then */
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
    return &a->sites[hash_checksum(key.data, key.len) % 256];
}

static struct absent_site *find(struct absent *a, struct slice key)
{
    struct absent_site *s = *chain_of(a, key);
    while (s != NULL && !slice_eq(slice_make(s->key, s->len), key)) {
        s = s->chain;
    }
    return s;
}

static void forget(struct absent *a, struct absent_site *s)
{
    struct absent_site **at = chain_of(a, slice_make(s->key, s->len));
    while (*at != s) {
        at = &(*at)->chain;
    }
    *at = s->chain;
    a->count -= s->count;
    list_remove(&s->all);
    recall_account_put(s->called);
    free(s->ring);
    free(s);
}

void absent_fini(struct absent *a)
{
    for (unsigned i = 0; i < 256; i++) {
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
    struct recall_account *called = s == NULL ? NULL : recall_account_new();
    if (called == NULL) {
        free(s);
        return NULL;
    }
    s->called = called;
    s->len = key.len;
    memcpy(s->key, key.data, key.len);
    s->chain = *chain_of(a, key);
    *chain_of(a, key) = s;
    list_push_back(&a->all, &s->all);
    return s;
}

static struct absent_message *at(const struct absent_site *s, uint32_t number)
{
    return &s->ring[(s->first + number) & (s->capacity - 1)];
}

static bool make_room(struct absent_site *s)
{
    if (s->count < s->capacity) {
        return true;
    }
    uint32_t capacity = s->capacity == 0 ? FIRST_CAPACITY : 2 * s->capacity;
    struct absent_message *ring = malloc(capacity * sizeof(*ring));
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        ring[i] = *at(s, i);
    }
    free(s->ring);
    s->ring = ring;
    s->capacity = capacity;
    s->first = 0;
    return true;
}

/* What is not noted comes when its turn does. */
static void note(struct absent *a, struct slice site, const struct absent_message *m)
{
    struct absent_site *s = a->count < ABSENT_MOST ? obtain(a, site) : NULL;
    if (s == NULL || (s->count > 0 && at(s, s->count - 1)->id == m->id)) {
        return; /* of the same message: it comes with the first one */
    }
    if (make_room(s)) {
        s->count++;
        *at(s, s->count - 1) = *m;
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
        note(a, site, &(struct absent_message){turn, sent->message_id, flow});
    }
}

static struct absent_message take_first(struct absent *a, struct absent_site *s)
{
    struct absent_message m = *at(s, 0);
    s->first = (s->first + 1) & (s->capacity - 1);
    s->count--;
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

static void recall_some(struct absent *a, struct absent_site *s, const struct absent_recall *r)
{
    usec_t wall = clock_wall();
    while (s->count > 0 && at(s, 0)->turn <= wall + SOON) {
        (void)take_first(a, s);
    }
    uint32_t most = wanted(r, slice_make(s->key, s->len));
    most = most < s->count ? most : s->count;
    struct recall *recall = most == 0 ? NULL : recall_new(most, s->called);
    if (recall == NULL) {
        return;
    }
    for (uint32_t i = 0; i < most; i++) {
        struct absent_message m = take_first(a, s);
        recall->at[recall->count++] =
            (struct spool_position){SPOOL_DEFERRED, (uint64_t)m.turn, m.id, m.flow};
    }
    letter_put_recall(r->to_activator, recall);
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
        if (recall_account_is_open(s->called)) {
            continue; /* the flows may have no places for it yet */
        }
        recall_some(a, s, r);
        if (s->count == 0 && !recall_account_is_open(s->called)) {
            forget(a, s);
        }
    }
}
