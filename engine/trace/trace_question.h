/* A reader's question to all workers: which sessions with a destination they have recorded. A clerk
 * asks and waits a moment; each worker copies what is asked for in the pass in which it finds the
 * letter, a bounded amount, and goes on.
 *
 * Concurrency: what is asked is set before the letters are sent. answers[i] is written by worker i
 * alone, before it counts itself off `unanswered` (release); whoever asked reads all of them once
 * that is 0 (acquire), and none before. The asker may give up: the last of the asker and the
 * workers that lets go of the question frees it, with the copies. No worker ever waits. */
#ifndef ENGINE_TRACE_QUESTION_H
#define ENGINE_TRACE_QUESTION_H

#include "base/attr.h"
#include "base/waker.h"
#include "engine/trace/flight_recorder.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct worker;

struct trace_answer {
    struct flight_reading reading;
    usec_t now;  /* monotonic, of the pass: everything before it is in the answer */
    size_t used; /* bytes of the worker's share of trace_memory */
};

struct trace_question {
    /* set at creation */
    uint32_t worker_count;
    uint16_t first_transport, end_transport; /* transports of the workers' sessions that are
                                              * meant, by index: first to end - 1 */
    struct flight_filter filter;
    char *destination; /* behind the answers */

    struct waker waker;            /* the asker sleeps on it */
    _Atomic uint32_t unanswered;   /* workers */
    _Atomic uint32_t references;   /* the asker's, and one of each worker that has not answered */
    struct trace_answer answers[]; /* [worker_count] */
};

/* One reference, the caller's. NULL: out of memory */
struct trace_question *trace_question_new(const struct engine *e, struct slice destination,
                                          const struct flight_filter *filter);
void trace_question_put(struct trace_question *q);
/* Send it, and wait for all answers. Thread: the asker's, offline for RCU while it waits.
 *
 * patience  usec
 * returns   false when some worker has not answered in that time: the answers must not be read */
MUST_USE bool trace_question_ask(struct trace_question *q, const struct engine *e, usec_t patience);

/* A worker got the letter: answer, and let go. */
void trace_question_answer(struct trace_question *q, struct worker *w);
/* The same for a letter that no worker takes any more. Any thread. */
void trace_question_drop(struct trace_question *q);

#endif
