/* See the header for who owns this and when the lock is held: the owner alone changes anything, so what it
 * reads cannot change meanwhile, and others read under the lock. */
#include "engine/activator/flow_names.h"

#include "base/hash.h"
#include "engine/spool/spool_store.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)MAIL_URGENT == SCHED_URGENT && (int)MAIL_NORMAL == SCHED_NORMAL &&
                  (int)MAIL_BULK == SCHED_BULK,
              "classes are the scheduler's");

enum { CHAINS_LEAST = 64, NUMBERS_LEAST = 64 };

/* A tenant, or a campaign of one. */
struct flow_name {
    struct flow_name *next; /* in its chain */
    uint64_t hash;
    uint32_t tenant; /* whose campaign it is; NO_TENANT: it is a tenant */
    uint32_t number;
    uint32_t messages;
    uint8_t len;
    char text[LABEL_MAX]; /* lower case; of a shared number a space and its place */
};

static const uint32_t NO_TENANT = UINT32_MAX;

struct place {
    struct flow_name *name; /* NULL: the number is free */
    uint32_t next_free;     /* 0: none */
};

struct flow_names {
    pthread_mutex_t lock;
    uint64_t seed;
    struct flow_name **chains; /* [chain_count], a power of 2 or 0 */
    uint32_t chain_count, count, campaigns;
    struct place *places;           /* [place_count], by number; the first is nobody's */
    uint32_t place_count;           /* 0 at first */
    uint32_t first_free, last_free; /* 0: none. The number that is free longest goes first */
};

struct flow_names *flow_names_new(void)
{
    struct flow_names *n = calloc(1, sizeof(*n));
    if (n != NULL) {
        pthread_mutex_init(&n->lock, NULL); /* with these attributes it cannot fail */
        n->seed = hash_random_seed();
    }
    return n;
}

