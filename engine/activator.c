/* Who owns what: a message belongs to the activator from the letter that brings it until its parts
 * are in the schedulers' mailboxes; from then on its account is the spool writer's. The set of held
 * messages is the activator's alone. It has the incoming ones as well: the commit that makes one
 * deferred is seen by a scan before the letter that says it has settled. */
#include "engine/activator.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "engine/config.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/result.h"
#include "engine/router.h"
#include "engine/sched_thread.h"
#include "engine/spool_store.h"
#include "engine/spool_writer.h"

enum { ACTIVATIONS_PER_PASS = 256, IDS_START = 1024 };

/* Open addressing, linear probing; 0 is no message id. */
struct id_set {
    uint64_t *ids;
    size_t capacity, count;
};

struct activator {
    /* set at creation */
    struct engine *engine;
    struct mailbox box;
    struct thread thread;
    struct spool_reader *reader;
    _Atomic bool is_stopping;

    /* activator thread only */
    struct outbox to_writer;
    struct outbox *to_scheds; /* [engine->sched_count] */
    struct list messages;     /* active ones, with the reference that LETTER_SETTLED returns */
    struct list lingering;    /* settled, but a scheduler has not let go yet */
    struct id_set held;       /* ids that a deferred scan must pass over: active or lingering */
    uint32_t active;
    bool has_backlog;                /* incoming mail waits in the spool behind `incoming` */
    bool is_scanning;                /* a deferred scan is under way */
    bool prefers_deferred;           /* scheduler-semantics 8.1: whose turn it is */
    struct spool_position incoming;  /* last one taken or passed over */
    struct spool_position scan;      /* last deferred one looked at */
    uint64_t scan_time;              /* wall: due at or before this (plus a second) */
    usec_t next_scan;                /* monotonic */
    usec_t pause_until;              /* monotonic: the spool could not be read */
};

static size_t id_slot(const struct id_set *s, uint64_t id)
{
    size_t at = (size_t)(id * 0x9E3779B97F4A7C15ull >> 32) & (s->capacity - 1);
    while (s->ids[at] != 0 && s->ids[at] != id) {
        at = (at + 1) & (s->capacity - 1);
    }
    return at;
}

static bool id_set_has(const struct id_set *s, uint64_t id)
{
    return s->ids[id_slot(s, id)] == id;
}

static bool id_set_add(struct id_set *s, uint64_t id)
{
    if ((s->count + 1) * 2 > s->capacity) {
        struct id_set grown = {calloc(s->capacity * 2, sizeof(uint64_t)), s->capacity * 2, 0};
        if (grown.ids == NULL) {
            return false;
        }
        for (size_t i = 0; i < s->capacity; i++) {
            if (s->ids[i] != 0) {
                grown.ids[id_slot(&grown, s->ids[i])] = s->ids[i];
                grown.count++;
            }
        }
        free(s->ids);
        *s = grown;
    }
    s->ids[id_slot(s, id)] = id;
    s->count++;
    return true;
}

static void id_set_remove(struct id_set *s, uint64_t id)
{
    size_t hole = id_slot(s, id);
    if (s->ids[hole] != id) {
        return;
    }
    s->ids[hole] = 0;
    s->count--;
    /* Entries behind the hole may have been pushed past it. */
    for (size_t at = (hole + 1) & (s->capacity - 1); s->ids[at] != 0;
         at = (at + 1) & (s->capacity - 1)) {
        uint64_t moved = s->ids[at];
        s->ids[at] = 0;
        s->ids[id_slot(s, moved)] = moved;
    }
}

int activator_new(struct engine *engine, struct activator **ret)
{
    struct activator *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->engine = engine;
    list_init(&a->messages);
    list_init(&a->lingering);
    a->has_backlog = true; /* whatever an earlier run left */
    a->incoming.class = SPOOL_INCOMING;
    a->scan.class = SPOOL_DEFERRED;
    a->held = (struct id_set){calloc(IDS_START, sizeof(uint64_t)), IDS_START, 0};
    int err = a->held.ids == NULL ? -ENOMEM : mailbox_init(&a->box, 1 << 16);
    if (err == 0) {
        err = spool_reader_new(engine->store, &a->reader);
    }
    if (err != 0) {
        activator_free(a);
        return err;
    }
    *ret = a;
    return 0;
}

struct mailbox *activator_box(struct activator *a)
{
    return &a->box;
}

