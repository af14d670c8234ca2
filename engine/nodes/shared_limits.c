/* Parts of rates as values of a bucket, and back: what is seen of a key, the step that limit_share.h
 * says, the compare-and-set. Values of others are checked and never asserted. */
#include "engine/nodes/shared_limits.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/cluster/limit_share.h"
#include "engine/limit/limits_part.h"
#include "engine/nodes/shared_quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET     "sluice_limits"
#define INBOX_MOST 65536U
#define SLOTS_MOST 1000U /* looked at in one turn of the thread, which has more to do */
#define SWAPS_MOST 50U
#define RETRY      (1 * USEC_PER_SEC)
/* Connections of a limit that is gone are there for a while, and it may return while a reload goes round. */
#define GONE_KEPT (5 * USEC_PER_SEC)
/* Nodes whose connections servers lost tell of them within that time. */
#define TOLD_AGAIN (5 * USEC_PER_SEC)

struct shared_limit {
    struct shared_limit *next; /* in its chain */
    struct shared_limit *next_gone;
    uint32_t slot;
    uint64_t id;
    char key[LIMITS_PART_KEY_MAX + 1];
    bool is_gone;
    usec_t gone_at;
    struct limit_share_entry lost; /* of this node, that the servers do not have; node 0: none */
    usec_t grows_after;            /* 0: at once */
    bool is_doubted;               /* the servers told anew, and it was not read since */
    bool is_known;  /* `value` and `revision` are of the servers */
    usec_t known;   /* boot time: since when others' parts in it are; 0: it was read in this turn */
    uint32_t burst; /* of the whole rate */
    uint64_t revision;
    struct limit_share value;
    struct limit_share_self self;
};

/* What one turn has left to spend, and what it knows. */
struct turn {
    const struct shared_limits_turn *of;
    usec_t now;
    unsigned swaps;
};

void shared_limits_init(struct shared_limits *s, struct limits *limits,
                        const struct cluster_module *module)
{
    *s = (struct shared_limits){.limits = limits, .module = module};
    inbox_init(&s->inbox, INBOX_MOST);
}

void shared_limits_fini(struct shared_limits *s)
{
    for (size_t i = 0; i < SHARED_LIMITS_CHAINS; i++) {
        for (struct shared_limit *k = s->chains[i], *next; k != NULL; k = next) {
            next = k->next;
            free(k);
        }
    }
    free(s->by_slot);
    inbox_fini(&s->inbox);
}

static void hear_limit(void *ctx, const char *key, const void *data, size_t len, uint64_t revision)
{
    struct shared_limits *s = ctx;
    (void)inbox_put(&s->inbox, key, data, len, revision); /* else its next change tells */
    s->wake(s->ctx);
}

int shared_limits_open(struct shared_limits *s, struct cluster_client *client)
{
    int err = s->module->bucket(client, SHARED_QUOTA_BUCKET);
    err = err != 0 ? err : cluster_module_follow(s->module, client, BUCKET, hear_limit, s);
    if (err == 0) {
        s->client = client;
    }
    return err;
}

/* --- what is known ---------------------------------------------------------------------------- */

/* Keys are hexadecimal digits of a hash. */
static struct shared_limit **chain_of(struct shared_limits *s, const char *key)
{
    char digits[5] = "";
    memcpy(digits, key, strnlen(key, 4));
    return &s->chains[strtoul(digits, NULL, 16) % SHARED_LIMITS_CHAINS];
}

static struct shared_limit *find_limit(struct shared_limits *s, const char *key)
{
    struct shared_limit *k = *chain_of(s, key);
    while (k != NULL && strcmp(k->key, key) != 0) {
        k = k->next;
    }
    return k;
}

static void leave_gone(struct shared_limits *s, struct shared_limit *k)
{
    struct shared_limit **at = &s->gone;
    while (*at != k) {
        at = &(*at)->next_gone;
    }
    *at = k->next_gone;
}

static void drop_limit(struct shared_limits *s, struct shared_limit *k)
{
    struct shared_limit **at = chain_of(s, k->key);
    while (*at != k) {
        at = &(*at)->next;
    }
    *at = k->next;
    if (k->is_gone) {
        leave_gone(s, k);
    } else {
        s->by_slot[k->slot] = NULL;
    }
    free(k);
    (void)atomic_fetch_sub_explicit(&s->count, 1, memory_order_relaxed);
}

/* The rate is configured no more: what was used of its key is given back. */
static void retire(struct shared_limits *s, struct shared_limit *k, usec_t now)
{
    s->by_slot[k->slot] = NULL;
    k->is_gone = true;
    k->gone_at = now;
    k->next_gone = s->gone;
    s->gone = k;
}

