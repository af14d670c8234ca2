/* One SMTP connection of sluice-source. Owner: the load's thread. */
#ifndef BENCH_SOURCE_SESSION_H
#define BENCH_SOURCE_SESSION_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/list.h"
#include "bench/source_load.h"
#include "net/poller.h"
#include "net/stream.h"
#include "net/timeout.h"

#include <stdbool.h>
#include <stdint.h>

enum source_state {
    SOURCE_WAITING, /* to connect again */
    SOURCE_CONNECTING,
    SOURCE_GREETING,
    SOURCE_EHLO,
    SOURCE_HELO,
    SOURCE_IDLE,
    SOURCE_MAIL,
    SOURCE_RCPT,
    SOURCE_DATA,
    SOURCE_DOT,
    SOURCE_RSET,
    SOURCE_QUIT,
    SOURCE_GONE, /* given up, or finished */
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
    bool has_pipelining;
    uint32_t done_here; /* messages on this connection */
    usec_t backoff;     /* before the next connect */

    /* the transaction */
    bool has_offer;
    struct source_offer offer;
    bool is_content_sent;
    bool is_envelope_put; /* pipelined: DATA is in the output too */
    uint32_t put;         /* pipelined: recipients that are, or were, in the output */
    uint32_t answered;    /* recipients */
    uint32_t accepted;    /* of those */
    struct buf refused;   /* addresses, LF each */
    int verdict;          /* code of the first refusal; 0 = none */
    char reason[200];
};

/* Zeroed before; begins to connect. errors: -ENOMEM */
MUST_USE int source_session_init(struct source_session *s, struct source_load *load);
void source_session_fini(struct source_session *s);
/* Idle sessions only: there may be something to offer, or the end has come. */
void source_session_wake(struct source_session *s);

#endif
