/* The scheduler of one transport: which entry goes out next, to which destination, on which
 * connection, and what the outcome teaches. The only header of sched/ that others include.
 *
 * Pure: no thread, clock, I/O or random source; time enters at each call and must not go backwards.
 * Same inputs give the same actions, byte for byte. One owner thread calls everything here except
 * the functions under "any thread", which read under RCU what the owner publishes. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "sched/limit/rate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;
struct sched_entry;
struct sched_destination;
struct sched_owner;

/* What the shell lends the core. retire: readers may still look, free later. */
struct sched_host {
    void *(*alloc)(void *ctx, size_t size);
    void (*release)(void *ctx, void *obj);
    void (*retire)(void *ctx, void *obj);
    void *ctx;
};

enum sched_feedback_rule { SCHED_RULE_README, SCHED_RULE_POSTFIX3 };
enum sched_feedback_kind {
    SCHED_FEEDBACK_CONSTANT, /* base */
    SCHED_FEEDBACK_LINEAR,   /* base / window */
    SCHED_FEEDBACK_SQRT,     /* base / sqrt(window); readme rule only */
};
struct sched_feedback {
    enum sched_feedback_kind kind;
    double base; /* 0..1 */
};

/* Read "NUMBER", "NUMBER/NUMBER", "NUMBER/concurrency" or, under the readme rule,
 * "NUMBER/sqrt_concurrency" (scheduler-semantics 1.4; vectors FB-P).
 *
 * errors   ERR_SYNTAX where Postfix would warn and use 1; ret unchanged
 * source   qmgr_feedback */
MUST_USE int sched_feedback_parse(const char *text, enum sched_feedback_rule rule,
                                  struct sched_feedback *ret);

#define SCHED_SERVER_KEY_MAX 20
#define SCHED_SERVERS_MAX    64
/* One address that a destination's mail may go to. Servers with the same key are one host for every
 * destination of the scheduler: they share its connections' limit, its retry time and its notes. */
struct sched_server {
    uint8_t key[SCHED_SERVER_KEY_MAX]; /* address and port as the shell writes them */
    uint8_t key_len;
    uint16_t preference; /* of its MX; the least first */
    uint8_t families;    /* of the address, as in sched_source; 0: any source reaches it */
    uint32_t name; /* a number of the name it was looked up by, where TLS is judged by that; 0:
                          * it is not. A connection is used under the name it was opened under */
};

#define SCHED_SOURCES_MAX 64
#define SCHED_POOLS_MAX   1024
/* One of our addresses, or a pair of them. */
struct sched_source {
    uint32_t id;      /* the shell's; SCHED_DELIVER names it */
    uint16_t weight;  /* 1..1000: its part of what goes out */
    uint8_t families; /* bits: 1 IPv4, 2 IPv6; not 0 */
};
/* By pool, of which there are up to SCHED_POOLS_MAX. A recipient of a pool that is not among them may be
 * sent from any source. Where a pool has weights of its own, it has turns of its own at each site. */
struct sched_pools {
    const uint64_t *sources; /* [count]; bit n: the nth source of the call is in it */
    /* [count * SCHED_SOURCES_MAX], 1..1000: what the nth source weighs in it; 0: as it says itself.
     * NULL: all do */
    const uint16_t *weights;
    uint32_t count;
};

/* What goes next. The first is Postfix's qmgr. */
enum sched_scheduler {
    SCHED_BY_PREEMPTION,
    SCHED_BY_ARRIVAL, /* fifo: the same without preemption */
    SCHED_BY_TURNS, /* round_robin: destinations take turns, as in oqmgr. It knows no flows, and no
                       * cap of one message */
};

/* Parameters of one transport; names, defaults and meaning are Postfix's. */
struct sched_config {
    enum sched_scheduler scheduler;
    enum sched_feedback_rule concurrency_feedback_rule;
    int initial_destination_concurrency; /* >= 1 */
    int destination_concurrency_limit;   /* 0 = none */
    struct sched_feedback destination_concurrency_positive_feedback;
    struct sched_feedback destination_concurrency_negative_feedback;
    int destination_concurrency_failed_cohort_limit; /* 0 = never dead */
    int destination_recipient_limit;                 /* recipients an entry; 0 = none */
    usec_t destination_rate_delay;
    usec_t transport_rate_delay;
    int delivery_slot_cost, delivery_slot_loan, delivery_slot_discount, minimum_delivery_slots;
    int recipient_limit, extra_recipient_limit, recipient_refill_limit;
    usec_t recipient_refill_delay;
    int message_recipient_limit, message_recipient_minimum; /* global, but used by the pools */
    usec_t minimal_backoff_time;                            /* the dead-destination timer */
    int process_limit;                                      /* connections, 1..65535 */
    int max_message_concurrency;  /* entries of one message in flight; 0: see the next */
    int scale_max_concurrency;    /* or so many for each free worker; both 0: no limit */
    int pipeline_depth;           /* entries in flight a connection, at most */
    usec_t connection_idle_limit; /* close an idle connection after */
    usec_t connection_age_limit;  /* no new entry on a connection older than that; 0 = none */
    int connection_reuse_limit;   /* entries carried by one connection; 0 = none */
    int host_concurrency_limit;   /* connections to one host, all destinations together; 0 = none */
    int site_concurrency_limit;   /* connections of all lanes of one site that carry entries; 0 =
                                   * none */
    usec_t lane_memory;           /* what the lanes of a site have learned outlives its mail by; 0 =
                                   * not at all */
    int class_floor; /* percent: what lower classes have at least of what a higher one leaves them */
    bool must_resolve; /* destinations need sched_resolved before delivery; false in simulations */
    bool awaits_end;   /* a connection that ends without having been idle is one of its window until
                        * sched_connection_closed; false in simulations: it is gone at once */
    bool hold;         /* queue, deliver nothing */
    bool unasked_selection; /* sched_pull looks at jobs even when no destination can take an entry,
                             * as when a delivery agent comes up unasked; for scripts and
                             * simulations */
    bool feedback_debug;    /* keep a record of each window update for sched_debug_next */
    uint64_t hash_seed;
};
/* All defaults of scheduler-semantics section 1; must_resolve is false, the rule is readme. */
void sched_config_defaults(struct sched_config *ret);

