/* The token in the address that a message is answered to: LOCAL+TOKEN@DOMAIN. It says which message,
 * which of its recipients, whose mail, and proves that we wrote it. Pure.
 *
 * 240 bits in 48 characters of base32 (RFC 4648; case does not matter, so it lives through whoever
 * folds addresses), first bit first:
 *
 *      8  number of the key                  256, of which some eight are in use at a time
 *     64  id of the message                  all of it
 *     24  index of the recipient in it       the first 16,777,215; later ones have none
 *     24  number of the tenant               0: nobody's mail; all ones: its name had no number
 *     24  number of the campaign             0: none; all ones: the same
 *     32  keyed hash of the recipient
 *     64  MAC of the bits before it          HMAC-SHA256, cut
 *
 * Nothing of it depends on the attempt, so every retry has the same token as long as it is sealed by
 * the same key: return_keys_for. The recipient cannot be read from it, only compared with. */
#ifndef ENGINE_RETURN_TOKEN_H
#define ENGINE_RETURN_TOKEN_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/heard/return_keys.h"

#include <stdbool.h>
#include <stdint.h>

#define RETURN_TOKEN_LEN        48 /* characters; no NUL is written behind them */
#define RETURN_TOKEN_NUMBER_MAX 0xffffffU

struct return_token {
    uint8_t key; /* number */
    uint64_t message;
    /* RETURN_TOKEN_NUMBER_MAX: not known */
    uint32_t recipient; /* index */
    uint32_t tenant;    /* number, as campaign; 0: none */
    uint32_t campaign;
    uint32_t hash; /* of the recipient's address */
};

/* Seal a token for a recipient.
 *
 * token      its key and hash are not read; a number beyond RETURN_TOKEN_NUMBER_MAX is written as
 *            RETURN_TOKEN_NUMBER_MAX
 * recipient  the address that is delivered to; ASCII letters count in any case
 * errors     -ENOMEM: OpenSSL has none */
MUST_USE int return_token_write(const struct return_token *token, const struct return_key *key,
                                struct slice recipient, char ret[static RETURN_TOKEN_LEN]);

/* The token of a text of RETURN_TOKEN_LEN characters.
 *
 * now      wall, seconds
 * errors   ERR_SYNTAX: no token, forged, or sealed by a key that is not in the ring or not kept any
 *          more; nobody is told which of these. -ENOMEM */
MUST_USE int return_token_read(struct slice text, const struct return_keys *keys, int64_t now,
                               struct return_token *ret);

/* Whether a token that was read is for this address. */
MUST_USE bool return_token_is_for(const struct return_token *token, const struct return_keys *keys,
                                  struct slice recipient);

/* The first text in `in` that has the shape of a token: behind a plus sign, and no further character
 * of base32 behind it. Forwarders that rewrite the sender leave such a text whole (SRS0=...=
 * DOMAIN=LOCAL+TOKEN@..., prvs=...=LOCAL+TOKEN@...).
 *
 * in   in/out; moved behind what was found
 * ret  of `in`; false: there is none */
MUST_USE bool return_token_find(struct slice *in, struct slice *ret);

#endif
