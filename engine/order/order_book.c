/* The standing orders in force. The owner replaces the whole snapshot at each change: orders are
 * few and change by hand. Judging is called by the activator, schedulers, workers and the writer.
 * Must not deliver, bounce or wake anybody: who asks does that. */
#include "engine/order/order_book.h"

#include "base/error.h"
#include "base/rcu.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time between two writes of the file that only bring the orders' counts up to date. */
#define NOTE_INTERVAL (60 * USEC_PER_SEC)

/* Constant once published, but for the counter. */
struct record {
    struct order order;
    struct rcu_retired retired;
    _Atomic uint64_t matched; /* any thread, relaxed: shown, and in the file now and then */
};

struct snapshot {
    struct rcu_retired retired;
    size_t count;
    struct record *records[]; /* ascending ids; snapshots share the records that they both have */
};

struct order_book {
    char *folder;              /* set at creation */
    uint64_t next_id;          /* owner */
    struct snapshot *snapshot; /* published by the owner; never NULL */
    /* any thread, relaxed: a reader that sees an old value judges as if it had come earlier */
    _Atomic uint32_t count, source_orders, site_orders;
    _Atomic uint64_t changes;  /* likewise */
    bool is_noted;             /* owner: the file says that no review is wanted */
    uint64_t noted_matched;    /* owner: sum of all orders' counts, as the file has it */
    usec_t note_at;            /* owner: when counts may be written next, monotonic */
    _Atomic uint64_t wanted;   /* number of the review that is wanted: written by the owner */
    _Atomic uint64_t reviewed; /* of the last one that was done: written by the activator */
};

static void release_record(struct rcu_retired *retired)
{
    struct record *r = container_of(retired, struct record, retired);
    order_fini(&r->order);
    free(r);
}

static void release_snapshot(struct rcu_retired *retired)
{
    free(container_of(retired, struct snapshot, retired));
}

static bool is_about_sources_only(const struct order *o)
{
    if (o->site != NULL) {
        return false;
    }
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        if ((o->selector.value[i] != NULL) != (i == SELECTOR_SOURCE)) {
            return false;
        }
    }
    return true;
}

/* NULL when out of memory. */
static struct snapshot *snapshot_new(size_t capacity)
{
    return calloc(1, sizeof(struct snapshot) + capacity * sizeof(struct record *));
}

/* NULL when out of memory; the order passes to it. */
static struct record *record_new(struct order *o)
{
    struct record *r = calloc(1, sizeof(*r));
    if (r != NULL) {
        r->order = *o;
        atomic_init(&r->matched, o->matched);
        order_init(o);
    }
    return r;
}

/* Publishes s. Returns the snapshot before it; the caller retires that, behind the records that s
 * does not have any more. */
static struct snapshot *publish_snapshot(struct order_book *b, struct snapshot *s)
{
    struct snapshot *old = b->snapshot;
    uint32_t source_orders = 0, site_orders = 0;
    for (size_t i = 0; i < s->count; i++) {
        source_orders += is_about_sources_only(&s->records[i]->order);
        site_orders += s->records[i]->order.site != NULL;
    }
    rcu_publish(&b->snapshot, s);
    atomic_store_explicit(&b->count, (uint32_t)s->count, memory_order_relaxed);
    atomic_store_explicit(&b->source_orders, source_orders, memory_order_relaxed);
    atomic_store_explicit(&b->site_orders, site_orders, memory_order_relaxed);
    /* Release: who reads this number finds the snapshot, or a later one. */
    atomic_fetch_add_explicit(&b->changes, 1, memory_order_release);
    return old;
}

static void retire_snapshot(struct snapshot *s)
{
    if (s != NULL) {
        rcu_retire(&s->retired, release_snapshot);
    }
}

/* --- start and end ---------------------------------------------------------------------------- */

static void free_all(struct snapshot *s)
{
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        release_record(&s->records[i]->retired);
    }
    free(s);
}

/* NULL when out of memory. */
static struct snapshot *snapshot_of(struct order_file *f, usec_t now_wall)
{
    struct snapshot *s = snapshot_new(f->count);
    for (size_t i = 0; s != NULL && i < f->count; i++) {
        if (f->orders[i].until <= now_wall) {
            continue;
        }
        struct record *r = record_new(&f->orders[i]);
        if (r == NULL) {
            free_all(s);
            return NULL;
        }
        s->records[s->count++] = r;
    }
    return s;
}

