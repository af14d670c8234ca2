/* The incoming messages of a flow behind the last one that was taken: read a few at a time, so that not
 * each of them is looked for in the spool. Between two turns of a flow nothing comes between them, as the
 * queue is in the order of commits; who activates one of them out of its turn must forget the list.
 *
 * Owner: the activator. */
#ifndef ENGINE_KNOWN_PLACES_H
#define ENGINE_KNOWN_PLACES_H

#include "base/attr.h"
#include "base/id_set.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

enum { KNOWN_PLACES = 16 };

/* One of zeros knows nothing. */
struct known_places {
    uint64_t after; /* place of the last one taken; after another one the list is void */
    uint64_t times[KNOWN_PLACES], ids[KNOWN_PLACES];
    uint8_t next, asked, count; /* of these: not taken yet; the kernel was asked for those before */
};

static inline void known_places_forget(struct known_places *k)
{
    k->count = 0;
}

/* The message behind the place *at, which becomes its place.
 *
 * held     messages that are active
 * ahead    the kernel is asked for the pages of so many, the message itself among them, before it
 *          comes to the last of them; 0: it was asked already
 * ret_is_active  it is one of `held`
 * errors   those of spool_scan_some, ERR_MISSING among them; *at is what it was */
MUST_USE int known_places_next(struct known_places *k, struct spool_reader *reader,
                               const struct id_set *held, uint32_t ahead, struct spool_position *at,
                               bool *ret_is_active);

#endif
