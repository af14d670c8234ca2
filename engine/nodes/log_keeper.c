/* Owns the connection for the log, its epoch, and what of it is known (struct log_prefix).
 *
 * Concurrency: all is the thread's own; it meets the spool writer at the replica, and waits for
 * servers only. Frames go one behind the other: a batch is seldom more than one. */
#include "engine/nodes/log_keeper.h"

#include "base/error.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/cluster/log_frame.h"
#include "engine/cluster/log_prefix.h"
#include "engine/nodes/log_owner.h"
#include "engine/nodes/node_lease.h"
#include "engine/replica/replica.h"
#include "engine/spool/spool_retold.h"
#include "engine/state/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define RETRY    (USEC_PER_SEC / 2)
#define LOOK     (1 * USEC_PER_SEC)
#define DOUBTFUL (200 * USEC_PER_MSEC) /* between two looks at the same place */

/* nats-server 2.15 with sync_interval: always syncs a replicated stream when the servers snapshot what
 * they agreed on, each 8 MB (jetstream_cluster.go, compactSizeMin), and keeps what came since in its own
 * log. When the power of all fails after a purge of all that was synced, no server has a stream that is
 * as long as its snapshot says, and none will lead. So what is behind a purge has such a snapshot, twice
 * over. */
#define PURGE_BEHIND (16u << 20)

static_assert(CLUSTER_LOG_BYTES_MAX == LOG_FRAME_BYTES_MAX, "so every frame may be compressed");

struct log_keeper {
    struct log_keeper_node node;
    const struct cluster_log_module *module;
    struct replica *replica;
    struct post post;

    /* owner thread only */
    struct cluster_log *log;
    struct log_prefix prefix;
    struct buf fence;
    uint64_t made;          /* of the stream */
    uint64_t first;         /* place; only what lies in front of it was purged in order */
    uint64_t purge;         /* place; what lies in front of it is of no use; 0: nothing is known */
    uint64_t purge_bytes;   /* of the stream, from which on it may be purged; 0: not yet known */
    int purge_error;        /* of the last try; 0: none */
    bool is_hurried;        /* replica_hurry */
    uint64_t reported;      /* serial up to which the replica knows of acknowledgements */
    bool is_open, is_ended; /* ended: somebody else writes it */
    bool has_vanished;      /* which is a loss if the log is ours yet */
    usec_t next_try, next_look;
    usec_t paused;  /* nothing is sent before; a frame could not be stored */
    int complained; /* error of the last complaint; 0: none */
};

static void wake(void *ctx)
{
    struct log_keeper *k = ctx;
    mailbox_wake(&k->post.box);
}

/* --- an epoch begins -------------------------------------------------------------------------- */

/* As the configuration has it: what is in a full log comes out only when it may become larger.
 * errors: of the module */
static int find_stream(struct log_keeper *k, struct cluster_log_state *ret)
{
    int err = k->module->look(k->log, ret);
    bool is_other = err == 0 && (ret->max_bytes != k->node.max_bytes ||
                                 ret->replicas != k->node.options.replicas);
    if (err == ERR_MISSING || is_other) {
        err = k->module->make(k->log, k->node.max_bytes);
        err = err == 0 ? k->module->look(k->log, ret) : err;
    }
    return err;
}

static void end_for_good(struct log_keeper *k)
{
    k->is_ended = true;
    log_error("log: another process writes the log of node %s; no mail is accepted", k->node.name);
}

/* Who has it. */
static void look_at_owner(struct log_keeper *k)
{
    struct cluster_client *client = k->node.client(k->node.ctx);
    struct log_owner owner;
    usec_t now = clock_mono();
    if (client == NULL || k->node.spool == 0 || now < k->next_try) {
        return;
    }
    k->next_try = now + LOOK;
    int err = log_owner_get(k->node.module, client, k->node.spool, &owner);
    if (err == 0 && (owner.holder != k->node.spool || owner.is_adopted)) {
        node_lease_taken(k->node.lease, owner.holder);
    }
}

/* The key before the stream: none is made for a log that others have. When the key was lost, a stream
 * that is there shows that nobody has adopted it, and so does a lease that never ran out while this
 * process had it. errors: ERR_LOCKED, ERR_MISSING; of the module */
static int look_at_key(struct log_keeper *k, struct cluster_client *client, uint16_t number,
                       struct log_owner *ret, bool *ret_may_create)
{
    struct cluster_log_state state;
    int err = log_owner_get(k->node.module, client, number, ret);
    if (err == ERR_MISSING) {
        bool is_sure = k->made != 0 && !engine_lease_is_over(k->node.engine);
        err = k->node.spool == 0 || is_sure ? 0 : k->module->look(k->log, &state);
        *ret_may_create = err == 0;
    } else if (err == 0 && (ret->holder != number || ret->is_adopted)) {
        err = ERR_LOCKED;
    }
    return err;
}

