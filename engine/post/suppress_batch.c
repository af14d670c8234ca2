/* Owns a batch's texts. Called by whoever has the batch; knows no list. */
#include "engine/post/suppress_batch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct suppress_batch *suppress_batch_new(void *owner)
{
    struct suppress_batch *b = malloc(sizeof(*b));
    if (b != NULL) {
        b->owner = owner;
        b->is_told = false;
        b->count = 0;
        b->error = 0;
        buf_init(&b->text, 0);
    }
    return b;
}

void suppress_batch_free(struct suppress_batch *b)
{
    if (b != NULL) {
        buf_fini(&b->text);
        free(b);
    }
}

void suppress_batch_clear(struct suppress_batch *b)
{
    buf_clear(&b->text);
    b->count = 0;
    b->error = 0;
}

int suppress_batch_add(struct suppress_batch *b, const struct spool_suppression *s, bool is_removal)
{
    assert(b->count < SUPPRESS_BATCH_MAX);
    b->changes[b->count] = (struct suppress_change){.is_removal = is_removal,
                                                    .reason = s->reason,
                                                    .added = s->added,
                                                    .expires = s->expires,
                                                    .tenant_len = (uint32_t)s->tenant.len,
                                                    .address_len = (uint32_t)s->address.len,
                                                    .source_len = (uint32_t)s->source.len,
                                                    .at = b->text.len};
    buf_append_slice(&b->text, s->tenant);
    buf_append_slice(&b->text, s->address);
    buf_append_slice(&b->text, s->source);
    if (b->text.failed) {
        return -ENOMEM;
    }
    b->count++;
    return 0;
}

void suppress_batch_get(const struct suppress_batch *b, uint32_t index,
                        struct spool_suppression *ret)
{
    assert(index < b->count);
    const struct suppress_change *c = &b->changes[index];
    const char *at = b->text.data + c->at;
    *ret = (struct spool_suppression){
        .tenant = slice_make(at, c->tenant_len),
        .address = slice_make(at + c->tenant_len, c->address_len),
        .source = slice_make(at + c->tenant_len + c->address_len, c->source_len),
        .reason = c->reason,
        .added = c->added,
        .expires = c->expires};
}
