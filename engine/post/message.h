/* One active message in memory: its envelope, those of its recipients that are being worked on, and
 * the account of this activation. A message that is not active has no object at all.
 *
 * Recipients go by their number in the spool. A small message holds all its addresses in its own
 * block; of a large one only those are loaded that a scheduler has asked for, and an address goes
 * as soon as its recipient is delivered.
 *
 * Who owns a field, and on which thread, stands above it in the declaration. An address is loaded
 * by the activator before its recipient is handed to a scheduler, read by whoever works on that
 * recipient, and unloaded by the spool writer when its result is durable. The content of a message
 * that came in moments ago is in memory. References: one of the activator's, which the writer sends
 * back when the message has settled, one for each scheduler that has a part of it (dropped when it
 * has finished), one while it is in the journal alone, and one while its content is being taken
 * away. */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/rcu.h"
#include "base/slice.h"
#include "engine/post/message_account.h"
#include "engine/spool/spool_store.h"
#include "sched/sched.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct config;
struct return_subject;
struct settings;
struct signing;

#define MESSAGE_IN_PARTS UINT16_MAX

/* The recipients of a message for one transport that have not been read from the spool yet. */
struct message_part {
    uint32_t unread; /* undone recipients of the transport that are not loaded */
    uint32_t next;   /* number of the recipient at which reading goes on */
};

/* Addresses of recipients with neighbouring numbers. The activator makes a page when it loads the
 * first address, and frees pages that have become empty when it makes another page; the spool
 * writer only takes addresses out. */
struct message_page {
    _Atomic uint32_t loaded;
    char *addresses[]; /* [at most 64]: an item of a packed list (base/packed.h) each */
};

struct message {
    /* set at creation, then constant: any thread that holds a reference */
    struct spool_envelope envelope; /* slices point into this object's own block */
    struct message_page **pages;    /* [recipients / 64, up]; message_load and message_unload say
                                     * who changes them */
    bool is_whole;                  /* all addresses are in the block */

    /* Set by whoever received it, before the spool writer gets it, then constant: what message_body gives
     * was read byte by byte. Each of its lines ends with CRLF, the last one too, none begins with a dot,
     * and there is no other CR or LF and no NUL. So DATA sends it as it is. */
    bool is_plain;

    /* set by the activator (the place of new mail: by the spool writer) before the message is handed
     * to a scheduler, then constant: as above */
    uint16_t whole_at; /* where all undelivered recipients went at once, or MESSAGE_IN_PARTS */
    usec_t activated;  /* wall */
    struct spool_position position; /* its place in the queue table */
    struct spool_retry retry;       /* as stored before this activation */
    struct sched_flow_key flow;     /* whose turn it takes: activator/flow_names.h */
    uint64_t suppress_seen;         /* its recipients were looked up when changes were that many:
                                     * spool_suppress_changes */

    /* see signing.h; NULL: nothing is known, and it goes out without signatures */
    struct signing *signing;

    /* activator only */
    struct message_part *parts; /* [transports of `settings`], NULL when nothing is unread */
    struct settings *settings;  /* own reference: their routes are used until all is read; NULL */
    uint32_t changes;           /* review.changes when the message became active */
    uint32_t in_core_added;     /* by in_core.h */
    struct list active;  /* in the activator's list until no other thread holds the message */
    struct list in_flow; /* in its flow's list while it may be asked to give its place back */
    bool is_asked;       /* it was, and there is no answer */
    uint16_t signer;     /* 1 and the number of the thread that signs it; 0: none yet */

    /* the thread of the scheduler of `whole_at` only */
    bool gives_way; /* it leaves that scheduler, to give its place back */

    /* set by the spool writer before its LETTER_SETTLED, read by the activator behind it */
    bool is_returned;  /* it has given its place back: it waits where it was, unwritten */
    usec_t held_until; /* wall: it settled into the held class until then; 0: it did not */
    usec_t turn; /* wall: it was deferred until then, its turn at its receiver; 0: it was not */
    uint64_t turn_by; /* serial of the settings by which that was reckoned, the oldest of several */

    /* spool writer only; the activator opens it: message_account.h */
    struct message_account account;

    /* set by the spool writer before anybody else knows the message, taken away by the reclaim
     * thread; read by any thread that is online: see message_body */
    char *body;
    size_t body_bytes;

    /* spool writer until message_drop_body, then the reclaim thread */
    char *unseen_body;
    struct rcu_retired retired;

    /* any thread, atomic */
    _Atomic uint32_t references;
};

/* A message with all recipients of a packed list (base/packed.h), at most one batch; strings and
 * list are copied. NULL when out of memory. The caller owns the one reference. */
struct message *message_new_whole(const struct spool_envelope *envelope, struct slice packed);
/* A message without any address yet. */
struct message *message_new(const struct spool_envelope *envelope);

/* Load (activator) or unload (spool writer) one address of a message that is not whole; unloading
 * a whole one does nothing. errors: -ENOMEM */
MUST_USE int message_load(struct message *m, uint32_t index, struct slice address);
void message_unload(struct message *m, uint32_t index);
/* The address of a loaded recipient. */
struct slice message_address(const struct message *m, uint32_t index);

/* The same recipient, as its return address speaks of it; views of the message. */
struct return_subject message_subject(const struct message *m, uint32_t index);

/* All addresses of a whole message: the packed list that it was made of. */
struct slice message_packed(const struct message *m);

/* Keep the content in memory, so that the spool need not be read for it; takes the bytes over, at
 * least one. Spool writer, before the message is handed to anybody. */
void message_keep_body(struct message *m, struct buf *body);
/* The content if it is in memory; false: it is in the spool, and a reader that was begun in this
 * pass finds it there. Thread: any that is online; valid until the end of its pass. */
MUST_USE bool message_body(const struct message *m, struct slice *ret);
/* The tables have the content: a thread that begins a pass from now on can read it there. After one
 * grace period every thread is in such a pass, and the content is unpublished; after a second one
 * no thread reads it any more, and it is freed. Spool writer. */
void message_drop_body(struct message *m);

/* Of its content with the fields in front of it: what a receiver gets before dots are stuffed. */
uint64_t message_sent_bytes(const struct message *m);

void message_get(struct message *m);
void message_put(struct message *m);
/* True when the caller's reference is the only one left. */
MUST_USE bool message_is_last(const struct message *m);
/* Free it and its results whatever the references say: at shutdown, when all holders are gone. */
void message_destroy(struct message *m);

/* Wall: when the message expires: its own time, or the lifetime that the configuration sets. */
usec_t message_expires(const struct message *m, const struct config *config);

/* 16 lower-case hexadecimal digits. */
#define MESSAGE_ID_TEXT 17
void message_id_format(uint64_t id, char ret[MESSAGE_ID_TEXT]);
MUST_USE bool message_id_parse(struct slice text, uint64_t *ret);

#endif
