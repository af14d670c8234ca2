/* The account of a message's activation: which recipients have no result yet, which results are not
 * durable, and what the commit under way does to the message.
 *
 * Owner: the spool writer, until its LETTER_SETTLED gives the message back to the activator. The
 * activator only opens it, before any result can come: message_account_open writes two fields, which
 * the writer does not look at for a message without results. It lies inside the message, so that it
 * needs no memory of its own. A field is written by the file that stands above it. */
#ifndef ENGINE_MESSAGE_ACCOUNT_H
#define ENGINE_MESSAGE_ACCOUNT_H

#include "base/clock.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct result;

/* How many recipients have a durable result of this activation, or wait from an earlier one for
 * their sender to be told. Everything else about them is in the spool. */
struct message_stored {
    uint32_t deferred, failed, parked;
    usec_t park_until; /* wall: when the first parked recipient may go; 0: none is parked */
    char *park_text;   /* why recipients are parked; heap, NULL when none is */
    bool is_paced;     /* some of them wait for what their receiver lets through */
    usec_t defer_until, blocked; /* as in struct result, the earliest; 0: none */
    bool has_source;             /* these results changed the source that the message keeps to */
    uint16_t source;             /* which is this one, as in spool_retry */
};

struct message_account {
    /* settle.c */
    uint32_t pending;     /* recipients without a result */
    bool lacks_results;   /* some recipient's result could not be made: all of it is tried again */
    bool is_settled;      /* the transaction being written ends this activation */
    bool is_removed;      /* ... and takes the message out of the queue */
    struct result *fresh; /* results that are not durable yet */
    struct message_stored stored;
    struct list touched;   /* linked while `fresh` is not empty */
    bool is_all_delivered; /* journaled, and all recipients delivered: it only has to be removed */

    /* notice.c */
    bool is_expiry_begun; /* expiry is counted; event lines of `fresh` are written */
    uint32_t expiry_from; /* first stored recipient whose expiry line is not written yet */

    /* journaled.c; of a message that only the journal has */
    struct list journaled; /* linked while the journal has it and the tables do not */
    usec_t journaled_at;   /* monotonic */
    bool is_unannounced;   /* the activator does not have it */

    /* tally.c */
    uint16_t tenant_row; /* tally_tenant; 0: not looked up */

    /* in_core.c */
    uint32_t in_core_removed; /* recipients that are not counted as in memory any more */
};

void message_account_init(struct message_account *a);
void message_account_fini(struct message_account *a);

/* The activation begins. Activator.
 *
 * pending  recipients that will have a result
 * failed   recipients that an earlier activation stored as failed, and of whom the sender has not
 *          been told */
void message_account_open(struct message_account *a, uint32_t pending, uint32_t failed);

#endif
