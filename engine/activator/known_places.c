/* Owns the list of a flow's next messages. Called by the activator when it is the flow's turn; decides
 * nothing about them. */
#include "engine/activator/known_places.h"

/* Of the first message it says whether it is active; the list ends before any other one that is. */
static int look(struct known_places *k, struct spool_reader *reader, const struct id_set *held,
                const struct spool_position *at, bool *ret_is_active)
{
    struct spool_position found[KNOWN_PLACES];
    uint32_t count;
    int err = spool_scan_some(reader, at, found, KNOWN_PLACES, &count);
    k->next = k->asked = k->count = 0;
    if (err != 0) {
        return err;
    }
    *ret_is_active = id_set_has(held, found[0].id);
    do {
        k->times[k->count] = found[k->count].time;
        k->ids[k->count] = found[k->count].id;
        k->count++;
    } while (k->count < count && !id_set_has(held, found[k->count].id));
    return 0;
}

static void fetch_ahead(struct known_places *k, struct spool_reader *reader, uint32_t ahead)
{
    uint32_t left = k->count - k->next, count = left < ahead ? left : ahead;
    if (k->asked <= k->next && count > 0) {
        spool_prefetch_messages(reader, &k->ids[k->next], count);
        k->asked = (uint8_t)(k->next + count);
    }
}

int known_places_next(struct known_places *k, struct spool_reader *reader,
                      const struct id_set *held, uint32_t ahead, struct spool_position *at,
                      bool *ret_is_active)
{
    bool is_active = false;
    if (k->next >= k->count || k->after != at->time) {
        int err = look(k, reader, held, at, &is_active);
        if (err != 0) {
            return err;
        }
    }
    fetch_ahead(k, reader, ahead);
    at->time = k->after = k->times[k->next];
    at->id = k->ids[k->next];
    k->next++;
    *ret_is_active = is_active;
    return 0;
}
