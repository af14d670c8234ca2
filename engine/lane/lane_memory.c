/* Reads and writes the file of what lanes learned. Called at start and stop, by the slow clerk now and
 * then, and by the first clerk for each order; must not know what the lines of the file mean. */
#include "engine/lane/lane_memory.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/limit/limits_memory.h"
#include "engine/state/engine.h"

#include <limits.h>
#include <stdio.h>

static const char *path_of_lanes(const struct engine *e, char room[static PATH_MAX])
{
    (void)snprintf(room, PATH_MAX, "%s/lanes", e->config->spool.path);
    return room;
}

void lane_memory_recall(struct engine *e)
{
    char room[PATH_MAX];
    const char *path = path_of_lanes(e, room);
    int err = limits_memory_load(e->limits, path, clock_mono(), clock_wall());
    if (err != 0) {
        log_error("%s: %s: what lanes learned before is forgotten", path, err_str(err));
    }
}

void lane_memory_keep(const struct engine *e)
{
    char room[PATH_MAX];
    const char *path = path_of_lanes(e, room);
    bool is_online = rcu_is_online();
    if (is_online) {
        rcu_sleep(); /* a disk that stalls must not hold up grace periods */
    }
    int err = limits_memory_save(e->limits, path, clock_mono(), clock_wall());
    if (is_online) {
        rcu_awake();
    }
    if (err != 0) {
        log_error("%s: %s: the next start will not know what lanes learned", path, err_str(err));
    }
}
