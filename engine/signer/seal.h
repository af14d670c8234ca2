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
#include "engine/key/key_choice.h"
#include "engine/state/seal_result.h"
#include "net/dkim/dkim_header.h"
#include "net/dkim/dkim_key.h"

#include <stdint.h>

struct message;
struct return_book;
struct settings;
struct spool_reader;

#define SEAL_HEADER_MAX (1U << 20)          /* bytes of a header that is signed */
#define SEAL_JOBS_MAX   16                  /* of one call */
#define SEAL_TIME       (2 * USEC_PER_MSEC) /* of a call, beside the message that it takes longer for */

/* A message that is about to be scheduled, and what came of it. */
struct seal_job {
    struct message *message;
    size_t transport; /* that the recipients at hand take; index in the configuration */

    /* what came of it */
    int err; /* ERR_AGAIN: the spool cannot be read for now; -ENOMEM: nothing has changed */
    enum seal_result result; /* when there was no error */
    uint32_t signatures;     /* that were made */
};

/* A message between what is read of it and its fields. */
struct seal_draft {
    struct key_choice choice;
    struct buf text; /* drafts in the order of the keys, and the fields written for the message */
    struct {
        size_t end; /* of its draft in the text */
        uint8_t hash[DKIM_HASH_BYTES];
        uint8_t signature[DKIM_SIGNATURE_MAX];
        size_t signature_len;
    } keys[KEY_CHOICE_MAX];
};

/* What a thread keeps for it. */
struct seal {
    struct spool_reader *reader;    /* its own; not open outside of a call */
    const struct return_book *book; /* NULL: nothing is written that has a token */
    struct buf front, header, out;
    struct dkim_header fields; /* of `header`, while one message is read */
    struct slice body; /* the content, when it is in memory, while it is read; else empty, and the
                        * reader is open */
    struct seal_draft drafts[SEAL_JOBS_MAX];
};

void seal_init(struct seal *s, struct spool_reader *reader, const struct return_book *book);
void seal_fini(struct seal *s);

/* Look at messages, each of which is there once. What one goes out with is in message->signing then, which stays NULL when
 * there was nothing to say. All are read, then all keys sign, then all fields are written: code and data
 * of each step are in the processor's caches for all but the first.
 *
 * settings  the caller has a reference; with keys. They need not be those in force
 * count     1 to SEAL_JOBS_MAX
 * now       wall
 * returns   how many of the first were looked at, when SEAL_TIME was over or the spool could not be read;
 *           the others are as they were, and the first of them says by err whether it was the spool
 * thread    one that is online under RCU; it is offline while keys sign */
MUST_USE size_t seal_messages(struct seal *s, const struct settings *settings,
                              struct seal_job *jobs, size_t count, usec_t now);

#endif
