#include "engine/outbound/outflow.h"

#include "base/error.h"
#include "net/stream.h"

#include <assert.h>
#include <errno.h>

enum {
    ENOUGH = 64 << 10,      /* a system call of that size is not worth growing */
    STAGED_MAX = 512 << 10, /* more than a pass of a large body can leave: its budget, every byte a
                             * doubled dot */
};

void outflow_init(struct outflow *f)
{
    *f = (struct outflow){0};
    buf_init(&f->staged, STAGED_MAX);
}

void outflow_fini(struct outflow *f)
{
    buf_fini(&f->staged);
}

void outflow_drop(struct outflow *f)
{
    buf_fini(&f->staged);
    outflow_init(f);
}

bool outflow_is_full(const struct outflow *f)
{
    return f->staged.len >= ENOUGH || f->mark_count == OUTFLOW_MARKS;
}

int outflow_add_commands(struct outflow *f, const struct buf *out)
{
    struct slice more = slice_from(buf_slice(out), f->of_commands);
    if (more.len == 0) {
        return 0;
    }
    assert(f->mark_count < OUTFLOW_MARKS);
    f->marks[(f->first_mark + f->mark_count) % OUTFLOW_MARKS] =
        (struct outflow_mark){f->written + f->staged.len, (uint32_t)more.len};
    f->mark_count++;
    f->of_commands += more.len;
    buf_append_slice(&f->staged, more);
    return f->staged.failed ? -ENOMEM : 0;
}

int outflow_add_body(struct outflow *f, struct worker *worker)
{
    return body_stream_take_small(&f->body, worker, &f->staged);
}

/* How many bytes of commands have been written since the last call. */
static size_t take_marks(struct outflow *f)
{
    size_t commands = 0;
    while (f->mark_count > 0) {
        struct outflow_mark *m = &f->marks[f->first_mark];
        if (f->written <= m->start) {
            break;
        }
        uint64_t out = f->written - m->start;
        if (out < m->bytes) {
            commands += out;
            m->bytes -= (uint32_t)out;
            m->start = f->written;
            break;
        }
        commands += m->bytes;
        f->first_mark = (uint8_t)((f->first_mark + 1) % OUTFLOW_MARKS);
        f->mark_count--;
    }
    f->of_commands -= commands;
    return commands;
}

int outflow_write(struct outflow *f, struct stream *stream, struct outflow_taken *ret)
{
    int err = 0;
    size_t from = 0; /* staged bytes are moved once, at the end */
    while (from < f->staged.len) {
        ssize_t n =
            stream_write(stream, f->staged.data + from, f->staged.len - from, f->body.is_streaming);
        if (n < 0) {
            err = (int)n;
            break;
        }
        from += (size_t)n;
    }
    f->written += from;
    if (from == f->staged.len) {
        buf_fini(&f->staged); /* an idle connection keeps no buffer */
        buf_init(&f->staged, STAGED_MAX);
    } else {
        buf_consume(&f->staged, from);
    }
    ret->commands = take_marks(f);
    ret->body = from - ret->commands;
    return err;
}

int outflow_write_body(struct outflow *f, struct stream *stream, struct worker *worker,
                       struct body_progress *ret)
{
    assert(f->staged.len == 0);
    int err = body_stream_write(&f->body, stream, worker, &f->staged, ret);
    f->written += ret->written;
    return err;
}
