/* A spool with messages of every kind, and somebody who delivers all of it, for tests of a disk
 * that lies at reading (run_reads.py).
 *
 * usage: spool_reads fill FOLDER      prints each message: "message ID RECIPIENTS", and how many
 *                                     recipients are suppressed: "entries COUNT"
 *        spool_reads drain FOLDER     delivers what is queued, as the engine would, and prints
 *                                     "got ID INDEX" for each recipient that has it now,
 *                                     "done ID", "quarantined ID", "wrong ID" for content that is
 *                                     not what was stored; then "suppressed NUMBER" for each
 *                                     entry that is in force, "unknown NUMBER" where it is not known
 *        spool_reads salvage FOLDER   prints "kept ID", "may-repeat ID", "lost ID"
 *
 * drain: with BAD_SWITCH in the environment it calls access() with that path once the spool is
 * open.
 *
 * exit  0 right, 2 usage, 3 the spool could not be opened, 4 it did not end, 65 needs a salvage */
#include "base/error.h"
#include "base/packed.h"
#include "engine/spool/spool_salvage.h"
#include "engine/spool/spool_store.h"
#include "engine/spool/spool_suppress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    MESSAGES = 240,
    MANY = 2300, /* recipients of a long list */
    TRIES = 400,
    ENTRIES_EACH = 15,                     /* transaction */
    ENTRIES = MESSAGES / 6 * ENTRIES_EACH, /* suppressed recipients */
};

static struct spool_store *store;
static struct spool_reader *reader;

static int spool_up(const char *folder)
{
    char text[256] = "";
    struct spool_options options = {.path = folder, .map_size = 256 << 20, .journal = 256 << 10};
    int rc = spool_store_open(&options, &store, text);
    if (rc == 0) {
        rc = spool_reader_new(store, &reader);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "open: %s\n", text);
        return rc == ERR_CORRUPT ? EX_DATAERR : 3;
    }
    return 0;
}

/* What message `id` is, from its number alone. */
static size_t body_bytes(uint64_t id)
{
    return id % 10 == 0 ? 150000 : id % 3 == 0 ? 9000 : 300 + id % 700;
}

static uint32_t recipients_of(uint64_t id)
{
    return id % 40 == 0 ? MANY : id % 4 == 0 ? 5 : 1;
}

static void fill_body(uint64_t id, char *body, size_t bytes)
{
    uint64_t x = id * 0x9E3779B97F4A7C15ULL;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        body[i] = (char)('a' + (x >> 40) % 26);
    }
}

static void check(int rc)
{
    if (rc != 0) {
        (void)fprintf(stderr, "filling: %s\n", err_str(rc));
        exit(3);
    }
}

static size_t pack(uint64_t id, uint32_t from, uint32_t to, char *packed, size_t room)
{
    size_t len = 0;
    for (uint32_t i = from; i < to; i++) {
        char address[64];
        int n = snprintf(address, sizeof(address), "r%u.%" PRIu64 "@example.com", i, id);
        if (len + 2 + (size_t)n > room) {
            abort();
        }
        packed[len++] = 0;
        packed[len++] = (char)n;
        memcpy(packed + len, address, (size_t)n);
        len += (size_t)n;
    }
    return len;
}

