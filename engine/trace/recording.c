/* Owns the budget of a worker's recorder. Called where a session begins and where somebody reads, so
 * that a reload needs no letter for it. */
#include "engine/trace/recording.h"

#include "base/hash.h"
#include "engine/config/config.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/trace/flight_recorder.h"
#include "engine/worker/worker.h"

struct flight_recorder *recording_of(struct worker *w)
{
    const struct engine *e = w->engine;
    size_t budget = settings_of(e)->config->trace_memory / e->worker_count;
    if (w->recorder != NULL) {
        flight_recorder_set_budget(w->recorder, budget);
    } else if (budget > 0) {
        w->recorder = flight_recorder_new(budget, hash_random_seed());
    }
    return budget > 0 ? w->recorder : NULL;
}
