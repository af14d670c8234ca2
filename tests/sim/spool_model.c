/* The model's operations and texts; see spool_model.h. */
#include "tests/sim/spool_model.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/spool/spool_record.h"
#include "tests/chance.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void model_init(struct model *m, uint64_t seed)
{
    *m = (struct model){.random = seed * 2654435761u + 88172645463325252ull, .next_id = 1};
}

void model_fini(struct model *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        free(m->messages[i].states);
        free(m->messages[i].reason_numbers);
    }
    m->count = 0;
}

static void *copy_bytes(const void *from, size_t bytes)
{
    if (from == NULL) {
        return NULL;
    }
    void *to = malloc(bytes);
    assert(to != NULL);
    return memcpy(to, from, bytes);
}

void model_copy(struct model *to, const struct model *from)
{
    *to = *from;
    for (uint32_t i = 0; i < to->count; i++) {
        struct model_message *m = &to->messages[i];
        m->states = copy_bytes(m->states, m->recipients);
        m->reason_numbers = copy_bytes(m->reason_numbers, m->recipients * sizeof(uint32_t));
    }
}

uint64_t model_random(struct model *m, uint64_t below)
{
    return (chance_next(&m->random) >> 11) % below;
}

/* --- contents --------------------------------------------------------------------------------- */

static void fill_body(struct buf *b, const struct model_message *m)
{
    for (uint32_t i = 0; i < m->body_bytes; i += 8) {
        uint64_t word = (m->seed + i) * 0x9e3779b97f4a7c15ull;
        uint32_t left = m->body_bytes - i;
        buf_append(b, &word, left < 8 ? left : 8);
    }
}

static void fill_packed(struct buf *b, const struct model_message *m, uint32_t first,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char address[64];
        int len = snprintf(address, sizeof(address), "u%u@d%llu.example", first + i,
                           (unsigned long long)(m->seed % 1000));
        buf_append_char(b, (char)(len >> 8));
        buf_append_char(b, (char)len);
        buf_append(b, address, (size_t)len);
    }
}

static uint32_t chunk_count(const struct model_message *m)
{
    if (m->body_bytes <= SPOOL_INLINE_BODY_BYTES) {
        return 0;
    }
    return (m->body_bytes + SPOOL_CHUNK_BYTES - 1) / SPOOL_CHUNK_BYTES;
}

static bool needs_staging(const struct model_message *m)
{
    return chunk_count(m) > 0 || m->recipients > SPOOL_BATCH_RECIPIENTS;
}

/* --- operations ------------------------------------------------------------------------------- */

static struct model_message *pick(struct model *m, bool is_staged)
{
    uint32_t candidates[MODEL_MESSAGES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->messages[i].is_staged == is_staged) {
            candidates[count++] = i;
        }
    }
    return count == 0 ? NULL : &m->messages[candidates[model_random(m, count)]];
}

static void drop(struct model *m, struct model_message *message)
{
    free(message->states);
    free(message->reason_numbers);
    *message = m->messages[--m->count];
}

static int put_chunk(struct spool_txn *t, struct model_message *message)
{
    uint32_t chunk = message->chunks_put++;
    if (t == NULL) {
        return 0;
    }
    struct buf body;
    buf_init(&body, 0);
    fill_body(&body, message);
    size_t at = (size_t)chunk * SPOOL_CHUNK_BYTES;
    size_t left = body.len - at;
    int r = spool_put_chunk(
        t, message->id, chunk,
        slice_make(body.data + at, left < SPOOL_CHUNK_BYTES ? left : SPOOL_CHUNK_BYTES));
    buf_fini(&body);
    return r;
}

