/* Reads counters of all threads, the schedulers' views, the spool and the process; changes nothing.
 * Called on a clerk's thread. Must not have a counter by destination or anything else that is
 * forgotten: a counter never goes backwards. */
#include "engine/report/metrics.h"

#include "base/rcu.h"
#include "base/ring.h"
#include "engine/census/queue_figures.h"
#include "engine/config/config.h"
#include "engine/feed/event_feed.h"
#include "engine/heard/heard.h"
#include "engine/http/api.h"
#include "engine/http/clerk.h"
#include "engine/inbound/listener.h"
#include "engine/nodes/nodes_report.h"
#include "engine/order/order_book.h"
#include "engine/post/in_core.h"
#include "engine/reply/reply_set.h"
#include "engine/report/limit_metrics.h"
#include "engine/report/site_report.h"
#include "engine/schedule/flow_figures.h"
#include "engine/schedule/sched_thread.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/exposition.h"
#include "engine/tally/process.h"
#include "engine/tally/tally.h"
#include "engine/worker/worker.h"
#include "sched/sched.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { WALK_PAGE = 1000 }; /* destinations between two breaths */

struct page {
    struct buf out;
    struct clerk *clerk;
    const struct engine *engine;
};

static double seconds(uint64_t usec)
{
    return (double)usec / (double)USEC_PER_SEC;
}

static uint64_t counter(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void put_one(struct page *p, const char *name, enum exposition_kind kind, const char *help,
                    double value)
{
    exposition_family(&p->out, name, kind, help);
    exposition_sample(&p->out, name, NULL, value);
}

static void put_sample(struct page *p, const char *name, const char *label, struct slice value,
                       double sample)
{
    const struct exposition_labels labels = {{{label, value}}};
    exposition_sample(&p->out, name, &labels, sample);
}

/* --- mail ------------------------------------------------------------------------------------- */

static void put_totals(struct page *p)
{
    const struct engine *e = p->engine;
    const struct {
        const char *name, *help;
        const _Atomic uint64_t *value;
    } totals[] = {
        {"sluice_messages_received_total", "Messages that were accepted and are durable.",
         &e->received},
        {"sluice_intake_refused_total",
         "Commands or messages refused with 4xx for want of space, memory or a working spool.",
         &e->refused},
        {"sluice_recipients_delivered_total", "Recipients that a receiver took.", &e->delivered},
        {"sluice_recipients_deferred_total", "Attempts for a recipient that will be repeated.",
         &e->deferred},
        {"sluice_recipients_failed_total", "Recipients that failed for good.", &e->failed},
        {"sluice_recipients_expired_total", "Recipients given up after their lifetime.",
         &e->expired},
        {"sluice_recipients_dropped_total", "Recipients that an order dropped.", &e->dropped},
        {"sluice_recipients_suppressed_total",
         "Recipients that ended without an attempt, as they are on a list of suppressed ones.",
         &e->suppressed},
        {"sluice_suppressed_refused_total",
         "Recipients that intake refused, as they are on a list of suppressed ones.",
         &e->suppressed_refused},
        {"sluice_suppressions_added_total",
         "Entries of lists of suppressed recipients that were new.", &e->suppressions_added},
        {"sluice_suppressions_removed_total", "Entries of these lists that were removed by hand.",
         &e->suppressions_removed},
        {"sluice_heard_unknown_total",
         "Messages for us that were not understood, and kept to be read.",
         &e->heard[HEARD_UNKNOWN]},
        {"sluice_heard_bounces_total", "Bounces that came back as messages.",
         &e->heard[HEARD_BOUNCE]},
        {"sluice_heard_complaints_total", "Feedback reports about mail of ours.",
         &e->heard[HEARD_COMPLAINT]},
        {"sluice_heard_unsubscribes_total", "Unsubscriptions by mail.",
         &e->heard[HEARD_UNSUBSCRIBE]},
        {"sluice_heard_auto_replies_total", "Answers of programs for their recipients.",
         &e->heard[HEARD_AUTO_REPLY]},
        {"sluice_tls_report_sessions_left_out_total",
         "Sessions in no report about TLS, as they were of more domains or policies than are told "
         "apart.",
         &e->tls_left_out},
        {"sluice_tls_reports_unsent_total",
         "Reports about TLS that were given up, as they could not be sent in time.",
         &e->tls_unsent},
        {"sluice_notices_suppressed_total",
         "Notices to senders that were not made, as a listener or tenant says notices = no.",
         &e->notices_suppressed},
        {"sluice_labels_ignored_total",
         "Values of tenant_header, campaign_header and class_header that were ignored.",
         &e->odd_labels},
        {"sluice_messages_given_back_total",
         "Messages that left memory without an attempt, as their flows had more than their share "
         "of "
         "the places and others waited.",
         &e->given_back},
        {"sluice_attempts_ambiguous_total",
         "Attempts whose last reply was lost: the receiver may have the mail.", &e->ambiguous},
    };
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        put_one(p, totals[i].name, EXPOSITION_COUNTER, totals[i].help,
                (double)counter(totals[i].value));
    }
}