static void put(struct spool_txn *t, uint64_t id)
{
    static char body[200000], packed[64000];
    struct spool_position at;
    struct spool_envelope e = {.id = id,
                               .created = (usec_t)id,
                               .size_bytes = body_bytes(id),
                               .recipient_count = recipients_of(id),
                               .sender = SLICE("sender@example.org"),
                               .not_before = id % 11 == 0 ? (usec_t)id : 0};
    struct slice list = SLICE("");
    fill_body(id, body, e.size_bytes);
    if (e.size_bytes > SPOOL_INLINE_BODY_BYTES) {
        for (size_t done = 0; done < e.size_bytes; done += SPOOL_CHUNK_BYTES) {
            size_t left = e.size_bytes - done;
            size_t some = left < SPOOL_CHUNK_BYTES ? left : SPOOL_CHUNK_BYTES;
            check(spool_put_chunk(t, id, e.chunk_count++, slice_make(body + done, some)));
        }
    }
    if (e.recipient_count > SPOOL_BATCH_RECIPIENTS) {
        for (uint32_t b = 0; b * SPOOL_BATCH_RECIPIENTS < e.recipient_count; b++) {
            uint32_t to = (b + 1) * SPOOL_BATCH_RECIPIENTS;
            to = to < e.recipient_count ? to : e.recipient_count;
            size_t len = pack(id, b * SPOOL_BATCH_RECIPIENTS, to, packed, sizeof(packed));
            check(spool_put_recipients(t, id, b, slice_make(packed, len)));
        }
    } else {
        list = slice_make(packed, pack(id, 0, e.recipient_count, packed, sizeof(packed)));
    }
    struct slice inside = e.chunk_count == 0 ? slice_make(body, e.size_bytes) : SLICE("");
    check(spool_put_message(t, &e, list, inside, &at));
    const struct spool_reason reason = {.time = 5,
                                        .state = SPOOL_RECIPIENT_DEFERRED,
                                        .code = 451,
                                        .status = SLICE("4.3.0"),
                                        .text = SLICE("come back later, we are busy"),
                                        .remote_mta = SLICE("mx.example.com")};
    for (uint32_t i = 0; i < e.recipient_count && i < 3 && id % 4 == 0; i++) {
        check(spool_set_recipient(t, id, e.recipient_count, i,
                                  i == 0 ? SPOOL_RECIPIENT_DELIVERED : SPOOL_RECIPIENT_DEFERRED,
                                  &reason));
    }
    if (id % 5 == 0) {
        const struct spool_retry retry = {.attempts = 2, .due = (usec_t)(1000 + id)};
        const struct spool_position due = {SPOOL_DEFERRED, 1000 + id, id, 0};
        check(spool_requeue(t, &at, &due, &retry));
    }
    if (id % 7 == 0 && id % 4 != 0) { /* gone again: its pages are free ones */
        check(spool_remove(
            t, id % 5 == 0 ? &(struct spool_position){SPOOL_DEFERRED, 1000 + id, id, 0} : &at));
        return;
    }
    (void)printf("message %" PRIu64 " %u %u\n", id, e.recipient_count, id % 4 == 0);
}

static struct slice entry_address(unsigned number, char out[64])
{
    return slice_of_printed(out, 64, snprintf(out, 64, "user%u@example.com", number));
}

/* Some with each transaction, in no order. */
static void put_entries(struct spool_txn *t, uint64_t id)
{
    for (unsigned i = 0; i < ENTRIES_EACH; i++) {
        char text[64];
        unsigned number = (unsigned)((id / 6 - 1) * ENTRIES_EACH + i) * 7 % ENTRIES;
        const struct spool_suppression s = {.tenant = number % 2 == 0 ? SLICE("") : SLICE("acme"),
                                            .address = entry_address(number, text),
                                            .source = SLICE("a test")};
        check(spool_suppress_put(t, &s, NULL));
    }
}

static int fill(const char *folder)
{
    int code = spool_up(folder);
    struct spool_txn *t = NULL;
    for (uint64_t id = 1; code == 0 && id <= MESSAGES; id++) {
        if (t == NULL) {
            check(spool_begin(store, &t));
        }
        put(t, id);
        if (id % 6 == 0) {
            put_entries(t, id);
            check(spool_absorb_journal(t));
            check(spool_commit(t));
            t = NULL;
        }
    }
    for (uint64_t id = MESSAGES + 1; code == 0 && id <= MESSAGES + 6;
         id++) { /* in the journal alone */
        static char body[20000], packed[100];
        struct spool_position at;
        const struct spool_envelope e = {.id = id,
                                         .created = 1,
                                         .size_bytes = 900,
                                         .recipient_count = 1,
                                         .sender = SLICE("sender@example.org")};
        fill_body(id, body, 900);
        check(spool_journal_message(store, &e,
                                    slice_make(packed, pack(id, 0, 1, packed, sizeof(packed))),
                                    slice_make(body, 900), &at));
        check(spool_journal_commit(store));
        (void)printf("message %" PRIu64 " 1 0\n", id);
    }
    (void)printf("entries %u\n", ENTRIES);
    (void)fflush(stdout);
    _exit(code); /* as a crash: the journal is not empty */
}

