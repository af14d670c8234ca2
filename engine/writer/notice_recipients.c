/* Owns the list that it gathers, and copies no text: durable results are read in place, in the
 * spool's memory map, so that a result needs memory only until it is on the disk. Called by the
 * spool writer alone, inside a view of its reader. That view shows the last commit; the results of
 * the transaction that is being written are still in memory. */
#include "engine/writer/notice_recipients.h"

#include "base/error.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/spool/spool_store.h"

#include <errno.h>
#include <stdlib.h>

/* --- from the spool --------------------------------------------------------------------------- */

static bool is_fresh(const struct notice_stored *s, uint32_t index)
{
    return s->fresh != NULL && (s->fresh[index / 8] >> index % 8 & 1) != 0;
}

int notice_stored_begin(struct notice_stored *s, struct spool_reader *reader,
                        const struct message *m, uint32_t from)
{
    *s = (struct notice_stored){.message = m};
    recipient_walk_init(&s->walk, reader, &m->envelope, from);
    if (m->account.fresh == NULL) {
        return 0;
    }
    s->fresh = calloc(m->envelope.recipient_count / 8 + 1, 1);
    if (s->fresh == NULL) {
        return -ENOMEM;
    }
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            uint32_t index = r->recipients[i].index;
            s->fresh[index / 8] |= (unsigned char)(1u << index % 8);
        }
    }
    return 0;
}

/* Reads why a stored recipient is not delivered. Returns false for a failure of which the sender
 * was told, as its reason was removed with that notice. A reason whose record is damaged still
 * exists, so that failure has not been told. */
static bool explain(struct notice_stored *s, struct notice_stored_recipient *to)
{
    struct spool_reason reason;
    int err = spool_read_reason(s->walk.reader, s->walk.id, to->index, &reason);
    if (err == 0) {
        to->code = reason.code;
        to->status = reason.status;
        to->text = reason.text;
        to->remote_mta = reason.remote_mta;
        return true;
    }
    if (err != ERR_MISSING && err != ERR_CORRUPT) {
        s->walk.error = err;
        return false;
    }
    if (to->state == SPOOL_RECIPIENT_PENDING && s->message->account.stored.park_text != NULL) {
        to->status = SLICE("4.7.0");
        to->text = slice_of(s->message->account.stored.park_text);
    }
    return err == ERR_CORRUPT || to->state != SPOOL_RECIPIENT_FAILED;
}

bool notice_stored_next(struct notice_stored *s, struct notice_stored_recipient *ret)
{
    struct notice_stored_recipient to = {
        .status = SLICE(""), .text = SLICE(""), .remote_mta = SLICE("")};
    while (recipient_walk_next(&s->walk, &to.index, &to.address, &to.state)) {
        if (to.state != SPOOL_RECIPIENT_DELIVERED && !is_fresh(s, to.index) && explain(s, &to)) {
            *ret = to;
            return true;
        }
    }
    return false;
}

int notice_stored_end(struct notice_stored *s)
{
    free(s->fresh);
    s->fresh = NULL;
    return s->walk.error == ERR_MISSING ? ERR_CORRUPT : s->walk.error;
}

/* --- whom a notice tells of ------------------------------------------------------------------- */

static bool is_told(enum notice_kind kind, uint8_t result)
{
    switch (kind) {
    case NOTICE_FAILED:
        return result == RESULT_FAILED;
    case NOTICE_EXPIRED:
        return result != RESULT_DELIVERED && result != RESULT_DROPPED &&
               result != RESULT_SUPPRESSED;
    case NOTICE_DELAYED:
        return result == RESULT_DEFERRED;
    case NOTICE_CLEARED:
        return result == RESULT_DELIVERED;
    }
    return false;
}

static bool is_state_told(enum notice_kind kind, int state)
{
    return kind == NOTICE_EXPIRED || (kind == NOTICE_FAILED && state == SPOOL_RECIPIENT_FAILED) ||
           (kind == NOTICE_DELAYED && state == SPOOL_RECIPIENT_DEFERRED);
}

static size_t count_stored(const struct message *m, enum notice_kind kind)
{
    const struct message_stored *s = &m->account.stored;
    switch (kind) {
    case NOTICE_FAILED:
        return s->failed;
    case NOTICE_EXPIRED:
        return (size_t)s->failed + s->deferred + s->parked;
    case NOTICE_DELAYED:
        return s->deferred;
    case NOTICE_CLEARED:
        return 0;
    }
    return 0;
}

static void gather_recipient(struct notice_recipients *n, struct bounce_recipient r)
{
    if (n->count < n->capacity) {
        n->list[n->count++] = r;
    } else {
        n->left_out++;
    }
}

static void gather_fresh(struct notice_recipients *n, const struct message *m,
                         enum notice_kind kind)
{
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            const struct result_recipient *to = &r->recipients[i];
            if (is_told(kind, to->kind)) {
                gather_recipient(
                    n, (struct bounce_recipient){
                           .address = message_address(m, to->index),
                           .status = slice_of(to->status),
                           .diagnostic = result_text(r, to),
                           .remote_mta = r->host_name,
                           .is_reply = to->code != 0,
                           .is_expired = to->kind != RESULT_FAILED && kind == NOTICE_EXPIRED,
                       });
            }
        }
    }
}

/* Adds recipients whose results the spool has. The walk ends when the list is full, as the counts
 * in the message tell how many are left out. */
static int gather_stored(struct notice_recipients *n, struct spool_reader *reader,
                         const struct message *m, enum notice_kind kind)
{
    struct notice_stored walk;
    struct notice_stored_recipient to;
    size_t expected = count_stored(m, kind), found = 0;
    int err = notice_stored_begin(&walk, reader, m, 0);
    while (err == 0 && n->count < n->capacity && notice_stored_next(&walk, &to)) {
        if (is_state_told(kind, to.state)) {
            gather_recipient(n, (struct bounce_recipient){
                                    .address = to.address,
                                    .status = to.status,
                                    .diagnostic = to.text,
                                    .remote_mta = to.remote_mta,
                                    .is_reply = to.code != 0,
                                    .is_expired = to.state != SPOOL_RECIPIENT_FAILED,
                                });
            found++;
        }
    }
    n->left_out += n->count == n->capacity && expected > found ? expected - found : 0;
    int end = notice_stored_end(&walk);
    return err != 0 ? err : end;
}

int notice_recipients_gather(struct notice_recipients *n, struct spool_reader *reader,
                             const struct message *m, enum notice_kind kind)
{
    uint32_t total = m->envelope.recipient_count;
    *n = (struct notice_recipients){
        .capacity = total < BOUNCE_RECIPIENTS_MAX ? total : BOUNCE_RECIPIENTS_MAX};
    n->list = calloc(n->capacity + 1, sizeof(*n->list));
    if (n->list == NULL) {
        return -ENOMEM;
    }
    gather_fresh(n, m, kind);
    return count_stored(m, kind) == 0 ? 0 : gather_stored(n, reader, m, kind);
}

void notice_recipients_fini(struct notice_recipients *n)
{
    free(n->list);
    n->list = NULL;
}
