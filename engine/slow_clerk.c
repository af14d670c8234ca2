#include "engine/slow_clerk.h"

#include "engine/census/queue_figures.h"
#include "engine/http/clerk.h"
#include "engine/lane/lane_memory.h"
#include "engine/limit/limits_memory.h"
#include "engine/report/drain.h"
#include "engine/state/engine.h"

usec_t slow_clerk_work(struct clerk *k)
{
    usec_t figures = queue_figures_refresh(k);
    usec_t lanes = clock_mono() + LIMITS_SAVE_SPAN;
    if (limits_memory_is_due(k->engine->limits, clock_mono())) {
        lane_memory_keep(k->engine);
    }
    usec_t drain = drain_watch(k);
    lanes = drain < lanes ? drain : lanes;
    return figures < lanes ? figures : lanes;
}