static int put_batches(struct spool_txn *t, const struct model_message *message)
{
    int r = 0;
    for (uint32_t first = 0; r == 0 && first < message->recipients;
         first += SPOOL_BATCH_RECIPIENTS) {
        uint32_t left = message->recipients - first;
        struct buf packed;
        buf_init(&packed, 0);
        fill_packed(&packed, message, first,
                    left < SPOOL_BATCH_RECIPIENTS ? left : SPOOL_BATCH_RECIPIENTS);
        r = spool_put_recipients(t, message->id, first / SPOOL_BATCH_RECIPIENTS,
                                 buf_slice(&packed));
        buf_fini(&packed);
    }
    return r;
}

static struct spool_envelope envelope(const struct model_message *message)
{
    static const struct slice tenants[] = {SLICE(""), SLICE("acme"), SLICE("Other"), SLICE("acme")};
    static const struct slice campaigns[] = {SLICE(""), SLICE(""), SLICE("spring"), SLICE("May")};
    static const uint32_t classes[] = {0, 0, SPOOL_FLAG_URGENT, SPOOL_FLAG_BULK};
    return (struct spool_envelope){
        .id = message->id,
        .created = (usec_t)message->seed,
        .size_bytes = message->body_bytes,
        .recipient_count = message->recipients,
        .chunk_count = chunk_count(message),
        .flags = (message->seed % 2 == 0 ? SPOOL_FLAG_8BIT : 0) | classes[message->seed / 16 % 4],
        .warn_at = (usec_t)message->seed + 1,
        .sender = message->seed % 5 == 0 ? SLICE("") : SLICE("sender@example.com"),
        .peer_name = SLICE("client.example"),
        .peer_address = SLICE("192.0.2.1"),
        .protocol = SLICE("ESMTP"),
        .auth_user = SLICE(""),
        .tenant = tenants[message->seed % 4],
        .campaign = campaigns[message->seed / 4 % 4],
    };
}

/* Into the tables, at its place if it is known; or into the journal's batch. */
static int store_message(struct spool_txn *t, struct spool_store *journal,
                         struct model_message *message)
{
    struct spool_envelope e = envelope(message);
    struct buf body;
    struct buf packed;
    buf_init(&body, 0);
    buf_init(&packed, 0);
    fill_body(&body, message);
    if (message->recipients <= SPOOL_BATCH_RECIPIENTS) {
        fill_packed(&packed, message, 0, message->recipients);
    }
    struct slice inlined = e.chunk_count == 0 ? buf_slice(&body) : SLICE("");
    struct slice list = buf_slice(&packed);
    int r = journal != NULL ? spool_journal_message(journal, &e, list, inlined, &message->position)
            : message->is_journaled && message->position.id != 0
                ? spool_put_journaled(t, &e, list, inlined, &message->position)
                : spool_put_message(t, &e, list, inlined, &message->position);
    buf_fini(&body);
    buf_fini(&packed);
    return r;
}

static int finish(struct model *m, struct spool_txn *t, struct model_message *message)
{
    message->is_staged = false;
    message->class = SPOOL_INCOMING;
    message->order = m->next_order++;
    return t == NULL ? 0 : store_message(t, NULL, message);
}

static int step_receive(struct model *m, struct spool_txn *t)
{
    static const uint32_t bodies[] = {0,     1,     700,   1990,  4096,  9000,
                                      32768, 32769, 65504, 65505, 150000};
    static const uint32_t lists[] = {1, 1, 1, 1, 1, 2, 3, 30, 400, 1000, 1001, 2500};
    if (m->count == MODEL_MESSAGES) {
        return 0;
    }
    struct model_message *message = &m->messages[m->count++];
    *message = (struct model_message){.id = m->next_id++};
    message->seed = model_random(m, 1u << 30);
    message->body_bytes = bodies[model_random(m, sizeof(bodies) / sizeof(bodies[0]))];
    message->recipients = lists[model_random(m, sizeof(lists) / sizeof(lists[0]))];
    if (!needs_staging(message)) {
        return finish(m, t, message);
    }
    message->is_staged = true;
    int r = t == NULL ? 0 : spool_stage(t, message->id);
    if (r == 0 && t != NULL && message->recipients > SPOOL_BATCH_RECIPIENTS) {
        r = put_batches(t, message);
    }
    return r;
}