int order_book_open(const char *folder, usec_t now_wall, struct order_book **ret,
                    char text[static ORDER_FILE_TEXT_MAX])
{
    struct order_file file;
    int err = order_file_read(folder, &file, text);
    if (err != 0) {
        return err;
    }
    struct order_book *b = calloc(1, sizeof(*b));
    struct snapshot *s = snapshot_of(&file, now_wall);
    uint64_t next_id = file.next_id;
    bool is_reviewed = file.is_reviewed;
    order_file_fini(&file);
    if (b != NULL) {
        b->next_id = next_id;
        b->is_noted = is_reviewed;
        atomic_init(&b->wanted, !is_reviewed);
        b->folder = strdup(folder);
    }
    if (s == NULL || b == NULL || b->folder == NULL) {
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "standing orders: out of memory");
        free_all(s);
        order_book_free(b);
        return -ENOMEM;
    }
    for (size_t i = 0; i < s->count; i++) {
        b->noted_matched += s->records[i]->order.matched;
    }
    (void)publish_snapshot(b, s); /* there was none before */
    *ret = b;
    return 0;
}

void order_book_free(struct order_book *b)
{
    if (b != NULL) {
        if (b->snapshot != NULL && b->folder != NULL) {
            order_book_note_matched(b, b->note_at);
        }
        free_all(b->snapshot);
        free(b->folder);
        free(b);
    }
}

/* --- changes ---------------------------------------------------------------------------------- */

/* is_reviewed: whether the file says that held mail needs no review at the next start */
static int write_file(struct order_book *b, const struct snapshot *s, uint64_t next_id,
                      bool is_reviewed)
{
    const struct order *orders[ORDER_COUNT_MAX];
    struct order *copies = calloc(s->count + 1, sizeof(*copies)); /* with their present counts */
    uint64_t sum = 0;
    if (copies == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < s->count; i++) {
        copies[i] = s->records[i]->order;
        copies[i].matched = atomic_load_explicit(&s->records[i]->matched, memory_order_relaxed);
        sum += copies[i].matched;
        orders[i] = &copies[i];
    }
    /* A disk that stalls must not hold up grace periods. Pointers into the book stay valid, as only
     * this thread changes it. When main frees the book it is not online, and no other thread is
     * left. */
    bool is_online = rcu_is_online();
    if (is_online) {
        rcu_sleep();
    }
    int err = order_file_write(b->folder, next_id, is_reviewed, orders, s->count);
    if (is_online) {
        rcu_awake();
    }
    b->is_noted = err == 0 && is_reviewed;
    b->noted_matched = err == 0 ? sum : b->noted_matched;
    free(copies);
    return err;
}

/* Relaxed: a review that ends now may be noted late. */
static bool is_reviewed(const struct order_book *b)
{
    return atomic_load_explicit(&b->reviewed, memory_order_relaxed) ==
           atomic_load_explicit(&b->wanted, memory_order_relaxed);
}

int order_book_add(struct order_book *b, struct order *o, uint64_t *ret_id)
{
    const struct snapshot *old = b->snapshot;
    if (old->count >= ORDER_COUNT_MAX) {
        return ERR_LIMIT;
    }
    struct snapshot *s = snapshot_new(old->count + 1);
    struct record *r = s == NULL ? NULL : record_new(o);
    if (r == NULL) {
        free(s);
        return -ENOMEM;
    }
    memcpy(s->records, old->records, old->count * sizeof(s->records[0]));
    r->order.id = b->next_id;
    s->records[old->count] = r;
    s->count = old->count + 1;
    int err = write_file(b, s, b->next_id + 1, is_reviewed(b));
    if (err != 0) {
        *o = r->order; /* back to the caller */
        o->id = 0;
        free(r);
        free(s);
        return err;
    }
    *ret_id = b->next_id++;
    retire_snapshot(publish_snapshot(b, s));
    return 0;
}

static bool is_leaving(const struct order *o, uint64_t id, usec_t now_wall)
{
    return o->id == id || o->until <= now_wall;
}

/* Removes the order `id` (0: none) and all orders that are over at now_wall. With id 0 a file that
 * cannot be written is no error, as orders that are over do no harm there.
 *
 * must_review   held mail may have waited for a removed order, and must be looked at
 * errors        -ENOMEM, -errno */