void activator_free(struct activator *a)
{
    if (a == NULL) {
        return;
    }
    struct letter letter;
    while (a->box.ring != NULL && mailbox_take(&a->box, &letter)) {
        if (letter.kind == LETTER_ARRIVED && letter.body != NULL) {
            message_put(letter.body);
        } /* settled ones are still in the list */
    }
    list_foreach_safe (m, &a->messages, struct message, active) {
        message_destroy(m);
    }
    list_foreach_safe (m, &a->lingering, struct message, active) {
        message_destroy(m);
    }
    mailbox_fini(&a->box);
    spool_reader_free(a->reader);
    for (uint32_t i = 0; a->to_scheds != NULL && i < a->engine->sched_count; i++) {
        outbox_fini(&a->to_scheds[i]);
    }
    outbox_fini(&a->to_writer);
    free(a->to_scheds);
    free(a->held.ids);
    free(a);
}

/* --- routing ----------------------------------------------------------------------------------- */

static struct slice domain_of(struct slice address)
{
    for (size_t i = address.len; i > 0; i--) {
        if (address.data[i - 1] == '@') {
            return slice_from(address, i);
        }
    }
    return SLICE("");
}

/* Recipients that no route takes are failed without an attempt. */
static void fail_unrouted(struct activator *a, struct message *m, const struct route_result *routes,
                          uint32_t count)
{
    struct result *r = result_new(m, count);
    if (r != NULL) {
        r->done = clock_wall();
    }
    for (uint32_t i = 0; r != NULL && i < m->count; i++) {
        if (routes[i].route == NULL && routes[i].nexthop.data == NULL) {
            result_add(r, i, RESULT_FAILED, 0, "5.1.2", SLICE("no route to the recipient's domain"));
        }
    }
    result_send(&a->to_writer, r, m, count, false);
}

static void submit_part(struct activator *a, struct message *m, const struct route_result *routes,
                        size_t transport, uint32_t count)
{
    struct submission *s =
        malloc(sizeof(*s) + (size_t)count * sizeof(struct sched_recipient));
    if (s == NULL) {
        result_send(&a->to_writer, NULL, m, count, false);
        return;
    }
    message_get(m);
    s->message = m;
    s->transport = (uint16_t)transport;
    s->count = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (routes[i].route != NULL && routes[i].transport == transport) {
            s->recipients[s->count++] = (struct sched_recipient){
                .address = m->recipients[i].address, .nexthop = routes[i].nexthop, .index = i};
        }
    }
    outbox_put(&a->to_scheds[transport % a->engine->sched_count], LETTER_SUBMIT, s, 0);
}

/* Hand m's undone recipients to the schedulers. `skip`: the first so many are not to be tried. */
static int route_message(struct activator *a, struct message *m, uint32_t skip)
{
    size_t transports = a->engine->config->transport_count;
    struct route_result *routes = calloc(m->count, sizeof(*routes));
    uint32_t *counts = calloc(transports + 1, sizeof(*counts));
    if (routes == NULL || counts == NULL) {
        free(routes);
        free(counts);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        if (i < skip) {
            routes[i].nexthop = SLICE(""); /* neither routed nor failed */
        } else if (router_route(a->engine->router, domain_of(m->recipients[i].address),
                                &routes[i])) {
            counts[routes[i].transport]++;
        } else {
            routes[i] = (struct route_result){0};
            counts[transports]++;
        }
    }
    for (size_t t = 0; t < transports; t++) {
        if (counts[t] > 0) {
            submit_part(a, m, routes, t, counts[t]);
        }
    }
    if (counts[transports] > 0) {
        fail_unrouted(a, m, routes, counts[transports]);
    }
    free(routes);
    free(counts);
    return 0;
}

/* --- activation -------------------------------------------------------------------------------- */

static void set_active(struct activator *a, uint32_t active)
{
    a->active = active;
    atomic_store_explicit(&a->engine->active_messages, active, memory_order_relaxed);
}

/* errors: -ENOMEM, nothing happened: it is the caller's still, and in the spool */
static int activate(struct activator *a, struct message *m, uint32_t skip)
{
    if (!id_set_add(&a->held, m->envelope.id)) {
        return -ENOMEM;
    }
    m->activated = clock_wall();
    m->pending = m->count - skip;
    int err = route_message(a, m, skip);
    if (err != 0) {
        id_set_remove(&a->held, m->envelope.id);
        return err;
    }
    list_push_back(&a->messages, &m->active);
    set_active(a, a->active + 1);
    return 0;
}

/* A batch of recipients of m: those that are undone, and before them (first) those whose failure
 * was stored but not yet told to the sender. */
