/* Owns the way of other doors from a reload to the http thread. Main makes them, complete but for
 * their sockets; the http thread lets each take over the socket of the one before it. Must not touch
 * a connection: what is open stays with its own door.
 *
 * Concurrency: a change is handed over through an atomic pointer. Main alone puts one there, and
 * takes out one that the http thread has not taken yet to join it with the next. */
#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/http/http_private.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct http_change {
    size_t count;
    struct http_door *doors[]; /* [count], by their numbers; NULL: that one stays */
};

static bool is_same_pem(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_same_door(const struct http_door *a, const struct http_door *b)
{
    return a->capacity == b->capacity && a->body_max == b->body_max && a->timeout == b->timeout &&
           is_same_pem(a->certificate, b->certificate) && is_same_pem(a->key, b->key);
}

void http_change_free(struct http_change *c)
{
    for (size_t i = 0; c != NULL && i < c->count; i++) {
        http_door_discard(c->doors[i]);
    }
    free(c);
}

int http_change_new(struct http *h, const struct settings *settings, struct http_change **ret,
                    char ret_text[static HTTP_CHANGE_TEXT_MAX])
{
    size_t count = settings->door_count, others = 0;
    struct http_change *c = calloc(1, sizeof(*c) + count * sizeof(struct http_door *));
    int err = c == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        c->count = i + 1;
        err = http_door_new(h, settings->doors[i].section, i, &c->doors[i], ret_text);
        if (err == 0 && is_same_door(c->doors[i], h->newest[i])) {
            http_door_discard(c->doors[i]);
            c->doors[i] = NULL;
        }
        others += err == 0 && c->doors[i] != NULL;
    }
    if (err != 0 || others == 0) {
        http_change_free(c);
        c = NULL;
    }
    if (err == 0) {
        *ret = c;
    }
    return err;
}

void http_change_apply(struct http *h, struct http_change *change)
{
    if (change == NULL) {
        return;
    }
    struct http_change *older = atomic_exchange_explicit(&h->change, NULL, memory_order_acquire);
    for (size_t i = 0; i < change->count; i++) {
        if (change->doors[i] != NULL) {
            h->newest[i] = change->doors[i];
        } else if (older != NULL) {
            change->doors[i] = older->doors[i];
            older->doors[i] = NULL;
        }
    }
    http_change_free(older);
    /* Release pairs with the acquire of http_change_take. */
    atomic_store_explicit(&h->change, change, memory_order_release);
    mailbox_wake(&h->post.box);
}

/* The door of this number that takes connections. */
static struct http_door *find_open_door(struct http *h, size_t number)
{
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        if (!d->is_control && d->number == number && d->fd >= 0) {
            return d;
        }
    }
    return NULL;
}

void http_change_take(struct http *h)
{
    struct http_change *c = atomic_exchange_explicit(&h->change, NULL, memory_order_acquire);
    for (size_t i = 0; c != NULL && i < c->count; i++) {
        struct http_door *fresh = c->doors[i];
        struct http_door *old = fresh == NULL ? NULL : find_open_door(h, i);
        if (old == NULL) {
            continue;
        }
        int err = http_door_take_over(fresh, old);
        c->doors[i] = NULL;
        h->has_leaving = true;
        list_push_back(&h->doors,
                       &fresh->link); /* in any case: main compares the next one with it */
        if (err != 0) {
            log_error("http \"%s\": its socket cannot be watched: %s", fresh->name, err_str(err));
            continue;
        }
        log_info("http \"%s\": another certificate, or other limits, are in force", fresh->name);
    }
    http_change_free(c);
}
