#include "engine/inbound/tenant_refusal.h"

#include "engine/config/config.h"
#include "engine/spool/spool_suppress.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/queue_count.h"
#include "engine/tally/tally.h"

#include <stdio.h>

bool tenant_refusal(const struct engine *e, struct slice tenant, bool is_full, int *ret_code,
                    const char **ret_status, char ret_text[static TENANT_REFUSAL_TEXT])
{
    const struct config *config = settings_of(e)->config;
    const struct config_tenant *t = config_tenant_find(config, tenant);
    uint64_t limit = queue_count_limit(config, tenant);
    const struct slice name = tenant.len > 0 ? tenant : SLICE("-");
    if (t != NULL && !t->inject) {
        *ret_code = 450;
        *ret_status = "4.7.1";
        (void)snprintf(ret_text, TENANT_REFUSAL_TEXT, /* it fits */
                       "Tenant %.*s is suspended and may not send, try again later", (int)name.len,
                       name.data);
        return true;
    }
    if (limit > 0 && (is_full || queue_count_of(e->tally->queued, tenant) >= limit)) {
        *ret_code = 452;
        *ret_status = "4.3.1";
        (void)snprintf(ret_text, TENANT_REFUSAL_TEXT, /* it fits */
                       "Tenant %.*s has as many messages queued as it may (%llu), try again later",
                       (int)name.len, name.data, (unsigned long long)limit);
        return true;
    }
    return false;
}

bool tenant_suppresses(struct engine *e, struct spool_reader *reader, struct slice tenant,
                       struct slice address, char ret[static SMTP_SERVER_REFUSAL_MAX])
{
    struct spool_suppression found;
    if (config_suppression_find(settings_of(e)->config, tenant)->at_intake !=
            CONFIG_SUPPRESSED_REFUSE ||
        reader == NULL || spool_suppress_find(reader, tenant, address, clock_wall(), &found) != 0) {
        return false;
    }
    atomic_fetch_add_explicit(&e->suppressed_refused, 1, memory_order_relaxed);
    bool is_domain = found.address.data != address.data;
    (void)snprintf(ret, SMTP_SERVER_REFUSAL_MAX, /* it fits */
                   "5.1.8 Error: %s is suppressed: %s, in the list %s%.*s",
                   is_domain ? "domain of the recipient" : "recipient",
                   found.is_damaged ? "damaged entry" : spool_suppress_reason_text(found.reason),
                   found.tenant.len == 0 ? "for all" : "of tenant ", SLICE_ARG(found.tenant));
    return true;
}
