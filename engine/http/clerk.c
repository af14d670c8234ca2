/* Owns a clerk's thread, its spool reader and its list of active messages. Called by engine_run.c
 * for its life and by the handlers for reading. Must not know what the routes mean. */
#include "engine/http/clerk.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/http/api_private.h"
#include "engine/post/letter.h"
#include "engine/schedule/sched_thread.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BOX_LETTERS = 1024,
    BEGIN_TRIES = 200, /* of 10 ms */
};

/* --- which messages are active ---------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void clerk_read_active(struct clerk *k)
{
    const struct engine *e = k->engine;
    size_t capacity = 0;
    clerk_forget_active(k);
    for (uint32_t t = 0; t < settings_of(e)->transport_count; t++) {
        const struct sched *s = sched_thread_core(e->scheds[t % e->sched_count], t);
        struct sched_job_view job;
        uint64_t cursor = 0;
        while (sched_view_jobs(s, &cursor, &job)) {
            if (k->active_count == capacity) {
                capacity = capacity == 0 ? 1024 : capacity * 2;
                uint64_t *grown = realloc(k->active, capacity * sizeof(*grown));
                if (grown == NULL) {
                    return; /* out of memory: some active messages are shown as incoming */
                }
                k->active = grown;
            }
            k->active[k->active_count++] = job.message_id;
        }
    }
    if (k->active_count > 0) {
        qsort(k->active, k->active_count, sizeof(*k->active), compare_ids);
    }
}

void clerk_forget_active(struct clerk *k)
{
    free(k->active);
    k->active = NULL;
    k->active_count = 0;
}

struct label clerk_owner(const struct clerk *k)
{
    struct label owner = {.len = 0};
    if (k->call != NULL) {
        label_set(&owner, api_tenant(k->call));
    }
    return owner;
}

bool clerk_must_end(const struct clerk *k)
{
    post_assert_owner(&k->post);
    return post_must_end(&k->post);
}

bool clerk_has_calls(const struct clerk *k)
{
    return mailbox_count(&k->post.box) > 0;
}

bool clerk_is_active(const struct clerk *k, uint64_t id)
{
    return k->active_count > 0 &&
           bsearch(&id, k->active, k->active_count, sizeof(*k->active), compare_ids) != NULL;
}

/* --- the spool -------------------------------------------------------------------------------- */

bool clerk_begin(struct clerk *k, struct api_call *c)
{
    for (int i = 0; i < BEGIN_TRIES; i++) {
        if (spool_reader_begin(k->reader) == 0) {
            return true;
        }
        rcu_sleep();
        (void)usleep(10 * 1000); /* shorter is as good */
        rcu_awake();
    }
    clerk_spool_error(k, c);
    return false;
}

void clerk_spool_error(const struct clerk *k, struct api_call *c)
{
    const struct engine *e = k->engine;
    usec_t since = engine_gate_since(e, ENGINE_GATE_BROKEN), now = clock_wall();
    if ((engine_gate(e) & ENGINE_GATE_BROKEN) == 0 || api_tenant(c).len > 0) {
        api_error(c, 503, "unavailable", "the spool is being reopened");
        return;
    }
    api_error(c, 503, "unavailable",
              "the spool cannot be written, nor read meanwhile, for %lld s: %s; it is tried again "
              "all the time",
              (long long)(now > since ? (now - since) / USEC_PER_SEC : 0),
              err_str(atomic_load_explicit(&e->broken_by, memory_order_relaxed)));
}

void clerk_end(struct clerk *k)
{
    spool_reader_end(k->reader);
}

void clerk_quiesce(struct clerk *k)
{
    (void)k; /* its thread is ours */
    rcu_pass();
}

/* --- the thread ------------------------------------------------------------------------------- */

void clerk_pass_on(struct clerk *k, struct api_call *c, api_handler *next, json_t *kept)
{
    if (kept != c->kept) {
        json_decref(c->kept);
    }
    c->kept = kept;
    c->next = next;
    k->has_passed_on = true;
    letter_put_call(k->to_other, c);
}

json_t *clerk_kept(const struct api_call *c)
{
    return c->kept;
}

static void serve_call(struct clerk *k, struct api_call *c) ON_ROLE(k->post)
{
    rcu_awake();
    k->has_passed_on = false;
    k->call = c;
    (c->next != NULL ? c->next : c->route->run)(k, c);
    k->call = NULL;
    rcu_sleep();
    clerk_forget_active(k);
    if (k->has_passed_on) {
        return;
    }
    if (!api_is_answered(c)) {
        api_error(c, 503, "unavailable", "%s gave no answer", c->route->path);
    }
    letter_put_answer(k->to_http, c);
}

static usec_t run_between_calls(struct clerk *k)
{
    if (k->between_calls == NULL) {
        return USEC_NEVER;
    }
    rcu_awake();
    usec_t again = k->between_calls(k);
    rcu_sleep();
    return again;
}

static void run_clerk(void *arg)
{
    struct clerk *k = arg;
    struct letter letter;
    post_assert_owner(&k->post);
    rcu_sleep();
    while (!post_must_end(&k->post)) {
        while (!post_must_end(&k->post) && post_take(&k->post, &letter)) {
            serve_call(k, letter_take_call(&letter));
            (void)post_flush(&k->post); /* again below */
        }
        usec_t deadline = run_between_calls(k);
        if (!post_flush(&k->post)) {
            deadline = clock_mono() + 10 * USEC_PER_MSEC;
        }
        post_nap(&k->post, deadline);
    }
    rcu_awake();
}

/* --- life ------------------------------------------------------------------------------------- */

int clerk_new(struct engine *engine, const char *name, struct clerk **ret)
{
    struct clerk *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return -ENOMEM;
    }
    k->engine = engine;
    k->name = name;
    int err = post_init(&k->post, BOX_LETTERS);
    if (err == 0) {
        err = spool_reader_new(engine->store, &k->reader);
    }
    if (err != 0) {
        clerk_free(k);
        return err;
    }
    *ret = k;
    return 0;
}

struct mailbox *clerk_box(struct clerk *k)
{
    return &k->post.box;
}

int clerk_start(struct clerk *k)
{
    struct engine *e = k->engine;
    int err = post_open(&k->post, 3 + e->sched_count);
    if (err != 0) {
        return err;
    }
    k->to_http = post_write_to(&k->post, e->boxes.http);
    k->to_other = post_write_to(&k->post, e->boxes.clerks[e->clerks[0] == k ? 1 : 0]);
    k->to_activator = post_write_to(&k->post, e->boxes.activator);
    k->to_scheds = post_write_to_each(&k->post, e->boxes.scheds, e->sched_count);
    return post_start(&k->post, k->name, run_clerk, k);
}

void clerk_stop(struct clerk *k)
{
    post_stop(&k->post);
}

void clerk_free(struct clerk *k)
{
    if (k != NULL) {
        post_fini(&k->post); /* calls in it belong to the http thread, which has ended them */
        spool_reader_free(k->reader);
        free(k->active);
        if (k->free_census != NULL) {
            k->free_census(k->census);
        }
        free(k);
    }
}
