/* The table of responses and what gives way in it. Called by the tally on the spool writer, and by
 * reports that read; must not let a receiver that says something new each time grow it. */
#include "engine/tally/responses.h"

#include "base/hash.h"
#include "base/rcu.h"
#include "engine/tally/response_text.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { HEADS = 1024, NO_SLOT = UINT16_MAX };

static const usec_t half_life = 3600 * USEC_PER_SEC;

struct names {
    _Atomic uint32_t count; /* stored with release behind the name */
    struct {
        uint8_t len;
        char bytes[RESPONSE_NAME_MAX];
    } items[RESPONSE_NAMES];
};

struct response {
    struct rcu_retired retired;

    /* set at creation */
    uint64_t hash;
    usec_t first;
    enum result_kind kind;
    uint16_t code;
    char status[RESPONSE_STATUS_BYTES];
    uint16_t text_len, example_len;
    char text[RESPONSE_TEXT_MAX], example[RESPONSE_EXAMPLE_MAX];

    /* owner only */
    uint16_t next; /* slot of the next with this hash, or NO_SLOT */

    /* any thread, atomic */
    _Atomic uint64_t count;
    _Atomic usec_t last;
    _Atomic uint8_t class;
    struct names destinations, tenants;
};

struct responses {
    uint64_t seed;
    uint16_t heads[HEADS];                 /* owner only: slots by hash, or NO_SLOT */
    uint32_t used;                         /* owner only: slots that were ever used */
    struct response *slots[RESPONSES_MAX]; /* published under RCU */
};

/* --- names ------------------------------------------------------------------------------------ */

static void note_name(struct names *names, struct slice name)
{
    uint32_t count = atomic_load_explicit(&names->count, memory_order_relaxed);
    struct slice cut = slice_to(name, name.len < RESPONSE_NAME_MAX ? name.len : RESPONSE_NAME_MAX);
    if (count == RESPONSE_NAMES || cut.len == 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (slice_eq(slice_make(names->items[i].bytes, names->items[i].len), cut)) {
            return;
        }
    }
    memcpy(names->items[count].bytes, cut.data, cut.len);
    names->items[count].len = (uint8_t)cut.len;
    atomic_store_explicit(&names->count, count + 1, memory_order_release); /* see view_names */
}

static uint32_t view_names(const struct names *names, struct slice ret[RESPONSE_NAMES])
{
    /* Acquire pairs with the release of note_name. */
    uint32_t count = atomic_load_explicit(&names->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = slice_make(names->items[i].bytes, names->items[i].len);
    }
    return count;
}

/* --- the table -------------------------------------------------------------------------------- */

static uint64_t hash_response(const struct responses *r, const struct response_sight *s,
                              struct slice text)
{
    uint64_t seed = r->seed ^ ((uint64_t)s->code << 8 | (uint64_t)s->kind);
    return hash_bytes(text.data, text.len, seed);
}

static bool is_same_response(const struct response *p, uint64_t hash,
                             const struct response_sight *s, struct slice text)
{
    return p->hash == hash && p->kind == s->kind && p->code == s->code &&
           strncmp(p->status, s->status, sizeof(p->status) - 1) == 0 &&
           slice_eq(slice_make(p->text, p->text_len), text);
}

static struct response *find_response(const struct responses *r, uint64_t hash,
                                      const struct response_sight *s, struct slice text)
{
    for (uint16_t i = r->heads[hash % HEADS]; i != NO_SLOT; i = r->slots[i]->next) {
        if (is_same_response(r->slots[i], hash, s, text)) {
            return r->slots[i];
        }
    }
    return NULL;
}

static uint64_t weight(const struct response *p, usec_t now)
{
    usec_t last = atomic_load_explicit(&p->last, memory_order_relaxed);
    usec_t age = now > last ? (now - last) / half_life : 0;
    return age > 63 ? 0 : atomic_load_explicit(&p->count, memory_order_relaxed) >> age;
}

/* The slot of the response that is replaced when the table is full. */
static uint16_t least_response(const struct responses *r, usec_t now)
{
    uint16_t found = 0;
    uint64_t found_weight = UINT64_MAX;
    usec_t found_last = USEC_NEVER;
    for (uint16_t i = 0; i < RESPONSES_MAX; i++) {
        uint64_t w = weight(r->slots[i], now);
        usec_t last = atomic_load_explicit(&r->slots[i]->last, memory_order_relaxed);
        if (w < found_weight || (w == found_weight && last < found_last)) {
            found = i;
            found_weight = w;
            found_last = last;
        }
    }
    return found;
}

