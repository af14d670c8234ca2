/* Standing orders as values of a bucket, and back. Values of others are checked and never asserted. */
#include "engine/nodes/shared_orders.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/label.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKET     "sluice_orders"
#define INBOX_MOST 65536U
#define PUTS_MOST  50U /* in one turn of the thread, which has more to do */
#define RETRY      (1 * USEC_PER_SEC)
#define KEPT_FOR   (86400 * USEC_PER_SEC)       /* after its end, by our wall clock */
#define SPAN_MOST  (366 * 86400 * USEC_PER_SEC) /* as orders last at most */

enum { FORMAT = 1, KEY_LEN = 16 };

void shared_orders_init(struct shared_orders *s)
{
    *s = (struct shared_orders){.module = NULL};
    s->end = &s->wishes;
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail with default attributes on Linux */
    inbox_init(&s->inbox, INBOX_MOST);
}

static void free_known(struct known_order *k)
{
    json_decref(k->value);
    free(k);
}

void shared_orders_fini(struct shared_orders *s)
{
    for (struct known_order *k = s->known, *next; k != NULL; k = next) {
        next = k->next;
        free_known(k);
    }
    for (struct order_wish *w = s->wishes, *next; w != NULL; w = next) {
        next = w->next;
        order_fini(&w->order);
        free(w);
    }
    inbox_fini(&s->inbox);
    (void)pthread_mutex_destroy(&s->lock);
}

static void hear_order(void *ctx, const char *key, const void *data, size_t len, uint64_t revision)
{
    struct shared_orders *s = ctx;
    if (!inbox_put(&s->inbox, key, data, len, revision)) {
        log_warning("cluster: an order of another node came among too many others and is left out");
    }
    s->wake(s->ctx);
}

int shared_orders_open(struct shared_orders *s, struct cluster_client *client)
{
    int err = cluster_module_follow(s->module, client, BUCKET, hear_order, s);
    if (err == 0) {
        s->client = client;
    }
    return err;
}

/* --- what is known, under the lock ------------------------------------------------------------ */

static struct known_order **find_known(struct shared_orders *s, uint64_t shared)
{
    struct known_order **at = &s->known;
    while (*at != NULL && (*at)->shared != shared) {
        at = &(*at)->next;
    }
    return at;
}

static void drop_known(struct shared_orders *s, uint64_t shared)
{
    struct known_order **at = find_known(s, shared), *k = *at;
    if (k != NULL) {
        *at = k->next;
        free_known(k);
    }
}

uint64_t shared_orders_revision(struct shared_orders *s, uint64_t shared)
{
    (void)pthread_mutex_lock(&s->lock);
    const struct known_order *k = *find_known(s, shared);
    uint64_t revision = k == NULL ? 0 : k->revision;
    (void)pthread_mutex_unlock(&s->lock);
    return revision;
}

/* --- ours ------------------------------------------------------------------------------------- */

uint64_t shared_orders_draw(void)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number) || number == 0) {
        number = (uint64_t)clock_wall(); /* two that are given in the same microsecond */
    }
    return number;
}

/* NULL: out of memory */
static json_t *order_value(const struct shared_orders *s, const struct order *o)
{
    json_t *value =
        json_pack("{s:i, s:s, s:s, s:b, s:s, s:s, s:I, s:I}", "format", FORMAT, "node", s->node,
                  "order", order_kind_text(o->kind), "once", o->is_once, "reason", o->reason, "by",
                  o->by, "created", (json_int_t)o->created, "until", (json_int_t)o->until);
    if (value != NULL &&
        (selector_to_json(&o->selector, value) != 0 ||
         (o->owner != NULL && json_object_set_new(value, "owner", json_string(o->owner)) != 0))) {
        json_decref(value);
        return NULL;
    }
    return value;
}

void shared_orders_know(struct shared_orders *s, const struct order *o, uint64_t revision)
{
    if (o->shared == 0) {
        return;
    }
    struct known_order *k = calloc(1, sizeof(*k));
    json_t *value = order_value(s, o);
    if (k == NULL || value == NULL) {
        log_error("out of memory: order %llu stays with this node", (unsigned long long)o->id);
        json_decref(value);
        free(k);
        return;
    }
    *k = (struct known_order){.shared = o->shared,
                              .revision = revision,
                              .value = value,
                              .until = o->until,
                              .must_put = revision == 0};
    (void)pthread_mutex_lock(&s->lock);
    k->next = s->known;
    s->known = k;
    (void)pthread_mutex_unlock(&s->lock);
    s->wake(s->ctx);
}