static bool has_slots(struct shared_limits *s, uint32_t slots)
{
    if (slots <= s->slot_count) {
        return true;
    }
    uint32_t count = slots + SLOTS_MOST;
    struct shared_limit **by_slot = realloc(s->by_slot, count * sizeof(struct shared_limit *));
    if (by_slot == NULL) {
        return false;
    }
    memset(by_slot + s->slot_count, 0, (count - s->slot_count) * sizeof(struct shared_limit *));
    s->by_slot = by_slot;
    s->slot_count = count;
    return true;
}

/* It goes on with the key, of which this node has yet what was not given back. */
static void return_limit(struct shared_limits *s, struct shared_limit *k, uint32_t slot,
                         uint64_t id)
{
    leave_gone(s, k);
    k->is_gone = false;
    k->slot = slot;
    k->id = id;
    s->by_slot[slot] = k;
}

/* NULL: out of memory, or another rate has the key still, another time then. */
static struct shared_limit *make_limit(struct shared_limits *s, uint32_t slot,
                                       const struct limits_part_view *v)
{
    struct shared_limit *k = find_limit(s, v->key), **chain = chain_of(s, v->key);
    if (k != NULL && k->is_gone) {
        return_limit(s, k, slot, v->id);
        return k;
    }
    k = k != NULL ? NULL : calloc(1, sizeof(*k));
    if (k == NULL) {
        return NULL;
    }
    k->slot = slot;
    k->id = v->id;
    k->burst = v->burst;
    memcpy(k->key, v->key, sizeof(k->key));
    k->self = (struct limit_share_self){
        .is_rate = v->kind == LIMITS_PART_OF_RATE, .limit = v->parts, .turn_min = v->token_time};
    limit_share_void(&k->self);
    k->next = *chain;
    *chain = k;
    s->by_slot[slot] = k;
    (void)atomic_fetch_add_explicit(&s->count, 1, memory_order_relaxed);
    return k;
}

static void set_part(struct shared_limits *s, const struct shared_limit *k, uint32_t share,
                     int64_t tokens)
{
    if (!k->is_gone) { /* false: it is gone since, and retired when it is looked at */
        (void)limits_part_set(s->limits, k->slot, k->id, share, tokens, clock_mono());
    }
}

/* --- a step ----------------------------------------------------------------------------------- */

/* A limit that no node has used: all of its burst is there. */
static void begin_value(struct shared_limit *k)
{
    uint64_t left = (uint64_t)k->burst * 1000, most = (uint64_t)LIMIT_SHARE_UNITS_MAX * 1000;
    k->value = (struct limit_share){.left = (uint32_t)(left < most ? left : most)};
    k->is_known = true;
}

/* Node 0: it has none. */
static struct limit_share_entry own_entry(const struct shared_limit *k)
{
    for (uint32_t i = 0; i < k->value.count; i++) {
        if (k->value.entries[i].node == k->self.node) {
            return k->value.entries[i];
        }
    }
    return (struct limit_share_entry){.node = 0};
}

/* A value that is none, or of another version, is begun anew, without any of the burst: else the
 * limit's mail would wait for whoever put it. One of a lower revision than was seen is of servers that lost
 * all: connections are there yet, and told again by each node. errors: of the module */
static int read_value(struct shared_limits *s, struct shared_limit *k, const struct turn *turn)
{
    struct cluster_value is = {.data = NULL};
    int err = s->module->get(s->client, BUCKET, k->key, &is);
    if (err != 0 && err != ERR_MISSING) {
        return err;
    }
    /* Else a server that lags answered, and the compare-and-set will say so. */
    if (k->is_doubted && is.revision < k->revision && !k->self.is_rate) {
        k->grows_after = turn->now + TOLD_AGAIN;
        k->lost = own_entry(k);
    }
    k->is_doubted = false;
    k->known = is.revision == k->revision ? k->known : 0;
    k->revision = is.revision;
    if (err == ERR_MISSING) {
        begin_value(k);
    } else if (limit_share_parse(slice_make(is.data, is.len), &k->value) != 0) {
        log_warning("cluster: limit %s has a value of no version that is known here; it is begun "
                    "anew",
                    k->key);
        k->value = (struct limit_share){.count = 0};
    }
    k->is_known = true;
    free(is.data);
    return 0;
}

/* A node that was late may be back: who put its part there was heard only if the value is older than our
 * entry by which it was found silent. */
