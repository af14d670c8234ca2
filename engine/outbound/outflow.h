/* What one connection has yet to write, in order: commands of the SMTP core and small bodies are
 * gathered, so that one system call carries many messages; a large body streams from the spool's
 * map behind them. Owned by one outbound connection, on its worker.
 *
 * The core must hear which of its commands really left (a reply counts only then), so the bytes
 * taken from its buffer are marked among the gathered ones. */
#ifndef ENGINE_OUTFLOW_H
#define ENGINE_OUTFLOW_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/outbound/body_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;
struct worker;

#define OUTFLOW_MARKS 32

struct outflow_mark {
    uint64_t start; /* in the connection's output, bytes */
    uint32_t bytes; /* of commands from there on */
};

struct outflow {
    struct buf staged;  /* bytes that the socket has not taken */
    uint64_t written;   /* bytes that it took, ever */
    size_t of_commands; /* bytes of the core's buffer that are staged and not written */
    struct outflow_mark marks[OUTFLOW_MARKS];
    uint8_t first_mark, mark_count;
    struct body_stream body; /* the one that comes next, or now */
};

void outflow_init(struct outflow *f);
void outflow_fini(struct outflow *f);
/* Forget everything: the connection is gone. */
void outflow_drop(struct outflow *f);

/* Enough is gathered: write before more is added. */
bool outflow_is_full(const struct outflow *f);

/* Gather the commands in `out` that are not gathered yet. A body that is due comes behind them: the
 * core says nothing more until it heard that the body is over. errors: -ENOMEM */
MUST_USE int outflow_add_commands(struct outflow *f, const struct buf *out);

/* Gather the whole body when it is small.
 *
 * returns  1: done, the body is over; 0: it is large, see outflow_write_body
 * errors   ERR_AGAIN: the spool is closed for now; others: it cannot be read (ERR_CORRUPT, ...) */
MUST_USE int outflow_add_body(struct outflow *f, struct worker *worker);

/* What a write took. */
struct outflow_taken {
    size_t commands; /* bytes, to take off the core's buffer: smtp_client_consume */
    size_t body;     /* bytes: smtp_client_body_progress */
};

/* Write what is gathered.
 *
 * ret      written also with an error
 * returns  0: all is written; errors: ERR_AGAIN, -errno, ERR_TLS of the write */
MUST_USE int outflow_write(struct outflow *f, struct stream *stream, struct outflow_taken *ret);

/* Stream the body; nothing may be gathered. Its last bytes may stay gathered when it is over
 * (is_streaming false). As body_stream_write. */
MUST_USE int outflow_write_body(struct outflow *f, struct stream *stream, struct worker *worker,
                                struct body_progress *ret);

#endif
