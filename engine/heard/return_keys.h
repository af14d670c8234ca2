/* The keys that seal tokens: a new one each RETURN_KEY_PERIOD, and each is kept for
 * RETURN_KEY_KEPT after it went out of use. A ring is immutable; rotating makes another. Pure, but
 * for the bytes of a new key, which come from OpenSSL. */
#ifndef ENGINE_RETURN_KEYS_H
#define ENGINE_RETURN_KEYS_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETURN_KEY_BYTES  32
#define RETURN_KEY_DAY    (INT64_C(24) * 60 * 60) /* seconds */
#define RETURN_KEY_PERIOD (30 * RETURN_KEY_DAY)
#define RETURN_KEY_KEPT   (180 * RETURN_KEY_DAY)
#define RETURN_KEYS_MAX   64 /* of a ring; what rotation by the clock needs is eight */
/* As many as people may come to by asking: what the clock needs has its room beside them, and no key goes
 * before its time. */
#define RETURN_KEYS_ASKED_MAX (RETURN_KEYS_MAX - 8)

/* So many stay, those that are kept no more among them, which are not believed: a clock that was ahead for a
 * while has thrown none away that are needed. */
#define RETURN_KEYS_SPARE 16

struct return_key {
    uint8_t number;
    int64_t begin; /* wall, seconds: seals messages that were created from then on */
    uint8_t secret[RETURN_KEY_BYTES];
};

struct return_keys {
    size_t count;
    struct return_key keys[RETURN_KEYS_MAX]; /* oldest first */
};

/* Read what return_keys_format wrote.
 * errors: ERR_SYNTAX: a line is none, their order is wrong, or a number is there twice */
MUST_USE int return_keys_parse(struct slice text, struct return_keys *ret);
/* One line a key: number, begin, secret in hexadecimal. Failure is the buffer's sticky flag. */
void return_keys_format(const struct return_keys *keys, struct buf *out);

/* Until when the key at a place is kept, wall, seconds: it went out of use when the next one began.
 * INT64_MAX: it is in use. */
int64_t return_keys_kept_until(const struct return_keys *keys, size_t at);

/* Whether the ring is due to be rotated: it has no key, the newest is old enough or begins in days, or there
 * are more than RETURN_KEYS_SPARE and the oldest is kept no more. */
MUST_USE bool return_keys_is_due(const struct return_keys *keys, int64_t now);
/* The ring with a new key when one is due (or `is_asked`), without those that are kept no more but for
 * RETURN_KEYS_SPARE.
 * now     wall, seconds; a clock that went back adds a key that begins with the newest's begin, and where that
 *         is a day ahead or more, what begins later than now begins now
 * errors  -EIO: no random bytes; ERR_LIMIT: it was asked for too often */
MUST_USE int return_keys_rotate(const struct return_keys *keys, int64_t now, bool is_asked,
                                struct return_keys *ret);

/* The key for a message: the newest that had begun when the message was to be tried first, so that a
 * retry after a rotation has the token of the first attempt; else the oldest. NULL: an empty ring. */
const struct return_key *return_keys_for(const struct return_keys *keys, int64_t begun);
/* The key of a number; NULL: none, or not kept at `now` any more. */
const struct return_key *return_keys_find(const struct return_keys *keys, uint8_t number,
                                          int64_t now);

#endif
