/* Which keys sign a message: chosen by the request, else by its tenant, else by its From domains.
 *
 * A From domain that is listed by tenants (its own name, or the nearest one above that is listed) is
 * signed for these alone; when one of several is not allowed, nothing is signed at all, as a reader may
 * be shown any of them. Pure: a ring and facts in, keys out. */
#ifndef ENGINE_KEY_CHOICE_H
#define ENGINE_KEY_CHOICE_H

#include "base/slice.h"
#include "engine/key/key_ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_CHOICE_MAX 16 /* keys that sign one message; further ones are left out */

struct key_question {
    const struct slice *from; /* lower case, at least one: see from_domain.h */
    size_t from_count;
    struct slice tenant; /* "": nobody's */
    struct slice wanted; /* titles of keys, with a comma between them: the request names these; "":
                          * it names none */
};

enum key_verdict {
    KEY_CHOSEN,
    KEY_NONE,    /* no key is for this mail */
    KEY_FOREIGN, /* a From domain, or a key that was named, belongs to other tenants */
    KEY_UNKNOWN, /* the request names a key that there is not */
    KEY_VERDICT_COUNT
};

struct key_choice {
    const struct ring_key *keys[KEY_CHOICE_MAX]; /* each once */
    size_t count;                                /* 0 unless KEY_CHOSEN */
    enum key_verdict verdict;
    struct slice about; /* the domain or key that KEY_FOREIGN or KEY_UNKNOWN is about; a view */
};

void key_choose(const struct key_ring *ring, const struct key_question *question,
                struct key_choice *ret);

/* The bits of enum dkim_canon that the bodies of messages from these domains may have to be hashed in,
 * whoever sends them: all that is known while the content arrives. 0: no key can be for them. */
unsigned key_choice_forms(const struct key_ring *ring, const struct slice *from, size_t count);

/* Tells signatures of the same keys from those of others: 0 for none. */
uint64_t key_choice_mark(const struct key_choice *choice);

/* Whether a request of this tenant may name these keys, before anything is known of the content. */
enum key_verdict key_choice_allows(const struct key_ring *ring, struct slice tenant,
                                   struct slice wanted, struct slice *ret_about);

#endif
