/* A message body on its way to a socket, from memory or the spool: read where the stream stands in
 * each pass, dot-stuffed as slices of what it is read from, written without a copy; only what a
 * full socket does not take is kept. As a chunk (BDAT) it goes as it is, and exactly as long as was
 * announced. Owned by one outbound connection, on its worker. */
#ifndef ENGINE_BODY_STREAM_H
#define ENGINE_BODY_STREAM_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/smtp_wire.h"

#include <stdbool.h>
#include <stdint.h>

struct message;
struct stream;
struct worker;

struct body_stream {
    bool is_streaming; /* not all of the body was handed to the socket or to its buffer */
    bool is_chunk;     /* for BDAT: raw */
    const struct message *message; /* lent by the delivery */
    struct slice front;            /* what is not handed over of the fields in front of it */
    uint64_t left;                 /* chunk: bytes announced and not handed over */
    uint32_t chunks;               /* of the body, at least 1 */
    uint32_t chunk;                /* where it stands */
    size_t offset;
    struct smtp_wire wire;
};

void body_stream_begin(struct body_stream *b, const struct message *message, bool is_chunk);
/* Forget the rest of it. */
void body_stream_drop(struct body_stream *b);

struct body_progress {
    size_t written;  /* bytes that the socket took */
    bool is_local;   /* the error is of the spool or of the message, not of the connection */
    bool wants_pass; /* ERR_AGAIN without a full socket: call again in the next pass */
};

/* Append the whole body to `out` when it is small and not begun: a copy that saves a system call.
 *
 * returns  1: appended, it is over; 0: it is large
 * errors   ERR_AGAIN: the spool cannot be read in this pass; ERR_CORRUPT, ERR_MISSING, ... */
MUST_USE int body_stream_take_small(struct body_stream *b, struct worker *worker, struct buf *out);

/* Write as much as the socket and the budget of a pass take; what of it a full socket did not take
 * is appended to `rest`, which must be written first (and be empty at the call). The body is over
 * when is_streaming is false afterwards.
 *
 * errors  ERR_AGAIN; ERR_CORRUPT, ERR_MISSING, ... (is_local); -errno or ERR_TLS of the write */
MUST_USE int body_stream_write(struct body_stream *b, struct stream *stream, struct worker *worker,
                               struct buf *rest, struct body_progress *ret);

#endif
