#include "engine/spool/spool_journal.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/spool/spool_repair.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_FILE "journal"

enum {
    PAGE = 4096, /* a batch begins on one */
    ALIGN = 8,   /* of a frame */
    READ_BYTES = 1 << 20,
};

/* FRAME_GENERATION is the first frame of the file: its id is the generation of the frames behind
 * it. It is used only when the tables have lost that number, since it does not tell whether the
 * tables have taken over these frames already. */
enum frame_kind { FRAME_MESSAGE = 1, FRAME_REMOVAL, FRAME_GENERATION };

/* In the byte order of the machine, as LMDB's pages are. */
struct frame {
    uint64_t check; /* of the fields below, keyed by the generation; of FRAME_GENERATION by 0 */
    uint32_t kind;
    uint32_t bytes; /* of the message record behind the frame, which has a checksum of its own */
    uint64_t id;
    uint64_t time; /* the message's place among the INCOMING */
};

static uint64_t frame_check(const struct frame *f, uint64_t generation)
{
    return hash_bytes(&f->kind, sizeof(*f) - offsetof(struct frame, kind), generation);
}

static struct frame generation_frame(uint64_t generation)
{
    struct frame f = {.kind = FRAME_GENERATION, .id = generation};
    f.check = frame_check(&f, 0);
    return f;
}

static size_t aligned(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Room for a frame at the end of the batch; what follows its head is the caller's to fill in. */
static char *add_frame(struct spool_journal *j, enum frame_kind kind, uint64_t id, uint64_t time,
                       size_t bytes)
{
    size_t whole = aligned(sizeof(struct frame) + bytes, ALIGN);
    size_t first = j->at == 0 && j->batch.len == 0 ? sizeof(struct frame) : 0;
    if (j->at + aligned(j->batch.len + first + whole, PAGE) > j->bytes) {
        return NULL;
    }
    char *at = buf_reserve(&j->batch, first + whole);
    if (at == NULL) {
        return NULL;
    }
    if (first > 0) {
        const struct frame start = generation_frame(j->generation);
        memcpy(at, &start, sizeof(start));
        at += first;
        j->batch.len += first;
    }
    struct frame head = {.kind = kind, .bytes = (uint32_t)bytes, .id = id, .time = time};
    head.check = frame_check(&head, j->generation);
    memcpy(at, &head, sizeof(head));
    memset(at + sizeof(head) + bytes, 0, whole - sizeof(head) - bytes);
    j->batch.len += whole;
    return at + sizeof(head);
}

int spool_journal_message(struct spool_store *s, const struct spool_envelope *envelope,
                          struct slice packed, struct slice body, struct spool_position *ret)
{
    struct spool_message m = {.envelope = *envelope, .packed = packed, .body = body};
    size_t bytes;
    m.envelope.flags |= SPOOL_FLAG_BODY_INLINE;
    assert(envelope->chunk_count == 0);
    if (packed.len > SPOOL_INLINE_RECIPIENT_BYTES || body.len > SPOOL_INLINE_BODY_BYTES) {
        return ERR_LIMIT;
    }
    int err = spool_message_bytes(&m, &bytes);
    if (err != 0) {
        return err;
    }
    char *at = add_frame(&s->journal, FRAME_MESSAGE, envelope->id, s->next_sequence, bytes);
    if (at == NULL) {
        return ERR_LIMIT;
    }
    spool_message_encode(&m, at, bytes);
    spool_tell(s, SPOOL_CHANGE_MESSAGE, envelope->id, 0, slice_make(at, bytes));
    *ret = (struct spool_position){SPOOL_INCOMING, s->next_sequence++, envelope->id,
                                   spool_flow_of(s, envelope)};
    return 0;
}

int spool_journal_removal(struct spool_store *s, const struct spool_position *position)
{
    assert(position->class == SPOOL_INCOMING);
    spool_tell(s, SPOOL_CHANGE_REMOVED, position->id, 0, SLICE(""));
    return add_frame(&s->journal, FRAME_REMOVAL, position->id, position->time, 0) != NULL
               ? 0
               : ERR_LIMIT;
}

int spool_journal_commit(struct spool_store *s)
{
    struct spool_journal *j = &s->journal;
    if (j->batch.len == 0) {
        return 0;
    }
    size_t rest = aligned(j->batch.len, PAGE) - j->batch.len;
    char *at = buf_reserve(&j->batch, rest);
    if (at == NULL) {
        spool_journal_abort(s);
        return -ENOMEM;
    }
    memset(at, 0, rest);
    j->batch.len += rest;
    int err = file_write_at(j->fd, buf_slice(&j->batch), j->at);
    if (err == 0 && fdatasync(j->fd) != 0) {
        err = -errno;
    }
    if (err == 0) {
        j->at += j->batch.len;
    }
    j->is_spoiled = j->is_spoiled || err != 0;
    buf_clear(&j->batch);
    return err;
}

void spool_journal_abort(struct spool_store *s)
{
    buf_clear(&s->journal.batch);
}

bool spool_journal_is_open(const struct spool_store *s)
{
    return s->journal.fd >= 0;
}

bool spool_journal_is_empty(const struct spool_store *s)
{
    return s->journal.at == 0 && !s->journal.is_spoiled;
}

/* Stores the journal's generation in two tables, so that it survives a damaged record or a lost
 * page of one of them. */
static int put_generation(struct spool_txn *t, uint64_t generation)
{
    t->generation = generation;
    int err = spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_JOURNAL, generation);
    return err != 0 ? err : spool_put_number(t, SPOOL_TABLE_TWIN, SPOOL_META_JOURNAL, generation);
}

