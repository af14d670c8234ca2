#include "engine/heard/return_book.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/rcu.h"
#include "engine/heard/return_names.h"
#include "engine/heard/return_token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ring {
    struct return_keys keys;
    struct rcu_retired retired;
};

struct return_book {
    pthread_mutex_t lock; /* whoever replaces the ring, and what is below it */
    bool is_wanted;
    bool has_readers; /* it is open: a ring that is replaced may be read */
    char *folder;     /* NULL: not open */

    struct ring *ring; /* published under RCU */
    _Atomic(struct return_names *) names;
};

struct return_book *return_book_new(void)
{
    struct return_book *b = calloc(1, sizeof(*b));
    if (b != NULL && pthread_mutex_init(&b->lock, NULL) != 0) {
        free(b);
        return NULL;
    }
    return b;
}

static void ring_free(struct ring *ring)
{
    if (ring != NULL) {
        OPENSSL_cleanse(&ring->keys, sizeof(ring->keys));
        free(ring);
    }
}

static void release_ring(struct rcu_retired *retired)
{
    ring_free((struct ring *)((char *)retired - offsetof(struct ring, retired)));
}

void return_book_free(struct return_book *b)
{
    if (b != NULL) {
        return_names_free(atomic_load_explicit(&b->names, memory_order_relaxed));
        ring_free(b->ring);
        pthread_mutex_destroy(&b->lock);
        free(b->folder);
        free(b);
    }
}

static bool path_in(const struct return_book *b, const char *name, char ret[static PATH_MAX])
{
    return snprintf(ret, PATH_MAX, "%s/%s", b->folder, name) < PATH_MAX;
}

static void publish_ring(struct return_book *b, struct ring *ring)
{
    struct ring *old = b->ring;
    rcu_publish(&b->ring, ring);
    if (old != NULL && b->has_readers) {
        rcu_retire(&old->retired, release_ring);
    } else {
        ring_free(old);
    }
}

/* Reads the ring's file; errors: -errno, ERR_SYNTAX; -ENOENT: there is none */
static int read_ring(struct return_book *b)
{
    char path[PATH_MAX], text[RETURN_KEYS_MAX * 128];
    if (!path_in(b, "keys", path)) {
        return -ENAMETOOLONG;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    ssize_t len = read(fd, text, sizeof(text));
    int err = len < 0 ? -errno : 0;
    (void)close(fd); /* only read */
    struct ring *ring = err == 0 ? calloc(1, sizeof(*ring)) : NULL;
    if (err == 0) {
        err =
            ring == NULL ? -ENOMEM : return_keys_parse(slice_make(text, (size_t)len), &ring->keys);
    }
    OPENSSL_cleanse(text, sizeof(text));
    if (err != 0) {
        ring_free(ring);
        return err;
    }
    publish_ring(b, ring);
    return 0;
}

/* A new ring, written before it is used. With the lock. Online under RCU when the book has readers and a
 * ring; offline while the disk works, which must not stop reclaim. */
static int rotate(struct return_book *b, int64_t now, bool is_asked)
{
    static const struct return_keys none;
    const struct return_keys *before = b->ring == NULL ? &none : &b->ring->keys;
    char path[PATH_MAX];
    if (!is_asked && !return_keys_is_due(before, now)) {
        return 0;
    }
    struct ring *ring = calloc(1, sizeof(*ring));
    struct buf text;
    buf_init(&text, 0);
    int err = ring == NULL ? -ENOMEM : return_keys_rotate(before, now, is_asked, &ring->keys);
    if (err == 0) {
        return_keys_format(&ring->keys, &text);
        err = text.failed ? -ENOMEM : 0;
    }
    if (err == 0) {
        bool is_online = b->has_readers && b->ring != NULL;
        if (is_online) {
            rcu_sleep();
        }
        err = path_in(b, "keys", path) ? file_replace(path, buf_slice(&text)) : -ENAMETOOLONG;
        if (is_online) {
            rcu_awake();
        }
    }
    if (text.data != NULL) {
        OPENSSL_cleanse(text.data, text.capacity);
    }
    buf_fini(&text);
    if (err != 0) {
        ring_free(ring);
        return err;
    }
    publish_ring(b, ring);
    return 0;
}

static int open_names(struct return_book *b)
{
    char path[PATH_MAX];
    if (atomic_load_explicit(&b->names, memory_order_relaxed) != NULL) {
        return 0;
    }
    if (!path_in(b, "names", path)) {
        return -ENAMETOOLONG;
    }
    if (b->ring != NULL && access(path, F_OK) != 0 && errno == ENOENT) {
        return ERR_MISSING; /* it was made before the first key */
    }
    struct return_names *names = return_names_new();
    int err = names == NULL ? -ENOMEM : return_names_open(names, path);
    if (err != 0) {
        return_names_free(names);
        return err;
    }
    atomic_store_explicit(&b->names, names, memory_order_release);
    return 0;
}

static int say(const struct return_book *b, const char *what, int err,
               char ret_text[static RETURN_BOOK_TEXT_MAX])
{
    (void)snprintf(ret_text, RETURN_BOOK_TEXT_MAX, "%.200s/%s: %s", b->folder, what, err_str(err));
    return err;
}

/* Everything that return addresses need. With the lock; the folder's path is known. */
static int make_book(struct return_book *b, int64_t now, char ret_text[static RETURN_BOOK_TEXT_MAX])
{
    if (mkdir(b->folder, 0700) != 0 && errno != EEXIST) {
        return say(b, "", -errno, ret_text);
    }
    int err = open_names(b);
    if (err == ERR_MISSING) {
        (void)snprintf(ret_text, RETURN_BOOK_TEXT_MAX,
                       "%.100s/names is gone, by whose numbers return addresses under way speak of "
                       "tenants: bring it back, or remove keys beside it, and they are believed no "
                       "more",
                       b->folder);
        return err;
    }
    if (err != 0) {
        return say(b, "names", err, ret_text);
    }
    file_sync_folder_of(b->folder);
    /* A key that is due while there are readers is return_book_rotate's. */
    err = b->ring == NULL || !b->has_readers ? rotate(b, now, false) : 0;
    return err == 0 ? 0 : say(b, "keys", err, ret_text);
}

int return_book_open(struct return_book *b, const char *spool_path, int64_t now,
                     char ret_text[static RETURN_BOOK_TEXT_MAX])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/heard", spool_path) >= (int)sizeof(path)) {
        (void)snprintf(ret_text, RETURN_BOOK_TEXT_MAX, "the spool's path is too long");
        return -ENAMETOOLONG;
    }
    b->folder = strdup(path);
    if (b->folder == NULL) {
        (void)snprintf(ret_text, RETURN_BOOK_TEXT_MAX, "out of memory");
        return -ENOMEM;
    }
    int err = read_ring(b);
    if (err != 0 && err != -ENOENT) {
        return say(b, "keys", err, ret_text);
    }
    if (err == 0 || b->is_wanted) {
        err = make_book(b, now, ret_text); /* a key may be due */
    }
    b->has_readers = true;
    return err == -ENOENT ? 0 : err;
}