static void put_seals(struct page *p)
{
    static const char name[] = "sluice_dkim_messages_total";
    const struct engine *e = p->engine;
    exposition_family(&p->out, name, EXPOSITION_COUNTER,
                      "Messages that became active while there were keys, by what became of their "
                      "signatures.");
    for (unsigned i = 0; i < SEAL_RESULT_COUNT; i++) {
        put_sample(p, name, "result", slice_of(seal_result_text((enum seal_result)i)),
                   (double)counter(&e->seals[i]));
    }
    put_one(p, "sluice_dkim_signatures_total", EXPOSITION_COUNTER, "Signatures that keys made.",
            (double)counter(&e->signatures));
}

static void put_mail_classes(struct page *p)
{
    static const char name[] = "sluice_mail_class_messages_received_total";
    const struct tally *t = p->engine->tally;
    exposition_family(&p->out, name, EXPOSITION_COUNTER,
                      "Messages that were accepted and are durable, by their class.");
    for (unsigned class = 0; class < MAIL_CLASS_COUNT; class ++) {
        put_sample(p, name, "mail_class", slice_of(mail_class_text((enum mail_class) class)),
                   (double)counter(&t->received[class]));
    }
}

static void put_denials(struct page *p)
{
    static const char name[] = "sluice_denied_total";
    exposition_family(&p->out, name, EXPOSITION_COUNTER,
                      "Requests and mail that were refused because of who asked, by why.");
    for (enum denial kind = DENIAL_NONE + 1; kind < DENIAL_COUNT; kind++) {
        put_sample(p, name, "why", slice_of(denial_text(kind)),
                   (double)counter(&p->engine->denials.counts[kind]));
    }
}

/* Rows "" and "other" are shown once they count. */
static bool is_shown(const struct tally_row *r, uint32_t row)
{
    uint64_t sum = 0;
    for (int v = 0; v < TALLY_VALUE_COUNT; v++) {
        sum += tally_row_value(r, v);
    }
    return row > TALLY_ROW_OTHER || sum > 0;
}

static void put_tally_values(struct page *p, const struct tally_table *table, const char *label,
                             const char *name, const char *help, enum tally_value value)
{
    exposition_family(&p->out, name, EXPOSITION_COUNTER, help);
    for (uint32_t i = 0; i < tally_table_rows(table); i++) {
        const struct tally_row *row = tally_table_row(table, i);
        if (is_shown(row, i)) {
            put_sample(p, name, label, tally_row_name(row), (double)tally_row_value(row, value));
        }
    }
}

