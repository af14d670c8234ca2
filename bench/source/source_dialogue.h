/* What sluice-source says on a connection, and what the answers mean. Owner: the load's thread. */
#ifndef BENCH_SOURCE_DIALOGUE_H
#define BENCH_SOURCE_DIALOGUE_H

#include "base/slice.h"
#include "bench/source/source_session.h"

#include <stdbool.h>

/* One whole reply: `text` is its last line, `all` every line. May end the connection. */
void source_dialogue_reply(struct source_session *s, int code, struct slice text, struct slice all);
/* Put into the output what can be said now, as much as it should hold. May end the connection. */
void source_dialogue_fill(struct source_session *s);
/* Every transaction of a lost connection gets its fate. */
void source_dialogue_abort(struct source_session *s, struct slice why);

#endif
