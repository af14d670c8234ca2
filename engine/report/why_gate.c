/* Turns figures of the engine, which the threads that act on them publish, into causes. Called by
 * why_report.c and why_message.c; changes nothing.
 *
 * Each figure is an atomic of its own, read once: two of them may be of different moments. */
#include "engine/report/why_gate.h"

#include "base/error.h"
#include "base/mailbox.h"
#include "engine/config/config.h"
#include "engine/http/api.h"
#include "engine/http/clerk.h"
#include "engine/post/in_core.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/writer/spool_writer.h"

#include <errno.h>
#include <stdio.h>

/* "since", and how long that is. Without effect when it is 0: it has just ended. */
static void put_since(const struct why *w, json_t *link, usec_t since)
{
    if (link != NULL && since != 0) {
        api_set_time(link, "since", since);
    }
}

static const char *age_text(const struct why *w, usec_t since, char ret[static WHY_SPAN_TEXT])
{
    return why_span_text(since == 0 || since > w->now ? 0 : w->now - since, ret);
}

/* --- gates ------------------------------------------------------------------------------------ */

static void put_broken(struct why *w, int level)
{
    const struct engine *e = w->clerk->engine;
    char age[WHY_SPAN_TEXT], text[200];
    usec_t since = engine_gate_since(e, ENGINE_GATE_BROKEN);
    int err = atomic_load_explicit(&e->broken_by, memory_order_relaxed);
    json_t *link = why_link(w, level, "nothing is delivered: the spool cannot be written, for %s",
                            age_text(w, since, age));
    put_since(w, link, since);
    (void)snprintf(text, sizeof(text), "the last commit failed: %s", err_str(err));
    why_because(link, slice_of(text));
    why_next(link, "writing is tried again all the time; the log says what is wrong");
    if (err != -ENOSPC && err != -EDQUOT) {
        return;
    }
    uint64_t free_bytes = atomic_load_explicit(&e->free_bytes, memory_order_relaxed);
    link = why_link(w, level + 1, "the spool has %llu bytes left of its disk or its map",
                    (unsigned long long)free_bytes);
    why_number(w, link, CONFIG_SECTION_GLOBAL, 0, "map_size", (int64_t)e->config->spool.map_size);
}

/* Deliveries go on, but who asks why mail is missing may mean this. */
static void put_low_space(struct why *w, int level)
{
    const struct engine *e = w->clerk->engine;
    char age[WHY_SPAN_TEXT];
    usec_t since = engine_gate_since(e, ENGINE_GATE_LOW_SPACE);
    json_t *link =
        why_link(w, level, "no new mail is accepted: the spool has %llu bytes left, too few for %s",
                 (unsigned long long)atomic_load_explicit(&e->free_bytes, memory_order_relaxed),
                 age_text(w, since, age));
    put_since(w, link, since);
    why_number(w, link, CONFIG_SECTION_GLOBAL, 0, "spool_reserve",
               (int64_t)e->config->spool.reserve);
    why_next(link, "what is queued is delivered, which makes room");
}

/* --- the bound of what a crash can repeat ----------------------------------------------------- */

/* The transport that has the greatest part in the bound; see settings.c. */
static size_t widest_transport(const struct why *w)
{
    size_t widest = 0;
    int64_t most = -1;
    for (size_t i = 0; i < w->transport_count; i++) {
        const struct sched_config *t = &w->config->transports[i].sched;
        if (w->config->transports[i].is_gone) {
            continue; /* it has no part in the bound */
        }
        int64_t entry = t->destination_recipient_limit > 0 ? t->destination_recipient_limit
                                                           : w->config->message_recipient_limit;
        if (t->process_limit * entry > most) {
            most = t->process_limit * entry;
            widest = i;
        }
    }
    return widest;
}

static void put_undurable(struct why *w, int level, usec_t since, uint64_t undurable)
{
    const struct engine *e = w->clerk->engine;
    uint64_t limit = atomic_load_explicit(&e->dispatch_limit, memory_order_relaxed);
    size_t widest = widest_transport(w);
    const struct config_transport *t = &w->config->transports[widest];
    char age[WHY_SPAN_TEXT], text[200];
    json_t *link =
        why_link(w, level,
                 "nothing more is handed out, for %s: %llu recipients that were handed "
                 "out have no result on the disk, and %llu may",
                 age_text(w, since, age), (unsigned long long)undurable, (unsigned long long)limit);
    put_since(w, link, since);
    (void)snprintf(text, sizeof(text), "the spool's writer is behind: %zu letters wait for it",
                   ring_count(spool_writer_box(e->writer)->ring));
    why_because(link, slice_of(text));
    why_next(link, "the next delivery starts when results are on the disk: look at the disk");
    link = why_link(w, level + 1,
                    "a crash may repeat so many: what all transports have in flight, transport %s "
                    "the most",
                    t->name);
    why_number(w, link, CONFIG_SECTION_TRANSPORT, widest, "process_limit", t->sched.process_limit);
    link = why_link(w, level + 1, "times the recipients of one delivery");
    why_number(w, link, CONFIG_SECTION_TRANSPORT, widest, "destination_recipient_limit",
               t->sched.destination_recipient_limit);
}

