#include "engine/post/intake.h"

#include "engine/post/message.h"
#include "engine/post/signing.h"

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
    signing_free(in->signing);
    buf_fini(&in->strings);
    buf_fini(&in->packed);
    buf_fini(&in->body);
    free(in);
}

struct message *intake_message(struct intake *in)
{
    if (in->batch > 0) {
        return NULL;
    }
    struct message *m = message_new_whole(&in->envelope, buf_slice(&in->packed));
    if (m != NULL) {
        m->signing = in->signing;
        in->signing = NULL;
    }
    return m;
}

static const struct signing *signing_of(const struct intake *in)
{
    return in->message != NULL ? in->message->signing : in->signing;
}

/* Keeps what only the reception knows, or what would mean to read a large body again. Of a small one the
 * hash is made again when it is needed. */
static int put_signing(const struct intake *in, struct spool_txn *txn)
{
    const struct signing *s = signing_of(in);
    if (s == NULL || (s->wanted == NULL && in->envelope.chunk_count == 0)) {
        return 0;
    }
    const struct spool_signing record = signing_record(s);
    return spool_put_signing(txn, in->envelope.id, &record);
}

static int put_part(const struct intake *in, struct spool_txn *txn)
{
    uint64_t id = in->envelope.id;
    int err = in->is_staged ? 0 : spool_stage(txn, id);
    if (err == 0 && in->puts_recipients) {
        err = spool_put_recipients(txn, id, in->batch, buf_slice(&in->packed));
    }
    if (err == 0 && in->puts_body) {
        err = spool_put_chunk(txn, id, in->chunk, buf_slice(&in->body));
    }
    return err;
}

/* Puts what is left of a body that does not fit into the message's record, and counts its chunks.
 * The rest of a reception is at most one chunk; a notice, which was never staged, may have more. */
static int put_chunks(struct intake *in, struct spool_txn *txn)
{
    struct slice rest = buf_slice(&in->body);
    int err = 0;
    in->envelope.chunk_count = in->chunk;
    while (err == 0 && rest.len > 0) {
        size_t len = rest.len < SPOOL_CHUNK_BYTES ? rest.len : SPOOL_CHUNK_BYTES;
        err =
            spool_put_chunk(txn, in->envelope.id, in->envelope.chunk_count++, slice_to(rest, len));
        rest = slice_from(rest, len);
    }
    return err;
}

int intake_put(struct intake *in, struct spool_txn *txn)
{
    if (!in->is_last) {
        return put_part(in, txn);
    }
    struct slice packed = buf_slice(&in->packed);
    struct slice body = buf_slice(&in->body);
    int err = 0;
    if (in->batch > 0 && packed.len > 0) {
        err = spool_put_recipients(txn, in->envelope.id, in->batch, packed);
    }
    if (in->batch > 0) {
        packed = SLICE("");
    }
    if (err == 0 && (in->chunk > 0 || body.len > SPOOL_INLINE_BODY_BYTES)) {
        err = put_chunks(in, txn);
        body = SLICE("");
    }
    if (err == 0) {
        err = spool_put_message(txn, &in->envelope, packed, body, &in->position);
    }
    return err == 0 ? put_signing(in, txn) : err;
}

bool intake_fits_journal(const struct intake *in)
{
    const struct signing *s = signing_of(in);
    if (s != NULL && s->wanted != NULL) {
        return false; /* the journal has no place for the names */
    }
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
