/* Owns a question from the asker's letters to the last answer. Called by trace_report.c, which
 * asks, and by worker_thread.c, which answers. */
#include "engine/trace/trace_question.h"

#include "base/mailbox.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/trace/recording.h"
#include "engine/worker/worker.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that one worker copies at most for one question: some 250 sessions. */
enum { ANSWER_BYTES = 512 << 10 };

struct trace_question *trace_question_new(const struct engine *e, struct slice destination,
                                          const struct flight_filter *filter)
{
    size_t answers = e->worker_count * sizeof(struct trace_answer);
    struct trace_question *q = calloc(1, sizeof(*q) + answers + destination.len + 1);
    if (q == NULL) {
        return NULL;
    }
    q->worker_count = e->worker_count;
    q->end_transport = (uint16_t)settings_of(e)->transport_count;
    q->filter = *filter;
    q->destination = (char *)q + sizeof(*q) + answers;
    memcpy(q->destination, destination.data, destination.len);
    waker_init(&q->waker);
    for (uint32_t i = 0; i < q->worker_count; i++) {
        flight_reading_init(&q->answers[i].reading, ANSWER_BYTES);
    }
    atomic_init(&q->references, 1);
    atomic_init(&q->unanswered, 0);
    return q;
}

void trace_question_put(struct trace_question *q)
{
    /* Release: what this thread wrote is done; acquire: before the last one frees it. */
    if (atomic_fetch_sub_explicit(&q->references, 1, memory_order_acq_rel) == 1) {
        for (uint32_t i = 0; i < q->worker_count; i++) {
            flight_reading_fini(&q->answers[i].reading);
        }
        waker_fini(&q->waker);
        free(q);
    }
}

static void send_letters(struct trace_question *q, const struct engine *e)
{
    atomic_store_explicit(&q->references, 1 + q->worker_count, memory_order_relaxed);
    atomic_store_explicit(&q->unanswered, q->worker_count, memory_order_relaxed);
    for (uint32_t i = 0; i < q->worker_count; i++) {
        struct outbox o;
        outbox_init(&o, e->boxes.workers[i]);
        letter_put_trace(&o, q);
        if (!outbox_flush(&o)) {
            trace_question_put(q); /* the worker's ring is full: this worker counts as unanswered */
        }
        outbox_fini(&o);
    }
}

bool trace_question_ask(struct trace_question *q, const struct engine *e, usec_t patience)
{
    usec_t deadline = clock_mono() + patience;
    send_letters(q, e);
    rcu_sleep();
    /* Acquire: pairs with the release of each worker that counts itself off. */
    while (atomic_load_explicit(&q->unanswered, memory_order_acquire) > 0 &&
           clock_mono() < deadline) {
        waker_prepare(&q->waker);
        if (atomic_load_explicit(&q->unanswered, memory_order_acquire) > 0) {
            waker_wait(&q->waker, deadline);
        }
        waker_finish(&q->waker);
    }
    rcu_awake();
    return atomic_load_explicit(&q->unanswered, memory_order_acquire) == 0;
}

void trace_question_drop(struct trace_question *q)
{
    if (atomic_fetch_sub_explicit(&q->unanswered, 1, memory_order_release) == 1) {
        waker_kick(&q->waker);
    }
    trace_question_put(q);
}

void trace_question_answer(struct trace_question *q, struct worker *w)
{
    struct trace_answer *a = &q->answers[w->index];
    struct slice destination = slice_of(q->destination);
    struct flight_recorder *recorder = recording_of(w);
    a->now = w->now;
    a->used = recorder == NULL ? 0 : flight_recorder_bytes(recorder);
    for (uint16_t t = q->first_transport; recorder != NULL && t < q->end_transport; t++) {
        flight_read(recorder, t, destination, &q->filter, w->now, &a->reading);
    }
    trace_question_drop(q);
}
