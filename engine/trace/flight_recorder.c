#include "base/hash.h"
#include "engine/trace/flight_recorder_private.h"
#include "net/base64.h"
#include "net/smtp_client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_MAX = 64,        /* sessions of idle connections that go on when these do */
    SESSION_BYTES = 1024, /* about the bytes of one session, for which room is made
                                   * before it begins */
    GUESTS_MAX = 64,      /* other destinations that one session is known by */
    HASHES_BYTES = GUESTS_MAX * sizeof(uint64_t),
};

struct flight_recorder *flight_recorder_new(size_t budget, uint64_t seed)
{
    struct flight_recorder *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->budget = r->left = budget;
    r->seed = seed;
    list_init(&r->idle);
    for (int i = 0; i <= FLIGHT_KEPT_MAX + 1; i++) {
        list_init(&r->ranks[i]);
    }
    return r;
}

size_t flight_recorder_bytes(const struct flight_recorder *r)
{
    return r->budget - r->left;
}

/* --- destinations ----------------------------------------------------------------------------- */

static uint64_t hash_flight(const struct flight_recorder *r, uint16_t transport, struct slice name)
{
    return hash_bytes(name.data, name.len, r->seed + transport);
}

static struct flight_destination *find_destination_ring(const struct flight_recorder *r,
                                                        uint16_t transport, struct slice name,
                                                        uint64_t hash)
{
    struct flight_destination *to = r->buckets[hash % FLIGHT_BUCKETS];
    while (to != NULL && (to->hash != hash || to->transport != transport ||
                          !slice_eq(slice_make(to->name, to->name_len), name))) {
        to = to->next;
    }
    return to;
}

struct flight_destination *flight_destination_find(const struct flight_recorder *r,
                                                   uint16_t transport, struct slice name)
{
    return find_destination_ring(r, transport, name, hash_flight(r, transport, name));
}

static struct flight_destination *find_or_add(struct flight_recorder *r, uint16_t transport,
                                              struct slice name)
{
    uint64_t hash = hash_flight(r, transport, name);
    struct flight_destination *to = find_destination_ring(r, transport, name, hash);
    if (to != NULL) {
        return to;
    }
    size_t bytes = sizeof(*to) + name.len;
    if (bytes > r->left || name.len > UINT16_MAX || (to = calloc(1, bytes)) == NULL) {
        return NULL;
    }
    r->left -= bytes;
    to->hash = hash;
    to->transport = transport;
    to->name_len = (uint16_t)name.len;
    memcpy(to->name, name.data, name.len);
    list_init(&to->attached);
    list_init(&to->kept);
    list_init(&to->guests);
    list_init(&to->rank);
    to->next = r->buckets[hash % FLIGHT_BUCKETS];
    r->buckets[hash % FLIGHT_BUCKETS] = to;
    return to;
}

/* Frees a destination that has no sessions any more. */
static void leave_destination(struct flight_recorder *r, struct flight_destination *to)
{
    if (!list_is_empty(&to->attached) || !list_is_empty(&to->kept) || !list_is_empty(&to->guests)) {
        return;
    }
    struct flight_destination **at = &r->buckets[to->hash % FLIGHT_BUCKETS];
    while (*at != to) {
        at = &(*at)->next;
    }
    *at = to->next;
    list_remove(&to->rank);
    r->left += sizeof(*to) + to->name_len;
    free(to);
}

/* --- sessions --------------------------------------------------------------------------------- */

static size_t names_bytes(const struct flight *f)
{
    return strlen(f->host) + strlen(f->address) + strlen(f->source) + 3;
}

static char *append_name(char *at, struct slice name)
{
    memcpy(at, name.data, name.len);
    at[name.len] = '\0';
    return at + name.len + 1;
}

/* Of the budget, as its dialogue's memory is. errors: NULL */
static struct flight *flight_new(const struct flight_names *names, usec_t now, size_t *budget)
{
    size_t text = names->host.len + names->address.len + names->source.len + 3;
    size_t bytes = sizeof(struct flight) + text;
    struct flight *f = bytes > *budget ? NULL : calloc(1, bytes);
    if (f == NULL) {
        return NULL;
    }
    *budget -= bytes;
    char *at = (char *)(f + 1);
    f->host = at;
    at = append_name(at, names->host);
    f->address = at;
    at = append_name(at, names->address);
    f->source = at;
    (void)append_name(at, names->source);
    f->transport = names->transport;
    list_init(&f->link);
    list_init(&f->idle);
    list_init(&f->guests);
    dialogue_init(&f->dialogue, now, budget);
    return f;
}

static void forget_hashes(struct flight *f)
{
    if (f->guest_hashes != NULL) {
        *f->dialogue.budget += HASHES_BYTES;
        free(f->guest_hashes);
        f->guest_hashes = NULL;
    }
}

