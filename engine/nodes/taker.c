/* Owns what is known of all logs' owners, and the log that is being taken over.
 *
 * Concurrency: all is the thread's own but the orders and figures, which are atomic, and the inbox. A
 * spool that was made of a log is the writer's to read while engine.adoption points to it. The thread
 * ends after the spool writer. */
#include "engine/nodes/taker.h"

#include "base/error.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/cluster/adoption.h"
#include "engine/cluster/member.h"
#include "engine/config/config.h"
#include "engine/nodes/cluster_clock.h"
#include "engine/nodes/inbox.h"
#include "engine/nodes/log_owner.h"
#include "engine/nodes/taken_log.h"
#include "engine/replica/replica.h"
#include "engine/spool/spool_adopt.h"
#include "engine/state/engine.h"
#include "engine/writer/adopter.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOGS_MAX = 1024,
    ORDERS_MAX = 16,
    UNMADE_MAX = 16,
    UNMADE_LOOKS = 10,
    INBOX_ROOM = 65536,
    PACKED_MOST = 3, /* about what text is larger than its compressed form by zstd's level 1 */
};
#define LOOK     (1 * USEC_PER_SEC)
#define SPAN_MAX (2 * USEC_PER_SEC)    /* of time without a look */
#define DOUBTFUL (200 * USEC_PER_MSEC) /* between two questions to servers */
#define PAUSE    (10 * USEC_PER_SEC)   /* after the spool could not take a log's mail in */

/* A log of which something is needed yet. */
struct known_log {
    uint16_t number;
    struct log_owner owner;
    usec_t none_for; /* how long we looked and nobody had its holder */
    usec_t looked;   /* cluster clock; when that was last added up */
    usec_t paused;   /* monotonic; not tried before */
    bool is_newer;   /* it has frames that this version cannot read */
    int complained;  /* error of the last complaint; 0: none */
};

/* A log without a stream, which was ended. What its node asked for may have been on its way: then the stream
 * comes yet, empty, and nobody's. */
struct unmade_log {
    uint16_t number;
    unsigned looks; /* that are left */
    usec_t due;     /* cluster clock: when to look for it next */
};

struct taker {
    struct taker_node node;
    struct post post;
    struct spool_reader *reader;
    struct inbox inbox;

    /* owner thread only */
    bool has_bucket;
    struct known_log logs[LOGS_MAX]; /* [count] */
    size_t count;
    struct unmade_log unmade[UNMADE_MAX];
    char folder[4096];

    /* any thread, atomic */
    _Atomic uint16_t orders[ORDERS_MAX]; /* 0: free */
    _Atomic uint16_t under_way;
    _Atomic uint64_t taken, messages;
};

static void wake(void *ctx)
{
    struct taker *t = ctx;
    mailbox_wake(&t->post.box);
}

/* --- what the owners' keys say ---------------------------------------------------------------- */

static void hear_owner(void *ctx, const char *key, const void *data, size_t len, uint64_t revision)
{
    struct taker *t = ctx;
    if (key != NULL) {
        (void)inbox_put(&t->inbox, key, data, len, revision);
    }
}

static void take_owner(struct taker *t, uint16_t number, const struct log_owner *o)
{
    size_t at = 0;
    while (at < t->count && t->logs[at].number != number) {
        at++;
    }
    if (o->is_adopted) {
        if (at < t->count) {
            t->logs[at] = t->logs[--t->count];
        }
        return;
    }
    if (at == t->count && t->count < LOGS_MAX) {
        t->logs[t->count++] = (struct known_log){.number = number};
    }
    if (at < t->count) {
        t->logs[at].owner = *o;
        t->logs[at].none_for = 0;
    }
}

static void read_owners(struct taker *t)
{
    struct told *next;
    for (struct told *told = inbox_take(&t->inbox); told != NULL; told = next) {
        struct log_owner o;
        unsigned long number = strtoul(told->key, NULL, 10);
        next = told->next;
        if (told->is_put && number >= 1 && number <= UINT16_MAX &&
            log_owner_read(slice_make(told->value, told->len), &o) == 0) {
            take_owner(t, (uint16_t)number, &o);
        }
        free(told);
    }
}

/* --- which log -------------------------------------------------------------------------------- */

