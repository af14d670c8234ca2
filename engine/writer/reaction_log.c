/* Takes reactions from struct limits to the file of events. Called by the spool writer's thread, in
 * each of its passes; must not wait for anybody, nor keep more lines than PIECE of them. */
#include "engine/writer/reaction_log.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/event/event_log.h"
#include "engine/event/reaction_line.h"
#include "engine/limit/limits_report.h"
#include "engine/reply/reply.h"
#include "sched/limit/pace.h"

enum {
    PIECE = 64,                            /* lines of one write */
    MANY = (int)LIMITS_REACTIONS_KEPT / 4, /* so many wait no longer */
};
static const usec_t patience = 100 * USEC_PER_MSEC;
static const usec_t failed_patience = USEC_PER_SEC; /* after the log could not be written */

void reaction_log_init(struct reaction_log *r, struct limits *limits, struct event_log *log,
                       void (*wake)(void *ctx), void *ctx)
{
    *r = (struct reaction_log){.log = log};
    buf_init(&r->lines, 0);
    if (limits != NULL && log != NULL) {
        r->limits = limits;
        r->next = limits_reaction_begin(limits);
        limits_reaction_watch(limits, wake, ctx);
        /* What came before was not awaited: the first pass looks at once. */
        r->due = clock_mono();
    }
}

void reaction_log_fini(struct reaction_log *r)
{
    buf_fini(&r->lines);
}

/* --- lines ------------------------------------------------------------------------------------ */

static struct slice cause_of(const struct limit_reaction *r)
{
    switch ((enum limit_reaction_cause)r->cause) {
    case LIMIT_DONE_BY_ORDER:
        return SLICE("order");
    case LIMIT_DONE_BY_ACCEPTANCE:
        return SLICE("accepted");
    case LIMIT_DONE_BY_TIME:
        return SLICE("time");
    case LIMIT_DONE_BY_PEER:
        return SLICE("cluster");
    case LIMIT_DONE_BY_REPLY:
    default:
        return slice_of(reply_class_text((enum reply_class)r->class));
    }
}

static struct slice unit_of(const struct limit_reaction *r)
{
    bool is_forgotten = r->kind == LIMIT_REACTED_UNPACED && r->cause == LIMIT_DONE_BY_TIME;
    if (r->kind != LIMIT_REACTED_PACE && !is_forgotten) {
        return SLICE("");
    }
    if (r->unit == PACE_RECIPIENTS) {
        return SLICE("recipients");
    }
    return r->unit == PACE_CONNECTS ? SLICE("connects") : SLICE("messages");
}

static void put_reaction(struct buf *out, const struct limit_reaction *r)
{
    const struct reaction_line line = {
        .time = r->time,
        .reaction = slice_of(limit_reaction_text((enum limit_reaction_kind)r->kind)),
        .cause = cause_of(r),
        .rule = slice_of(r->rule),
        .text = slice_of(r->text),
        .source = slice_of(r->source),
        .site = slice_of(r->site),
        .hosts = slice_of(r->hosts),
        .destination = slice_of(r->destination),
        .value = r->value,
        .unit = unit_of(r),
        .until = r->until,
    };
    reaction_line_format(out, &line);
}

static void put_lost(struct reaction_log *r)
{
    const struct reaction_line line = {
        .time = clock_wall(), .reaction = SLICE("lost"), .count = r->lost};
    if (r->lost > 0) {
        reaction_line_format(&r->lines, &line);
        r->lost = 0;
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

/* A piece of those up to `end`. What was overwritten is between those that were read, so the line
 * that counts it stands there. */
static void collect(struct reaction_log *r, uint64_t end)
{
    struct limit_reaction reaction;
    for (unsigned n = 0; n < PIECE && r->next < end; n++) {
        uint64_t begin = limits_reaction_begin(r->limits);
        if (begin > r->next) {
            uint64_t gone = begin < end ? begin - r->next : end - r->next;
            r->lost += gone;
            r->next += gone;
        } else if (!limits_reaction_get(r->limits, r->next, &reaction)) {
            r->lost++;
            r->next++;
        } else {
            put_lost(r);
            put_reaction(&r->lines, &reaction);
            r->next++;
        }
    }
    put_lost(r);
}

/* All up to `end`. false: the log cannot be written, and the lines of a piece wait here */
static bool write_until(struct reaction_log *r, uint64_t end)
{
    for (;;) {
        if (r->lines.len == 0) {
            collect(r, end);
        }
        if (r->lines.failed) {
            buf_fini(&r->lines); /* without memory there are no lines */
            buf_init(&r->lines, 0);
        }
        int err = r->lines.len == 0 ? 0 : event_log_append(r->log, buf_slice(&r->lines));
        if (err != 0) {
            log_debug("event log: reactions: %s", err_str(err));
            return false; /* what mail has to say fails, too, and is told of there */
        }
        buf_clear(&r->lines);
        if (r->next >= end) {
            return true;
        }
    }
}

void reaction_log_write(struct reaction_log *r, usec_t now, bool is_last)
{
    if (r->limits == NULL) {
        return;
    }
    uint64_t end = limits_reaction_end(r->limits);
    if (r->due == 0 && end != r->next) {
        r->due = now + patience;
    }
    bool is_due = r->due != 0 && (now >= r->due || end - r->next >= MANY);
    if (!is_last && !is_due) {
        return;
    }
    if (!write_until(r, end)) {
        r->due = now + failed_patience;
        return;
    }
    r->due = limits_reaction_await(r->limits) == r->next ? 0 : now + patience;
}

bool reaction_log_may_sleep(const struct reaction_log *r)
{
    return r->limits == NULL || r->due != 0 || limits_reaction_end(r->limits) == r->next;
}
