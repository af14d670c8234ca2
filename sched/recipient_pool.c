/* Recipient slots (section 6). Called when jobs are linked, when entries end, and by selection. */
#include "sched/recipient_pool.h"

#include "sched/parking.h"
#include "sched/transport.h"

#include <assert.h>
#include <limits.h>

static void set_unused(struct sched *s, int64_t unused)
{
    s->rcpt_unused = unused;
    shared_set(&s->shared.pool_unused, unused);
}

/* Of the message: its minimum and the slots of its only job here. */
static int64_t spare(const struct sched *s, const struct job *j)
{
    return (int64_t)s->config.message_recipient_minimum + j->rcpt_limit - j->rcpt_count;
}

void recipient_pool_grant(struct sched *s, struct job *j)
{
    if (s->rcpt_unused > 0) {
        j->rcpt_limit += (int)s->rcpt_unused; /* all jobs together have no more than the pool */
        set_unused(s, 0);
        parking_review(s, j);
    }
}

void recipient_pool_grant_preempting(struct sched *s, struct job *j)
{
    int64_t slots = (s->config.extra_recipient_limit + s->rcpt_unused + 1) / 2;
    if (slots > INT_MAX - j->rcpt_limit) {
        slots = INT_MAX - j->rcpt_limit; /* both limits are as large as options may be */
    }
    if (slots <= 0) {
        return; /* the pool has shrunk: sched_reconfigure */
    }
    j->rcpt_limit += (int)slots;
    set_unused(s, s->rcpt_unused - (int)slots);
}

/* In the order of the messages' ages: to the next job that is not completely read. j itself may
 * have been read meanwhile. */
static void pass_on(struct sched *s, struct job *j)
{
    const struct tree_node *n = &j->in_unread;
    do {
        n = tree_next(n);
        s->next_unread = n == NULL ? NULL : container_of(n, struct job, in_unread);
    } while (n != NULL && !s->next_unread->has_more);
    if (!j->has_more) {
        tree_remove(&s->unread, &j->in_unread);
    }
}

void recipient_pool_move(struct sched *s, struct job *j)
{
    if (s->next_unread == j) {
        pass_on(s, j);
    } else if (!j->has_more && tree_node_is_linked(&j->in_unread)) {
        tree_remove(&s->unread, &j->in_unread);
    }
    int unused = j->rcpt_limit - j->rcpt_count;
    if (unused <= 0) {
        return;
    }
    j->rcpt_limit -= unused;
    set_unused(s, s->rcpt_unused + unused);
    if (s->next_unread != NULL) {
        recipient_pool_grant(s, s->next_unread);
    }
}

bool recipient_pool_can_read(const struct sched *s, const struct job *j)
{
    return j->has_more && !j->is_reading && j->waiting + j->busy > 0 && spare(s, j) > 0;
}

bool recipient_pool_should_refill(const struct sched *s, const struct job *j)
{
    if (!recipient_pool_can_read(s, j)) {
        return false;
    }
    return spare(s, j) >= s->config.recipient_refill_limit ||
           s->now - j->refill_time >= s->config.recipient_refill_delay;
}

uint32_t recipient_pool_wanted(const struct sched *s, const struct job *j)
{
    int64_t wanted = spare(s, j);
    assert(wanted > 0);
    return wanted > BATCH_LIMIT ? BATCH_LIMIT : (uint32_t)wanted;
}

void recipient_pool_resize(struct sched *s, int64_t change)
{
    set_unused(s, s->rcpt_unused + change);
    if (s->next_unread != NULL) {
        recipient_pool_grant(s, s->next_unread);
    }
}