static int step_continue(struct model *m, struct spool_txn *t)
{
    struct model_message *message = pick(m, true);
    if (message == NULL) {
        return 0;
    }
    if (model_random(m, 10) == 0) {
        bool is_done = true;
        int r = t == NULL ? 0 : spool_discard(t, message->id, &is_done);
        assert(is_done);
        drop(m, message);
        return r;
    }
    if (message->chunks_put < chunk_count(message)) {
        return put_chunk(t, message);
    }
    return finish(m, t, message);
}

static void reason_of(uint32_t number, char *text, size_t text_bytes, struct spool_reason *ret)
{
    int len = snprintf(text, text_bytes, "reply number %u", number);
    *ret = (struct spool_reason){
        .time = number,
        .state = SPOOL_RECIPIENT_DEFERRED,
        .code = 451,
        .status = SLICE("4.3.0"),
        .text = slice_make(text, (size_t)len),
        .remote_mta = SLICE("mx.example.com"),
    };
}

static int step_state(struct model *m, struct spool_txn *t)
{
    struct model_message *message = pick(m, false);
    if (message == NULL) {
        return 0;
    }
    if (message->states == NULL) {
        message->states = calloc(message->recipients, 1);
        message->reason_numbers = calloc(message->recipients, sizeof(uint32_t));
        assert(message->states != NULL && message->reason_numbers != NULL);
    }
    uint32_t index = (uint32_t)model_random(m, message->recipients);
    uint8_t state = (uint8_t)(1 + model_random(m, 3));
    bool has_reason = model_random(m, 4) != 0;
    uint32_t number = (uint32_t)++m->next_reason;
    message->states[index] = state;
    message->reason_numbers[index] = has_reason && state != SPOOL_RECIPIENT_DELIVERED ? number : 0;
    if (t == NULL) {
        return 0;
    }
    char text[64];
    struct spool_reason reason;
    reason_of(number, text, sizeof(text), &reason);
    return spool_set_recipient(t, message->id, message->recipients, index,
                               (enum spool_recipient_state)state, has_reason ? &reason : NULL);
}

static int step_requeue(struct model *m, struct spool_txn *t)
{
    struct model_message *message = pick(m, false);
    if (message == NULL) {
        return 0;
    }
    struct spool_position from = message->position;
    struct spool_position to = {SPOOL_DEFERRED, 1000 + model_random(m, 1000), message->id,
                                from.flow};
    message->class = SPOOL_DEFERRED;
    message->order = to.time;
    message->position = to;
    bool keeps_retry = model_random(m, 5) == 0;
    if (!keeps_retry) {
        message->has_retry = true;
        message->retry.attempts++;
        message->retry.warned = message->retry.attempts > 3;
        message->retry.due = (usec_t)to.time;
        message->retry.source = (uint16_t)(message->retry.attempts % 3 * 30000);
    }
    return t == NULL ? 0 : spool_requeue(t, &from, &to, keeps_retry ? NULL : &message->retry);
}

static int step_remove(struct model *m, struct spool_txn *t)
{
    struct model_message *message = pick(m, false);
    if (message == NULL) {
        return 0;
    }
    bool is_damaged = model_random(m, 20) == 0;
    int r = 0;
    if (is_damaged) {
        m->quarantined++;
        r = t == NULL ? 0 : spool_quarantine(t, &message->position);
    } else if (t != NULL) {
        r = spool_remove(t, &message->position);
    }
    drop(m, message);
    return r;
}

int model_step(struct model *m, struct spool_txn *t)
{
    uint64_t choice = model_random(m, 100);
    if (choice < 35) {
        return step_receive(m, t);
    }
    if (choice < 50) {
        return step_continue(m, t);
    }
    if (choice < 65) {
        return step_state(m, t);
    }
    if (choice < 80) {
        return step_requeue(m, t);
    }
    if (choice < 90) {
        return suppress_model_step(&m->suppressed, t, model_random(m, UINT32_MAX));
    }
    return step_remove(m, t);
}

