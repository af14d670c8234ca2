/* The fields that one message goes out with: its signatures, and the Feedback-ID that is signed with
 * the rest. Made once; made again when the keys for the message are other ones, or when a signature
 * would soon expire.
 *
 * One owner at a time, the signer's thread. */
#ifndef ENGINE_SEAL_H
#define ENGINE_SEAL_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "engine/state/seal_result.h"
#include "net/dkim/dkim_header.h"

#include <stdint.h>

struct message;
struct settings;
struct spool_reader;

#define SEAL_HEADER_MAX (1U << 20) /* bytes of a header that is signed */

/* What a thread keeps for it. */
struct seal {
    struct spool_reader *reader; /* its own; not open outside of a call */
    struct buf front, header, out;
    struct dkim_header fields; /* of `header`, inside of a call */
};

void seal_init(struct seal *s, struct spool_reader *reader);
void seal_fini(struct seal *s);

/* Look at a message that is about to be scheduled. What it goes out with is in m->signing then, which
 * stays NULL when there was nothing to say.
 *
 * settings   the caller has a reference; with keys. They need not be those in force.
 * ret        not set on error
 * ret_count  signatures that were made
 * errors     ERR_AGAIN: the spool cannot be read for now; -ENOMEM: nothing has changed
 * thread     one that is online under RCU; it is offline while a key signs */
MUST_USE int seal_message(struct seal *s, const struct settings *settings, struct message *m,
                          usec_t now, enum seal_result *ret, uint32_t *ret_count);

#endif
