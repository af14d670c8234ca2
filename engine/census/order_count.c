/* Owns nothing. Called by order_report.c on the clerk that walks; a selector without a source is a
 * plain census, whose result is kept for who asks again. */
#include "engine/census/order_count.h"

#include "engine/census/census.h"
#include "engine/census/clerk_walk.h"
#include "engine/census/queue_walk.h"
#include "engine/http/clerk.h"
#include "engine/order/order_book.h"
#include "engine/state/engine.h"

/* What the book says of each recipient. errors: of the walk */
static int count_matched(struct clerk *k, const struct order *o, const struct queue_filter *filter,
                         struct order_count *ret)
{
    struct queue_source from;
    struct queue_walk w;
    *ret = (struct order_count){0};
    clerk_source(k, &from);
    queue_walk_begin(&w, &from, filter, 0, true);
    while (queue_walk_next(&w)) {
        uint64_t before = ret->recipients;
        while (queue_walk_recipient(&w)) {
            const struct slice *f = w.recipient.facts;
            const struct order_facts facts = {
                .tenant = f[SELECTOR_TENANT],
                .campaign = f[SELECTOR_CAMPAIGN],
                .domain = f[SELECTOR_DOMAIN],
                .destination = f[SELECTOR_DESTINATION],
                .transport = f[SELECTOR_TRANSPORT],
                .sources = f[SELECTOR_SOURCE],
            };
            ret->recipients += order_book_would_hold(k->engine->orders, o, &facts, w.now);
        }
        ret->messages += ret->recipients > before;
    }
    queue_walk_end(&w);
    return w.error;
}

int order_count_take(struct clerk *k, enum order_kind kind, const struct selector *selector,
                     usec_t before, struct order_count *ret)
{
    /* The selector is only read. */
    const struct census_query query = {.filter = {.selector = *selector, .created_before = before}};
    const struct order o = {.kind = kind, .selector = *selector, .until = USEC_NEVER};
    const struct census_result *c;
    if (kind != ORDER_NONE && selector->value[SELECTOR_SOURCE] != NULL) {
        return count_matched(k, &o, &query.filter, ret);
    }
    int err = census_run(k, &query, &c);
    if (err == 0) {
        *ret = (struct order_count){.messages = c->messages, .recipients = c->recipients};
    }
    return err;
}