/* One recipient as the router left it. Strings belong to the message and stay valid until the
 * message's SCHED_FINISHED action has been pulled. */
struct sched_recipient {
    struct slice address; /* local@domain */
    struct slice nexthop; /* lower case; names the destination unless the recipient limit is 1 */
    uint32_t index;       /* the shell's number of this recipient within the message */
    uint16_t pool;        /* the sources that it may be sent from: sched_set_sources. Recipients of
                           * one nexthop in two pools are for two destinations */
};

enum sched_class { SCHED_URGENT, SCHED_NORMAL, SCHED_BULK, SCHED_CLASSES };
/* A flow: mail that takes turns with the mail of others. Classes go in their order, with a floor for the
 * lower ones; tenants of one class share by their weights, and the campaigns of a tenant alike. All
 * zero: the flow of those who know none. */
struct sched_flow_key {
    uint32_t class;            /* enum sched_class */
    uint32_t tenant, campaign; /* numbers of the shell's */
};

struct sched_message {
    uint64_t id;
    void *handle; /* the shell's message; handed back in actions, never looked into */
    const struct sched_recipient *recipients; /* copied by the call where needed */
    uint32_t recipient_count;
    uint32_t unread_count;     /* recipients that stay in the spool, 0 when all are given */
    bool more;                 /* not known to be all: SCHED_READ will ask for the rest */
    struct sched_owner *owner; /* NULL: nobody who is limited */
    struct sched_flow_key flow;
    uint16_t weight; /* of its tenant from now on, 1..1000; 0: as it was, 1 at first. With the first
                 * message of a flow it is that flow's; others of the tenant were told */
};

/* Why the scheduler last passed a destination over. */
enum sched_why {
    SCHED_WHY_NOTHING, /* it was not passed over */
    SCHED_WHY_WINDOW,  /* window full */
    SCHED_WHY_DEAD,
    SCHED_WHY_RATE_DELAY,
    SCHED_WHY_RESOLVING,
    SCHED_WHY_PROCESS_LIMIT,
    SCHED_WHY_HOLD,
    SCHED_WHY_TRANSPORT_RATE_DELAY,
    SCHED_WHY_POOL,          /* recipients wait in the spool */
    SCHED_WHY_MESSAGE_LIMIT, /* max_message_concurrency; jobs only */
    SCHED_WHY_HOST_LIMIT,    /* host_concurrency_limit */
    SCHED_WHY_HOST_RETRY,    /* none of its hosts may be tried yet */
    SCHED_WHY_TURN,          /* it is another flow's turn there; jobs only */
    SCHED_WHY_LANE_CLOSED,   /* by order; or it is probed, and the probe is under way */
    SCHED_WHY_PACE,          /* what its lane may send, as its receiver taught */
    SCHED_WHY_RATE,          /* as it is configured */
    SCHED_WHY_QUOTA,
    SCHED_WHY_SITE_LIMIT,  /* site_concurrency_limit */
    SCHED_WHY_CEILING,     /* connections that its receiver lets us have */
    SCHED_WHY_TENANT_RATE, /* what its owner may send; jobs only */
    SCHED_WHY_TENANT_QUOTA,
    SCHED_WHY_COUNT
};