/* --- draining --------------------------------------------------------------------------------- */

static int content_is_right(const struct spool_envelope *e, bool *ret_is_right)
{
    static char want[200000], got[200000];
    size_t len = 0;
    int rc = 0;
    size_t bytes = e->id > MESSAGES ? 900 : body_bytes(e->id);
    fill_body(e->id, want, bytes);
    uint32_t chunks = e->chunk_count == 0 ? 1 : e->chunk_count;
    for (uint32_t i = 0; rc == 0 && i < chunks; i++) {
        struct slice chunk;
        rc = spool_read_chunk(reader, e->id, i, &chunk);
        if (rc == 0 && len + chunk.len <= sizeof(got)) {
            memcpy(got + len, chunk.data, chunk.len);
            len += chunk.len;
        }
    }
    *ret_is_right = len == bytes && memcmp(want, got, len) == 0;
    return rc;
}

static void say_recipients(const struct spool_envelope *e, uint32_t from, struct slice packed,
                           struct slice states)
{
    struct slice address;
    for (uint32_t i = 0; packed_next(&packed, &address); i++) {
        char state = i < states.len ? states.data[i] : SPOOL_RECIPIENT_PENDING;
        if (state == SPOOL_RECIPIENT_PENDING || state == SPOOL_RECIPIENT_DEFERRED) {
            (void)printf("got %" PRIu64 " %u\n", e->id, from + i);
        }
    }
}

/* Reads all of a message before it says a word, as activation does. */
static int deliver(uint64_t id)
{
    struct spool_envelope e;
    struct slice body, packed, states;
    struct spool_retry retry;
    bool is_right = false;
    uint64_t faults = spool_faults_seen();
    int rc = spool_read_message(reader, id, &e, &body);
    rc = rc != 0 ? rc : content_is_right(&e, &is_right);
    rc = rc != 0 ? rc : spool_read_retry(reader, id, &retry);
    for (int pass = 0; rc == 0 && pass < 2; pass++) {
        for (uint32_t from = 0; rc == 0 && from < e.recipient_count;
             from += SPOOL_BATCH_RECIPIENTS) {
            uint32_t batch = from / SPOOL_BATCH_RECIPIENTS;
            rc = spool_read_recipients(reader, id, batch, &packed);
            if (rc == 0) {
                rc = spool_read_states(reader, id, batch, &states);
                states = rc == 0 ? states : SLICE("");
                rc = rc == ERR_MISSING ? 0 : rc;
            }
            if (rc == 0 && pass == 1) {
                say_recipients(&e, from, packed, states);
            }
        }
        if (rc == 0 && pass == 0 && spool_faults_seen() != faults) {
            return ERR_AGAIN;
        }
        if (rc == 0 && pass == 0 && !is_right) {
            (void)printf("wrong %" PRIu64 "\n", id);
        }
    }
    return rc;
}

/* A transaction that has to succeed, as the writer's do: it is tried again on a new environment.
 * returns 0, EX_DATAERR */
