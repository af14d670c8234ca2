#include "engine/writer/journaled.h"

#include "engine/post/intake.h"
#include "engine/post/message.h"
#include "engine/spool/spool_store.h"

#include <assert.h>
#include <string.h>

/* A message that is not delivered after this time moves to the tables, where reports see it and its
 * content takes no memory; so do all of them when they have BYTES_MAX bytes. A message that the
 * activator does not have (unannounced) moves earlier, as it cannot be delivered before. */
static const usec_t patience = 100 * USEC_PER_MSEC;
static const usec_t patience_unannounced = 20 * USEC_PER_MSEC;
enum { BYTES_MAX = 8 << 20 };

void journaled_init(struct journaled *j)
{
    memset(j, 0, sizeof(*j));
    list_init(&j->messages);
}

static void let_go(struct journaled *j, struct message *m)
{
    list_remove(&m->account.journaled);
    j->bytes -= m->body_bytes;
    j->unannounced -= m->account.is_unannounced;
    j->unannounced_of[m->position.flow % JOURNALED_PLACES] -= m->account.is_unannounced;
    m->account.is_unannounced = false;
}

void journaled_fini(struct journaled *j)
{
    list_foreach_safe(m, &j->messages, struct message, account.journaled)
    {
        let_go(j, m);
        message_put(m);
    }
}

void journaled_take_back(struct journaled *j, struct message *m, usec_t now)
{
    assert(list_is_linked(&m->account.journaled) && !m->account.is_unannounced);
    m->account.is_unannounced = true;
    j->unannounced_of[m->position.flow % JOURNALED_PLACES]++;
    if (j->unannounced++ == 0) {
        j->unannounced_since = now;
    }
}

void journaled_add(struct journaled *j, struct intake *in, bool is_announced, usec_t now)
{
    struct message *m = in->message;
    in->message = NULL;
    m->position = in->position;
    message_keep_body(m, &in->body);
    m->account.journaled_at = now;
    list_push_back(&j->messages, &m->account.journaled);
    j->bytes += m->body_bytes;
    if (is_announced) {
        message_get(m);
    } else {
        journaled_take_back(j, m, now);
    }
}

void journaled_drop(struct journaled *j, struct message *m)
{
    if (list_is_linked(&m->account.journaled)) {
        let_go(j, m);
        message_put(m);
    }
}

usec_t journaled_due(const struct journaled *j)
{
    if (list_is_empty(&j->messages)) {
        return USEC_NEVER;
    }
    if (j->bytes >= BYTES_MAX) {
        return 0;
    }
    usec_t oldest =
        list_first(&j->messages, struct message, account.journaled)->account.journaled_at +
        patience;
    usec_t unannounced =
        j->unannounced > 0 ? j->unannounced_since + patience_unannounced : USEC_NEVER;
    return oldest < unannounced ? oldest : unannounced;
}

/* Stores a message of the journal in the tables. Its content is in memory until that is durable. */
static int put_message(struct message *m, struct spool_txn *txn)
{
    struct slice body;
    bool has_body = message_body(m, &body);
    assert(has_body);
    return spool_put_journaled(txn, &m->envelope, message_packed(m), body, &m->position);
}

struct message *journaled_last(const struct journaled *j)
{
    return list_is_empty(&j->messages) ? NULL
                                       : list_last(&j->messages, struct message, account.journaled);
}

int journaled_put(const struct journaled *j, struct spool_txn *txn, const struct message *behind)
{
    const struct list *at = behind == NULL ? &j->messages : &behind->account.journaled;
    for (at = at->next; at != &j->messages; at = at->next) {
        struct message *m = container_of(at, struct message, account.journaled);
        if (!m->account.is_all_delivered) {
            int err = put_message(m, txn);
            if (err != 0) {
                return err;
            }
        }
    }
    return 0;
}

void journaled_absorbed(struct journaled *j,
                        void (*announce)(void *ctx, uint32_t flow, uint64_t place), void *ctx)
{
    /* The newest of a run of one flow speaks for the run. */
    uint64_t newest = 0;
    uint32_t flow = 0;
    list_foreach_safe(m, &j->messages, struct message, account.journaled)
    {
        if (m->account.is_unannounced) {
            if (newest != 0 && m->position.flow != flow) {
                announce(ctx, flow, newest);
            }
            newest = m->position.time;
            flow = m->position.flow;
        }
        let_go(j, m);
        message_drop_body(m);
        message_put(m);
    }
    if (newest != 0) {
        announce(ctx, flow, newest);
    }
}
