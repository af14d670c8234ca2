/* The kind of a report, decided when its parts are read. */
#ifndef ENGINE_HEARD_KIND_H
#define ENGINE_HEARD_KIND_H

#include "engine/heard/heard_private.h"

/* Set kind and shape, and add what only the kind tells: recipients that a bounce names in its prose,
 * the person whose program answers.
 *
 * recipient  whom the report was sent to */
void heard_decide(struct heard_parts *parts, struct slice recipient);

#endif
