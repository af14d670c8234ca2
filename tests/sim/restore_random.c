/* The spool of a node and its log over many lives: mail comes, whole or a piece at a time, and goes; batches fail
 * before, within or behind their frames; the process dies, the disk is lost and made again from the log, which is
 * purged late, or an old copy of the spool takes its place. The spool, the frames, the retelling and the replay are
 * the real ones.
 *
 *   restore_random [SEED [RUNS]]
 *
 * What must hold whenever a spool is opened: each message has the sender, the recipient and all of the content of
 * one and the same mail, and the id that this mail got; what was committed and not removed is there, since the last
 * old copy; and no id is given twice. The same runs must find faults that are put in: ids that go on behind what is
 * left in a restored spool, and ids without the clock. */
#include "base/packed.h"
#include "engine/cluster/log_frame.h"
#include "engine/replica/replay.h"
#include "engine/replica/replica.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_retold.h"
#include "engine/spool/spool_store.h"
#include "tests/chance.h"
#include "tests/sim/require.h"

#include <string.h>
#include <unistd.h>

enum { NODE = 7, PLACES = 4096, MAILS = 1024, OPEN = 12, LIVES = 10, BLOCK = 64, OPERATIONS = 4 };

enum fault { NO_FAULT, IDS_BEHIND_WHAT_IS_LEFT, IDS_WITHOUT_CLOCK };

enum mail_state { MAIL_NONE, MAIL_STAGED, MAIL_STORED };

struct mail {
    uint64_t id;
    enum mail_state state;
    uint32_t chunks, put;     /* of its content; 0: it lies in the record */
    struct spool_position at; /* MAIL_STORED */
    uint64_t unsure;  /* place: as long as the log has it, it says something else of this mail */
    bool is_there;    /* as a look at the spool found */
    bool is_given_up; /* its client went within it: it is discarded, sooner or later */
};

static struct {
    uint64_t chance;
    enum fault fault;
    bool is_sound, has_copy;
    usec_t now;
    char folder[128];
    struct spool_store *store;
    struct spool_reader *reader;
    struct replica *replica;
    uint64_t next_id, reserved, greatest_id;
    unsigned mails;
    struct mail mail[MAILS];
    /* of the batch */
    unsigned touched;
    struct mail before[OPERATIONS];
    unsigned who[OPERATIONS];
    uint64_t frames_left; /* that the servers store */
    /* the log: frame of place p */
    struct buf frames[PLACES];
    uint64_t first, last, purge, epoch, serial;
} w;

static struct {
    uint64_t lives, losses, copies, mails, doubts, frames;
} totals;

static unsigned draw(unsigned below)
{
    return (unsigned)(chance_next(&w.chance) % below);
}

static void must_hold(bool holds, const char *what)
{
    if (!holds && w.is_sound && w.fault == NO_FAULT) {
        (void)fprintf(stderr, "restore_random: %s\n", what);
    }
    w.is_sound = w.is_sound && holds;
}

/* --- what is sent ----------------------------------------------------------------------------- */

/* The content of a mail, or a chunk of it: it names both in each of its places. */
static struct slice content_of(unsigned number, uint32_t chunk, bool is_chunk)
{
    static char text[32768];
    size_t bytes = 16 + (number * 7919UL + chunk * 104729UL) % (is_chunk ? 30000 : 2000);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (char)(i % 2 == 0 ? 'a' + (number + i) % 26 : 'A' + (number / 26 + chunk) % 26);
    }
    return slice_make(text, bytes);
}

static struct slice sender_of(unsigned number)
{
    static char text[32];
    return slice_make(text, (size_t)snprintf(text, sizeof(text), "s%u@a.test", number));
}

/* A packed list of one. */
static struct slice recipient_of(unsigned number)
{
    static char packed[40];
    char text[32];
    struct slice address = {text, (size_t)snprintf(text, sizeof(text), "r%u@b.test", number)};
    packed_write(packed, address);
    return slice_make(packed, packed_bytes(address));
}

/* --- the log ---------------------------------------------------------------------------------- */