static bool is_ordered(struct taker *t, uint16_t number, bool is_done)
{
    bool is_found = false;
    for (size_t i = 0; i < ORDERS_MAX; i++) {
        /* Relaxed: a number that says all there is. */
        if (atomic_load_explicit(&t->orders[i], memory_order_relaxed) == number) {
            is_found = true;
            if (is_done) {
                atomic_store_explicit(&t->orders[i], 0, memory_order_relaxed);
            }
        }
    }
    return is_found;
}

/* Nobody runs the holder's spool any more. One that nobody says to have is waited for as long as one
 * that is not heard any more: its entry may be on its way. Time in which this thread did not look
 * counts for little. */
static bool is_gone(struct taker *t, struct known_log *l)
{
    usec_t now = cluster_clock();
    usec_t span = now - l->looked;
    enum holder holder = t->node.holder(t->node.ctx, l->owner.holder);
    l->looked = now;
    if (holder != HOLDER_NONE) {
        l->none_for = 0;
        bool is_left = holder == HOLDER_LEFT && is_ordered(t, l->number, false);
        if (holder == HOLDER_RUNS && is_ordered(t, l->number, true)) {
            log_info("take-over: the node of log %u has returned, which ends the order to take it",
                     l->number);
        }
        return holder == HOLDER_GONE || is_left;
    }
    l->none_for += span < SPAN_MAX ? span : SPAN_MAX;
    return l->none_for >= MEMBER_GONE_AFTER;
}

/* 0: nothing of it, also when that cannot be read now */
static uint64_t mark_of(struct taker *t, uint16_t log)
{
    uint64_t mark = 0;
    if (spool_reader_begin(t->reader) == 0) {
        if (spool_read_adopted(t->reader, log, &mark) != 0) {
            mark = 0;
        }
        spool_reader_end(t->reader);
    }
    return mark;
}

static bool may_take(struct taker *t, struct known_log *l, uint16_t own)
{
    bool is_own_spool = l->owner.holder == l->number;
    const struct adoption_case c = {
        .log = l->number,
        .holder = l->owner.holder,
        .is_adopted = l->owner.is_adopted,
        .is_given = l->owner.is_given,
        .is_gone = l->number != own && is_own_spool && is_gone(t, l),
        .has_adopted_holder =
            !is_own_spool && l->owner.holder != own && mark_of(t, l->owner.holder) == ADOPTION_DONE,
    };
    if (l->is_newer || clock_mono() < l->paused) {
        return false;
    }
    const uint32_t ending = ENGINE_GATE_DRAINING | ENGINE_GATE_STOPPING;
    if (l->owner.holder != own && (engine_gate(t->node.engine) & ending) != 0) {
        return false; /* what it took it would keep when it ends, and nobody takes that over */
    }
    bool is_wanted = t->node.is_automatic || !is_own_spool || is_ordered(t, l->number, false);
    return is_wanted && adoption_may_take(&c, own);
}

/* --- taking it -------------------------------------------------------------------------------- */

struct taking {
    struct taker *taker;
    struct known_log *log;
    struct taken_log taken;
    struct spool_store *store;
    uint16_t own;
    uint64_t from, fence, bound;
};

/* Asks until an answer comes or the thread is to end. */
static bool must_ask_again(void *ctx, int err)
{
    struct taker *t = ((struct taking *)ctx)->taker;
    post_assert_owner(&t->post);
    bool is_answer = err != -ETIMEDOUT && err != ERR_CLOSED && err != ERR_AGAIN && err != -EIO;
    if (is_answer || post_must_end(&t->post)) {
        return false;
    }
    post_nap(&t->post, clock_mono() + DOUBTFUL);
    return true;
}

static void empty_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] != '.') {
            (void)unlinkat(dirfd(dir), e->d_name, 0); /* what stays is in the way of the next one */
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
        (void)rmdir(folder);
    }
}

static void close_store(struct taking *k)
{
    if (k->store != NULL) {
        spool_store_close(k->store);
        k->store = NULL;
    }
    empty_folder(k->taker->folder);
}

/* The own key first: who was taken over himself takes nobody over. errors: ERR_LOCKED; of a server */
static int claim(struct taking *k, struct log_owner *ret)
{
    const struct taker_node *n = &k->taker->node;
    struct cluster_client *client = n->client(n->ctx);
    struct log_owner own;
    int err = client == NULL ? ERR_CLOSED : log_owner_get(n->module, client, k->own, &own);
    if (err == 0 && (own.holder != k->own || own.is_adopted)) {
        err = ERR_LOCKED;
    } else if (err == ERR_MISSING) {
        err = ERR_CLOSED; /* the keeper of our log says so; it is nothing about the other log */
    }
    *ret = (struct log_owner){
        .epoch = k->log->owner.epoch + 1, .holder = k->own, .from = k->log->owner.from};
    err = err != 0 ? err : log_owner_swap(n->module, client, k->log->number, &k->log->owner, ret);
    if (err == 0) {
        k->log->owner = *ret;
    }
    return err;
}