enum sched_action_kind {
    SCHED_NONE,
    SCHED_DELIVER,    /* carry `entry` on `connection`; the shell answers with sched_report */
    SCHED_RESOLVE,    /* find the hosts of `destination`; answer with sched_resolved */
    SCHED_CLOSE,      /* end `connection`, which carries nothing */
    SCHED_DEFER,      /* recipients of `handle` are deferred without an attempt, because `reason` */
    SCHED_BOUNCE,     /* the same, permanently (destination does not exist) */
    SCHED_READ,       /* more recipients of `handle` are wanted: answer with sched_submit_more */
    SCHED_FINISHED,   /* the core has let go of `handle`: nothing of it is waiting or in flight */
    SCHED_ASK,        /* an entry wants a lane that is limited, and nothing is lent to it: answer
                      * with sched_lane_grant, now or later */
    SCHED_RETURN,     /* what is left of what was lent to a lane is not used any more */
    SCHED_OWNER_ASKS, /* messages of an owner could go, and nothing is lent to it: answer with
                       * sched_owner_grant, now or later */
    SCHED_OWNER_RETURNS, /* what is left of what was lent to it is not used any more */
    SCHED_LANE_GONE,     /* the core has forgotten the lane of `lane_user`; what it held is left */
    SCHED_EXHAUSTED, /* `entry` was reported with `again` and no server is left for it: finish it
                      * and report it (connection_open is then ignored) */
};

struct sched_reason {
    char status[12]; /* enhanced status code, "4.4.1" */
    char text[500];  /* sanitised, NUL-terminated */
};

/* One lane: a source at a site. */
struct sched_lane_key {
    struct slice site;
    uint32_t source; /* id */
};

/* Of what was lent. */
struct sched_units {
    uint32_t messages, recipients, connects; /* 0 of what has no bound */
};

/* What an action says about what is lent. */
struct sched_loan {
    struct sched_lane_key lane; /* LANE_GONE, and of an owner: empty */
    struct sched_units left;    /* RETURN, LANE_GONE, OWNER_RETURNS */
    /* ASK, OWNER_ASKS. */
    uint32_t wanted; /* messages that could go now, no more than it is likely to send before
                               * the loan ends; after an ample one, also what is likely to come */
    uint32_t recipients_wanted; /* ASK: for these, as far as those before tell */
    uint32_t connects_wanted;   /* new connections for these */
    uint32_t recipients_owed;   /* sent beyond the last grant; this one pays for them */
    bool has_connection;        /* one is open, so that they can go without a new one */
};

/* A value; pointers in it are valid until the next call into this scheduler unless said
 * otherwise. */
struct sched_action {
    enum sched_action_kind kind;
    uint64_t message_id;
    void *handle;
    struct sched_entry *entry;             /* DELIVER, EXHAUSTED: valid until its report */
    struct sched_destination *destination; /* DELIVER, RESOLVE: valid until report, resolved; also
                                            * DEFER, BOUNCE, EXHAUSTED */
    uint32_t connection;                   /* DELIVER, CLOSE: below the greatest process_limit so
                                            * far */
    bool end_is_awaited;                   /* CLOSE: sched_connection_closed must follow */
    bool connection_is_new;                /* DELIVER: open one; otherwise reuse what is there */
    void *hosts;                           /* DELIVER: as given to sched_resolved; means nothing
                                            * when a connection is reused */
    uint32_t server;                       /* DELIVER: index in the hosts that the connection was
                                            * opened with */
    uint32_t server_notes;                 /* DELIVER: what earlier reports left about that host */
    uint32_t source;                       /* DELIVER: id of the source that the connection has */
    bool is_last_server;                   /* DELIVER: no other server is left for it */
    const uint32_t *indexes;               /* DEFER, BOUNCE: recipients */
    uint32_t index_count;
    uint32_t wanted;                   /* READ: at most so many */
    const struct sched_reason *reason; /* DEFER, BOUNCE */
    bool is_withdrawn;                 /* DEFER: by sched_withdraw, whose reason it is */
    bool is_paced;                 /* DEFER: not an attempt, and nobody's fault: its lanes take it
                                        * much later, and it would fill memory until then */
    usec_t due;                    /* is_paced: its turn is about then, monotonic */
    void *lane_user;               /* DELIVER, ASK, RETURN, LANE_GONE: of sched_lane_attach */
    void *owner_user;              /* OWNER_ASKS, OWNER_RETURNS: of sched_owner_new; DELIVER: of
                                    * the owner that its message has, NULL: none */
    usec_t lent_from;              /* DELIVER: `from` of the grant that it used; 0: the lane is
                                        * not limited. Verdicts name it */
    const struct sched_loan *loan; /* ASK, RETURN, LANE_GONE, and of owners */
};

/* What an entry carries; constant from SCHED_DELIVER to sched_report, readable by the worker that
 * holds it. */
uint64_t sched_entry_message_id(const struct sched_entry *e);
void *sched_entry_handle(const struct sched_entry *e);
const uint32_t *sched_entry_indexes(const struct sched_entry *e, uint32_t *ret_count);
/* Name for the log and nexthop for the delivery (they differ with recipient limit 1). Valid while
 * the destination is. */
struct slice sched_destination_name(const struct sched_destination *d);
struct slice sched_destination_nexthop(const struct sched_destination *d);
uint16_t sched_destination_pool(const struct sched_destination *d);
/* It has taken an entry since the core knows it: its mail, or its connections, have not ended since.
 * Owner thread. */