static void put_in_log(struct slice frame)
{
    w.last++;
    REQUIRE(w.last < PLACES);
    buf_init(&w.frames[w.last], LOG_FRAME_BYTES_MAX);
    buf_append_slice(&w.frames[w.last], frame);
    REQUIRE(!w.frames[w.last].failed);
    totals.frames++;
}

static void put_fence(void)
{
    struct buf fence;
    const struct log_frame_id id = {.epoch = ++w.epoch};
    buf_init(&fence, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&fence, NODE, &id);
    log_frame_add(&fence, &(const struct log_item){.kind = LOG_ITEM_FENCE, .number = NODE});
    log_frame_end(&fence);
    put_in_log(buf_slice(&fence));
    buf_fini(&fence);
    w.serial = 0;
}

/* The servers have as many frames of the batch as they are let. */
static void keep_log(void *ctx)
{
    struct slice frame;
    (void)ctx;
    while ((frame = replica_frame(w.replica, w.serial + 1)).len > 0) {
        if (w.frames_left == 0) {
            replica_close(w.replica);
            return;
        }
        w.frames_left--;
        put_in_log(frame);
        replica_acknowledged(w.replica, ++w.serial, w.last);
    }
    uint64_t purge = replica_take_purge(w.replica);
    w.purge = purge > w.purge ? purge : w.purge;
}

static void purge_log(void)
{
    for (; w.first < w.purge; w.first++) {
        buf_fini(&w.frames[w.first]);
    }
    replica_purged(w.replica, w.purge);
}

static void wake_nobody(void *ctx)
{
    (void)ctx;
}

static void begin_log(void)
{
    const struct spool_retold *retold = replica_retold(w.replica);
    bool goes_on = retold != NULL && retold->start >= w.first && retold->place <= w.last;
    w.purge = 0; /* of the epoch before */
    put_fence();
    const struct replica_epoch e = {.node = NODE,
                                    .epoch = w.epoch,
                                    .place = w.last,
                                    .made = 1,
                                    .is_new = w.epoch == 1,
                                    .goes_on = goes_on};
    replica_open(w.replica, &e);
}

/* --- a life ----------------------------------------------------------------------------------- */

static struct spool_store *open_store(void)
{
    char text[256] = "";
    struct spool_store *store = NULL;
    const struct spool_options options = {.path = w.folder, .map_size = 64U << 20};
    if (spool_store_open(&options, &store, text) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        abort();
    }
    return store;
}

static void remove_folder(void)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "spool.lock"};
    char path[160];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", w.folder, names[i]);
        (void)unlink(path); /* rmdir tells */
    }
    REQUIRE(rmdir(w.folder) == 0);
}

static void restore(void)
{
    struct spool_txn *t;
    remove_folder();
    struct replay replay = {.store = open_store()};
    for (uint64_t place = w.first; place <= w.last; place++) {
        REQUIRE(replay_frame(&replay, buf_slice(&w.frames[place])) == 0);
    }
    REQUIRE(replay_end(&replay) == 0 && replay.damaged == 0);
    REQUIRE(spool_begin(replay.store, &t) == 0 && spool_set_node(t, NODE) == 0 &&
            spool_commit(t) == 0);
    spool_store_close(replay.store);
    totals.losses++;
}

/* from, to: behind the name of the folder */
static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    char path[160];
    (void)snprintf(path, sizeof(path), "%s%s", w.folder, from);
    FILE *in = fopen(path, "r");
    (void)snprintf(path, sizeof(path), "%s%s", w.folder, to);
    FILE *out = fopen(path, "w");
    REQUIRE(in != NULL && out != NULL);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), in)) > 0;) {
        REQUIRE(fwrite(bytes, 1, n, out) == n);
    }
    REQUIRE(fclose(in) == 0 && fclose(out) == 0);
}

/* The spool is what it was when it was copied. What came and went since is as the log may still have it. */
static void go_back_to_copy(void)
{
    copy_file(".copy", "/data.mdb");
    for (unsigned i = 0; i < w.mails; i++) {
        w.mail[i].unsure = w.last;
    }
    totals.copies++;
}