void flow_names_free(struct flow_names *n)
{
    if (n == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n->place_count; i++) {
        free(n->places[i].name);
    }
    free(n->places);
    free(n->chains);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* --- numbers -------------------------------------------------------------------------------------- */

static void add_free(struct flow_names *n, uint32_t number)
{
    n->places[number] = (struct place){.name = NULL};
    if (n->first_free == 0) {
        n->first_free = number;
    } else {
        n->places[n->last_free].next_free = number;
    }
    n->last_free = number;
}

/* The lock is held. false: no memory */
static bool reserve_number(struct flow_names *n)
{
    if (n->first_free != 0) {
        return true;
    }
    uint32_t count = n->place_count == 0 ? NUMBERS_LEAST : 2 * n->place_count;
    struct place *grown = realloc(n->places, count * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    uint32_t first = n->place_count == 0 ? 1 : n->place_count;
    grown[0] = (struct place){.name = NULL};
    n->places = grown;
    n->place_count = count;
    for (uint32_t i = first; i < count; i++) {
        add_free(n, i);
    }
    return true;
}

/* More chains; without memory they become longer. false: there are none at all. */
static bool reserve_chain(struct flow_names *n)
{
    uint32_t count = n->chain_count == 0 ? CHAINS_LEAST : 2 * n->chain_count;
    struct flow_name **chains =
        n->count < n->chain_count ? NULL : calloc(count, sizeof(struct flow_name *));
    if (chains == NULL) {
        return n->chain_count > 0;
    }
    for (uint32_t i = 0; i < n->chain_count; i++) {
        struct flow_name *at = n->chains[i];
        while (at != NULL) {
            struct flow_name *next = at->next, **to = &chains[at->hash & (count - 1)];
            at->next = *to;
            *to = at;
            at = next;
        }
    }
    free(n->chains);
    n->chains = chains;
    n->chain_count = count;
    return true;
}

/* --- names ---------------------------------------------------------------------------------------- */

static void set_key(const struct flow_names *n, uint32_t tenant, struct slice text,
                    struct flow_name *ret)
{
    ret->tenant = tenant;
    ret->len = (uint8_t)(text.len < LABEL_MAX ? text.len : LABEL_MAX);
    for (uint32_t i = 0; i < ret->len; i++) {
        char c = text.data[i];
        ret->text[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    ret->hash = hash_bytes(ret->text, ret->len, n->seed + tenant);
}

static struct flow_name *find_name(const struct flow_names *n, const struct flow_name *key)
{
    struct flow_name *at = n->chain_count == 0 ? NULL : n->chains[key->hash & (n->chain_count - 1)];
    while (at != NULL && (at->hash != key->hash || at->tenant != key->tenant ||
                          at->len != key->len || memcmp(at->text, key->text, key->len) != 0)) {
        at = at->next;
    }
    return at;
}

/* The lock is held. NULL: no memory */
static struct flow_name *add_name(struct flow_names *n, const struct flow_name *key)
{
    struct flow_name *one = reserve_number(n) && reserve_chain(n) ? malloc(sizeof(*one)) : NULL;
    if (one == NULL) {
        return NULL;
    }
    *one = *key;
    one->messages = 0;
    one->number = n->first_free;
    n->first_free = n->places[one->number].next_free;
    n->places[one->number].name = one;
    struct flow_name **chain = &n->chains[one->hash & (n->chain_count - 1)];
    one->next = *chain;
    *chain = one;
    n->count++;
    n->campaigns += one->tenant != NO_TENANT;
    return one;
}

static void drop_name(struct flow_names *n, struct flow_name *one)
{
    struct flow_name **at = &n->chains[one->hash & (n->chain_count - 1)];
    while (*at != one) {
        at = &(*at)->next;
    }
    *at = one->next;
    n->count--;
    n->campaigns -= one->tenant != NO_TENANT;
    add_free(n, one->number);
    free(one);
}

/* For one message more. 0: no memory */
static uint32_t take_name(struct flow_names *n, uint32_t tenant, struct slice text)
{
    struct flow_name key;
    set_key(n, tenant, text, &key);
    struct flow_name *one = find_name(n, &key);
    if (one == NULL && tenant != NO_TENANT && n->campaigns >= FLOW_CAMPAIGNS_MOST) {
        char shared[16];
        snprintf(shared, sizeof(shared), " %u", (unsigned)(key.hash % FLOW_CAMPAIGNS_SHARED));
        set_key(n, tenant, slice_of(shared), &key); /* no name of a campaign has a space */
        one = find_name(n, &key);
    }
    if (one == NULL) {
        pthread_mutex_lock(&n->lock);
        one = add_name(n, &key);
        pthread_mutex_unlock(&n->lock);
    }
    if (one == NULL) {
        return 0;
    }
    one->messages++;
    return one->number;
}

static void give_back_name(struct flow_names *n, uint32_t number)
{
    struct flow_name *one = number == 0 ? NULL : n->places[number].name;
    if (one != NULL && --one->messages == 0) {
        pthread_mutex_lock(&n->lock);
        drop_name(n, one);
        pthread_mutex_unlock(&n->lock);
    }
}

struct sched_flow_key flow_names_take(struct flow_names *n, const struct spool_envelope *e)
{
    struct sched_flow_key flow = {.class = (uint32_t)spool_mail_class(e->flags)};
    if (e->tenant.len > 0) {
        flow.tenant = take_name(n, NO_TENANT, e->tenant);
    }
    if (e->campaign.len > 0) {
        flow.campaign = take_name(n, flow.tenant, e->campaign);
    }
    return flow;
}

void flow_names_give_back(struct flow_names *n, const struct sched_flow_key *flow)
{
    give_back_name(n, flow->campaign);
    give_back_name(n, flow->tenant);
}

bool flow_names_tenant(struct flow_names *n, uint32_t number, struct label *ret)
{
    pthread_mutex_lock(&n->lock);
    const struct flow_name *one =
        number > 0 && number < n->place_count ? n->places[number].name : NULL;
    bool is_tenant = one != NULL && one->tenant == NO_TENANT;
    if (is_tenant) {
        label_set(ret, slice_make(one->text, one->len));
    }
    pthread_mutex_unlock(&n->lock);
    return is_tenant;
}