/* errors: ERR_AGAIN: from the start, with an empty spool; as taken_log_read */
static int read_log(struct taking *k)
{
    char why[256] = "";
    const struct config_spool *c = &k->taker->node.engine->config->spool;
    const struct spool_options options = {.path = k->taker->folder, .map_size = c->map_size};
    empty_folder(k->taker->folder);
    int err = spool_store_open(&options, &k->store, why);
    if (err != 0) {
        log_error("take-over: %s", why);
        return err;
    }
    struct replay replay = {.store = k->store};
    struct taken_log_figures figures = {0};
    err = taken_log_read(&k->taken, k->fence, &replay, &figures);
    int end = replay_end(&replay);
    err = err != 0 ? err : end;
    k->bound = replay.bound;
    if (err == 0) {
        log_info(
            "take-over: log %u was read: %llu frames, %llu of them void, %llu unreadable, %llu "
            "bytes",
            k->log->number, (unsigned long long)replay.frames,
            (unsigned long long)replay.void_frames, (unsigned long long)figures.unreadable,
            (unsigned long long)figures.bytes);
    }
    return err;
}

/* Lends the spool to the writer until all of it is taken in. errors: ERR_CLOSED: the thread is to end;
 * -EIO: it failed, and is to be begun again */
static int have_it_adopted(struct taking *k)
{
    struct taker *t = k->taker;
    struct engine *e = t->node.engine;
    struct adoption job = {.log = k->log->number, .from = k->from, .wake = wake, .ctx = t};
    post_assert_owner(&t->post);
    int err = spool_reader_new(k->store, &job.reader);
    if (err != 0) {
        return err;
    }
    int state = ADOPTION_UNDER_WAY;
    /* Release pairs with the acquire of the writer. */
    atomic_store_explicit(&e->adoption, &job, memory_order_release);
    mailbox_wake(e->boxes.writer);
    while (state == ADOPTION_UNDER_WAY && !post_must_end(&t->post)) {
        post_nap(&t->post, clock_mono() + LOOK);
        state = atomic_load_explicit(&job.state, memory_order_acquire);
    }
    /* This thread is told to end when the writer has ended: nobody has the job any more. */
    atomic_store_explicit(&e->adoption, NULL, memory_order_relaxed);
    spool_reader_free(job.reader);
    uint64_t messages = atomic_load_explicit(&job.messages, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->messages, messages, memory_order_relaxed);
    if (state == ADOPTION_ENDED) {
        log_info(
            "take-over: log %u is taken over: %llu messages%s; at most %llu of their deliveries "
            "may repeat",
            k->log->number, (unsigned long long)messages, k->from == 0 ? "" : " more",
            (unsigned long long)k->bound);
        return 0;
    }
    return state == ADOPTION_FAILED ? -EIO : ERR_CLOSED;
}

/* Nothing of the log is needed any more. errors: of a server */
static int end_log(struct taking *k)
{
    const struct taker_node *n = &k->taker->node;
    struct log_owner is = k->log->owner;
    int err;
    do {
        err = n->log_module->remove(k->taken.log);
        err = err == ERR_MISSING ? 0 : err;
    } while (must_ask_again(k, err));
    is.is_adopted = true;
    return err != 0
               ? err
               : log_owner_swap(n->module, n->client(n->ctx), k->log->number, &k->log->owner, &is);
}

/* Not asked again of a log that was claimed: a part of its mail may be in our own log by now. errors:
 * ERR_LIMIT: our log or disk has no room for it, or the disk does not work */
