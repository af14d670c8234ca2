/* What the operators' interface answers to: why is this mail still here? */
#ifndef ENGINE_WHY_REPORT_H
#define ENGINE_WHY_REPORT_H

#include "engine/http/api.h"

/* One object: about (what was asked for), chain (why_chain.h), next_change? (the earliest time at
 * which something of it changes by itself).
 * Query, exactly one of: message (an id), destination (a name), tenant. */
api_handler why_report_show;

#endif
