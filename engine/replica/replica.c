/* Owns the batch of frames under way and the retelling. Called by the spool writer and by the keeper
 * of the log, each for its part; must not wait for anything but an acknowledgement. */
#include "engine/replica/replica.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/cluster/log_frame.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_retold.h"
#include "engine/spool/spool_store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    RETOLD_WITH_MAIL = 64 << 10, /* bytes of a retelling that a batch takes along */
    RETOLD_ALONE = 256 << 10,
};
/* A retelling begins when as much as the last one wrote, and so much, has come beside it since it began; or
 * an eighth of that when the log is crowded. What it wrote itself does not count: a log that is crowded
 * with mail that waits becomes no shorter by telling it again. */
static const uint64_t growth = 64 << 20, growth_crowded = 1 << 20;
/* Hundredths of max_bytes. */
enum { NOTED = 1, CROWDED = 35, SPOOL_MOST = 40, ALL_MOST = 90, RETELLING_MOST = 97 };
static const usec_t size_interval = 100 * USEC_PER_MSEC;
/* After a piece could not be read: a page that is being examined, or what stays. */
static const usec_t pause_short = 10 * USEC_PER_MSEC, pause_long = USEC_PER_SEC;

struct replica {
    /* set at creation */
    struct spool_store *store;
    struct spool_reader *reader; /* the writer's */
    uint64_t max_bytes;
    struct spool_retold found; /* in the spool; made 0: nothing */
    void (*wake_writer)(void *ctx);
    void *writer_ctx;
    void (*wake_keeper)(void *ctx);
    void *keeper_ctx;

    /* writer; frames: see the head of replica.h */
    struct buf *frames; /* heap, [frame_count]; [filled] are of the batch */
    size_t frame_count, filled;
    uint64_t batch_bytes; /* of items */
    int error;            /* of the batch: it cannot be shipped */
    struct spool_retelling at, next;
    bool is_retelling, is_last_piece, wants_retelling;
    bool is_doubted;      /* since the retelling began */
    usec_t paused;        /* monotonic; nothing is retold before */
    uint64_t start;       /* place at which the retelling began */
    uint64_t told;        /* bytes of it */
    uint64_t piece;       /* ... in the batch */
    uint64_t noted;       /* ... when it was noted last */
    bool has_note;        /* the tables do */
    bool will_have_note;  /* ... with the next commit of the tables */
    uint64_t live;        /* bytes of the last one that was completed */
    uint64_t since;       /* bytes shipped since the last one began, its own included */
    uint64_t spool_bytes; /* of what is told, in the tables, as of size_seen (monotonic) */
    usec_t size_seen;
    /* as they were when the writer last asked whether it may begin */
    uint64_t seen_epoch, seen_serial;
    uint16_t seen_node;
    bool has_complained; /* of a retelling that cannot go on */

    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool is_open;
    bool is_refused; /* the servers have no room, and have stored nothing since they said so */
    uint64_t size;   /* of the log, by the servers' word and by what was shipped since */
    struct replica_epoch epoch;
    uint64_t serial, place; /* of the last acknowledged frame */
    size_t under_way;       /* frames of the batch that are not acknowledged */
    uint64_t purge;
    bool is_sure; /* replica_is_sure */
    uint64_t
        sure_from; /* place; it is when what lies in front of it is purged; 0: not by a purge */
    bool is_hurried;
    struct replica_view figures;
};

int replica_new(struct spool_store *store, uint64_t max_bytes, void (*wake_writer)(void *ctx),
                void *ctx, struct replica **ret)
{
    struct replica *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return -ENOMEM;
    }
    pthread_condattr_t attr;
    /* None of these can fail with these arguments on Linux. */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&r->moved, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&r->lock, NULL);
    r->store = store;
    r->max_bytes = max_bytes;
    r->wake_writer = wake_writer;
    r->writer_ctx = ctx;
    int err = spool_reader_new(store, &r->reader);
    err = err != 0 ? err : spool_reader_begin(r->reader);
    if (err != 0) {
        replica_free(r);
        return err;
    }
    r->has_note = spool_read_retold(r->reader, &r->found) != ERR_MISSING;
    spool_reader_end(r->reader);
    *ret = r;
    return 0;
}