static int has_room(const struct taking *k, const struct cluster_log_state *state)
{
    struct replica_view v;
    const struct engine *e = k->taker->node.engine;
    if ((engine_gate(e) & (ENGINE_GATE_LOW_SPACE | ENGINE_GATE_BROKEN)) != 0) {
        return ERR_LIMIT;
    }
    if (k->log->owner.holder == k->own) {
        return 0;
    }
    if ((engine_gate(e) & ENGINE_GATE_LOG_FULL) != 0) {
        return ERR_LIMIT; /* it would be claimed, and wait here */
    }
    replica_look(e->replica, &v);
    /* Relaxed: a figure. Twice: the spool that is made of the log, and its mail in ours; and the log's
     * bytes are compressed ones. */
    uint64_t room = atomic_load_explicit(&e->free_bytes, memory_order_relaxed);
    bool has_disk = room >= e->config->spool.reserve + 2 * PACKED_MOST * state->bytes;
    bool has_log = v.size + state->bytes <= e->config->cluster.max_bytes / 100 * 80;
    return has_disk && has_log ? 0 : ERR_LIMIT;
}

/* One more than there is room for is not looked for. */
static void look_later(struct taker *t, uint16_t number)
{
    size_t at = 0;
    while (at < UNMADE_MAX && t->unmade[at].looks > 0) {
        at++;
    }
    if (at < UNMADE_MAX) {
        t->unmade[at] =
            (struct unmade_log){number, UNMADE_LOOKS, cluster_clock() + MEMBER_GONE_AFTER};
    }
}

/* Streams that came late are removed. */
static void drop_late(struct taker *t)
{
    for (size_t i = 0; i < UNMADE_MAX; i++) {
        struct unmade_log *u = &t->unmade[i];
        struct cluster_log_state state;
        struct cluster_log *log = NULL;
        char name[LOG_OWNER_NAME_SIZE];
        if (u->looks == 0 || cluster_clock() < u->due) {
            continue;
        }
        log_owner_name(u->number, name);
        int err = t->node.log_module->open(&t->node.options, name, &log);
        err = err != 0 ? err : t->node.log_module->look(log, &state);
        if (err == 0 && state.last == 0 && log_owner_drop_empty(t->node.log_module, log) == 0) {
            log_info("take-over: log %u was made when its node was gone, and is removed",
                     u->number);
        }
        t->node.log_module->close(log);
        u->looks -= err == 0 || err == ERR_MISSING; /* else no server answered */
        u->due = cluster_clock() + MEMBER_GONE_AFTER;
    }
}

/* Its node died before it made the stream: there is nothing to read. errors: of a server */
static int end_unmade(const struct taking *k)
{
    const struct taker_node *n = &k->taker->node;
    struct cluster_client *client = n->client(n->ctx);
    const struct log_owner *was = &k->log->owner;
    const struct log_owner is = {.epoch = was->epoch + 1, .holder = k->own, .is_adopted = true};
    int err =
        client == NULL ? ERR_CLOSED : log_owner_swap(n->module, client, k->log->number, was, &is);
    if (err == 0) {
        look_later(k->taker, k->log->number);
    }
    return err;
}

static int fence_and_read(struct taking *k, const struct log_owner *claimed)
{
    int err = taken_log_fence(&k->taken, k->own, claimed->epoch, &k->fence);
    err = err != 0 ? err : read_log(k);
    while (err == ERR_AGAIN) {
        close_store(k);
        err = read_log(k);
    }
    return err;
}

/* errors: ERR_MISSING: the servers have lost it; as the functions above */
static int take_log(struct taking *k)
{
    struct cluster_log_state state;
    struct log_owner claimed;
    k->from = mark_of(k->taker, k->log->number);
    bool is_read = k->from == ADOPTION_DONE;
    k->from = k->from > k->log->owner.from ? k->from : k->log->owner.from;
    int err = taken_log_look(&k->taken, &state);
    if (err == ERR_MISSING && k->log->owner.is_unmade) {
        return end_unmade(k);
    }
    err = err == ERR_MISSING && is_read ? 0 : err;
    err = err == 0 && !is_read ? has_room(k, &state) : err;
    err = err != 0 ? err : claim(k, &claimed);
    if (err != 0) {
        return err;
    }
    replica_hurry(k->taker->node.engine->replica, true); /* until then it could not be given back */
    log_info("take-over: log %u is ours, from epoch %llu on", k->log->number,
             (unsigned long long)claimed.epoch);
    if (!is_read) {
        err = fence_and_read(k, &claimed);
        err = err != 0 ? err : have_it_adopted(k);
        close_store(k);
    }
    err = err != 0 ? err : end_log(k);
    if (err == 0) {
        atomic_fetch_add_explicit(&k->taker->taken, 1, memory_order_relaxed);
        (void)is_ordered(k->taker, k->log->number, true);
    }
    return err;
}

/* --- giving back ------------------------------------------------------------------------------ */

