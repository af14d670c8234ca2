/* What a watcher of the module told, until the thread `cluster` takes it: the watcher puts, on a thread
 * of the module; the owner takes. A full inbox drops what is put: every value is told again by its
 * next change, and what must not be missed does not travel this way. */
#ifndef ENGINE_INBOX_H
#define ENGINE_INBOX_H

#include "base/attr.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INBOX_KEY_MAX 63

struct told {
    struct told *next;
    uint64_t revision;
    size_t len; /* of the value */
    /* Else the key was removed. Of the key "": the end of what there was, else its begin. */
    bool is_put;
    char key[INBOX_KEY_MAX + 1];
    char value[];
};

/* Its fields are its own: all but `most` under `lock`, which nobody holds while he waits. */
struct inbox {
    pthread_mutex_t lock;
    size_t most, count;
    struct told *first, **end;
    /* owner only: the greatest revisions that were told, ever and since the last begin */
    uint64_t ever, since_begin;
};

void inbox_init(struct inbox *i, size_t most);
void inbox_fini(struct inbox *i); /* frees what is left */
/* data NULL: removed. key NULL: with data NULL the begin of what there is, else its end. false: it was dropped */
bool inbox_put(struct inbox *i, const char *key, const void *data, size_t len, uint64_t revision);
/* All, oldest first; the caller frees each. */
MUST_USE struct told *inbox_take(struct inbox *i);

/* For each that was taken, in order. true: with it ends what there is, and that is older than what
 * there was: the servers lost all that they had, and count revisions from the beginning. */
MUST_USE bool inbox_is_anew(struct inbox *i, const struct told *t);

#endif
