/* What holds back mail whatever its destination: gates of the engine, the bound of what a crash can
 * repeat, the limits of what is in memory. Part of `why`; on a clerk's thread, online for RCU. */
#ifndef ENGINE_WHY_GATE_H
#define ENGINE_WHY_GATE_H

#include "engine/report/why_chain.h"

/* What keeps deliveries from being handed out, all of them. */
void why_gates(struct why *w, int level);
/* What keeps queued mail from becoming active. returns false when nothing does */
bool why_memory(struct why *w, int level);

#endif