bool sched_destination_is_known(const struct sched_destination *d);

enum sched_feedback_sign {
    SCHED_NEUTRAL,
    SCHED_POSITIVE,
    SCHED_NEGATIVE,
    SCHED_SLOWER, /* the receiver asked to slow down: the window becomes smaller as by NEGATIVE, but
                   * once a round trip, never less than 1, and nothing dies of it */
};

/* The site that its mail goes to now; "": it is on its own. Owner thread; valid until the next call. */
struct slice sched_destination_site(const struct sched_destination *d);
/* Whether another source than that of its connection takes mail for its site: one of its pool that the
 * entry has not tried, or any of this pool. Of an entry that is with the shell. */
struct sched_others {
    bool has_untried, has_any;
};
struct sched_others sched_other_sources(const struct sched *, const struct sched_entry *e,
                                        uint16_t pool);

/* The report of an entry, the last one of it unless `again`: then it comes back by a second
 * SCHED_DELIVER or by SCHED_EXHAUSTED, and stays one entry in flight all the time. A shell that
 * ends may report it before it came back. */
struct sched_outcome {
    struct sched_entry *entry;
    enum sched_feedback_sign feedback;
    bool has_deferred;                 /* some recipient must be retried */
    bool connection_open;              /* the connection can carry another entry */
    bool connection_ends;              /* it cannot, and its end follows: sched_connection_closed
                                        * will say when it is over (config.awaits_end) */
    const struct sched_reason *reason; /* NEGATIVE: why; copied */
    bool again;            /* not over: bring it to another connection, without penalty. feedback
                            * must be NEUTRAL: its place in the schedule was used when it was
                            * selected */
    bool server_failed;    /* no connection to this server came as far as MAIL */
    bool server_tried;     /* with again: not this server any more for this entry */
    bool source_tried;     /* with again: not this source any more for this entry. EXHAUSTED when
                            * its pool has no other one that takes anything */
    bool throttled;        /* not over, and nobody's attempt: it waits again, before all others of
                            * its destination and message, and is selected anew. feedback SLOWER or
                            * NEUTRAL, `again` false. What was withdrawn under way is to be
                            * withdrawn again. Where what waits for its destination is deferred,
                            * it is too */
    bool is_out_of_step;   /* the server broke the order of pipelined replies: depth 1 for an
                            * hour, for all of its host */
    uint16_t depth;        /* entries that the connection can use at once, as measured on it; set in
                            * every report of a connection that was ready for MAIL, which proves
                            * that its host is up. 0: as before, 1 at first */
    uint32_t server_notes; /* bits that the host keeps for an hour */
    /* connection_open == false while other entries are in flight on the connection: nothing more is
     * placed on it, its slot is free once the last of them is reported, and its end if that
     * follows. */
};

/* What counts for one destination in place of the config, and for the connections that are opened for
 * it. */
struct sched_terms {
    int recipient_limit;          /* recipients an entry, where that is less than the config's; 0 =
                                   * the config's. 1 divides entries and names no destination */
    int most_in_flight;           /* entries of the destination at a time; 0 = none */
    usec_t rate_delay;            /* after each entry; with one it has one in flight at a time */
    usec_t connection_idle_limit; /* as in the config, and the next two */
    usec_t connection_age_limit;
    int connection_reuse_limit;
    /* From all sources together; count 0: none. The shell counts them: see sched_bound_wait. */
    struct rate_rule messages, recipients, quota;
};

enum sched_resolution { SCHED_RESOLVED, SCHED_RESOLVE_SOFT, SCHED_RESOLVE_HARD };

struct sched_hosts_result {
    struct sched_destination *destination;
    enum sched_resolution resolution;
    void *hosts;    /* RESOLVED: opaque, handed out with entries; see release_hosts */
    usec_t expires; /* RESOLVED: ask again after; SOFT: not before (max with minimal backoff) */
    const struct sched_reason *reason;  /* SOFT, HARD; copied */
    const struct sched_server *servers; /* RESOLVED: of hosts, copied; count 0: one server without
                                         * a name, which destdb does not know. Also so when there
                                         * is no memory for them */
    uint32_t server_count;              /* <= SCHED_SERVERS_MAX */
    /* RESOLVED: the site that it belongs to. Its lanes have the windows of all its destinations
     * together. Those that have equal servers, given in equal order, and equal `tls` use the same
     * connections. Empty: it is a site of its own, and is sent from the first source of its pool;
     * nothing is known of its lane then. What stands for the lanes of a site (sched_lane_close ..)
     * is to be said after each answer that names it: the core forgets a site with its mail. */
    struct slice site;
    uint32_t tls;                    /* a number of what it demands of TLS */
    const struct sched_terms *terms; /* RESOLVED: copied; NULL: the config's. Without memory for
                                      * them it keeps those that it has */
};

/* One scheduler. release_hosts(ctx, hosts) is called when the core drops its last use of hosts:
 * those replaced or of a destination that went away; the shell keeps its own count for entries in
 * flight.  errors: NULL when out of memory. */
