/* Owns nothing. Called by the activator, which reads recipients to deliver them, and by the spool
 * writer, which tells senders of them; reads a batch of recipients at a time and keeps none. */
#include "engine/writer/recipient_walk.h"

#include "base/packed.h"

void recipient_walk_init(struct recipient_walk *w, struct spool_reader *reader,
                         const struct spool_envelope *envelope, uint32_t from)
{
    *w = (struct recipient_walk){
        .reader = reader, .id = envelope->id, .index = from, .total = envelope->recipient_count};
}

static int read_batch(struct recipient_walk *w, uint32_t skip)
{
    struct slice ignored;
    uint32_t batch = w->index / SPOOL_BATCH_RECIPIENTS;
    int err = spool_read_recipients(w->reader, w->id, batch, &w->packed);
    if (err != 0) {
        return err;
    }
    err = spool_read_states(w->reader, w->id, batch, &w->states);
    if (err == ERR_MISSING) {
        w->states = SLICE("");
        err = 0;
    }
    for (uint32_t i = 0; err == 0 && i < skip; i++) {
        err = packed_next(&w->packed, &ignored) ? 0 : ERR_CORRUPT;
    }
    return err;
}

bool recipient_walk_next(struct recipient_walk *w, uint32_t *ret_index, struct slice *ret_address,
                         int *ret_state)
{
    if (w->error != 0 || w->index >= w->total) {
        return false;
    }
    uint32_t at = w->index % SPOOL_BATCH_RECIPIENTS;
    if (at == 0 || w->packed.data == NULL) {
        w->error = read_batch(w, at);
    }
    if (w->error == 0 && !packed_next(&w->packed, ret_address)) {
        w->error = ERR_CORRUPT;
    }
    if (w->error != 0) {
        return false;
    }
    *ret_state = at < w->states.len ? w->states.data[at] : SPOOL_RECIPIENT_PENDING;
    *ret_index = w->index++;
    return true;
}
