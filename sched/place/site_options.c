/* What counts at one site in place of the config. Called by the shell when it has found out whose site
 * it is, and by lane and site, which ask for it. */
#include "sched/place/site.h"
#include "sched/transport.h"

#include <string.h>

const struct feedback_rule *site_rule(const struct sched *s, const struct site *site)
{
    return site->options != NULL ? &site->options->rule : &s->rule;
}

int site_limit(const struct sched *s, const struct site *site)
{
    return site->options != NULL ? site->options->concurrency_limit
                                 : s->config.site_concurrency_limit;
}

usec_t site_memory(const struct sched *s, const struct site *site)
{
    return site->options != NULL ? site->options->memory : s->config.lane_memory;
}

static bool is_same_feedback(const struct sched_feedback *a, const struct sched_feedback *b)
{
    return a->kind == b->kind && a->base == b->base;
}

static bool is_same_rule(const struct feedback_rule *a, const struct feedback_rule *b)
{
    return a->rule == b->rule && a->initial == b->initial && a->limit == b->limit &&
           a->cohort_limit == b->cohort_limit && is_same_feedback(&a->positive, &b->positive) &&
           is_same_feedback(&a->negative, &b->negative);
}

/* errors: NULL when out of memory */
static struct site_options *new_options(struct sched *s, const struct sched_config *from)
{
    struct site_options *o = s->host.alloc(s->host.ctx, sizeof(*o));
    if (o != NULL) {
        feedback_rule_of(from, &o->rule);
        o->concurrency_limit = from->site_concurrency_limit;
        o->memory = from->lane_memory;
    }
    return o;
}

void site_free_options(struct sched *s, struct site *site)
{
    if (site->options != NULL) {
        s->host.release(s->host.ctx, site->options);
        site->options = NULL;
    }
}

static void adopt(struct sched *s, struct site *site, struct site_options *options)
{
    const struct feedback_rule before = *site_rule(s, site);
    int limit = site_limit(s, site);
    site_free_options(s, site);
    site->options = options;
    if (limit == site_limit(s, site) && is_same_rule(&before, site_rule(s, site))) {
        return;
    }
    site->is_pinned = true;
    lane_begin_anew(s, site, &before);
    lane_refit(s, site);
    site_review(s, site);
    site->is_pinned = false;
}

bool sched_site_configure(struct sched *s, struct slice key, const struct sched_config *options,
                          usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    struct site *site = site_find(s, key);
    struct site_options *own = NULL;
    if (site == NULL || (options != NULL && (own = new_options(s, options)) == NULL)) {
        return false;
    }
    adopt(s, site, own);
    site_settle(s, site);
    return true;
}