struct sched *sched_new(const struct sched_config *, const struct sched_host *,
                        void (*release_hosts)(void *ctx, void *hosts), usec_t now);
void sched_free(struct sched *); /* nothing may be in flight; retires what readers may see */

/* At most so many recipients to read of a message that sched_submit is about to bring (4.2). A
 * shell that stops there sets `more`, even when it does not know of any further recipient. */
uint32_t sched_read_limit(const struct sched *);
/* A message becomes active; its id is not active already. errors: -ENOMEM, nothing taken. */
MUST_USE int sched_submit(struct sched *, const struct sched_message *, usec_t now);
/* The answer to SCHED_READ: the next recipients, at least one when `more` stays true, none at the
 * end of the file. errors: -ENOMEM, nothing taken; the read stays open, try again. */
MUST_USE int sched_submit_more(struct sched *, const struct sched_message *, usec_t now);
/* The next thing to do; false (and SCHED_NONE) when there is nothing until a report, a submission,
 * a resolution or sched_wake_at. */
bool sched_pull(struct sched *, struct sched_action *ret, usec_t now);
/* The same, but selects no further entry: for a shell that has no room to carry one just now. Those
 * that were reported with `again` still come. */
bool sched_pull_pending(struct sched *, struct sched_action *ret, usec_t now);
/* Whether an entry has been selected whose SCHED_DELIVER is pending still, behind what it needs (a CLOSE) or what came
 * before it. A shell pulls it before it reports or ends anything: its connection is decided. */
bool sched_has_selected(const struct sched *);
void sched_report(struct sched *, const struct sched_outcome *, usec_t now);
void sched_resolved(struct sched *, const struct sched_hosts_result *, usec_t now);
/* An idle connection was lost, or the end that was promised (connection_ends) or is awaited is
 * over: the server does not count it any more. Ignored when it is none of these (an entry is on its
 * way).
 */
void sched_connection_closed(struct sched *, uint32_t connection, usec_t now);
/* The next time at which sched_pull may have something new; USEC_NEVER when none. */
usec_t sched_wake_at(const struct sched *);
/* Revive every dead destination at once (flush). */
void sched_flush(struct sched *, usec_t now);
/* Every host may be tried at once; dead destinations stay so. A host's retry time outlives the
 * destination that met it, and nobody knows then whose it was. */
void sched_flush_hosts(struct sched *, usec_t now);
/* Revive the dead destinations of that name or nexthop, and let their hosts be tried at once. False
 * when none was dead. */
bool sched_revive(struct sched *, struct slice destination, usec_t now);
/* What waits of a message leaves the core: as SCHED_DEFER with is_withdrawn. Entries in flight
 * stay, also those reported with `again`; recipients in the spool are still asked for.
 *
 * message_id   unknown ones are ignored
 * destination  only what is for this name or nexthop; empty: everything
 * reason       copied */
void sched_withdraw(struct sched *, uint64_t message_id, struct slice destination,
                    const struct sched_reason *reason, usec_t now);
/* The same of all of a message, if nothing of it was ever selected or dropped and nothing is
 * unread. Returns whether it leaves. */
MUST_USE bool sched_withdraw_untouched(struct sched *, uint64_t message_id,
                                       const struct sched_reason *reason, usec_t now);
void sched_set_hold(struct sched *, bool hold, usec_t now);
/* Go on by another config. Windows above the new limit shrink to it; connections beyond the new
 * limits are closed when idle, and otherwise take no further entry; queues and pools stay. Waiting
 * entries with more recipients than the new limit are divided, in their places; those in flight
 * stay as they are. A limit that becomes 1, or was 1, names the destinations of recipients that
 * come from now on; those that wait keep theirs.
 * must_resolve, awaits_end, unasked_selection and hash_seed stay as they were.
 *
 * errors  -ENOMEM, nothing changed */
MUST_USE int sched_reconfigure(struct sched *, const struct sched_config *, usec_t now);
/* What was found out about hosts does not hold any more: destinations with mail ask again before
 * anything else of them goes out, and every connection that has a named host takes no further
 * entry. */
void sched_forget_hosts(struct sched *, usec_t now);
/* The same for the hosts of one destination, that of an entry in flight, and without that end: the answer
 * may name another site. */
void sched_resolve_again(struct sched *, const struct sched_entry *, usec_t now);
/* Entries handed out and not yet reported. */
uint32_t sched_in_flight(const struct sched *);

/* Our sources, and pools of them: from the beginning it is one source, id 0, weight 1, both
 * families. Those that stay, by id, keep what their lanes have learned; those that are not named any
 * more take nothing more, and their connections end. Idle connections of a pool that has lost their
 * source end too. What waits in a pool without any source is deferred.
 *
 * sources  1..SCHED_SOURCES_MAX of them, with different ids
 * pools    NULL: none
 * errors   -ENOMEM; -EBUSY: connections of sources that went before are still needed to carry what
 *          is in flight, and there are not enough places for the new ones. Nothing changed */
