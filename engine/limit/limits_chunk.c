/* Quotas that all nodes eat from: this node lends of what it took of one, a chunk at a time. Called with the
 * lock held by whoever lends of a quota or repays, and without by the thread that speaks to other nodes.
 *
 * What was taken counts for all nodes from then on, used or not, so it may be used without asking anybody,
 * whatever becomes of the servers. What is left of it is of no use after its window. */
#include "engine/limit/limits_private.h"

#define CHUNK_WANTED  USEC_PER_SEC        /* since somebody asked in vain */
#define CHUNK_KEPT    (10 * USEC_PER_SEC) /* since somebody asked; then it goes back */
#define USED_UP_KNOWN (60 * USEC_PER_SEC) /* others may have given something back */

static usec_t span_of(const struct limits_meter *m)
{
    return quota_export(&m->quota).span; /* 0: there is no quota */
}

static int change_chunk(struct limits *l, struct limits_meter *m, const struct rate_rule *rule)
    ON_ROLE(l->lock)
{
    const struct limits_part *was = m->parts[LIMITS_PART_QUOTA];
    const struct limits_chunk gone = m->gone_chunk;
    struct limits_chunk left = gone;
    if (was != NULL) {
        left = (struct limits_chunk){was->rule.span, was->window,   was->share,
                                     was->taken,     was->revision, was->asked_at};
    }
    int err = limits_part_configure(l, m, LIMITS_PART_QUOTA, rule);
    if (err != 0) {
        return err;
    }
    struct limits_part *part = m->parts[LIMITS_PART_QUOTA];
    m->gone_chunk = left;
    if (part != NULL && gone.span == rule->span) {
        m->gone_chunk.span = left.span == gone.span ? 0 : left.span; /* it is there once */
        part->window = gone.window;
        part->share = gone.share;
        part->taken = gone.taken;
        part->revision = gone.revision;
        part->asked_at = gone.asked_at;
    }
    if (part != NULL && part->share > 0) {
        limits_part_take_slot(part); /* else what nobody wants would never go back */
    }
    return 0;
}

int limits_chunk_configure(struct limits *l, struct limits_meter *m)
{
    const struct limits_part *part = m->parts[LIMITS_PART_QUOTA];
    const struct rate_rule rule = {.count = span_of(m) > 0, .span = span_of(m)};
    bool is_as_before = part == NULL ? rule.count == 0 : part->rule.span == rule.span;
    return is_as_before ? 0 : change_chunk(l, m, &rule);
}

static void turn_chunk(struct limits_part *part, int64_t window)
{
    if (window != part->window) {
        part->window = window;
        part->share = 0;
        part->taken = part->revision = 0;
        part->used_up_at = 0;
    }
}

void limits_chunk_turn(struct limits_part *part, usec_t wall)
{
    turn_chunk(part, quota_take(&part->meter->quota, 0, wall)); /* the quota turns too */
}

static bool is_used_up(const struct limits_part *part, usec_t now)
{
    return part->used_up_at != 0 && now - part->used_up_at < USED_UP_KNOWN;
}

usec_t limits_quota_lend(struct limits_meter *m, uint32_t want, const struct limits_moment *at,
                         struct quota_loan *ret, enum limit_cause *ret_why)
{
    struct limits_part *part = m->parts[LIMITS_PART_QUOTA];
    *ret_why = LIMIT_BY_QUOTA;
    if (part == NULL || quota_most(&m->quota, at->wall) == UINT64_MAX) {
        return quota_lend(&m->quota, want, at->wall, ret);
    }
    usec_t due = quota_due(&m->quota, 1, at->wall);
    if (due > at->wall) {
        return due; /* this node alone used all of it */
    }
    limits_chunk_turn(part, at->wall);
    usec_t again = limits_part_due(m, LIMITS_PART_QUOTA, at->now);
    if (again > 0 && is_used_up(part, at->now)) {
        return (part->window + 1) * span_of(m);
    }
    if (again > 0) {
        *ret_why = LIMIT_BY_SHARE;
        return at->wall + (again - at->now);
    }
    due = quota_lend(&m->quota, want < part->share ? want : part->share, at->wall, ret);
    part->share -= ret->left;
    part->short_at = 0; /* else another chunk would be taken before somebody lacks one */
    return due;
}

void limits_quota_return(struct limits_meter *m, uint32_t amount, int64_t window)
{
    struct limits_part *part = m->parts[LIMITS_PART_QUOTA];
    uint64_t used = m->quota.used; /* more than that was not taken of it: it is new, say */
    quota_give_back(&m->quota, amount, window);
    if (part != NULL && window == part->window && part->taken > 0) {
        part->share += (uint32_t)(used - m->quota.used);
    }
}

uint64_t limits_quota_left(struct limits_meter *m, usec_t wall)
{
    const struct limits_part *part = m->parts[LIMITS_PART_QUOTA];
    uint64_t left = quota_left(&m->quota, wall), most = quota_most(&m->quota, wall);
    if (part == NULL || most == UINT64_MAX || part->window != m->quota.window) {
        return left;
    }
    uint64_t of_all = (most > part->taken ? most - part->taken : 0) + part->share;
    return of_all < left ? of_all : left;
}

usec_t limits_quota_due(struct limits_meter *m, usec_t wall)
{
    usec_t due = quota_due(&m->quota, 1, wall);
    bool is_used_up_by_all = due <= wall && limits_quota_left(m, wall) == 0;
    return is_used_up_by_all ? (m->quota.window + 1) * span_of(m) : due;
}

/* --- for who speaks to other nodes ------------------------------------------------------------ */

void limits_chunk_describe(struct limits_part *part, usec_t now, usec_t wall,
                           struct limits_part_view *ret)
{
    limits_chunk_turn(part, wall);
    bool is_short = part->short_at != 0 && now - part->short_at < CHUNK_WANTED;
    ret->quota = quota_most(&part->meter->quota, wall);
    ret->want = part->share == 0 && is_short && ret->quota != UINT64_MAX;
    ret->is_idle = now - part->asked_at >= CHUNK_KEPT;
    ret->window = part->window;
    ret->taken = part->taken;
    ret->revision = part->revision;
    ret->share = part->share;
}

static struct limits_part *find_chunk(const struct limits *l, const struct limits_part_view *v,
                                      uint32_t slot)
{
    struct limits_part *part = slot < l->parts.end ? l->parts.slots[slot] : NULL;
    return part != NULL && part->id == v->id && part->window == v->window ? part : NULL;
}

uint32_t limits_chunk_give(struct limits *l, uint32_t slot, const struct limits_part_view *v)
{
    limits_enter(l);
    struct limits_part *part = find_chunk(l, v, slot);
    uint32_t given = part == NULL ? 0 : part->share;
    if (given > 0) {
        part->share = 0;
    }
    limits_leave_lock(l);
    return given;
}

void limits_chunk_take(struct limits *l, uint32_t slot, const struct limits_part_view *v,
                       uint32_t more, usec_t now)
{
    limits_enter(l);
    struct limits_part *part = find_chunk(l, v, slot);
    if (part != NULL) {
        part->taken = v->taken;
        part->revision = v->revision;
        part->share += more;
        part->used_up_at = part->share == 0 && v->taken >= v->quota ? now : 0;
    }
    limits_leave_lock(l);
}
