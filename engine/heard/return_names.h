/* Numbers for names: which tenant and which campaign a token speaks of. A number is given once and
 * stands for its names from then on, over restarts too: tokens come back after months.
 *
 * Names are noted and kept by one thread (the spool writer) and read by any: an entry is never changed
 * or freed before the end; buckets and places of numbers are published by release stores, which the
 * acquire loads of readers pair with. The file is one line for each number, with a checksum; a line
 * that a crash cut off was given to nobody, as a number is published when its line is synced. */
#ifndef ENGINE_RETURN_NAMES_H
#define ENGINE_RETURN_NAMES_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define RETURN_NAMES_MAX 1000000U /* numbers; later names have none */

struct return_names;

struct return_names *return_names_new(void);    /* NULL: out of memory */
void return_names_free(struct return_names *n); /* accepts NULL */

/* Read the file, which is made when it is not there. Before other threads look. errors: -errno */
MUST_USE int return_names_open(struct return_names *n, const char *path);

/* The number of a campaign of a tenant, of the tenant when the campaign is "", of mail that is
 * nobody's when both are. 0: it has none. Any thread. */
uint32_t return_names_find(const struct return_names *n, struct slice tenant,
                           struct slice campaign);
/* What a number stands for; slices live as long as n. false: nothing. Any thread. */
MUST_USE bool return_names_get(const struct return_names *n, uint32_t number,
                               struct slice *ret_tenant, struct slice *ret_campaign);

/* The tenant, and its campaign, are to have numbers: with the next return_names_keep. Owner thread.
 * Nothing is noted for want of memory, or of numbers. */
void return_names_note(struct return_names *n, struct slice tenant, struct slice campaign);
/* Write and sync what was noted; from then on it is found. Owner thread; blocks on the disk, when there
 * is something. errors: -errno: what was noted has no numbers, and may be noted again */
MUST_USE int return_names_keep(struct return_names *n);

#endif