MUST_USE int sched_set_sources(struct sched *, const struct sched_source *sources,
                               uint32_t source_count, const struct sched_pools *pools, usec_t now);

/* What counts at a site in place of the config, until the core forgets it: of `options` the rule, the
 * initial window, its limit and feedbacks, failed cohorts, site_concurrency_limit and lane_memory. NULL:
 * the config.
 * false, and nothing is done, when the core does not know the site or has no memory. */
bool sched_site_configure(struct sched *, struct slice site, const struct sched_config *options,
                          usec_t now);

/* What is known of one lane. All return false, and do nothing, when the core
 * does not know the site or the source, or has no memory: then nothing is sent there either, and
 * the shell says it with the next sched_resolved. */

/* Nothing more goes out there: idle connections are closed, busy ones take nothing more. What waits
 * goes by the other lanes of its pool; when all of these are closed or dead it is deferred, and so is
 * what comes. From `until` on the lane is probing: one entry is in flight at a time, until
 * sched_lane_open, or until it is closed again.
 *
 * until   in the past: it is probing at once; USEC_NEVER: until it is opened
 * reason  copied; a permanent status becomes its temporary one */
bool sched_lane_close(struct sched *, struct sched_lane_key lane, usec_t until,
                      const struct sched_reason *reason, usec_t now);
bool sched_lane_open(struct sched *, struct sched_lane_key lane, usec_t now);
/* Whatever the shell knows the lane by: actions name it. NULL: nothing. While there is one, the end of
 * the lane is told by SCHED_LANE_GONE. */
bool sched_lane_attach(struct sched *, struct sched_lane_key lane, void *user, usec_t now);
/* NULL: none, or no such lane. */
void *sched_lane_user(const struct sched *, struct sched_lane_key lane);
/* What feedback has made of its window; 0: it is as it began, there is none now, or no such lane. */
uint32_t sched_lane_window(const struct sched *, struct sched_lane_key lane);
/* A lane that was not used yet begins with that window, as far as its options allow, and not with
 * initial_destination_concurrency. Ignored when it was. */
void sched_lane_recall(struct sched *, struct sched_lane_key lane, uint32_t window, usec_t now);
/* Limited: it takes a new entry only from what was lent to it. Said again of a lane that waits until
 * `due` of an answer: it asks at once. What is held when it is not limited any more is returned. */
bool sched_lane_limit(struct sched *, struct sched_lane_key lane, bool is_limited, usec_t now);
#define SCHED_NO_CONNECTIONS UINT32_MAX
/* At most so many connections, idle ones included, and messages on one connection; 0: no ceiling. Those
 * beyond are closed when idle, and otherwise take no more. SCHED_NO_CONNECTIONS: a limited lane to which
 * nothing is lent, and whose connections end with what they carry. */
bool sched_lane_ceiling(struct sched *, struct sched_lane_key lane, uint32_t connections,
                        uint32_t messages, usec_t now);

#define SCHED_NO_BOUND             INT64_MAX
#define SCHED_NO_BOUND_OF_CONNECTS UINT32_MAX
/* What is lent to a lane; a unit for each entry, recipient and new connection. */
struct sched_grant {
    uint32_t messages;  /* 0: nothing; the lane asks again at `due` */
    uint32_t connects;  /* SCHED_NO_BOUND_OF_CONNECTS: no bound. 0: on connections that are there */
    int64_t recipients; /* > 0; SCHED_NO_BOUND: no bound. The entry that takes the last one may take
                          * more than there are: they are owed */
    usec_t from, until; /* to be used from then on, and before; what is left then is returned */
    usec_t due;         /* messages 0: not before */
    usec_t turn;        /* when there is likely to be something for those that wait; >= due */
    double per_second;  /* messages that the lane may send; 0: not known */
    enum sched_why why; /* why it is not more: PACE, RATE, QUOTA, LANE_CLOSED, CEILING */
    bool is_ample; /* nobody lacks what is lent: it is kept until `until`, though nothing waits */
};
/* The answer to SCHED_ASK. A lane holds one grant at a time: it asks again when it is used up. false:
 * the lane is gone, or does not ask any more: the grant is the shell's. */
bool sched_lane_grant(struct sched *, struct sched_lane_key lane, const struct sched_grant *,
                      usec_t now);

/* Owners of messages, tenants say: what one sends to all destinations, by all lanes together, is lent
 * to it as to a lane. An entry takes from the loan of its owner when it is selected, and when it was
 * throttled and is selected again; not when it is reported with `again` and placed anew. Mail of an
 * owner that has nothing keeps nobody else's from going.
 *
 * user     given back in actions
 * returns  NULL: no memory */
struct sched_owner *sched_owner_new(struct sched *, void *user);
/* No message is its own, nothing is lent to it, and what was left is pulled. */
bool sched_owner_is_idle(const struct sched_owner *);
void sched_owner_free(struct sched *, struct sched_owner *); /* idle; accepts NULL */
/* The answer to OWNER_ASKS; `connects` and `turn` as for lanes. false: it does not ask any more, the
 * grant is the shell's. */
