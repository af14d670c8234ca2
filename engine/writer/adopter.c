/* Owns how far an adoption is. Called by the spool writer on its thread; must not know where the log came
 * from. */
#include "engine/writer/adopter.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/cluster/adoption.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/spool/spool_adopt.h"
#include "engine/spool/spool_record.h"
#include "engine/state/engine.h"
#include "engine/writer/name_keeper.h"

#include <errno.h>

enum { PIECE_BYTES = 256 << 10 }; /* of a transaction, about */

struct piece {
    struct adopter *adopter;
    struct spool_txn *txn;
};

static struct adoption *job_of(const struct adopter *a)
{
    /* Acquire pairs with the release of who hands it over. */
    return atomic_load_explicit(&a->engine->adoption, memory_order_acquire);
}

bool adopter_is_due(const struct adopter *a)
{
    /* What the log keeps free is for results and a retelling, without which nothing makes room again; and
     * a disk that is full or fails is asked with what is this node's own. */
    const uint32_t closed =
        ENGINE_GATE_STOPPING | ENGINE_GATE_LOG_FULL | ENGINE_GATE_LOW_SPACE | ENGINE_GATE_BROKEN;
    return job_of(a) != NULL && (engine_gate(a->engine) & closed) == 0;
}

/* Mail that comes in has names before it is announced; see name_keeper.h. */
static void note_names(const struct adopter *a, const struct spool_change *c)
{
    struct spool_message m;
    if (c->kind == SPOOL_CHANGE_MESSAGE && spool_message_decode(c->bytes, c->id, false, &m) == 0) {
        name_keeper_note(a->engine, m.envelope.tenant, m.envelope.campaign);
    }
}

static void put_change(void *ctx, const struct spool_change *change)
{
    const struct piece *p = ctx;
    struct adopter *a = p->adopter;
    if (a->error == 0) {
        note_names(a, change);
        a->error = spool_adopt_change(p->txn, change, a->job->log, a->will.as);
    }
}

/* A message that meets another one with its id here gets a new one. errors: of the store */
static int begin_message(struct adopter *a, struct spool_txn *txn, uint64_t id)
{
    enum spool_meeting meeting;
    uint64_t burnt = engine_new_id(a->engine); /* for its place; see spool_adopt_place */
    int err = spool_meet(txn, a->job->reader, id, &meeting);
    a->will = (struct adopter_point){.id = id, .as = id, .at = spool_retell_from(id)};
    if (err == 0 && meeting == SPOOL_MEETS_SAME) {
        a->will.as = 0;
        a->will.is_between = true;
    } else if (err == 0 && meeting == SPOOL_MEETS_OTHER) {
        char was[MESSAGE_ID_TEXT], is[MESSAGE_ID_TEXT];
        a->will.as = burnt;
        message_id_format(id, was);
        message_id_format(burnt, is);
        log_warning("take-over: message %s of log %u is %s here, as another one has its id", was,
                    a->job->log, is);
    }
    return err;
}

/* All of the message is there. errors: of the store */
static int end_message(struct adopter *a, struct spool_txn *txn)
{
    int err = spool_adopt_place(txn, a->will.as, &a->places[a->count]);
    a->will.is_between = true;
    a->renumbered += err == 0 && a->will.as != a->will.id;
    a->count += err == 0;
    return err == ERR_MISSING ? 0 : err; /* it is damaged, and was told of in pieces only */
}

/* The marks of the log that ends, and its own. errors: of both stores */
static int put_end(struct adopter *a, struct spool_txn *txn)
{
    uint16_t log = 0;
    uint64_t mark;
    int err = 0;
    for (uint32_t from = 0; err == 0; from = log + 1U) {
        err = spool_next_adopted(a->job->reader, from, &log, &mark);
        if (err == 0 && log != a->job->log) {
            err = spool_set_adopted(txn, log, mark, a->job->log);
        }
    }
    a->is_last = err == ERR_MISSING;
    return a->is_last ? spool_set_adopted(txn, a->job->log, ADOPTION_DONE, 0) : err;
}

static bool is_renumbered(const struct adopter *a)
{
    return a->will.as != 0 && a->will.as != a->will.id;
}

/* What the transaction takes yet. Any mark covers a renumbered message (adoption_is_covered), so from its
 * record on it gets all of it: there is no transaction with a mark and half of it. */
static size_t budget(const struct adopter *a, size_t bytes)
{
    if (is_renumbered(a) && spool_retelling_has_record(&a->will.at)) {
        return SIZE_MAX;
    }
    return bytes < PIECE_BYTES ? PIECE_BYTES - bytes : 0;
}

