/* Recipients that come in together. Called by sched_submit and sched_submit_more. First everything
 * that can fail (stage), then everything that cannot (commit): a batch is taken whole or not. */
#include "sched/batch.h"

#include "sched/candidate.h"
#include "sched/parking.h"
#include "sched/place/site.h"
#include "sched/preempt.h"
#include "sched/recipient_pool.h"
#include "sched/terms.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <string.h>

#define STACK_SCRATCH 1024   /* bytes; enough for a few recipients, which is most mail */
#define KEPT_SCRATCH  262144 /* bytes, of a scheduler: a thousand recipients */
#define LOOK_AHEAD    16     /* destinations */

struct item {
    uint64_t key;      /* the name's first bytes, so that most comparisons end here */
    struct slice name; /* of the destination */
    struct slice address;
    uint32_t domain_at; /* position of the last '@' in the address, or its length */
    uint32_t nexthop_at;
    uint32_t index;
    uint16_t pool;
};

/* Items of one destination. */
struct run {
    const struct item *items;
    uint64_t hash; /* of the name */
    uint32_t count;
    struct sched_destination *destination;
    struct peer *peer;
    struct sched_entry *partial; /* of the peer, has room for some */
    uint32_t partial_count;
    struct entry_queue entries; /* NEW ones */
    bool is_new_peer;
};

struct batch {
    struct item *items, *spare; /* recipient_count each */
    struct run *runs;           /* at most as many */
    uint32_t run_count;
    char *names; /* recipient limit 1: room for the names made up */
};

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static int compare_bytes(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.data, b.data, len);
    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

static int compare_domains(const struct item *a, const struct item *b)
{
    bool a_has = a->domain_at < a->address.len, b_has = b->domain_at < b->address.len;
    if (a_has != b_has) {
        return a_has ? -1 : 1;
    }
    struct slice x = slice_from(a->address, a->domain_at);
    struct slice y = slice_from(b->address, b->domain_at);
    for (size_t i = 0; i < x.len && i < y.len; i++) {
        int order = lower(x.data[i]) - lower(y.data[i]);
        if (order != 0) {
            return order;
        }
    }
    return x.len < y.len ? -1 : x.len > y.len;
}

/* In the order of the names, as far as they reach. */
static uint64_t key_of(struct slice name)
{
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof(key); i++) {
        key = key << 8 | (i < name.len ? (unsigned char)name.data[i] : 0);
    }
    return key;
}

static int compare_items(const struct item *a, const struct item *b)
{
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    int order = compare_bytes(a->name, b->name);
    if (order == 0 && a->pool != b->pool) {
        return a->pool < b->pool ? -1 : 1;
    }
    if (order == 0) {
        order = compare_domains(a, b);
    }
    return order != 0 ? order : compare_bytes(a->address, b->address);
}

static void merge(const struct item *from, struct item *to, uint32_t start, uint32_t middle,
                  uint32_t end)
{
    uint32_t a = start, b = middle;
    for (uint32_t i = start; i < end; i++) {
        bool takes_a = a < middle && (b >= end || compare_items(&from[a], &from[b]) <= 0);
        to[i] = takes_a ? from[a++] : from[b++];
    }
}

/* Stable, in n log n steps whatever the input, and without the C library's allocations. */
static void sort(struct batch *b, uint32_t count)
{
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = count - start < width ? count : start + width;
            uint32_t end = count - start < 2 * width ? count : start + 2 * width;
            merge(b->items, b->spare, start, middle, end);
        }
        struct item *sorted = b->spare;
        b->spare = b->items;
        b->items = sorted;
    }
}

/* With a recipient limit of exactly 1 each recipient is a destination of its own (4.4, 6). */
static struct slice make_name(char *at, const struct item *item, struct slice nexthop)
{
    size_t len = 0;
    for (; len < item->domain_at; len++) {
        at[len] = (char)lower(item->address.data[len]);
    }
    at[len++] = '@';
    memcpy(at + len, nexthop.data, nexthop.len);
    return slice_make(at, len + nexthop.len);
}

static uint32_t last_at_sign(struct slice address)
{
    size_t at = address.len;
    while (at > 0 && address.data[at - 1] != '@') {
        at--;
    }
    return (uint32_t)(at > 0 ? at - 1 : address.len);
}

static void fill_items(const struct sched *s, struct batch *b, const struct sched_message *m)
{
    char *names = b->names;
    for (uint32_t i = 0; i < m->recipient_count; i++) {
        const struct sched_recipient *r = &m->recipients[i];
        struct item *item = &b->items[i];
        *item = (struct item){
            .name = r->nexthop,
            .address = r->address,
            .domain_at = last_at_sign(r->address),
            .index = r->index,
            .pool = r->pool,
        };
        if (s->config.destination_recipient_limit == 1) {
            item->name = make_name(names, item, r->nexthop);
            item->nexthop_at = item->domain_at + 1;
            names += item->name.len;
        }
        item->key = key_of(item->name);
    }
}