bool sched_owner_grant(struct sched *, struct sched_owner *, const struct sched_grant *,
                       usec_t now);
/* It may have more than it was told: if it waits, it asks at once. */
void sched_owner_ask_again(struct sched *, struct sched_owner *, usec_t now);
/* Another owner, NULL: none, for a message that the core has (reload). */
void sched_own(struct sched *, uint64_t message_id, struct sched_owner *, usec_t now);

/* Messages of that flow are in the core: it knows what its tenant weighs. Owner thread. */
bool sched_knows_flow(const struct sched *, const struct sched_flow_key *flow);
/* What a tenant weighs from now on, in all classes: 1..1000. Forgotten with its last message. */
void sched_tenant_weight(struct sched *, uint32_t tenant, uint16_t weight, usec_t now);

/* The same for one destination (in all pools; or those of that nexthop), which keeps away from that
 * lane until then, or until it is sent to another site. There is no probing. With `until` in the
 * past it may go there again. False also when there is no such destination at the site. */
bool sched_close_for(struct sched *, struct sched_lane_key lane, struct slice destination,
                     usec_t until, const struct sched_reason *reason, usec_t now);

/* A rate or the quota of a destination's terms lets nothing more through for now, as one of its entries
 * has shown: no new one goes out before `until`, or before its terms have other ones or the core another
 * config. With `until` in the past it may go on. Where the turn of a quota is far, what is more than a
 * quarter of the places leaves memory, as what waits for limited lanes does. */
struct sched_bound {
    usec_t until;
    usec_t turn;        /* when there is likely to be something for those that wait; >= until */
    enum sched_why why; /* RATE or QUOTA */
};
void sched_bound_wait(struct sched *, const struct sched_entry *, const struct sched_bound *,
                      usec_t now);
/* Its terms have a rate or a quota. Owner thread. */
bool sched_destination_is_bound(const struct sched_destination *d);
/* It waits for its quota. Owner thread. */
bool sched_destination_waits(const struct sched_destination *d);

/* One application of feedback (config.feedback_debug). */
struct sched_debug {
    char name[64]; /* of the destination, cut when longer */
    bool is_positive;
    int limit, window; /* window: afterwards, 0 = dead */
    double success, failure, fail_cohorts;
};
/* The oldest record not taken yet; false when there is none. The core keeps the last 256. */
bool sched_debug_next(struct sched *, struct sched_debug *ret);

enum sched_change_cause {
    SCHED_CHANGE_POSITIVE,  /* feedback */
    SCHED_CHANGE_NEGATIVE,  /* feedback */
    SCHED_CHANGE_DEAD,      /* feedback, a failed resolution, or no host that may be tried */
    SCHED_CHANGE_REVIVED,   /* by its timer, a success or a flush */
    SCHED_CHANGE_FORGOTTEN, /* nothing is left of it: as new */
    SCHED_CHANGE_LIMIT,     /* its rate delay begins (to 0) or is over; another config's limit */
    SCHED_CHANGE_SLOWER,    /* feedback */
    SCHED_CHANGE_RECALLED,  /* sched_lane_recall */
    SCHED_CHANGE_COUNT
};
/* The window of a destination, or of a lane of a site, changed. */
struct sched_change {
    usec_t time;
    enum sched_change_cause cause;
    int from, to;  /* 0: nothing may be sent */
    char name[64]; /* of the destination, or the site, cut when longer */
    bool is_lane;  /* of a site, of this source */
    uint32_t source;
    char text[120]; /* NEGATIVE, SLOWER, DEAD: why, cut when longer; "" when not known */
};
/* The oldest record not taken yet; false when there is none. The core keeps the last 256. */
bool sched_change_next(struct sched *, struct sched_change *ret);

struct sched_fault {
    char text[200];
};
/* Check every invariant from the root; 0, or ERR_CORRUPT with what is wrong. Slow. */
MUST_USE int sched_check(const struct sched *, struct sched_fault *ret);

/* --- any thread, online under RCU ------------------------------------------------------------- */

enum sched_destination_state {
    SCHED_DESTINATION_READY,
    SCHED_DESTINATION_DEAD,      /* until state_until */
    SCHED_DESTINATION_SUSPENDED, /* rate delay, until state_until */
    SCHED_DESTINATION_RESOLVING,
    SCHED_DESTINATION_STATE_COUNT
};

