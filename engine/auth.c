#include "engine/auth.h"

#include "base/error.h"
#include "base/rcu.h"
#include "base/slice.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/settings.h"
#include "engine/worker.h"

#include <crypt.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct user {
    char *name;
    char *hash;
};

struct auth_users {
    struct user *list;
    size_t count, capacity;
};

struct auth {
    struct engine *engine;
    struct mailbox box;
    struct thread thread;
    _Atomic bool is_stopping;
    struct outbox *to_workers; /* [engine->worker_count], auth thread only */
};

/* --- users -------------------------------------------------------------------------------------
 */

static int add_user(struct auth_users *users, struct slice name, struct slice hash)
{
    if (users->count == users->capacity) {
        size_t capacity = users->capacity == 0 ? 16 : users->capacity * 2;
        struct user *grown = realloc(users->list, capacity * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        users->list = grown;
        users->capacity = capacity;
    }
    struct user *u = &users->list[users->count];
    u->name = slice_dup(name);
    u->hash = slice_dup(hash);
    users->count++;
    return u->name == NULL || u->hash == NULL ? -ENOMEM : 0;
}

static int parse_users(FILE *in, const char *path, struct auth_users *users, char ret_text[256])
{
    char line[1024];
    int number = 0;
    while (fgets(line, sizeof(line), in) != NULL) {
        struct slice text = slice_trim(slice_of(line));
        number++;
        if (text.len == 0 || text.data[0] == '#') {
            continue;
        }
        size_t colon = slice_find(text, ':');
        struct slice name = slice_to(text, colon);
        struct slice hash = colon < text.len ? slice_from(text, colon + 1) : SLICE("");
        /* A crypt(3) hash begins with '$' and an empty one would let anybody in. */
        if (name.len == 0 || name.len > 255 || hash.len < 13 || hash.data[0] != '$') {
            (void)snprintf(ret_text, 256,
                           "%.180s:%d: users: not NAME:HASH; make one with `openssl passwd -6`",
                           path, number);
            return ERR_SYNTAX;
        }
        int err = add_user(users, name, hash);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

int auth_users_load(const char *path, struct auth_users **ret, char ret_text[256])
{
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        int err = -errno;
        (void)snprintf(ret_text, 256, "%.180s: users: cannot read: %s", path, err_str(err));
        return err;
    }
    struct auth_users *users = calloc(1, sizeof(*users));
    int err = users == NULL ? -ENOMEM : parse_users(in, path, users, ret_text);
    (void)fclose(in); /* only read */
    if (err != 0) {
        auth_users_free(users);
        return err;
    }
    *ret = users;
    return 0;
}

void auth_users_free(struct auth_users *users)
{
    if (users == NULL) {
        return;
    }
    for (size_t i = 0; i < users->count; i++) {
        free(users->list[i].name);
        free(users->list[i].hash);
    }
    free(users->list);
    free(users);
}

static bool equal_constant_time(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned char differs = len != strlen(b);
    for (size_t i = 0; i < len && !differs; i++) {
        differs |= (unsigned char)(a[i] ^ b[i]);
    }
    return !differs;
}

bool auth_users_check(const struct auth_users *users, const char *name, const char *password)
{
    /* An unknown user costs the same: a hash that no password has, of the first user's kind. */
    const char *hash = users->count > 0 ? users->list[0].hash : "$6$saltsalt$";
    bool is_known = false;
    for (size_t i = 0; i < users->count; i++) {
        if (strcmp(users->list[i].name, name) == 0) {
            hash = users->list[i].hash;
            is_known = true;
        }
    }
    struct crypt_data *data = calloc(1, sizeof(*data));
    if (data == NULL) {
        return false;
    }
    const char *computed = crypt_r(password, hash, data);
    bool is_good =
        is_known && computed != NULL && computed[0] == '$' && equal_constant_time(computed, hash);
    explicit_bzero(data, sizeof(*data));
    free(data);
    return is_good;
}

void auth_request_free(struct auth_request *r)
{
    if (r != NULL) {
        explicit_bzero(r->password, sizeof(r->password));
        settings_put(r->settings);
        free(r);
    }
}

/* --- the thread --------------------------------------------------------------------------------
 */

int auth_new(struct engine *engine, struct auth **ret)
{
    struct auth *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->engine = engine;
    int err = mailbox_init(&a->box, 4096);
    if (err != 0) {
        free(a);
        return err;
    }
    *ret = a;
    return 0;
}

struct mailbox *auth_box(struct auth *a)
{
    return &a->box;
}

void auth_free(struct auth *a)
{
    struct letter letter;
    if (a == NULL) {
        return;
    }
    while (mailbox_take(&a->box, &letter)) {
        auth_request_free(letter.body);
    }
    for (uint32_t i = 0; a->to_workers != NULL && i < a->engine->worker_count; i++) {
        outbox_fini(&a->to_workers[i]);
    }
    free(a->to_workers);
    mailbox_fini(&a->box);
    free(a);
}

static void answer(struct auth *a, struct auth_request *request)
{
    request->is_good = auth_users_check(request->users, request->name, request->password);
    explicit_bzero(request->password, sizeof(request->password));
    outbox_put(&a->to_workers[request->worker], LETTER_AUTHENTICATED, request, 0);
    (void)outbox_flush(&a->to_workers[request->worker]); /* what does not fit goes next time */
}

static void run(void *arg)
{
    struct auth *a = arg;
    struct letter letter;
    rcu_sleep(); /* reads nothing under RCU */
    while (!atomic_load(&a->is_stopping)) {
        while (mailbox_take(&a->box, &letter)) {
            answer(a, letter.body);
        }
        waker_prepare(&a->box.waker);
        if (ring_count(a->box.ring) == 0 && !atomic_load(&a->is_stopping)) {
            waker_wait(&a->box.waker, USEC_NEVER);
        }
        waker_finish(&a->box.waker);
    }
    rcu_awake();
}

int auth_start(struct auth *a)
{
    a->to_workers = calloc(a->engine->worker_count, sizeof(*a->to_workers));
    if (a->to_workers == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < a->engine->worker_count; i++) {
        outbox_init(&a->to_workers[i], a->engine->boxes.workers[i]);
    }
    return thread_start(&a->thread, "auth", run, a);
}

void auth_stop(struct auth *a)
{
    atomic_store(&a->is_stopping, true);
    waker_kick(&a->box.waker);
    thread_join(&a->thread);
}