void replica_free(struct replica *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->frame_count; i++) {
        buf_fini(&r->frames[i]);
    }
    free(r->frames);
    spool_reader_free(r->reader);
    (void)pthread_cond_destroy(&r->moved);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

void replica_set_keeper(struct replica *r, void (*wake)(void *ctx), void *ctx)
{
    r->wake_keeper = wake;
    r->keeper_ctx = ctx;
}

/* --- a batch ---------------------------------------------------------------------------------- */

/* What a change is in the log. */
static enum log_item_kind kind_of(enum spool_change_kind kind)
{
    static const enum log_item_kind kinds[SPOOL_CHANGE_KIND_COUNT] = {
        [SPOOL_CHANGE_MESSAGE] = LOG_ITEM_RECEPTION,
        [SPOOL_CHANGE_BODY] = LOG_ITEM_BODY,
        [SPOOL_CHANGE_RECIPIENTS] = LOG_ITEM_RECIPIENTS,
        [SPOOL_CHANGE_RESULT] = LOG_ITEM_RESULT,
        [SPOOL_CHANGE_REASON] = LOG_ITEM_REASON,
        [SPOOL_CHANGE_NOTIFIED] = LOG_ITEM_NOTIFIED,
        [SPOOL_CHANGE_RETRY] = LOG_ITEM_RETRY,
        [SPOOL_CHANGE_SIGNING] = LOG_ITEM_SIGNING,
        [SPOOL_CHANGE_REMOVED] = LOG_ITEM_DONE,
        [SPOOL_CHANGE_BOUND] = LOG_ITEM_BOUND,
        [SPOOL_CHANGE_ADOPTED] = LOG_ITEM_ADOPTED,
    };
    return kinds[kind];
}

/* The next empty frame of the batch; NULL when out of memory. */
static struct buf *begin_frame(struct replica *r)
{
    if (r->filled == r->frame_count) {
        struct buf *more = realloc(r->frames, (r->frame_count + 1) * sizeof(*more));
        if (more == NULL) {
            return NULL;
        }
        r->frames = more;
        buf_init(&r->frames[r->frame_count++], LOG_FRAME_BYTES_MAX);
    }
    /* If this epoch ends while the batch is made, it is not handed over. */
    const struct log_frame_id id = {r->seen_epoch, r->seen_serial + r->filled + 1};
    struct buf *frame = &r->frames[r->filled++];
    buf_clear(frame);
    log_frame_begin(frame, r->seen_node, &id);
    return frame;
}

static void add_change(void *ctx, const struct spool_change *change)
{
    struct replica *r = ctx;
    struct buf *frame = r->filled == 0 ? NULL : &r->frames[r->filled - 1];
    if (r->error != 0) {
        return;
    }
    if (frame == NULL || !log_frame_has_room(frame, change->bytes.len)) {
        if (frame != NULL) {
            log_frame_end(frame);
        }
        frame = begin_frame(r);
    }
    if (frame == NULL || !log_frame_has_room(frame, change->bytes.len)) {
        r->error = frame == NULL ? -ENOMEM : ERR_LIMIT;
        return;
    }
    log_frame_add(frame, &(const struct log_item){.kind = kind_of(change->kind),
                                                  .id = change->id,
                                                  .number = change->number,
                                                  .bytes = change->bytes});
    r->batch_bytes += change->bytes.len + LOG_ITEM_HEAD;
}

/* One more piece of the retelling, in front of the batch's changes. */
static void retell(struct replica *r, size_t budget)
{
    size_t bytes = 0;
    r->next = r->at;
    if (clock_mono() < r->paused) {
        return;
    }
    int err = spool_reader_begin(r->reader);
    if (err == 0) {
        err = spool_retell(r->reader, &r->next, budget, add_change, r, &bytes);
        spool_reader_end(r->reader);
    }
    r->is_last_piece = err == ERR_MISSING;
    bool has_failed = err != 0 && err != ERR_MISSING;
    bool is_persistent = has_failed && err != ERR_AGAIN; /* else the store is being opened again */
    if (is_persistent && !r->has_complained) {
        log_error("log: mail cannot be told anew: %s; the log grows meanwhile", err_str(err));
    }
    r->has_complained = is_persistent || (r->has_complained && err == ERR_AGAIN);
    if (has_failed) {
        r->paused = clock_mono() + (is_persistent ? pause_long : pause_short);
    }
}

