/* Owns the thread that reads what comes back, and the folder of what it did not understand. Called by
 * sessions through letters; started and stopped by engine_run.c. Must not answer 250: the spool writer
 * does, when what was learned is durable. */
#include "engine/inbound/hearer.h"

#include "base/error.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/heard/heard.h"
#include "engine/heard/return_book.h"
#include "engine/inbound/hearing_sense.h"
#include "engine/inbound/unknown_mail.h"
#include "engine/post/hearing.h"
#include "engine/post/letter.h"
#include "engine/reply/reply_set.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdlib.h>

struct hearer {
    struct engine *engine;
    struct post post;

    /* its thread only */
    struct outbox *to_writer, *to_workers; /* of the post */
    struct reply_matcher *matcher;         /* NULL: there was no memory: classes stay open */
    struct heard *heard;                   /* what was read last; too large for a stack */
    struct unknown_mail *unknown;
    usec_t rotated; /* monotonic: when the keys were looked at last */
};

/* How often the keys' age is looked at. */
static const usec_t rotation_interval = 600 * USEC_PER_SEC;

int hearer_new(struct engine *engine, struct hearer **ret)
{
    struct hearer *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return -ENOMEM;
    }
    heard_setup();
    h->engine = engine;
    h->matcher = reply_matcher_new();
    h->heard = calloc(1, sizeof(*h->heard));
    int err =
        h->heard == NULL ? -ENOMEM : unknown_mail_new(engine->config->spool.path, &h->unknown);
    if (err == 0) {
        err = post_init(&h->post, 1024);
    }
    if (err != 0) {
        unknown_mail_free(h->unknown);
        reply_matcher_free(h->matcher);
        free(h->heard);
        free(h);
        return err;
    }
    *ret = h;
    return 0;
}

struct mailbox *hearer_box(struct hearer *h)
{
    return &h->post.box;
}

void hearer_free(struct hearer *h)
{
    struct letter letter;
    if (h == NULL) {
        return;
    }
    while (post_take_left(&h->post, &letter)) {
        hearing_free(letter_take_hear(&letter));
    }
    post_fini(&h->post);
    unknown_mail_free(h->unknown);
    reply_matcher_free(h->matcher);
    free(h->heard);
    free(h);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void count_heard(struct hearer *h, enum heard_kind kind)
{
    atomic_fetch_add_explicit(&h->engine->heard[kind], 1, memory_order_relaxed);
}

/* What no rule here recognises is kept as it came, and that is all that is done with it. */
static void keep_unknown(struct hearer *h, struct hearing *one) ON_ROLE(h->post)
{
    one->error = unknown_mail_keep(h->unknown, one);
    letter_put_hearing_done(&h->to_workers[one->worker], one);
}

static void hear_one(struct hearer *h, struct hearing *one) ON_ROLE(h->post)
{
    heard_read(buf_slice(&one->content), slice_of(one->recipient), h->heard);
    h->heard->is_cut |= one->is_cut;
    count_heard(h, h->heard->kind);
    if (h->heard->kind == HEARD_UNKNOWN) {
        keep_unknown(h, one);
        return;
    }
    rcu_awake();
    const struct hearing_rules rules = {
        .book = h->engine->returns,
        .replies = settings_of(h->engine)->replies,
        .matcher = h->matcher,
    };
    hearing_sense(one, h->heard, &rules);
    rcu_sleep();
    if (one->lines.failed) {
        one->error = -ENOMEM;
        letter_put_hearing_done(&h->to_workers[one->worker], one);
    } else {
        letter_put_heard(h->to_writer, one);
    }
}

static void rotate_keys(struct hearer *h)
{
    usec_t now = clock_mono();
    if (h->rotated != 0 && now - h->rotated < rotation_interval) {
        return;
    }
    h->rotated = now;
    rcu_awake(); /* the old ring is retired */
    int err = return_book_rotate(h->engine->returns, clock_wall() / USEC_PER_SEC, false);
    rcu_sleep();
    if (err != 0) {
        log_warning("return addresses: keys cannot be rotated: %s; the old one stays in use",
                    err_str(err));
    }
}

static void run_hearer(void *arg)
{
    struct hearer *h = arg;
    struct letter letter;
    post_assert_owner(&h->post);
    rcu_sleep(); /* reads nothing under RCU but where it says so */
    while (!post_must_end(&h->post)) {
        rotate_keys(h);
        while (post_take(&h->post, &letter)) {
            hear_one(h, letter_take_hear(&letter));
            (void)post_flush(&h->post); /* letters that do not fit go below */
        }
        post_nap(&h->post, post_flush(&h->post) ? h->rotated + rotation_interval
                                                : clock_mono() + USEC_PER_MSEC);
    }
    rcu_awake();
}

int hearer_start(struct hearer *h)
{
    const struct engine *e = h->engine;
    int err = post_open(&h->post, 1 + e->worker_count);
    if (err != 0) {
        return err;
    }
    h->to_writer = post_write_to(&h->post, e->boxes.writer);
    h->to_workers = post_write_to_each(&h->post, e->boxes.workers, e->worker_count);
    return post_start(&h->post, "hearer", run_hearer, h);
}

void hearer_stop(struct hearer *h)
{
    post_stop(&h->post);
}
