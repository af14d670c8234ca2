/* Whom a notice to a sender is about: recipients whose results are on their way to the disk, from
 * memory, and those whose results are there already, from the spool. Spool writer. */
#ifndef ENGINE_NOTICE_RECIPIENTS_H
#define ENGINE_NOTICE_RECIPIENTS_H

#include "base/attr.h"
#include "engine/writer/bounce.h"
#include "engine/writer/notice.h"
#include "engine/writer/recipient_walk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message;
struct spool_reason;
struct spool_reader;

struct notice_recipients {
    struct bounce_recipient *list;
    size_t count, capacity;
    size_t left_out; /* recipients that did not fit into the list */
};

/* Gather at most BOUNCE_RECIPIENTS_MAX of them. The slices are valid as long as the reader stays
 * open and the message's results are there.
 *
 * errors: -ENOMEM, ERR_CORRUPT when the message's records are damaged, storage errors */
MUST_USE int notice_recipients_gather(struct notice_recipients *n, struct spool_reader *reader,
                                      const struct message *m, enum notice_kind kind);
void notice_recipients_fini(struct notice_recipients *n);

/* A walk over the recipients of a message that have no result in memory. The reader must stay open
 * until notice_stored_end. */
struct notice_stored {
    struct recipient_walk walk;
    const struct message *message;
    unsigned char *fresh; /* [a bit a recipient]: it has a result in memory */
};

/* A recipient as the spool has it: why it is not delivered. */
struct notice_stored_recipient {
    uint32_t index;
    int state; /* enum spool_recipient_state */
    uint16_t code;
    struct slice address, status, text, remote_mta;
};

/* from: the first recipient wanted. errors: -ENOMEM */
MUST_USE int notice_stored_begin(struct notice_stored *s, struct spool_reader *reader,
                                 const struct message *m, uint32_t from);
/* The next recipient that is not delivered, and of whose failure the sender was not told. */
MUST_USE bool notice_stored_next(struct notice_stored *s, struct notice_stored_recipient *ret);
/* Returns why the walk ended early: ERR_CORRUPT, storage errors; 0 when it did not. */
MUST_USE int notice_stored_end(struct notice_stored *s);

#endif
