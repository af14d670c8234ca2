/* The durable queue in LMDB: every table, record and transaction, and nothing about threads that
 * wait, retries or replies. spool_writer.c and activator.c are its users.
 *
 * Tables (all keys big-endian, so that LMDB's order is ours)
 *   message     id -> envelope, small recipient lists and small bodies inline; immutable
 *   body        id, chunk -> bytes of a larger body; immutable
 *   recipients  id, batch -> packed addresses of a larger envelope; immutable
 *   state       id, batch -> one byte a recipient; id, 0xffffffff -> attempts, flags
 *   reason      id, recipient -> last reply of a deferred or failed recipient
 *   incoming    flow, sequence, id -> nothing; new messages in the order of their commits
 *   deferred    flow, due time, id -> nothing; messages that wait for a retry
 *   held        flow, time, id -> nothing; messages not wanted before: scheduled, or suspended by
 *               an order
 *   flow        number -> class, tenant, campaign; see spool_flow.h
 *   staging     id -> nothing; receptions that are not committed; the only table cleared at start
 *   quarantine  id, table, number -> bytes of a damaged message's records, as found
 *   signing     id -> what its signatures are made of; see spool_signing.h
 *   meta        version, id reservation, the duplicate bound in force, messages in quarantine, the
 *               generation of the journal
 *   suppressed  tenant, address -> reason, times, source; see spool_suppress.h
 *   strikes     kind, hash of tenant and address -> times; likewise
 *   twin        the generation once more: without it the journal's mail would be lost
 *
 * Every record starts with a version byte and ends with a checksum over itself and its key; one
 * that fails is reported, its message is moved to quarantine, the rest goes on. A message without a
 * queue entry (its entry was damaged) is queued again at the next start.
 *
 * Errors of every operation: -ENOSPC for a full disk or map, -EIO for a device that fails, other
 * -errno; these end the transaction (its commit aborts and returns the same error).
 *
 * Threads: one writer (the spool writer) uses struct spool_txn; any number of threads read, each
 * with its own struct spool_reader, renewed each pass so that freed pages are never pinned. */
#ifndef ENGINE_SPOOL_STORE_H
#define ENGINE_SPOOL_STORE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mail_class.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool_store;
struct spool_txn;
struct spool_reader;

#define SPOOL_CHUNK_BYTES       65504 /* payload of a body chunk: fills 16 pages with LMDB's header */
#define SPOOL_INLINE_BODY_BYTES 32768 /* bodies up to this live in the message record */
#define SPOOL_REASONS_AT_ONCE   4096  /* reasons that one removal deletes, in some 10 ms */
#define SPOOL_BATCH_RECIPIENTS                                                                     \
    1000 /* recipients a batch record; inline lists hold at most this                              \
          */
#define SPOOL_INLINE_RECIPIENT_BYTES 8192

enum spool_flags {
    SPOOL_FLAG_8BIT = 1,         /* body has bytes above 127 */
    SPOOL_FLAG_UTF8 = 2,         /* needs SMTPUTF8 */
    SPOOL_FLAG_LEADING_DOT = 4,  /* some line begins with '.': dot-stuffing needed */
    SPOOL_FLAG_BOUNCE = 8,       /* made by us; never bounced again */
    SPOOL_FLAG_BODY_INLINE = 16, /* set by the store */
    SPOOL_FLAG_NO_NOTICES = 32,  /* the listener's `notices` is off: the sender gets no notice */
    SPOOL_FLAG_URGENT = 64,      /* its class; with neither it is normal */
    SPOOL_FLAG_BULK = 128,
    SPOOL_FLAG_REQUIRE_TLS = 256,  /* RFC 8689: never over a session that is not proved */
    SPOOL_FLAG_TLS_OPTIONAL = 512, /* `TLS-Required: No`: rather in clear than not at all */
    SPOOL_FLAG_TLS_REPORT = 1024,  /* a report of TLS-RPT: sessions for it are not reported on */
};

/* The class of a message stands in its flags. */
static inline uint32_t spool_class_flags(enum mail_class class)
{
    return (class == MAIL_URGENT ? SPOOL_FLAG_URGENT : 0U) |
           (class == MAIL_BULK ? SPOOL_FLAG_BULK : 0U);
}

static inline enum mail_class spool_mail_class(uint32_t flags)
{
    /* Two bits a class, in the place that its flags choose: each message is asked several times. */
    const uint32_t classes = MAIL_NORMAL | MAIL_URGENT << 2 | MAIL_BULK << 4 | MAIL_URGENT << 6;
    return (enum mail_class)(classes >> (flags / SPOOL_FLAG_URGENT % 4 * 2) & 3);
}

