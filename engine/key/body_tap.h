/* Hashes the body of a message while its content arrives, in the forms that keys for its From domain
 * ask for; without such a key nothing is hashed.
 *
 * What is fed is what will be sent: the stored content, which no delivery changes but at the places
 * that the hash does not see (dots are stuffed and taken away again, and a last line without an end
 * gets one, as RFC 6376 section 3.4 has it hashed). One owner, on its thread. A ring is looked at
 * only during a call, so it may be another one at the next. */
#ifndef ENGINE_BODY_TAP_H
#define ENGINE_BODY_TAP_H

#include "base/slice.h"
#include "net/dkim/dkim_body.h"

#include <stdbool.h>
#include <stdint.h>

struct key_ring;

struct body_tap {
    unsigned forms;             /* bits of enum dkim_canon; those that are hashed */
    bool is_wanted;             /* body_tap_want said which forms */
    bool has_begun;             /* some content has come */
    bool is_in_body;            /* the header is over */
    uint8_t last_len;           /* of `last` */
    char last[3];               /* the end of what came of the header, while its end has not come */
    struct dkim_body bodies[2]; /* by enum dkim_canon */
};

/* NULL: out of memory; then nothing is hashed */
struct body_tap *body_tap_new(void);
void body_tap_free(struct body_tap *t); /* accepts NULL */
/* Hash in these forms, whatever the header says; before the first piece. */
void body_tap_want(struct body_tap *t, unsigned forms);
/* The next piece of the content. ring: NULL when there are no keys any more */
void body_tap_feed(struct body_tap *t, const struct key_ring *ring, struct slice piece);
/* The content is complete. returns the forms whose hashes are set */
unsigned body_tap_finish(struct body_tap *t, uint8_t ret_hashes[2][DKIM_HASH_BYTES]);

/* Where the body of a content begins, behind the empty line; its length when it has none. */
size_t body_tap_find(struct slice content);

#endif
