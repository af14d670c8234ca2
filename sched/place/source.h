/* Our sources by place, and the pools of them. A lane and a connection name their source by its
 * place, which stays while some of them do; a set of sources is a mask of places. Owner thread only,
 * but for the fields that say otherwise. */
#ifndef SCHED_SOURCE_H
#define SCHED_SOURCE_H

#include "sched/sched.h"

struct source {
    struct sched_source given; /* any thread may read the id while a lane of it is there */
    uint32_t uses;             /* lanes and connections that name the place */
};

struct sources {
    struct source at[SCHED_SOURCES_MAX];
    uint64_t there;      /* those that mail may be sent from */
    uint64_t ipv4, ipv6; /* of all places: those with such an address */
    uint64_t *pools;     /* pool_count of them; NULL: none */
    uint16_t *weights; /* [pool_count * SCHED_SOURCES_MAX], by place; 0: that of `at`; NULL: all */
    uint32_t pool_count;
};

void source_init(struct sched *s); /* one, with both families */
void source_fini(struct sched *s);
/* The place of a source that is there; SCHED_SOURCES_MAX when there is none of that id. */
uint32_t source_find(const struct sched *s, uint32_t id);

/* Those of a pool, by place; NULL: it has none of its own. */
const uint16_t *source_weights(const struct sched *s, uint16_t pool);

static inline uint64_t source_bit(uint32_t place)
{
    return UINT64_C(1) << place;
}

#endif