/* What a message is; immutable once committed. Slices belong to the caller on writing and point
 * into the map (valid until spool_reader_end) on reading. */
struct spool_envelope {
    uint64_t id;
    usec_t created;      /* wall clock at reception; expiry counts from here */
    uint64_t size_bytes; /* of the stored body, Received header included */
    uint32_t recipient_count;
    uint32_t chunk_count;   /* body chunks; 0 when inline */
    uint32_t flags;         /* enum spool_flags */
    usec_t warn_at;         /* wall time of the delay notice; 0 = none */
    struct slice sender;    /* "" = null sender */
    struct slice peer_name; /* reception: EHLO name */
    struct slice peer_address;
    struct slice protocol; /* "ESMTP", "ESMTPSA", ... */
    struct slice auth_user;
    struct slice tenant, campaign; /* whose mail it is, for people and orders; "" = nobody's */
    usec_t not_before;             /* wall: its sender wants it then; 0 = at once */
    usec_t expires; /* wall: given up from then on; 0: after the configured lifetime */
};

enum spool_class { SPOOL_INCOMING = 0, SPOOL_DEFERRED = 1, SPOOL_HELD = 2, SPOOL_CLASS_COUNT };

/* Where a message stands in the queue table. INCOMING: time is the commit sequence, which is one for
 * all flows; DEFERRED: the due time (wall); HELD: when it ceases to be scheduled or suspended (wall).
 */
struct spool_position {
    uint8_t class; /* enum spool_class */
    uint64_t time;
    uint64_t id;
    uint32_t flow; /* its number; 0: normal mail of nobody */
};

/* Mail that takes turns with other mail: of one class, tenant and campaign. Names in lower case. */
struct spool_flow {
    uint32_t number;
    enum mail_class class;
    struct slice tenant, campaign;
};

enum spool_recipient_state {
    SPOOL_RECIPIENT_PENDING = 0, /* never tried, or tried and deferred: see SPOOL_..._DEFERRED */
    SPOOL_RECIPIENT_DEFERRED,
    SPOOL_RECIPIENT_DELIVERED,
    SPOOL_RECIPIENT_FAILED,
};

/* Retry state; absent for a message that was never deferred. */
struct spool_retry {
    uint32_t attempts;
    bool warned;     /* the delay notice was sent */
    bool is_paced;   /* it was not tried: `due` is when its receiver is likely to let it through */
    usec_t due;      /* wall: when the next attempt is due; for people, the queue table decides */
    usec_t deferred; /* wall: when the last one ended; 0: not known (formats before 4) */
    uint16_t source; /* mark of the egress source that its receiver wants to see again; 0: none */
    usec_t blocked;  /* wall, within a minute: when a receiver first said that it does not want our
                      * address; 0: none did */
};

struct spool_reason {
    usec_t time;             /* wall */
    uint8_t state;           /* enum spool_recipient_state: DEFERRED or FAILED */
    uint16_t code;           /* SMTP reply code or 0 */
    struct slice status;     /* "5.1.1" */
    struct slice text;       /* sanitised */
    struct slice remote_mta; /* "mx.example.com", may be empty */
};

struct spool_options {
    const char *path;  /* folder; created 0700 */
    uint64_t map_size; /* bytes of address space, 1 TiB by default */
    uint64_t reserve;  /* bytes of pages and disk that intake leaves free */
    uint64_t ballast;  /* bytes of the file that is given up when others fill the disk */
    uint64_t journal;  /* bytes of the journal file; 0: none */
    unsigned takeover; /* places that one transaction takes over from an older format; 0: as many as
                        * suit */
};

/* Opens or creates the spool, takes its lock, clears staging.
 *
 * errors   ERR_LOCKED when another process holds it; ERR_CORRUPT for a format we do not know;
 *          -errno; ret_text says which file and what would help (static size 256) */
MUST_USE int spool_store_open(const struct spool_options *, struct spool_store **ret,
                              char ret_text[256]);
void spool_store_close(struct spool_store *);

/* After a failed commit: detach every reader (they get ERR_AGAIN meanwhile), close the environment
 * and open it again. wake(ctx) is called when a reader has not let go yet and must make every
 * thread with a reader end its pass; NULL: none needed. Staged receptions stay.
 *
 * Of the transaction whose commit failed nothing is left (a power cut at that very moment can
 * still keep it, whole).
 *
 * Pages that turned out to be bad are looked at and mended where that can be done.
 *
 * Thread: writer. errors: -errno (readers stay detached), ERR_AGAIN: in both cases call again;
 * ERR_CORRUPT: only a salvage helps (it is in the log), nothing else can be done with the store */
