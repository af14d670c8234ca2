/* Turns requests into filters and clerks into sources of walks. Called by handlers; knows neither
 * counts nor lists. */
#include "engine/census/clerk_walk.h"

#include "base/error.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/order/order_book.h"
#include "engine/schedule/destination_site.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <string.h>

static bool take_selector(struct api_call *c, struct selector *s)
{
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        const char *name = selector_word_text(word);
        struct slice value;
        if (!api_param(c, name, &value)) {
            continue;
        }
        if (word == SELECTOR_TENANT && !api_may_name(c, value)) {
            return false;
        }
        int err = selector_set(s, slice_of(name), value);
        if (err != 0) {
            api_error(c, 400, "usage", "%s: %s", name,
                      err == ERR_LIMIT ? "longer than 255 bytes"
                                       : "not a text, such as example.com or *.example.com");
            return false;
        }
    }
    return true;
}

/* An address, whose globs have the rules of a selector's value. */
static bool take_address(struct api_call *c, const char *name, char **ret)
{
    enum { ADDRESS_MAX = 512 };
    struct slice value;
    if (!api_param(c, name, &value)) {
        return true;
    }
    if (value.len > ADDRESS_MAX || memchr(value.data, '\0', value.len) != NULL) {
        api_error(c, 400, "usage", "%s: not an address, such as *@example.com", name);
        return false;
    }
    *ret = slice_dup(value);
    if (*ret == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
    }
    return *ret != NULL;
}

static bool take_queue_states(struct api_call *c, uint32_t *ret)
{
    struct slice rest;
    if (!api_param(c, "state", &rest)) {
        return true;
    }
    do {
        size_t end = slice_find(rest, ',');
        enum queue_state state = queue_state_find(slice_to(rest, end));
        if (state == QUEUE_STATE_COUNT) {
            api_error(c, 400, "usage",
                      "state: one or several of incoming,active,deferred,scheduled,suspended");
            return false;
        }
        *ret |= 1u << state;
        rest = slice_from(rest, end < rest.len ? end + 1 : end);
    } while (rest.len > 0);
    return true;
}

bool clerk_filter(struct api_call *c, struct queue_filter *ret)
{
    usec_t older = 0;
    *ret = (struct queue_filter){0};
    bool is_good = take_selector(c, &ret->selector) && take_address(c, "sender", &ret->sender) &&
                   take_address(c, "recipient", &ret->recipient) &&
                   take_queue_states(c, &ret->states) && api_param_span(c, "older", 0, &older);
    ret->created_before = older > 0 ? clock_wall() - older : 0;
    return is_good;
}

void clerk_walk_between_pages(struct clerk *k, struct queue_walk *w)
{
    clerk_quiesce(k);
    const struct settings *settings = settings_of(k->engine);
    queue_walk_configure(w, settings->config, settings->router, settings->sources,
                         settings->replies);
}

static bool between_pages(void *ctx, struct queue_walk *w)
{
    struct clerk *k = ctx;
    clerk_walk_between_pages(k, w);
    return !clerk_must_end(k) && (k->call == NULL || !api_is_deserted(k->call));
}

/* An order holds it at the site of its destination, as far as that is known: not before the destination's
 * hosts were found in this run. */
static bool is_held_at_site(const struct clerk *k, const struct order_facts *mail)
{
    const struct engine *e = k->engine;
    struct order_facts f = *mail;
    struct destination_site site;
    const struct config *c = settings_of(e)->config;
    size_t transport = config_transport_find(c, f.transport);
    f.site = (struct slice){NULL, 0}; /* any: most tenants have no such order */
    if (transport >= c->transport_count || !order_book_has_site_orders(e->orders) ||
        !order_book_may_concern(e->orders, &f, ORDER_SUSPEND, clock_wall())) {
        return false;
    }
    destination_site_find(e, (uint32_t)transport, f.destination, &site);
    f.site = site.key;
    return order_book_holds_at_site(e->orders, &f, clock_wall());
}

static bool is_suspended(void *ctx, const struct slice facts[static SELECTOR_COUNT],
                         usec_t received)
{
    const struct clerk *k = ctx;
    const struct order_facts f = {
        .tenant = facts[SELECTOR_TENANT],
        .campaign = facts[SELECTOR_CAMPAIGN],
        .domain = facts[SELECTOR_DOMAIN],
        .destination = facts[SELECTOR_DESTINATION],
        .transport = facts[SELECTOR_TRANSPORT],
        .sources = facts[SELECTOR_SOURCE],
        .received = received,
    };
    struct order_verdict verdict;
    order_book_judge(k->engine->orders, &f, clock_wall(), &verdict);
    return verdict.kind == ORDER_SUSPEND || (verdict.kind == ORDER_NONE && is_held_at_site(k, &f));
}

void clerk_source(struct clerk *k, struct queue_source *ret)
{
    const struct settings *settings = settings_of(k->engine);
    clerk_read_active(k);
    *ret = (struct queue_source){
        .owner = clerk_owner(k),
        .reader = k->reader,
        .config = settings->config,
        .router = settings->router,
        .sources = settings->sources,
        .replies = settings->replies,
        .active = k->active,
        .active_count = k->active_count,
        .is_suspended = order_book_is_empty(k->engine->orders) ? NULL : is_suspended,
        .between = between_pages,
        .ctx = k,
    };
}

void clerk_walk_error(const struct clerk *k, struct api_call *c, int err)
{
    const char *what = err_str(err);
    if (err == ERR_AGAIN) {
        clerk_spool_error(k, c);
        return;
    }
    if (err == -ECANCELED) {
        what = "the daemon stops, or nobody waits for the answer";
    }
    api_error(c, 503, "unavailable", "%s", what);
}
