/* Dates as mail writes them. Pure. */
#ifndef ENGINE_DATE_H
#define ENGINE_DATE_H

#include "base/clock.h"

#define DATE_BYTES 40

/* "Sat, 21 Nov 2026 09:08:42 +0000" (RFC 5322 3.3, in UTC). Any thread. */
void date_format(usec_t wall, char ret[DATE_BYTES]);

#endif