static void drop_late(struct shared_limits *s, const struct shared_limit *k,
                      const struct turn *turn, struct limit_share *seen)
{
    bool is_old = k->known != 0 && k->known <= turn->of->heard;
    for (uint32_t i = k->value.count; i > 0; i--) {
        uint16_t node = k->value.entries[i - 1].node;
        if (node == turn->of->node || !s->is_late(s->ctx, node)) {
            continue;
        }
        if (is_old) {
            limit_share_drop(seen, node);
        }
        s->is_in_doubt |= !is_old;
    }
}

/* errors: of the module; ERR_AGAIN: somebody else was first */
static int put_step(struct shared_limits *s, struct shared_limit *k,
                    const struct limit_share_step *step)
{
    struct buf text;
    uint64_t revision = 0;
    buf_init(&text, CLUSTER_VALUE_MAX);
    limit_share_print(&text, &step->value);
    int err = text.failed ? -ENOMEM
                          : s->module->swap(s->client, BUCKET, k->key, buf_slice(&text),
                                            k->revision, &revision);
    buf_fini(&text);
    if (err != 0) {
        k->is_known = false;
        return err;
    }
    k->value = step->value;
    k->revision = revision;
    k->lost.node = 0;
    (void)atomic_fetch_add_explicit(&s->puts, 1, memory_order_relaxed);
    return 0;
}

/* Nobody wants the rate here, and the key says nothing of this node. */
static void end_limit(struct shared_limits *s, struct shared_limit *k)
{
    if (k->self.want == 0 && k->is_known && own_entry(k).node == 0 &&
        (k->is_gone || limits_part_end(s->limits, k->slot, k->id, clock_mono()))) {
        drop_limit(s, k);
    }
}

/* The node may use fewer connections from now on: those that were lent since it was looked at are in use
 * too, and no more are from here on. */
static void count_again(struct shared_limits *s, struct shared_limit *k,
                        const struct limit_share *seen, const struct turn *turn,
                        struct limit_share_step *step)
{
    struct limits_part_view v;
    if (!k->self.is_rate && limits_part_look(s->limits, k->slot, clock_mono(), &v) &&
        v.id == k->id) {
        k->self.in_use = v.in_use;
        limit_share_next(seen, &k->self, turn->now, step);
    }
}

/* v: NULL: nothing is wanted. errors: of a server that does not answer; k may be freed */
static int take_step(struct shared_limits *s, struct shared_limit *k,
                     const struct limits_part_view *v, struct turn *turn)
{
    struct limit_share_step step;
    k->self.node = turn->of->node;
    k->self.want = v == NULL || turn->of->is_end ? 0 : v->want;
    k->self.tokens = v == NULL ? 0 : v->tokens;
    k->self.in_use = v == NULL ? 0 : v->in_use;
    k->known = k->known == 0 ? turn->now : k->known; /* it was read before this turn */
    if (!k->is_known) {
        turn->swaps++;
        int err = read_value(s, k, turn);
        if (err != 0) {
            return err;
        }
    }
    if (k->lost.node != 0) {
        limit_share_restore(&k->value, &k->lost, k->self.limit);
        k->lost = own_entry(k); /* none, when the value is full */
    }
    if (turn->now < k->grows_after) {
        uint32_t most = own_entry(k).share;
        k->self.want = k->self.want < most ? k->self.want : most;
    }
    struct limit_share seen = k->value;
    drop_late(s, k, turn, &seen);
    limit_share_next(&seen, &k->self, turn->now, &step);
    uint32_t has = v == NULL ? 0 : v->share;
    if (step.may_use != has || step.give > 0) {
        set_part(s, k, step.may_use, -(int64_t)step.give);
    }
    if (step.may_use < has) {
        count_again(s, k, &seen, turn, &step);
    }
    if (step.is_due || k->lost.node != 0) {
        turn->swaps++;
        int err = put_step(s, k, &step);
        if (err == ERR_AGAIN) {
            set_part(s, k, step.may_use, step.give);
            return 0; /* the next turn reads it again */
        }
        if (err != 0) {
            return err;
        }
        if (limit_share_put(&k->self, &step, turn->now)) {
            set_part(s, k, step.then_use, step.take);
        }
    }
    end_limit(s, k);
    return 0;
}

/* --- the thread's turn ------------------------------------------------------------------------ */

