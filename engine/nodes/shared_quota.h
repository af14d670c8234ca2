/* Quotas that all nodes eat from, as keys of the bucket `sluice_quota`: KEY.WINDOW, whose value says how much
 * of that window's quota was taken. A node takes a hundredth at a time by compare-and-set and lends of
 * it; what it has not used when it leaves, or when nobody asks any more, it gives back.
 *
 * Owner: the thread `cluster`. */
#ifndef ENGINE_SHARED_QUOTA_H
#define ENGINE_SHARED_QUOTA_H

#include "base/attr.h"

#include <stdint.h>

struct limits_part_view;
struct shared_limits;

#define SHARED_QUOTA_BUCKET "sluice_quota"

/* Take a chunk more, or note that there is none left. Others may be first: then it is asked for again.
 * errors: of a server that does not answer; what it may have taken is lost for all */
MUST_USE int shared_quota_take(struct shared_limits *s, uint32_t slot,
                               const struct limits_part_view *v);
/* Give back what is left; likewise. */
MUST_USE int shared_quota_give(struct shared_limits *s, uint32_t slot,
                               const struct limits_part_view *v);

#endif