int model_journal_step(struct model *m, struct spool_store *store)
{
    static const uint32_t bodies[] = {0, 1, 700, 1990, 4096, 9000};
    uint32_t journaled[MODEL_MESSAGES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->messages[i].is_journaled) {
            journaled[count++] = i;
        }
    }
    if (count > 0 && model_random(m, 2) == 0) {
        struct model_message *message = &m->messages[journaled[model_random(m, count)]];
        int r = store == NULL ? 0 : spool_journal_removal(store, &message->position);
        drop(m, message);
        return r;
    }
    if (m->count == MODEL_MESSAGES) {
        return 0;
    }
    struct model_message *message = &m->messages[m->count++];
    *message = (struct model_message){.id = m->next_id++, .is_journaled = true};
    message->seed = model_random(m, 1u << 30);
    message->body_bytes = bodies[model_random(m, sizeof(bodies) / sizeof(bodies[0]))];
    message->recipients = 1 + (uint32_t)model_random(m, 3);
    message->class = SPOOL_INCOMING;
    message->order = m->next_order++;
    return store == NULL ? 0 : store_message(NULL, store, message);
}

int model_absorb(struct model *m, struct spool_txn *t)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *message = &m->messages[i];
        int r = t != NULL && message->is_journaled ? store_message(t, NULL, message) : 0;
        if (r != 0) {
            return r;
        }
        message->is_journaled = false;
    }
    return t == NULL ? 0 : spool_absorb_journal(t);
}

void model_restart(struct model *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        m->messages[i].is_journaled = false;
    }
    for (uint32_t i = 0; i < m->count;) {
        if (m->messages[i].is_staged) {
            drop(m, &m->messages[i]);
        } else {
            i++;
        }
    }
}

void model_learn_positions(struct model *m, struct spool_reader *r)
{
    for (int class = SPOOL_INCOMING; class <= SPOOL_DEFERRED; class ++) {
        struct spool_position at = {0};
        while (spool_scan(r, (enum spool_class) class, &at, &at) == 0) {
            for (uint32_t i = 0; i < m->count; i++) {
                if (m->messages[i].id == at.id) {
                    m->messages[i].position = at;
                }
            }
        }
    }
}

/* --- texts ------------------------------------------------------------------------------------ */

static void text_message(struct buf *out, enum spool_class class, uint64_t due,
                         const struct spool_envelope *e, uint64_t body_hash, uint64_t packed_hash)
{
    buf_printf(out,
               "%s %llu id=%llu created=%lld warn=%lld size=%llu rcpt=%u chunks=%u flags=%u "
               "from=<" SLICE_FMT "> peer=" SLICE_FMT " " SLICE_FMT " " SLICE_FMT " of " SLICE_FMT
               " " SLICE_FMT "\n"
               "  body=%016llx rcpts=%016llx\n",
               class == SPOOL_INCOMING ? "incoming" : "deferred", (unsigned long long)due,
               (unsigned long long)e->id, (long long)e->created, (long long)e->warn_at,
               (unsigned long long)e->size_bytes, e->recipient_count, e->chunk_count,
               e->flags & (uint32_t)~SPOOL_FLAG_BODY_INLINE, SLICE_ARG(e->sender),
               SLICE_ARG(e->peer_name), SLICE_ARG(e->peer_address), SLICE_ARG(e->protocol),
               SLICE_ARG(e->tenant), SLICE_ARG(e->campaign), (unsigned long long)body_hash,
               (unsigned long long)packed_hash);
}

