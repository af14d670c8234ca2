/* Owns the comparison of consumers with the configuration. Called by event_feed.c; must not change a
 * consumer that is there. */
#include "engine/feed/feed_plan.h"

#include "engine/config/config.h"
#include "engine/config/config_change.h"
#include "engine/config/config_section.h"
#include "engine/event/event_log.h"
#include "engine/feed/account_consumer.h"
#include "engine/feed/webhook.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int feed_plan_new(const struct event_log *log, struct settings *settings, struct feed_plan **ret)
{
    struct feed_plan *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return -ENOMEM;
    }
    int err = event_position_end(log->path, &p->begin);
    if (err != 0) {
        free(p);
        return err;
    }
    p->settings = settings_get(settings);
    *ret = p;
    return 0;
}

void feed_plan_free(struct feed_plan *p)
{
    if (p != NULL) {
        settings_put(p->settings);
        free(p);
    }
}

/* --- sections --------------------------------------------------------------------------------- */

struct section_place {
    enum config_section section;
    size_t index;
};

/* number: below the count */
static struct section_place place_of_section(const struct feed_plan *p, size_t number)
{
    size_t webhooks = p->settings->config->webhook_count;
    return number < webhooks ? (struct section_place){CONFIG_SECTION_WEBHOOK, number}
                             : (struct section_place){CONFIG_SECTION_CSV, number - webhooks};
}

size_t feed_plan_count(const struct feed_plan *p)
{
    return p->settings->config->webhook_count + p->settings->config->csv_count;
}

size_t feed_plan_find(const struct feed_plan *p, const struct event_consumer *c)
{
    size_t i = 0;
    for (; i < feed_plan_count(p) && c->section_title != NULL; i++) {
        struct section_place at = place_of_section(p, i);
        if (at.section == c->section &&
            strcmp(config_section_title(p->settings->config, at.section, at.index),
                   c->section_title) == 0) {
            return i;
        }
    }
    return feed_plan_count(p);
}

static struct slice secret_of_section(const struct feed_plan *p, struct section_place at)
{
    return at.section == CONFIG_SECTION_WEBHOOK ? p->settings->passwords.webhooks[at.index]
                                                : SLICE("");
}

bool feed_plan_keeps(const struct feed_plan *made_by, const struct feed_plan *wanted,
                     const struct event_consumer *c)
{
    size_t was = feed_plan_find(made_by, c), is = feed_plan_find(wanted, c);
    if (was == feed_plan_count(made_by) || is == feed_plan_count(wanted)) {
        return false;
    }
    struct section_place a = place_of_section(made_by, was), b = place_of_section(wanted, is);
    return config_change_is_same_section(
               a.section, config_section_at(made_by->settings->config, a.section, a.index),
               config_section_at(wanted->settings->config, b.section, b.index)) &&
           slice_eq(secret_of_section(made_by, a), secret_of_section(wanted, b));
}

int feed_plan_make(const struct feed_plan *p, size_t number, const struct engine *engine,
                   const struct event_consumer_place *at, CURLM *multi, struct event_consumer **ret)
{
    const struct config *config = p->settings->config;
    struct section_place place = place_of_section(p, number);
    if (place.section == CONFIG_SECTION_CSV) {
        return account_consumer_new(&config->csvs[place.index], engine, at, ret);
    }
    return webhook_new(&config->webhooks[place.index], secret_of_section(p, place), at, multi, ret);
}
