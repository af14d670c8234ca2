/* Owns the thread that compares passwords. Called by inbound sessions through letters; started and
 * stopped by engine_run.c. Must not keep a password. */
#include "engine/inbound/auth.h"

#include "base/rcu.h"
#include "base/thread.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/users.h"
#include "engine/worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct auth {
    struct engine *engine;
    struct mailbox box;
    struct thread thread;
    _Atomic bool is_stopping;
    struct outbox *to_workers; /* [engine->worker_count], auth thread only */
};

void auth_request_free(struct auth_request *r)
{
    if (r != NULL) {
        explicit_bzero(r->password, sizeof(r->password));
        settings_put(r->settings);
        free(r);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

int auth_new(struct engine *engine, struct auth **ret)
{
    struct auth *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->engine = engine;
    int err = mailbox_init(&a->box, 4096);
    if (err != 0) {
        free(a);
        return err;
    }
    *ret = a;
    return 0;
}

struct mailbox *auth_box(struct auth *a)
{
    return &a->box;
}

void auth_free(struct auth *a)
{
    struct letter letter;
    if (a == NULL) {
        return;
    }
    while (mailbox_take(&a->box, &letter)) {
        auth_request_free(letter.body);
    }
    for (uint32_t i = 0; a->to_workers != NULL && i < a->engine->worker_count; i++) {
        outbox_fini(&a->to_workers[i]);
    }
    free(a->to_workers);
    mailbox_fini(&a->box);
    free(a);
}

static void answer_auth(struct auth *a, struct auth_request *request)
{
    request->is_good = users_check(request->users, request->name, request->password);
    explicit_bzero(request->password, sizeof(request->password));
    outbox_put(&a->to_workers[request->worker], LETTER_AUTHENTICATED, request, 0);
    (void)outbox_flush(&a->to_workers[request->worker]); /* letters that do not fit go next time */
}

static void run_auth(void *arg)
{
    struct auth *a = arg;
    struct letter letter;
    rcu_sleep(); /* reads nothing under RCU */
    while (!atomic_load(&a->is_stopping)) {
        while (mailbox_take(&a->box, &letter)) {
            answer_auth(a, letter.body);
        }
        waker_prepare(&a->box.waker);
        if (ring_count(a->box.ring) == 0 && !atomic_load(&a->is_stopping)) {
            waker_wait(&a->box.waker, USEC_NEVER);
        }
        waker_finish(&a->box.waker);
    }
    rcu_awake();
}

int auth_start(struct auth *a)
{
    a->to_workers = calloc(a->engine->worker_count, sizeof(*a->to_workers));
    if (a->to_workers == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < a->engine->worker_count; i++) {
        outbox_init(&a->to_workers[i], a->engine->boxes.workers[i]);
    }
    return thread_start(&a->thread, "auth", run_auth, a);
}

void auth_stop(struct auth *a)
{
    atomic_store(&a->is_stopping, true);
    waker_kick(&a->box.waker);
    thread_join(&a->thread);
}
