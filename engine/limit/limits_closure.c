/* Lanes that a receiver does not want, and destinations that do not want a lane. Called with the lock
 * held; must not know why a reply means that.
 *
 * One reply closes the lane when it names the lane's address. Else it closes the lane for the
 * destination that said it, and the lane as a whole when two destinations of the site have said it
 * to two tenants, or of a lane's only tenant to two messages: a list of one destination's own, or
 * one bad message, is then no reason to take the lane from all others. */
#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_PAUSE       (900 * USEC_PER_SEC)
#define BLOCK_PAUSE_MOST  (4 * 3600 * USEC_PER_SEC)
#define DESTINATIONS_MAX  256U /* of a lane */
#define CLOSED_MAX        100000U
#define OWN_FAILURE_PAUSE (60 * USEC_PER_SEC)
#define EVIDENCE_SPAN     (4 * 3600 * USEC_PER_SEC) /* what was said before is no evidence now */

/* --- addresses in texts ----------------------------------------------------------------------- */

static bool is_of_address(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' ||
           c == '.';
}

static int read_address(struct slice word, unsigned char ret[16])
{
    char text[INET6_ADDRSTRLEN];
    if (word.len >= sizeof(text)) {
        return 0;
    }
    memcpy(text, word.data, word.len);
    text[word.len] = '\0';
    if (inet_pton(AF_INET, text, ret) == 1) {
        return 4;
    }
    return inet_pton(AF_INET6, text, ret) == 1 ? 16 : 0;
}

bool limits_names_address(struct slice text, struct slice address)
{
    unsigned char ours[16], theirs[16];
    int len = read_address(address, ours);
    for (size_t at = 0; len > 0 && at < text.len;) {
        size_t end = at;
        while (end < text.len && is_of_address(text.data[end])) {
            end++;
        }
        if (end < text.len && (text.data[end] == 'v' || text.data[end] == 'V') &&
            end + 2 < text.len && text.data[end + 1] == '6' && text.data[end + 2] == ':') {
            at = end + 3; /* of "IPv6:2001:db8::1" */
            continue;
        }
        struct slice word = slice_make(text.data + at, end - at);
        while (word.len > 0 && (word.data[word.len - 1] == '.' || word.data[word.len - 1] == ':')) {
            word.len--; /* of the sentence */
        }
        if (word.len > 0 && read_address(word, theirs) == len &&
            memcmp(ours, theirs, (size_t)len) == 0) {
            return true;
        }
        at = end + 1;
    }
    return false;
}

/* --- the lane --------------------------------------------------------------------------------- */

void limits_close(struct limits *l, struct limits_lane *lane, usec_t span, bool is_ordered,
                  usec_t now)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL) {
        return;
    }
    learned->is_closed = true;
    learned->is_ordered = is_ordered;
    learned->closed_pause = span;
    learned->closed_until = now + span;
    learned->probed_at = 0;
    limits_lane_changed(l, lane, false, now);
}

void limits_source_failed(struct limits_hold *h, struct slice why, usec_t now)
{
    struct limits *l = h->borrower->limits;
    struct limits_lane *lane = h->lane;
    limits_enter(l);
    struct limits_learned *learned = limits_lane_learned(lane);
    bool is_closed = learned != NULL && learned->is_closed && learned->closed_until > now;
    if (learned != NULL && !is_closed) {
        limits_close(l, lane, OWN_FAILURE_PAUSE, false, now);
        limits_fact_note(learned, LIMITS_FACT_CLOSED, SLICE(""), why, now);
        limits_reacted(l, lane,
                       &(struct limits_reacted){.kind = LIMIT_REACTED_CLOSED,
                                                .text = why,
                                                .class = REPLY_UNAVAILABLE,
                                                .span = OWN_FAILURE_PAUSE},
                       now);
    }
    limits_leave_lock(l);
}

void limits_open(struct limits *l, struct limits_lane *lane, enum limit_reaction_cause cause,
                 usec_t now)
{
    struct limits_learned *learned = lane->learned;
    if (learned == NULL || !learned->is_closed) {
        return;
    }
    learned->is_closed = learned->is_ordered = false;
    learned->closed_until = learned->closed_pause = learned->probed_at = 0;
    limits_fact_end(learned, LIMITS_FACT_CLOSED);
    if (cause != LIMIT_DONE_BY_ORDER) { /* who tells of its own */
        limits_reacted(l, lane,
                       &(struct limits_reacted){.kind = LIMIT_REACTED_OPENED, .cause = cause}, now);
    }
    limits_lane_changed(l, lane, true, now);
}