static void forget_why(struct flight *f)
{
    if (f->why != NULL) {
        *f->dialogue.budget += strlen(f->why) + 1;
        free(f->why);
        f->why = NULL;
    }
}

void flight_free(struct flight *f)
{
    size_t *budget = f->dialogue.budget;
    list_remove(&f->link);
    list_remove(&f->idle);
    forget_why(f);
    forget_hashes(f);
    dialogue_fini(&f->dialogue);
    *budget += sizeof(*f) + names_bytes(f);
    free(f);
}

static void set_why(struct flight *f, struct slice why)
{
    forget_why(f);
    why = why.len > FLIGHT_WHY_MAX ? slice_to(why, FLIGHT_WHY_MAX) : why;
    if (why.len + 1 <= *f->dialogue.budget && (f->why = malloc(why.len + 1)) != NULL) {
        memcpy(f->why, why.data, why.len);
        f->why[why.len] = '\0';
        /* What forget_why gives back: it asks strlen again, and `why` may hold a NUL. */
        *f->dialogue.budget -= strlen(f->why) + 1;
    }
}

/* --- secrets ---------------------------------------------------------------------------------- */

static void mask_bytes(struct flight *f, struct slice secret)
{
    dialogue_mask(&f->dialogue, secret);
    size_t len = f->why == NULL ? 0 : strlen(f->why);
    for (size_t i = 0; secret.len > 0 && i + secret.len <= len; i++) {
        if (memcmp(f->why + i, secret.data, secret.len) == 0) {
            memset(f->why + i, '*', secret.len);
        }
    }
}

static void mask_encoded(struct flight *f, struct slice secret)
{
    char *encoded = malloc(BASE64_ENCODED_LEN(secret.len) + 1);
    if (encoded == NULL) { /* then nothing is shown */
        dialogue_fini(&f->dialogue);
        return;
    }
    size_t len = base64_encode(secret, encoded);
    mask_bytes(f, slice_make(encoded, len));
    while (len > 0 && encoded[len - 1] == '=') {
        len--;
    }
    mask_bytes(f, slice_make(encoded, len));
    free(encoded);
}

/* Masks the password in the dialogue, in every form in which it was sent, as a server may have
 * repeated it in a reply. */
static void mask(struct flight *f)
{
    if (f->auth == NULL) {
        return;
    }
    struct buf plain = {.limit = 0};
    buf_append_char(&plain, '\0');
    buf_append_slice(&plain, f->auth->auth_user);
    buf_append_char(&plain, '\0');
    buf_append_slice(&plain, f->auth->auth_password);
    if (plain.failed) {
        dialogue_fini(&f->dialogue);
    } else {
        mask_encoded(f, buf_slice(&plain));
    }
    mask_encoded(f, f->auth->auth_password);
    mask_bytes(f, f->auth->auth_password);
    buf_fini(&plain);
    f->auth = NULL;
}

struct flight *flight_copy(const struct flight *f, size_t *budget)
{
    const struct flight_names names = {f->transport, SLICE(""), slice_of(f->host),
                                       slice_of(f->address), slice_of(f->source)};
    struct flight *copy = flight_new(&names, 0, budget);
    if (copy == NULL) {
        return NULL;
    }
    if (dialogue_copy(&f->dialogue, &copy->dialogue, budget) != 0) {
        flight_free(copy);
        return NULL;
    }
    copy->session = f->session;
    copy->started = f->started;
    copy->ended = f->ended;
    copy->messages = f->messages;
    copy->is_open = f->slot != NULL;
    copy->is_failed = f->is_failed;
    copy->is_excerpt = f->is_excerpt;
    copy->auth = f->auth;
    if (f->why != NULL) {
        set_why(copy, slice_of(f->why));
    }
    mask(copy);
    return copy;
}

/* --- those that are over ---------------------------------------------------------------------- */

static void rank(struct flight_recorder *r, struct flight_destination *to)
{
    list_remove(&to->rank);
    if (to->kept_count > 0) {
        list_push_back(&r->ranks[to->kept_count], &to->rank);
    }
}

static void note_missed(struct flight_destination *to, const struct flight *f)
{
    if (to->read_at != 0 && f->dialogue.changed >= to->read_at && !f->is_excerpt) {
        to->missed_sessions++;
        to->missed_lines += dialogue_line_count(&f->dialogue);
    }
}

static void drop_guest(struct flight_recorder *r, struct flight_guest *g)
{
    struct flight_destination *to = g->to;
    note_missed(to, g->flight);
    list_remove(&g->of_flight);
    list_remove(&g->of_destination);
    g->flight->guest_count--;
    r->left += sizeof(*g);
    free(g);
    leave_destination(r, to);
}

