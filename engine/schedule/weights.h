/* What tenants weigh in a scheduler core: it is told with the first message of a flow, and for all flows by
 * each reload.
 *
 * Owner: the scheduler thread that owns the core. */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "base/clock.h"

#include <stdint.h>

struct engine;
struct message;
struct sched;
struct settings;

/* For sched_message.weight; 0: the core knows it. */
uint16_t weights_of(const struct engine *e, const struct sched *core, const struct message *m);
/* What waits goes by the weights of these settings. */
void weights_set(const struct engine *e, struct sched *core, const struct settings *s, usec_t now);

#endif
