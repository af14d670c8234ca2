/* The thread and its letters; how a message is signed is seal.c.
 *
 * Who owns what. A submission is the activator's until its letter, this thread's until the letter to
 * its scheduler, with the reference to the message that is in it. The message's `signing` is written
 * here alone while the message is active, and only before any of its submissions has gone on: they
 * all come by the same thread, in order, and the first one finds `is_done` unset. Whoever works on
 * the message later gets it by letters behind that one, and only reads. The settings that it is signed
 * by are held by a reference, so that a reload cannot take a key away while it signs.
 *
 * What waits here are active messages, so message_active_limit bounds it, and the activator does the
 * rest: it takes no more mail than it has places, and never waits for this thread. What a standing order
 * says meanwhile the scheduler finds out: see submission.orders.
 *
 * At the end what waits is dropped: it is queued, and nothing of it was delivered. */
#include "engine/signer/signer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mail_class.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/sign_load.h"
#include "engine/post/signing.h"
#include "engine/signer/seal.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LETTERS_PER_PASS = 4096,
    BATCH_SEALS = 32,                 /* so many at most wait until the schedulers are woken, */
    BATCH_TIME = 20 * USEC_PER_MSEC,  /* and so long, while there is more to sign */
    SPOOL_PAUSE = 20 * USEC_PER_MSEC, /* until the spool is asked again that could not be read */
    FAIR_PLACE = 4,
};

struct line {
    struct submission *first, **last;
};

struct signer {
    /* set at creation */
    struct engine *engine;
    struct sign_load *load; /* of the engine's: what waits here */
    struct post post;
    struct spool_reader *reader;
    char name[16];

    /* set at the start */
    struct outbox *to_writer;
    struct outbox *to_scheds; /* [engine->sched_count] */

    /* its thread only */
    struct line lines[MAIL_CLASS_COUNT];
    uint64_t received, passed; /* submissions */
    struct seal seal;
    usec_t pause_until;   /* monotonic; 0: the spool can be read */
    usec_t batch_begin;   /* monotonic: when schedulers were woken last */
    uint64_t batch_first; /* the value of `passed` then */
    bool has_urgent;      /* something was passed on that must not wait for company */
};

int signer_new(struct engine *engine, uint32_t index, struct signer **ret)
{
    struct signer *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->engine = engine;
    s->load = &engine->sign_loads[index];
    (void)snprintf(s->name, sizeof(s->name), "signer %u", (unsigned)index); /* it fits */
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        s->lines[c].last = &s->lines[c].first;
    }
    int err = post_init(&s->post, 1 << 14);
    if (err == 0) {
        err = spool_reader_new(engine->store, &s->reader);
    }
    seal_init(&s->seal, s->reader, engine->returns);
    if (err != 0) {
        signer_free(s);
        return err;
    }
    *ret = s;
    return 0;
}

struct mailbox *signer_box(struct signer *s)
{
    return &s->post.box;
}

static void drop_submission(struct submission *s)
{
    message_put(s->message);
    settings_put(s->settings);
    free(s);
}

void signer_free(struct signer *s)
{
    if (s == NULL) {
        return;
    }
    struct letter letter;
    while (post_take_left(&s->post, &letter)) {
        drop_submission(letter_take_sign(&letter));
    }
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        for (struct submission *one = s->lines[c].first; one != NULL;) {
            struct submission *next = one->next;
            drop_submission(one);
            one = next;
        }
    }
    post_fini(&s->post);
    seal_fini(&s->seal);
    spool_reader_free(s->reader);
    free(s);
}

/* --- whose turn it is ------------------------------------------------------------------------- */

static void line_up(struct signer *s, struct submission *one)
{
    struct line *line = &s->lines[spool_mail_class(one->message->envelope.flags)];
    one->next = NULL;
    one->arrived = s->received++;
    *line->last = one;
    line->last = &one->next;
}

/* The line whose first submission goes next when so many were taken that are not passed on yet: the
 * highest class, and every fourth time the one whose first has waited longest. NULL: nothing waits */
