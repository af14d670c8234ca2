/* Owns the lease of this node. Called by the thread `cluster`; what it means for deliveries is
 * engine_lease_is_over. */
#include "engine/nodes/node_lease.h"

#include "engine/nodes/cluster_clock.h"
#include "engine/nodes/log_owner.h"
#include "engine/state/engine.h"

void node_lease_init(struct node_lease *l, struct engine *engine,
                     const struct cluster_module *module, bool is_automatic)
{
    *l = (struct node_lease){
        .engine = engine, .module = module, .is_heeded = engine->replica != NULL && is_automatic};
    engine_set_lease(engine, l->is_heeded ? 1 : 0); /* 1: it is over, until servers say otherwise */
}

void node_lease_taken(struct node_lease *l, uint16_t holder)
{
    if (l->when_taken != NULL) {
        l->when_taken(l->engine, holder);
    }
}

static bool is_ours(struct node_lease *l, struct cluster_client *client)
{
    struct log_owner own;
    /* Relaxed: a number, which orders nothing. */
    uint16_t number = atomic_load_explicit(&l->engine->node_number, memory_order_relaxed);
    if (!l->is_heeded || number == 0) {
        return true; /* nobody takes over what has no log */
    }
    if (log_owner_get(l->module, client, number, &own) != 0) {
        return false;
    }
    bool is_taken = own.holder != number || own.is_adopted;
    if (is_taken) {
        node_lease_taken(l, own.holder);
    }
    return !is_taken;
}

bool node_lease_renew(struct node_lease *l, struct cluster_client *client, usec_t sent, usec_t now)
{
    if (!member_lease_renew(&l->is, sent, now)) {
        if (!is_ours(l, client)) {
            return false;
        }
        member_lease_begin(&l->is, 1, sent);
    }
    if (l->is_heeded) {
        engine_set_lease(l->engine, cluster_clock_real(l->is.begun + MEMBER_DELIVERIES_FOR));
    }
    return true;
}