void limits_probe_ended(struct limits *l, struct limits_lane *lane, usec_t now)
{
    if (lane->learned->probed_at > 0) {
        lane->learned->probed_at = 0;
        lane->learned->prober = NULL;
        limits_lane_changed(l, lane, true, now);
    }
}

/* The next closure: twice the one before. */
static usec_t next_pause(const struct limits_lane *lane, usec_t last)
{
    usec_t first = lane->block_pause > 0 ? lane->block_pause : BLOCK_PAUSE;
    usec_t most = first > BLOCK_PAUSE_MOST ? first : BLOCK_PAUSE_MOST;
    usec_t next = last > 0 ? 2 * last : first;
    return next < most ? next : most;
}

static void close_lane(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                       usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    usec_t span = next_pause(lane, learned->is_closed ? learned->closed_pause : 0);
    limits_close(l, lane, span, false, now);
    limits_fact_note(learned, LIMITS_FACT_CLOSED, r->rule, r->text, now);
    limits_reacted(l, lane,
                   &(struct limits_reacted){.kind = LIMIT_REACTED_CLOSED,
                                            .rule = r->rule,
                                            .text = r->text,
                                            .class = r->class,
                                            .span = span},
                   now);
}

/* --- destinations ----------------------------------------------------------------------------- */

static struct limits_closed *find_destination(const struct limits_learned *learned,
                                              struct slice name)
{
    list_foreach(c, &learned->destinations, struct limits_closed, in_lane)
    {
        if (slice_eq(slice_make(c->name, c->name_len), name)) {
            return c;
        }
    }
    return NULL;
}

static void free_destination(struct limits *l, struct limits_lane *lane, struct limits_closed *c)
    ON_ROLE(l->lock)
{
    list_remove(&c->in_lane);
    free(c);
    lane->learned->destination_count--;
    l->destination_total--;
}

void limits_free_destinations(struct limits *l, struct limits_lane *lane)
{
    list_foreach_safe(c, &lane->learned->destinations, struct limits_closed, in_lane)
    {
        free_destination(l, lane, c);
    }
}

/* Those that nobody spoke of for long are forgotten; the list has the latest last. */
static void forget_destinations(struct limits *l, struct limits_lane *lane, usec_t now)
    ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    while (!list_is_empty(&learned->destinations)) {
        struct limits_closed *c = list_first(&learned->destinations, struct limits_closed, in_lane);
        bool is_old = now >= c->until && now - c->said_at >= EVIDENCE_SPAN;
        if (!is_old && learned->destination_count < DESTINATIONS_MAX) {
            return;
        }
        free_destination(l, lane, c);
    }
}

static struct limits_closed *take_destination(struct limits *l, struct limits_lane *lane,
                                              struct slice name) ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    struct limits_closed *c = find_destination(learned, name);
    if (c == NULL) {
        bool may = name.len <= LIMITS_NAME_MAX && l->destination_total < CLOSED_MAX;
        c = may ? calloc(1, sizeof(*c) + name.len) : NULL;
        if (c == NULL) {
            return NULL;
        }
        c->name_len = name.len;
        memcpy(c->name, name.data, name.len);
        learned->destination_count++;
        l->destination_total++;
    } else {
        list_remove(&c->in_lane);
    }
    list_push_back(&learned->destinations, &c->in_lane);
    return c;
}

/* To whom it was said: the latest first, and another tenant if there is one. */
static void note_evidence(struct limits_closed *c, const struct limit_refusal *r, usec_t now)
{
    if (now - c->said_at >= EVIDENCE_SPAN || !c->is_of_lane) {
        c->tenants[1] = r->tenant;
        c->message[1] = r->message;
    } else if (c->tenants[0] != r->tenant || c->message[1] == c->message[0]) {
        c->tenants[1] = c->tenants[0];
        c->message[1] = c->message[0];
    }
    c->tenants[0] = r->tenant;
    c->message[0] = r->message;
    c->is_of_lane = true;
    c->said_at = now;
}

