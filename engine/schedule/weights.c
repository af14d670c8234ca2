/* Called by sched_thread.c; decides nothing, the weights are the configuration's. */
#include "engine/schedule/weights.h"

#include "engine/activator/activator.h"
#include "engine/activator/flow_names.h"
#include "engine/config/config.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

uint16_t weights_of(const struct engine *e, const struct sched *core, const struct message *m)
{
    return sched_knows_flow(core, &m->flow)
               ? 0
               : config_tenant_weight(settings_of(e)->config, m->envelope.tenant);
}

void weights_set(const struct engine *e, struct sched *core, const struct settings *s, usec_t now)
{
    struct sched_flow_view v;
    uint64_t cursor = 0;
    while (sched_view_flows(core, &cursor, &v)) {
        struct label name = {.len = 0};
        bool is_known = v.key.tenant == 0 ||
                        flow_names_tenant(activator_flow_names(e->activator), v.key.tenant, &name);
        uint16_t weight = config_tenant_weight(s->config, label_slice(&name));
        if (is_known && weight != v.weight) {
            sched_tenant_weight(core, v.key.tenant, weight, now);
        }
    }
}