MUST_USE int spool_store_reopen(struct spool_store *, void (*wake)(void *ctx), void *ctx);

/* True from a failed commit until a reopen succeeds; spool_begin fails in between. Writer thread.
 */
bool spool_store_must_reopen(const struct spool_store *);

/* Have wake(ctx) called whenever a reader ends a pass in which a page of the map could not be read:
 * the writer then begins a transaction, which examines the damage. To be set before there are
 * readers. */
void spool_store_on_damage(struct spool_store *, void (*wake)(void *ctx), void *ctx);
/* Whether a page of the map could not be read. Any thread. */
bool spool_store_is_damaged(struct spool_store *);
/* Pages of a map that this thread could not read so far. Bytes that were read and verified before
 * are what they were only while this does not change. */
uint64_t spool_faults_seen(void);

/* Bytes that can still be written: free pages inside the file, and what it can grow by, which is
 * the smaller of free disk and free map. Two system calls. Writer thread. */
uint64_t spool_store_free_bytes(struct spool_store *);
/* Give up or restore the ballast file (restored only when the disk has room for it and the reserve
 * beside it); writer thread. */
void spool_store_drop_ballast(struct spool_store *);
void spool_store_restore_ballast(struct spool_store *);

/* First id that was never handed out before this start; ids below the reservation stored by
 * spool_reserve_ids may be used. */
uint64_t spool_store_first_id(const struct spool_store *);
/* The first id for a start at this wall time, without the node's number, where the spool has not come as far
 * yet. One that was restored from an old copy knows nothing of the ids that it gave since; by the clock
 * it gives none of them again, unless they were more than 62,500 for each second since the copy was made (each
 * start takes about a million). Never so great that less than 2^40 were left. */
uint64_t spool_id_at(usec_t wall);
/* Which spool of a cluster this is: 1 to 65,535, and no other one has the same (node_numbers.h). It stands in the
 * upper bits of the ids that it gives; 0: it has none, and neither have its ids. A spool gets it
 * once and keeps it. As found at open. */
#define SPOOL_NODE_SHIFT 48
uint16_t spool_store_node(const struct spool_store *);
/* The latest time at which anything was deferred, by the wall clock of that moment; 0: not known.
 * As found at open: a clock before it has been set back. */
usec_t spool_store_clock(const struct spool_store *);
/* Most copies that the end of the last run may repeat, as stored by it: 0 when it ended cleanly,
 * and for a new spool; SPOOL_BOUND_UNKNOWN when the record is damaged. */
#define SPOOL_BOUND_UNKNOWN UINT64_MAX
uint64_t spool_store_duplicate_bound(const struct spool_store *);
/* Nothing was ever stored about a run. */
bool spool_store_is_new(const struct spool_store *);

/* --- writer ----------------------------------------------------------------------------------- */

/* Operations that fail with a storage error (see the head of the file) doom the transaction: the
 * rest of it fails and so does its commit. ERR_LIMIT, ERR_CORRUPT, ERR_MISSING and -EEXIST concern
 * one message: nothing of that operation is kept and the transaction goes on.
 *
 * errors of spool_begin: -EIO while a reopen is due, other storage errors */
MUST_USE int spool_begin(struct spool_store *, struct spool_txn **ret);
/* Durable when it returns 0. On any error the transaction is gone and nothing of it is kept; ask
 * spool_store_must_reopen then (a full map needs none). */
MUST_USE int spool_commit(struct spool_txn *);
void spool_abort(struct spool_txn *);

/* Ids below may be used. Whoever keeps a copy is told that the message `below` is removed, which none is yet: so
 * the copy knows of all ids that were ever given. */
MUST_USE int spool_reserve_ids(struct spool_txn *, uint64_t below);
/* Say which spool this is; see spool_store_node. */
MUST_USE int spool_set_node(struct spool_txn *, uint16_t node);
/* Store the duplicate bound. Replaced at each start before anything is delivered; at an orderly end
 * it is the number of deliveries that the stop cut short. */
MUST_USE int spool_store_bound(struct spool_txn *, uint64_t duplicate_bound);
/* Note that mail is deferred at `now` (wall), for spool_store_clock of the next start. */
MUST_USE int spool_note_clock(struct spool_txn *, usec_t now);
MUST_USE int spool_stage(struct spool_txn *, uint64_t id);
MUST_USE int spool_put_chunk(struct spool_txn *, uint64_t id, uint32_t chunk, struct slice bytes);
/* errors of spool_put_chunk: ERR_LIMIT above SPOOL_CHUNK_BYTES
 *
 * packed: addresses, as base/packed.h has them. batch n holds the
 * recipients n * SPOOL_BATCH_RECIPIENTS ... (all batches but the last are full). */
