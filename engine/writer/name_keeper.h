/* Gives the tenants and campaigns of new mail the numbers that return addresses speak of them by. */
#ifndef ENGINE_NAME_KEEPER_H
#define ENGINE_NAME_KEEPER_H

#include "base/slice.h"

#include <stdint.h>

struct engine;
struct intake;

/* Mail that may go out with return addresses has names before it is announced: those of the complete
 * receptions among the parts are written and synced, which blocks when one of them is new. What cannot
 * be kept has none: its tokens say less, and the mail goes out all the same. Nothing happens without
 * `verp`. Thread: the spool writer's, online; offline while the disk works, so that nothing obtained
 * under RCU is used behind the call. */
void name_keeper_keep(const struct engine *e, struct intake *const *parts, uint32_t count);
/* The same for one message that came in another way, in two steps: note and then keep. */
void name_keeper_note(const struct engine *e, struct slice tenant, struct slice campaign);
void name_keeper_keep_noted(const struct engine *e);

#endif