int spool_absorb_journal(struct spool_txn *t)
{
    struct spool_journal *j = &t->store->journal;
    if (spool_journal_is_empty(t->store)) {
        return 0;
    }
    return put_generation(t, j->generation + 1);
}

void spool_journal_restart(struct spool_store *s, uint64_t generation)
{
    s->journal.generation = generation;
    s->journal.at = 0;
    s->journal.is_spoiled = false;
    buf_clear(&s->journal.batch);
}

/* --- what a crash left ------------------------------------------------------------------------ */

struct replay {
    struct spool_txn *txn;
    const char *data;
    size_t bytes;
    uint64_t generation;
    uint64_t messages, removals, damaged;
    bool is_unsure; /* the tables may have had these messages already, and have removed them */
    struct renumbered *renumbered; /* heap, [renumbered_count] */
    size_t renumbered_count;
};

/* A message of the journal that came to the tables under another id. */
struct renumbered {
    uint64_t was, is;
};

/* false: no frame of this generation begins at the offset */
static bool frame_at(const struct replay *r, size_t at, struct frame *ret)
{
    if (r->bytes - at < sizeof(*ret)) {
        return false;
    }
    memcpy(ret, r->data + at, sizeof(*ret));
    return (ret->kind == FRAME_MESSAGE || ret->kind == FRAME_REMOVAL) &&
           ret->bytes <= r->bytes - at - sizeof(*ret) &&
           ret->check == frame_check(ret, r->generation);
}

/* false: the file does not begin with the name of its generation */
static bool first_frame(const char *data, size_t bytes, struct frame *ret)
{
    if (bytes < sizeof(*ret)) {
        return false;
    }
    memcpy(ret, data, sizeof(*ret));
    const struct frame want = generation_frame(ret->id);
    return memcmp(ret, &want, sizeof(want)) == 0;
}

bool spool_journal_has_name(int folder_fd)
{
    struct frame first;
    char bytes[sizeof(first)];
    int fd = openat(folder_fd, JOURNAL_FILE, O_RDONLY | O_CLOEXEC);
    bool has_name = fd >= 0 && pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
                    first_frame(bytes, sizeof(bytes), &first);
    if (fd >= 0) {
        (void)close(fd); /* read only */
    }
    return has_name;
}

/* Puts a message whose id another one has in the tables, as in a spool that is put together of two copies.
 * errors: -ENOMEM, of the tables */
static int replay_renumbered(struct replay *r, struct spool_message *m,
                             struct spool_position *position)
{
    struct spool_store *s = r->txn->store;
    struct renumbered *more =
        realloc(r->renumbered, (r->renumbered_count + 1) * sizeof(*r->renumbered));
    if (more == NULL) {
        return -ENOMEM;
    }
    r->renumbered = more;
    const uint64_t was = position->id;
    int err = spool_read_node(r->txn, &s->node); /* it stands in the id */
    err = err != 0 ? err : spool_read_first_id(r->txn, &position->id);
    err = err != 0 ? err : spool_reserve_ids(r->txn, position->id + 1);
    if (err != 0) {
        return err;
    }
    log_error("spool %s: message %016llx of the journal is %016llx now, as another one has its id",
              s->path, (unsigned long long)was, (unsigned long long)position->id);
    m->envelope.id = position->id;
    r->renumbered[r->renumbered_count++] = (struct renumbered){was, position->id};
    return spool_put_journaled(r->txn, &m->envelope, m->packed, m->body, position);
}

