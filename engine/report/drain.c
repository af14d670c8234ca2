/* Owns the beginning and the end of a drain, and the rule that it is over. Called by the clerks and
 * by main; stops nothing itself. */
#include "engine/report/drain.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/span.h"
#include "engine/census/queue_figures.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/post/backlog.h"
#include "engine/report/reload.h"
#include "engine/schedule/sched_thread.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <stdio.h>
#include <string.h>

#define SPAN_MAX (366 * 86400 * USEC_PER_SEC)

static bool is_draining(const struct engine *e)
{
    return (engine_gate(e) & ENGINE_GATE_DRAINING) != 0;
}

/* --- requests --------------------------------------------------------------------------------- */

/* {"for": SPAN}, or nothing. ret: USEC_NEVER without a span. false: the call was answered */
static bool take_body(struct api_call *c, usec_t *ret)
{
    const char *name;
    json_t *value;
    *ret = USEC_NEVER;
    /* The macro iterates over an object that it does not change. */
    json_object_foreach((json_t *)(uintptr_t)api_body(c), name, value)
    {
        const char *text = json_string_value(value);
        if (strcmp(name, "for") != 0) {
            api_error(c, 422, "wrong", "%.60s: there is no such member", name);
            return false;
        }
        if (!json_is_null(value) &&
            (text == NULL || !span_parse(slice_of(text), ret) || *ret > SPAN_MAX)) {
            api_error(c, 422, "wrong", "for: a span such as 90s, 15m or 2h, at most 366 days");
            return false;
        }
    }
    return true;
}

static void answer_drain(struct api_call *c, const struct engine *e, int status)
{
    bool drains = is_draining(e);
    usec_t until = atomic_load_explicit(&e->drain_until, memory_order_relaxed);
    json_t *o = json_pack("{s:b}", "draining", drains);
    if (o != NULL && drains) {
        api_set_time(o, "since", engine_gate_since(e, ENGINE_GATE_DRAINING));
    }
    if (o != NULL && drains && until != USEC_NEVER) {
        api_set_time(o, "until", clock_wall() + until - clock_mono());
    }
    api_object(c, status, o);
}

void drain_begin(struct clerk *k, struct api_call *c)
{
    struct engine *e = k->engine;
    usec_t span;
    char text[64] = "";
    if (!take_body(c, &span)) {
        return;
    }
    atomic_store_explicit(&e->drain_until, span == USEC_NEVER ? USEC_NEVER : clock_mono() + span,
                          memory_order_relaxed);
    atomic_store_explicit(&e->empty_looks, 0, memory_order_relaxed);
    if (!is_draining(e)) {
        engine_gate_set(e, ENGINE_GATE_DRAINING);
    }
    if (span != USEC_NEVER) {
        (void)snprintf(text, sizeof(text), ", for %lld s at most",
                       (long long)(span / USEC_PER_SEC));
    }
    log_info("draining: asked for by %s%s; no mail is taken", api_who(c), text);
    reloader_wake(e->reloader);
    mailbox_wake(e->boxes.clerks[1]);
    answer_drain(c, e, 202);
}

void drain_end(struct clerk *k, struct api_call *c)
{
    struct engine *e = k->engine;
    if (is_draining(e)) {
        engine_gate_clear(e, ENGINE_GATE_DRAINING);
        log_info("draining: ended by %s; mail is taken again", api_who(c));
    }
    answer_drain(c, e, 200);
}

void drain_restart(struct clerk *k, struct api_call *c)
{
    struct engine *e = k->engine;
    log_info("restart: asked for by %s", api_who(c));
    atomic_store_explicit(&e->wants_restart, true, memory_order_relaxed);
    reloader_wake(e->reloader);
    api_object(c, 202, json_pack("{s:b}", "restarting", 1));
}

void drain_taken(struct engine *e, uint16_t holder)
{
    engine_set_lease(e, 1);
    if (atomic_exchange_explicit(&e->taken_by, holder, memory_order_relaxed) == 0) {
        log_error("take-over: this node was not heard, and the spool with number %u has taken its "
                  "mail over: the spool here is set aside",
                  holder);
        atomic_store_explicit(&e->wants_restart, true, memory_order_relaxed);
        reloader_wake(e->reloader);
    }
}

/* --- what is left ----------------------------------------------------------------------------- */

