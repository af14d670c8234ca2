/* Owns what a view says of a spool's node. Called by the thread that takes logs over, and for operators'
 * requests; the caller has the view locked. */
#include "base/error.h"
#include "engine/cluster/member.h"
#include "engine/nodes/nodes.h"

#include <string.h>

enum holder nodes_view_holder(const struct nodes_view *view, usec_t overlooked, usec_t now,
                              uint16_t number)
{
    if (!view->is_joined) {
        return HOLDER_UNKNOWN;
    }
    for (size_t i = 0; i < view->count; i++) {
        const struct node_view *v = &view->nodes[i];
        if (v->entry.number == number && v->entry.is_leaving) {
            return HOLDER_LEFT;
        }
        if (v->entry.number == number) {
            return v->state == MEMBER_GONE && !v->is_self ? HOLDER_GONE : HOLDER_RUNS;
        }
    }
    bool is_blind = (overlooked != 0 && now - overlooked < MEMBER_GONE_AFTER) ||
                    now - view->heard >= MEMBER_LAPSED_AFTER;
    return is_blind ? HOLDER_UNKNOWN : HOLDER_NONE;
}

int nodes_view_may_forget(const struct nodes_view *view, const char *name, uint16_t *ret_number)
{
    int err = ERR_MISSING;
    for (size_t i = 0; i < view->count; i++) {
        const struct node_view *v = &view->nodes[i];
        if (strcmp(v->entry.name, name) == 0) {
            bool is_alive = !v->entry.is_leaving && v->state != MEMBER_GONE;
            err = is_alive ? ERR_LOCKED : 0;
            *ret_number = v->entry.number;
        }
    }
    return err;
}
