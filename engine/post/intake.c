#include "engine/post/intake.h"

#include "engine/post/message.h"

#include <stdlib.h>

struct intake *intake_new(void)
{
    struct intake *in = calloc(1, sizeof(*in));
    if (in != NULL) {
        buf_init(&in->strings, 0);
        buf_init(&in->packed, 0);
        buf_init(&in->body, 0);
    }
    return in;
}

void intake_free(struct intake *in)
{
    if (in == NULL) {
        return;
    }
    if (in->message != NULL) {
        message_put(in->message);
    }
    buf_fini(&in->strings);
    buf_fini(&in->packed);
    buf_fini(&in->body);
    free(in);
}

struct message *intake_message(const struct intake *in)
{
    if (in->batch > 0) {
        return NULL;
    }
    return message_new_whole(&in->envelope, buf_slice(&in->packed));
}

int intake_put(struct intake *in, struct spool_txn *txn)
{
    uint64_t id = in->envelope.id;
    int err = 0;
    if (!in->is_last) {
        if (!in->is_staged) {
            err = spool_stage(txn, id);
        }
        if (err == 0 && in->puts_recipients) {
            err = spool_put_recipients(txn, id, in->batch, buf_slice(&in->packed));
        }
        if (err == 0 && in->puts_body) {
            err = spool_put_chunk(txn, id, in->chunk, buf_slice(&in->body));
        }
        return err;
    }
    struct slice packed = buf_slice(&in->packed);
    struct slice body = buf_slice(&in->body);
    if (in->batch > 0 && packed.len > 0) {
        err = spool_put_recipients(txn, id, in->batch, packed);
    }
    if (in->batch > 0) {
        packed = SLICE("");
    }
    if (err == 0 && (in->chunk > 0 || body.len > SPOOL_INLINE_BODY_BYTES)) {
        if (body.len > 0) {
            err = spool_put_chunk(txn, id, in->chunk, body);
        }
        in->envelope.chunk_count = in->chunk + (body.len > 0 ? 1 : 0);
        body = SLICE("");
    }
    if (err == 0) {
        err = spool_put_message(txn, &in->envelope, packed, body, &in->position);
    }
    return err;
}

bool intake_fits_journal(const struct intake *in)
{
    return in->is_last && in->chunk == 0 && in->message != NULL && in->envelope.not_before == 0 &&
           in->body.len <= SPOOL_INLINE_BODY_BYTES &&
           in->packed.len <= SPOOL_INLINE_RECIPIENT_BYTES;
}

int intake_put_journal(struct intake *in, struct spool_store *store)
{
    in->error = 0;
    return spool_journal_message(store, &in->envelope, buf_slice(&in->packed), buf_slice(&in->body),
                                 &in->position);
}
