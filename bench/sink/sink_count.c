/* Counters of a sink thread and their sum. Called by the sessions of one thread and, on its own
 * copy, by the reporter; takes no lock. */
#include "bench/sink/sink_count.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST_SLOTS 256

int sink_count_init(struct sink_count *c, size_t listener_count)
{
    *c = (struct sink_count){.table_size = TABLE_FIRST_SLOTS, .listener_count = listener_count};
    c->table = calloc(c->table_size, sizeof(*c->table));
    c->domains = calloc(c->table_size / 2, sizeof(struct sink_domain *));
    c->listeners = calloc(listener_count, sizeof(*c->listeners));
    if (c->table == NULL || c->domains == NULL || c->listeners == NULL) {
        sink_count_fini(c);
        return -ENOMEM;
    }
    return 0;
}

void sink_count_fini(struct sink_count *c)
{
    for (size_t i = 0; c->domains != NULL && i < c->domain_count; i++) {
        latency_fini(&c->domains[i]->tally.latency);
        free(c->domains[i]);
    }
    for (size_t i = 0; c->listeners != NULL && i < c->listener_count; i++) {
        latency_fini(&c->listeners[i].tally.latency);
    }
    latency_fini(&c->total.latency);
    free(c->domains);
    free(c->table);
    free(c->listeners);
    *c = (struct sink_count){0};
}

static NONNULL_RET void *must_have(void *memory)
{
    if (memory == NULL) {
        abort(); /* numbers that are wrong are worse than none */
    }
    return memory;
}

/* The slot that holds the domain, or the empty one where it belongs. */
static uint32_t *find_slot(const struct sink_count *c, struct slice name, uint64_t hash)
{
    for (size_t i = hash & (c->table_size - 1);; i = (i + 1) & (c->table_size - 1)) {
        uint32_t *slot = &c->table[i];
        if (*slot == 0) {
            return slot;
        }
        const struct sink_domain *d = c->domains[*slot - 1];
        if (d->hash == hash && slice_eq(name, slice_make(d->name, d->name_len))) {
            return slot;
        }
    }
}

static void grow_counts(struct sink_count *c)
{
    free(c->table);
    c->table_size *= 2;
    /* The array of pointers has half as many places as the table. */
    c->domains = must_have(realloc(c->domains, c->table_size / 2 * sizeof(struct sink_domain *)));
    c->table = must_have(calloc(c->table_size, sizeof(*c->table)));
    for (size_t i = 0; i < c->domain_count; i++) {
        const struct sink_domain *d = c->domains[i];
        *find_slot(c, slice_make(d->name, d->name_len), d->hash) = (uint32_t)i + 1;
    }
}

static struct slice domain_of(struct slice address)
{
    for (size_t i = address.len; i > 0; i--) {
        if (address.data[i - 1] == '@') {
            return slice_from(address, i);
        }
    }
    return address;
}

struct slice sink_domain_name(struct slice address, char ret_name[SINK_DOMAIN_NAME_MAX])
{
    struct slice name = domain_of(address);
    if (name.len > SINK_DOMAIN_NAME_MAX) {
        name.len = SINK_DOMAIN_NAME_MAX;
    }
    slice_lower(name, ret_name);
    return slice_make(ret_name, name.len);
}

struct sink_tally *sink_count_domain(struct sink_count *c, struct slice address)
{
    char lower[SINK_DOMAIN_NAME_MAX];
    struct slice name = sink_domain_name(address, lower);
    uint64_t hash = hash_bytes(name.data, name.len, 0);
    uint32_t *slot = find_slot(c, name, hash);
    if (*slot == 0 && c->domain_count >= SINK_DOMAINS_MAX) {
        name = SLICE("(others)");
        hash = hash_bytes(name.data, name.len, 0);
        slot = find_slot(c, name, hash);
    }
    if (*slot != 0) {
        return &c->domains[*slot - 1]->tally;
    }
    if (c->domain_count + 1 >= c->table_size / 2) {
        grow_counts(c);
        slot = find_slot(c, name, hash);
    }
    struct sink_domain *d = must_have(calloc(1, sizeof(*d) + name.len));
    d->hash = hash;
    d->name_len = name.len;
    memcpy(d->name, name.data, name.len);
    c->domains[c->domain_count] = d;
    *slot = (uint32_t)++c->domain_count;
    return &d->tally;
}

void sink_tally_message(struct sink_tally *t, uint64_t bytes, usec_t wall, usec_t latency)
{
    t->messages++;
    t->bytes += bytes;
    if (t->first == 0 || wall < t->first) {
        t->first = wall;
    }
    if (wall > t->last) {
        t->last = wall;
    }
    if (latency >= 0) {
        latency_add(&t->latency, latency);
    }
}

static void tally_merge(struct sink_tally *into, const struct sink_tally *from)
{
    into->messages += from->messages;
    into->recipients += from->recipients;
    into->bytes += from->bytes;
    into->deferred += from->deferred;
    into->rejected += from->rejected;
    if (from->first != 0 && (into->first == 0 || from->first < into->first)) {
        into->first = from->first;
    }
    if (from->last > into->last) {
        into->last = from->last;
    }
    latency_merge(&into->latency, &from->latency);
}

void sink_count_merge(struct sink_count *into, const struct sink_count *from)
{
    assert(into->listener_count == from->listener_count);
    for (size_t i = 0; i < from->domain_count; i++) {
        const struct sink_domain *d = from->domains[i];
        tally_merge(sink_count_domain(into, slice_make(d->name, d->name_len)), &d->tally);
    }
    for (size_t i = 0; i < from->listener_count; i++) {
        struct sink_listener_count *sum = &into->listeners[i];
        const struct sink_listener_count *one = &from->listeners[i];
        tally_merge(&sum->tally, &one->tally);
        tally_merge(&into->total, &one->tally);
        sum->connections += one->connections;
        sum->refused += one->refused;
        if (one->max_in_flight > sum->max_in_flight) {
            sum->max_in_flight = one->max_in_flight;
        }
    }
}