/* What receivers refused, by what it means; bounded by the transports. */
static void put_classes(struct page *p)
{
    static const char name[] = "sluice_refusals_total";
    const struct tally *t = p->engine->tally;
    uint64_t failures = 0;
    exposition_family(&p->out, name, EXPOSITION_COUNTER,
                      "Attempts for a recipient that were refused, by what the reply means.");
    uint32_t count = tally_transports(t);
    for (uint32_t i = 0; i < count; i++) {
        for (int class = REPLY_CLASS_NONE + 1; class < REPLY_CLASS_COUNT; class ++) {
            const struct exposition_labels labels = {
                {{"transport", tally_row_name(t->transport_rows[i])},
                 {"class", slice_of(reply_class_text((enum reply_class) class))}}};
            exposition_sample(&p->out, name, &labels, (double)counter(&t->classes[i][class]));
        }
    }
    const struct reply_set *replies = settings_of(p->engine)->replies;
    for (size_t i = 0; i < reply_set_count(replies); i++) {
        failures += reply_set_failures(replies, i);
    }
    put_one(p, "sluice_reply_rules_skipped_total", EXPOSITION_COUNTER,
            "Rules for replies passed over since the reload, as they needed too many steps.",
            (double)failures);
}

static void put_results(struct page *p, const struct tally_table *table, const char *label,
                        const char *name, const char *help)
{
    static const struct {
        enum tally_value value;
        const char *text;
    } results[] = {
        {TALLY_DELIVERED, "delivered"},
        {TALLY_DEFERRED, "deferred"},
        {TALLY_FAILED, "failed"},
    };
    exposition_family(&p->out, name, EXPOSITION_COUNTER, help);
    for (uint32_t i = 0; i < tally_table_rows(table); i++) {
        const struct tally_row *row = tally_table_row(table, i);
        for (size_t k = 0; is_shown(row, i) && k < sizeof(results) / sizeof(results[0]); k++) {
            const struct exposition_labels labels = {
                {{label, tally_row_name(row)}, {"result", slice_of(results[k].text)}}};
            exposition_sample(&p->out, name, &labels,
                              (double)tally_row_value(row, results[k].value));
        }
    }
}

/* What a tenant's mail is, as receivers see it. */
static void put_tenant_classes(struct page *p)
{
    static const char name[] = "sluice_tenant_refusals_total";
    const struct tally_table *tenants = p->engine->tally->tenants;
    exposition_family(&p->out, name, EXPOSITION_COUNTER,
                      "Attempts for a recipient that were refused for the message's content or by "
                      "the receiver's policy, by tenant.");
    for (uint32_t i = 0; i < tally_table_rows(tenants); i++) {
        const struct tally_row *row = tally_table_row(tenants, i);
        struct exposition_labels labels = {
            {{"tenant", tally_row_name(row)}, {"class", SLICE("content")}}};
        if (is_shown(row, i)) {
            exposition_sample(&p->out, name, &labels, (double)tally_row_value(row, TALLY_CONTENT));
            labels.items[1].value = SLICE("policy");
            exposition_sample(&p->out, name, &labels, (double)tally_row_value(row, TALLY_POLICY));
        }
    }
}

static void put_tables(struct page *p)
{
    const struct tally *t = p->engine->tally;
    put_results(p, t->transports, "transport", "sluice_transport_attempts_total",
                "What became of recipients, an attempt each, by transport.");
    put_results(p, t->sources, "source", "sluice_source_attempts_total",
                "What became of recipients, an attempt each, by egress source.");
    put_results(p, t->tenants, "tenant", "sluice_tenant_attempts_total",
                "What became of recipients, an attempt each, by tenant.");
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_messages_received_total",
                     "Messages that were accepted and are durable, by tenant.", TALLY_RECEIVED);
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_recipients_received_total",
                     "Recipients of these messages, by tenant.", TALLY_RECIPIENTS);
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_bytes_received_total",
                     "Bytes of these messages, by tenant.", TALLY_BYTES);
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_recipients_expired_total",
                     "Recipients given up after their lifetime, by tenant.", TALLY_EXPIRED);
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_recipients_dropped_total",
                     "Recipients that an order dropped, by tenant.", TALLY_DROPPED);
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_recipients_suppressed_total",
                     "Recipients that ended as they are suppressed, by tenant.", TALLY_SUPPRESSED);
    put_tally_values(p, t->tenants, "tenant", "sluice_tenant_class_lowered_total",
                     "Messages with a lower class than they would have had, as their tenant may "
                     "not use it.",
                     TALLY_LOWERED);
    put_tenant_classes(p);
}

