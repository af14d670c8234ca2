/* Writes what lanes learned into its file. Called now and then and at stop by a thread that may wait
 * for the disk; must not change anything but when the file was written. */
#include "engine/limit/limits_memory.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "engine/limit/limits_memory_private.h"
#include "engine/limit/limits_private.h"

#include <errno.h>
#include <inttypes.h>

#define LANES_AT_ONCE  64U
#define CHAINS_AT_ONCE 1024U
#define FILE_MOST      ((size_t)1 << 30)
#define AHEAD_LEAST    USEC_PER_SEC /* a schedule that is less ahead is not worth a line */

const char *const limits_unit_words[LIMITS_UNITS] = {
    [PACE_MESSAGES] = "messages", [PACE_RECIPIENTS] = "recipients", [PACE_CONNECTS] = "connects"};
const char *const limits_fact_words[LIMITS_FACT_COUNT] = {
    [LIMITS_FACT_PACE + PACE_MESSAGES] = "messages",
    [LIMITS_FACT_PACE + PACE_RECIPIENTS] = "recipients",
    [LIMITS_FACT_PACE + PACE_CONNECTS] = "connects",
    [LIMITS_FACT_CONNECTIONS] = "connections",
    [LIMITS_FACT_SESSION] = "session",
    [LIMITS_FACT_CLOSED] = "closed",
    [LIMITS_FACT_PAUSED] = "paused",
};
const char *const limits_ceiling_words[] = {
    [LIMITS_CEILING_CONNECTIONS] = "connections", [LIMITS_CEILING_SESSION] = "session"};

static void write_name(struct buf *out, struct slice name)
{
    bool is_dash = slice_eq(name, SLICE("-"));
    if (name.len == 0) {
        buf_append_str(out, " -");
        return;
    }
    buf_append_char(out, ' ');
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c <= ' ' || c == '%' || c == 0x7f || is_dash) {
            buf_printf(out, "%%%02X", c);
        } else {
            buf_append_char(out, name.data[i]);
        }
    }
}

static void write_pace(struct buf *out, const struct pace *p, usec_t now)
{
    struct pace_memory m;
    if (p != NULL && pace_remember(p, now, &m)) {
        buf_printf(out, "pace %s %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
                   limits_unit_words[p->unit], (uint64_t)(m.rate * LIMITS_RATE_SCALE),
                   (uint64_t)(m.lowest * LIMITS_RATE_SCALE), m.age, m.refusal_age);
    }
    if (p != NULL && p->chance.share > 0) {
        buf_printf(out, "chance %s %" PRIu64 "\n", limits_unit_words[p->unit],
                   (uint64_t)(p->chance.share * LIMITS_RATE_SCALE));
    }
}

static void write_ceiling(struct buf *out, enum limits_ceiling_word word, const struct ceiling *c,
                          usec_t now)
{
    struct ceiling_memory m;
    if (ceiling_remember(c, now, &m)) {
        buf_printf(out, "ceiling %s %" PRIu32 " %" PRIu32 " %" PRId64 " %" PRId64 "\n",
                   limits_ceiling_words[word], m.limit, m.lowest, m.age, m.refusal_age);
    }
}

static void write_destinations(struct buf *out, const struct limits_learned *learned, usec_t now)
{
    list_foreach(c, &learned->destinations, const struct limits_closed, in_lane)
    {
        if (c->until > now) {
            buf_append_str(out, "destination");
            write_name(out, slice_make(c->name, c->name_len));
            buf_printf(out, " %" PRId64 " %" PRId64, c->until - now, c->pause);
            write_name(out, slice_of(c->reason));
            buf_append_char(out, '\n');
        }
    }
}

static void write_facts(struct buf *out, const struct limits_learned *learned, usec_t now)
{
    for (unsigned i = 0; i < LIMITS_FACT_COUNT; i++) {
        const struct limits_fact *fact = learned->facts[i];
        if (fact != NULL && fact->times > 0) {
            buf_printf(out, "fact %s %" PRId64 " %" PRIu32, limits_fact_words[i], now - fact->since,
                       fact->times);
            write_name(out, slice_of(fact->rule));
            write_name(out, slice_of(fact->text));
            buf_append_char(out, '\n');
        }
    }
}

/* Is anything worth remembering? */
static bool stands(const struct limits_learned *learned, usec_t now)
{
    bool is_any = learned->is_closed || learned->paused_until > now ||
                  learned->connections.limit > 0 || learned->session.limit > 0 ||
                  learned->destination_count > 0 || !list_is_empty(&learned->windows);
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        const struct pace *p = learned->paces[i];
        is_any = is_any || (p != NULL && (p->phase != PACE_FREE || p->chance.share > 0));
    }
    return is_any;
}

