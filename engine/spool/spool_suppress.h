/* Recipients and domains that are to get no mail: lists by tenant and one for all, in a table of the
 * spool, so that what adds to a list (a settled bounce, a complaint's event, a request) commits with it.
 *
 * Table suppressed: tenant NUL address -> reason, times, source. The list for all has the tenant "". An
 * address is in lower case, the local part as well: receivers that tell JOE from joe are not met, and a
 * list that misses one of them hurts. Its domain is in A-labels. Entries of before it was made so are
 * found by mail to the address as it was written; the sweep gives them their form. A domain's entry is "@example.com"; it is about that domain and
 * none below it. The key is not hashed: lists are read in order, from any address on, and a sorted
 * import appends. An entry whose time is over counts no more from that moment on; its record goes when
 * the sweep meets it, so nothing is walked at a start and no second index is paid for.
 *
 * Table strikes: kind, hash of tenant and address -> when and by which message, for rules that count
 * ("5 in 30d"). A message counts once. Bounded by SPOOL_STRIKES_MOST records and SPOOL_STRIKES_EACH
 * strikes each; the sweep removes old ones.
 *
 * A look-up is one search in the tree: branches of 10,000,000 entries are some 10 MB, so that it reads
 * at most one page that is not in memory, a leaf. It needs no heap. A record that fails its checksum
 * is in force as long as its key stands: nobody gets mail because a bit has turned.
 *
 * Threads: changes by the spool writer in its transaction; look-ups and walks by any thread with a
 * reader in a pass. The number of entries is an atomic that is stored when a commit is durable. */
#ifndef ENGINE_SPOOL_SUPPRESS_H
#define ENGINE_SPOOL_SUPPRESS_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool_reader;
struct spool_store;
struct spool_txn;

#define SPOOL_SUPPRESS_TENANT_MAX  64
#define SPOOL_SUPPRESS_ADDRESS_MAX 320 /* RFC 5321 4.5.3.1, as SMTP_ADDRESS_MAX */
#define SPOOL_SUPPRESS_SOURCE_MAX  64  /* longer ones are cut */
#define SPOOL_SUPPRESS_KEY_MAX     (SPOOL_SUPPRESS_TENANT_MAX + 1 + SPOOL_SUPPRESS_ADDRESS_MAX)
#define SPOOL_STRIKE_KEY_BYTES     9
#define SPOOL_STRIKES_EACH         20
#define SPOOL_STRIKES_MOST         1000000

/* Numbers are stored: append only. */
enum spool_suppress_reason {
    SPOOL_SUPPRESS_HARD_BOUNCE,
    SPOOL_SUPPRESS_COMPLAINT,
    SPOOL_SUPPRESS_UNSUBSCRIBE,
    SPOOL_SUPPRESS_BY_HAND,
    SPOOL_SUPPRESS_MAILBOX_FULL,
    SPOOL_SUPPRESS_REASON_COUNT
};

struct spool_suppression {
    struct slice tenant;  /* in lower case; "": for all */
    struct slice address; /* in lower case; "@example.com": the domain */
    enum spool_suppress_reason reason;
    usec_t added;        /* wall; kept to the second */
    usec_t expires;      /* wall, likewise; 0: never */
    struct slice source; /* who or what added it, for people; printable */
    bool is_damaged;     /* on reading: only tenant and address are known */
};

/* "hard_bounce", "complaint", "unsubscribe", "by_hand", "mailbox_full"; static */
const char *spool_suppress_reason_text(enum spool_suppress_reason reason);
/* SPOOL_SUPPRESS_REASON_COUNT: there is no such word. */
enum spool_suppress_reason spool_suppress_reason_find(struct slice word);

/* How many entries there are, those included whose time is over. One relaxed load; any thread: 0 spares
 * the look-up. */
uint64_t spool_suppress_count(const struct spool_store *store);
/* Rises with each commit that adds an entry; any thread. What was looked up when it was the same need
 * not be looked up again. */
uint64_t spool_suppress_changes(const struct spool_store *store);