static void drop_guests(struct flight_recorder *r, struct flight *f)
{
    while (!list_is_empty(&f->guests)) {
        drop_guest(r, list_first(&f->guests, struct flight_guest, of_flight));
    }
}

/* returns  false, where the budget or memory ends: nothing has happened */
static bool add_guest(struct flight_recorder *r, struct flight *f, struct flight_destination *to)
{
    struct flight_guest *g = sizeof(*g) > r->left ? NULL : malloc(sizeof(*g));
    if (g == NULL) {
        leave_destination(r, to);
        return false;
    }
    r->left -= sizeof(*g);
    *g = (struct flight_guest){.flight = f, .to = to};
    list_push_back(&f->guests, &g->of_flight);
    list_push_back(&to->guests, &g->of_destination);
    if (++f->guest_count > GUESTS_MAX) {
        drop_guest(r, list_first(&f->guests, struct flight_guest, of_flight));
    }
    return true;
}

static void drop_kept(struct flight_recorder *r, struct flight *f)
{
    struct flight_destination *to = f->to;
    note_missed(to, f);
    drop_guests(r, f);
    to->kept_count--;
    flight_free(f);
    /* The destination moves to the list of those with one kept session less. */
    list_remove(&to->rank);
    if (to->kept_count > 0) {
        list_push_back(&r->ranks[to->kept_count], &to->rank);
    }
}

/* Drops the oldest kept session that is neither one of the last FLIGHT_LAST nor one of the last
 * FLIGHT_FAILED that failed. */
static void trim(struct flight_recorder *r, struct flight_destination *to)
{
    uint32_t count = 0, failed = 0;
    struct flight *extra = NULL;
    for (struct list *l = to->kept.prev; l != &to->kept; l = l->prev) {
        struct flight *f = container_of(l, struct flight, link);
        count++;
        failed += f->is_failed ? 1 : 0;
        if (count > FLIGHT_LAST && !(f->is_failed && failed <= FLIGHT_FAILED)) {
            extra = f;
        }
    }
    if (extra != NULL) {
        drop_kept(r, extra);
    }
}

static void keep_flight(struct flight_recorder *r, struct flight_destination *to, struct flight *f)
{
    f->to = to;
    list_remove(&f->link);
    list_push_back(&to->kept, &f->link);
    to->kept_count++;
    rank(r, to);
    trim(r, to);
}

/* Ends the recording of a session: its connection has no session to write to any more. */
static void detach(struct flight_recorder *r, struct flight *f)
{
    *f->slot = NULL;
    f->slot = NULL;
    if (list_is_linked(&f->idle)) {
        list_remove(&f->idle);
        r->idle_count--;
    }
    mask(f);
    dialogue_shrink(&f->dialogue);
    forget_hashes(f);
    keep_flight(r, f->to, f);
}

/* --- the budget ------------------------------------------------------------------------------- */

static bool give_one(struct flight_recorder *r)
{
    for (int i = FLIGHT_KEPT_MAX; i > 0; i--) {
        if (!list_is_empty(&r->ranks[i])) {
            struct flight_destination *to =
                list_first(&r->ranks[i], struct flight_destination, rank);
            drop_kept(r, list_first(&to->kept, struct flight, link));
            leave_destination(r, to);
            return true;
        }
    }
    if (list_is_empty(&r->idle)) {
        return false;
    }
    detach(r, list_first(&r->idle, struct flight, idle));
    return true;
}

static void make_recorder_room(struct flight_recorder *r, size_t bytes)
{
    while (r->left < bytes && give_one(r)) {
    }
}

void flight_recorder_set_budget(struct flight_recorder *r, size_t budget)
{
    if (budget >= r->budget) {
        r->left += budget - r->budget;
        r->budget = budget;
        return;
    }
    size_t less = r->budget - budget;
    make_recorder_room(r, less);
    less = less < r->left ? less : r->left;
    r->left -= less;
    r->budget -= less;
}

/* --- recording -------------------------------------------------------------------------------- */

void flight_begin(struct flight_recorder *r, struct flight **slot, const struct flight_names *names,
                  uint64_t session, usec_t now)
{
    assert(*slot == NULL);
    make_recorder_room(r, SESSION_BYTES);
    struct flight *f = flight_new(names, now, &r->left);
    if (f == NULL) {
        return;
    }
    f->to = find_or_add(r, names->transport, names->destination);
    if (f->to == NULL) {
        flight_free(f);
        return;
    }
    f->session = session;
    f->started = clock_wall();
    f->slot = slot;
    list_push_back(&f->to->attached, &f->link);
    *slot = f;
}

/* A failure in the session's dialogue is about to be overwritten: keeps a copy of the session, in
 * place of an earlier copy. */
