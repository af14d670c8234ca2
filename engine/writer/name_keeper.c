#include "engine/writer/name_keeper.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_names.h"
#include "engine/post/intake.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

/* NULL: nothing is kept */
static struct return_names *names_of(const struct engine *e)
{
    return settings_of(e)->config->has_return_tokens ? return_book_names(e->returns) : NULL;
}

void name_keeper_note(const struct engine *e, struct slice tenant, struct slice campaign)
{
    struct return_names *names = names_of(e);
    if (names != NULL) {
        return_names_note(names, tenant, campaign);
    }
}

void name_keeper_keep_noted(const struct engine *e)
{
    struct return_names *names = names_of(e);
    if (names == NULL) {
        return;
    }
    rcu_sleep(); /* a disk that stalls must not stop reclaim */
    int err = return_names_keep(names);
    rcu_awake();
    if (err != 0) {
        log_warning("return addresses: names of tenants and campaigns cannot be kept: %s",
                    err_str(err));
    }
}

void name_keeper_keep(const struct engine *e, struct intake *const *parts, uint32_t count)
{
    if (names_of(e) == NULL) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i]->is_last) {
            name_keeper_note(e, parts[i]->envelope.tenant, parts[i]->envelope.campaign);
        }
    }
    name_keeper_keep_noted(e);
}