static struct line *next_line(struct signer *s, uint64_t taken)
{
    static const enum mail_class order[] = {MAIL_URGENT, MAIL_NORMAL, MAIL_BULK};
    bool is_fair = (s->passed + taken) % FAIR_PLACE == FAIR_PLACE - 1;
    struct line *found = NULL;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        struct line *line = &s->lines[order[i]];
        if (line->first != NULL &&
            (found == NULL || (is_fair && line->first->arrived < found->first->arrived))) {
            found = line;
        }
    }
    return found;
}

static struct submission *take_from(struct line *line)
{
    struct submission *one = line->first;
    line->first = one->next;
    if (line->first == NULL) {
        line->last = &line->first;
    }
    one->next = NULL;
    return one;
}

/* What was taken last first. */
static void put_back(struct signer *s, struct submission *one)
{
    struct line *line = &s->lines[spool_mail_class(one->message->envelope.flags)];
    one->next = line->first;
    line->first = one;
    if (one->next == NULL) {
        line->last = &one->next;
    }
}

/* --- a submission ------------------------------------------------------------------------------ */

/* Some message with this result gave its place in memory back, and was or will be here twice. */
static bool was_counted(struct engine *e, enum seal_result result)
{
    _Atomic uint32_t *again = &e->seals_again[result];
    uint32_t left = atomic_load_explicit(again, memory_order_relaxed);
    /* Figures alone; several signers may take one. */
    while (left > 0 && !atomic_compare_exchange_weak_explicit(
                           again, &left, left - 1, memory_order_relaxed, memory_order_relaxed)) {
    }
    return left > 0;
}

static void count_seal(struct engine *e, enum seal_result result, uint32_t signatures)
{
    if (!was_counted(e, result)) {
        atomic_fetch_add_explicit(&e->seals[result], 1, memory_order_relaxed);
    }
    if (signatures > 0) {
        atomic_fetch_add_explicit(&e->signatures, signatures, memory_order_relaxed);
    }
}

/* Want of memory, or a key that does not sign: the recipients have no result, and are tried again soon,
 * as unsigned mail may be refused for good. */
static void give_up(struct signer *s, struct submission *one)
{
    log_warning("message %016llx could not be signed and is tried again",
                (unsigned long long)one->message->envelope.id);
    count_seal(s->engine, SEAL_FAILED, 0);
    result_send(s->to_writer, NULL, one->message, one->count, RESULT_WAS_LOADED);
    if (one->unread > 0) {
        result_send(s->to_writer, NULL, one->message, one->unread, 0);
    }
    drop_submission(one);
}

/* A reload has taken all keys away since it came here. What is passed on unsigned stays so: further
 * submissions may come to their turn when there are keys again, and others read it by then. */
static int leave_unsigned(struct message *m)
{
    if (m->signing == NULL) {
        m->signing = signing_new();
    }
    if (m->signing == NULL) {
        return -ENOMEM;
    }
    signing_tell(m->signing, slice_of(seal_result_text(SEAL_NO_KEY)), NULL, 0);
    m->signing->result = SEAL_NO_KEY;
    m->signing->is_done = true;
    return 0;
}

static bool is_sealed(const struct message *m)
{
    return m->signing != NULL && m->signing->is_done;
}

static void pass_on(struct signer *s, struct submission *one) ON_ROLE(s->post)
{
    s->passed++;
    s->has_urgent |= spool_mail_class(one->message->envelope.flags) == MAIL_URGENT;
    letter_put_submit(&s->to_scheds[one->transport % s->engine->sched_count], one);
}

/* Whether a message is signed together with those: none is signed already, none is there twice. */
static bool may_join(const struct message *m, struct submission *const *all, size_t count)
{
    bool may = count == 0 || (!is_sealed(m) && !is_sealed(all[0]->message));
    for (size_t i = 0; i < count && may; i++) {
        may = all[i]->message != m;
    }
    return may;
}

/* Those that go next, in their order. returns  how many, at most SEAL_JOBS_MAX */
static size_t take_next(struct signer *s, struct submission **ret)
{
    size_t count = 0;
    struct line *line = next_line(s, 0);
    while (line != NULL && may_join(line->first->message, ret, count)) {
        ret[count++] = take_from(line);
        line = count < SEAL_JOBS_MAX ? next_line(s, count) : NULL;
    }
    return count;
}

