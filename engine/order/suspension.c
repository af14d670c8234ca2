/* See the header. Called by scheduler threads and by the thread that owns the order book; must not know
 * what a reply means. */
#include "engine/order/suspension.h"

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "engine/order/order.h"
#include "engine/order/order_book.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESCRIPTION_TEXT = 800 };

struct asked {
    struct list link;
    struct order order;
};

struct suspensions {
    pthread_mutex_t mutex;
    struct list asked;      /* under the mutex */
    _Atomic unsigned count; /* of them; written under the mutex */
};

struct suspensions *suspensions_new(void)
{
    struct suspensions *s = calloc(1, sizeof(*s));
    if (s == NULL || pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        return NULL;
    }
    list_init(&s->asked);
    return s;
}

static void free_asked(struct asked *a)
{
    order_fini(&a->order);
    free(a);
}

void suspensions_free(struct suspensions *s)
{
    if (s == NULL) {
        return;
    }
    list_foreach_safe(a, &s->asked, struct asked, link)
    {
        list_remove(&a->link);
        free_asked(a);
    }
    (void)pthread_mutex_destroy(&s->mutex); /* nobody has it */
    free(s);
}

bool suspensions_are_asked(const struct suspensions *s)
{
    return atomic_load_explicit(&s->count, memory_order_relaxed) > 0;
}

/* --- asking ------------------------------------------------------------------------------------- */

static bool is_plain(struct slice name)
{
    return name.len == 0 || memchr(name.data, '*', name.len) == NULL;
}

/* errors: of selector_set */
static int set_word(struct selector *s, enum selector_word word, struct slice value)
{
    return value.len == 0 ? 0 : selector_set(s, slice_of(selector_word_text(word)), value);
}

/* Where the mail is to wait. errors: of selector_set and order_set_text */
static int set_place(struct order *o, const struct suspension *wanted)
{
    int err =
        wanted->site.len == 0 ? ERR_LIMIT : order_set_text(&o->site, wanted->site, ORDER_SITE_MAX);
    if (err == ERR_LIMIT || err == ERR_SYNTAX) { /* a name that no order can have */
        err = set_word(&o->selector, SELECTOR_DESTINATION, wanted->destination);
    }
    return err;
}

/* errors: of selector_set and order_set_text */
static int describe(struct order *o, const struct suspension *wanted, usec_t now_wall)
{
    char by[ORDER_BY_MAX + 1], reason[ORDER_REASON_MAX + 1];
    int by_len = wanted->rule.len == 0
                     ? snprintf(by, sizeof(by), "a reply")
                     : snprintf(by, sizeof(by), "reply rule " SLICE_FMT, SLICE_ARG(wanted->rule));
    int reason_len = snprintf(reason, sizeof(reason), SLICE_FMT, SLICE_ARG(wanted->text));
    order_init(o);
    o->kind = ORDER_SUSPEND;
    o->created = now_wall;
    o->until = now_wall + wanted->span;
    int err = set_word(&o->selector, SELECTOR_TENANT, wanted->tenant);
    if (err == 0) {
        err = set_word(&o->selector, SELECTOR_CAMPAIGN, wanted->campaign);
    }
    if (err == 0) {
        err = set_place(o, wanted);
    }
    if (err == 0) {
        err = order_set_text(&o->by, slice_of_printed(by, sizeof(by), by_len), ORDER_BY_MAX);
    }
    if (err == 0) {
        err = order_set_text(&o->reason, slice_of_printed(reason, sizeof(reason), reason_len),
                             ORDER_REASON_MAX);
    }
    if (err == ERR_SYNTAX) { /* a reply that is no text says no more than its rule */
        err = order_set_text(&o->reason, SLICE("asked for by a reply"), ORDER_REASON_MAX);
    }
    return err;
}

static bool is_same_mail(const struct order *a, const struct order *b)
{
    struct slice x = a->site == NULL ? SLICE("") : slice_of(a->site);
    struct slice y = b->site == NULL ? SLICE("") : slice_of(b->site);
    return slice_eq(x, y) && selector_eq(&a->selector, &b->selector);
}

/* The same mail: the later end counts. */
static bool is_joined(struct suspensions *s, const struct order *o)
{
    list_foreach(a, &s->asked, struct asked, link)
    {
        if (is_same_mail(&a->order, o)) {
            a->order.until = o->until > a->order.until ? o->until : a->order.until;
            return true;
        }
    }
    return false;
}