static int remove_some(struct order_book *b, uint64_t id, usec_t now_wall, bool must_review)
{
    struct snapshot *old = b->snapshot, *s = snapshot_new(old->count);
    if (s == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < old->count; i++) {
        if (!is_leaving(&old->records[i]->order, id, now_wall)) {
            s->records[s->count++] = old->records[i];
        }
    }
    int err = write_file(b, s, b->next_id, !must_review && is_reviewed(b));
    if (err != 0 && id != 0) {
        free(s);
        return err;
    }
    atomic_fetch_add_explicit(&b->wanted, must_review, memory_order_relaxed);
    (void)publish_snapshot(b, s); /* old: retired below */
    for (size_t i = 0; i < old->count; i++) {
        struct record *r = old->records[i];
        if (is_leaving(&r->order, id, now_wall)) {
            rcu_retire(&r->retired, release_record);
        }
    }
    retire_snapshot(old);
    return 0;
}

static struct record *find_record(const struct snapshot *s, uint64_t id)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->records[middle]->order.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < s->count ? s->records[low] : NULL; /* the order `id`, or the first one above it */
}

int order_book_remove(struct order_book *b, uint64_t id)
{
    const struct record *r = find_record(b->snapshot, id);
    if (r == NULL || r->order.id != id || id == 0) {
        return ERR_MISSING;
    }
    return remove_some(b, id, INT64_MIN, r->order.kind == ORDER_SUSPEND);
}

size_t order_book_expire(struct order_book *b, usec_t now_wall)
{
    size_t count = 0;
    for (size_t i = 0; i < b->snapshot->count; i++) {
        count += b->snapshot->records[i]->order.until <= now_wall;
    }
    if (count > 0 && remove_some(b, 0, now_wall, false) != 0) {
        return 0; /* tried again later: orders that are over have no effect meanwhile */
    }
    return count;
}

void order_book_note_matched(struct order_book *b, usec_t now_mono)
{
    uint64_t sum = 0;
    if (now_mono < b->note_at) {
        return;
    }
    for (size_t i = 0; i < b->snapshot->count; i++) {
        sum += atomic_load_explicit(&b->snapshot->records[i]->matched, memory_order_relaxed);
    }
    if (sum != b->noted_matched) {
        b->note_at = now_mono + NOTE_INTERVAL;
        /* When it fails, noted_matched stays as it is, so that it is tried again later. */
        (void)write_file(b, b->snapshot, b->next_id, is_reviewed(b));
    }
}

bool order_book_note_review(struct order_book *b)
{
    return !b->is_noted && (!is_reviewed(b) || write_file(b, b->snapshot, b->next_id, true) != 0);
}

uint64_t order_book_wanted_review(const struct order_book *b)
{
    return atomic_load_explicit(&b->wanted, memory_order_relaxed);
}

bool order_book_awaits_review(const struct order_book *b)
{
    return !is_reviewed(b);
}

void order_book_reviewed(struct order_book *b, uint64_t number)
{
    atomic_store_explicit(&b->reviewed, number, memory_order_relaxed);
}

/* --- judging ---------------------------------------------------------------------------------- */

uint32_t order_book_size(const struct order_book *b)
{
    return atomic_load_explicit(&b->count, memory_order_relaxed);
}

uint64_t order_book_changes(const struct order_book *b)
{
    return atomic_load_explicit(&b->changes, memory_order_acquire);
}

bool order_book_is_empty(const struct order_book *b)
{
    return order_book_size(b) == 0;
}

bool order_book_has_source_orders(const struct order_book *b)
{
    return atomic_load_explicit(&b->source_orders, memory_order_relaxed) > 0;
}

bool order_book_has_site_orders(const struct order_book *b)
{
    return atomic_load_explicit(&b->site_orders, memory_order_relaxed) > 0;
}

static bool is_at(const struct order *o, struct slice site)
{
    return o->site == NULL || slice_eq(slice_of(o->site), site);
}