static void void_all(struct shared_limits *s)
{
    for (uint32_t i = 0; i < s->slot_count; i++) {
        if (s->by_slot[i] != NULL) {
            limit_share_void(&s->by_slot[i]->self);
            set_part(s, s->by_slot[i], 0, 0);
        }
    }
    for (struct shared_limit *k = s->gone; k != NULL; k = k->next_gone) {
        limit_share_void(&k->self);
    }
}

/* The servers tell anew all that they have: what they had before may be lost. */
static void doubt_all(struct shared_limits *s)
{
    for (uint32_t i = 0; i < s->slot_count; i++) {
        if (s->by_slot[i] != NULL) {
            s->by_slot[i]->is_known = false;
            s->by_slot[i]->is_doubted = true;
        }
    }
    for (struct shared_limit *k = s->gone; k != NULL; k = k->next_gone) {
        k->is_known = false;
        k->is_doubted = true;
    }
}

static void take_told(struct shared_limits *s, usec_t now)
{
    for (struct told *t = inbox_take(&s->inbox), *next; t != NULL; t = next) {
        bool is_telling = t->key[0] == '\0';
        struct shared_limit *k = is_telling ? NULL : find_limit(s, t->key);
        next = t->next;
        if (is_telling && !t->is_put) {
            doubt_all(s);
        }
        if (k != NULL && t->revision > k->revision) {
            struct limit_share value;
            k->is_known = t->is_put && limit_share_parse(slice_make(t->value, t->len), &value) == 0;
            if (k->is_known) { /* else it is read, and judged then */
                k->value = value;
                k->revision = t->revision;
                k->known = now;
            }
        }
        free(t);
    }
}

/* What is wanted of a quota is taken, and what is left over goes back. errors: of a server */
static int work_quota(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v,
                      struct turn *turn)
{
    bool is_over = turn->of->is_end || v->is_idle;
    if (v->want > 0 && !turn->of->is_end) {
        turn->swaps++;
        return shared_quota_take(s, slot, v);
    }
    if (is_over && v->share > 0) {
        turn->swaps++;
        return shared_quota_give(s, slot, v);
    }
    if (is_over) {
        (void)limits_part_end(s->limits, slot, v->id, clock_mono()); /* false: it is wanted again */
    }
    return 0;
}

static int work_slot(struct shared_limits *s, uint32_t slot, struct turn *turn)
{
    struct limits_part_view v;
    bool is_there = limits_part_look(s->limits, slot, clock_mono(), &v);
    struct shared_limit *k = s->by_slot[slot];
    if (k != NULL && (!is_there || v.id != k->id)) {
        retire(s, k, turn->now);
        k = NULL;
    }
    if (is_there && v.kind == LIMITS_PART_OF_QUOTA) {
        return work_quota(s, slot, &v, turn);
    }
    if (is_there && k == NULL && !turn->of->is_end) {
        k = make_limit(s, slot, &v);
    }
    return k == NULL ? 0 : take_step(s, k, &v, turn);
}

static int work_gone(struct shared_limits *s, struct turn *turn)
{
    int err = 0;
    for (struct shared_limit *k = s->gone, *next; k != NULL && err == 0; k = next) {
        bool is_kept =
            !k->self.is_rate && !turn->of->is_end && turn->now - k->gone_at < GONE_KEPT;
        next = k->next_gone;
        err = turn->swaps < SWAPS_MOST && !is_kept ? take_step(s, k, NULL, turn) : 0;
    }
    return err;
}

void shared_limits_heed(struct shared_limits *s, uint32_t lapses)
{
    if (lapses != s->lapses) {
        s->lapses = lapses;
        void_all(s);
    }
}

bool shared_limits_work(struct shared_limits *s, const struct shared_limits_turn *of, usec_t now)
{
    struct turn turn = {.of = of, .now = now};
    shared_limits_heed(s, of->lapses);
    if (s->client == NULL) {
        return false;
    }
    take_told(s, now);
    s->is_in_doubt = false;
    uint32_t slots = limits_part_slots(s->limits);
    if (of->node == 0 || !of->may_use || clock_mono() < s->retry ||
        !s->module->is_connected(s->client) || !has_slots(s, slots)) {
        return false;
    }
    int err = work_gone(s, &turn);
    uint32_t looked = 0;
    while (err == 0 && looked < slots && looked < SLOTS_MOST && turn.swaps < SWAPS_MOST) {
        s->next_slot = s->next_slot < slots ? s->next_slot : 0;
        err = work_slot(s, s->next_slot, &turn);
        s->next_slot++;
        looked++;
    }
    if (err != 0) {
        s->retry = clock_mono() + RETRY;
    }
    return err == 0 && turn.swaps >= SWAPS_MOST;
}
