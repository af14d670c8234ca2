/* A scheduler core whose destinations are at sites: everything that it asks for is answered at once,
 * every call is followed by sched_check, and what goes out stays in flight until it is reported. */
#ifndef TESTS_UNIT_SITE_BED_H
#define TESTS_UNIT_SITE_BED_H

#include "sched/sched.h"
#include "tests/unit/unit.h"

#define DELIVERIES 4096

struct place {
    const char *site, *servers; /* of each destination, by its first letter: "xy" are two hosts */
    uint32_t tls, name;
    const struct sched_terms *terms;
};

struct shell {
    struct sched_config config;
    struct sched *sched;
    struct place places[26];
    struct sched_action deliveries[DELIVERIES];
    struct sched_source sources[26]; /* ids from 100 on, of weight 1 */
    const uint16_t *weights;         /* of the pools; NULL: none */
    unsigned delivered, deferred, reused, exhausted, closed, resolved;
    struct sched_reason reason; /* of the last deferral */
    unsigned asked, returned, gone, paced;
    usec_t due[DELIVERIES];      /* of those that were paced */
    uint64_t away[DELIVERIES];   /* which messages they were */
    struct sched_flow_key flow;  /* of what is sent next */
    struct sched_loan ask;  /* the last one; its site stays valid while the site is there */
    void *asker;
    struct sched_units left; /* of the last RETURN or LANE_GONE */
    uint16_t pool;           /* of what is sent next */
    struct sched_owner *owner;
    unsigned owner_asked, owner_returned;
    struct sched_loan owner_ask;
    void *owner_asker; /* of the last of both */
    uint64_t next_id;
    usec_t now;
};

/* Windows of two connections; each destination at site "s" with two hosts. */
void shell_init(struct shell *h);
void shell_open(struct shell *h);
void shell_check(const struct shell *h);
/* Everything that there is to do; returns how many went out. */
unsigned shell_run(struct shell *h);
void shell_send(struct shell *h, const char *name); /* a message to that destination */
void shell_send_to_many(struct shell *h, const char *name, uint32_t recipients);
void shell_report(struct shell *h, unsigned number, enum sched_feedback_sign feedback,
                  bool stays_open);
/* Any report; the entry is filled in. */
void shell_outcome(struct shell *h, unsigned number, struct sched_outcome o);
/* What is in flight is reported, and all is freed. */
void shell_close(struct shell *h);
uint32_t shell_source(const struct shell *h, unsigned number);
/* The first `count` of its sources. */
void shell_sources(struct shell *h, uint32_t count, const uint64_t *pools, uint32_t pool_count);
char shell_letter(const struct shell *h, unsigned number); /* of its destination */

#endif