/* Has another destination said it, to somebody else? */
static bool is_confirmed(const struct limits_lane *lane, const struct limits_closed *c, usec_t now)
{
    bool has_tenants = atomic_load_explicit(&lane->has_tenants, memory_order_relaxed);
    list_foreach(o, &lane->learned->destinations, struct limits_closed, in_lane)
    {
        if (o == c || !o->is_of_lane || now - o->said_at >= EVIDENCE_SPAN) {
            continue;
        }
        for (unsigned i = 0; i < 4; i++) {
            unsigned mine = i % 2, theirs = i / 2;
            if (has_tenants ? c->tenants[mine] != o->tenants[theirs]
                            : c->message[mine] != o->message[theirs]) {
                return true;
            }
        }
    }
    return false;
}

static void tell_destination(struct limits_lane *lane, struct limits_closed *c)
{
    c->serial = ++lane->destination_serial;
    list_foreach(h, &lane->holds, struct limits_hold, in_lane)
    {
        limits_tell(h);
    }
}

static void close_destination(struct limits *l, struct limits_lane *lane, struct limits_closed *c,
                              const struct limit_refusal *r, usec_t now) ON_ROLE(l->lock)
{
    if (now < c->until) {
        return; /* it was on its way */
    }
    c->pause = next_pause(lane, c->pause);
    c->until = now + c->pause;
    limits_copy_text(c->reason, sizeof(c->reason), r->text);
    tell_destination(lane, c);
    limits_reacted(l, lane,
                   &(struct limits_reacted){.kind = LIMIT_REACTED_CLOSED_DESTINATION,
                                            .rule = r->rule,
                                            .text = r->text,
                                            .class = r->class,
                                            .destination = r->destination,
                                            .span = c->pause},
                   now);
}

/* The evidence has led to something. */
static void forget_evidence(struct limits_learned *learned)
{
    list_foreach(c, &learned->destinations, struct limits_closed, in_lane)
    {
        c->is_of_lane = false;
    }
}

void limits_blocked(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                    usec_t now)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL) {
        return;
    }
    bool is_of_lane = r->scope != REPLY_DESTINATION;
    if (learned->is_closed && (now < learned->closed_until || r->sent_at < learned->closed_until)) {
        return; /* it was on its way */
    }
    if (learned->is_closed && is_of_lane) {
        close_lane(l, lane, r, now); /* the probe */
        return;
    }
    limits_probe_ended(l, lane, now);
    forget_destinations(l, lane, now);
    struct limits_closed *c = take_destination(l, lane, r->destination);
    if (c != NULL && is_of_lane) {
        note_evidence(c, r, now);
    }
    bool is_named = is_of_lane && limits_names_address(r->text, r->address);
    if (is_named || (c != NULL && is_of_lane && is_confirmed(lane, c, now))) {
        close_lane(l, lane, r, now);
        forget_evidence(learned);
        return;
    }
    if (c != NULL) {
        close_destination(l, lane, c, r, now);
    }
}

void limits_open_destination(struct limits *l, struct limits_lane *lane,
                             const struct limit_accepted *a, usec_t now)
{
    struct limits_learned *learned = lane->learned;
    if (learned->destination_count == 0) {
        return;
    }
    struct limits_closed *c = find_destination(learned, a->destination);
    if (c != NULL && a->sent_at >= c->until) {
        free_destination(l, lane, c);
    }
    forget_destinations(l, lane, now);
}

void limits_open_destinations(struct limits *l, struct limits_lane *lane, usec_t now)
{
    (void)l;
    list_foreach(c, &lane->learned->destinations, struct limits_closed, in_lane)
    {
        if (c->until > now) {
            c->until = now;
            tell_destination(lane, c);
        }
        c->pause = 0;
        c->is_of_lane = false;
    }
}

bool limits_recall_destination(struct limits *l, struct limits_lane *lane,
                               const struct limits_recalled *what, usec_t now)
{
    forget_destinations(l, lane, now);
    struct limits_closed *c = take_destination(l, lane, what->name);
    bool is_longer = c != NULL && c->until < now + what->left;
    if (is_longer) {
        c->until = now + what->left;
        c->pause = what->pause;
        c->said_at = now;
        limits_copy_text(c->reason, sizeof(c->reason), what->reason);
        tell_destination(lane, c);
    }
    return is_longer;
}