static uint64_t id_in_tables(const struct replay *r, uint64_t id)
{
    for (size_t i = 0; i < r->renumbered_count; i++) {
        if (r->renumbered[i].was == id) {
            return r->renumbered[i].is;
        }
    }
    return id;
}

static int replay_frame(struct replay *r, const struct frame *f, struct slice record)
{
    struct spool_position position = {SPOOL_INCOMING, f->time, f->id, 0};
    struct spool_message m;
    if (f->kind == FRAME_REMOVAL) {
        r->removals++;
        position.id = id_in_tables(r, f->id);
        int err = spool_flow_of_record(r->txn, position.id, &position.flow);
        return err != 0 ? err : spool_remove(r->txn, &position);
    }
    if (spool_message_decode(record, f->id, true, &m) != 0) {
        r->damaged++;
        return 0;
    }
    r->messages++;
    if (r->is_unsure) {
        log_error(
            "spool %s: message %016llx comes from the journal, whose number is damaged: it may "
            "have been delivered before",
            r->txn->store->path, (unsigned long long)f->id);
    }
    position.flow = spool_flow_of(r->txn->store, &m.envelope);
    int err = spool_put_journaled(r->txn, &m.envelope, m.packed, m.body, &position);
    return err == -EEXIST ? replay_renumbered(r, &m, &position) : err;
}

/* Replays all frames. They follow each other up to the end of a batch; the next batch begins on the
 * next page. If pages without a frame are followed by further frames, the journal is damaged there,
 * and the frames behind the damage still count. */
static int replay_all(struct replay *r)
{
    size_t at = 0;
    bool has_gap = false;
    while (at < r->bytes) {
        struct frame f;
        if (!frame_at(r, at, &f)) {
            if (at == 0) {
                at = sizeof(f); /* the file's own head, whole or damaged */
                continue;
            }
            has_gap = has_gap || at % PAGE == 0 || at == sizeof(f);
            at = at / PAGE * PAGE + PAGE;
            continue;
        }
        if (has_gap) {
            has_gap = false;
            r->damaged++;
        }
        size_t head = at + sizeof(f);
        int err = replay_frame(r, &f, slice_make(r->data + head, f.bytes));
        if (err != 0) {
            return err;
        }
        at = aligned(head + f.bytes, ALIGN);
    }
    return 0;
}

/* Reads the journal's generation: from one of the two records in the tables that is whole, else
 * from the file itself. Without it no frame of the file counts: the file was never written to, or
 * its first page is lost as well. errors: ERR_MISSING, storage */
static int find_generation(struct replay *r)
{
    const char *path = r->txn->store->path;
    struct frame first;
    int err = spool_get_number(r->txn, SPOOL_TABLE_META, SPOOL_META_JOURNAL, &r->generation);
    if (err != ERR_MISSING && err != ERR_CORRUPT) {
        return err;
    }
    int twin = spool_get_number(r->txn, SPOOL_TABLE_TWIN, SPOOL_META_JOURNAL, &r->generation);
    if (twin == 0) {
        log_error("spool %s: the journal's number is damaged; its twin is used", path);
    }
    if (twin != ERR_MISSING && twin != ERR_CORRUPT) {
        return twin;
    }
    if (first_frame(r->data, r->bytes, &first)) {
        r->generation = first.id;
        r->is_unsure = true;
        return 0;
    }
    if (err == ERR_CORRUPT || twin == ERR_CORRUPT) {
        log_error("spool %s: the journal's number is damaged; mail of the last moments before the "
                  "stop may be lost",
                  path);
    }
    return ERR_MISSING;
}

/* Puts the journal's mail into the tables, in one transaction: after a crash in the middle of it
 * the next start finds everything unchanged. */
