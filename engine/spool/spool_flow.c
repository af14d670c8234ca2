/* Owns the numbers in memory and the flow table. Called by the store's transactions; decides nothing
 * about whose turn it is. */
#include "engine/spool/spool_flow.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES = 64, /* of longer names the beginning counts */
    CHAINS_LEAST = 64,
    NUMBERS_LEAST = 64,
    NUMBER_MOST = 2 * SPOOL_FLOWS_EVER,
    LOOKS = 8, /* numbers that one transaction looks at */
};

struct spool_flow_entry {
    struct spool_flow_entry *chain;   /* of the same hash */
    struct spool_flow_entry *touched; /* in spool_flows.touched */
    uint32_t hash, number;
    uint8_t class, tenant_len, campaign_len;
    bool is_stored;  /* in the table, as far as transactions have ended */
    bool is_touched; /* by the transaction under way */
    bool is_leaving; /* which deletes it */
    bool is_used;    /* since spool_forget_flows has met it */
    char text[];     /* tenant and campaign, in lower case */
};

void spool_flows_init(struct spool_flows *f)
{
    *f = (struct spool_flows){.seed = hash_random_seed()};
}

void spool_flows_fini(struct spool_flows *f)
{
    for (uint32_t i = 0; i < f->capacity; i++) {
        free(f->by_number[i]);
    }
    free(f->by_number);
    free(f->free_numbers);
    free(f->chains);
    spool_flows_init(f);
}

/* --- names ------------------------------------------------------------------------------------ */

struct flow_key {
    uint32_t hash;
    uint8_t class, tenant_len, campaign_len;
    char text[2 * NAME_BYTES];
};

static uint8_t lower_name(struct slice name, char *out)
{
    name = name.len > NAME_BYTES ? slice_to(name, NAME_BYTES) : name;
    slice_lower(name, out);
    return (uint8_t)name.len;
}

static void make_key(const struct spool_flows *f, enum mail_class class, struct slice tenant,
                     struct slice campaign, struct flow_key *ret)
{
    ret->class = (uint8_t) class;
    ret->tenant_len = lower_name(tenant, ret->text);
    ret->campaign_len = lower_name(campaign, ret->text + ret->tenant_len);
    ret->hash = (uint32_t)hash_bytes(ret->text, (size_t)ret->tenant_len + ret->campaign_len,
                                     f->seed + ret->class * 256u + ret->tenant_len);
}

static bool has_names(const struct spool_flow_entry *e, const struct flow_key *key)
{
    return e->hash == key->hash && e->class == key->class && e->tenant_len == key->tenant_len &&
           e->campaign_len == key->campaign_len &&
           memcmp(e->text, key->text, (size_t)key->tenant_len + key->campaign_len) == 0;
}

