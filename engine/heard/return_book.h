/* What return addresses are made with: the ring of keys and the numbers of names, in the folder
 * `heard` of the spool. Made with the engine; the folder comes with the first configuration that
 * wants return addresses.
 *
 * Keys are published under RCU and replaced by return_book_rotate, which any one thread at a time may
 * call (a lock that no reader takes). Names: return_names.h. */
#ifndef ENGINE_RETURN_BOOK_H
#define ENGINE_RETURN_BOOK_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/heard/return_keys.h"
#include "engine/heard/return_token.h"

#include <stdbool.h>
#include <stdint.h>

struct return_book;
struct return_names;

#define RETURN_BOOK_TEXT_MAX 300
#define RETURN_ADDRESS_MAX   320 /* bytes of a return address */

struct return_book *return_book_new(void);    /* NULL: out of memory */
void return_book_free(struct return_book *b); /* accepts NULL; no reader is left */

/* Where the folder is, once, before other threads start; what is there is read.
 * now     wall, seconds
 * errors  -errno, ERR_SYNTAX: ret_text says what */
MUST_USE int return_book_open(struct return_book *b, const char *spool_path, int64_t now,
                              char ret_text[static RETURN_BOOK_TEXT_MAX]);
/* The configuration wants return addresses: from now on there are keys, durable before this returns.
 * A book that is not open yet does it when it is. Blocks on the disk.
 * errors: as above */
MUST_USE int return_book_want(struct return_book *b, int64_t now,
                              char ret_text[static RETURN_BOOK_TEXT_MAX]);
/* A new key when one is due or asked for. Blocks on the disk. Online under RCU, and nothing
 * that was found under it is used behind the call.
 * errors: -errno, ERR_LIMIT: it was asked for too often; the old ones stay */
MUST_USE int return_book_rotate(struct return_book *b, int64_t now, bool is_asked);

/* The keys; NULL: there are none yet. Thread: online under RCU, until the end of its pass. */
const struct return_keys *return_book_keys(const struct return_book *b);
/* NULL: there are none yet. Any thread. */
struct return_names *return_book_names(const struct return_book *b);

/* Of a message and a recipient, whose return address is to be written. */
struct return_subject {
    uint64_t message;
    int64_t begun;      /* wall, seconds: it came then, or is to be tried from then on */
    uint32_t recipient; /* index */
    struct slice tenant, campaign;
    struct slice address;
};
/* Write its token. Thread: as return_book_keys. false: there are no keys, or no memory */
MUST_USE bool return_book_token(const struct return_book *b, const struct return_subject *subject,
                                char ret[static RETURN_TOKEN_LEN]);
/* Write LOCAL+TOKEN@DOMAIN for `base`, which is LOCAL@DOMAIN. Thread: as return_book_keys.
 * returns  its length; 0: there are no keys, or no memory: the sender stays as it is */
MUST_USE size_t return_book_address(const struct return_book *b, struct slice base,
                                    const struct return_subject *subject,
                                    char ret[static RETURN_ADDRESS_MAX]);

#endif
