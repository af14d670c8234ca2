/* Why a message is still here: each group of its recipients that are not done, and what holds that
 * back. Part of `why`; on a clerk's thread. */
#ifndef ENGINE_WHY_MESSAGE_H
#define ENGINE_WHY_MESSAGE_H

#include "base/attr.h"
#include "engine/report/why_chain.h"

#include <stdint.h>

/* errors: ERR_MISSING no such message; of the walk. ERR_AGAIN: the spool cannot be read, and operators are told what gates
 * and schedulers say */
MUST_USE int why_message(struct why *w, uint64_t id);

#endif
