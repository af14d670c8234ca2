/* Why mail for a destination does not go out: its place in the scheduler, its hosts, its
 * transport, the orders about it. Part of `why`; on a clerk's thread, online for RCU. */
#ifndef ENGINE_WHY_DESTINATION_H
#define ENGINE_WHY_DESTINATION_H

#include "base/attr.h"
#include "engine/order/selector.h"
#include "engine/report/why_chain.h"

#include <stdbool.h>
#include <stdint.h>

/* Why mail for one destination of one transport waits, as its scheduler sees it now. returns false,
 * with no link added, when the scheduler knows neither the destination nor that its site is dead, and
 * nothing stands of its lanes
 *
 * pool  of the mail, as a scheduler has it; WHY_ANY_POOL: any that is there */
#define WHY_ANY_POOL (-1)
bool why_destination(struct why *w, int level, uint32_t transport, struct slice name, int pool);
/* What an open window and a reply of 250 still need: the level of TLS. */
void why_tls(struct why *w, int level, uint32_t transport, struct slice name);
/* Standing orders that agree with all the facts that are not empty. returns how many */
unsigned why_orders(struct why *w, int level, const struct slice facts[static SELECTOR_COUNT],
                    struct slice site);

#endif