static void put_span_family(struct page *p, enum tally_span which, const char *name,
                            const char *help)
{
    const struct tally *t = p->engine->tally;
    double bounds[TALLY_SPAN_BOUNDS];
    for (uint32_t i = 0; i < TALLY_SPAN_BOUNDS; i++) {
        bounds[i] = seconds((uint64_t)tally_span_bounds[i]);
    }
    exposition_family(&p->out, name, EXPOSITION_HISTOGRAM, help);
    uint32_t count = tally_transports(t);
    for (uint32_t i = 0; i < count; i++) {
        const struct tally_spans *s = &t->spans[i][which];
        uint64_t buckets[TALLY_SPAN_BOUNDS + 1];
        for (uint32_t k = 0; k <= TALLY_SPAN_BOUNDS; k++) {
            buckets[k] = tally_bucket(s, k);
        }
        const struct exposition_labels labels = {
            {{"transport", tally_row_name(t->transport_rows[i])}}};
        const struct exposition_buckets b = {bounds, TALLY_SPAN_BOUNDS, buckets,
                                             seconds(counter(&s->sum))};
        exposition_histogram(&p->out, name, &labels, &b);
    }
}

static void put_spans(struct page *p)
{
    put_span_family(
        p, TALLY_QUEUE_TIME, "sluice_queue_time_seconds",
        "From the reception of a message to its delivery, for each delivered recipient.");
    put_span_family(p, TALLY_DELIVERY_TIME, "sluice_delivery_time_seconds",
                    "From dispatch to end of the attempts that delivered to a recipient at least.");
}

/* --- the queue -------------------------------------------------------------------------------- */

/* When the oldest message in the queue was received; 0: no message can be read. */
static usec_t oldest(struct spool_reader *reader)
{
    struct spool_envelope e;
    struct slice body;
    uint64_t id;
    if (spool_next_message(reader, 0, &id) != 0 || spool_read_message(reader, id, &e, &body) != 0) {
        return 0;
    }
    return e.created;
}

/* Nothing while the spool is being reopened. */
static void put_spool(struct page *p)
{
    struct spool_counts n;
    struct queue_figures figures;
    struct spool_reader *reader = p->clerk->reader;
    if (spool_reader_begin(reader) != 0) {
        return;
    }
    int err = spool_read_counts(reader, &n);
    usec_t created = oldest(reader), now = clock_wall();
    spool_reader_end(reader);
    if (err != 0 || queue_figures_read(p->clerk, &n, &figures) != 0) {
        return;
    }
    const char *name = "sluice_queue_messages";
    exposition_family(&p->out, name, EXPOSITION_GAUGE,
                      "Messages by state, each once; as sluice status shows them.");
    for (enum queue_state state = 0; state < QUEUE_STATE_COUNT; state++) {
        put_sample(p, name, "state", slice_of(queue_state_text(state)),
                   (double)figures.states[state]);
    }
    put_one(p, "sluice_quarantined_messages", EXPOSITION_GAUGE,
            "Messages in quarantine, apart from the queue.", (double)n.quarantined);
    put_one(p, "sluice_queue_oldest_seconds", EXPOSITION_GAUGE,
            "Age of the oldest message in the spool; 0: it is empty.",
            created == 0 || created > now ? 0 : seconds((uint64_t)(now - created)));
    put_one(p, "sluice_spool_used_bytes", EXPOSITION_GAUGE, "Pages of the spool that are in use.",
            (double)n.used_bytes);
    put_one(p, "sluice_spool_free_bytes", EXPOSITION_GAUGE,
            "What can still be written: free pages, and growth that map and disk allow.",
            (double)n.free_bytes);
    put_one(p, "sluice_spool_map_bytes", EXPOSITION_GAUGE, "Size of the memory map.",
            (double)n.map_bytes);
    put_one(p, "sluice_spool_reserve_bytes", EXPOSITION_GAUGE,
            "Free bytes below which intake is refused.", (double)p->engine->config->spool.reserve);
}

