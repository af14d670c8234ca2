/* One SMTP connection of sluice-source. Owner: the load's thread. */
#ifndef BENCH_SOURCE_SESSION_H
#define BENCH_SOURCE_SESSION_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/list.h"
#include "bench/source/source_load.h"
#include "net/poller.h"
#include "net/stream.h"
#include "net/timeout.h"

#include <stdbool.h>
#include <stdint.h>

#define SOURCE_BACKOFF_FIRST (50 * USEC_PER_MSEC) /* after a lost connection */

enum source_state {
    SOURCE_WAITING, /* to connect again */
    SOURCE_CONNECTING,
    SOURCE_GREETING,
    SOURCE_EHLO,
    SOURCE_HELO,
    SOURCE_READY, /* transactions, or none */
    SOURCE_RSET,
    SOURCE_QUIT,
    SOURCE_GONE, /* given up, or finished */
};

/* The answer that a transaction waits for. */
enum source_step { SOURCE_MAIL, SOURCE_RCPT, SOURCE_DATA, SOURCE_DOT };

struct source_transaction {
    struct source_offer offer;
    enum source_step step;
    uint32_t recipients;
    uint32_t put;         /* recipients that are, or were, in the output */
    uint32_t answered;    /* recipients */
    uint32_t accepted;    /* of those */
    bool is_envelope_put; /* DATA or BDAT too */
    bool is_content_put;
    int verdict;        /* code of the first refusal; 0 = none */
    struct buf reason;  /* the text of that refusal */
    struct buf refused; /* addresses, LF each */
};

struct source_session {
    struct poller_watch watch;
    struct timeout timer;
    struct list link; /* source_load.idle */
    struct source_load *load;
    struct stream stream;
    struct buf in, out;
    size_t taken; /* bytes at the start of `in` that were processed */
    enum source_state state;
    enum source_mode mode; /* from EHLO on */
    uint32_t begun_here;   /* messages on this connection */
    usec_t backoff;        /* before the next connect */

    /* In the order of their commands, `count` of `depth` from `first` on; only the last one may be
     * put in part. */
    struct source_transaction *transactions; /* heap; ring */
    uint32_t depth, first, count;
    bool is_filling;   /* up to the most that may be in flight */
    bool is_reset_due; /* a refusal: nothing new, and RSET when all is answered */
};

/* Zeroed before; begins to connect. errors: -ENOMEM */
MUST_USE int source_session_init(struct source_session *s, struct source_load *load);
void source_session_fini(struct source_session *s);
/* Idle sessions only: there may be something to offer, or the end has come. */
void source_session_wake(struct source_session *s);
/* For the dialogue. The connection is unusable: its messages get their fates, and a new one is made
 * if wanted. */
void source_session_lose(struct source_session *s, const char *what, struct slice why);
/* For the dialogue. QUIT was answered. */
void source_session_quit(struct source_session *s);

#endif