/* Whether the stream has all that the retelling had told that the last process was at: places in front of
 * one that is as it was are as they were, unless they were purged. errors: of the module */
static int look_at_retold(struct log_keeper *k, const struct cluster_log_state *state, bool *ret)
{
    const struct spool_retold *told = replica_retold(k->replica);
    struct cluster_value found = {.data = NULL};
    struct log_frame frame;
    if (told == NULL || k->made != 0 || state->made != told->made || state->first > told->start ||
        state->last < told->place) {
        return 0;
    }
    int err = k->module->read(k->log, told->place, &found);
    if (err == 0) {
        *ret = log_frame_read(slice_make(found.data, found.len), &frame) == 0 &&
               frame.id.epoch == told->epoch && frame.id.serial == told->serial;
    }
    free(found.data);
    return err == ERR_MISSING ? 0 : err;
}

/* errors: of the module; ERR_AGAIN: the node has not joined, or others were faster */
static int begin_epoch(struct log_keeper *k, uint16_t number)
{
    struct cluster_client *client = k->node.client(k->node.ctx);
    struct cluster_log_state state;
    struct log_owner owner = {.holder = number}; /* until the key is read */
    uint64_t place = 0, last = 0;
    if (client == NULL || number == 0 || (k->node.spool != 0 && number != k->node.spool)) {
        return ERR_AGAIN;
    }
    char name[LOG_OWNER_NAME_SIZE];
    bool may_create = false, goes_on = false;
    log_owner_name(number, name);
    int err = k->log != NULL ? 0 : k->module->open(&k->node.options, name, &k->log);
    if (err == 0 && !k->module->is_connected(k->log)) {
        err = ERR_CLOSED;
    } else if (err == 0 && !k->module->takes(k->log, LOG_FRAME_BYTES_MAX)) {
        err = -EMSGSIZE; /* else the first long batch would never be stored */
    }
    err = err != 0 ? err : look_at_key(k, client, number, &owner, &may_create);
    if (err == 0 && may_create && k->node.spool == 0) {
        err = log_owner_reserve(k->node.module, client, number);
    }
    if (err == 0 && k->has_vanished) {
        log_error("log: the servers have lost it; all mail is told to them anew");
        k->has_vanished = false;
    }
    err = err != 0 ? err : find_stream(k, &state);
    err = err != 0 ? err : look_at_retold(k, &state, &goes_on);
    err = err != 0 ? err : log_owner_last_epoch(k->module, k->log, &state, &last);
    err =
        err != 0 ? err : log_owner_begin(k->node.module, client, number, may_create, last, &owner);
    if (err == ERR_LOCKED && owner.is_adopted) {
        /* Who stood still behind the look at the key made the stream when its log was over. */
        int failed = log_owner_drop_empty(k->module, k->log);
        err = failed != 0 ? failed : err;
    }
    if (err == ERR_LOCKED) {
        k->is_ended = true;
        node_lease_taken(k->node.lease, owner.holder);
    }
    if (err != 0) {
        return err;
    }
    const struct log_frame_id id = {.epoch = owner.epoch};
    buf_clear(&k->fence);
    log_frame_begin(&k->fence, number, &id);
    log_frame_add(&k->fence, &(const struct log_item){.kind = LOG_ITEM_FENCE, .number = number});
    log_frame_end(&k->fence);
    err = k->fence.failed ? -ENOMEM
                          : k->module->send(k->log, state.last + 1, buf_slice(&k->fence), &place);
    if (err != 0) {
        return err; /* if it lies there after all, the next epoch's fence comes behind it */
    }
    log_prefix_init(&k->prefix, owner.epoch, place);
    k->first = k->made == state.made && k->first > state.first ? k->first : state.first;
    k->made = state.made;
    k->purge = 0;
    k->reported = 0;
    k->is_open = true;
    const struct replica_epoch e = {.node = number,
                                    .epoch = owner.epoch,
                                    .place = place,
                                    .made = state.made,
                                    .is_new = k->node.spool == 0 && state.last == 0,
                                    .goes_on = goes_on};
    k->node.spool = number;
    log_info("log: epoch %llu of log %u of node %s begins at place %llu",
             (unsigned long long)owner.epoch, number, k->node.name, (unsigned long long)place);
    if (goes_on) {
        log_info("log: all mail was being told to it anew; that goes on where it ended");
    }
    replica_set_size(k->replica, state.bytes); /* before it judges what has room */
    engine_number_ids(k->node.engine, number);
    replica_open(k->replica, &e);
    return 0;
}

