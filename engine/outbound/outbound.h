/* Outbound SMTP connections of one worker: the shell around net/smtp_client. The scheduler says
 * which delivery goes to which connection, and a new one to which server; a connection carries
 * several at once where the server allows it, streams their bodies from the spool, and sends each
 * result to the spool writer and each report to the scheduler. */
#ifndef ENGINE_OUTBOUND_H
#define ENGINE_OUTBOUND_H

#include "base/attr.h"
#include "engine/worker/worker.h"

#include <stdint.h>

struct delivery;

/* errors: -ENOMEM */
MUST_USE int outbound_start(struct worker *w);
/* Carry a delivery on its connection, which is opened when it is a new one; one that has gone gives
 * it back to the scheduler. */
void outbound_deliver(struct worker *w, struct delivery *d) ON_ROLE(w->post);
/* End an idle connection; no-op when it is gone or busy again.
 *
 * is_awaited  the scheduler keeps its place until LETTER_LOST */
void outbound_close(struct worker *w, uint32_t transport, uint32_t connection, bool is_awaited)
    ON_ROLE(w->post);
/* A delivery that was not begun, at the worker's end, goes back as it is. */
void outbound_return(struct worker *w, struct delivery *d) ON_ROLE(w->post);
/* Close everything, at the worker's end; deliveries under way go back without a result: their mail
 * is still in the spool. */
void outbound_close_all(struct worker *w) ON_ROLE(w->post);

#endif
