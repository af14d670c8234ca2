/* A set of hashed triples with the time of each. Called by the receiver at RCPT. */
#include "bench/sink/greylist.h"

#include "base/hash.h"

#include <stdlib.h>

#define FIRST_ENTRIES 256
#define TEXT_MAX      512 /* bytes of an address that count */

static uint64_t hash_text(struct slice text, uint64_t seed)
{
    char lower[TEXT_MAX];
    text.len = text.len < sizeof(lower) ? text.len : sizeof(lower);
    slice_lower(text, lower);
    return hash_bytes(lower, text.len, seed);
}

/* The entry of the key, or the free one where it belongs. */
static struct greylist_entry *find_entry(const struct greylist *g, uint64_t key)
{
    size_t i = key & (g->capacity - 1);
    while (g->entries[i].key != 0 && g->entries[i].key != key) {
        i = (i + 1) & (g->capacity - 1);
    }
    return &g->entries[i];
}

static void grow_greylist(struct greylist *g)
{
    struct greylist old = *g;
    g->capacity = old.capacity == 0 ? FIRST_ENTRIES : 2 * old.capacity;
    g->entries = calloc(g->capacity, sizeof(*g->entries));
    if (g->entries == NULL) {
        abort(); /* a triple that is forgotten falsifies the measurement */
    }
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].key != 0) {
            *find_entry(g, old.entries[i].key) = old.entries[i];
        }
    }
    free(old.entries);
}

bool greylist_pass(struct greylist *g, const uint8_t client[16], struct slice sender,
                   struct slice recipient, usec_t delay, usec_t now)
{
    uint64_t key = hash_text(recipient, hash_text(sender, hash_bytes(client, 16, 0)));
    key += key == 0 ? 1 : 0;
    if (g->count >= g->capacity / 2) {
        grow_greylist(g);
    }
    struct greylist_entry *e = find_entry(g, key);
    if (e->key == key) {
        return now - e->first >= delay;
    }
    if (g->count >= GREYLIST_MAX) {
        return true;
    }
    *e = (struct greylist_entry){key, now};
    g->count++;
    return delay <= 0;
}

void greylist_fini(struct greylist *g)
{
    free(g->entries);
    *g = (struct greylist){0};
}