static int append_batch(struct activator *a, struct message *m, uint32_t batch, bool failed)
{
    uint64_t id = m->envelope.id;
    struct slice packed, states = SLICE(""), address;
    int err = spool_read_recipients(a->reader, id, batch, &packed);
    if (err != 0) {
        return err;
    }
    err = spool_read_states(a->reader, id, batch, &states);
    if (err != 0 && err != ERR_MISSING) {
        return err;
    }
    for (uint32_t i = 0; spool_packed_next(&packed, &address); i++) {
        uint32_t index = batch * SPOOL_BATCH_RECIPIENTS + i;
        int state = i < states.len ? states.data[i] : SPOOL_RECIPIENT_PENDING;
        struct spool_reason reason;
        bool wanted = failed ? state == SPOOL_RECIPIENT_FAILED &&
                                   spool_read_reason(a->reader, id, index, &reason) == 0
                             : state == SPOOL_RECIPIENT_PENDING || state == SPOOL_RECIPIENT_DEFERRED;
        if (wanted) {
            message_append(m, address, index);
        }
    }
    return 0;
}

/* The failures that message_append put first become a kept result, as if they had just happened. */
static int keep_failures(struct activator *a, struct message *m, uint32_t count)
{
    if (count == 0) {
        return 0;
    }
    struct result *r = result_new(m, count);
    if (r == NULL) {
        return -ENOMEM; /* without it nobody would tell the sender */
    }
    for (uint32_t i = 0; i < count; i++) {
        struct spool_reason reason = {0};
        if (spool_read_reason(a->reader, m->envelope.id, m->recipients[i].index, &reason) != 0) {
            continue;
        }
        char status[12];
        size_t len = reason.status.len < sizeof(status) ? reason.status.len : sizeof(status) - 1;
        memcpy(status, reason.status.data, len);
        status[len] = '\0';
        result_add(r, i, RESULT_FAILED, reason.code, status, reason.text);
        r->done = reason.time;
        r->host_name = result_keep(r, reason.remote_mta);
    }
    r->is_counted = r->is_logged = true;
    m->kept = r;
    return 0;
}

/* Reads the whole message once: a damaged body is found now, and its pages are warm when a worker
 * sends it (a page fault there would stop that worker's other connections). */
