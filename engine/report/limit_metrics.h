/* Figures of lanes for a monitoring system: by provider and source, and in all. */
#ifndef ENGINE_LIMIT_METRICS_H
#define ENGINE_LIMIT_METRICS_H

#include "base/buf.h"

struct engine;

/* Any thread. Bounded by LIMITS_FIGURES_MAX rows, whatever receivers there are. */
void limit_metrics_put(struct buf *out, const struct engine *e);

#endif
