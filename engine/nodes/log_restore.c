/* Owns how a node's log is taken and read. Called by `sluice repair`; runs no thread of its own. */
#include "engine/nodes/log_restore.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/config/config.h"
#include "engine/nodes/cluster_loader.h"
#include "engine/nodes/log_owner.h"
#include "engine/nodes/node_numbers.h"
#include "engine/nodes/taken_log.h"
#include "engine/replica/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT (5 * USEC_PER_SEC)
/* How long a server may be without an answer: a leader of servers may just have died. */
#define PATIENCE (60 * USEC_PER_SEC)

struct restore {
    const struct config *config;
    const char *node;
    uint16_t number; /* of the node's spool */
    const struct cluster_module *module;
    const struct cluster_log_module *log_module;
    struct cluster_options options;
    struct cluster_client *client;
    struct cluster_log *log;
    struct taken_log taken;
    char folder[4096];
    struct log_restore *figures;
    char *text;
    usec_t answered; /* when a server did so last */
};

/* Whether to ask again, after a moment; else *err is the answer. */
static bool must_ask_again(void *ctx, int err)
{
    struct restore *r = ctx;
    const struct timespec tick = {.tv_nsec = 50000000};
    usec_t now = clock_mono();
    bool is_answer = err != -ETIMEDOUT && err != ERR_CLOSED && err != ERR_AGAIN && err != -EIO;
    r->answered = is_answer ? now : r->answered;
    if (is_answer || now - r->answered > PATIENCE) {
        return false;
    }
    (void)nanosleep(&tick, NULL); /* a signal only shortens it */
    return true;
}

static int connect_both(struct restore *r)
{
    const struct config_cluster *k = &r->config->cluster;
    const struct timespec tick = {.tv_nsec = 20000000};
    int err = cluster_loader_load(k->module, &r->module, &r->log_module, r->text);
    if (err != 0) {
        return err;
    }
    r->options = cluster_loader_options(k, "sluice repair", TIMEOUT);
    char server[CLUSTER_DESCRIPTION_SIZE] = "";
    err = r->module->reach(&r->options, server);
    err = err != 0 ? err : r->module->open(&r->options, &r->client);
    for (usec_t end = clock_mono() + TIMEOUT; err == 0;) {
        if (r->module->is_connected(r->client)) {
            return 0;
        }
        err = clock_mono() >= end ? ERR_CLOSED : 0;
        (void)nanosleep(&tick, NULL); /* a signal only shortens it */
    }
    if (r->client != NULL) {
        r->module->describe(r->client, server);
    }
    (void)snprintf(r->text, LOG_RESTORE_TEXT,
                   "no server of cluster { servers } lets this node in: %.200s", server);
    return err;
}

/* The number of the node's spool, by which its log goes. errors: ERR_MISSING; ERR_SYNTAX; of a server */
static int find_number(struct restore *r)
{
    struct cluster_value seen = {.data = NULL};
    struct node_numbers_step step = {.value = NULL};
    int err;
    do {
        err = r->module->bucket(r->client, NODE_NUMBERS_BUCKET);
        err = err != 0 ? err
                       : r->module->get(r->client, NODE_NUMBERS_BUCKET, NODE_NUMBERS_KEY, &seen);
    } while (must_ask_again(r, err));
    err = err != 0 ? err : node_numbers_take(slice_make(seen.data, seen.len), r->node, 0, &step);
    if (err == 0 && step.value != NULL) {
        err = ERR_MISSING; /* it would have to get one */
    }
    r->number = step.number;
    free(step.value);
    free(seen.data);
    return err;
}

/* Nothing that the node writes from now on counts; what it wrote before lies in front of the fence.
 *
 * ret_place  of the fence */
static int put_fence(struct restore *r, uint64_t *ret_place)
{
    struct log_owner owner = {.epoch = 0};
    struct cluster_log_state state;
    uint64_t last = 0;
    int err;
    do {
        err = taken_log_look(&r->taken, &state);
        err = err != 0 ? err : log_owner_last_epoch(r->log_module, r->log, &state, &last);
        err = err != 0 ? err : log_owner_begin(r->module, r->client, r->number, true, last, &owner);
    } while (must_ask_again(r, err));
    if (err != 0) {
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "the log of node %s cannot be taken: %s", r->node,
                       err == ERR_LOCKED ? "another node took its mail over" : err_str(err));
        return err;
    }
    err = taken_log_fence(&r->taken, r->number, owner.epoch, ret_place);
    if (err != 0) {
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "the log of node %s cannot be fenced: %s",
                       r->node, err_str(err));
    }
    return err;
}

static uint64_t count_messages(struct spool_store *store)
{
    struct spool_reader *reader = NULL;
    struct spool_counts counts = {0};
    if (spool_reader_new(store, &reader) == 0 && spool_reader_begin(reader) == 0) {
        int err = spool_read_counts(reader, &counts);
        counts.messages = err == 0 ? counts.messages : 0; /* a figure for people */
        spool_reader_end(reader);
    }
    spool_reader_free(reader);
    return counts.messages;
}

/* What an interrupted restore left, perhaps of another node: what is not in the log any more, or never
 * was, must not be in the spool. */
