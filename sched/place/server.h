/* The servers of a party: the hosts that its mail may go to, in groups of equal preference. A party
 * without a list has one server without a name. Owner thread only. */
#ifndef SCHED_SERVER_H
#define SCHED_SERVER_H

#include "base/list.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct destdb_host;
struct sched_destination;
struct party;

#define SERVER_NONE UINT32_MAX

struct server {
    struct list in_host; /* destdb_host.users */
    struct destdb_host *host;
    struct party *party;
    struct tree_node in_queue; /* destdb_host.queue */
    uint32_t name;
    uint16_t preference;
    uint8_t families;
    bool is_wanted; /* counted in destdb_host.wanted */
};

/* Replace the servers; count 0 (or no memory): one without a name. Connections to hosts that are
 * left out take no further entry. Entries in flight keep what they have tried. */
void server_set(struct sched *s, struct party *p, const struct sched_server *servers,
                uint32_t count);
void server_free_all(struct sched *s, struct party *p);
/* Hosts of it came or went, or can be tried or not: find its group. */
void server_review(struct sched *s, struct party *p);
/* Some host of its group, with an address of these families, may be connected to: it is below the
 * limit. Any thread, for `servers` and what it leads to are retired. */
bool server_has_room(const struct party *p, uint8_t families);
/* The least preference among servers that are not in `tried` and may be tried now. */
MUST_USE bool server_group(const struct sched *s, const struct party *p, uint64_t tried,
                           uint16_t *ret);
/* The same for sources with addresses of these families. */
MUST_USE bool server_group_of(const struct party *p, uint8_t families, uint64_t tried,
                              uint16_t *ret);
/* Every place of a host in the list, as bits; of NULL: the server without a name. */
uint64_t server_mask(const struct party *p, const struct destdb_host *h);
/* The time at which the first of its hosts may be tried; only when none may be now. Where no source
 * reaches any of them: after minimal_backoff_time. */
usec_t server_retry_at(const struct sched *s, const struct party *p);
/* The destination changes its party: its entries in flight keep what they have tried. */
void server_move_tried(struct sched *s, struct sched_destination *d, const struct party *from,
                       const struct party *to);

#endif
