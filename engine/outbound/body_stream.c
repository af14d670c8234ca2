#include "engine/outbound/body_stream.h"

#include "base/error.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "engine/worker/worker.h"
#include "net/stream.h"

#include <errno.h>

enum {
    BYTES_PER_PASS = 256 << 10,
    RUNS = 32,
    SMALL_BODY = 16 << 10, /* copied, to save a system call */
};

void body_stream_begin(struct body_stream *b, const struct message *message, bool is_chunk)
{
    const struct spool_envelope *envelope = &message->envelope;
    *b = (struct body_stream){
        .is_streaming = true,
        .is_chunk = is_chunk,
        .message = message,
        .front = signing_fields(message->signing),
        .left = message_sent_bytes(message),
        .chunks = envelope->chunk_count == 0 ? 1 : envelope->chunk_count,
    };
    smtp_wire_init(&b->wire);
}

void body_stream_drop(struct body_stream *b)
{
    b->is_streaming = false;
}

static int read_chunk(const struct body_stream *b, struct worker *worker, struct slice *ret)
{
    if (b->chunk == 0 && message_body(b->message, ret)) {
        return 0;
    }
    struct spool_reader *reader = worker_reader(worker);
    return reader == NULL ? ERR_AGAIN
                          : spool_read_chunk(reader, b->message->envelope.id, b->chunk, ret);
}

/* The rest of the fields in front, or of the chunk where the stream stands; empty at the end. */
static int next_body_piece(struct body_stream *b, struct worker *worker, struct slice *ret)
{
    *ret = b->front;
    if (ret->len > 0) {
        return 0;
    }
    while (b->chunk < b->chunks) {
        struct slice chunk;
        int err = read_chunk(b, worker, &chunk);
        if (err != 0) {
            return err;
        }
        if (b->offset < chunk.len) {
            *ret = slice_from(chunk, b->offset);
            return 0;
        }
        b->chunk++;
        b->offset = 0;
    }
    return 0;
}

/* The next runs of wire bytes of *piece, which is advanced.
 *
 * errors  ERR_CORRUPT: line ends that must not go out, or more bytes than were announced */
static int next_runs(struct body_stream *b, struct slice *piece, struct slice *runs)
{
    if (!b->is_chunk) {
        int count = smtp_wire_runs(&b->wire, piece, runs, RUNS);
        return count < 0 ? ERR_CORRUPT : count;
    }
    if (piece->len > b->left) {
        return ERR_CORRUPT;
    }
    b->left -= piece->len;
    runs[0] = *piece;
    *piece = slice_from(*piece, piece->len);
    return 1;
}

/* The bytes that must follow the last byte of the body. A chunk shorter than announced is an error:
 * the server would take the commands that follow for the rest of the chunk. */
static int last_run(struct body_stream *b, struct slice *ret)
{
    if (!b->is_chunk) {
        return smtp_wire_end(&b->wire, ret) == 0 ? 0 : ERR_CORRUPT;
    }
    *ret = SLICE("");
    return b->left == 0 ? 0 : ERR_CORRUPT;
}

/* So much of what next_body_piece gave is handed over. */
static void move_on(struct body_stream *b, size_t len)
{
    if (b->front.len > 0) {
        b->front = slice_from(b->front, len);
    } else {
        b->offset += len;
    }
}

/* Appends the wire bytes of a piece that is in memory. errors: ERR_CORRUPT */
static int take_piece(struct body_stream *b, struct slice piece, struct buf *out)
{
    struct slice runs[RUNS];
    while (piece.len > 0) {
        int count = next_runs(b, &piece, runs);
        if (count < 0) {
            return count;
        }
        for (int i = 0; i < count; i++) {
            buf_append_slice(out, runs[i]);
        }
    }
    return 0;
}

int body_stream_take_small(struct body_stream *b, struct worker *worker, struct buf *out)
{
    struct slice piece = SLICE(""), end;
    const uint64_t faults = spool_faults_seen();
    if (b->chunks > 1 || b->offset > 0) {
        return 0;
    }
    bool is_plain =
        b->chunk == 0 && !b->is_chunk && b->message->is_plain && message_body(b->message, &piece);
    int err = b->chunk == 0 && !is_plain ? read_chunk(b, worker, &piece) : 0;
    if (err != 0 || piece.len > SMALL_BODY) {
        return err;
    }
    err = take_piece(b, b->front, out);
    if (is_plain && b->wire.at_line_start) {
        buf_append_slice(out, piece);
    } else {
        err = err != 0 ? err : take_piece(b, piece, out);
    }
    if (err != 0) {
        return err;
    }
    err = spool_faults_seen() != faults ? ERR_CORRUPT : last_run(b, &end);
    if (err != 0) {
        return err;
    }
    buf_append_slice(out, end);
    b->is_streaming = false;
    return out->failed ? -ENOMEM : 1;
}

/* Hands runs to the socket; what it does not take goes to `rest`.
 *
 * more  bytes follow at once: without them the kernel would hold the last segment for 200 ms */
static int write_runs(struct stream *stream, const struct slice *runs, int count, bool more,
                      struct buf *rest, struct body_progress *progress)
{
    struct iovec iov[RUNS];
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        iov[i].iov_base = (void *)(uintptr_t)runs[i].data; /* only read */
        iov[i].iov_len = runs[i].len;
        total += runs[i].len;
    }
    ssize_t n = total == 0 ? 0 : stream_writev(stream, iov, count, more);
    if (n < 0 && n != ERR_AGAIN) {
        return (int)n;
    }
    size_t taken = n < 0 ? 0 : (size_t)n;
    progress->written += taken;
    if (taken == total) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        size_t skip = taken < runs[i].len ? taken : runs[i].len;
        buf_append_slice(rest, slice_from(runs[i], skip));
        taken -= skip;
    }
    return rest->failed ? -ENOMEM : ERR_AGAIN;
}

static int local_error(struct body_progress *progress, int err)
{
    progress->is_local = true;
    return err;
}

int body_stream_write(struct body_stream *b, struct stream *stream, struct worker *worker,
                      struct buf *rest, struct body_progress *ret)
{
    size_t budget = BYTES_PER_PASS;
    const uint64_t faults = spool_faults_seen();
    int err = 0;
    *ret = (struct body_progress){0};
    while (err == 0 && b->is_streaming) {
        struct slice piece, runs[RUNS];
        err = next_body_piece(b, worker, &piece);
        if (err != 0) {
            ret->is_local = err != ERR_AGAIN;
            ret->wants_pass = err == ERR_AGAIN;
            return err;
        }
        if (piece.len == 0) {
            if (last_run(b, &runs[0]) != 0) {
                return local_error(ret, ERR_CORRUPT);
            }
            b->is_streaming = false;
            return write_runs(stream, runs, 1, true, rest, ret);
        }
        if (budget == 0) {
            ret->wants_pass = true;
            return ERR_AGAIN;
        }
        struct slice part = slice_to(piece, piece.len < budget ? piece.len : budget);
        size_t offered = part.len;
        int count = next_runs(b, &part, runs);
        if (count < 0) {
            return local_error(ret, count);
        }
        move_on(b, offered - part.len);
        budget -= offered - part.len;
        bool more = !b->is_chunk || b->left > 0; /* a dot follows; behind a chunk nothing has to */
        err = write_runs(stream, runs, count, more, rest, ret);
        if (spool_faults_seen() != faults) {
            return local_error(ret,
                               ERR_CORRUPT); /* part of a wrong message is out: it must not end */
        }
    }
    return err;
}