MUST_USE int spool_put_recipients(struct spool_txn *, uint64_t id, uint32_t batch,
                                  struct slice packed);
/* The message exists from the commit of this call on; un-stages it and queues it as INCOMING, or as
 * HELD when it has a not_before.
 * body is used when chunk_count is 0; packed recipients when recipient_count <=
 * SPOOL_BATCH_RECIPIENTS and none were put before (any size up to the batch is accepted; the store
 * decides what lives inline). Empty packed recipients: they are in ceil(recipient_count /
 * SPOOL_BATCH_RECIPIENTS) batches put before. ret_position: its place in the queue.
 *
 * errors: -EEXIST, ERR_LIMIT for a text above 65,535 bytes or an inline body above
 * SPOOL_INLINE_BODY_BYTES */
MUST_USE int spool_put_message(struct spool_txn *, const struct spool_envelope *,
                               struct slice packed_recipients, struct slice body,
                               struct spool_position *ret_position);
/* The same for a message that the journal holds; it keeps the place it has there. One that the tables have
 * already stays as it is there. errors: -EEXIST: another message has its id */
MUST_USE int spool_put_journaled(struct spool_txn *, const struct spool_envelope *,
                                 struct slice packed_recipients, struct slice body,
                                 const struct spool_position *);
/* The last thing that a transaction does which has absorbed the journal: numbers of flows that no place
 * has any more can be given again, some at a time. */
MUST_USE int spool_forget_flows(struct spool_txn *);
/* Ends the journal's generation with this transaction, which must hold or have removed all that the
 * journal holds: from the commit on the journal is empty. */
MUST_USE int spool_absorb_journal(struct spool_txn *);
/* Remove a staged reception that will not be completed, or the records that spool_remove left. Does
 * nothing when the id is not staged. ret_done: false when another call must remove the rest */
MUST_USE int spool_discard(struct spool_txn *, uint64_t id, bool *ret_done);
/* Remove the message and its queue entry; 0 also when some or all of it is gone already. At most
 * SPOOL_REASONS_AT_ONCE of its reasons are removed; the others belong to no message any more, and
 * spool_discard removes them. */
MUST_USE int spool_remove(struct spool_txn *, const struct spool_position *);
/* One recipient's state, and why for DEFERRED and FAILED (texts are cut to the limits of
 * spool_record.h; NULL or DELIVERED: an older reason is removed).
 *
 * errors: ERR_CORRUPT when the message's states are damaged */
MUST_USE int spool_set_recipient(struct spool_txn *, uint64_t id, uint32_t recipient_count,
                                 uint32_t index, enum spool_recipient_state,
                                 const struct spool_reason *);
/* Remove the reasons of stored failures, as this transaction has the notice that tells the sender
 * of them. */
MUST_USE int spool_forget_failures(struct spool_txn *, uint64_t id);
/* Moves the message from one place in the queue to another and stores its retry state (NULL: leave
 * that as it is). */
MUST_USE int spool_requeue(struct spool_txn *, const struct spool_position *from,
                           const struct spool_position *to, const struct spool_retry *);
/* Move every record of the message to quarantine, as found, and take it out of the queue. */
MUST_USE int spool_quarantine(struct spool_txn *, const struct spool_position *);

/* --- journal -----------------------------------------------------------------------------------
 *
 * One sync of one sequential write: cheap durability for what may be gone before the tables have to
 * know it. What is in the journal is not in the tables, and its user keeps it in memory until a
 * transaction takes it over; after a crash the next open does that. Thread: writer. */

bool spool_journal_is_open(const struct spool_store *);
/* The journal holds nothing that the tables do not have. */
bool spool_journal_is_empty(const struct spool_store *);
/* A new message, whole, with inline body and recipients; its place in the queue is set.
 * errors: ERR_LIMIT when it is too large or the journal has no room left: use a transaction */
MUST_USE int spool_journal_message(struct spool_store *, const struct spool_envelope *,
                                   struct slice packed_recipients, struct slice body,
                                   struct spool_position *ret_position);
/* Put the removal of a message that only the journal holds. errors: ERR_LIMIT: the journal has no
 * room left */
MUST_USE int spool_journal_removal(struct spool_store *, const struct spool_position *);
/* Durable when it returns 0. After an error nothing of the batch counts, but a crash may bring it
 * back; the next thing to succeed must be a transaction that absorbs the journal. */
MUST_USE int spool_journal_commit(struct spool_store *);
void spool_journal_abort(struct spool_store *);