static int replay(struct spool_store *s, const struct buf *contents)
{
    struct spool_txn *txn;
    int err = spool_begin(s, &txn);
    if (err != 0) {
        return err;
    }
    struct replay r = {.txn = txn, .data = contents->data, .bytes = contents->len};
    err = find_generation(&r);
    if (err == 0) {
        err = replay_all(&r);
    } else if (err == ERR_MISSING) {
        err = 0;
    }
    if (err == 0) {
        err = put_generation(txn, hash_random_seed());
    }
    free(r.renumbered);
    if (err != 0) {
        spool_abort(txn);
        return err;
    }
    err = spool_commit(txn);
    if (err == 0 && r.messages > 0) {
        log_info("spool %s: %llu messages and %llu removals were in the journal", s->path,
                 (unsigned long long)r.messages, (unsigned long long)r.removals);
    }
    if (err == 0 && r.damaged > 0) {
        log_error("spool %s: %llu places of the journal are damaged or were never written whole",
                  s->path, (unsigned long long)r.damaged);
    }
    return err;
}

static int read_all(int fd, struct buf *contents)
{
    for (;;) {
        char *at = buf_reserve(contents, READ_BYTES);
        if (at == NULL) {
            return -ENOMEM;
        }
        ssize_t n = pread(fd, at, READ_BYTES, (off_t)contents->len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : 0;
        }
        contents->len += (size_t)n;
    }
}

/* --- the file --------------------------------------------------------------------------------- */

/* Writes every byte of the file once, so that the disk blocks exist: later writes and their syncs
 * change no metadata. */
static int fill_journal(int fd, uint64_t bytes)
{
    static const char zeros[64 << 10];
    int err = ftruncate(fd, 0) != 0 ? -errno : 0;
    for (uint64_t at = 0; err == 0 && at < bytes;) {
        size_t some = bytes - at < sizeof(zeros) ? (size_t)(bytes - at) : sizeof(zeros);
        err = file_write_at(fd, slice_make(zeros, some), at);
        at += some;
    }
    if (err == 0 && fsync(fd) != 0) {
        err = -errno;
    }
    return err;
}

static void make_file(struct spool_store *s)
{
    struct spool_journal *j = &s->journal;
    struct stat st;
    uint64_t bytes = s->options.journal / PAGE * PAGE;
    if (bytes == 0) {
        spool_journal_close(s);
        /* the tables have everything that was in it */
        (void)unlinkat(s->folder_fd, JOURNAL_FILE, 0);
        return;
    }
    int err = fstat(j->fd, &st) != 0 ? -errno : 0;
    if (err == 0 && (uint64_t)st.st_size != bytes) {
        err = fill_journal(j->fd, bytes);
    }
    if (err != 0) {
        log_warning("spool %s: no journal: %s; every reception waits for the tables", s->path,
                    err_str(err));
        spool_journal_close(s);
        /* on a full disk, what the journal took is free again */
        (void)unlinkat(s->folder_fd, JOURNAL_FILE, 0);
        return;
    }
    j->bytes = bytes;
}

static bool is_disk_full(int err)
{
    return err == -ENOSPC || err == -EDQUOT;
}

/* errors: -errno, -ENOENT among them: there is none, and none is to be made */
static int open_file(struct spool_store *s)
{
    int flags = s->options.journal > 0 ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDWR | O_CLOEXEC;
    s->journal.fd = openat(s->folder_fd, JOURNAL_FILE, flags, 0600);
    return s->journal.fd >= 0 ? 0 : -errno;
}

int spool_journal_open(struct spool_store *s)
{
    struct spool_journal *j = &s->journal;
    struct buf contents;
    buf_init(&contents, 0);
    int err = open_file(s);
    if (is_disk_full(err)) { /* what the ballast is for */
        spool_store_drop_ballast(s);
        err = open_file(s);
    }
    if (err == 0) {
        err = read_all(j->fd, &contents);
    }
    /* Only what was read, or is known not to be there, may be replayed: that ends its generation. */
    if (err == 0 || err == -ENOENT) {
        err = replay(s, &contents);
        if (is_disk_full(err)) {
            spool_store_drop_ballast(s);
            err = spool_store_must_reopen(s) ? spool_store_reopen(s, NULL, NULL) : 0;
            err = err == 0 ? replay(s, &contents) : err;
        }
    }
    buf_fini(&contents);
    if (err == 0 && j->fd >= 0) {
        make_file(s);
    }
    return err;
}

void spool_journal_close(struct spool_store *s)
{
    if (s->journal.fd >= 0) {
        (void)close(s->journal.fd); /* whatever mattered was synced */
        s->journal.fd = -1;
    }
    buf_fini(&s->journal.batch);
}