static void put_waits(struct page *p)
{
    const char *name = "sluice_waiting_seconds";
    struct flow_figures figures;
    if (flow_figures_take(p->engine, &figures) != 0) {
        return; /* no memory now */
    }
    exposition_family(
        &p->out, name, EXPOSITION_GAUGE,
        "The longest that a message in memory with waiting deliveries has been there, "
        "by class.");
    for (int class = 0; class < SCHED_CLASSES; class ++) {
        put_sample(p, name, "class", slice_of(mail_class_text((enum mail_class) class)),
                   seconds((uint64_t)figures.longest[class]));
    }
    flow_figures_fini(&figures);
}

static void put_flow(struct page *p)
{
    const struct engine *e = p->engine;
    const struct {
        const char *name, *help;
        uint64_t value;
    } gauges[] = {
        {"sluice_active_messages", "Messages that are being worked on.",
         counter(&e->active_messages)},
        {"sluice_recipients_in_core", "Recipients in memory without a durable result.",
         in_core_count(e)},
        {"sluice_undurable_recipients", "Recipients dispatched whose result is not durable.",
         counter(&e->undurable)},
        {"sluice_undurable_recipients_limit", "At so many dispatch waits for the spool.",
         counter(&e->dispatch_limit)},
        {"sluice_intake_bytes", "Bytes received and not yet durable.", counter(&e->intake_bytes)},
        {"sluice_intake_limit_bytes", "At so many receptions wait: intake_memory.",
         settings_of(e)->config->intake_memory},
        {"sluice_rcu_retired_objects", "Objects that wait for a grace period to be freed.",
         rcu_backlog()},
    };
    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        put_one(p, gauges[i].name, EXPOSITION_GAUGE, gauges[i].help, (double)gauges[i].value);
    }
    static const struct {
        enum engine_gate gate;
        const char *text;
    } gates[] = {{ENGINE_GATE_LOW_SPACE, "low space"}, {ENGINE_GATE_BROKEN, "broken"},
                 {ENGINE_GATE_STOPPING, "stopping"},   {ENGINE_GATE_DRAINING, "draining"},
                 {ENGINE_GATE_LOG, "no log"},          {ENGINE_GATE_LOG_FULL, "log full"}};
    exposition_family(&p->out, "sluice_gate_closed", EXPOSITION_GAUGE,
                      "1: intake is refused, and when it is broken or stopping dispatch stops.");
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        put_sample(p, "sluice_gate_closed", "reason", slice_of(gates[i].text),
                   (engine_gate(e) & gates[i].gate) != 0 ? 1 : 0);
    }
}

/* --- orders ----------------------------------------------------------------------------------- */

static void put_orders(struct page *p)
{
    const struct order_book *book = p->engine->orders;
    const struct config *c = settings_of(p->engine)->config;
    uint64_t counts[ORDER_KIND_COUNT] = {0}, after = 0;
    usec_t now = clock_wall();
    const struct order *o;
    while ((o = order_book_next(book, after, NULL)) != NULL) {
        counts[o->kind]++;
        after = o->id;
    }
    exposition_family(&p->out, "sluice_orders", EXPOSITION_GAUGE, "Orders that stand, by kind.");
    for (int i = ORDER_NONE + 1; i < ORDER_KIND_COUNT; i++) {
        put_sample(p, "sluice_orders", "order", slice_of(order_kind_text(i)), (double)counts[i]);
    }
    exposition_family(&p->out, "sluice_source_closed", EXPOSITION_GAUGE,
                      "1: an order keeps new connections from this egress source.");
    for (size_t i = 0; i < c->egress_source_count; i++) {
        struct slice name = slice_of(c->egress_sources[i].name);
        put_sample(p, "sluice_source_closed", "source", name,
                   order_book_bars_source(book, name, now) ? 1 : 0);
    }
}