static void write_lane(struct buf *out, const struct limits_lane *lane, usec_t now)
{
    const struct limits_learned *learned = lane->learned;
    usec_t accepted = atomic_load_explicit(&lane->last_accepted, memory_order_relaxed);
    buf_append_str(out, "lane");
    write_name(out, limits_lane_source(lane));
    write_name(out, limits_place_site(lane->place));
    write_name(out, limits_place_hosts(lane->place));
    buf_append_char(out, '\n');
    if (accepted > 0) {
        buf_printf(out, "accepted %" PRId64 "\n", now - accepted);
    }
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        write_pace(out, learned->paces[i], now);
    }
    write_ceiling(out, LIMITS_CEILING_CONNECTIONS, &learned->connections, now);
    write_ceiling(out, LIMITS_CEILING_SESSION, &learned->session, now);
    if (learned->is_closed) {
        usec_t left = learned->closed_until > now ? learned->closed_until - now : 0;
        buf_printf(out, "closed %" PRId64 " %" PRId64 " %d\n", left, learned->closed_pause,
                   learned->is_ordered);
    }
    if (learned->paused_until > now) {
        buf_printf(out, "paused %" PRId64 "\n", learned->paused_until - now);
    }
    write_destinations(out, learned, now);
    list_foreach(w, &learned->windows, const struct limits_window, in_lane)
    {
        buf_append_str(out, "window");
        write_name(out, slice_make(w->core, w->core_len));
        buf_printf(out, " %" PRIu32 "\n", w->window);
    }
    write_facts(out, learned, now);
}

static void write_meter(struct buf *out, const struct limits_meter *m, usec_t now)
{
    bool has_quota = m->quota.warmup != NULL || m->quota.rule.count > 0;
    struct quota_state quota = has_quota ? quota_export(&m->quota) : m->gone_quota;
    if (quota.span > 0 && quota.used > 0) {
        buf_printf(out, "quota %s", limit_owner_text(m->owner));
        write_name(out, slice_make(m->name, m->name_len));
        buf_printf(out, " %" PRId64 " %" PRId64 " %" PRIu64 "\n", quota.span, quota.window,
                   quota.used);
    }
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        const struct rate *r = m->rates[i].rule.count > 0 ? &m->rates[i] : &m->gone_rates[i];
        if (r->rule.count > 0 && r->used_until - now > AHEAD_LEAST) {
            buf_printf(out, "rate %s", limit_owner_text(m->owner));
            write_name(out, slice_make(m->name, m->name_len));
            buf_printf(out, " %s %" PRIu32 " %" PRIu32 " %" PRId64 " %" PRId64 "\n",
                       limits_unit_words[i], r->rule.count, r->rule.burst, r->rule.span,
                       r->used_until - now);
        }
    }
}

static void write_lanes(struct buf *out, struct limits *l, usec_t now)
{
    bool is_over = false;
    for (uint32_t at = 0; !is_over;) {
        limits_enter(l);
        for (uint32_t i = 0; i < LANES_AT_ONCE && at < l->slot_end; i++, at++) {
            const struct limits_lane *lane = l->lanes[at];
            if (lane != NULL && lane->learned != NULL && stands(lane->learned, now)) {
                write_lane(out, lane, now);
            }
        }
        is_over = at >= l->slot_end;
        limits_leave_lock(l);
    }
}

static void write_meters(struct buf *out, struct limits *l, usec_t now)
{
    for (uint64_t at = 0; at <= l->meter_table.mask;) {
        limits_enter(l);
        for (uint32_t i = 0; i < CHAINS_AT_ONCE && at <= l->meter_table.mask; i++, at++) {
            const struct limits_link *link = l->meter_table.chains[at];
            for (; link != NULL; link = link->next) {
                write_meter(out, container_of(link, struct limits_meter, link), now);
            }
        }
        limits_leave_lock(l);
    }
}

bool limits_memory_is_due(struct limits *l, usec_t now)
{
    limits_enter(l);
    bool is_due = l->changes != l->saved_changes && now - l->saved_at >= LIMITS_SAVE_SPAN;
    limits_leave_lock(l);
    return is_due;
}

int limits_memory_save(struct limits *l, const char *path, usec_t now, usec_t wall)
{
    struct buf out;
    buf_init(&out, FILE_MOST);
    (void)pthread_mutex_lock(&l->saving); /* no thread takes it twice */
    limits_enter(l);
    uint64_t changes = l->changes;
    l->saved_at = now;
    l->wall = wall;
    limits_leave_lock(l);
    buf_append_str(&out, LIMITS_MEMORY_HEAD);
    write_lanes(&out, l, now);
    write_meters(&out, l, now);
    uint64_t sum = out.failed ? 0 : hash_checksum(out.data, out.len);
    buf_printf(&out, LIMITS_MEMORY_END "%016" PRIx64 "\n", sum);
    int err = out.failed ? -ENOMEM : file_replace(path, buf_slice(&out));
    buf_fini(&out);
    if (err == 0) {
        limits_enter(l);
        l->saved_changes = changes;
        limits_leave_lock(l);
    }
    (void)pthread_mutex_unlock(&l->saving);
    return err;
}