/* The message has what one mail has; that it is there is noted. */
static void look_at_message(uint64_t id)
{
    struct spool_envelope e;
    struct slice body, packed;
    unsigned number = 0;
    char sender[32] = "";
    REQUIRE(spool_read_message(w.reader, id, &e, &body) == 0);
    memcpy(sender, e.sender.data, e.sender.len < 31 ? e.sender.len : 31);
    REQUIRE(sscanf(sender, "s%u@", &number) == 1 && number < w.mails);
    struct mail *m = &w.mail[number];
    must_hold(m->id == id && m->chunks == e.chunk_count, "a message has another one's id");
    m->is_there = true;
    for (uint32_t i = 0; i < (e.chunk_count == 0 ? 1 : e.chunk_count); i++) {
        int err = spool_read_chunk(w.reader, id, i, &body);
        must_hold(err == 0 && slice_eq(body, content_of(number, i, e.chunk_count > 0)),
                  "a message has another one's content");
    }
    must_hold(spool_read_recipients(w.reader, id, 0, &packed) == 0 &&
                  slice_eq(packed, recipient_of(number)),
              "a message has another one's recipient");
}

static void look_at_places(void)
{
    struct spool_position at = {0};
    int err = spool_scan(w.reader, SPOOL_INCOMING, NULL, &at);
    for (; err == 0; err = spool_scan(w.reader, SPOOL_INCOMING, &at, &at)) {
        for (unsigned i = 0; i < w.mails; i++) {
            if (w.mail[i].is_there && w.mail[i].id == at.id) {
                w.mail[i].at = at;
            }
        }
    }
    REQUIRE(err == ERR_MISSING);
}

/* returns the greatest id, without the node's number */
static uint64_t look_at_all(void)
{
    uint64_t id = 0, greatest = 0;
    for (unsigned i = 0; i < w.mails; i++) {
        w.mail[i].is_there = false;
    }
    REQUIRE(spool_reader_begin(w.reader) == 0);
    while (spool_next_message(w.reader, id, &id) == 0) {
        look_at_message(id);
        greatest = id;
    }
    look_at_places();
    spool_reader_end(w.reader);
    for (unsigned i = 0; i < w.mails; i++) {
        struct mail *m = &w.mail[i];
        bool is_unsure = m->unsure >= w.first;
        must_hold(is_unsure || m->is_there == (m->state == MAIL_STORED),
                  m->is_there ? "what had gone is there" : "what was committed is not there");
        m->state = m->is_there ? MAIL_STORED : MAIL_NONE;
    }
    return greatest & ((1ULL << SPOOL_NODE_SHIFT) - 1);
}

static void begin_life(void)
{
    struct spool_txn *t;
    w.store = open_store();
    REQUIRE(spool_reader_new(w.store, &w.reader) == 0);
    const uint64_t node = (uint64_t)NODE << SPOOL_NODE_SHIFT;
    uint64_t greatest = look_at_all(), by_clock = node | spool_id_at(w.now);
    w.next_id = spool_store_first_id(w.store);
    if (w.fault == IDS_BEHIND_WHAT_IS_LEFT) {
        w.next_id = node | (greatest + 1);
    } else if (w.fault != IDS_WITHOUT_CLOCK && w.next_id < by_clock) {
        w.next_id = by_clock;
    }
    must_hold(w.next_id > w.greatest_id, "an id is given twice");
    w.reserved = w.next_id + BLOCK;
    REQUIRE(spool_begin(w.store, &t) == 0 && spool_reserve_ids(t, w.reserved) == 0 &&
            spool_commit(t) == 0);
    REQUIRE(replica_new(w.store, 256U << 20, wake_nobody, NULL, &w.replica) == 0);
    replica_set_keeper(w.replica, keep_log, NULL);
    begin_log();
    totals.lives++;
}

static void end_life(void)
{
    replica_free(w.replica);
    spool_reader_free(w.reader);
    spool_store_close(w.store);
    w.replica = NULL;
    w.reader = NULL;
    w.store = NULL;
}

