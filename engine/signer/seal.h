/* The fields that one message goes out with: its signatures, and those that are written for it and signed
 * with the rest (seal_field.h). Made once; made again when the keys for the message are other ones, or when a signature
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
struct return_book;
struct settings;
struct spool_reader;

#define SEAL_HEADER_MAX (1U << 20) /* bytes of a header that is signed */

/* What a thread keeps for it. */
struct seal {
    struct spool_reader *reader;    /* its own; not open outside of a call */
    const struct return_book *book; /* NULL: nothing is written that has a token */
    struct buf front, header, out;
    struct dkim_header fields; /* of `header`, inside of a call */
    struct slice body; /* the content, when it is in memory, until the pass ends; else empty, and the
                        * reader is open */
};

void seal_init(struct seal *s, struct spool_reader *reader, const struct return_book *book);
void seal_fini(struct seal *s);

/* A message that is about to be scheduled. */
struct seal_job {
    const struct settings *settings; /* the caller has a reference; with keys. They need not be those
                                      * in force */
    struct message *message;
    size_t transport; /* that the recipients at hand take; index in the configuration */
    usec_t now;       /* wall */
};

/* Look at it. What it goes out with is in message->signing then, which stays NULL when there was nothing
 * to say.
 *
 * ret        not set on error
 * ret_count  signatures that were made
 * errors     ERR_AGAIN: the spool cannot be read for now; -ENOMEM: nothing has changed
 * thread     one that is online under RCU; it is offline while a key signs */
MUST_USE int seal_message(struct seal *s, const struct seal_job *job, enum seal_result *ret,
                          uint32_t *ret_count);

#endif