static void unchain(struct responses *r, uint16_t slot)
{
    uint16_t *at = &r->heads[r->slots[slot]->hash % HEADS];
    while (*at != slot) {
        assert(*at != NO_SLOT);
        at = &r->slots[*at]->next;
    }
    *at = r->slots[slot]->next;
}

static void release_response(struct rcu_retired *self)
{
    free(container_of(self, struct response, retired));
}

static struct response *response_new(uint64_t hash, const struct response_sight *s,
                                     struct slice text)
{
    struct response *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->hash = hash;
    p->first = s->time;
    p->kind = s->kind;
    p->code = s->code;
    memcpy(p->status, s->status, strnlen(s->status, sizeof(p->status) - 1));
    p->text_len = (uint16_t)text.len;
    memcpy(p->text, text.data, text.len);
    p->example_len =
        (uint16_t)(s->text.len < RESPONSE_EXAMPLE_MAX ? s->text.len : RESPONSE_EXAMPLE_MAX);
    if (p->example_len > 0) {
        memcpy(p->example, s->text.data, p->example_len);
    }
    return p;
}

/* NULL when out of memory. */
static struct response *add_response(struct responses *r, uint64_t hash,
                                     const struct response_sight *s, struct slice text)
{
    struct response *p = response_new(hash, s, text);
    if (p == NULL) {
        return NULL;
    }
    uint16_t slot = (uint16_t)r->used;
    if (r->used == RESPONSES_MAX) {
        slot = least_response(r, s->time);
        unchain(r, slot);
    } else {
        r->used++;
    }
    struct response *old = r->slots[slot];
    p->next = r->heads[hash % HEADS];
    r->heads[hash % HEADS] = slot;
    rcu_publish(&r->slots[slot], p);
    if (old != NULL) {
        rcu_retire(&old->retired, release_response);
    }
    return p;
}

void responses_count(struct responses *r, const struct response_sight *s)
{
    char bytes[RESPONSE_TEXT_MAX];
    struct slice text = slice_make(bytes, response_text_template(s->text, bytes));
    uint64_t hash = hash_response(r, s, text);
    struct response *p = find_response(r, hash, s, text);
    if (p == NULL) {
        p = add_response(r, hash, s, text);
    }
    if (p == NULL) {
        return;
    }
    note_name(&p->destinations, s->destination);
    note_name(&p->tenants, s->tenant);
    uint64_t count = atomic_load_explicit(&p->count, memory_order_relaxed);
    atomic_store_explicit(&p->count, count + 1, memory_order_relaxed); /* nobody else stores */
    atomic_store_explicit(&p->last, s->time, memory_order_relaxed);
    atomic_store_explicit(&p->class, (uint8_t)s->class, memory_order_relaxed);
}

bool responses_next(const struct responses *r, uint32_t *cursor, struct response_view *ret)
{
    const struct response *p = NULL;
    while (p == NULL && *cursor < RESPONSES_MAX) {
        p = rcu_load(&r->slots[(*cursor)++]);
    }
    if (p == NULL) {
        return false;
    }
    *ret = (struct response_view){
        .text = slice_make(p->text, p->text_len),
        .example = slice_make(p->example, p->example_len),
        .status = slice_of(p->status),
        .kind = p->kind,
        .code = p->code,
        .count = atomic_load_explicit(&p->count, memory_order_relaxed),
        .first = p->first,
        .last = atomic_load_explicit(&p->last, memory_order_relaxed),
        .class = (enum reply_class)atomic_load_explicit(&p->class, memory_order_relaxed),
    };
    ret->destination_count = view_names(&p->destinations, ret->destinations);
    ret->tenant_count = view_names(&p->tenants, ret->tenants);
    return true;
}

struct responses *responses_new(uint64_t seed)
{
    struct responses *r = calloc(1, sizeof(*r));
    if (r != NULL) {
        r->seed = seed;
        for (size_t i = 0; i < HEADS; i++) {
            r->heads[i] = NO_SLOT;
        }
    }
    return r;
}

void responses_free(struct responses *r)
{
    if (r != NULL) {
        for (size_t i = 0; i < RESPONSES_MAX; i++) {
            free(r->slots[i]);
        }
        free(r);
    }
}
