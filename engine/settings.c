/* Owns the life of settings: made of a configuration, counted, freed with the last reference.
 * Called by main at start and at a reload, and by whoever holds a reference; must not publish. */
#include "engine/settings.h"

#include "base/error.h"
#include "engine/config.h"
#include "engine/request.h"
#include "engine/router.h"
#include "engine/tls_policy.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static_assert(SETTINGS_TEXT_MAX >= PASSWORD_TEXT_MAX &&
                  SETTINGS_TEXT_MAX >= LISTENER_RULES_TEXT_MAX,
              "all complaints fit");

static void settings_free(struct settings *s)
{
    request_configs_fini(s);
    passwords_free(s->config, &s->passwords);
    tls_policy_close_clients(s);
    for (size_t i = 0; s->listeners != NULL && i <= s->listener_count; i++) {
        listener_rules_fini(&s->listeners[i]);
    }
    free(s->listeners);
    router_free(s->router);
    free(s);
}

/* Recipients are refused in the dialogue rather than bounced, by the routes of the moment. */
static bool has_route(const void *engine, struct slice domain)
{
    struct route_result route;
    return router_route(settings_of(engine)->router, domain, &route);
}

static int make_listeners(struct settings *s, const struct engine *engine, char *ret_text)
{
    const struct config *c = s->config;
    s->listener_count = c->listener_count;
    s->listeners = calloc(s->listener_count + 1, sizeof(*s->listeners));
    int err = s->listeners == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i <= s->listener_count && err == 0; i++) {
        const struct config_listener *section = i < c->listener_count ? &c->listeners[i] : NULL;
        err = listener_rules_init(&s->listeners[i], c, section, ret_text);
        s->listeners[i].smtp.has_route = has_route;
        s->listeners[i].smtp.routes = engine;
    }
    return err;
}

int settings_new(const struct engine *engine, const struct config *config, struct settings **ret,
                 char ret_text[static SETTINGS_TEXT_MAX])
{
    struct settings *s = calloc(1, sizeof(*s));
    (void)snprintf(ret_text, SETTINGS_TEXT_MAX, "out of memory");
    if (s == NULL) {
        return -ENOMEM;
    }
    s->config = config;
    s->serial = 1;
    atomic_init(&s->references, 1);
    s->router = router_new(config);
    int err = s->router == NULL ? -ENOMEM : 0;
    err = err != 0 ? err : make_listeners(s, engine, ret_text);
    err = err != 0 ? err : tls_policy_open_clients(s, ret_text);
    err = err != 0 ? err : passwords_load(config, &s->passwords, ret_text);
    if (err == 0) {
        (void)snprintf(ret_text, SETTINGS_TEXT_MAX, "out of memory");
        err = request_configs_init(s);
    }
    if (err != 0) {
        settings_free(s);
        return err;
    }
    *ret = s;
    return 0;
}

struct settings *settings_get(struct settings *s)
{
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
    return s;
}

void settings_put(struct settings *s)
{
    if (s == NULL) {
        return;
    }
    /* Release: what this holder read happened before the free of whoever is last (acquire). */
    if (atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 1) {
        settings_free(s);
    }
}
