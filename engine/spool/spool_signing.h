/* What is kept of a message's signatures (table `signing`, id -> one record): which keys its request
 * named, the hash of its body, and the signature fields that it went out with.
 *
 * All but the names can be made again from the content, so a record that is missing or damaged is
 * no loss of mail: it is made again. A record goes with its message. Threads: as spool_store.h. */
#ifndef ENGINE_SPOOL_SIGNING_H
#define ENGINE_SPOOL_SIGNING_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/spool/spool_store.h"

#include <stdint.h>

#define SPOOL_SIGNING_HASH_BYTES 32
#define SPOOL_SIGNING_FORMS      2
#define SPOOL_SIGNING_WANTED_MAX 4096
#define SPOOL_SIGNING_FIELDS_MAX 65535

struct spool_signing {
    uint8_t forms; /* bits: which of the hashes are there */
    uint8_t hashes[SPOOL_SIGNING_FORMS][SPOOL_SIGNING_HASH_BYTES];
    uint64_t mark;       /* of the keys that made `fields`; 0: none did */
    usec_t signed_at;    /* wall */
    usec_t expires;      /* wall: when the first of the signatures does; 0: never */
    struct slice wanted; /* names of keys with commas between them; may be empty */
    struct slice fields; /* whole fields with their line ends; may be empty */
};

/* Replaces what is there. errors: ERR_LIMIT, storage */
MUST_USE int spool_put_signing(struct spool_txn *t, uint64_t id, const struct spool_signing *s);
/* Slices point into the map. errors: ERR_MISSING, ERR_CORRUPT, storage */
MUST_USE int spool_read_signing(struct spool_reader *r, uint64_t id, struct spool_signing *ret);
/* Costs nothing while the table is empty. errors: storage */
MUST_USE int spool_forget_signing(struct spool_txn *t, uint64_t id);

/* --- for the files of the spool ------------------------------------------------------------------ */

/* Whether it is a whole record under that key. */
struct spool_key;
MUST_USE bool spool_signing_is_good(struct slice record, const struct spool_key *key);

#endif