/* Under lock. What the log had before need not be what the tables have. */
static void be_unsure(struct replica *r)
{
    r->is_sure = false;
    r->sure_from = 0;
    r->wants_retelling = true;
}

/* Under lock. */
static void begin_epoch(struct replica *r)
{
    r->seen_epoch = r->epoch.epoch;
    r->seen_node = r->epoch.node;
    be_unsure(r);
    r->is_sure = r->epoch.is_new;
    r->is_retelling = r->epoch.goes_on; /* else the log may be another one */
    if (r->epoch.goes_on) {
        r->is_doubted = true; /* the spool need not have the last batch */
        r->at = (struct spool_retelling){.after = r->found.after};
        r->start = r->found.start;
        r->told = r->noted = r->found.told;
        r->figures.is_retelling = true;
    }
}

bool replica_is_ready(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_ready = r->is_open && r->under_way == 0;
    if (is_ready && r->seen_epoch != r->epoch.epoch) {
        begin_epoch(r);
    }
    r->seen_serial = is_ready ? r->serial : r->seen_serial;
    (void)pthread_mutex_unlock(&r->lock);
    return is_ready;
}

static uint64_t size_of(struct replica *r, bool *ret_is_refused)
{
    (void)pthread_mutex_lock(&r->lock);
    uint64_t size = r->size;
    *ret_is_refused = r->is_refused;
    (void)pthread_mutex_unlock(&r->lock);
    return size;
}

static void look_at_spool(struct replica *r)
{
    usec_t now = clock_mono();
    if (now - r->size_seen < size_interval || spool_reader_begin(r->reader) != 0) {
        return;
    }
    r->size_seen = now;
    uint64_t bytes;
    if (spool_retelling_bytes(r->reader, &bytes) == 0) {
        r->spool_bytes = bytes;
    }
    spool_reader_end(r->reader);
}

bool replica_is_full(struct replica *r)
{
    bool is_refused;
    uint64_t size = size_of(r, &is_refused), part = r->max_bytes / 100;
    look_at_spool(r);
    uint64_t told = r->is_retelling ? r->told : 0;
    uint64_t rest = r->spool_bytes > told ? r->spool_bytes - told : 0;
    return is_refused || r->spool_bytes > part * SPOOL_MOST || size + rest > part * ALL_MOST;
}

static bool may_begin_retelling(struct replica *r)
{
    bool is_refused;
    return r->wants_retelling && !r->is_retelling &&
           size_of(r, &is_refused) + r->spool_bytes <= r->max_bytes / 100 * RETELLING_MOST;
}

bool replica_wants_tables(struct replica *r)
{
    bool is_behind =
        r->is_retelling ? r->told - r->noted > r->max_bytes / 100 * NOTED : r->has_note;
    return is_behind || may_begin_retelling(r);
}

usec_t replica_retelling_due(const struct replica *r)
{
    return r->is_retelling ? r->paused : USEC_NEVER;
}

void replica_begin(struct replica *r, bool is_idle)
{
    r->filled = 0;
    r->batch_bytes = r->piece = 0;
    r->error = 0;
    r->is_last_piece = false;
    r->next = r->at;
    spool_store_listen(r->store, add_change, r);
    if (r->is_retelling) {
        retell(r, is_idle ? RETOLD_ALONE : RETOLD_WITH_MAIL);
        r->piece = r->batch_bytes;
    }
}

/* Under lock. The epoch that the batch was begun in has not ended. */
static bool is_current(const struct replica *r)
{
    return r->is_open && r->epoch.epoch == r->seen_epoch;
}

int replica_note(struct replica *r, struct spool_txn *t)
{
    struct spool_retold now = {
        .start = r->start, .after = spool_retelling_done(&r->at), .told = r->told};
    (void)pthread_mutex_lock(&r->lock);
    r->will_have_note = r->is_retelling && is_current(r); /* else it was told to another stream */
    now.made = r->epoch.made;
    now.epoch = r->epoch.epoch;
    now.serial = r->serial;
    now.place = r->place;
    (void)pthread_mutex_unlock(&r->lock);
    if (!r->will_have_note) {
        return r->has_note ? spool_forget_retold(t) : 0;
    }
    r->noted = r->told;
    return spool_put_retold(t, &now);
}