static size_t scratch_size(const struct sched *s, const struct sched_message *m)
{
    size_t size = m->recipient_count * (2 * sizeof(struct item) + sizeof(struct run));
    if (s->config.destination_recipient_limit == 1) {
        for (uint32_t i = 0; i < m->recipient_count; i++) {
            size += m->recipients[i].address.len + 1 + m->recipients[i].nexthop.len;
        }
    }
    return size;
}

static void prepare_batch(const struct sched *s, struct batch *b, char *scratch,
                          const struct sched_message *m)
{
    uint32_t count = m->recipient_count;
    b->items = (struct item *)(void *)scratch;
    b->spare = b->items + count;
    b->runs = (struct run *)(void *)(b->spare + count);
    b->names = (char *)(b->runs + count);
    fill_items(s, b, m);
    sort(b, count);
    b->run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct run *last = &b->runs[b->run_count - (b->run_count > 0)];
        if (b->run_count > 0 && slice_eq(last->items->name, b->items[i].name) &&
            last->items->pool == b->items[i].pool) {
            last->count++;
            continue;
        }
        struct run *run = &b->runs[b->run_count++];
        *run = (struct run){
            .items = &b->items[i],
            .hash = destination_hash(s, b->items[i].name, b->items[i].pool),
            .count = 1,
        };
    }
}

static void copy_indexes(struct sched_entry *e, const struct item *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        entry_indexes(e)[e->count++] = items[i].index;
    }
}

static int stage_entries(struct sched *s, struct run *run, uint32_t done, uint32_t limit)
{
    while (done < run->count) {
        uint32_t count = run->count - done;
        if (limit > 0 && count > limit) {
            count = limit;
        }
        struct sched_entry *e = entry_new(s, run->peer, count);
        if (e == NULL) {
            return -ENOMEM;
        }
        entry_queue_push(&run->entries, e);
        copy_indexes(e, run->items + done, count);
        done += count;
    }
    return 0;
}

/* The last waiting entry of the peer takes what it has room for (4.5). */
static int stage_partial(struct sched *s, struct run *run, uint32_t limit)
{
    struct sched_entry *last = run->peer->waiting.last;
    if (last == NULL) {
        return 0;
    }
    uint32_t count = run->count;
    if (limit > 0) {
        assert(last->count <= limit); /* see sched/division.h */
        uint32_t room = limit - last->count;
        count = count < room ? count : room;
    }
    if (count == 0) {
        return 0;
    }
    run->partial = last;
    run->partial_count = count;
    return entry_reserve(s, last, last->count + count);
}

static int stage_run(struct sched *s, struct job *j, struct run *run)
{
    const struct sched_destination *d = run->destination;
    run->peer = d->scratch;
    if (run->peer == NULL) {
        run->peer = peer_new(s, j, run->destination);
        if (run->peer == NULL) {
            return -ENOMEM;
        }
        run->is_new_peer = true;
    }
    if (destination_refuses(s, d)) {
        return stage_entries(s, run, 0, 0);
    }
    uint32_t limit = terms_recipient_limit(d, (uint32_t)s->config.destination_recipient_limit);
    int err = stage_partial(s, run, limit);
    return err != 0 ? err : stage_entries(s, run, run->partial_count, limit);
}

static void unstage(struct sched *s, struct batch *b)
{
    for (uint32_t i = 0; i < b->run_count; i++) {
        struct run *run = &b->runs[i];
        struct sched_entry *e;
        while ((e = entry_queue_pop(&run->entries)) != NULL) {
            entry_free(s, e);
        }
        if (run->is_new_peer) {
            peer_remove(s, run->peer);
        }
        if (run->destination != NULL) {
            destination_settle(s, run->destination);
        }
    }
}

/* Find a job's peers by destination while its batch is staged. */
static void mark_peers(struct job *j, bool is_marked)
{
    list_foreach(p, &j->peers, struct peer, link)
    {
        p->destination->scratch = is_marked ? p : NULL;
    }
}

/* The destinations of a batch lie anywhere in memory, and what is asked for one after the other with little
 * between is on the way together: first where each is found, then what is there. */
static void expect_destinations(const struct sched *s, const struct run *runs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        destination_expect(s, runs[i].hash, false);
    }
    for (uint32_t i = 0; i < count; i++) {
        destination_expect(s, runs[i].hash, true);
    }
}

