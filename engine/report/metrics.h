/* GET /metrics: what the engine counts and how it stands, for a monitoring system. docs/alerts.yml
 * has rules over these names. */
#ifndef ENGINE_METRICS_H
#define ENGINE_METRICS_H

struct api_call;
struct clerk;

void metrics_show(struct clerk *k, struct api_call *c);

#endif
