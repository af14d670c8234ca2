/* A message body on its way from the spool to a socket: read where the stream stands in each pass,
 * dot-stuffed as slices of the memory map, written without a copy; only what a full socket does not
 * take is kept. Owned by one outbound connection, on its worker. */
#ifndef ENGINE_BODY_STREAM_H
#define ENGINE_BODY_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "engine/spool_store.h"
#include "net/smtp_wire.h"

struct stream;
struct worker;

struct body_stream {
    bool is_streaming; /* not all of the body was handed to the socket or to `unsent` */
    uint64_t id;
    uint32_t chunks;   /* of the body, at least 1 */
    uint32_t chunk;    /* where it stands */
    size_t offset;
    struct smtp_wire wire;
    struct buf unsent; /* wire bytes that the socket did not take */
};

void body_stream_init(struct body_stream *b);
void body_stream_fini(struct body_stream *b);
void body_stream_begin(struct body_stream *b, const struct spool_envelope *envelope);
/* Forget the rest of it. */
void body_stream_drop(struct body_stream *b);

static inline bool body_stream_has_unsent(const struct body_stream *b)
{
    return b->unsent.len > 0;
}

static inline bool body_stream_is_active(const struct body_stream *b)
{
    return b->is_streaming || b->unsent.len > 0;
}

struct body_progress {
    size_t written;  /* bytes that the socket took */
    bool is_local;   /* the error is of the spool or of the message, not of the connection */
    bool wants_pass; /* ERR_AGAIN without a full socket: call again in the next pass */
};

/* Write as much as the socket and the budget of a pass take. The body is over when is_streaming is
 * false afterwards (its last bytes may still be unsent).
 *
 * errors  ERR_AGAIN; ERR_CORRUPT, ERR_MISSING, ... (is_local); -errno or ERR_TLS of the write */
MUST_USE int body_stream_write(struct body_stream *b, struct stream *stream, struct worker *worker,
                               struct body_progress *ret);

#endif