/* Whether an order is in force and its selector matches the mail, the source left aside. */
static bool applies(const struct order *o, const struct order_facts *f, usec_t now_wall)
{
    const struct slice facts[SELECTOR_COUNT] = {
        [SELECTOR_TENANT] = f->tenant,       [SELECTOR_CAMPAIGN] = f->campaign,
        [SELECTOR_DOMAIN] = f->domain,       [SELECTOR_DESTINATION] = f->destination,
        [SELECTOR_TRANSPORT] = f->transport,
    };
    if (o->until <= now_wall || (o->is_once && f->received > o->created) ||
        !order_is_of(o, f->tenant) || !is_at(o, f->site)) {
        return false;
    }
    for (enum selector_word word = 0; word < SELECTOR_SOURCE; word++) {
        if (!selector_matches_word(&o->selector, word, facts[word])) {
            return false;
        }
    }
    return true;
}

/* best: NULL for none yet */
static const struct order *harsher(const struct order *best, const struct order *o)
{
    return best == NULL || o->kind > best->kind || (o->kind == best->kind && o->until > best->until)
               ? o
               : best;
}

/* The order that bars one source for this mail; NULL: none does. With `least` ORDER_NONE it is the
 * harshest, else the one that lasts longest among those at least as harsh as `least`. */
static const struct order *cover(const struct snapshot *s, const struct order_facts *f,
                                 usec_t now_wall, struct slice source, enum order_kind least)
{
    const struct order *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct order *o = &s->records[i]->order;
        if (o->selector.value[SELECTOR_SOURCE] == NULL || o->kind < least ||
            !applies(o, f, now_wall) ||
            !selector_matches_word(&o->selector, SELECTOR_SOURCE, source)) {
            continue;
        }
        if (least == ORDER_NONE) {
            best = harsher(best, o);
        } else if (best == NULL || o->until > best->until) {
            best = o;
        }
    }
    return best;
}

/* The next name of a list "a,b"; false at the end. */
static bool next_name(struct slice *list, struct slice *ret)
{
    if (list->len == 0) {
        return false;
    }
    size_t end = slice_find(*list, ',');
    *ret = slice_to(*list, end);
    *list = slice_from(*list, end < list->len ? end + 1 : end);
    return true;
}

static struct order_verdict verdict_of(const struct order *o, usec_t now_wall)
{
    bool is_at_site = o->site != NULL;
    usec_t look = now_wall + ORDER_SITE_LOOK;
    return (struct order_verdict){.kind = o->kind,
                                  .id = o->id,
                                  .until = is_at_site && look < o->until ? look : o->until,
                                  .is_at_site = is_at_site,
                                  .reason = o->reason,
                                  .given = o->created};
}

/* Judges mail by orders that name sources. Mail leaves from the source with the mildest order, and
 * from any source without one, so the mildest kind over all sources counts. It holds until the
 * first source has no order of that kind any more. */
static void judge_sources(const struct snapshot *s, const struct order_facts *f, usec_t now_wall,
                          struct order_verdict *ret)
{
    enum order_kind kind = ORDER_KIND_COUNT;
    const struct order *first = NULL;
    struct slice name;
    for (struct slice list = f->sources; kind != ORDER_NONE && next_name(&list, &name);) {
        const struct order *o = cover(s, f, now_wall, name, ORDER_NONE);
        enum order_kind given = o == NULL ? ORDER_NONE : o->kind;
        kind = given < kind ? given : kind;
    }
    if (kind == ORDER_NONE || kind == ORDER_KIND_COUNT) {
        return;
    }
    for (struct slice list = f->sources; next_name(&list, &name);) {
        const struct order *o = cover(s, f, now_wall, name, kind);
        if (o != NULL && (first == NULL || o->until < first->until)) {
            first = o;
        }
    }
    if (first != NULL && (kind > ret->kind || (kind == ret->kind && first->until > ret->until))) {
        *ret = verdict_of(first, now_wall);
        ret->kind = kind;
        ret->is_by_sources = true;
    }
}

void order_book_judge(const struct order_book *b, const struct order_facts *facts, usec_t now_wall,
                      struct order_verdict *ret)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    const struct order *best = NULL;
    bool has_sources = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct order *o = &s->records[i]->order;
        bool names_source = o->selector.value[SELECTOR_SOURCE] != NULL;
        has_sources = has_sources || names_source;
        if (!names_source && applies(o, facts, now_wall)) {
            best = harsher(best, o);
        }
    }
    *ret = (struct order_verdict){.kind = ORDER_NONE};
    if (best != NULL) {
        *ret = verdict_of(best, now_wall);
    }
    if (has_sources) {
        judge_sources(s, facts, now_wall, ret);
    }
}