/* After a reload the spool has to note a larger bound first. */
static void put_entry(struct why *w, int level, usec_t since, uint64_t entry)
{
    const struct engine *e = w->clerk->engine;
    size_t widest = widest_transport(w);
    char age[WHY_SPAN_TEXT];
    json_t *link = why_link(
        w, level,
        "nothing more is handed out, for %s: deliveries may have %llu recipients now, and the "
        "spool has noted %llu as what a crash may repeat",
        age_text(w, since, age), (unsigned long long)entry,
        (unsigned long long)atomic_load_explicit(&e->dispatch_entry, memory_order_relaxed));
    put_since(w, link, since);
    why_next(link, "the spool's next commit notes the new figure");
    why_number(w, link, CONFIG_SECTION_TRANSPORT, widest, "destination_recipient_limit",
               w->config->transports[widest].sched.destination_recipient_limit);
}

/* The schedulers publish since when they may not select. */
static usec_t held_since(const struct engine *e)
{
    usec_t first = 0;
    for (uint32_t i = 0; i < e->sched_count; i++) {
        usec_t since = sched_thread_held_since(e->scheds[i]);
        first = since != 0 && (first == 0 || since < first) ? since : first;
    }
    return first;
}

/* Deliveries go on until the bound is reached. */
static void put_log(struct why *w, int level)
{
    char age[WHY_SPAN_TEXT];
    usec_t since = engine_gate_since(w->clerk->engine, ENGINE_GATE_LOG);
    json_t *link =
        why_link(w, level, "no new mail is accepted: the cluster's servers do not store it, for %s",
                 age_text(w, since, age));
    put_since(w, link, since);
    why_next(link, "ask sluice cluster which server answers; the log says what is wrong");
}

static void put_log_full(struct why *w, int level)
{
    char age[WHY_SPAN_TEXT];
    usec_t since = engine_gate_since(w->clerk->engine, ENGINE_GATE_LOG_FULL);
    json_t *link = why_link(
        w, level, "no new mail is accepted: this node's log on the servers is full, for %s",
        age_text(w, since, age));
    put_since(w, link, since);
    why_number(w, link, CONFIG_SECTION_CLUSTER, 0, "max_bytes",
               (int64_t)w->clerk->engine->config->cluster.max_bytes);
}

static void put_bound(struct why *w, int level)
{
    const struct engine *e = w->clerk->engine;
    usec_t since = held_since(e);
    uint64_t undurable = atomic_load_explicit(&e->undurable, memory_order_relaxed);
    uint64_t entry = engine_entry_limit(e);
    if (since == 0) {
        return;
    }
    if (undurable >= atomic_load_explicit(&e->dispatch_limit, memory_order_relaxed)) {
        put_undurable(w, level, since, undurable);
    } else if (entry > atomic_load_explicit(&e->dispatch_entry, memory_order_relaxed)) {
        put_entry(w, level, since, entry);
    }
}

void why_gates(struct why *w, int level)
{
    const struct engine *e = w->clerk->engine;
    uint32_t gate = engine_gate(e);
    if (w->owner.len > 0) { /* how full the daemon is, and its disk, is its operators' to know */
        if ((gate & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) != 0 || engine_lease_is_over(e)) {
            (void)why_link(w, level,
                           "nothing is delivered at the moment, for no reason of this mail");
        }
        return;
    }
    if ((gate & ENGINE_GATE_BROKEN) != 0) {
        put_broken(w, level);
    }
    if ((gate & ENGINE_GATE_STOPPING) != 0) {
        json_t *link = why_link(w, level, "nothing new is delivered: the daemon stops");
        put_since(w, link, engine_gate_since(e, ENGINE_GATE_STOPPING));
    }
    if ((gate & ENGINE_GATE_LOW_SPACE) != 0) {
        put_low_space(w, level);
    }
    if ((gate & ENGINE_GATE_LOG) != 0) {
        put_log(w, level);
    }
    if ((gate & ENGINE_GATE_LOG_FULL) != 0) {
        put_log_full(w, level);
    }
    if (engine_lease_is_over(e)) {
        json_t *link =
            why_link(w, level,
                     "nothing is delivered: the cluster's servers did not hear this node "
                     "for 45 s, and others may take its mail over");
        why_next(link, "it goes on when they do; ask sluice cluster which server answers");
    }
    if ((gate & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) == 0) {
        put_bound(w, level);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

bool why_memory(struct why *w, int level)
{
    const struct engine *e = w->clerk->engine;
    const struct config *c = w->config;
    uint64_t active = atomic_load_explicit(&e->active_messages, memory_order_relaxed);
    uint64_t recipients = in_core_count(e);
    bool is_full = active >= (uint64_t)c->message_active_limit;
    usec_t since = atomic_load_explicit(is_full ? &e->full_of_messages : &e->full_of_recipients,
                                        memory_order_relaxed);
    char age[WHY_SPAN_TEXT];
    json_t *link;
    if (w->owner.len > 0) { /* others' mail fills it too */
        return false;
    }
    if (is_full) {
        link = why_link(w, level, "as many messages are active as may be, for %s: %llu",
                        age_text(w, since, age), (unsigned long long)active);
        why_number(w, link, CONFIG_SECTION_GLOBAL, 0, "message_active_limit",
                   c->message_active_limit);
    } else if (recipients >= (uint64_t)c->message_recipient_limit) {
        link = why_link(w, level, "as many recipients are in memory as may be, for %s: %llu",
                        age_text(w, since, age), (unsigned long long)recipients);
        why_number(w, link, CONFIG_SECTION_GLOBAL, 0, "message_recipient_limit",
                   c->message_recipient_limit);
    } else {
        return false;
    }
    put_since(w, link, since);
    return true;
}
