/* What the transports of a configuration send from: the sources of each, and the pools of them that
 * its mail may have, as the scheduler cores are told (sched_set_sources). Part of the settings: made
 * with them, immutable, for any thread.
 *
 * A source has an id and a pool has a number, the same for all transports. Both belong to a name for
 * the life of the daemon, so that what waits or is in flight over a reload stays what it is; what
 * is gone keeps them. Id 0 is no source: the system chooses the address. Number 0 is a transport's
 * own pool. The pools of tenants follow, and for each source of a pool with several ones the pool
 * of it alone, for mail that a receiver wants to see again from the same address. Where this
 * source cannot be used, that pool is the one that it was taken of. */
#ifndef ENGINE_SOURCE_TABLE_H
#define ENGINE_SOURCE_TABLE_H

#include "base/attr.h"
#include "base/slice.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct config_egress_pool;
struct config_egress_source;

/* Those of one transport; their places here are the bits of pools. */
struct transport_sources {
    uint32_t count; /* at least 1 */
    struct sched_source given[SCHED_SOURCES_MAX];
    const struct config_egress_source *sections[SCHED_SOURCES_MAX]; /* NULL: id 0 */
    bool is_plain; /* id 0 alone: a core need not be told */
};

struct source_pool {
    char *pool;     /* name; NULL: each transport's own */
    char *source;   /* name: of it alone; NULL: of all of the pool */
    uint16_t whole; /* with a source: the number of the pool that it was taken of */
    uint16_t mark;  /* with a source: source_table_mark of it */
    const struct config_egress_pool *section; /* NULL: it is gone, or each transport's own */
};

/* A tenant that has a pool. */
struct source_tenant {
    struct slice name;
    uint16_t pool;
};

struct source_table {
    /* by id, at 1 less; it names all that ever were */
    char **names;
    uint32_t name_count;
    struct source_pool *pools; /* [pool_count], by number */
    uint32_t pool_count;
    uint32_t whole_count;                 /* how many of them are not of one source alone */
    struct transport_sources *transports; /* [config->transport_count] */
    size_t transport_count;
    struct source_tenant *tenants; /* [tenant_count], by name */
    size_t tenant_count;
    uint16_t others; /* pool of tenants that have no section */
};

#define SOURCE_TABLE_TEXT_MAX  300
#define SOURCE_TABLE_POOLS_MAX 1024

/* before    that of the settings in force, or NULL at the start; transports have their numbers
 * ret_text  with ERR_LIMIT: what is too many
 * errors    -ENOMEM, ERR_LIMIT */
MUST_USE int source_table_new(const struct config *c, const struct source_table *before,
                              struct source_table **ret,
                              char ret_text[static SOURCE_TABLE_TEXT_MAX]);
void source_table_free(struct source_table *t); /* accepts NULL */

/* The pool of a tenant's mail; 0: that of the transport it goes by. */
uint16_t source_table_pool(const struct source_table *t, struct slice tenant);
/* The pool of the one source of `pool` that has this mark; `pool` itself when there is none, or more
 * than one. */
uint16_t source_table_kept(const struct source_table *t, uint16_t pool, uint16_t mark);
/* The pool that this one is a single source of; else itself. */
uint16_t source_table_whole(const struct source_table *t, uint16_t pool);
/* 16 bits of a source's name, for the spool: never another number for the same name. 0: no name. */
uint16_t source_table_mark(struct slice name);

/* Place of a source of the transport, or its count when the transport does not have it. */
uint32_t source_table_place(const struct transport_sources *s, uint32_t id);
/* Name of a source, "" for id 0. Any id that a core says. */
struct slice source_table_name(const struct source_table *t, uint32_t id);

/* The sections that the pool has for mail of this transport; NULL: it has none of its own, or is
 * gone. */
const struct config_egress_pool *source_table_section(const struct source_table *t,
                                                      const struct config *c, size_t transport,
                                                      uint16_t pool);
/* The names of all sources that mail of this pool, or of this tenant, may leave from by the transport,
 * "a,b"; "" where the system chooses, or the pool is gone. */
struct slice source_table_pool_list(const struct source_table *t, const struct config *c,
                                    size_t transport, uint16_t pool);
struct slice source_table_list(const struct source_table *t, const struct config *c,
                               size_t transport, struct slice tenant);
/* The families of addresses that the pool's sources reach, closed or not, as in sched_source; 0 when it
 * is gone. */
uint8_t source_table_families(const struct source_table *t, const struct config *c,
                              size_t transport, uint16_t pool);
/* The transport has the same sources in the same places, by their sections too. */
bool source_table_is_same(const struct source_table *a, const struct source_table *b,
                          size_t transport);
/* The pools of a transport's core.
 *
 * closed   bits of sources that nothing may leave from
 * ret      [pool_count] */
void source_table_masks(const struct source_table *t, const struct config *c, size_t transport,
                        uint64_t closed, uint64_t *ret);
/* What the sources of each pool weigh there, where it is other than what they weigh in the first pool of
 * the transport that has them.
 *
 * ret   [pool_count * SCHED_SOURCES_MAX], zeroed; by pool, and by place
 * false: nowhere */
bool source_table_weights(const struct source_table *t, const struct config *c, size_t transport,
                          uint16_t *ret);

#endif
