/* A list under a lock. Called by a watcher and by the thread `cluster`. */
#include "engine/nodes/inbox.h"

#include "engine/nodes/cluster_module.h"

#include <stdlib.h>
#include <string.h>

void inbox_init(struct inbox *i, size_t most)
{
    *i = (struct inbox){.most = most};
    i->end = &i->first;
    (void)pthread_mutex_init(&i->lock, NULL); /* cannot fail with default attributes on Linux */
}

void inbox_fini(struct inbox *i)
{
    struct told *next;
    for (struct told *t = inbox_take(i); t != NULL; t = next) {
        next = t->next;
        free(t);
    }
    (void)pthread_mutex_destroy(&i->lock);
}

bool inbox_put(struct inbox *i, const char *key, const void *data, size_t len, uint64_t revision)
{
    size_t key_len = key == NULL ? 0 : strlen(key);
    if (key_len > INBOX_KEY_MAX || len > CLUSTER_VALUE_MAX) {
        return false;
    }
    struct told *t = calloc(1, sizeof(*t) + len);
    if (t == NULL) {
        return false;
    }
    t->revision = revision;
    t->is_put = data != NULL;
    t->len = data == NULL ? 0 : len;
    memcpy(t->key, key_len == 0 ? "" : key, key_len);
    memcpy(t->value, data == NULL ? "" : data, t->len);
    (void)pthread_mutex_lock(&i->lock);
    bool has_room = i->count < i->most;
    if (has_room) {
        *i->end = t;
        i->end = &t->next;
        i->count++;
    }
    (void)pthread_mutex_unlock(&i->lock);
    if (!has_room) {
        free(t);
    }
    return has_room;
}

struct told *inbox_take(struct inbox *i)
{
    (void)pthread_mutex_lock(&i->lock);
    struct told *first = i->first;
    i->first = NULL;
    i->end = &i->first;
    i->count = 0;
    (void)pthread_mutex_unlock(&i->lock);
    return first;
}

bool inbox_is_anew(struct inbox *i, const struct told *t)
{
    bool is_mark = t->key[0] == '\0';
    if (is_mark && !t->is_put) {
        i->since_begin = 0;
    }
    i->since_begin = t->revision > i->since_begin ? t->revision : i->since_begin;
    bool is_anew = is_mark && t->is_put && i->since_begin < i->ever;
    i->ever = is_anew || i->since_begin > i->ever ? i->since_begin : i->ever;
    return is_anew;
}
