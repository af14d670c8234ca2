#include "engine/body_stream.h"

#include "base/error.h"
#include "engine/worker.h"
#include "net/stream.h"

#include <errno.h>

enum {
    BYTES_PER_PASS = 256 << 10,
    RUNS = 32,
    SMALL_BODY = 16 << 10,  /* copied, to save a system call */
    UNSENT_MAX = 512 << 10, /* more than a pass can leave: its budget, every byte a doubled dot */
};

void body_stream_init(struct body_stream *b)
{
    *b = (struct body_stream){0};
    buf_init(&b->unsent, UNSENT_MAX);
}

void body_stream_fini(struct body_stream *b)
{
    buf_fini(&b->unsent);
}

void body_stream_begin(struct body_stream *b, const struct spool_envelope *envelope)
{
    b->is_streaming = true;
    b->id = envelope->id;
    b->chunks = envelope->chunk_count == 0 ? 1 : envelope->chunk_count;
    b->chunk = 0;
    b->offset = 0;
    smtp_wire_init(&b->wire);
}

void body_stream_drop(struct body_stream *b)
{
    b->is_streaming = false;
    buf_fini(&b->unsent);
    buf_init(&b->unsent, UNSENT_MAX);
}

/* Hands runs to the socket; what it does not take is kept. */
static int write_runs(struct body_stream *b, struct stream *stream, const struct slice *runs,
                      int count, struct body_progress *progress)
{
    struct iovec iov[RUNS];
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        iov[i].iov_base = (void *)(uintptr_t)runs[i].data; /* only read */
        iov[i].iov_len = runs[i].len;
        total += runs[i].len;
    }
    ssize_t n = total == 0 ? 0 : stream_writev(stream, iov, count, true);
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
        buf_append_slice(&b->unsent, slice_from(runs[i], skip));
        taken -= skip;
    }
    return b->unsent.failed ? -ENOMEM : ERR_AGAIN;
}

static int flush_unsent(struct body_stream *b, struct stream *stream,
                        struct body_progress *progress)
{
    while (b->unsent.len > 0) {
        ssize_t n = stream_write(stream, b->unsent.data, b->unsent.len, true);
        if (n < 0) {
            return (int)n;
        }
        progress->written += (size_t)n;
        buf_consume(&b->unsent, (size_t)n);
    }
    return 0;
}

void body_stream_consume(struct body_stream *b, size_t written)
{
    buf_consume(&b->unsent, written);
    if (b->unsent.len == 0) {
        buf_fini(&b->unsent); /* an idle connection keeps no buffer */
        buf_init(&b->unsent, UNSENT_MAX);
    }
}

/* The rest of the chunk where the stream stands; empty at the end of the body. */
static int next_piece(struct body_stream *b, struct worker *worker, struct slice *ret)
{
    *ret = SLICE("");
    while (b->chunk < b->chunks) {
        struct spool_reader *reader = worker_reader(worker);
        if (reader == NULL) {
            return ERR_AGAIN;
        }
        struct slice chunk;
        int err = spool_read_chunk(reader, b->id, b->chunk, &chunk);
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

/* Queues a body that is small and not begun. */
static int queue_whole(struct body_stream *b, struct slice piece, struct body_progress *progress)
{
    struct slice runs[RUNS];
    while (piece.len > 0) {
        int count = smtp_wire_runs(&b->wire, &piece, runs, RUNS);
        for (int i = 0; i < count; i++) {
            buf_append_slice(&b->unsent, runs[i]);
        }
        if (count < 0) {
            progress->is_local = true;
            return ERR_CORRUPT;
        }
    }
    struct slice end;
    if (smtp_wire_end(&b->wire, &end) != 0 || b->unsent.failed) {
        progress->is_local = true;
        return ERR_CORRUPT;
    }
    buf_append_slice(&b->unsent, end);
    b->is_streaming = false;
    return 0;
}

static int finish(struct body_stream *b, struct stream *stream, struct body_progress *progress)
{
    struct slice end;
    if (smtp_wire_end(&b->wire, &end) != 0) {
        progress->is_local = true;
        return ERR_CORRUPT;
    }
    b->is_streaming = false;
    return write_runs(b, stream, &end, 1, progress);
}

int body_stream_write(struct body_stream *b, struct stream *stream, struct worker *worker,
                      struct body_progress *ret)
{
    size_t budget = BYTES_PER_PASS;
    *ret = (struct body_progress){0};
    int err = flush_unsent(b, stream, ret);
    while (err == 0 && b->is_streaming) {
        struct slice piece, runs[RUNS];
        err = next_piece(b, worker, &piece);
        if (err != 0) {
            ret->is_local = err != ERR_AGAIN;
            ret->wants_pass = err == ERR_AGAIN;
            return err;
        }
        if (piece.len == 0) {
            return finish(b, stream, ret);
        }
        if (b->chunks == 1 && b->offset == 0 && piece.len <= SMALL_BODY) {
            return queue_whole(b, piece, ret);
        }
        if (budget == 0) {
            ret->wants_pass = true;
            return ERR_AGAIN;
        }
        struct slice rest = slice_to(piece, piece.len < budget ? piece.len : budget);
        size_t offered = rest.len;
        int count = smtp_wire_runs(&b->wire, &rest, runs, RUNS);
        if (count < 0) {
            ret->is_local = true;
            return ERR_CORRUPT;
        }
        b->offset += offered - rest.len;
        budget -= offered - rest.len;
        err = write_runs(b, stream, runs, count, ret);
    }
    return err;
}
