#include "engine/slow_clerk.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/census/queue_figures.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/limit/limits_memory.h"
#include "engine/state/engine.h"

#include <limits.h>
#include <stdio.h>

static const char *path_of_lanes(const struct engine *e, char room[static PATH_MAX])
{
    (void)snprintf(room, PATH_MAX, "%s/lanes", e->config->spool.path);
    return room;
}

void slow_clerk_recall_lanes(struct engine *e)
{
    char room[PATH_MAX];
    const char *path = path_of_lanes(e, room);
    int err = limits_memory_load(e->limits, path, clock_mono(), clock_wall());
    if (err != 0) {
        log_error("%s: %s: what lanes learned before is forgotten", path, err_str(err));
    }
}

void slow_clerk_keep_lanes(struct engine *e)
{
    char room[PATH_MAX];
    const char *path = path_of_lanes(e, room);
    int err = limits_memory_save(e->limits, path, clock_mono(), clock_wall());
    if (err != 0) {
        log_error("%s: %s: the next start will not know what lanes learned", path, err_str(err));
    }
}

usec_t slow_clerk_work(struct clerk *k)
{
    usec_t figures = queue_figures_refresh(k);
    usec_t lanes = clock_mono() + LIMITS_SAVE_SPAN;
    if (limits_memory_is_due(k->engine->limits, clock_mono())) {
        slow_clerk_keep_lanes(k->engine);
    }
    return figures < lanes ? figures : lanes;
}
