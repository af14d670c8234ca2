/* Numbers of flows: what stands in front of each place in the queue, so that the places of a flow lie
 * behind each other, in the order of time, whatever others have queued. Inside the spool files only.
 *
 * A number is given when the first message of its class, tenant and campaign comes, and its names are
 * in the flow table from the very transaction on that puts the first place with it. It is given again
 * only when no place has it and no message of the journal could get one: a transaction that has taken
 * the journal over looks for such numbers at its end (spool_forget_flows). 0 is normal mail of nobody,
 * and stands in no table. Beyond SPOOL_FLOWS_MOST flows a further campaign shares a flow with others
 * of its class and tenant, and beyond SPOOL_FLOWS_EVER one with all tenants.
 *
 * The numbers are in memory as well, as the writer asks for one with each message; what became of them
 * in a transaction that did not commit is forgotten, and put again with the next place.
 *
 * Thread: the writer. */
#ifndef ENGINE_SPOOL_FLOW_H
#define ENGINE_SPOOL_FLOW_H

#include "base/attr.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SPOOL_FLOWS_MOST = 100000,  /* from then on campaigns share flows */
    SPOOL_FLOWS_SHARED = 1024,  /* these, of each class and tenant */
    SPOOL_FLOWS_EVER = 1 << 20, /* from then on tenants do */
    SPOOL_FLOWS_KEPT = 256,     /* so many stay though nothing is queued */
};

struct spool_flow_entry;

struct spool_flows {
    struct spool_flow_entry **by_number; /* [capacity]; NULL: not in use */
    uint32_t capacity;
    uint32_t count;
    uint32_t *free_numbers; /* [capacity]; free_count of them, the last one is given next */
    uint32_t free_count;
    struct spool_flow_entry **chains; /* [chain_count], a power of 2 or 0 */
    uint32_t chain_count;
    uint32_t hand;                    /* number at which spool_forget_flows goes on */
    struct spool_flow_entry *latest;  /* asked for last; NULL: none */
    struct spool_flow_entry *touched; /* stored or deleted by the transaction under way */
    uint64_t seed;
    bool is_doubted; /* there may be places with a number that has no names */
};

void spool_flows_init(struct spool_flows *f);
void spool_flows_fini(struct spool_flows *f);

/* The number of a message's flow. Without memory for a new one the message goes with those of nobody.
 */
uint32_t spool_flow_of(struct spool_store *s, const struct spool_envelope *e);
/* The same by the message's record; 0 when that is damaged or not there. errors: storage */
MUST_USE int spool_flow_of_record(struct spool_txn *t, uint64_t id, uint32_t *ret);
/* Have the flow's names in the table: a place with its number is about to be put. */
MUST_USE int spool_flow_store(struct spool_txn *t, uint32_t number);
/* The transaction under way is durable, or is not. */
void spool_flows_committed(struct spool_flows *f);
void spool_flows_aborted(struct spool_flows *f);
/* Records of the table may be lost: each is put again with the next place of its flow. */
void spool_flows_doubt(struct spool_flows *f);

/* Read the flow table into memory, which must have no flow yet; then, where anything about it is in
 * doubt, give names to numbers that have places but no names. */
MUST_USE int spool_flows_load(struct spool_txn *t);
/* Above the sequence of every INCOMING place. A look-up for each flow. */
MUST_USE int spool_flows_next_sequence(struct spool_txn *t, uint64_t *ret);

#endif