static const char *text_of(int err)
{
    if (err == ERR_MISSING) {
        return "the servers know nothing of it, but this spool had one";
    }
    if (err == -EMSGSIZE) {
        return "max_payload of the servers must be 1 MB, as it is by default";
    }
    if (err == -EPROTONOSUPPORT) {
        return "it has frames of a newer version of sluice; install that one";
    }
    return err == ERR_LIMIT ? "the servers have no room for as much as max_bytes" : err_str(err);
}

static void try_to_begin(struct log_keeper *k)
{
    usec_t now = clock_mono();
    if (now < k->next_try || k->is_ended) {
        return;
    }
    int err = begin_epoch(k, k->node.number(k->node.ctx));
    k->next_try = now + RETRY;
    if (err != 0 && err != ERR_AGAIN && err != k->complained && !k->is_ended) {
        log_warning("log: it cannot be opened: %s; no mail is accepted meanwhile", text_of(err));
        k->complained = err;
    }
    k->complained = err == 0 ? 0 : k->complained;
}

static void end_epoch(struct log_keeper *k)
{
    k->is_open = false;
    replica_close(k->replica);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* What the prefix says of the epoch. */
static void tell_replica(struct log_keeper *k)
{
    if (k->prefix.acknowledged > k->reported) {
        k->reported = k->prefix.acknowledged;
        replica_acknowledged(k->replica, k->reported, k->prefix.valid);
    }
    if (k->prefix.mode == LOG_FENCED) {
        end_epoch(k);
    }
}

/* By a loss, or somebody has taken it over, read it and removed it: begin_epoch finds out. */
static void stream_vanished(struct log_keeper *k)
{
    k->has_vanished = true;
    log_prefix_vanished(&k->prefix);
}

/* Whether what was acknowledged is not there any more: there is no such stream, or another one, or
 * servers came back without its end, or somebody purged it. err: of the look */
static bool has_lost(const struct log_keeper *k, int err, const struct cluster_log_state *s)
{
    return err == ERR_MISSING ||
           (err == 0 && (s->made != k->made || s->last < k->prefix.prefix ||
                         (s->first > k->first && s->last == k->prefix.prefix)));
}

/* false: nothing can be done now */
static bool send_frame(struct log_keeper *k, uint64_t serial)
{
    uint64_t at, place = log_prefix_place(&k->prefix, serial);
    const struct slice frame = replica_frame(k->replica, serial);
    int err = k->module->send(k->log, place, frame, &at);
    if (err == 0) {
        log_prefix_stored(&k->prefix, serial, at);
    } else if (err == ERR_AGAIN) {
        log_prefix_refused(&k->prefix, serial, place);
    } else if (err == ERR_MISSING) {
        stream_vanished(k);
    } else {
        k->paused = clock_mono() + DOUBTFUL;
        log_prefix_doubt(&k->prefix);
    }
    if (err == ERR_LIMIT) {
        replica_refused(k->replica);
    }
    return err == 0;
}

/* A frame for the writer's next serial, or the first one that the prefix does not have; false: none. */
static bool send_next(struct log_keeper *k)
{
    uint64_t serial = k->prefix.acknowledged + 1;
    if (k->prefix.mode != LOG_WRITING || replica_frame(k->replica, serial).len == 0) {
        return false;
    }
    if (k->prefix.sent < serial && !log_prefix_next(&k->prefix, &serial)) {
        return false;
    }
    return send_frame(k, serial);
}

/* What lies in the first place that is not known. A frame that came to lie there between the two
 * questions is found the next time. */
static void look_there(struct log_keeper *k)
{
    uint64_t place = k->prefix.prefix + 1;
    struct cluster_value found = {.data = NULL};
    struct cluster_log_state state;
    struct log_frame frame;
    int err = k->module->read(k->log, place, &found);
    if (err == 0) {
        int why = log_frame_read(slice_make(found.data, found.len), &frame);
        /* What is no frame is void for all. One of a newer version may be a fence for us. */
        const struct log_frame_id none = {why == -EPROTONOSUPPORT ? UINT64_MAX : 0, 0};
        log_prefix_found(&k->prefix, place, why == 0 ? &frame.id : &none);
        if (k->prefix.mode == LOG_FENCED) {
            end_for_good(k);
        }
    } else if (err == ERR_MISSING) {
        err = k->module->look(k->log, &state);
        if (has_lost(k, err, &state)) {
            stream_vanished(k);
        } else if (err == 0 && (state.last < place || state.first > place)) {
            log_prefix_nothing(&k->prefix, place, state.last);
            if (k->prefix.mode == LOG_FENCED) {
                end_for_good(k);
            }
        }
    }
    free(found.data);
}

/* What is of no use is purged when PURGE_BEHIND bytes came behind it, or the log is half full, or somebody
 * needs it. It stays to be done until it is: else a log that was full would stay so. */
static void purge(struct log_keeper *k, uint64_t bytes)
{
    if (k->purge_bytes == 0) {
        k->purge_bytes = bytes + PURGE_BEHIND;
    }
    if (bytes < k->purge_bytes && bytes < k->node.max_bytes / 2 && !k->is_hurried) {
        return;
    }
    uint64_t place = log_prefix_purge(&k->prefix, k->purge) + 1;
    k->first = place > k->first ? place : k->first;
    int err = k->module->purge(k->log, place);
    if (err == 0) {
        k->purge = 0;
        k->next_look = 0; /* how much is left */
        replica_purged(k->replica, place);
    } else if (err != k->purge_error) {
        log_warning("log: what is not needed any more cannot be purged: %s; it is tried again",
                    err_str(err));
    }
    k->purge_error = err;
}

static void watch_size(struct log_keeper *k)
{
    struct cluster_log_state state;
    usec_t now = clock_mono();
    uint64_t useless = replica_take_purge(k->replica);
    bool is_hurried = replica_is_hurried(k->replica);
    if (useless != 0) {
        k->purge = useless;
        k->purge_bytes = 0;
    }
    if (now < k->next_look && useless == 0 && is_hurried == k->is_hurried) {
        return;
    }
    k->is_hurried = is_hurried;
    k->next_look = now + LOOK;
    int err = k->module->look(k->log, &state);
    if (has_lost(k, err, &state)) {
        stream_vanished(k);
    } else if (err == 0) {
        replica_set_size(k->replica, state.bytes);
        if (k->purge != 0) {
            purge(k, state.bytes);
        }
    }
}

/* Returns how long to nap. */
static usec_t work(struct log_keeper *k)
{
    if (!k->is_open) {
        try_to_begin(k);
        if (k->is_ended) {
            look_at_owner(k);
        }
        return k->is_ended ? LOOK : RETRY;
    }
    usec_t now = clock_mono();
    if (now < k->paused) {
        return k->paused - now;
    }
    while (send_next(k)) {
        tell_replica(k);
    }
    if (k->prefix.mode == LOG_LOOKING) {
        look_there(k);
        tell_replica(k);
        return k->is_open && k->prefix.mode == LOG_LOOKING ? DOUBTFUL : 0;
    }
    watch_size(k);
    tell_replica(k);
    return k->is_open ? LOOK : 0;
}

/* A frame waits that can be sent. */
static bool has_frame(struct log_keeper *k)
{
    return k->is_open && k->prefix.mode == LOG_WRITING && clock_mono() >= k->paused &&
           replica_frame(k->replica, k->prefix.acknowledged + 1).len > 0;
}

static void run_log_keeper(void *arg)
{
    struct log_keeper *k = arg;
    post_assert_owner(&k->post);
    rcu_sleep(); /* it reads nothing under RCU, and waits for servers */
    while (!post_must_end(&k->post)) {
        post_take_wakes(&k->post);
        usec_t nap = work(k);
        /* A batch that was handed over since the last look woke nobody. */
        if (post_nap_prepare(&k->post) && nap > 0 && !has_frame(k)) {
            post_nap_sleep(&k->post, clock_mono() + nap);
        }
        post_nap_finish(&k->post);
    }
    if (k->is_open) {
        end_epoch(k);
    }
    rcu_awake();
}

/* --- start and stop --------------------------------------------------------------------------- */

int log_keeper_new(const struct log_keeper_node *node, const struct cluster_log_module *module,
                   struct log_keeper **ret)
{
    struct log_keeper *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return -ENOMEM;
    }
    k->node = *node;
    k->module = module;
    k->replica = node->replica;
    buf_init(&k->fence, LOG_FRAME_BYTES_MAX);
    int err = post_init(&k->post, 1);
    if (err != 0) {
        log_keeper_free(k);
        return err;
    }
    replica_set_keeper(k->replica, wake, k);
    *ret = k;
    return 0;
}

int log_keeper_start(struct log_keeper *k)
{
    int err = post_open(&k->post, 1);
    return err != 0 ? err : post_start(&k->post, "log", run_log_keeper, k);
}

void log_keeper_stop(struct log_keeper *k)
{
    post_stop(&k->post);
}

void log_keeper_free(struct log_keeper *k)
{
    if (k == NULL) {
        return;
    }
    k->module->close(k->log);
    post_fini(&k->post);
    buf_fini(&k->fence);
    free(k);
}