void suspensions_ask(struct suspensions *s, const struct suspension *wanted, struct mailbox *taker)
{
    bool is_named = wanted->tenant.len + wanted->campaign.len > 0;
    if (!is_named || !is_plain(wanted->tenant) || !is_plain(wanted->campaign) ||
        !is_plain(wanted->destination)) {
        return;
    }
    struct asked *a = malloc(sizeof(*a));
    if (a == NULL || describe(&a->order, wanted, clock_wall()) != 0) {
        log_error("a suspension that a reply asked for could not be noted");
        if (a != NULL) {
            free_asked(a);
        }
        return;
    }
    (void)pthread_mutex_lock(&s->mutex);
    unsigned count = atomic_load_explicit(&s->count, memory_order_relaxed);
    bool is_taken = count < SUSPENSIONS_MOST && !is_joined(s, &a->order);
    if (is_taken) {
        list_push_back(&s->asked, &a->link);
        atomic_store_explicit(&s->count, count + 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    if (is_taken) {
        mailbox_wake(taker);
    } else {
        free_asked(a);
    }
}

/* --- taking ------------------------------------------------------------------------------------- */

static struct asked *take_first(struct suspensions *s)
{
    struct asked *a = NULL;
    (void)pthread_mutex_lock(&s->mutex);
    if (!list_is_empty(&s->asked)) {
        a = list_first(&s->asked, struct asked, link);
        list_remove(&a->link);
        unsigned count = atomic_load_explicit(&s->count, memory_order_relaxed);
        atomic_store_explicit(&s->count, count - 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return a;
}

/* An order for the same mail; NULL: none. */
static const struct order *find_same(const struct order_book *book, const struct order *o)
{
    const struct order *at;
    for (uint64_t id = 0; (at = order_book_next(book, id, NULL)) != NULL; id = at->id) {
        if (at->kind == ORDER_SUSPEND && !at->is_once && at->owner == NULL && is_same_mail(at, o)) {
            return at;
        }
    }
    return NULL;
}

static void describe_briefly(const struct order *o, char ret[static DESCRIPTION_TEXT])
{
    const char *const *value = (const char *const *)o->selector.value;
    const char *place = o->site != NULL ? o->site : value[SELECTOR_DESTINATION];
    (void)snprintf(ret, DESCRIPTION_TEXT, "suspend tenant=%s campaign=%s %s=%.300s for %lld s: %s",
                   value[SELECTOR_TENANT] == NULL ? "*" : value[SELECTOR_TENANT],
                   value[SELECTOR_CAMPAIGN] == NULL ? "*" : value[SELECTOR_CAMPAIGN],
                   o->site != NULL ? "site" : "destination", place == NULL ? "*" : place,
                   (long long)((o->until - o->created) / USEC_PER_SEC), o->reason);
}

/* How much later an end must be to be worth another order. */
#define LATER_LEAST USEC_PER_SEC

/* A longer one takes the place of a shorter one. */
static bool put_into_force(struct order_book *book, struct order *o)
{
    const struct order *same = find_same(book, o);
    if (same != NULL && same->until + LATER_LEAST >= o->until) {
        return false;
    }
    uint64_t id, before = same == NULL ? 0 : same->id;
    char text[DESCRIPTION_TEXT];
    describe_briefly(o, text); /* its texts pass to the book */
    int err = order_book_add(book, o, &id);
    if (err != 0) {
        log_error("a suspension that a reply asked for could not be given: %s", err_str(err));
        return false;
    }
    log_info("order %llu by a reply: %s", (unsigned long long)id, text);
    err = before == 0 ? 0 : order_book_remove(book, before);
    if (err != 0) {
        log_error("an order that a later one replaces stays in force: %s", err_str(err));
    }
    return true;
}

unsigned suspensions_take(struct suspensions *s, struct order_book *book, usec_t now_wall)
{
    unsigned given = 0;
    struct asked *a;
    while (suspensions_are_asked(s) && (a = take_first(s)) != NULL) {
        if (a->order.until > now_wall && put_into_force(book, &a->order)) {
            given++;
        }
        free_asked(a);
    }
    return given;
}