/* Schedulers have nothing that they could send. */
static bool are_cores_empty(const struct engine *e)
{
    const struct settings *s = settings_of(e);
    bool is_empty = true;
    for (uint32_t t = 0; t < s->transport_count; t++) {
        struct sched_counters n;
        sched_view_counters(sched_thread_core(e->scheds[t % e->sched_count], t), &n);
        bool is_held = s->config->transports[t].sched.hold;
        is_empty = is_empty && n.entries_in_flight == 0 && (is_held || n.recipients_in_core == 0);
    }
    return is_empty && atomic_load_explicit(&e->undurable, memory_order_relaxed) == 0;
}

/* Everything that is active was deferred or held before. */
static bool is_new_mail_gone(const struct engine *e)
{
    return atomic_load_explicit(&e->active_messages, memory_order_relaxed) <=
           atomic_load_explicit(&e->active_of[SPOOL_DEFERRED], memory_order_relaxed) +
               atomic_load_explicit(&e->active_of[SPOOL_HELD], memory_order_relaxed);
}

/* What waits in the queue cannot become active: as much is active as may be, and all of it is of
 * transports on hold. */
static bool is_held_back(const struct engine *e)
{
    bool is_full = atomic_load_explicit(&e->full_of_messages, memory_order_relaxed) != 0 ||
                   atomic_load_explicit(&e->full_of_recipients, memory_order_relaxed) != 0;
    return is_full && are_cores_empty(e);
}

/* Mail of another node comes in; what has no room in the log is not waited for. */
static bool is_taking_over(const struct engine *e)
{
    /* Relaxed: it is only compared. */
    return atomic_load_explicit(&e->adoption, memory_order_relaxed) != NULL &&
           (engine_gate(e) & ENGINE_GATE_LOG_FULL) == 0;
}

static bool is_empty(struct clerk *k)
{
    const struct engine *e = k->engine;
    struct spool_counts counts;
    struct queue_figures figures;
    bool is_held = is_held_back(e);
    if (atomic_load_explicit(&e->injections, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&e->intake_bytes, memory_order_relaxed) > 0 || is_taking_over(e) ||
        (!is_held && backlog_is_any(e)) || !(are_cores_empty(e) || is_new_mail_gone(e)) ||
        spool_reader_begin(k->reader) != 0) {
        return false;
    }
    int err = spool_read_counts(k->reader, &counts);
    spool_reader_end(k->reader);
    err = err != 0 ? err : queue_figures_read(k, &counts, &figures);
    return err == 0 && (is_held || figures.states[QUEUE_INCOMING] == 0);
}

usec_t drain_watch(struct clerk *k)
{
    struct engine *e = k->engine;
    if (!is_draining(e)) {
        return USEC_NEVER;
    }
    /* What counts on its way from one thread to another is seen by the next look. */
    if (is_empty(k)) {
        atomic_fetch_add_explicit(&e->empty_looks, 1, memory_order_relaxed);
    } else {
        atomic_store_explicit(&e->empty_looks, 0, memory_order_relaxed);
    }
    return clock_mono() + DRAIN_LOOK;
}

void drain_restart_failed(struct engine *e, usec_t now_mono)
{
    static const usec_t pause = 10 * USEC_PER_SEC;
    bool is_taken = atomic_load_explicit(&e->taken_by, memory_order_relaxed) != 0;
    e->restart_again = is_taken ? now_mono + pause : 0;
}

enum drain_verdict drain_verdict(struct engine *e, usec_t now_mono)
{
    enum { LOOKS = 3 };
    bool wants_restart = atomic_exchange_explicit(&e->wants_restart, false, memory_order_relaxed);
    if (wants_restart || (e->restart_again != 0 && now_mono >= e->restart_again)) {
        e->restart_again = 0;
        return DRAIN_RESTART;
    }
    if (!is_draining(e)) {
        return e->restart_again == 0 ? DRAIN_NONE : DRAIN_WAITS;
    }
    if (atomic_load_explicit(&e->empty_looks, memory_order_relaxed) >= LOOKS) {
        return DRAIN_EMPTY;
    }
    return atomic_load_explicit(&e->drain_until, memory_order_relaxed) <= now_mono ? DRAIN_LATE
                                                                                   : DRAIN_WAITS;
}