static void keep_excerpt(struct flight_recorder *r, struct flight *f)
{
    struct flight *copy = flight_copy(f, &r->left);
    if (copy == NULL) {
        return;
    }
    copy->is_excerpt = true;
    list_foreach(g, &f->guests, struct flight_guest, of_flight)
    {
        (void)add_guest(r, copy, g->to); /* or it is known by fewer */
    }
    list_foreach(old, &f->to->kept, struct flight, link)
    {
        if (old->session == f->session) {
            drop_kept(r, old);
            break;
        }
    }
    keep_flight(r, f->to, copy);
}

static bool has_hash(const struct flight *f, uint64_t hash)
{
    for (uint32_t i = 0; f->guest_hashes != NULL && i < GUESTS_MAX; i++) {
        if (f->guest_hashes[i] == hash) {
            return true;
        }
    }
    return false;
}

static bool make_hashes(struct flight_recorder *r, struct flight *f)
{
    if (f->guest_hashes == NULL && HASHES_BYTES <= r->left) {
        f->guest_hashes = calloc(1, HASHES_BYTES);
        r->left -= f->guest_hashes == NULL ? 0 : HASHES_BYTES;
    }
    return f->guest_hashes != NULL;
}

/* A session is known by the destination that it began with, and by those whose mail came later. */
void flight_carry(struct flight_recorder *r, struct flight *f, struct slice destination)
{
    if (f == NULL) {
        return;
    }
    uint64_t hash = hash_flight(r, f->transport, destination);
    if (hash == f->to->hash || has_hash(f, hash)) {
        return;
    }
    flight_resume(r, f); /* or making room could end it */
    make_recorder_room(r, SESSION_BYTES);
    struct flight_destination *to = find_or_add(r, f->transport, destination);
    if (to == NULL) {
        return;
    }
    if (!make_hashes(r, f)) {
        leave_destination(r, to);
    } else if (add_guest(r, f, to)) {
        /* Guests go in the order in which they came, so the oldest hash is that of the one which went. */
        f->guest_hashes[f->next_hash++ % GUESTS_MAX] = hash;
    }
}

void flight_make_room(struct flight_recorder *r, struct flight *f, size_t bytes)
{
    flight_resume(r, f); /* a session that is under way is not dropped to make room */
    make_recorder_room(r, 2 * DIALOGUE_TAIL_BYTES);
    if (dialogue_forgets_failure(&f->dialogue, bytes)) {
        keep_excerpt(r, f);
    }
}

void flight_body(struct flight_recorder *r, struct flight *f, uint64_t id, uint64_t size_bytes,
                 usec_t now)
{
    if (f == NULL) {
        return;
    }
    if (dialogue_is_full(&f->dialogue, DIALOGUE_BODY_BYTES)) {
        flight_make_room(r, f, DIALOGUE_BODY_BYTES);
    }
    dialogue_append_body(&f->dialogue, id, size_bytes, now);
}

void flight_auth(struct flight_recorder *r, struct flight *f, struct slice commands, usec_t now)
{
    if (f != NULL) {
        flight_make_room(r, f, commands.len);
        dialogue_append_auth(&f->dialogue, commands, now);
    }
}

void flight_fail(struct flight_recorder *r, struct flight *f, struct slice why)
{
    if (f != NULL) {
        flight_resume(r, f);
        make_recorder_room(r, why.len + 1);
        f->is_failed = true;
        dialogue_mark(&f->dialogue);
        set_why(f, why);
    }
}

void flight_rest(struct flight_recorder *r, struct flight *f)
{
    if (f == NULL || list_is_linked(&f->idle)) {
        return;
    }
    list_push_back(&r->idle, &f->idle);
    if (++r->idle_count > IDLE_MAX) {
        detach(r, list_first(&r->idle, struct flight, idle));
    }
}

void flight_resume(struct flight_recorder *r, struct flight *f)
{
    if (f != NULL && list_is_linked(&f->idle)) {
        list_remove(&f->idle);
        r->idle_count--;
    }
}

void flight_end(struct flight_recorder *r, struct flight *f)
{
    if (f != NULL) {
        f->ended = clock_wall();
        detach(r, f);
    }
}

void flight_recorder_free(struct flight_recorder *r)
{
    for (int i = 0; r != NULL && i < FLIGHT_BUCKETS; i++) {
        while (r->buckets[i] != NULL) {
            struct flight_destination *to = r->buckets[i];
            assert(list_is_empty(&to->attached));
            if (list_is_empty(&to->kept)) { /* mail of it was in sessions of others */
                drop_guest(r, list_first(&to->guests, struct flight_guest, of_destination));
                continue;
            }
            struct flight *f = list_first(&to->kept, struct flight, link);
            drop_guests(r, f);
            flight_free(f);
            leave_destination(r, to);
        }
    }
    free(r);
}
