/* Shares of a limit: what is fair, and what one node does next towards it.
 * Called by the thread that talks to the cluster, the simulator and models. It must not read a
 * clock, nor know how a value travels. */
#include "engine/cluster/limit_share.h"

#include <assert.h>
#include <string.h>

/* A turn is ended by the first node of the value; each one behind it waits so much longer, so that
 * they do not all try at once. */
#define TURN_STAGGER (USEC_PER_SEC / 4)

/* How a limit divides over wants. */
struct division {
    uint32_t level;     /* what each of the contested has at least */
    uint32_t rest;      /* units above that, one for each of so many of them */
    uint32_t contested; /* entries that want more than `level` */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Entries that want no more than the level are content, and what they leave raises it for others;
 * at most one round an entry, as each but the last makes one more content. */
static struct division divide(const struct limit_share *v, uint32_t limit)
{
    struct division d = {.level = 0, .contested = v->count};
    for (bool is_settled = false; !is_settled && d.contested > 0;) {
        uint32_t rest = limit, content = 0;
        for (uint32_t i = 0; i < v->count; i++) {
            if (v->entries[i].want <= d.level) {
                rest -= v->entries[i].want;
                content++;
            }
        }
        uint32_t others = v->count - content;
        is_settled = others > 0 && rest / others == d.level;
        d.contested = others;
        if (others > 0) {
            d.level = rest / others;
            d.rest = rest % others;
        }
    }
    d.rest = d.contested > 0 ? d.rest : 0;
    return d;
}

uint32_t limit_share_fair(const struct limit_share *v, uint32_t limit, uint32_t *ret)
{
    struct division d = divide(v, limit);
    uint64_t first = d.contested > 0 ? (uint64_t)v->turn * d.rest % d.contested : 0;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        ret[i] = least(v->entries[i].want, d.level);
        if (v->entries[i].want > d.level) {
            ret[i] += (rank + d.contested - first) % d.contested < d.rest;
            rank++;
        }
    }
    return d.rest > 0 ? d.contested : 0;
}

uint32_t limit_share_parts(uint32_t burst)
{
    return burst > 1 ? least(burst, LIMIT_SHARE_PARTS_MAX) : 1;
}

uint32_t limit_share_chunk(uint64_t taken, uint32_t quota)
{
    uint32_t chunk = quota > 100 ? quota / 100 : 1;
    if (taken >= quota) {
        return 0;
    }
    uint64_t rest = quota - taken;
    return rest < chunk ? (uint32_t)rest : chunk;
}

/* Where the node's entry is, or would be. */
static uint32_t place_of(const struct limit_share *v, uint16_t node)
{
    uint32_t at = 0;
    while (at < v->count && v->entries[at].node < node) {
        at++;
    }
    return at;
}

static bool has_entry(const struct limit_share *v, uint32_t at, uint16_t node)
{
    return at < v->count && v->entries[at].node == node;
}

void limit_share_drop(struct limit_share *v, uint16_t node)
{
    uint32_t at = place_of(v, node);
    if (has_entry(v, at, node)) {
        v->count--;
        memmove(&v->entries[at], &v->entries[at + 1],
                (v->count - at) * sizeof(struct limit_share_entry));
    }
}

/* The node's own entry; an empty one is put in. NULL: the value is full of others. */
static struct limit_share_entry *own_entry(struct limit_share *v, uint16_t node)
{
    uint32_t at = place_of(v, node);
    if (has_entry(v, at, node)) {
        return &v->entries[at];
    }
    if (v->count == LIMIT_SHARE_NODES_MAX) {
        return NULL;
    }
    memmove(&v->entries[at + 1], &v->entries[at],
            (v->count - at) * sizeof(struct limit_share_entry));
    v->count++;
    v->entries[at] = (struct limit_share_entry){.node = node};
    return &v->entries[at];
}

/* Whether another want is worth a put: it moved by a quarter, or what was told is old. */
static bool is_want_due(uint32_t told, uint32_t want, usec_t told_at, usec_t now)
{
    uint32_t apart = told > want ? told - want : want - told;
    return apart > 0 && (4 * (uint64_t)apart >= told || now - told_at >= LIMIT_SHARE_WANT_OLD);
}

static usec_t turn_length(const struct division *d, usec_t turn_min)
{
    uint32_t turns = (d->contested + d->rest - 1) / d->rest;
    usec_t length = LIMIT_SHARE_ROUND / turns;
    length = length > LIMIT_SHARE_TURN_MIN ? length : LIMIT_SHARE_TURN_MIN;
    length = length < LIMIT_SHARE_TURN ? length : LIMIT_SHARE_TURN;
    return length > turn_min ? length : turn_min;
}