/* --- schedulers ------------------------------------------------------------------------------- */

struct walk {
    struct sched_counters counters;
    uint64_t windows, states[SCHED_DESTINATION_STATE_COUNT];
};

static const struct sched *metrics_core(const struct engine *e, uint32_t transport)
{
    return sched_thread_core(e->scheds[transport % e->sched_count], transport);
}

static void walk_destinations(struct page *p, uint32_t transport, struct walk *ret)
{
    const struct sched *s = metrics_core(p->engine, transport);
    struct sched_destination_view d;
    uint64_t cursor = 0, seen = 0;
    *ret = (struct walk){0};
    sched_view_counters(s, &ret->counters);
    while (sched_view_destinations(s, &cursor, &d)) {
        ret->windows += d.site.len == 0 ? (uint64_t)d.window : 0; /* else its site's, below */
        ret->states[d.state]++;
        if (++seen % WALK_PAGE == 0) {
            clerk_quiesce(p->clerk); /* the cursor outlives it */
        }
    }
    ret->windows += site_report_windows(s);
}

static double walk_value(const struct walk *w, size_t at)
{
    return (double)*(const uint64_t *)((const char *)w + at);
}

static void put_walks(struct page *p, const struct walk *walks, uint32_t count)
{
#define COUNTERS(field) offsetof(struct walk, counters.field)
#define STATE(state)    offsetof(struct walk, states) + (state) * sizeof(uint64_t)
    static const struct {
        const char *name, *help, *label, *value;
        enum exposition_kind kind;
        size_t at;
    } rows[] = {
        {"sluice_entries", "Deliveries that schedulers know, by state.", "state", "waiting",
         EXPOSITION_GAUGE, COUNTERS(entries_waiting)},
        {"sluice_entries", NULL, "state", "in flight", EXPOSITION_GAUGE,
         COUNTERS(entries_in_flight)},
        {"sluice_connections", "Connections to receivers.", NULL, "", EXPOSITION_GAUGE,
         COUNTERS(connections)},
        {"sluice_connections_idle", "Those among them without a delivery.", NULL, "",
         EXPOSITION_GAUGE, COUNTERS(idle)},
        {"sluice_windows", "Sum of the concurrency windows of all destinations.", NULL, "",
         EXPOSITION_GAUGE, offsetof(struct walk, windows)},
        {"sluice_destinations", "Destinations that schedulers know, by state.", "state", "ready",
         EXPOSITION_GAUGE, STATE(SCHED_DESTINATION_READY)},
        {"sluice_destinations", NULL, "state", "dead", EXPOSITION_GAUGE,
         STATE(SCHED_DESTINATION_DEAD)},
        {"sluice_destinations", NULL, "state", "suspended", EXPOSITION_GAUGE,
         STATE(SCHED_DESTINATION_SUSPENDED)},
        {"sluice_destinations", NULL, "state", "resolving", EXPOSITION_GAUGE,
         STATE(SCHED_DESTINATION_RESOLVING)},
        {"sluice_selections_total", "Entries that schedulers selected.", NULL, "",
         EXPOSITION_COUNTER, COUNTERS(selections)},
        {"sluice_reports_total", "Attempts that came back to schedulers.", NULL, "",
         EXPOSITION_COUNTER, COUNTERS(reports)},
        {"sluice_put_back_total",
         "Entries that went back to the spool without an attempt: what limits their lanes, or "
         "their "
         "tenant, takes them much later.",
         NULL, "", EXPOSITION_COUNTER, COUNTERS(put_back)},
    };
#undef COUNTERS
#undef STATE
    const struct config_transport *transports = settings_of(p->engine)->config->transports;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].help != NULL) {
            exposition_family(&p->out, rows[i].name, rows[i].kind, rows[i].help);
        }
        for (uint32_t t = 0; t < count; t++) {
            if (transports[t].is_gone) {
                continue;
            }
            const struct slice transport = slice_of(transports[t].name);
            const struct exposition_labels labels = {
                {{"transport", transport}, {rows[i].label, slice_of(rows[i].value)}}};
            exposition_sample(&p->out, rows[i].name, &labels, walk_value(&walks[t], rows[i].at));
        }
    }
}