static struct spool_flow_entry *find(const struct spool_flows *f, const struct flow_key *key)
{
    struct spool_flow_entry *e =
        f->chain_count == 0 ? NULL : f->chains[key->hash & (f->chain_count - 1)];
    while (e != NULL && !has_names(e, key)) {
        e = e->chain;
    }
    return e;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void link_entry(struct spool_flows *f, struct spool_flow_entry *e)
{
    struct spool_flow_entry **chain = &f->chains[e->hash & (f->chain_count - 1)];
    e->chain = *chain;
    *chain = e;
}

/* More chains; without memory they become longer. false: there are none at all */
static bool reserve_chain(struct spool_flows *f)
{
    if (f->count < f->chain_count) {
        return true;
    }
    uint32_t count = f->chain_count == 0 ? CHAINS_LEAST : 2 * f->chain_count;
    struct spool_flow_entry **chains = calloc(count, sizeof(struct spool_flow_entry *));
    if (chains == NULL) {
        return f->chain_count > 0;
    }
    free(f->chains);
    f->chains = chains;
    f->chain_count = count;
    for (uint32_t i = 0; i < f->capacity; i++) {
        if (f->by_number[i] != NULL) {
            link_entry(f, f->by_number[i]);
        }
    }
    return true;
}

static bool reserve_number(struct spool_flows *f, uint32_t number)
{
    uint32_t capacity = f->capacity == 0 ? NUMBERS_LEAST : f->capacity;
    while (capacity <= number) {
        capacity *= 2;
    }
    if (capacity == f->capacity) {
        return true;
    }
    struct spool_flow_entry **by_number =
        realloc(f->by_number, capacity * sizeof(struct spool_flow_entry *));
    if (by_number == NULL) {
        return false;
    }
    f->by_number = by_number;
    uint32_t *free_numbers = realloc(f->free_numbers, capacity * sizeof(*free_numbers));
    if (free_numbers == NULL) {
        return false;
    }
    f->free_numbers = free_numbers;
    for (uint32_t i = f->capacity; i < capacity; i++) {
        f->by_number[i] = NULL;
    }
    f->capacity = capacity;
    return true;
}

/* NULL: no memory, or the number is in use */
static struct spool_flow_entry *add(struct spool_flows *f, uint32_t number,
                                    const struct flow_key *key)
{
    const size_t len = (size_t)key->tenant_len + key->campaign_len;
    if (number == 0 || number > NUMBER_MOST || !reserve_number(f, number) ||
        f->by_number[number] != NULL || !reserve_chain(f)) {
        return NULL;
    }
    struct spool_flow_entry *e = calloc(1, sizeof(*e) + len);
    if (e == NULL) {
        return NULL;
    }
    e->hash = key->hash;
    e->number = number;
    e->class = key->class;
    e->tenant_len = key->tenant_len;
    e->campaign_len = key->campaign_len;
    memcpy(e->text, key->text, len);
    f->by_number[number] = e;
    f->count++;
    link_entry(f, e);
    return e;
}

static void drop(struct spool_flows *f, struct spool_flow_entry *e)
{
    struct spool_flow_entry **at = &f->chains[e->hash & (f->chain_count - 1)];
    while (*at != e) {
        at = &(*at)->chain;
    }
    *at = e->chain;
    f->by_number[e->number] = NULL;
    f->free_numbers[f->free_count++] = e->number;
    f->latest = f->latest == e ? NULL : f->latest;
    f->count--;
    free(e);
}

/* Numbers are given without gaps, so those that are not in use are free or above all others. */
static uint32_t next_number(struct spool_flows *f)
{
    while (f->free_count > 0) {
        uint32_t number = f->free_numbers[--f->free_count];
        if (f->by_number[number] == NULL) {
            return number;
        }
    }
    return f->count + 1;
}

/* Its own flow, or the one that it shares. NULL: no memory */
static struct spool_flow_entry *obtain(struct spool_flows *f, enum mail_class class,
                                       struct slice tenant, struct slice campaign)
{
    struct flow_key key;
    make_key(f, class, tenant, campaign, &key);
    struct spool_flow_entry *e = find(f, &key);
    if (e == NULL && f->count >= SPOOL_FLOWS_MOST && campaign.len > 0) {
        char shared[16]; /* no name of a campaign has a space */
        (void)snprintf(shared, sizeof(shared), " %u", (unsigned)(key.hash % SPOOL_FLOWS_SHARED));
        make_key(f, class, f->count < SPOOL_FLOWS_EVER ? tenant : SLICE(""), slice_of(shared),
                 &key);
        e = find(f, &key);
    }
    return e != NULL ? e : add(f, next_number(f), &key);
}

static bool is_of(const struct spool_flow_entry *e, enum mail_class class,
                  const struct spool_envelope *m)
{
    return e != NULL && e->class == class &&
           slice_eq(slice_make(e->text, e->tenant_len), m->tenant) &&
           slice_eq(slice_make(e->text + e->tenant_len, e->campaign_len), m->campaign);
}

uint32_t spool_flow_of(struct spool_store *s, const struct spool_envelope *m)
{
    const enum mail_class class = spool_mail_class(m->flags);
    if (m->tenant.len == 0 && m->campaign.len == 0 && class == MAIL_NORMAL) {
        return 0;
    }
    if (!is_of(s->flows.latest, class, m)) {
        s->flows.latest = obtain(&s->flows, class, m->tenant, m->campaign);
    }
    if (s->flows.latest == NULL) {
        return 0;
    }
    s->flows.latest->is_used = true;
    return s->flows.latest->number;
}

int spool_flow_of_record(struct spool_txn *t, uint64_t id, uint32_t *ret)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    struct spool_message m;
    *ret = 0;
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    if (r == 0 && spool_message_decode(record, id, false, &m) == 0) {
        *ret = spool_flow_of(t->store, &m.envelope);
    }
    return r == ERR_MISSING ? 0 : r;
}

/* --- the table -------------------------------------------------------------------------------- */

static void touch(struct spool_flows *f, struct spool_flow_entry *e)
{
    if (!e->is_touched) {
        e->is_touched = true;
        e->touched = f->touched;
        f->touched = e;
    }
}

