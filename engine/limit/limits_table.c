/* A hash table of a fixed number of chains, so that no call ever moves all of it. Called by the
 * files of struct limits with the lock held; must not know what lies in it. */
#include "engine/limit/limits_private.h"

#include <errno.h>
#include <stdlib.h>

int limits_table_init(struct limits_table *t, uint32_t most)
{
    uint64_t chains = 64;
    while (chains < most) {
        chains *= 2;
    }
    t->chains = calloc(chains, sizeof(struct limits_link *));
    t->mask = chains - 1;
    return t->chains == NULL ? -ENOMEM : 0;
}

void limits_table_fini(struct limits_table *t)
{
    free(t->chains);
}

void limits_table_add(struct limits_table *t, struct limits_link *link, uint64_t hash)
{
    struct limits_link **chain = &t->chains[hash & t->mask];
    link->hash = hash;
    link->next = *chain;
    *chain = link;
    t->count++;
}

void limits_table_remove(struct limits_table *t, struct limits_link *link)
{
    struct limits_link **at = &t->chains[link->hash & t->mask];
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    t->count--;
}