void shared_orders_lift(struct shared_orders *s, uint64_t shared)
{
    (void)pthread_mutex_lock(&s->lock);
    struct known_order *k = *find_known(s, shared);
    if (k != NULL) {
        json_t *lifted = json_pack("{s:i, s:s, s:b, s:I}", "format", FORMAT, "node", s->node,
                                   "lifted", 1, "until", (json_int_t)k->until);
        if (lifted != NULL) {
            json_decref(k->value);
            k->value = lifted;
            k->must_put = k->is_lifted = true;
        } else {
            log_error("out of memory: that an order was lifted here is not told to other nodes");
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    s->wake(s->ctx);
}

void shared_orders_forget(struct shared_orders *s, uint64_t shared)
{
    (void)pthread_mutex_lock(&s->lock);
    drop_known(s, shared);
    (void)pthread_mutex_unlock(&s->lock);
}

/* One that is to be put, as its text, heap; NULL: none is. */
static char *take_text_to_put(struct shared_orders *s, uint64_t *ret_shared, bool *ret_is_lifted)
{
    char *text = NULL;
    (void)pthread_mutex_lock(&s->lock);
    for (struct known_order *k = s->known; k != NULL && text == NULL; k = k->next) {
        usec_t left = k->until - clock_wall();
        if (k->must_put && left <= 0) {
            k->must_put = false; /* it is over, at the others too */
        } else if (k->must_put && json_object_set_new(k->value, "left", json_integer(left)) == 0) {
            *ret_shared = k->shared;
            *ret_is_lifted = k->is_lifted;
            text = json_dumps(k->value, JSON_COMPACT); /* NULL, out of memory: the next turn */
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return text;
}

/* The servers have it now. It may have been lifted meanwhile, and is put again then. */
static void note_put(struct shared_orders *s, uint64_t shared, bool is_lifted, uint64_t revision)
{
    (void)pthread_mutex_lock(&s->lock);
    struct known_order *k = *find_known(s, shared);
    if (k != NULL && k->is_lifted == is_lifted) {
        k->must_put = false;
        k->revision = revision > k->revision ? revision : k->revision; /* 0: the watch tells it */
        if (is_lifted) {
            drop_known(s, shared);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* An order is only ever put where there is no value: never in place of its end. */
static int put_one(struct shared_orders *s, uint64_t shared, const char *text, bool is_lifted,
                   uint64_t *ret_revision)
{
    char key[KEY_LEN + 1];
    struct slice value = slice_of(text);
    *ret_revision = 0;
    (void)snprintf(key, sizeof(key), "%016" PRIx64, shared);
    if (is_lifted) {
        return s->module->put(s->client, BUCKET, key, value, ret_revision);
    }
    int err = s->module->swap(s->client, BUCKET, key, value, 0, ret_revision);
    return err == ERR_AGAIN ? 0 : err; /* it is there, and the watch tells us its revision */
}

static void put_some(struct shared_orders *s)
{
    uint64_t shared, revision;
    bool is_lifted;
    char *text;
    if (!s->has_begun || clock_mono() < s->retry || !s->module->is_connected(s->client)) {
        return;
    }
    for (unsigned i = 0; i < PUTS_MOST && (text = take_text_to_put(s, &shared, &is_lifted)) != NULL;
         i++) {
        int err = put_one(s, shared, text, is_lifted, &revision);
        free(text);
        if (err != 0) {
            s->retry = clock_mono() + RETRY;
            return;
        }
        note_put(s, shared, is_lifted, revision);
    }
}

/* --- theirs ----------------------------------------------------------------------------------- */

static bool take_text(const json_t *o, const char *name, size_t most, char **ret)
{
    const json_t *value = json_object_get(o, name);
    return json_is_string(value) &&
           order_set_text(ret, slice_make(json_string_value(value), json_string_length(value)),
                          most) == 0;
}

static bool take_span(const json_t *o, const char *name, usec_t *ret)
{
    const json_t *value = json_object_get(o, name);
    *ret = json_integer_value(value);
    return json_is_integer(value) && *ret >= 0;
}

/* What is heard as it happens ends when as much time has passed here; what was there before we came
 * ends at its time by the clocks on the wall, which may differ somewhat. false: it is no order */
static bool read_order(const json_t *o, bool is_live, usec_t now, struct order *ret)
{
    const char *word, *kind = json_string_value(json_object_get(o, "order"));
    usec_t left, created, until;
    ret->kind = kind == NULL ? ORDER_NONE : order_kind_find(slice_of(kind));
    if (ret->kind == ORDER_NONE || selector_from_json(&ret->selector, o, &word) != 0 ||
        !take_text(o, "reason", ORDER_REASON_MAX, &ret->reason) ||
        !take_text(o, "by", ORDER_BY_MAX, &ret->by) ||
        (json_object_get(o, "owner") != NULL && !take_text(o, "owner", LABEL_MAX, &ret->owner)) ||
        !take_span(o, "left", &left) || left > SPAN_MOST || !take_span(o, "created", &created) ||
        !take_span(o, "until", &until)) {
        return false;
    }
    usec_t rest = is_live || until - now > left ? left : until - now;
    ret->is_once = json_is_true(json_object_get(o, "once"));
    ret->created = is_live || created > now ? now : created;
    ret->until = now + rest;
    return true;
}

static void add_wish(struct shared_orders *s, struct order_wish *w)
{
    w->next = NULL;
    (void)pthread_mutex_lock(&s->lock);
    *s->end = w;
    s->end = &w->next;
    (void)pthread_mutex_unlock(&s->lock);
    s->wake_owner(s->ctx);
}

/* true: this node has it already, or it was this one that said so */
static bool is_known(struct shared_orders *s, uint64_t shared, bool is_lift, uint64_t revision)
{
    (void)pthread_mutex_lock(&s->lock);
    struct known_order *k = *find_known(s, shared);
    bool is_ours = k != NULL && (!is_lift || k->is_lifted);
    if (is_ours) {
        k->revision = revision;
        k->must_put = k->must_put && k->is_lifted;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return is_ours;
}

/* What ended long ago, for whoever comes later: it would say nothing to anybody. */
static bool is_long_over(const json_t *o, usec_t now)
{
    usec_t until;
    return take_span(o, "until", &until) && until < now - KEPT_FOR;
}

/* errors: ERR_SYNTAX: it is none, or of a version that is not known; -ENOMEM */
static int take_value(struct shared_orders *s, const struct told *t, uint64_t shared,
                      const json_t *o)
{
    usec_t now = clock_wall();
    bool is_lift = json_is_true(json_object_get(o, "lifted"));
    if (json_integer_value(json_object_get(o, "format")) != FORMAT) {
        return ERR_SYNTAX;
    }
    if (!s->has_begun && is_long_over(o, now)) {
        (void)s->module->remove(s->client, BUCKET, t->key); /* else another time */
        return 0;
    }
    if (is_known(s, shared, is_lift, t->revision)) {
        return 0;
    }
    struct order_wish *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    w->is_lift = is_lift;
    if (!is_lift && !read_order(o, s->has_begun, now, &w->order)) {
        order_fini(&w->order);
        free(w);
        return ERR_SYNTAX;
    }
    w->order.shared = shared;
    w->revision = t->revision;
    if (!is_lift && w->order.until <= now) {
        order_fini(&w->order);
        free(w);
        return 0;
    }
    add_wish(s, w);
    return 0;
}

static bool parse_key(const char *key, uint64_t *ret)
{
    char *end;
    if (strlen(key) != KEY_LEN || strspn(key, "0123456789abcdef") != KEY_LEN) {
        return false;
    }
    *ret = strtoull(key, &end, 16);
    return *ret != 0;
}

/* The servers tell anew all that they have: what they had before may be lost. At the end of that,
 * they get what was not among it. */
static void note_telling(struct shared_orders *s, bool is_end)
{
    (void)pthread_mutex_lock(&s->lock);
    for (struct known_order *k = s->known; k != NULL; k = k->next) {
        k->revision = is_end ? k->revision : 0;
        k->must_put = k->must_put || (is_end && k->revision == 0);
    }
    (void)pthread_mutex_unlock(&s->lock);
    s->heard = is_end ? s->heard : 0;
    s->has_begun = is_end;
}

static void read_inbox(struct shared_orders *s)
{
    struct told *next;
    uint64_t shared;
    for (struct told *t = inbox_take(&s->inbox); t != NULL; t = next) {
        next = t->next;
        if (t->key[0] == '\0') {
            note_telling(s, t->is_put);
        } else if (t->is_put) {
            json_t *o = json_loadb(t->value, t->len, 0, NULL);
            int err = parse_key(t->key, &shared) ? take_value(s, t, shared, o) : ERR_SYNTAX;
            if (err != 0) {
                log_warning("cluster: order %.40s of another node is not obeyed: %s", t->key,
                            err_str(err));
            }
            json_decref(o);
        }
        s->heard = t->revision > s->heard ? t->revision : s->heard;
        free(t);
    }
}

bool shared_orders_work(struct shared_orders *s, uint64_t *ret_applied)
{
    if (s->client == NULL) {
        return false;
    }
    put_some(s);
    read_inbox(s);
    (void)pthread_mutex_lock(&s->lock);
    bool has_changed = s->wishes == NULL && s->has_begun && s->applied != s->heard;
    s->applied = has_changed ? s->heard : s->applied;
    *ret_applied = s->applied;
    (void)pthread_mutex_unlock(&s->lock);
    return has_changed;
}

/* --- wishes ----------------------------------------------------------------------------------- */

struct order_wish *shared_orders_wish(struct shared_orders *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct order_wish *w = s->wishes;
    (void)pthread_mutex_unlock(&s->lock);
    return w;
}

void shared_orders_wish_done(struct shared_orders *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct order_wish *w = s->wishes;
    s->wishes = w->next;
    if (s->wishes == NULL) {
        s->end = &s->wishes;
    }
    (void)pthread_mutex_unlock(&s->lock);
    order_fini(&w->order);
    free(w);
    s->wake(s->ctx);
}
