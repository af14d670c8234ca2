/* Owns the comparison of two snapshots by their providers and domains. Called when a reload's settings
 * are made; must not know what follows from a change. */
#include "engine/config/config_change.h"
#include "engine/config/config_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Options of the scheduler that count for a destination, whatever its site is. */
static bool is_of_destination(const struct config_option *o)
{
    return o->offset == offsetof(struct config_transport, sched.destination_recipient_limit) ||
           o->offset == offsetof(struct config_transport, sched.destination_rate_delay);
}

/* One option of two sections; of one that does not set it the value means nothing. */
static void compare_option(const struct config_option *o, const struct config_receiver *a,
                           const struct config_receiver *b, struct config_receiver_change *ret)
{
    unsigned bit = config_option_receiver_bit(o);
    bool is_in_a = a != NULL && (a->set >> bit & 1) != 0;
    bool is_in_b = b != NULL && (b->set >> bit & 1) != 0;
    if (is_in_a == is_in_b &&
        (!is_in_a || config_value_equal(o, (const char *)&a->options + o->offset,
                                        (const char *)&b->options + o->offset))) {
        return;
    }
    size_t smtp = offsetof(struct config_transport, smtp);
    bool is_way = (o->offset >= smtp && o->offset < smtp + sizeof(struct config_smtp)) ||
                  is_of_destination(o);
    *(is_way ? &ret->has_ways : &ret->has_limits) = true;
}

static bool has_lane_options(const struct config_receiver *r)
{
    for (size_t i = 0; r != NULL && i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->is_lanes && (r->set >> config_option_receiver_bit(o) & 1) != 0) {
            return true;
        }
    }
    return false;
}

/* a, b: at most one of them NULL, for a section that is not there */
static void compare_sections(const struct config_receiver *a, const struct config_receiver *b,
                             struct config_receiver_change *ret)
{
    for (size_t i = 0; i < config_option_count; i++) {
        if (config_options[i].is_receivers) {
            compare_option(&config_options[i], a, b, ret);
        }
    }
}

static void compare_providers(const struct config *a, const struct config *b,
                              struct config_receiver_change *ret)
{
    const struct config_option *mx = config_option_find(CONFIG_SECTION_PROVIDER, "mx");
    const struct config_option *domains = config_option_find(CONFIG_SECTION_PROVIDER, "domains");
    ret->has_members = ret->has_members || a->provider_count != b->provider_count;
    for (size_t i = 0; i < a->provider_count && i < b->provider_count; i++) {
        const struct config_receiver *x = &a->providers[i];
        const struct config_receiver *y = &b->providers[i];
        ret->has_members = ret->has_members || strcmp(x->options.name, y->options.name) != 0 ||
                           !config_value_equal(mx, &x->mx, &y->mx) ||
                           !config_value_equal(domains, &x->domains, &y->domains);
        compare_sections(x, y, ret);
    }
}

static int compare_names(const void *a, const void *b)
{
    const struct config_receiver *const *x = a;
    const struct config_receiver *const *y = b;
    return strcmp((*x)->options.name, (*y)->options.name);
}

/* errors: NULL when out of memory */
static const struct config_receiver **sort_domains(const struct config *c)
{
    const struct config_receiver **sorted = calloc(c->domain_count + 1, sizeof(*sorted));
    for (size_t i = 0; sorted != NULL && i < c->domain_count; i++) {
        sorted[i] = &c->domains[i];
    }
    if (sorted != NULL) {
        qsort(sorted, c->domain_count, sizeof(*sorted), compare_names);
    }
    return sorted;
}

/* Both lists end with NULL. */
static void compare_domains(const struct config_receiver **a, const struct config_receiver **b,
                            bool has_providers, struct config_receiver_change *ret)
{
    while (*a != NULL || *b != NULL) {
        int order = *a == NULL || *b == NULL ? (*a == NULL) - (*b == NULL) : compare_names(a, b);
        const struct config_receiver *x = order <= 0 ? *a++ : NULL;
        const struct config_receiver *y = order >= 0 ? *b++ : NULL;
        ret->has_members = ret->has_members || has_lane_options(x) != has_lane_options(y);
        struct config_receiver_change change = {0};
        compare_sections(x, y, &change);
        /* Inside a provider its limits are bounds of the destination alone. */
        ret->has_ways = ret->has_ways || change.has_ways || (change.has_limits && has_providers);
        ret->has_limits = ret->has_limits || change.has_limits;
    }
}

int config_change_receivers(const struct config *a, const struct config *b,
                            struct config_receiver_change *ret)
{
    const struct config_receiver **x = sort_domains(a);
    const struct config_receiver **y = sort_domains(b);
    int err = x == NULL || y == NULL ? -ENOMEM : 0;
    if (err == 0) {
        *ret = (struct config_receiver_change){0};
        compare_providers(a, b, ret);
        compare_domains(x, y, a->provider_count + b->provider_count > 0, ret);
    }
    free(x);
    free(y);
    return err;
}