/* Whether an order may be about mail some of whose facts are not known (their data is NULL). */
static bool may_apply(const struct order *o, const struct order_facts *f, usec_t now_wall)
{
    const struct slice facts[SELECTOR_COUNT] = {
        [SELECTOR_TENANT] = f->tenant,       [SELECTOR_CAMPAIGN] = f->campaign,
        [SELECTOR_DOMAIN] = f->domain,       [SELECTOR_DESTINATION] = f->destination,
        [SELECTOR_TRANSPORT] = f->transport, [SELECTOR_SOURCE] = f->sources,
    };
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        if (facts[word].data != NULL && !selector_matches_word(&o->selector, word, facts[word])) {
            return false;
        }
    }
    return o->until > now_wall && !(o->is_once && f->received > o->created) &&
           (f->tenant.data == NULL || order_is_of(o, f->tenant)) &&
           (f->site.data == NULL || is_at(o, f->site));
}

bool order_book_holds_at_site(const struct order_book *b, const struct order_facts *facts,
                              usec_t now_wall)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    for (size_t i = 0; i < s->count; i++) {
        const struct order *o = &s->records[i]->order;
        if (o->site != NULL && applies(o, facts, now_wall)) {
            return true;
        }
    }
    return false;
}

bool order_book_may_concern(const struct order_book *b, const struct order_facts *facts,
                            enum order_kind least, usec_t now_wall)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    for (size_t i = 0; i < s->count; i++) {
        const struct order *o = &s->records[i]->order;
        if (o->kind >= least && may_apply(o, facts, now_wall)) {
            return true;
        }
    }
    return false;
}

const struct order *order_book_bar_of(const struct order_book *b, struct slice source,
                                      usec_t now_wall)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    const struct order *last = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct order *o = &s->records[i]->order;
        if (is_about_sources_only(o) && !o->is_once && o->until > now_wall &&
            selector_matches_word(&o->selector, SELECTOR_SOURCE, source) &&
            (last == NULL || o->until > last->until)) {
            last = o;
        }
    }
    return last;
}

bool order_book_bars_source(const struct order_book *b, struct slice source, usec_t now_wall)
{
    return order_book_bar_of(b, source, now_wall) != NULL;
}

bool order_book_would_hold(const struct order_book *b, const struct order *o,
                           const struct order_facts *facts, usec_t now_wall)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    struct slice name;
    bool has_own = false;
    if (!applies(o, facts, now_wall)) {
        return false;
    }
    if (o->selector.value[SELECTOR_SOURCE] == NULL) {
        return true;
    }
    for (struct slice list = facts->sources; next_name(&list, &name);) {
        bool is_own = selector_matches_word(&o->selector, SELECTOR_SOURCE, name);
        has_own = has_own || is_own;
        if (!is_own && cover(s, facts, now_wall, name, o->kind) == NULL) {
            return false;
        }
    }
    return has_own;
}

/* --- views ------------------------------------------------------------------------------------ */

void order_book_count(const struct order_book *b, uint64_t id, uint64_t recipients)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    struct record *r = find_record(s, id);
    if (r != NULL && r->order.id == id) {
        (void)atomic_fetch_add_explicit(&r->matched, recipients, memory_order_relaxed);
    }
}

void order_book_count_sources(const struct order_book *b, const struct order_facts *facts,
                              usec_t now_wall, uint64_t recipients)
{
    const struct snapshot *s = rcu_load(&b->snapshot);
    for (size_t i = 0; i < s->count; i++) {
        struct record *r = s->records[i];
        if (r->order.selector.value[SELECTOR_SOURCE] != NULL &&
            applies(&r->order, facts, now_wall) &&
            selector_matches_word(&r->order.selector, SELECTOR_SOURCE, facts->sources)) {
            (void)atomic_fetch_add_explicit(&r->matched, recipients, memory_order_relaxed);
        }
    }
}

const struct order *order_book_next(const struct order_book *b, uint64_t after,
                                    uint64_t *ret_matched)
{
    const struct record *r = find_record(rcu_load(&b->snapshot), after + 1);
    if (r != NULL && ret_matched != NULL) {
        *ret_matched = atomic_load_explicit(&r->matched, memory_order_relaxed);
    }
    return r == NULL ? NULL : &r->order;
}