static struct timespec time_after(usec_t span)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    usec_t usec = t.tv_nsec / 1000 + span;
    t.tv_sec += usec / USEC_PER_SEC;
    t.tv_nsec = usec % USEC_PER_SEC * 1000;
    return t;
}

/* Hands the frames over and waits. */
static bool is_acknowledged(struct replica *r)
{
    usec_t begun = clock_mono();
    struct timespec end = time_after(REPLICA_PATIENCE);
    int timed_out = 0;
    (void)pthread_mutex_lock(&r->lock);
    bool is_open = is_current(r);
    r->under_way = is_open ? r->filled : 0;
    (void)pthread_mutex_unlock(&r->lock);
    if (is_open) {
        r->wake_keeper(r->keeper_ctx);
    }
    (void)pthread_mutex_lock(&r->lock);
    while (r->under_way > 0 && timed_out == 0) {
        size_t before = r->under_way;
        timed_out = pthread_cond_timedwait(&r->moved, &r->lock, &end);
        if (r->under_way < before) { /* many frames may take their time, as long as they go on */
            end = time_after(REPLICA_PATIENCE);
            timed_out = 0;
        }
    }
    bool is_done = is_open && r->under_way == 0 && is_current(r);
    r->figures.waited += clock_mono() - begun;
    r->figures.batches += is_done ? 1 : 0;
    r->figures.frames += is_done ? r->filled : 0;
    r->figures.bytes += is_done ? r->batch_bytes : 0;
    r->figures.failed_batches += is_done ? 0 : 1;
    r->size += is_done ? r->batch_bytes + r->filled * LOG_FRAME_OVERHEAD : 0;
    (void)pthread_mutex_unlock(&r->lock);
    r->seen_serial += is_done ? r->filled : 0; /* another batch may follow in the same pass */
    return is_done;
}

/* A batch of which the log hears nothing; it may be the last of a retelling. */
static bool is_in_epoch(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is = is_current(r);
    (void)pthread_mutex_unlock(&r->lock);
    return is;
}

/* All mail has been told of since the retelling began. */
static void end_retelling(struct replica *r)
{
    r->is_retelling = false;
    r->live = r->told;
    (void)pthread_mutex_lock(&r->lock);
    r->purge = r->start;
    r->sure_from = r->is_doubted ? 0 : r->start;
    r->figures.retellings++;
    r->figures.is_retelling = false;
    (void)pthread_mutex_unlock(&r->lock);
    r->wake_keeper(r->keeper_ctx);
}

int replica_ship(struct replica *r)
{
    spool_store_listen(r->store, NULL, NULL);
    if (r->filled > 0 && r->error == 0) {
        struct buf *last = &r->frames[r->filled - 1];
        log_frame_end(last);
        for (size_t i = 0; i < r->filled; i++) {
            r->error = r->frames[i].failed ? -ENOMEM : r->error;
        }
    }
    if (r->error != 0) {
        return r->error;
    }
    if (r->filled > 0 ? !is_acknowledged(r) : !is_in_epoch(r)) {
        replica_doubt(r);
        return ERR_CLOSED;
    }
    r->since += r->batch_bytes;
    if (r->is_retelling) {
        r->at = r->next;
        r->told += r->piece;
    }
    if (r->is_retelling && r->is_last_piece) {
        end_retelling(r);
    }
    bool is_refused;
    bool is_crowded = size_of(r, &is_refused) > r->max_bytes / 100 * CROWDED;
    uint64_t came = r->since > r->live ? r->since - r->live : 0;
    r->wants_retelling =
        r->wants_retelling || came > growth + r->live ||
        (is_crowded && !r->is_retelling && came > growth_crowded + r->live / 8);
    return 0;
}

void replica_committed(struct replica *r, bool is_journal_empty)
{
    r->has_note = is_journal_empty ? r->will_have_note : r->has_note;
    if (!is_journal_empty || !may_begin_retelling(r)) { /* nor while it would not fit */
        return;
    }
    r->wants_retelling = false;
    r->is_retelling = true;
    r->is_doubted = false;
    r->at = (struct spool_retelling){.id = 0};
    r->told = r->noted = r->since = 0;
    (void)pthread_mutex_lock(&r->lock);
    r->start = r->place + 1;
    r->figures.is_retelling = true;
    (void)pthread_mutex_unlock(&r->lock);
}