int return_book_want(struct return_book *b, int64_t now, char ret_text[static RETURN_BOOK_TEXT_MAX])
{
    pthread_mutex_lock(&b->lock);
    b->is_wanted = true;
    int err = b->folder == NULL ? 0 : make_book(b, now, ret_text);
    pthread_mutex_unlock(&b->lock);
    return err;
}

int return_book_rotate(struct return_book *b, int64_t now, bool is_asked)
{
    pthread_mutex_lock(&b->lock);
    int err = b->ring == NULL || b->folder == NULL ? 0 : rotate(b, now, is_asked);
    pthread_mutex_unlock(&b->lock);
    return err;
}

const struct return_keys *return_book_keys(const struct return_book *b)
{
    const struct ring *ring = rcu_load(&b->ring);
    return ring == NULL ? NULL : &ring->keys;
}

struct return_names *return_book_names(const struct return_book *b)
{
    return atomic_load_explicit(&b->names, memory_order_acquire);
}

/* 0: there is none; one that has no number must not pass for that. */
static uint32_t number_of(const struct return_names *names, struct slice tenant,
                          struct slice campaign)
{
    if (tenant.len == 0 && campaign.len == 0) {
        return 0;
    }
    uint32_t number = names == NULL ? 0 : return_names_find(names, tenant, campaign);
    return number != 0 ? number : RETURN_TOKEN_NUMBER_MAX;
}

bool return_book_token(const struct return_book *b, const struct return_subject *subject,
                       char ret[static RETURN_TOKEN_LEN])
{
    const struct return_keys *keys = return_book_keys(b);
    const struct return_names *names = return_book_names(b);
    const struct return_key *key = keys == NULL ? NULL : return_keys_for(keys, subject->begun);
    if (key == NULL) {
        return false;
    }
    struct return_token token = {.message = subject->message, .recipient = subject->recipient};
    token.tenant = number_of(names, subject->tenant, SLICE(""));
    if (subject->campaign.len > 0) {
        token.campaign = number_of(names, subject->tenant, subject->campaign);
    }
    return return_token_write(&token, key, subject->address, ret) == 0;
}

size_t return_book_address(const struct return_book *b, struct slice base,
                           const struct return_subject *subject,
                           char ret[static RETURN_ADDRESS_MAX])
{
    size_t at = slice_find(base, '@');
    if (base.len + 1 + RETURN_TOKEN_LEN > RETURN_ADDRESS_MAX) {
        return 0;
    }
    memcpy(ret, base.data, at);
    ret[at] = '+';
    if (!return_book_token(b, subject, ret + at + 1)) {
        return 0;
    }
    memcpy(ret + at + 1 + RETURN_TOKEN_LEN, base.data + at, base.len - at);
    return base.len + 1 + RETURN_TOKEN_LEN;
}
