/* The bodies of the transactions in flight, which the shell writes: how far they are, by when they
 * must have moved, and that one ended or cannot be read. They leave in the order of their
 * transactions, and what is told of bytes that left counts for the oldest that is not out. Pure. */
#include "net/smtp_client_internal.h"

#include <assert.h>

/* The oldest body that is not wholly handed over; NULL when there is none. */
static struct smtp_client_envelope *body_under_way(const struct smtp_client *c)
{
    for (uint32_t i = 0; i < c->flight_count && i <= c->written; i++) {
        struct smtp_client_envelope *e = smtp_client_at(c, i);
        if (e->has_body && !e->is_body_out && !e->is_broken) {
            return e;
        }
    }
    return NULL;
}

/* Count bytes handed over, first of the oldest body; a chunk is out with its last byte. */
static void count_body(struct smtp_client *c, uint64_t bytes, usec_t now)
{
    struct smtp_client_envelope *e = body_under_way(c);
    while (e != NULL) {
        uint64_t left = e->t.size_bytes - c->body_bytes;
        uint64_t of_this = e->is_chunk && bytes > left ? left : bytes;
        c->body_bytes += of_this;
        bytes -= of_this;
        if (!e->is_chunk || of_this < left) {
            return;
        }
        e->is_body_out = true;
        e->end_at = now;
        c->body_bytes = 0;
        c->body_started = now;
        e = body_under_way(c);
        c->body_deadline = e == NULL ? USEC_NEVER : now + c->config->data_xfer_timeout;
    }
}

void smtp_client_body_progress(struct smtp_client *c, size_t bytes, usec_t now)
{
    if (c->state != SMTP_CLIENT_STATE_BUSY || c->is_ending || bytes == 0) {
        return;
    }
    c->now = now;
    count_body(c, bytes, now);
    if (c->body_deadline == USEC_NEVER) {
        return;
    }
    c->body_deadline = now + c->config->data_xfer_timeout;
    if (c->config->min_data_rate > 0) {
        usec_t allowed = (usec_t)(c->body_bytes / c->config->min_data_rate) * USEC_PER_SEC;
        usec_t latest = c->body_started + c->config->data_xfer_timeout + allowed;
        c->body_deadline = latest < c->body_deadline ? latest : c->body_deadline;
    }
}

/* The transaction whose body was asked for last, if the shell still owes it. */
static struct smtp_client_envelope *body_owed(const struct smtp_client *c)
{
    if (c->state != SMTP_CLIENT_STATE_BUSY || c->written >= c->flight_count) {
        return NULL; /* the session was lost while the last bytes were written */
    }
    struct smtp_client_envelope *e = smtp_client_at(c, c->written);
    return e->has_body && !e->is_end_queued && !e->is_broken ? e : NULL;
}

void smtp_client_body_sent(struct smtp_client *c, usec_t now)
{
    assert(!smtp_client_has_event(c));
    struct smtp_client_envelope *e = body_owed(c);
    if (e == NULL) {
        return;
    }
    c->now = now;
    if (e->is_chunk) {
        e->is_end_queued = true;
        e->end_at = now;
    } else {
        e->is_body_out = true;
        c->body_deadline = USEC_NEVER;
        smtp_client_append_end(c, e, ".\r\n", now);
    }
    smtp_client_write(c, now);
}

void smtp_client_body_failed(struct smtp_client *c, bool permanent, struct slice reason, usec_t now)
{
    assert(!smtp_client_has_event(c));
    struct smtp_client_envelope *e = body_owed(c);
    if (e == NULL) {
        return;
    }
    c->now = now;
    (void)smtp_client_judge(c, permanent ? OUTCOME_HARD : OUTCOME_SOFT,
                            permanent ? OUTCOME_SCOPE_MESSAGE : OUTCOME_SCOPE_SITE,
                            OUTCOME_STAGE_LOCAL, outcome_status_of(permanent ? "5.6.0" : "4.3.0"));
    smtp_client_text_add(c, reason, 0);
    smtp_client_push(c, SMTP_CLIENT_STOP_BODY)->transaction = e->number;
    e->is_broken = true;
    e->is_incomplete = !permanent && e->undecided > 0;
    if (e->undecided > 0) {
        smtp_client_push_verdict(c, SMTP_CLIENT_REST, e);
        e->undecided = 0;
    }
    c->no_reuse = true;
    c->body_deadline = body_under_way(c) == NULL ? USEC_NEVER : c->body_deadline;
    if (c->written == 0) {
        smtp_client_lose(c);
    }
}