static void text_state(struct buf *out, uint32_t index, unsigned state,
                       const struct spool_reason *reason)
{
    buf_printf(out, "  rcpt %u state %u", index, state);
    if (reason != NULL) {
        buf_printf(out, " at %lld %u " SLICE_FMT " " SLICE_FMT " " SLICE_FMT,
                   (long long)reason->time, reason->code, SLICE_ARG(reason->status),
                   SLICE_ARG(reason->text), SLICE_ARG(reason->remote_mta));
    }
    buf_append_char(out, '\n');
}

static void model_text_message(const struct model_message *m, struct buf *out)
{
    struct buf body;
    struct buf packed;
    buf_init(&body, 0);
    buf_init(&packed, 0);
    fill_body(&body, m);
    fill_packed(&packed, m, 0, m->recipients);
    struct spool_envelope e = envelope(m);
    text_message(out, m->class, m->class == SPOOL_INCOMING ? 0 : m->order, &e,
                 hash_checksum(body.data, body.len), hash_checksum(packed.data, packed.len));
    buf_fini(&body);
    buf_fini(&packed);
    if (m->has_retry) {
        buf_printf(out, "  retry %u %d %lld %u\n", m->retry.attempts, m->retry.warned,
                   (long long)m->retry.due, m->retry.source);
    }
    for (uint32_t i = 0; m->states != NULL && i < m->recipients; i++) {
        char text[64];
        struct spool_reason reason;
        reason_of(m->reason_numbers[i], text, sizeof(text), &reason);
        if (m->states[i] != 0) {
            text_state(out, i, m->states[i], m->reason_numbers[i] == 0 ? NULL : &reason);
        }
    }
}

static int by_place(const void *a, const void *b)
{
    const struct model_message *x = *(const struct model_message *const *)a;
    const struct model_message *y = *(const struct model_message *const *)b;
    if (x->class != y->class) {
        return x->class < y->class ? -1 : 1;
    }
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

void model_text(const struct model *m, struct buf *out)
{
    const struct model_message *order[MODEL_MESSAGES];
    size_t count = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (!m->messages[i].is_staged) {
            order[count++] = &m->messages[i];
        }
    }
    qsort(order, count, sizeof(order[0]), by_place);
    for (size_t i = 0; i < count; i++) {
        model_text_message(order[i], out);
    }
    buf_printf(out, "messages %zu quarantined %llu\n", count, (unsigned long long)m->quarantined);
    suppress_model_text(&m->suppressed, out);
}

static void spool_text_states(struct spool_reader *r, const struct spool_envelope *e,
                              struct buf *out)
{
    struct spool_retry retry;
    int rc = spool_read_retry(r, e->id, &retry);
    if (rc != 0) {
        buf_printf(out, "  retry: %s\n", err_str(rc));
    } else if (retry.attempts > 0) {
        buf_printf(out, "  retry %u %d %lld %u\n", retry.attempts, retry.warned,
                   (long long)retry.due, retry.source);
    }
    for (uint32_t first = 0; first < e->recipient_count; first += SPOOL_BATCH_RECIPIENTS) {
        struct slice states = {NULL, 0};
        rc = spool_read_states(r, e->id, first / SPOOL_BATCH_RECIPIENTS, &states);
        if (rc != 0 && rc != ERR_MISSING) {
            buf_printf(out, "  states: %s\n", err_str(rc));
        }
        for (uint32_t i = 0; rc == 0 && i < states.len; i++) {
            struct spool_reason reason;
            int found = spool_read_reason(r, e->id, first + i, &reason);
            if (states.data[i] != 0) {
                text_state(out, first + i, (unsigned)states.data[i], found == 0 ? &reason : NULL);
            } else if (found != ERR_MISSING) {
                buf_printf(out, "  rcpt %u: reason without a state\n", first + i);
            }
        }
    }
}

