/* Answers to the `queue` requests of the control socket, as engine/control_client.h defines them.
 */
#ifndef ENGINE_QUEUE_REPORT_H
#define ENGINE_QUEUE_REPORT_H

#include "base/attr.h"
#include "base/slice.h"

struct engine;
struct queue_report;

/* errors: -ENOMEM, -errno of the spool reader */
MUST_USE int queue_report_new(struct engine *engine, struct queue_report **ret);
void queue_report_free(struct queue_report *q); /* accepts NULL */

/* Answer one request line on a blocking socket with a send timeout. The thread is online for RCU;
 * it goes offline while it sends. An answer that cannot be completed has no end object. */
void queue_report_answer(struct queue_report *q, int fd, struct slice request);

#endif
