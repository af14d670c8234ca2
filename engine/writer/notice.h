/* Notices to senders (bounces, expiry, delay) as new messages, and the event lines of receptions
 * and results: from the account of a message to what bounce.c and engine/event/event.c format.
 *
 * Called by settle.c and the loop of the spool writer, on its thread. Decides whom a notice tells
 * and what it says; settle.c decides that there is one, and puts it into its transaction. */
#ifndef ENGINE_NOTICE_H
#define ENGINE_NOTICE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"

#include <stdint.h>

struct config;
struct intake;
struct message;
struct reply_matcher;
struct reply_set;
struct result;
struct result_recipient;
struct spool_reader;
struct spool_txn;

enum notice_kind {
    NOTICE_FAILED,  /* recipients that were refused for good */
    NOTICE_EXPIRED, /* recipients that failed, or were given up after maximal_queue_lifetime */
    NOTICE_DELAYED, /* recipients that are still being tried */
    NOTICE_CLEARED, /* recipients that were delivered after a NOTICE_DELAYED */
};

struct notice_head {
    enum notice_kind kind;
    uint64_t id; /* for the new message */
    usec_t now;  /* wall */
};

/* The notice about m's results as a reception of its own, from the null sender to m's sender.
 *
 * reader   the writer's; used for the original's text, closed again on return
 * errors   -ENOMEM; ERR_MISSING when there is nobody to tell of; ERR_CORRUPT when the recipients'
 *          records are damaged; a damaged original is no error: the notice then comes without it */
MUST_USE int notice_new(const struct config *config, struct spool_reader *reader,
                        const struct message *m, const struct notice_head *head,
                        struct intake **ret);

void notice_log_reception(struct buf *log, const struct intake *in, usec_t now);
void notice_log_result(struct buf *log, const struct config *config, const struct message *m,
                       const struct result *r, const struct result_recipient *to);

/* Event lines that must be in the file before the commit. A message may have a million of them, so
 * they are written whenever 1 MB has gathered; lines that cannot be written stay in `lines`, and
 * make the commit fail. */
struct notice_log {
    struct buf *lines;
    void (*write)(void *ctx); /* writes and clears `lines`; NULL: only the caller writes them */
    void *ctx;
    struct reply_matcher *matcher; /* with replies: what a stored reply means; NULL: nobody asks */
    const struct reply_set *replies;
};
void notice_log_flush(const struct notice_log *log);

/* Write one event line for each recipient that is given up. A call takes at most `limit` recipients
 * from the spool. The message notes how far it came (expiry_from), so that the next call goes on
 * there, after an error as well.
 *
 * errors: -ENOMEM, ERR_CORRUPT, storage errors of the reader */
MUST_USE int notice_log_expiration(const struct notice_log *log, struct spool_reader *reader,
                                   struct message *m, usec_t now, unsigned limit);

#endif