static void put_schedulers(struct page *p)
{
    uint32_t count = (uint32_t)settings_of(p->engine)->transport_count;
    struct walk *walks = calloc(count, sizeof(*walks));
    for (uint32_t t = 0; walks != NULL && t < count; t++) {
        walk_destinations(p, t, &walks[t]);
    }
    if (walks == NULL) {
        p->out.failed = true;
    } else {
        put_walks(p, walks, count);
    }
    free(walks);
}

/* --- threads and sockets ---------------------------------------------------------------------- */

static void put_depth(struct page *p, const char *thread, uint32_t index, const struct mailbox *box)
{
    char number[16];
    int len = snprintf(number, sizeof(number), "%u", index);
    const struct exposition_labels labels = {
        {{"thread", slice_of(thread)}, {"index", slice_make(number, (size_t)len)}}};
    exposition_sample(&p->out, "sluice_mailbox_letters", &labels, (double)mailbox_count(box));
}

static void put_mailboxes(struct page *p)
{
    const struct engine *e = p->engine;
    exposition_family(&p->out, "sluice_mailbox_letters", EXPOSITION_GAUGE,
                      "Letters that wait for a thread.");
    put_depth(p, "spool-writer", 0, e->boxes.writer);
    put_depth(p, "spool-writer", 1, e->boxes.receptions);
    put_depth(p, "activator", 0, e->boxes.activator);
    put_depth(p, "clerk", 0, e->boxes.clerks[0]);
    put_depth(p, "clerk", 1, e->boxes.clerks[1]);
    for (uint32_t i = 0; i < e->sched_count; i++) {
        put_depth(p, "scheduler", i, e->boxes.scheds[i]);
    }
    for (uint32_t i = 0; i < e->worker_count; i++) {
        put_depth(p, "worker", i, e->boxes.workers[i]);
    }
}

static void put_listeners(struct page *p)
{
    const struct engine *e = p->engine;
    const struct config *c = e->config;
    exposition_family(&p->out, "sluice_listener_connections", EXPOSITION_GAUGE,
                      "Connections of clients, by listener.");
    for (size_t i = 0; i < c->listener_count; i++) {
        put_sample(p, "sluice_listener_connections", "listener", slice_of(c->listeners[i].name),
                   atomic_load_explicit(&e->listeners[i]->connections, memory_order_relaxed));
    }
    exposition_family(&p->out, "sluice_listener_connections_total", EXPOSITION_COUNTER,
                      "Connections that were admitted, or refused by a limit, by listener.");
    for (size_t i = 0; i < c->listener_count; i++) {
        struct slice name = slice_of(c->listeners[i].name);
        struct exposition_labels labels = {{{"listener", name}, {"verdict", SLICE("admitted")}}};
        exposition_sample(&p->out, "sluice_listener_connections_total", &labels,
                          (double)counter(&e->listeners[i]->admitted));
        labels.items[1].value = SLICE("refused");
        exposition_sample(&p->out, "sluice_listener_connections_total", &labels,
                          (double)counter(&e->listeners[i]->refused));
    }
}

struct consumer_page {
    struct page *page;
    const char *name;
    double (*value)(const struct event_feed_report *r);
};

static double consumer_bytes(const struct event_feed_report *r)
{
    return (double)r->behind_bytes;
}

static double consumer_age(const struct event_feed_report *r)
{
    return (double)r->behind / (double)USEC_PER_SEC;
}

static double consumer_events(const struct event_feed_report *r)
{
    return (double)r->events;
}

static double consumer_failures(const struct event_feed_report *r)
{
    return (double)r->failures;
}