static int check_body(struct activator *a, const struct spool_envelope *e)
{
    enum { WARM_CHUNKS = 64 }; /* 4 MB; later chunks are read as they are sent */
    for (uint32_t i = 0; i < e->chunk_count && i < WARM_CHUNKS; i++) {
        struct slice chunk;
        int err = spool_read_chunk(a->reader, e->id, i, &chunk);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int load_message(struct activator *a, const struct spool_position *position,
                        struct message **ret, uint32_t *ret_failed)
{
    struct spool_envelope envelope;
    struct spool_retry retry;
    struct slice body, packed;
    int err = spool_read_message(a->reader, position->id, &envelope, &body);
    if (err == 0) {
        err = spool_read_retry(a->reader, position->id, &retry);
    }
    if (err == 0) {
        err = check_body(a, &envelope);
    }
    size_t address_bytes = 0;
    uint32_t batches =
        (envelope.recipient_count + SPOOL_BATCH_RECIPIENTS - 1) / SPOOL_BATCH_RECIPIENTS;
    for (uint32_t b = 0; err == 0 && b < batches; b++) {
        err = spool_read_recipients(a->reader, position->id, b, &packed);
        address_bytes += err == 0 ? packed.len : 0;
    }
    if (err != 0) {
        return err;
    }
    struct message *m = message_reserve(&envelope, envelope.recipient_count, address_bytes);
    if (m == NULL) {
        return -ENOMEM;
    }
    m->retry = retry;
    m->position = *position;
    for (uint32_t b = 0; err == 0 && b < batches; b++) {
        err = append_batch(a, m, b, true);
    }
    *ret_failed = m->count;
    for (uint32_t b = 0; err == 0 && b < batches; b++) {
        err = append_batch(a, m, b, false);
    }
    if (err == 0) {
        err = keep_failures(a, m, *ret_failed);
    }
    if (err != 0) {
        message_put(m);
        return err;
    }
    *ret = m;
    return 0;
}

/* A message whose every recipient is done but which a crash left in the spool: an empty result lets
 * the writer settle it. */
static void settle_at_once(struct activator *a, struct message *m)
{
    struct result *r = result_new(m, 0);
    if (r != NULL) {
        r->done = clock_wall();
    }
    result_send(&a->to_writer, r, m, 0, false);
}

/* The writer puts it into quarantine, and gives its place back with LETTER_SETTLED. */
static int report_damage(struct activator *a, const struct spool_position *position)
{
    struct spool_position *damaged = malloc(sizeof(*damaged));
    if (damaged == NULL || !id_set_add(&a->held, position->id)) {
        free(damaged);
        return -ENOMEM;
    }
    *damaged = *position;
    set_active(a, a->active + 1);
    outbox_put(&a->to_writer, LETTER_DAMAGED, damaged, 0);
    return 0;
}

/* errors: what passes (no memory, no reader); the same message is due again after a pause */
static int load_and_activate(struct activator *a, const struct spool_position *position)
{
    struct message *m;
    uint32_t failed;
    int err = load_message(a, position, &m, &failed);
    if (err == ERR_CORRUPT || err == ERR_MISSING) {
        return report_damage(a, position);
    }
    if (err == -ENOMEM || err == -EAGAIN || err == ERR_AGAIN) {
        return err;
    }
    if (err != 0) {
        /* Its pages cannot be read; the others must not wait behind it. */
        log_error("spool: cannot read a message: %s; it waits for the next start", err_str(err));
        return 0;
    }
    bool is_done = m->count == failed;
    err = activate(a, m, failed);
    if (err != 0) {
        message_put(m);
        return err;
    }
    if (is_done) {
        settle_at_once(a, m);
    }
    return 0;
}

/* --- what to activate next --------------------------------------------------------------------- */

static bool has_room(const struct activator *a)
{
    return a->active < (uint32_t)a->engine->config->message_active_limit &&
           clock_mono() >= a->pause_until &&
           (engine_gate(a->engine) & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) == 0;
}

static void pause_import(struct activator *a, int err)
{
    log_error("spool: cannot read a message: %s; trying again in a second", err_str(err));
    a->pause_until = clock_mono() + USEC_PER_SEC;
}

/* returns true when a message was taken from the incoming class */
static bool take_incoming(struct activator *a)
{
    struct spool_position next;
    if (!a->has_backlog) {
        return false;
    }
    int err = spool_scan(a->reader, SPOOL_INCOMING, &a->incoming, &next);
    if (err != 0) {
        a->has_backlog = err != ERR_MISSING;
        if (a->has_backlog) {
            pause_import(a, err);
        }
        return false;
    }
    err = load_and_activate(a, &next);
    if (err != 0) {
        pause_import(a, err);
        return false;
    }
    a->incoming = next;
    return true;
}

static bool take_deferred(struct activator *a)
{
    struct spool_position next;
    while (a->is_scanning) {
        int err = spool_scan(a->reader, SPOOL_DEFERRED, &a->scan, &next);
        if (err != 0 || next.time > a->scan_time) {
            a->is_scanning = false;
            return false;
        }
        bool is_held = id_set_has(&a->held, next.id);
        err = is_held ? 0 : load_and_activate(a, &next);
        if (err != 0) {
            pause_import(a, err);
            return false;
        }
        a->scan = next;
        if (!is_held) {
            return true;
        }
    }
    return false;
}

static void start_scan(struct activator *a, uint64_t until)
{
    a->is_scanning = true;
    a->scan = (struct spool_position){.class = SPOOL_DEFERRED};
    a->scan_time = until;
    a->next_scan = clock_mono() + a->engine->config->queue_run_delay;
}

/* scheduler-semantics 8.1: try the scan whose turn it is, then the other; alternate while there is
 * room; with a full active queue new mail goes first. */
static void import(struct activator *a)
{
    if (clock_mono() >= a->next_scan && !a->is_scanning) {
        start_scan(a, (uint64_t)(clock_wall() + USEC_PER_SEC));
    }
    if (!has_room(a) || (!a->has_backlog && !a->is_scanning)) {
        return;
    }
    if (spool_reader_begin(a->reader) != 0) {
        a->pause_until = clock_mono() + 100 * USEC_PER_MSEC; /* being reopened, or no memory */
        return;
    }
    for (int i = 0; i < ACTIVATIONS_PER_PASS && has_room(a); i++) {
        bool took_deferred = a->prefers_deferred && take_deferred(a);
        bool took_incoming = !took_deferred && take_incoming(a);
        if (!took_deferred && !took_incoming) {
            took_deferred = take_deferred(a);
        }
        if (!took_deferred && !took_incoming) {
            break;
        }
        a->prefers_deferred = took_incoming;
    }
    if (!has_room(a)) {
        a->prefers_deferred = false;
    }
    spool_reader_end(a->reader);
}

static void take_arrival(struct activator *a, struct message *m, uint64_t sequence)
{
    if (sequence <= a->incoming.time) {
        /* the scan was faster than the letter */
        if (m != NULL) {
            message_put(m);
        }
        return;
    }
    if (m == NULL || a->has_backlog || !has_room(a)) {
        a->has_backlog = true;
        if (m != NULL) {
            message_put(m);
        }
        return;
    }
    struct spool_position position = m->position;
    if (activate(a, m, 0) != 0) {
        a->has_backlog = true; /* read back from the spool in a moment */
        message_put(m);
        return;
    }
    a->incoming = position;
}

static void forget(struct activator *a, struct message *m)
{
    list_remove(&m->active);
    id_set_remove(&a->held, m->envelope.id);
    message_put(m);
}

/* A scheduler may still hold its part of a settled message: the report is on its way while the
 * result was faster. Until it lets go the same message must not become active again. */
static void take_settled(struct activator *a, struct message *m, uint64_t id)
{
    assert(a->active > 0);
    set_active(a, a->active - 1);
    if (m == NULL) {
        id_set_remove(&a->held, id);
    } else if (message_is_last(m)) {
        forget(a, m);
    } else {
        list_remove(&m->active);
        list_push_back(&a->lingering, &m->active);
    }
}

static void forget_lingering(struct activator *a)
{
    list_foreach_safe (m, &a->lingering, struct message, active) {
        if (message_is_last(m)) {
            forget(a, m);
        }
    }
}

static void take_letter(struct activator *a, const struct letter *letter)
{
    switch (letter->kind) {
    case LETTER_ARRIVED:
        take_arrival(a, letter->body, letter->number);
        break;
    case LETTER_SETTLED:
        take_settled(a, letter->body, letter->number);
        break;
    case LETTER_FLUSH:
        start_scan(a, UINT64_MAX);
        break;
    default:
        assert(false && "unknown letter to the activator");
    }
}

/* --- the thread -------------------------------------------------------------------------------- */

static bool flush_outboxes(struct activator *a)
{
    bool is_done = outbox_flush(&a->to_writer);
    for (uint32_t i = 0; i < a->engine->sched_count; i++) {
        is_done = outbox_flush(&a->to_scheds[i]) && is_done;
    }
    return is_done;
}

static void nap(struct activator *a, bool is_flushed)
{
    /* A scan that has no room to go on is not started again; what makes room sends a letter. */
    usec_t deadline = a->is_scanning ? USEC_NEVER : a->next_scan;
    if (a->pause_until > clock_mono() && a->pause_until < deadline) {
        deadline = a->pause_until;
    }
    if (!list_is_empty(&a->lingering)) {
        deadline = clock_mono() + 20 * USEC_PER_MSEC;
    }
    if (!is_flushed) {
        deadline = clock_mono() + USEC_PER_MSEC;
    }
    waker_prepare(&a->box.waker);
    bool has_work = has_room(a) && (a->has_backlog || a->is_scanning);
    if (ring_count(a->box.ring) == 0 && !has_work && !atomic_load(&a->is_stopping)) {
        rcu_sleep();
        waker_wait(&a->box.waker, deadline);
        rcu_awake();
    }
    waker_finish(&a->box.waker);
}

static void run(void *arg)
{
    enum { LETTERS_PER_PASS = 4096 };
    struct activator *a = arg;
    while (!atomic_load(&a->is_stopping)) {
        struct letter letter;
        for (int i = 0; i < LETTERS_PER_PASS && mailbox_take(&a->box, &letter); i++) {
            take_letter(a, &letter);
        }
        forget_lingering(a);
        import(a);
        bool is_flushed = flush_outboxes(a);
        rcu_pass();
        nap(a, is_flushed);
    }
}

int activator_start(struct activator *a)
{
    struct engine *e = a->engine;
    a->to_scheds = calloc(e->sched_count, sizeof(*a->to_scheds));
    if (a->to_scheds == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < e->sched_count; i++) {
        outbox_init(&a->to_scheds[i], sched_thread_box(e->scheds[i]));
    }
    outbox_init(&a->to_writer, spool_writer_box(e->writer));
    return thread_start(&a->thread, "activator", run, a);
}

void activator_stop(struct activator *a)
{
    atomic_store(&a->is_stopping, true);
    waker_kick(&a->box.waker);
    thread_join(&a->thread);
}