void replica_doubt(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    be_unsure(r);
    /* Without room to begin anew the one under way goes on, and makes room for the next one. */
    bool has_room = r->size + r->spool_bytes <= r->max_bytes / 100 * RETELLING_MOST;
    (void)pthread_mutex_unlock(&r->lock);
    r->is_retelling = r->is_retelling && !has_room;
    /* The log may say that the message under way is gone: of that its copy keeps no pieces. */
    r->at = (struct spool_retelling){.after = spool_retelling_done(&r->at)};
    r->is_doubted = true;
}

/* --- the keeper ------------------------------------------------------------------------------- */

const struct spool_retold *replica_retold(const struct replica *r)
{
    return r->found.made != 0 ? &r->found : NULL;
}

void replica_open(struct replica *r, const struct replica_epoch *e)
{
    (void)pthread_mutex_lock(&r->lock);
    assert(!r->is_open && (!e->goes_on || r->found.made != 0));
    r->is_open = true;
    r->epoch = *e;
    r->serial = 0;
    r->place = e->place;
    r->purge = 0;
    (void)pthread_mutex_unlock(&r->lock);
    r->wake_writer(r->writer_ctx);
}

void replica_close(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->is_open = false;
    r->under_way = 0;
    (void)pthread_cond_signal(&r->moved);
    (void)pthread_mutex_unlock(&r->lock);
    r->wake_writer(r->writer_ctx);
}

struct slice replica_frame(struct replica *r, uint64_t serial)
{
    struct slice frame = SLICE("");
    (void)pthread_mutex_lock(&r->lock);
    if (r->under_way > 0 && serial > r->serial && serial <= r->serial + r->under_way) {
        size_t first = r->filled - r->under_way;
        frame = buf_slice(&r->frames[first + (serial - r->serial - 1)]);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return frame;
}

void replica_acknowledged(struct replica *r, uint64_t serial, uint64_t place)
{
    (void)pthread_mutex_lock(&r->lock);
    assert(serial >= r->serial && serial - r->serial <= r->under_way);
    r->under_way -= serial - r->serial;
    r->is_refused = false;
    r->serial = serial;
    r->place = place;
    bool is_done = r->under_way == 0;
    (void)pthread_cond_signal(&r->moved);
    (void)pthread_mutex_unlock(&r->lock);
    if (is_done) {
        r->wake_writer(r->writer_ctx); /* it may have given up waiting */
    }
}

uint64_t replica_take_purge(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    uint64_t purge = r->purge;
    r->purge = 0;
    (void)pthread_mutex_unlock(&r->lock);
    return purge;
}

void replica_purged(struct replica *r, uint64_t place)
{
    (void)pthread_mutex_lock(&r->lock);
    r->is_sure = r->is_sure || (r->sure_from != 0 && place >= r->sure_from);
    (void)pthread_mutex_unlock(&r->lock);
}

bool replica_is_sure(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_sure = r->is_sure;
    (void)pthread_mutex_unlock(&r->lock);
    return is_sure;
}

void replica_hurry(struct replica *r, bool is_hurried)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_news = is_hurried && !r->is_hurried;
    r->is_hurried = is_hurried;
    (void)pthread_mutex_unlock(&r->lock);
    if (is_news) {
        r->wake_keeper(r->keeper_ctx);
    }
}

bool replica_is_hurried(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_hurried = r->is_hurried && !r->is_sure;
    (void)pthread_mutex_unlock(&r->lock);
    return is_hurried;
}

void replica_set_size(struct replica *r, uint64_t bytes)
{
    (void)pthread_mutex_lock(&r->lock);
    r->size = bytes;
    (void)pthread_mutex_unlock(&r->lock);
}

void replica_refused(struct replica *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->is_refused = true;
    (void)pthread_mutex_unlock(&r->lock);
}

void replica_look(struct replica *r, struct replica_view *ret)
{
    (void)pthread_mutex_lock(&r->lock);
    *ret = r->figures;
    ret->is_open = r->is_open;
    ret->epoch = r->epoch.epoch;
    ret->place = r->place;
    ret->size = r->size;
    (void)pthread_mutex_unlock(&r->lock);
}