static int obtain_destinations(struct sched *s, struct batch *b)
{
    for (uint32_t i = 0; i < b->run_count; i++) {
        if (i % LOOK_AHEAD == 0 && b->run_count > 1) {
            uint32_t left = b->run_count - i;
            expect_destinations(s, &b->runs[i], left < LOOK_AHEAD ? left : LOOK_AHEAD);
        }
        struct run *run = &b->runs[i];
        run->destination = destination_obtain(s, run->items->name, run->items->pool, run->hash,
                                              run->items->nexthop_at);
        if (run->destination == NULL) {
            return -ENOMEM;
        }
    }
    /* What the new entries are linked behind. */
    for (uint32_t i = 0; i < b->run_count; i++) {
        __builtin_prefetch(b->runs[i].destination->todo.prev, 1);
    }
    return 0;
}

static int stage(struct sched *s, struct job *j, struct batch *b)
{
    int err = obtain_destinations(s, b);
    mark_peers(j, true);
    for (uint32_t i = 0; i < b->run_count && err == 0; i++) {
        err = stage_run(s, j, &b->runs[i]);
    }
    mark_peers(j, false);
    if (err != 0) {
        unstage(s, b);
    }
    return err;
}

static void commit_run(struct sched *s, struct job *j, struct run *run)
{
    struct sched_entry *e;
    if (destination_refuses(s, run->destination)) {
        while ((e = entry_queue_pop(&run->entries)) != NULL) {
            entry_refuse(s, e);
        }
        if (run->is_new_peer) {
            peer_remove(s, run->peer);
        }
        return;
    }
    job_obtain(s, j);
    if (run->is_new_peer) {
        list_push_back(&j->peers, &run->peer->link);
    }
    if (run->partial != NULL) {
        copy_indexes(run->partial, run->items, run->partial_count);
    }
    while ((e = entry_queue_pop(&run->entries)) != NULL) {
        entry_wait(s, e);
    }
    shared_add(&j->rcpt_count, (int)run->count);
    shared_add(&j->flow->recipients, run->count);
    shared_add(&s->shared.recipients_in_core, run->count);
    destination_want_hosts(s, run->destination);
}

/* The same of what sites count, of the run at that place and of the one behind it. */
static void expect_sites(const struct batch *b, uint32_t at)
{
    const struct sched_destination *d = at < b->run_count ? b->runs[at].destination : NULL;
    if (d == NULL || d->party->site == NULL) {
        return;
    }
    site_expect(d->party);
    if (at + 1 < b->run_count) {
        site_expect_party(b->runs[at + 1].destination->party);
    }
}

static void commit(struct sched *s, struct job *j, struct batch *b, const struct sched_message *m)
{
    bool was_stalled = j->is_stalled;
    j->is_reading = false;
    j->is_stalled = false;
    j->has_more = m->more;
    j->rcpt_unread = m->more ? m->unread_count : 0;
    j->refill_time = s->now;
    for (uint32_t i = 0; i < b->run_count; i++) {
        expect_sites(b, i + 1);
        commit_run(s, j, &b->runs[i]);
    }
    if (was_stalled) {
        job_unblock(s, j);
    }
    if (job_has_entries(j) && !job_is_blocked(j)) {
        preempt_invalidate(j->flow);
    }
    if (job_is_linked(j)) {
        candidate_file(s, j);
    }
    if (!j->has_more) {
        recipient_pool_move(s, j);
    }
    if (j->waiting + j->busy == 0) {
        job_settle(s, j);
    }
}

/* Kept from one batch to the next: for large ones it would be new pages each time. NULL: no
 * memory. */
static char *obtain_scratch(struct sched *s, size_t size)
{
    if (size <= s->scratch_bytes) {
        return s->scratch;
    }
    char *scratch = s->host.alloc(s->host.ctx, size);
    if (scratch != NULL && size <= KEPT_SCRATCH) {
        batch_fini(s);
        s->scratch = scratch;
        s->scratch_bytes = size;
    }
    return scratch;
}

void batch_fini(struct sched *s)
{
    if (s->scratch != NULL) {
        s->host.release(s->host.ctx, s->scratch);
    }
}

int batch_add(struct sched *s, struct job *j, const struct sched_message *m)
{
    alignas(max_align_t) char on_stack[STACK_SCRATCH];
    size_t size = scratch_size(s, m);
    char *scratch = size <= sizeof(on_stack) ? on_stack : obtain_scratch(s, size);
    if (scratch == NULL) {
        return -ENOMEM;
    }
    struct batch b;
    prepare_batch(s, &b, scratch, m);
    int err = stage(s, j, &b);
    if (err == 0) {
        commit(s, j, &b, m);
    }
    if (scratch != on_stack && scratch != s->scratch) {
        s->host.release(s->host.ctx, scratch);
    }
    return err;
}