static double consumer_gaps(const struct event_feed_report *r)
{
    return (double)r->gaps;
}

static void put_consumer(void *ctx, const struct event_feed_report *r)
{
    const struct consumer_page *c = ctx;
    const struct exposition_labels labels = {
        {{"kind", slice_of(r->kind)}, {"consumer", slice_of(r->name)}}};
    exposition_sample(&c->page->out, c->name, &labels, c->value(r));
}

static void put_consumers(struct page *p)
{
    static const struct {
        const char *name, *help;
        enum exposition_kind kind;
        double (*value)(const struct event_feed_report *r);
    } rows[] = {
        {"sluice_event_consumer_behind_bytes", "Bytes of the event log that it has not done.",
         EXPOSITION_GAUGE, consumer_bytes},
        {"sluice_event_consumer_behind_seconds",
         "Age of the oldest event it has read and not done.", EXPOSITION_GAUGE, consumer_age},
        {"sluice_event_consumer_events_total", "Events it has done.", EXPOSITION_COUNTER,
         consumer_events},
        {"sluice_event_consumer_failures_total", "Tries that failed, and were or will be repeated.",
         EXPOSITION_COUNTER, consumer_failures},
        {"sluice_event_consumer_gaps_total", "How often events were removed before it read them.",
         EXPOSITION_COUNTER, consumer_gaps},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct consumer_page c = {p, rows[i].name, rows[i].value};
        exposition_family(&p->out, rows[i].name, rows[i].kind, rows[i].help);
        event_feed_look(p->engine->feed, put_consumer, &c);
    }
}

static void put_process(struct page *p)
{
    struct process_figures f;
    process_read(&f);
    put_one(p, "process_cpu_seconds_total", EXPOSITION_COUNTER, "CPU time, of user and system.",
            seconds(f.cpu_usec));
    put_one(p, "process_resident_memory_bytes", EXPOSITION_GAUGE,
            "Memory that is resident, pages of the spool's map included.", (double)f.rss_bytes);
    put_one(p, "process_virtual_memory_bytes", EXPOSITION_GAUGE, "Size of the address space.",
            (double)f.virtual_bytes);
    put_one(p, "process_open_fds", EXPOSITION_GAUGE, "Open file descriptors.", (double)f.fds);
    put_one(p, "process_max_fds", EXPOSITION_GAUGE, "Limit of open file descriptors.",
            (double)f.fds_max);
    put_one(p, "process_start_time_seconds", EXPOSITION_GAUGE, "When the daemon was started.",
            seconds((uint64_t)p->engine->started));
    usec_t now = clock_wall();
    put_one(p, "sluice_uptime_seconds", EXPOSITION_GAUGE, "How long the daemon runs.",
            now > p->engine->started ? seconds((uint64_t)(now - p->engine->started)) : 0);
    exposition_family(&p->out, "sluice_build_info", EXPOSITION_GAUGE, "Always 1.");
    put_sample(p, "sluice_build_info", "version", SLICE(SLUICE_VERSION), 1);
}

void metrics_show(struct clerk *k, struct api_call *c)
{
    struct page p = {.clerk = k, .engine = k->engine};
    buf_init(&p.out, 0);
    put_totals(&p);
    put_mail_classes(&p);
    put_seals(&p);
    put_denials(&p);
    put_tables(&p);
    put_classes(&p);
    put_spans(&p);
    put_spool(&p);
    put_waits(&p);
    put_flow(&p);
    put_orders(&p);
    put_schedulers(&p);
    site_report_metrics(&p.out, p.engine);
    limit_metrics_put(&p.out, p.engine);
    put_mailboxes(&p);
    put_listeners(&p);
    put_consumers(&p);
    nodes_report_metrics(&p.out, p.engine);
    put_process(&p);
    if (p.out.failed) {
        api_error(c, 503, "unavailable", "out of memory");
    } else {
        api_raw(c, 200, EXPOSITION_TYPE, buf_slice(&p.out));
    }
    buf_fini(&p.out);
}