int spool_flow_store(struct spool_txn *t, uint32_t number)
{
    struct spool_flows *f = &t->store->flows;
    struct spool_flow_entry *e = number < f->capacity ? f->by_number[number] : NULL;
    if (e == NULL || (e->is_touched ? !e->is_leaving : e->is_stored)) {
        return 0;
    }
    const struct spool_flow flow = {
        .number = number,
        .class = (enum mail_class)e->class,
        .tenant = slice_make(e->text, e->tenant_len),
        .campaign = slice_make(e->text + e->tenant_len, e->campaign_len),
    };
    const struct spool_key key = spool_key_flow(number);
    void *at;
    int r = spool_table_put(t, SPOOL_TABLE_FLOW, &key, spool_flow_bytes(&flow), &at);
    if (r == 0) {
        spool_flow_encode(&flow, at);
        e->is_leaving = false;
        touch(f, e);
    }
    return r;
}

static struct spool_flow_entry *take_touched(struct spool_flows *f)
{
    struct spool_flow_entry *e = f->touched;
    f->touched = e->touched;
    e->is_touched = false;
    return e;
}

void spool_flows_committed(struct spool_flows *f)
{
    while (f->touched != NULL) {
        struct spool_flow_entry *e = take_touched(f);
        e->is_stored = !e->is_leaving;
        if (e->is_leaving) {
            drop(f, e);
        }
    }
}

void spool_flows_aborted(struct spool_flows *f)
{
    while (f->touched != NULL) {
        struct spool_flow_entry *e = take_touched(f);
        e->is_stored = e->is_leaving =
            false; /* nobody knows: it is put again with its next place */
    }
}

void spool_flows_doubt(struct spool_flows *f)
{
    for (uint32_t i = 0; i < f->capacity; i++) {
        if (f->by_number[i] != NULL) {
            f->by_number[i]->is_stored = false;
        }
    }
}

/* Whether no place in the queue has the number. errors: storage */
static int is_empty(struct spool_txn *t, uint32_t number, bool *ret)
{
    *ret = true;
    for (uint8_t class = 0; *ret && class < SPOOL_CLASS_COUNT; class ++) {
        const struct spool_key from = spool_key_queue(number, 0, 0);
        const enum spool_table table = spool_queue_table(class);
        struct spool_position found;
        struct slice key, record;
        uint64_t entries = 0;
        int r = spool_table_count(t, table, &entries);
        if (r == 0 && entries > 0) {
            r = spool_table_seek(t, table, &from, &key, &record);
            while (r == 0 && !spool_key_read_queue(key, &found)) {
                r = spool_table_next(t, table, &key, &record); /* see spool_inspect.h */
            }
            *ret = r != 0 || found.flow != number;
        }
        if (r != 0 && r != ERR_MISSING) {
            return r;
        }
    }
    return 0;
}

int spool_forget_flows(struct spool_txn *t)
{
    struct spool_flows *f = &t->store->flows;
    int r = 0;
    assert(spool_journal_is_empty(t->store) || t->generation != 0);
    for (int i = 0; r == 0 && i < LOOKS && f->count > SPOOL_FLOWS_KEPT; i++) {
        f->hand = f->hand + 1 < f->capacity ? f->hand + 1 : 1;
        struct spool_flow_entry *e = f->by_number[f->hand];
        if (e == NULL || e->is_used) {
            if (e != NULL) {
                e->is_used = false;
            }
            continue;
        }
        const struct spool_key key = spool_key_flow(e->number);
        bool is_leaving = false;
        r = is_empty(t, e->number, &is_leaving);
        if (r == 0 && is_leaving) {
            r = spool_table_del(t, SPOOL_TABLE_FLOW, &key);
            e->is_leaving = true;
            touch(f, e);
        }
    }
    return r;
}

/* --- at start --------------------------------------------------------------------------------- */

static int load_table(struct spool_txn *t)
{
    struct spool_flows *f = &t->store->flows;
    const struct spool_key first = spool_key_flow(0);
    struct slice key, record;
    int r = spool_table_seek(t, SPOOL_TABLE_FLOW, &first, &key, &record);
    for (; r == 0; r = spool_table_next(t, SPOOL_TABLE_FLOW, &key, &record)) {
        uint32_t number;
        struct spool_flow flow;
        struct flow_key names;
        if (!spool_key_read_flow(key, &number) || spool_flow_decode(record, number, &flow) != 0) {
            f->is_doubted = true;
            continue;
        }
        make_key(f, flow.class, flow.tenant, flow.campaign, &names);
        struct spool_flow_entry *e = add(f, number, &names);
        if (e == NULL) {
            return -ENOMEM;
        }
        e->is_stored = true;
    }
    return r == ERR_MISSING ? 0 : r;
}

