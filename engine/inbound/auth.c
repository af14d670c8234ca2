/* Owns the thread that compares passwords. Called by inbound sessions through letters; started and
 * stopped by engine_run.c. Must not keep a password. */
#include "engine/inbound/auth.h"

#include "base/post.h"
#include "base/rcu.h"
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
    struct post post;
    struct outbox *to_workers; /* [engine->worker_count], of the post */
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
    int err = post_init(&a->post, 4096);
    if (err != 0) {
        free(a);
        return err;
    }
    *ret = a;
    return 0;
}

struct mailbox *auth_box(struct auth *a)
{
    return &a->post.box;
}

void auth_free(struct auth *a)
{
    struct letter letter;
    if (a == NULL) {
        return;
    }
    while (post_take_left(&a->post, &letter)) {
        auth_request_free(letter_take_password(&letter));
    }
    post_fini(&a->post);
    free(a);
}

static void answer_auth(struct auth *a, struct auth_request *request) ON_ROLE(a->post)
{
    request->is_good =
        users_check(request->users, request->name, request->password, &request->tenant);
    explicit_bzero(request->password, sizeof(request->password));
    letter_put_authenticated(&a->to_workers[request->worker], request);
    (void)post_flush(&a->post); /* letters that do not fit go below */
}

static void run_auth(void *arg)
{
    struct auth *a = arg;
    struct letter letter;
    post_assert_owner(&a->post);
    rcu_sleep(); /* reads nothing under RCU */
    while (!post_must_end(&a->post)) {
        while (post_take(&a->post, &letter)) {
            answer_auth(a, letter_take_password(&letter));
        }
        post_nap(&a->post, post_flush(&a->post) ? USEC_NEVER : clock_mono() + USEC_PER_MSEC);
    }
    rcu_awake();
}

int auth_start(struct auth *a)
{
    const struct engine *e = a->engine;
    int err = post_open(&a->post, e->worker_count);
    if (err != 0) {
        return err;
    }
    a->to_workers = post_write_to_each(&a->post, e->boxes.workers, e->worker_count);
    return post_start(&a->post, "auth", run_auth, a);
}

void auth_stop(struct auth *a)
{
    post_stop(&a->post);
}
