/* Moves the numbers of queue_count.h with each reception and removal. Called by the spool writer's
 * thread; answers nobody itself. */
#include "engine/writer/admission.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/post/intake.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/queue_count.h"
#include "engine/tally/tally.h"
#include "engine/writer/journaled.h"

/* Between two counts of all queued mail, which keep everybody waiting. */
static const usec_t count_pause = 10 * USEC_PER_SEC;

static struct queue_count *numbers(const struct admission *a)
{
    return a->engine->tally->queued;
}

void admission_init(struct admission *a, struct engine *engine, struct spool_reader *reader)
{
    *a = (struct admission){.engine = engine, .reader = reader};
}

static void count_journaled(struct admission *a, const struct journaled *journaled)
{
    a->count_after = clock_mono() + count_pause;
    rcu_sleep(); /* the disk may be slow; no RCU pointer of this pass is used meanwhile */
    int err = queue_count_take(numbers(a), a->reader);
    rcu_awake();
    if (err != 0) {
        log_error("spool: queue_limit does not work, as queued mail cannot be counted: %s",
                  err_str(err));
        return;
    }
    list_foreach(m, &journaled->messages, struct message, account.journaled)
    {
        queue_count_add(numbers(a), m->envelope.tenant);
    }
}

bool admission_begin(struct admission *a, const struct journaled *journaled)
{
    const struct config *config = settings_of(a->engine)->config;
    if (config->tenant_count == 0 && !queue_count_is_on(numbers(a))) {
        return false;
    }
    if (queue_count_is_wanted(numbers(a), config) && clock_mono() >= a->count_after) {
        count_journaled(a, journaled);
    }
    return true;
}

bool admission_take(struct admission *a, struct intake *in)
{
    struct slice tenant = in->envelope.tenant;
    uint64_t limit = queue_count_limit(settings_of(a->engine)->config, tenant);
    if (limit > 0 && queue_count_of(numbers(a), tenant) >= limit) {
        return false;
    }
    in->is_counted = true;
    queue_count_add(numbers(a), tenant);
    return true;
}

void admission_answered(struct admission *a, struct intake *in, bool is_stored)
{
    if (in->is_counted && !is_stored) {
        queue_count_remove(numbers(a), in->envelope.tenant);
    }
    in->is_counted = false;
}

void admission_notice(struct admission *a, const struct intake *in)
{
    queue_count_add(numbers(a), in->envelope.tenant);
}

void admission_settled(struct admission *a, const struct message *m)
{
    if (m->account.is_removed) {
        queue_count_remove(numbers(a), m->envelope.tenant);
    }
}

void admission_doubt(struct admission *a)
{
    queue_count_doubt(numbers(a));
}
