/* Owns nothing. Called by the scheduler thread, which owns the core; must not wait. */
#include "engine/schedule/withdrawal.h"

#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/order/intercept.h"
#include "engine/order/order_book.h"
#include "engine/order/selector.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/schedule/dispatch.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/sched.h"

#include <stdlib.h>

/* How many destinations that an order may concern are listed by name. If there are more, messages
 * are withdrawn for all destinations, and recipients that no order concerns return to the queue. */
enum { NAMES_MAX = 64 };

struct names {
    struct slice items[NAMES_MAX];
    int count;
    bool has_more;
};

/* Why what was withdrawn left the core; its result is by what the orders say then. */
static const struct sched_reason ordered = {"4.7.0", "an order of the operator"};

static struct order_facts facts_of(const struct settings *s, uint16_t transport)
{
    return (struct order_facts){.transport = slice_of(s->config->transports[transport].name)};
}

static void find_destinations(const struct engine *e, const struct sched *core, uint16_t transport,
                              struct names *ret)
{
    struct sched_destination_view d;
    uint64_t cursor = 0;
    ret->count = 0;
    ret->has_more = false;
    const struct settings *s = settings_of(e);
    while (sched_view_destinations(core, &cursor, &d)) {
        struct order_facts facts = facts_of(s, transport);
        facts.destination = d.name;
        facts.site = d.site.data == NULL ? SLICE("") : d.site;
        facts.sources = source_table_pool_list(s->sources, s->config, transport, d.pool);
        if (!order_book_may_concern(e->orders, &facts, ORDER_SUSPEND, clock_wall())) {
            continue;
        }
        if (ret->count == NAMES_MAX) {
            ret->has_more = true;
            return;
        }
        ret->items[ret->count++] = d.name;
    }
}

void withdrawal_apply(struct engine *e, struct sched *core, uint16_t transport, usec_t now)
{
    struct names names;
    struct sched_job_view job;
    uint64_t cursor = 0;
    if (order_book_is_empty(e->orders)) {
        return;
    }
    const struct settings *s = settings_of(e);
    find_destinations(e, core, transport, &names);
    while (sched_view_jobs(core, &cursor, &job)) {
        const struct message *m = job.handle;
        struct order_facts facts = facts_of(s, transport);
        facts.sources = source_table_list(s->sources, s->config, transport, m->envelope.tenant);
        facts.tenant = m->envelope.tenant;
        facts.campaign = m->envelope.campaign;
        if (job.waiting == 0 ||
            !order_book_may_concern(e->orders, &facts, ORDER_SUSPEND, clock_wall())) {
            continue;
        }
        if (names.has_more) {
            sched_withdraw(core, job.message_id, SLICE(""), &ordered, now);
        }
        for (int i = 0; !names.has_more && i < names.count; i++) {
            sched_withdraw(core, job.message_id, names.items[i], &ordered, now);
        }
    }
}

void withdrawal_apply_newer(struct engine *e, struct sched *core, const struct submission *s,
                            usec_t now)
{
    if (s->orders != order_book_changes(e->orders)) {
        withdrawal_apply(e, core, s->transport, now);
    }
}

uint64_t withdrawal_is_due(const struct engine *e, const struct dispatch *p,
                           const struct sched_action *a)
{
    if (!order_book_has_site_orders(e->orders) || dispatch_is_displaced(p, a->entry)) {
        return 0; /* what was displaced has begun, and goes on */
    }
    const struct message *m = sched_entry_handle(a->entry);
    const struct order_facts facts = {.tenant = m->envelope.tenant,
                                      .campaign = m->envelope.campaign,
                                      .site = sched_destination_site(a->destination),
                                      .received = m->envelope.created};
    return order_book_holds_at_site(e->orders, &facts, clock_wall()) ? m->envelope.id : 0;
}

void withdrawal_at_site(struct sched *core, uint64_t message_id,
                        const struct sched_destination *destination, usec_t now)
{
    sched_withdraw(core, message_id, sched_destination_name(destination), &ordered, now);
}

void withdrawal_give_back(struct sched *core, usec_t now)
{
    static const struct sched_reason reason = {"4.3.5", "its transport is gone"};
    struct sched_counters counters;
    struct sched_job_view job;
    uint64_t cursor = 0;
    sched_view_counters(core, &counters);
    while (counters.entries_waiting > 0 && sched_view_jobs(core, &cursor, &job)) {
        if (job.waiting > 0) {
            sched_withdraw(core, job.message_id, SLICE(""), &reason, now);
        }
    }
}

void withdrawal_give_way(struct sched *core, struct outbox *to_activator, struct message *m,
                         usec_t now)
{
    static const struct sched_reason reason = {"4.3.1", "its flow has too much of the memory"};
    m->gives_way = true; /* the recipients may be pulled at any time from now on */
    if (sched_withdraw_untouched(core, m->envelope.id, &reason, now)) {
        message_put(m);
        return;
    }
    m->gives_way = false;
    letter_put_kept(to_activator, m);
}

void withdrawal_result(struct engine *e, struct outbox *to_writer, uint16_t transport,
                       const struct sched_action *a)
{
    struct message *m = a->handle;
    struct intercept intercept;
    if (m->gives_way) {
        result_send(to_writer, NULL, m, a->index_count, RESULT_WAS_LOADED | RESULT_GIVES_WAY);
        return;
    }
    intercept_init(&intercept, e, to_writer, m, true);
    for (uint32_t i = 0; i < a->index_count; i++) {
        struct order_verdict verdict;
        const struct intercept_way way = {router_domain(message_address(m, a->indexes[i])),
                                          sched_destination_nexthop(a->destination),
                                          sched_destination_site(a->destination), transport};
        if (!intercept_judge(e, &m->envelope, &way, &verdict)) {
            verdict = (struct order_verdict){
                .kind = ORDER_SUSPEND, .until = clock_wall(), .reason = "an order that ended"};
        }
        intercept_take(&intercept, a->indexes[i], &verdict);
    }
    intercept_flush(&intercept);
}

void withdrawal_revive(struct sched *core, const struct selector *wanted, usec_t now)
{
    bool is_any =
        wanted->value[SELECTOR_DESTINATION] == NULL && wanted->value[SELECTOR_DOMAIN] == NULL;
    enum selector_word word =
        wanted->value[SELECTOR_DESTINATION] != NULL ? SELECTOR_DESTINATION : SELECTOR_DOMAIN;
    struct sched_destination_view d;
    uint64_t cursor = 0;
    if (is_any) {
        sched_flush(core, now);
        return;
    }
    sched_flush_hosts(core, now); /* includes hosts of destinations that are forgotten */
    while (sched_view_destinations(core, &cursor, &d)) {
        if (d.state == SCHED_DESTINATION_DEAD && selector_matches_word(wanted, word, d.name)) {
            (void)sched_revive(core, d.name, now);
        }
    }
}