/* What is between the numbers in use is free. */
static void find_free(struct spool_flows *f)
{
    uint32_t greatest = 0;
    for (uint32_t i = 1; i < f->capacity; i++) {
        greatest = f->by_number[i] != NULL ? i : greatest;
    }
    f->free_count = 0;
    for (uint32_t i = greatest; i > 0; i--) {
        if (f->by_number[i] == NULL) {
            f->free_numbers[f->free_count++] = i;
        }
    }
}

/* A number that nobody gave, of a damaged place: the place moves to flow 0. */
static int move_place(struct spool_txn *t, struct spool_position *p)
{
    const struct spool_position from = *p;
    struct spool_position to = *p;
    to.flow = 0;
    p->flow--; /* there may be a further one */
    return spool_requeue(t, &from, &to, NULL);
}

/* A number without names: those of the message at hand, or names that nobody has. */
static int name_number(struct spool_txn *t, struct spool_position *p)
{
    struct spool_flows *f = &t->store->flows;
    const struct spool_key key = spool_key_id(p->id);
    struct slice record;
    struct spool_message m;
    struct flow_key names;
    char nobody[24];
    if (p->flow == 0 || (p->flow < f->capacity && f->by_number[p->flow] != NULL)) {
        return 0;
    }
    if (p->flow > NUMBER_MOST) {
        return move_place(t, p);
    }
    (void)snprintf(nobody, sizeof(nobody), " number %u", (unsigned)p->flow);
    make_key(f, MAIL_NORMAL, SLICE(""), slice_of(nobody), &names);
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    if (r == 0 && spool_message_decode(record, p->id, true, &m) == 0) {
        make_key(f, spool_mail_class(m.envelope.flags), m.envelope.tenant, m.envelope.campaign,
                 &names);
    }
    if (r != 0 && r != ERR_MISSING) {
        return r;
    }
    return add(f, p->flow, &names) == NULL ? spool_txn_fail(t, -ENOMEM)
                                           : spool_flow_store(t, p->flow);
}

/* Calls look for the first place of each flow in a class; it goes on behind the flow of *p. */
static int each_flow(struct spool_txn *t, uint8_t class,
                     int (*look)(struct spool_txn *t, struct spool_position *p))
{
    const enum spool_table table = spool_queue_table(class);
    struct spool_position p = {.class = class};
    int r = 0;
    for (uint64_t flow = 0; r == 0 && flow <= UINT32_MAX; flow = (uint64_t)p.flow + 1) {
        const struct spool_key from = spool_key_queue((uint32_t)flow, 0, 0);
        struct slice key, record;
        r = spool_table_seek(t, table, &from, &key, &record);
        while (r == 0 && !spool_key_read_queue(key, &p)) {
            r = spool_table_next(t, table, &key, &record); /* see spool_inspect.h */
        }
        r = r == 0 ? look(t, &p) : r;
    }
    return r == ERR_MISSING ? 0 : r;
}

int spool_flows_load(struct spool_txn *t)
{
    struct spool_flows *f = &t->store->flows;
    assert(f->count == 0 && f->touched == NULL);
    int r = load_table(t);
    for (uint8_t class = 0; r == 0 && f->is_doubted && class < SPOOL_CLASS_COUNT; class ++) {
        r = each_flow(t, class, name_number);
    }
    if (r == 0) {
        find_free(f);
    }
    return r;
}

int spool_flows_next_sequence(struct spool_txn *t, uint64_t *ret)
{
    struct spool_flows *f = &t->store->flows;
    *ret = 1;
    for (uint32_t number = 0; number == 0 || number < f->capacity; number++) {
        const struct spool_key end = spool_key_queue(number, UINT64_MAX, UINT64_MAX);
        struct spool_position p;
        struct slice key;
        if (number > 0 && f->by_number[number] == NULL) {
            continue;
        }
        int r = spool_table_seek_back(t, SPOOL_TABLE_INCOMING, &end, &key);
        if (r == 0 && spool_key_read_queue(key, &p) && p.flow == number && p.time >= *ret) {
            *ret = p.time + 1;
        }
        if (r != 0 && r != ERR_MISSING) {
            return r;
        }
    }
    return 0;
}