/* --- readers ---------------------------------------------------------------------------------- */

MUST_USE int spool_reader_new(struct spool_store *, struct spool_reader **ret);
void spool_reader_free(struct spool_reader *);
/* Renew for a pass. errors: ERR_AGAIN while the store is being reopened. Cheap; nesting is a bug.
 */
MUST_USE int spool_reader_begin(struct spool_reader *);
void spool_reader_end(struct spool_reader *);
bool spool_reader_is_active(const struct spool_reader *);

/* Slices that the calls below return point into the map: valid until spool_reader_end, never
 * written to. Each call is made between begin and end. Storage errors as in the head of the file.
 */

/* ret_body: the inline body (empty when in chunks). errors: ERR_MISSING, ERR_CORRUPT */
MUST_USE int spool_read_message(struct spool_reader *, uint64_t id, struct spool_envelope *ret,
                                struct slice *ret_body);
/* The message with the least id above `after`; ERR_MISSING at the end. */
MUST_USE int spool_next_message(struct spool_reader *, uint64_t after, uint64_t *ret_id);
/* chunk 0 of an inline body is the body. */
MUST_USE int spool_read_chunk(struct spool_reader *, uint64_t id, uint32_t chunk,
                              struct slice *ret);
/* Packed addresses of one batch; inline lists are batch 0. */
MUST_USE int spool_read_recipients(struct spool_reader *, uint64_t id, uint32_t batch,
                                   struct slice *ret_packed);
/* One byte (enum spool_recipient_state) a recipient of the batch; ERR_MISSING: all pending. */
MUST_USE int spool_read_states(struct spool_reader *, uint64_t id, uint32_t batch,
                               struct slice *ret_states);
/* Zeroes when never deferred. */
MUST_USE int spool_read_retry(struct spool_reader *, uint64_t id, struct spool_retry *ret);
MUST_USE int spool_read_reason(struct spool_reader *, uint64_t id, uint32_t index,
                               struct spool_reason *ret);
/* The first entry after *position (NULL or all zero: from the class's start) within the class, which
 * is in the order of flows, and within a flow in that of time; ERR_MISSING at the end. Malformed
 * entries are passed over. */
MUST_USE int spool_scan(struct spool_reader *, enum spool_class class,
                        const struct spool_position *after, struct spool_position *ret);
/* The first entry of the same flow after *position; ERR_MISSING at its end. */
MUST_USE int spool_scan_flow(struct spool_reader *, const struct spool_position *after,
                             struct spool_position *ret);

/* The same and those behind it, at most `most`. ret_count: at least 1 when this returns 0 */
MUST_USE int spool_scan_some(struct spool_reader *, const struct spool_position *after,
                             struct spool_position *ret, uint32_t most, uint32_t *ret_count);

/* How many messages of the class each flow has, by a walk over their places alone: what lies there is
 * not read. note is called for each flow that has some; the reader may be used by it, but for scans of
 * this class. errors: storage */
MUST_USE int spool_count_flows(struct spool_reader *, enum spool_class class,
                               void (*note)(void *ctx, uint32_t flow, uint64_t messages),
                               void *ctx);

/* The flow with this number. errors: ERR_MISSING, ERR_CORRUPT */
MUST_USE int spool_read_flow(struct spool_reader *, uint32_t number, struct spool_flow *ret);
/* The flow with the least number above `after`; ERR_MISSING at the end. Damaged ones have no names.
 */
MUST_USE int spool_next_flow(struct spool_reader *, uint32_t after, struct spool_flow *ret);

/* Asks the kernel for the pages of the messages of the flow behind *after, at most `limit` and of a
 * time up to `until`, so that reading them later does not wait for the disk page by page. Bodies in chunks are
 * not among them. ret_last: the last message asked for; untouched when there is none.
 *
 * returns the number of messages; what cannot be read ends it early */
uint32_t spool_prefetch(struct spool_reader *, const struct spool_position *after, uint64_t until,
                        uint32_t limit, struct spool_position *ret_last);
/* The same for messages whose ids are known; of those that were looked at lately all were in memory: then only
 * one call of eight does anything. */
void spool_prefetch_messages(struct spool_reader *, const uint64_t *ids, uint32_t count);

struct spool_counts {
    uint64_t messages, incoming, deferred, held, quarantined; /* messages each */
    uint64_t used_bytes;                                      /* pages in use by tables */
    uint64_t map_bytes;
    uint64_t free_bytes;  /* as spool_store_free_bytes */
    bool is_left_by_disk; /* the disk ends before the map does */
};
MUST_USE int spool_read_counts(struct spool_reader *, struct spool_counts *ret);

#endif