/* --- a batch ---------------------------------------------------------------------------------- */

static bool is_touched(unsigned number)
{
    bool is = false;
    for (unsigned i = 0; i < w.touched; i++) {
        is = is || w.who[i] == number;
    }
    return is;
}

static struct mail *touch(unsigned number)
{
    w.before[w.touched] = w.mail[number];
    w.who[w.touched++] = number;
    return &w.mail[number];
}

static void store_mail(struct spool_txn *t, unsigned number)
{
    struct mail *m = &w.mail[number];
    struct slice body = m->chunks == 0 ? content_of(number, 0, false) : SLICE("");
    const struct spool_envelope e = {.id = m->id,
                                     .size_bytes = body.len,
                                     .recipient_count = 1,
                                     .chunk_count = m->chunks,
                                     .sender = sender_of(number)};
    REQUIRE(spool_put_message(t, &e, recipient_of(number), body, &m->at) == 0);
    m->state = MAIL_STORED;
}

static void stage_mail(struct spool_txn *t, unsigned number)
{
    struct mail *m = &w.mail[number];
    REQUIRE(m->state == MAIL_STAGED || spool_stage(t, m->id) == 0);
    m->state = MAIL_STAGED;
    REQUIRE(spool_put_chunk(t, m->id, m->put, content_of(number, m->put, true)) == 0);
    m->put++;
}

static void receive(struct spool_txn *t)
{
    if (w.mails == MAILS) {
        return;
    }
    unsigned number = w.mails++;
    uint32_t chunks = draw(3) > 0 ? 0 : 1 + draw(4);
    w.mail[number] = (struct mail){.id = w.next_id++, .chunks = chunks};
    (void)touch(number);
    totals.mails++;
    if (chunks == 0) {
        store_mail(t, number);
    } else {
        stage_mail(t, number);
    }
}

/* Goes on with one that is in the spool, in part or whole. */
static void go_on(struct spool_txn *t)
{
    unsigned from = draw(w.mails == 0 ? 1 : w.mails), number = from;
    for (unsigned i = 0; i < w.mails && w.mail[number].state == MAIL_NONE; i++) {
        number = (from + i) % w.mails;
    }
    /* Nobody goes on before the batch is answered. */
    if (w.mails == 0 || w.mail[number].state == MAIL_NONE || is_touched(number)) {
        return;
    }
    struct mail *m = touch(number);
    bool is_done;
    if (m->state == MAIL_STORED) {
        REQUIRE(spool_remove(t, &m->at) == 0);
        m->state = MAIL_NONE;
    } else if (m->is_given_up || draw(6) == 0) {
        m->is_given_up = true;
        REQUIRE(spool_discard(t, m->id, &is_done) == 0);
        m->state = MAIL_NONE;
    } else if (m->put < m->chunks) {
        stage_mail(t, number);
    } else {
        store_mail(t, number);
    }
}

static unsigned count_open(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < w.mails; i++) {
        count += w.mail[i].state != MAIL_NONE;
    }
    return count;
}

/* Nothing of the batch is in the tables, and the log may have some of it. */
static void take_batch_back(void)
{
    for (unsigned i = 0; i < w.touched; i++) {
        struct mail *m = &w.mail[w.who[i]];
        /* A client whose part was refused begins anew. */
        bool is_given_up = m->is_given_up || w.before[i].state == MAIL_STAGED;
        *m = w.before[i];
        m->is_given_up = is_given_up;
        m->unsure = w.last;
    }
    totals.doubts++;
}

