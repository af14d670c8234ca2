/* A receiver's reply as one line for people. Pure. */
#ifndef ENGINE_REPLY_LINE_H
#define ENGINE_REPLY_LINE_H

#include "base/slice.h"

#include <stddef.h>

#define REPLY_LINE_MAX 1200

/* "550 5.1.1 no such user": code and status once, also when the text repeats them.
 *
 * code     0: no receiver said it
 * returns  ret */
const char *reply_line(unsigned code, struct slice status, struct slice text,
                       char ret[static REPLY_LINE_MAX]);

#endif