/* It is our turn with this log, and not all of it is ours yet. */
static bool is_held(struct taker *t, const struct known_log *l, uint16_t own)
{
    const struct log_owner *o = &l->owner;
    bool is_ours =
        o->holder == own || (o->holder != l->number && mark_of(t, o->holder) == ADOPTION_DONE);
    return l->number != own && is_ours && !o->is_given && mark_of(t, l->number) != ADOPTION_DONE;
}

/* Our own mail waits until we return, but others may go on with what we have not adopted to the end. errors:
 * of a server */
static int give_back(struct taker *t, struct known_log *l, struct cluster_client *client)
{
    struct log_owner is = l->owner;
    uint64_t mark = mark_of(t, l->number);
    is.epoch++;
    is.is_given = true;
    is.from = mark > is.from ? mark : is.from;
    int err = log_owner_swap(t->node.module, client, l->number, &l->owner, &is);
    if (err == 0) {
        log_info("take-over: log %u is given back, adopted up to message %llx", l->number,
                 (unsigned long long)is.from);
    } else if (err != ERR_AGAIN) {
        log_warning("take-over: log %u cannot be given back: %s; it waits until this node returns",
                    l->number, err_str(err));
    }
    return err == ERR_AGAIN ? 0 : err; /* others have it by now */
}

/* One that others can read and we cannot; as soon as that may be. */
static void give_back_newer(struct taker *t, struct known_log *l)
{
    struct cluster_client *client = t->node.client(t->node.ctx);
    if (client != NULL && replica_is_sure(t->node.engine->replica)) {
        (void)give_back(t, l, client);
    }
}

/* The writer has ended, so no mark changes any more. */
static void give_all_back(struct taker *t)
{
    struct engine *e = t->node.engine;
    struct cluster_client *client = t->node.client(t->node.ctx);
    uint16_t own = atomic_load_explicit(&e->node_number, memory_order_relaxed);
    bool is_taken = atomic_load_explicit(&e->taken_by, memory_order_relaxed) != 0;
    if (client == NULL || own == 0 || is_taken || !replica_is_sure(e->replica)) {
        return;
    }
    read_owners(t);
    int err = 0;
    for (size_t i = 0; err == 0 && i < t->count; i++) {
        err = is_held(t, &t->logs[i], own) ? give_back(t, &t->logs[i], client) : 0;
    }
}

/* --- one log after the other ------------------------------------------------------------------ */

/* Whether a spool that has no log any more returns, with what it took of others, nobody can know but people. */
static void tell_of_held(const struct taker *t, uint16_t holder)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct known_log *l = &t->logs[i];
        struct log_owner is = l->owner;
        char text[LOG_OWNER_TEXT_SIZE];
        if (l->number != holder && is.holder == holder && !is.is_given) {
            is.epoch++;
            is.is_given = true;
            (void)log_owner_write(&is, text);
            log_error(
                "take-over: log %u waits for spool %u, which had begun to take it over; if the "
                "disk with spool %u will never be used again, have it taken without: nats kv "
                "put " LOG_OWNER_BUCKET " %u \"%s\"",
                l->number, holder, holder, l->number, text);
        }
    }
}

static void complain_of_log(const struct taker *t, struct known_log *l, int err)
{
    if (err == 0 || err == ERR_CLOSED || err == ERR_AGAIN || err == l->complained) {
        return;
    }
    l->complained = err;
    if (err == ERR_MISSING) {
        log_error("take-over: the servers have lost log %u: its mail is on its node's disk only",
                  l->number);
        tell_of_held(t, l->number);
    } else if (err == -EPROTONOSUPPORT) {
        log_error("take-over: log %u has frames of a newer version of sluice, and is left to nodes "
                  "that have it",
                  l->number);
    } else if (err == ERR_LIMIT) {
        log_warning("take-over: log %u is left to others, as our log or disk has no room for its "
                    "mail",
                    l->number);
    } else {
        log_error("take-over: log %u cannot be taken over for now: %s", l->number, err_str(err));
    }
}

