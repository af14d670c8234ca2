/* Limits that several connections share. Called by the sessions of all workers. */
#include "bench/sink/sink_rule.h"

#include "base/hash.h"
#include "bench/sink/sink_count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sink_rule_init(struct sink_rule *r, const struct behaviour *behaviour, usec_t start,
                   usec_t interval)
{
    *r = (struct sink_rule){.behaviour = behaviour};
    int err = -pthread_mutex_init(&r->lock, NULL);
    return err == 0 ? sink_clients_init(&r->clients, start, interval) : err;
}

void sink_rule_fini(struct sink_rule *r)
{
    (void)pthread_mutex_destroy(&r->lock);
    greylist_fini(&r->greylist);
    sink_clients_fini(&r->clients);
}

bool sink_rule_take(struct sink_rule *r, usec_t now)
{
    if (r->behaviour->rate.count == 0) {
        return true;
    }
    pthread_mutex_lock(&r->lock);
    r->begin = r->begin == 0 ? now : r->begin;
    bool is_there = rate_plan_take(&r->rate, &r->behaviour->rate, r->begin, now);
    pthread_mutex_unlock(&r->lock);
    return is_there;
}

bool sink_rule_has_rate(const struct sink_rule *r)
{
    return r->behaviour->rate.count > 0 || r->behaviour->rate_per_client.count > 0;
}

bool sink_rule_pass(struct sink_rule *r, const uint8_t client[16], struct slice sender,
                    struct slice recipient, usec_t delay, usec_t now)
{
    if (delay == 0) {
        return true;
    }
    pthread_mutex_lock(&r->lock);
    bool may_pass = greylist_pass(&r->greylist, client, sender, recipient, delay, now);
    pthread_mutex_unlock(&r->lock);
    return may_pass;
}

/* The slot that holds the domain, or the empty one where it belongs. */
static uint32_t *find_slot(const struct sink_rules *r, struct slice name)
{
    size_t i = hash_bytes(name.data, name.len, 0) & (r->table_size - 1);
    while (r->table[i] != 0 && !slice_eq(name, slice_of(r->file->domains[r->table[i] - 1].name))) {
        i = (i + 1) & (r->table_size - 1);
    }
    return &r->table[i];
}

int sink_rules_init(struct sink_rules *r, const struct behaviour_file *file, usec_t start,
                    usec_t interval)
{
    *r = (struct sink_rules){.file = file, .table_size = 16};
    while (r->table_size < 2 * file->domain_count) {
        r->table_size *= 2;
    }
    r->items = calloc(file->domain_count + 1, sizeof(*r->items));
    r->table = calloc(r->table_size, sizeof(*r->table));
    int err = r->items == NULL || r->table == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < file->domain_count && err == 0; i++) {
        err = sink_rule_init(&r->items[i], &file->domains[i].behaviour, start, interval);
        *find_slot(r, slice_of(file->domains[i].name)) = (uint32_t)i + 1;
    }
    return err;
}

void sink_rules_fini(struct sink_rules *r)
{
    for (size_t i = 0; r->items != NULL && i < r->file->domain_count; i++) {
        sink_rule_fini(&r->items[i]);
    }
    free(r->items);
    free(r->table);
    *r = (struct sink_rules){0};
}

struct sink_rule *sink_rules_find(const struct sink_rules *r, struct slice address)
{
    char lower[SINK_DOMAIN_NAME_MAX];
    if (r->file->domain_count == 0) {
        return NULL;
    }
    uint32_t slot = *find_slot(r, sink_domain_name(address, lower));
    return slot == 0 ? NULL : &r->items[slot - 1];
}
