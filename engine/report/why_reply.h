/* A reply as the cause of a link of the chain, with what it means by the rules in force. */
#ifndef ENGINE_WHY_REPLY_H
#define ENGINE_WHY_REPLY_H

#include "base/slice.h"
#include "engine/report/why_chain.h"

/* line: as reply_line prints it. Sets because, and where somebody refused something class and rule:
 * its name and place, or by what the reply was judged without one. Thread: the clerk's, online */
void why_reply(struct why *w, json_t *link, struct slice line);

#endif
