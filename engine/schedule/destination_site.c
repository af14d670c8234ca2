/* See the header. Reads the cores' views and what scheduler threads remember. */
#include "engine/schedule/destination_site.h"

#include "base/history.h"
#include "engine/state/engine.h"

static bool is_cut_name(const char *text, size_t room, struct slice name)
{
    return slice_eq(slice_of(text), slice_to(name, name.len < room - 1 ? name.len : room - 1));
}

bool destination_site_is_of(const struct sched_change *change, struct slice destination,
                            struct slice site)
{
    return is_cut_name(change->name, sizeof(change->name), destination) ||
           (site.len > 0 && is_cut_name(change->name, sizeof(change->name), site));
}

static bool last_place(const struct engine *e, uint32_t transport, struct slice destination,
                       struct receiver_place *ret)
{
    const struct history *h = sched_thread_places(e->scheds[transport % e->sched_count]);
    uint64_t begin = history_begin(h);
    for (uint64_t i = history_end(h); i > begin; i--) {
        if (history_get(h, i - 1, ret) && ret->transport == transport &&
            is_cut_name(ret->destination, sizeof(ret->destination), destination)) {
            return true;
        }
    }
    return false;
}

void destination_site_find(const struct engine *e, uint32_t transport, struct slice destination,
                           struct destination_site *ret)
{
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    struct sched_destination_view d;
    ret->key = SLICE("");
    ret->is_in_core = sched_view_destination(s, destination, &d);
    if (ret->is_in_core) {
        ret->key = d.site;
    } else if (last_place(e, transport, destination, &ret->place)) {
        ret->key = slice_of(ret->place.site);
    }
    ret->is_known = ret->key.len > 0 && sched_view_site(s, ret->key, &ret->view);
}