struct sched_destination_view {
    struct slice name; /* valid while the reader stays online */
    /* Likewise; "": it is on its own. Else window, busy, connections and idle are those of all lanes
     * of the site. */
    struct slice site;
    uint16_t pool;
    enum sched_destination_state state;
    enum sched_why why;
    int window, busy;             /* connections that carry entries: that may, that do */
    int in_flight, todo;          /* entries */
    int connections, idle;        /* open, of which idle */
    uint64_t delivered, deferred; /* entries reported positive; negative or deferred */
    usec_t state_until;           /* monotonic */
};
enum sched_lane_state {
    SCHED_LANE_READY,
    SCHED_LANE_DEAD,    /* until state_until */
    SCHED_LANE_CLOSED,  /* by order, until state_until; 0: until it is opened */
    SCHED_LANE_PROBING, /* it was closed: one entry at a time */
    SCHED_LANE_STATE_COUNT
};
/* One of our sources at a site. */
struct sched_lane_view {
    struct slice site; /* valid while the reader stays online */
    uint32_t source;   /* its id */
    enum sched_lane_state state;
    int window, busy, connections, idle, in_flight; /* as of a destination */
    usec_t state_until;                             /* monotonic */
    int most_connections, most_messages;            /* its ceilings; 0: none */
    bool is_limited;                                /* it sends what it is lent */
    enum sched_why why; /* of a limited one: why the last loan was not more */
    usec_t due;         /* when it may have something again; 0: not known, or it has */
};
struct sched_site_view {
    struct slice key;            /* valid while the reader stays online */
    enum sched_lane_state state; /* READY when some lane takes entries, else DEAD */
    uint32_t lanes;
    int destinations, todo;                         /* that have entries; entries that wait */
    int window, busy, connections, idle, in_flight; /* of all lanes */
    usec_t state_until;                             /* the first of a lane that is away; 0: none */
};
struct sched_job_view {
    uint64_t message_id;
    void *handle; /* the shell's message: for the owner thread only, it may be gone for others */
    struct sched_flow_key flow;
    usec_t queued;                           /* when it came; monotonic */
    uint32_t waiting, in_flight, recipients; /* entries, entries, recipients in memory */
    enum sched_why why; /* when it was last passed over: what bars the first of its destinations;
                         * NOTHING from its submission and from each selection on */
};
enum sched_host_state {
    SCHED_HOST_UNUSED, /* never connected to, or forgotten */
    SCHED_HOST_CLOSED, /* known, without a connection */
    SCHED_HOST_IDLE,
    SCHED_HOST_ACTIVE,
    SCHED_HOST_RETRY, /* its last connections failed; see retry_until */
    SCHED_HOST_STATE_COUNT
};
struct sched_host_view {
    uint8_t key[SCHED_SERVER_KEY_MAX];
    uint8_t key_len;
    enum sched_host_state state;
    int connections, in_flight; /* of all destinations; entries */
    int failures;               /* in a row */
    usec_t retry_until;         /* RETRY: not before; monotonic */
    uint32_t notes;             /* until notes_until */
    usec_t notes_until;
    bool is_out_of_step; /* pipelined replies came in the wrong order: one delivery at a time */
};
/* A flow that has messages, or connections that they made busy. */
struct sched_flow_view {
    struct sched_flow_key key;
    uint32_t weight;
    uint32_t jobs;       /* messages */
    uint32_t held;       /* connections */
    uint32_t waiting;    /* entries */
    uint32_t recipients; /* in memory */
    usec_t oldest; /* queued_time of the first message that is not wholly selected; 0: all are */
};
struct sched_counters {
    uint64_t destinations, dead, jobs, entries_waiting, entries_in_flight, connections, idle;
    uint64_t sites,
        dead_sites; /* also those that are remembered without mail; no lane takes entries */
    uint64_t recipients_in_core, selections, reports;
    uint64_t put_back;   /* entries that left unattempted, their turn being far: is_paced */
    int64_t pool_unused; /* free recipient slots (section 6) */
};

/* Walk all destinations in no order; cursor starts at 0; false at the end. A destination that
 * comes or goes during the walk may or may not be seen; none is seen twice. */
bool sched_view_destinations(const struct sched *, uint64_t *cursor,
                             struct sched_destination_view *ret);
bool sched_view_jobs(const struct sched *, uint64_t *cursor, struct sched_job_view *ret);
bool sched_view_hosts(const struct sched *, uint64_t *cursor, struct sched_host_view *ret);
bool sched_view_flows(const struct sched *, uint64_t *cursor, struct sched_flow_view *ret);
/* In any pool: the least that there is; or in that one. */
MUST_USE bool sched_view_destination(const struct sched *, struct slice name,
                                     struct sched_destination_view *ret);
MUST_USE bool sched_view_destination_in(const struct sched *, struct slice name, uint16_t pool,
                                        struct sched_destination_view *ret);
/* Walk all sites, also those that are remembered without mail; as above. */
bool sched_view_sites(const struct sched *, uint64_t *cursor, struct sched_site_view *ret);
MUST_USE bool sched_view_site(const struct sched *, struct slice key, struct sched_site_view *ret);
/* The lanes of a site, from number 0 on; false behind the last one. */
bool sched_view_lane(const struct sched *, struct slice key, uint32_t number,
                     struct sched_lane_view *ret);
void sched_view_counters(const struct sched *, struct sched_counters *ret);
const char *sched_why_text(enum sched_why why);

#endif