/* false: the transaction has enough, or there is nothing more, or an error */
static bool put_some(struct adopter *a, struct spool_txn *txn, size_t *bytes)
{
    if (a->will.is_between) {
        uint64_t id;
        if (a->count == ADOPTER_PLACES || *bytes >= PIECE_BYTES ||
            (is_renumbered(a) && a->count > 0)) {
            return false;
        }
        int err = spool_next_message(a->job->reader, a->will.id, &id);
        if (err == 0) {
            a->error = begin_message(a, txn, id);
        } else {
            a->error = err == ERR_MISSING ? put_end(a, txn) : err;
        }
        return err == 0 && a->error == 0;
    }
    struct piece piece = {a, txn};
    size_t told = 0;
    if (is_renumbered(a) && a->count > 0) {
        return false; /* it gets a transaction of its own */
    }
    size_t most = budget(a, *bytes);
    if (most == 0) {
        return false;
    }
    int err = spool_retell_one(a->job->reader, &a->will.at, most, put_change, &piece, &told);
    *bytes += told;
    a->error = a->error != 0 ? a->error : err;
    if (a->error == 0 && spool_retelling_is_through(&a->will.at)) {
        a->error = end_message(a, txn);
    }
    return a->error == 0;
}

/* Where the last transaction ended behind the record of a message, it is a message again, and so is
 * the next one ended. errors: of the store */
static int resume(const struct adopter *a, struct spool_txn *txn)
{
    return spool_retelling_has_record(&a->is.at) ? spool_adopt_resume(txn, a->is.as) : 0;
}

static int pause(const struct adopter *a, struct spool_txn *txn)
{
    return spool_retelling_has_record(&a->will.at) ? spool_adopt_pause(txn, a->will.as, a->job->log)
                                                   : 0;
}

static void begin_job(struct adopter *a, struct adoption *job)
{
    a->job = job;
    a->is = (struct adopter_point){.id = job->from, .is_between = true};
}

static void end_job(struct adopter *a, enum adoption_state state)
{
    struct adoption *job = a->job;
    void (*wake)(void *ctx) = job->wake;
    void *ctx = job->ctx;
    a->job = NULL;
    atomic_store_explicit(&a->engine->adoption, NULL, memory_order_relaxed);
    atomic_store_explicit(&job->state, state,
                          memory_order_release); /* the job is gone behind this */
    wake(ctx);
}

void adopter_begin(struct adopter *a)
{
    a->error = 0;
}

bool adopter_has_failed(const struct adopter *a)
{
    return a->error != 0;
}

int adopter_put(struct adopter *a, struct spool_txn *txn)
{
    struct adoption *job = job_of(a);
    size_t bytes = 0;
    if (job == NULL || !adopter_is_due(a)) {
        return 0;
    }
    if (a->job != job) {
        begin_job(a, job);
    }
    a->will = a->is;
    a->count = a->renumbered = 0;
    a->is_last = false;
    int err = spool_reader_begin(job->reader);
    if (err != 0) {
        if (err != ERR_AGAIN) {
            end_job(a, ADOPTION_FAILED);
        }
        return 0; /* nothing of it is in the transaction, which others need */
    }
    a->error = resume(a, txn);
    while (a->error == 0 && put_some(a, txn, &bytes)) {
        /* until the transaction has its piece */
    }
    a->error = a->error != 0 ? a->error : pause(a, txn);
    name_keeper_keep_noted(a->engine);
    uint64_t through = a->will.is_between ? a->will.id : a->will.id - 1;
    if (a->error == 0 && !a->is_last && through > job->from) {
        a->error = spool_set_adopted(txn, job->log, through, 0);
    }
    spool_reader_end(job->reader);
    if (a->error != 0) {
        end_job(a, ADOPTION_FAILED); /* who handed it over begins again behind the last mark */
    }
    return a->error;
}

void adopter_committed(struct adopter *a, struct outbox *to_activator)
{
    struct adoption *job = a->job;
    if (job == NULL || job != job_of(a)) {
        return;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct spool_position *p = &a->places[i];
        if (p->class == SPOOL_INCOMING) {
            letter_put_queued(to_activator, p->flow, p->time);
        } else if (p->class == SPOOL_HELD) {
            letter_put_held(to_activator, p->flow, p->time);
        } else if (p->class == SPOOL_DEFERRED) {
            letter_put_deferred(to_activator, p->flow);
        }
    }
    atomic_fetch_add_explicit(&job->messages, a->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->renumbered, a->renumbered, memory_order_relaxed);
    a->is = a->will;
    a->count = a->renumbered = 0;
    if (a->is_last) {
        a->is_last = false;
        end_job(a, ADOPTION_ENDED);
    }
}

void adopter_failed(struct adopter *a)
{
    a->count = a->renumbered = 0;
    a->is_last = false;
}