/* returns whether the process goes on */
static bool commit_batch(void)
{
    struct spool_txn *t;
    uint64_t reserving = w.reserved, next_id = w.next_id;
    w.touched = 0;
    w.frames_left = draw(12) == 0 ? draw(3) : UINT64_MAX;
    REQUIRE(replica_is_ready(w.replica));
    replica_begin(w.replica, false);
    REQUIRE(spool_begin(w.store, &t) == 0);
    for (unsigned i = draw(OPERATIONS + 1); i > 0; i--) {
        if (draw(OPEN) >= count_open()) {
            receive(t);
        } else {
            go_on(t);
        }
    }
    if (w.next_id + BLOCK / 2 > w.reserved) {
        reserving = w.next_id + BLOCK;
        REQUIRE(spool_reserve_ids(t, reserving) == 0);
    }
    REQUIRE(replica_note(w.replica, t) == 0);
    bool is_shipped = replica_ship(w.replica) == 0;
    if (is_shipped && w.next_id > next_id) { /* else nobody has heard of them */
        w.greatest_id = w.next_id - 1;
    }
    if (!is_shipped || draw(20) == 0) {
        spool_abort(t);
        take_batch_back();
        if (!is_shipped) {
            return false;
        }
        replica_doubt(w.replica);
        return draw(2) == 0;
    }
    REQUIRE(spool_commit(t) == 0);
    replica_committed(w.replica, true);
    w.reserved = reserving;
    if (w.purge > w.first && draw(6) == 0) {
        purge_log();
    }
    return true;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* What happens to the spool while no process has it. */
static void pass_time(void)
{
    w.now += USEC_PER_SEC; /* far more than the ids of a life take */
    if (w.has_copy && draw(4) == 0) {
        go_back_to_copy();
    } else if (draw(3) > 0) {
        put_fence();
        restore();
    }
    if (draw(4) == 0) {
        copy_file("/data.mdb", ".copy");
        w.has_copy = true;
    }
}

static bool run(uint64_t seed, enum fault fault)
{
    memset(&w, 0, sizeof(w));
    w.chance = seed * 0x9e3779b97f4a7c15U + 1;
    w.now = 1800000000 * USEC_PER_SEC;
    w.fault = fault;
    w.is_sound = true;
    w.first = 1;
    const char *base = getenv("TMPDIR");
    (void)snprintf(w.folder, sizeof(w.folder), "%s/restore.XXXXXX", base == NULL ? "/tmp" : base);
    REQUIRE(mkdtemp(w.folder) != NULL);
    struct spool_txn *t;
    w.store = open_store();
    REQUIRE(spool_begin(w.store, &t) == 0 && spool_set_node(t, NODE) == 0 && spool_commit(t) == 0);
    spool_store_close(w.store);
    for (unsigned lives = 0; lives < LIVES && w.is_sound; lives++) {
        begin_life();
        for (unsigned batches = 1 + draw(30); w.is_sound && batches > 0 && commit_batch();
             batches--) {
        }
        end_life();
        pass_time();
    }
    remove_folder();
    char copy[160];
    (void)snprintf(copy, sizeof(copy), "%s.copy", w.folder);
    (void)unlink(copy); /* perhaps none was made */
    for (uint64_t place = w.first; place <= w.last; place++) {
        buf_fini(&w.frames[place]);
    }
    return w.is_sound;
}

static bool finds(uint64_t seed, uint64_t runs, enum fault fault, const char *what)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < runs; i++) {
        found += !run(seed + i, fault);
    }
    (void)printf("%s: unsound in %llu of %llu\n", what, (unsigned long long)found,
                 (unsigned long long)runs);
    return found * 4 > runs;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;
    for (uint64_t i = 0; i < runs; i++) {
        if (!run(seed + i, NO_FAULT)) {
            (void)fprintf(stderr, "restore_random %llu 1: unsound\n",
                          (unsigned long long)(seed + i));
            return 1;
        }
    }
    (void)printf(
        "%llu runs: %llu lives, %llu disks lost, %llu old copies, %llu mails, %llu batches that "
        "failed, %llu frames: sound\n",
        (unsigned long long)runs, (unsigned long long)totals.lives,
        (unsigned long long)totals.losses, (unsigned long long)totals.copies,
        (unsigned long long)totals.mails, (unsigned long long)totals.doubts,
        (unsigned long long)totals.frames);
    bool are_found = finds(seed, runs, IDS_BEHIND_WHAT_IS_LEFT, "giving ids behind what is left") &&
                     finds(seed, runs, IDS_WITHOUT_CLOCK, "giving ids without the clock");
    return are_found ? 0 : 1;
}