static int transact(int (*change)(struct spool_txn *, const struct spool_position *),
                    const struct spool_position *p)
{
    for (int i = 0; i < TRIES; i++) {
        struct spool_txn *t;
        int rc = spool_store_must_reopen(store) ? spool_store_reopen(store, NULL, NULL) : 0;
        if (rc == ERR_CORRUPT) {
            return EX_DATAERR;
        }
        rc = rc == 0 ? spool_begin(store, &t) : rc;
        if (rc != 0) {
            continue;
        }
        rc = change == NULL ? 0 : change(t, p);
        if (rc == 0) {
            rc = spool_absorb_journal(t);
        }
        if (rc != 0) {
            spool_abort(t);
        } else if (spool_commit(t) == 0) {
            return 0;
        }
    }
    return 4;
}

static int drain_class(enum spool_class class, bool *ret_took)
{
    struct spool_position at = {.class = (uint8_t) class};
    for (int tries = 0; tries < TRIES;) {
        int rc = spool_reader_begin(reader);
        if (rc != 0) {
            return 4;
        }
        struct spool_position next;
        rc = spool_scan(reader, class, at.id == 0 ? NULL : &at, &next);
        bool has_one = rc == 0;
        rc = has_one ? deliver(next.id) : rc;
        spool_reader_end(reader);
        int code = 0;
        if (has_one && (rc == 0 || rc == ERR_CORRUPT || rc == ERR_MISSING)) {
            (void)printf("%s %" PRIu64 "\n", rc == 0 ? "done" : "quarantined", next.id);
            code = transact(rc == 0 ? spool_remove : spool_quarantine, &next);
            *ret_took = true;
            at = next;
            tries = 0;
        } else if (rc == ERR_MISSING) {
            return 0;
        } else {
            tries++;
            code = transact(NULL, NULL); /* the writer looks into it */
        }
        if (code != 0) {
            return code;
        }
    }
    return 4;
}

/* Looks the entry up until it is known, as who delivers waits for that. returns as transact */
static int look_up(unsigned number)
{
    char text[64];
    for (int tries = 0; tries < TRIES / 10; tries++) {
        struct spool_suppression found;
        int rc = spool_reader_begin(reader);
        if (rc != 0) {
            return 4;
        }
        rc = spool_suppress_find(reader, SLICE("acme"), entry_address(number, text), 1, &found);
        spool_reader_end(reader);
        if (rc == 0) {
            (void)printf("suppressed %u\n", number);
        }
        if (rc == 0 || rc == ERR_MISSING) {
            return 0;
        }
        int code = transact(NULL, NULL); /* the writer looks into it */
        if (code != 0) {
            return code;
        }
    }
    (void)printf("unknown %u\n", number);
    return 0;
}

static int drain(const char *folder)
{
    const char *bad_now = getenv("BAD_SWITCH");
    int code = spool_up(folder);
    if (code == 0 && bad_now != NULL) {
        (void)!access(bad_now, F_OK); /* for the preloaded library */
    }
    for (bool took = true; code == 0 && took;) {
        took = false;
        for (int class = 0; code == 0 && class < SPOOL_CLASS_COUNT; class ++) {
            code = drain_class((enum spool_class) class, &took);
        }
    }
    for (unsigned i = 0; code == 0 && i < ENTRIES; i++) {
        code = look_up(i);
    }
    (void)fflush(stdout);
    if (code != 0) {
        _exit(code);
    }
    spool_reader_free(reader);
    spool_store_close(store);
    return 0;
}

static void say_fate(void *ctx, enum spool_fate fate, uint64_t id)
{
    static const char *const words[] = {"kept", "may-repeat", "lost"};
    (void)ctx;
    (void)printf("%s %" PRIu64 "\n", words[fate], id);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "fill") == 0) {
        return fill(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "drain") == 0) {
        return drain(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "salvage") == 0) {
        char text[256] = "";
        struct spool_salvage salvage = {.on_message = say_fate};
        const struct spool_options options = {.path = argv[2], .map_size = 256 << 20};
        int rc = spool_salvage(&options, &salvage, text);
        if (rc != 0) {
            (void)fprintf(stderr, "%s\n", text);
        }
        return rc == 0 ? 0 : 3;
    }
    (void)fprintf(stderr, "usage: see the head of the source\n");
    return 2;
}
