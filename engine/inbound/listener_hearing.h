/* Mail for us at a listener (`receives`): who is heard there, and the message on its way to the thread
 * that hears. Called by sessions, on their workers. */
#ifndef ENGINE_LISTENER_HEARING_H
#define ENGINE_LISTENER_HEARING_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/smtp_server.h"

#include <stdint.h>

struct config_listener;
struct engine;
struct hearing;

/* What becomes of a recipient (local@domain). Thread: online under RCU. */
enum smtp_server_hearing listener_hears(const struct engine *e, const struct config_listener *lc,
                                        struct slice address);

/* Whose message it is going to be. */
struct listener_hearing_of {
    uint64_t id;
    uint16_t worker;
    void *connection;
};
/* The transaction's recipient is known: the message begins. NULL: no memory. */
struct hearing *listener_hearing_begin(const struct smtp_server *core,
                                       const struct listener_hearing_of *of);
/* Take over content; what is beyond HEARD_BYTES_MAX is dropped. */
void listener_hearing_take(struct hearing *h, struct buf *body);
#endif