/* true: it was taken over, which takes a while */
static bool try_to_take(struct taker *t, struct known_log *l, uint16_t own)
{
    struct taking k = {.taker = t, .log = l, .own = own};
    char name[LOG_OWNER_NAME_SIZE];
    log_owner_name(l->number, name);
    k.taken = (struct taken_log){.module = t->node.log_module,
                                 .number = l->number,
                                 .must_ask_again = must_ask_again,
                                 .ctx = &k};
    atomic_store_explicit(&t->under_way, l->number, memory_order_relaxed);
    int err = t->node.log_module->open(&t->node.options, name, &k.taken.log);
    err = err != 0 ? err : take_log(&k);
    complain_of_log(t, l, err);
    if (err == -EPROTONOSUPPORT) {
        l->is_newer = true;
    }
    l->paused = err == -EIO ? clock_mono() + PAUSE : 0; /* it is read from its start again */
    t->node.log_module->close(k.taken.log);
    atomic_store_explicit(&t->under_way, 0, memory_order_relaxed);
    return err == 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void work(struct taker *t) ON_ROLE(t->post)
{
    struct replica_view v;
    struct cluster_client *client = t->node.client(t->node.ctx);
    uint16_t own = t->node.number(t->node.ctx);
    replica_look(t->node.engine->replica, &v);
    if (client == NULL || own == 0 || !v.is_open ||
        own != atomic_load_explicit(&t->node.engine->node_number, memory_order_relaxed)) {
        return;
    }
    if (!t->has_bucket) {
        t->has_bucket =
            cluster_module_follow(t->node.module, client, LOG_OWNER_BUCKET, hear_owner, t) == 0;
    }
    read_owners(t);
    drop_late(t);
    bool holds_any = false;
    for (size_t i = 0; i < t->count && !post_must_end(&t->post); i++) {
        /* One that cannot be taken, as the servers have lost it, is not in the way of the next one. */
        if (may_take(t, &t->logs[i], own) && try_to_take(t, &t->logs[i], own)) {
            return; /* what is known may be other by now */
        }
        bool holds = is_held(t, &t->logs[i], own);
        holds_any = holds_any || holds;
        if (holds && t->logs[i].is_newer) {
            give_back_newer(t, &t->logs[i]);
        }
    }
    replica_hurry(t->node.engine->replica, holds_any);
}

static void run_taker(void *arg)
{
    struct taker *t = arg;
    post_assert_owner(&t->post);
    rcu_sleep(); /* it reads nothing under RCU, and waits for servers and the disk */
    while (!post_must_end(&t->post)) {
        post_take_wakes(&t->post);
        work(t);
        post_nap(&t->post, clock_mono() + cluster_clock_real(LOOK));
    }
    give_all_back(t);
    rcu_awake();
}

/* --- start and stop --------------------------------------------------------------------------- */

int taker_new(const struct taker_node *node, struct taker **ret)
{
    struct taker *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return -ENOMEM;
    }
    t->node = *node;
    inbox_init(&t->inbox, INBOX_ROOM);
    int len =
        snprintf(t->folder, sizeof(t->folder), "%s/adopting", node->engine->config->spool.path);
    int err = len >= (int)sizeof(t->folder) ? ERR_LIMIT : post_init(&t->post, 1);
    err = err != 0 ? err : spool_reader_new(node->engine->store, &t->reader);
    if (err != 0) {
        taker_free(t);
        return err;
    }
    *ret = t;
    return 0;
}

int taker_start(struct taker *t)
{
    empty_folder(t->folder); /* of a run that was killed */
    int err = post_open(&t->post, 1);
    return err != 0 ? err : post_start(&t->post, "take-over", run_taker, t);
}

void taker_stop(struct taker *t)
{
    post_stop(&t->post);
}

void taker_free(struct taker *t)
{
    if (t == NULL) {
        return;
    }
    spool_reader_free(t->reader);
    inbox_fini(&t->inbox);
    post_fini(&t->post);
    free(t);
}

/* --- for others ------------------------------------------------------------------------------- */

int taker_order(struct taker *t, uint16_t number)
{
    for (size_t i = 0; i < ORDERS_MAX; i++) {
        uint16_t was = 0;
        if (atomic_compare_exchange_strong(&t->orders[i], &was, number) || was == number) {
            mailbox_wake(&t->post.box);
            return 0;
        }
    }
    return ERR_LIMIT;
}

void taker_look(struct taker *t, struct taker_view *ret)
{
    if (t == NULL) {
        *ret = (struct taker_view){.log = 0};
        return;
    }
    /* Relaxed: figures. */
    *ret = (struct taker_view){
        .log = atomic_load_explicit(&t->under_way, memory_order_relaxed),
        .logs = atomic_load_explicit(&t->taken, memory_order_relaxed),
        .messages = atomic_load_explicit(&t->messages, memory_order_relaxed),
    };
}