/* The number that spool_suppress_changes had when the reader's pass began. */
uint64_t spool_suppress_seen(const struct spool_reader *r);

/* --- writer, inside its transaction --------------------------------------------------------------- */

/* Add an entry or replace what stands for the same tenant and address. Tenant, address and their case
 * are normalised here.
 *
 * ret_is_new  no entry was in force for it at s->added; may be NULL
 * errors      ERR_SYNTAX: no address, or longer than the limits; storage */
MUST_USE int spool_suppress_put(struct spool_txn *t, const struct spool_suppression *s,
                                bool *ret_is_new);
/* errors: ERR_MISSING: there is none; ERR_SYNTAX, storage */
MUST_USE int spool_suppress_remove(struct spool_txn *t, struct slice tenant, struct slice address);
/* As this transaction has it. Slices are valid until its next change.
 * ret has no tenant and address. errors: ERR_MISSING: nothing is in force at `now`; ERR_SYNTAX,
 * storage */
MUST_USE int spool_suppress_get(struct spool_txn *t, struct slice tenant, struct slice address,
                                usec_t now, struct spool_suppression *ret);

struct spool_strike {
    uint8_t kind; /* the caller's number of the rule */
    struct slice tenant, address;
    uint64_t message_id; /* counts once */
    usec_t now;
    usec_t span;   /* strikes older than that do not count */
    uint32_t most; /* that the rule asks for: 1..SPOOL_STRIKES_EACH */
};
/* Count a strike. ret_count: how many there are within the span, this one included; at `most` they are
 * forgotten, as the caller adds the entry. Strikes of a time to come (the clock was set back) count as
 * of now. errors: storage */
MUST_USE int spool_suppress_strike(struct spool_txn *t, const struct spool_strike *s,
                                   uint32_t *ret_count);
/* Look at the next `limit` records of each table and remove what is over: entries by their time, strikes
 * of which none is younger than strike_span. Goes round and round; where it stands is in memory.
 * ret_removed: entries (not strikes) */
MUST_USE int spool_suppress_sweep(struct spool_txn *t, usec_t now, usec_t strike_span,
                                  unsigned limit, unsigned *ret_removed);

/* --- readers, within a pass ----------------------------------------------------------------------- */

/* Whether mail of the tenant ("": nobody's) to the address (with a domain, in any case) is suppressed at
 * `now`: by the tenant's list or the one for all, the address or its domain. Of several the first in
 * that order. ret: valid until the pass ends.
 *
 * errors  ERR_MISSING: it is not; ERR_AGAIN, storage: not known */
MUST_USE int spool_suppress_find(struct spool_reader *r, struct slice tenant, struct slice address,
                                 usec_t now, struct spool_suppression *ret);
/* The first entry at or after `from` ("": the first one; is_after: after it) of the tenant's list, even
 * if its time is over. errors: ERR_MISSING at the end; ERR_AGAIN, storage */
MUST_USE int spool_suppress_next(struct spool_reader *r, struct slice tenant, struct slice from,
                                 bool is_after, struct spool_suppression *ret);
/* The name of the first list behind `after` (NULL data: the first of all), to walk all lists. ret is
 * valid until the pass ends. errors: as above */
MUST_USE int spool_suppress_next_list(struct spool_reader *r, struct slice after,
                                      struct slice *ret);

/* --- inside the spool files ----------------------------------------------------------------------- */

/* Counts what is there, at start; seen when t is committed. Writer. */
MUST_USE int spool_suppress_load(struct spool_txn *t);
/* What a commit that is durable has changed becomes visible; nothing for one that changed nothing. */
void spool_suppress_committed(struct spool_store *store);
/* Whether a key can be one of ours; those that stand in for lost records cannot. */
MUST_USE bool spool_suppress_is_key(struct slice key);
/* Whether a record of the table is one of ours and whole. */
MUST_USE bool spool_suppress_is_good(struct slice key, struct slice record);
/* Copy a record that is; what stands there stays unless it may be replaced. errors: storage */
MUST_USE int spool_suppress_copy(struct spool_txn *t, struct slice key, struct slice record,
                                 bool may_replace);

#endif
