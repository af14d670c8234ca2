/* A message body on its way from the spool to a socket: read where the stream stands in each pass,
 * dot-stuffed as slices of the memory map, written without a copy; only what a full socket does not
 * take is kept. Owned by one outbound connection, on its worker. */
#ifndef ENGINE_BODY_STREAM_H
#define ENGINE_BODY_STREAM_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/spool_store.h"
#include "net/smtp_wire.h"

#include <stdbool.h>
#include <stdint.h>

struct stream;
struct worker;

struct body_stream {
    bool is_streaming; /* not all of the body was handed to the socket or to `unsent` */
    uint64_t id;
    uint32_t chunks; /* of the body, at least 1 */
    uint32_t chunk;  /* where it stands */
    size_t offset;
    struct smtp_wire wire;
    struct buf unsent; /* wire bytes that the socket did not take */
};

void body_stream_init(struct body_stream *b);
void body_stream_fini(struct body_stream *b);
void body_stream_begin(struct body_stream *b, const struct spool_envelope *envelope);
/* Forget the rest of it. */
void body_stream_drop(struct body_stream *b);

/* Bytes of the body that must be written before anything else; once is_streaming is false the owner
 * may write them itself, together with the end of data. */
static inline struct slice body_stream_unsent(const struct body_stream *b)
{
    return buf_slice(&b->unsent);
}
/* The owner wrote so many of them. */
void body_stream_consume(struct body_stream *b, size_t written);

struct body_progress {
    size_t written;  /* bytes that the socket took */
    bool is_local;   /* the error is of the spool or of the message, not of the connection */
    bool wants_pass; /* ERR_AGAIN without a full socket: call again in the next pass */
};

/* Write as much as the socket and the budget of a pass take. The body is over when is_streaming is
 * false afterwards (its last bytes may still be unsent: of a small body all of them are, so that
 * they share a system call with the end of data).
 *
 * errors  ERR_AGAIN; ERR_CORRUPT, ERR_MISSING, ... (is_local); -errno or ERR_TLS of the write */
MUST_USE int body_stream_write(struct body_stream *b, struct stream *stream, struct worker *worker,
                               struct body_progress *ret);

#endif