/* End the turn in `v` when it is over, and say when it will be; true: it was over. */
static bool move_turn(struct limit_share *v, const struct limit_share_self *self, usec_t now,
                      usec_t *look_at)
{
    struct division d = divide(v, self->limit);
    if (d.rest == 0) {
        return false;
    }
    usec_t end = self->turn_begun + turn_length(&d, self->turn_min) +
                 (usec_t)place_of(v, self->node) * TURN_STAGGER;
    if (now >= end) {
        v->turn++;
        return true;
    }
    *look_at = end < *look_at ? end : *look_at;
    return false;
}

/* Tokens of a rate go with its units: of what a node holds to the key, and out of the key. */
static void move_tokens(const struct limit_share_self *self, uint32_t mine, uint32_t next,
                        uint32_t free_units, struct limit_share_step *ret)
{
    if (next < mine) {
        ret->give = (uint32_t)((uint64_t)self->tokens * (mine - next) / mine);
        uint64_t left = (uint64_t)ret->value.left + ret->give;
        uint64_t most = (uint64_t)LIMIT_SHARE_UNITS_MAX * 1000;
        ret->value.left = (uint32_t)(left < most ? left : most);
    } else if (next > mine) {
        ret->take = (uint32_t)((uint64_t)ret->value.left * (next - mine) / free_units);
        ret->value.left -= ret->take;
    }
}

static uint32_t all_shares(const struct limit_share *v)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        sum += v->entries[i].share;
    }
    return (uint32_t)sum; /* at most 64 times a million */
}

void limit_share_restore(struct limit_share *v, const struct limit_share_entry *entry,
                         uint32_t limit)
{
    uint32_t sum = all_shares(v);
    if (!has_entry(v, place_of(v, entry->node), entry->node)) {
        struct limit_share_entry *own = own_entry(v, entry->node);
        if (own != NULL) {
            own->share = least(entry->share, sum < limit ? limit - sum : 0);
            own->want = own->share;
        }
    }
}

/* The share that is fair now is `target`; the node has `mine`, and nobody has `free_units`. What is in
 * use beyond `mine`, after it stood still, is not told: others have it, and it is closed. */
static uint32_t next_share(const struct limit_share_self *self, uint32_t mine, uint32_t target,
                           uint32_t free_units)
{
    if (target > mine) {
        return mine + least(target - mine, free_units);
    }
    uint32_t kept = least(self->in_use, mine);
    return kept > target ? kept : target;
}

void limit_share_next(const struct limit_share *seen, struct limit_share_self *self, usec_t now,
                      struct limit_share_step *ret)
{
    uint32_t fair[LIMIT_SHARE_NODES_MAX];
    assert(self->limit > 0 && self->limit <= LIMIT_SHARE_UNITS_MAX && self->node > 0);
    *ret = (struct limit_share_step){.look_at = USEC_NEVER, .voids = self->voids, .value = *seen};
    if (!self->has_turn || self->turn != seen->turn) {
        self->has_turn = true;
        self->turn = seen->turn;
        self->turn_begun = now;
    }
    uint32_t place = place_of(seen, self->node);
    bool had_entry = has_entry(seen, place, self->node);
    struct limit_share *v = &ret->value;
    struct limit_share_entry *own = own_entry(v, self->node);
    if (own == NULL) {
        return;
    }
    uint32_t mine = self->is_void ? least(own->share, self->in_use) : own->share;
    uint32_t want = least(self->want, self->limit), told = own->want;
    own->share = mine;
    if (!had_entry || is_want_due(told, want, self->want_put, now)) {
        own->want = want;
    } else if (want != told) {
        ret->look_at = self->want_put + LIMIT_SHARE_WANT_OLD;
    }
    bool is_turned = move_turn(v, self, now, &ret->look_at);
    uint32_t sum = all_shares(v), free_units = sum < self->limit ? self->limit - sum : 0;
    (void)limit_share_fair(v, self->limit, fair); /* turns were moved above */
    uint32_t target = fair[place], next = next_share(self, mine, target, free_units);
    if (self->is_rate) {
        move_tokens(self, mine, next, free_units, ret);
    }
    uint32_t old = had_entry ? seen->entries[place].share : 0;
    ret->is_due = is_turned || next != old || own->want != told || (self->is_void && had_entry);
    own->share = next;
    ret->may_use = self->is_void ? 0 : least(mine, target); /* the value may be an old one */
    ret->then_use = least(next, target);
    if (own->want == 0 && next == 0) {
        limit_share_drop(v, self->node);
        ret->is_due |= had_entry;
    }
}

void limit_share_void(struct limit_share_self *self)
{
    self->is_void = true;
    self->voids++;
}

bool limit_share_put(struct limit_share_self *self, const struct limit_share_step *step, usec_t now)
{
    const struct limit_share *v = &step->value;
    if (self->voids != step->voids) {
        return false;
    }
    uint32_t place = place_of(v, self->node);
    uint32_t want = has_entry(v, place, self->node) ? v->entries[place].want : 0;
    if (self->turn != v->turn) {
        self->turn = v->turn;
        self->turn_begun = now;
    }
    if (want != self->want_told) {
        self->want_told = want;
        self->want_put = now;
    }
    self->is_void = false;
    return true;
}
