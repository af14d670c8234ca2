/* Owns the numbers of queued messages by tenant. Called by the spool writer, and by whoever asks
 * whether a tenant may have more; must not refuse anything itself. */
#include "engine/tally/queue_count.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/config/config.h"
#include "engine/config/label.h"
#include "engine/spool/spool_store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_USED_MAX = QUEUE_COUNT_SLOTS / 4 * 3 };

struct slot {
    _Atomic uint64_t hash; /* 0: free */
    _Atomic uint64_t messages;
};

struct queue_count {
    uint64_t seed; /* set at creation */
    /* owner */
    uint32_t used;
    bool is_on;
    bool is_doubted;
    bool is_full; /* by tenants that all have mail: there is no count */
    /* any thread; the owner stores */
    struct slot slots[QUEUE_COUNT_SLOTS];
};

struct queue_count *queue_count_new(void)
{
    struct queue_count *q = calloc(1, sizeof(*q)); /* pages that are never touched cost nothing */
    if (q != NULL) {
        q->seed = hash_random_seed();
    }
    return q;
}

void queue_count_free(struct queue_count *q)
{
    free(q);
}

/* Never 0. What is longer than a label is no tenant that a listener or a request can name. */
static uint64_t hash_of(const struct queue_count *q, struct slice tenant)
{
    char lower[LABEL_MAX];
    tenant.len = tenant.len < sizeof(lower) ? tenant.len : sizeof(lower);
    slice_lower(tenant, lower);
    return hash_bytes(lower, tenant.len, q->seed) | 1;
}

/* The slot with this hash, or the free one where it would be: there always are free ones. */
static struct slot *find_slot(const struct queue_count *q, uint64_t hash)
{
    for (uint32_t i = 0;; i++) {
        const struct slot *s = &q->slots[(hash + i) % QUEUE_COUNT_SLOTS];
        /* Acquire pairs with the release of add(). */
        uint64_t there = atomic_load_explicit(&s->hash, memory_order_acquire);
        if (there == hash || there == 0) {
            return (struct slot *)(uintptr_t)s; /* only the owner changes it */
        }
    }
}

uint64_t queue_count_of(const struct queue_count *q, struct slice tenant)
{
    const struct slot *s = find_slot(q, hash_of(q, tenant));
    return atomic_load_explicit(&s->messages, memory_order_relaxed);
}

uint64_t queue_count_limit(const struct config *c, struct slice tenant)
{
    const struct config_tenant *t = config_tenant_find(c, tenant);
    return t == NULL ? 0 : (uint64_t)t->queue_limit;
}

bool queue_count_is_on(const struct queue_count *q)
{
    return q->is_on;
}

bool queue_count_is_wanted(const struct queue_count *q, const struct config *c)
{
    bool is_full = q->used > SLOTS_USED_MAX && !q->is_full;
    return (!q->is_on || q->is_doubted || is_full) && c->has_queue_limits;
}

void queue_count_doubt(struct queue_count *q)
{
    q->is_doubted = true;
}

static void add(struct queue_count *q, struct slice tenant, uint64_t count)
{
    uint64_t hash = hash_of(q, tenant);
    struct slot *s = find_slot(q, hash);
    uint64_t messages = atomic_load_explicit(&s->messages, memory_order_relaxed);
    atomic_store_explicit(&s->messages, messages + count, memory_order_relaxed);
    if (atomic_load_explicit(&s->hash, memory_order_relaxed) == 0) {
        q->used++;
        atomic_store_explicit(&s->hash, hash, memory_order_release); /* see find_slot */
    }
}

void queue_count_add(struct queue_count *q, struct slice tenant)
{
    if (q->is_on && q->used <= SLOTS_USED_MAX) {
        add(q, tenant, 1);
    }
}

void queue_count_remove(struct queue_count *q, struct slice tenant)
{
    if (!q->is_on) {
        return;
    }
    struct slot *s = find_slot(q, hash_of(q, tenant));
    uint64_t messages = atomic_load_explicit(&s->messages, memory_order_relaxed);
    if (messages > 0) {
        atomic_store_explicit(&s->messages, messages - 1, memory_order_relaxed);
    }
}

static void clear(struct queue_count *q)
{
    for (uint32_t i = 0; i < QUEUE_COUNT_SLOTS; i++) {
        atomic_store_explicit(&q->slots[i].messages, 0, memory_order_relaxed);
        atomic_store_explicit(&q->slots[i].hash, 0, memory_order_relaxed);
    }
    q->used = 0;
    q->is_on = false;
}

struct walk {
    struct queue_count *queued;
    struct spool_reader *reader;
    int error;
};

/* A damaged flow has no names. */
static void note_flow(void *ctx, uint32_t number, uint64_t messages)
{
    struct walk *w = ctx;
    struct spool_flow flow = {.tenant = SLICE("")};
    int err = spool_read_flow(w->reader, number, &flow);
    w->error = err != 0 && err != ERR_MISSING && err != ERR_CORRUPT ? err : w->error;
    if (w->error == 0 && w->queued->used <= SLOTS_USED_MAX) {
        add(w->queued, err == 0 ? flow.tenant : SLICE(""), messages);
    }
}

static int walk(struct queue_count *q, struct spool_reader *reader)
{
    struct walk w = {q, reader, 0};
    int err = 0;
    for (int c = 0; c < SPOOL_CLASS_COUNT && err == 0; c++) {
        err = spool_count_flows(reader, (enum spool_class)c, note_flow, &w);
    }
    return err != 0 ? err : w.error;
}

int queue_count_take(struct queue_count *q, struct spool_reader *reader)
{
    clear(q);
    int err = spool_reader_begin(reader);
    if (err != 0) {
        return err;
    }
    err = walk(q, reader);
    spool_reader_end(reader);
    if (err != 0) {
        clear(q);
        return err;
    }
    q->is_on = true;
    q->is_doubted = false;
    q->is_full = q->used > SLOTS_USED_MAX;
    if (q->is_full) {
        clear(q);
        q->is_on = true;
        q->used = SLOTS_USED_MAX + 1; /* nothing is added */
        return ERR_LIMIT;
    }
    return 0;
}