static int remove_leftover(struct restore *r)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "journal", "ballast", "spool.lock"};
    int folder = open(r->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = openat(folder, "spool.lock", O_RDWR | O_CLOEXEC); /* none: nobody is at work there */
    int err = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 ? ERR_LOCKED : 0;
    for (size_t i = 0; folder >= 0 && err == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlinkat(folder, names[i], 0); /* it need not be there; else the folder stays */
    }
    if (err == 0 && rmdir(r->folder) != 0 && errno != ENOENT) {
        err = -errno;
    }
    if (lock >= 0) {
        (void)close(lock); /* only for the lock */
    }
    if (folder >= 0) {
        (void)close(folder); /* read only */
    }
    if (err != 0) {
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "%.200s cannot be removed: %s", r->folder,
                       err_str(err));
    }
    return err;
}

/* The spool goes on with the log of the one that was lost. errors: of the store */
static int keep_number(const struct restore *r, struct spool_store *store)
{
    struct spool_txn *txn;
    int err = spool_begin(store, &txn);
    if (err != 0) {
        return err;
    }
    err = spool_set_node(txn, r->number);
    if (err != 0) {
        spool_abort(txn);
        return err;
    }
    return spool_commit(txn);
}

static int fill_spool(struct restore *r, uint64_t fence)
{
    char why[256] = "";
    struct spool_store *store = NULL;
    const struct spool_options options = {.path = r->folder, .map_size = r->config->spool.map_size};
    int err = remove_leftover(r);
    if (err != 0) {
        return err;
    }
    err = spool_store_open(&options, &store, why);
    if (err != 0) {
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "%.250s", why);
        return err;
    }
    struct replay replay = {.store = store};
    struct taken_log_figures figures = {0};
    err = taken_log_read(&r->taken, fence, &replay, &figures);
    int end = replay_end(&replay);
    err = err != 0 ? err : end;
    if (err != 0) {
        (void)snprintf(
            r->text, LOG_RESTORE_TEXT, "the log cannot be read into %.150s: %s", r->folder,
            err == -EPROTONOSUPPORT ? "it has frames of a newer version of sluice" : err_str(err));
    }
    r->figures->bytes = figures.bytes;
    r->figures->damaged = figures.unreadable;
    r->figures->frames = replay.frames;
    r->figures->void_frames = replay.void_frames;
    r->figures->damaged += replay.damaged;
    err = err != 0 ? err : keep_number(r, store);
    r->figures->messages = count_messages(store);
    spool_store_close(store);
    return err;
}

static int take_log(struct restore *r)
{
    struct cluster_log_state state;
    uint64_t fence;
    char name[LOG_OWNER_NAME_SIZE];
    int err = find_number(r);
    log_owner_name(r->number, name);
    err = err != 0 ? err : r->log_module->open(&r->options, name, &r->log);
    r->taken = (struct taken_log){r->log_module, r->log, r->number, must_ask_again, r};
    err = err != 0 ? err : taken_log_look(&r->taken, &state);
    if (err != 0 || state.last < state.first) {
        err = err == 0 ? ERR_MISSING : err;
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "node %s has no log on these servers: %s",
                       r->node, err_str(err));
        return err;
    }
    err = put_fence(r, &fence);
    do { /* a node that was fenced may purge once more */
        err = err != 0 && err != ERR_AGAIN ? err : fill_spool(r, fence);
    } while (err == ERR_AGAIN);
    return err;
}

/* The folder of the spool may be there, and be a disk of its own, and what is in it is not ours but for a
 * spool. */
static int prepare_place(struct restore *r)
{
    static const char *const names[] = {"data.mdb", "journal"};
    const char *path = r->config->spool.path;
    char file[sizeof(r->folder)];
    if (snprintf(r->folder, sizeof(r->folder), "%s/from-log", path) >= (int)sizeof(r->folder)) {
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "the spool's path is too long");
        return ERR_LIMIT;
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        int err = -errno;
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "%.200s: %s", path, err_str(err));
        return err;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", path, names[i]); /* no longer than r->folder */
        if (access(file, F_OK) == 0) {
            (void)snprintf(r->text, LOG_RESTORE_TEXT,
                           "there is a spool in %.200s already; move it away first", path);
            return ERR_LOCKED;
        }
    }
    return 0;
}

/* The spool is whole: its file moves to its place, and belongs to whom the folder does, who need not be
 * who runs this. */
static int move_to_place(struct restore *r)
{
    struct stat st;
    int folder = open(r->config->spool.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = folder < 0 || fstat(folder, &st) != 0 ? -errno : 0;
    if (err == 0 && geteuid() == 0 &&
        fchownat(folder, "from-log/data.mdb", st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) != 0) {
        err = -errno;
    }
    if (err == 0 &&
        (renameat(folder, "from-log/data.mdb", folder, "data.mdb") != 0 || fsync(folder) != 0)) {
        err = -errno;
    }
    if (folder >= 0) {
        (void)close(folder); /* synced */
    }
    if (err != 0) {
        (void)snprintf(r->text, LOG_RESTORE_TEXT, "%.200s cannot be moved to its place: %s",
                       r->folder, err_str(err));
        return err;
    }
    return remove_leftover(r);
}

int log_restore(const struct config *config, const char *node, struct log_restore *ret,
                char text[static LOG_RESTORE_TEXT])
{
    struct restore r = {
        .config = config, .node = node, .figures = ret, .text = text, .answered = clock_mono()};
    *ret = (struct log_restore){0};
    text[0] = '\0';
    int err = prepare_place(&r);
    err = err != 0 ? err : connect_both(&r);
    err = err != 0 ? err : take_log(&r);
    err = err != 0 ? err : move_to_place(&r);
    if (r.log_module != NULL) {
        r.log_module->close(r.log);
        r.module->close(r.client);
    }
    return err;
}