static void spool_text_message(struct spool_reader *r, const struct spool_position *at,
                               struct buf *out)
{
    struct spool_envelope e;
    struct slice piece;
    int rc = spool_read_message(r, at->id, &e, &piece);
    if (rc != 0) {
        buf_printf(out, "id=%llu: %s\n", (unsigned long long)at->id, err_str(rc));
        return;
    }
    struct buf body;
    struct buf packed;
    buf_init(&body, 0);
    buf_init(&packed, 0);
    buf_append_slice(&body, piece);
    for (uint32_t i = 0; rc == 0 && i < e.chunk_count; i++) {
        rc = spool_read_chunk(r, at->id, i, &piece);
        if (rc == 0) {
            buf_append_slice(&body, piece);
        }
    }
    for (uint32_t i = 0; rc == 0 && i * SPOOL_BATCH_RECIPIENTS < e.recipient_count; i++) {
        rc = spool_read_recipients(r, at->id, i, &piece);
        if (rc == 0) {
            buf_append_slice(&packed, piece);
        }
    }
    if (rc != 0) {
        buf_printf(out, "id=%llu: part: %s\n", (unsigned long long)at->id, err_str(rc));
    }
    text_message(out, (enum spool_class)at->class, at->class == SPOOL_INCOMING ? 0 : at->time, &e,
                 hash_checksum(body.data, body.len), hash_checksum(packed.data, packed.len));
    buf_fini(&body);
    buf_fini(&packed);
    spool_text_states(r, &e, out);
}

static int by_time(const void *a, const void *b)
{
    const struct spool_position *x = a, *y = b;
    if (x->time != y->time) {
        return x->time < y->time ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* A place's flow is that of its message, by a record of the flow table. */
static void check_flow(struct spool_reader *r, const struct spool_position *at, struct buf *out)
{
    struct spool_envelope e;
    struct slice body;
    struct spool_flow flow;
    char tenant[64], campaign[64];
    if (spool_read_message(r, at->id, &e, &body) != 0 || e.tenant.len > sizeof(tenant) ||
        e.campaign.len > sizeof(campaign)) {
        return; /* the text tells */
    }
    slice_lower(e.tenant, tenant);
    slice_lower(e.campaign, campaign);
    if (spool_read_flow(r, at->flow, &flow) != 0 || flow.class != spool_mail_class(e.flags) ||
        !slice_eq(flow.tenant, slice_make(tenant, e.tenant.len)) ||
        !slice_eq(flow.campaign, slice_make(campaign, e.campaign.len))) {
        buf_printf(out, "id=%llu: not of flow %u\n", (unsigned long long)at->id, at->flow);
    }
}

/* In the order of time: the spool has them in that of flows. */
static void text_class(struct spool_reader *r, enum spool_class class, struct buf *out)
{
    struct spool_position at = {0}, all[MODEL_MESSAGES + 1];
    size_t count = 0;
    int rc;
    while ((rc = spool_scan(r, class, &at, &at)) == 0 && count < MODEL_MESSAGES + 1) {
        check_flow(r, &at, out);
        all[count++] = at;
    }
    if (rc != ERR_MISSING) {
        buf_printf(out, "scan: %s\n", err_str(rc));
    }
    qsort(all, count, sizeof(all[0]), by_time);
    for (size_t i = 0; i < count; i++) {
        spool_text_message(r, &all[i], out);
    }
}

void spool_text(struct spool_reader *r, struct buf *out)
{
    struct spool_counts counts;
    text_class(r, SPOOL_INCOMING, out);
    text_class(r, SPOOL_DEFERRED, out);
    int rc = spool_read_counts(r, &counts);
    if (rc != 0 || counts.messages != counts.incoming + counts.deferred) {
        buf_printf(out, "counts: %s %llu %llu %llu\n", err_str(rc),
                   (unsigned long long)counts.messages, (unsigned long long)counts.incoming,
                   (unsigned long long)counts.deferred);
    }
    buf_printf(out, "messages %llu quarantined %llu\n", (unsigned long long)counts.messages,
               (unsigned long long)counts.quarantined);
    suppress_text(r, out);
}