/* As seal_messages, and notes the pace. */
static size_t seal_some(struct signer *s, struct seal_job *jobs, size_t count)
{
    struct settings *settings = settings_get(settings_of(s->engine));
    size_t done = 0;
    if (settings->keys != NULL) {
        const usec_t begin = clock_mono();
        done = seal_messages(&s->seal, settings, jobs, count, clock_wall());
        if (done > 0) {
            sign_load_learn(s->load, done, clock_mono() - begin);
        }
    } else {
        for (; done < count; done++) {
            jobs[done].result = SEAL_NO_KEY;
            jobs[done].err = leave_unsigned(jobs[done].message);
        }
    }
    settings_put(settings);
    return done;
}

static void pass_some(struct signer *s) ON_ROLE(s->post)
{
    struct submission *all[SEAL_JOBS_MAX];
    struct seal_job jobs[SEAL_JOBS_MAX];
    size_t count = take_next(s, all);
    s->pause_until = 0;
    if (count == 0 || is_sealed(all[0]->message)) {
        if (count > 0) {
            sign_load_take(s->load, 1);
            pass_on(s, all[0]);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct seal_job){.message = all[i]->message, .transport = all[i]->transport};
    }
    size_t done = seal_some(s, jobs, count);
    for (size_t i = 0; i < done; i++) {
        if (jobs[i].err != 0) {
            s->passed++;
            give_up(s, all[i]);
        } else {
            count_seal(s->engine, jobs[i].result, jobs[i].signatures);
            pass_on(s, all[i]);
        }
    }
    sign_load_take(s->load, done);
    if (done < count && jobs[done].err == ERR_AGAIN) {
        s->pause_until = clock_mono() + SPOOL_PAUSE;
    }
    for (; count > done; count--) {
        put_back(s, all[count - 1]);
    }
}

/* --- the thread -------------------------------------------------------------------------------- */

/* Whether those who got letters are woken now. While there is more to sign they get several at once: a
 * delivery that comes alone costs them, the workers and the writer a wake, and loses the company in
 * which commands and results go. */
static bool is_batch_full(struct signer *s)
{
    bool has_more = next_line(s, 0) != NULL && s->pause_until == 0;
    return !has_more || s->has_urgent || s->passed - s->batch_first >= BATCH_SEALS ||
           clock_mono() - s->batch_begin >= BATCH_TIME;
}

static bool end_batch(struct signer *s) ON_ROLE(s->post)
{
    s->batch_begin = clock_mono();
    s->batch_first = s->passed;
    s->has_urgent = false;
    return post_flush(&s->post);
}

static void run_signer(void *arg)
{
    struct signer *s = arg;
    post_assert_owner(&s->post);
    while (!post_must_end(&s->post)) {
        struct letter letter;
        for (int i = 0; i < LETTERS_PER_PASS && post_take(&s->post, &letter); i++) {
            line_up(s, letter_take_sign(&letter));
        }
        if (s->pause_until <= clock_mono()) {
            pass_some(s);
        }
        bool is_flushed = !is_batch_full(s) || end_batch(s);
        rcu_pass();
        usec_t deadline = USEC_NEVER;
        if (next_line(s, 0) != NULL) {
            deadline = s->pause_until;
        } else if (!is_flushed) {
            deadline = clock_mono() + USEC_PER_MSEC;
        }
        if (deadline > 0) {
            post_nap(&s->post, deadline);
        }
    }
}

int signer_start(struct signer *s)
{
    struct engine *e = s->engine;
    int err = post_open(&s->post, 1 + e->sched_count);
    if (err != 0) {
        return err;
    }
    s->to_writer = post_write_to(&s->post, e->boxes.writer);
    s->to_scheds = post_write_to_each(&s->post, e->boxes.scheds, e->sched_count);
    return post_start(&s->post, s->name, run_signer, s);
}

void signer_stop(struct signer *s)
{
    post_stop(&s->post);
}
