/* A suppressed recipient in words, wherever its mail ends. Pure. */
#ifndef ENGINE_SUPPRESSED_H
#define ENGINE_SUPPRESSED_H

#include "base/slice.h"
#include "engine/spool/spool_suppress.h"

#include <stdio.h>

#define SUPPRESSED_TEXT_MAX 500

/* "suppressed: complaint, in the list of tenant shop, by @example.com" */
static inline struct slice suppressed_text(const struct spool_suppression *s,
                                           char text[static SUPPRESSED_TEXT_MAX])
{
    int len = snprintf(text, SUPPRESSED_TEXT_MAX, "suppressed: %s, in the list %s%.*s, by %.*s",
                       s->is_damaged ? "damaged entry" : spool_suppress_reason_text(s->reason),
                       s->tenant.len == 0 ? "for all" : "of tenant ", SLICE_ARG(s->tenant),
                       SLICE_ARG(s->address));
    return slice_of_printed(text, SUPPRESSED_TEXT_MAX, len);
}

#endif
