/* What receivers allow, as far as all transports share it: of each lane, that is, of a source and a
 * site, what it has learned (paces, ceilings, whether it is closed and why), and the configured
 * rates and quotas of lanes, sites, sources and tenants.
 *
 * A scheduler core holds the lanes that it uses (limits_hold) and hears what becomes of them
 * (limits_next_change): that one is limited, closed, open again, has another ceiling. A limited lane
 * takes a new entry only from what was lent (limits_lend); of what receivers say it reports all
 * (limits_accepted, limits_refused), and is told what becomes of the entry.
 *
 * Threads: one lock guards everything but what limits_accepted adds up of a lane that nothing was
 * learned of; every function may be called by any thread, those on a hold or a borrower by one
 * thread at a time, the owner of the borrower. Nothing is called back under the lock but
 * limits_borrower_config.wake. Time: `now` is monotonic, `wall` is of clock_wall; both are the
 * caller's. */
#ifndef ENGINE_LIMITS_H
#define ENGINE_LIMITS_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/reply/reply.h"
#include "engine/reply/reply_action.h"
#include "sched/limit/loan.h"
#include "sched/limit/quota.h"
#include "sched/limit/rate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMITS_SITES_MAX 100000U /* with each of its sets of hosts */
#define LIMITS_LANES_MAX 300000U
#define LIMITS_NAME_MAX  255 /* bytes of the name of a source, site, set of hosts, tenant, domain */
#define LIMITS_RULE_MAX  64  /* bytes of the name of a rule */
#define LIMITS_TEXT_MAX  160 /* bytes that are kept of a reply */

struct limits;
struct limits_borrower;
struct limits_hold;
struct limits_meter;
struct limit_grant;

struct limits_config {
    uint32_t sites_max, lanes_max; /* 0: the bounds above */
    usec_t lane_memory;            /* how long a lane is kept that nobody holds */
    uint64_t seed;                 /* of hashes and of paces' chance; 0: a random one */
};

/* errors: NULL when out of memory */
MUST_USE struct limits *limits_new(const struct limits_config *config);
void limits_free(struct limits *l); /* accepts NULL; no borrower is left */
/* After a reload. */
void limits_set_memory_span(struct limits *l, usec_t lane_memory);

/* --- what is configured ----------------------------------------------------------------------- */

/* All zero: no limit. */
struct limit_rates {
    struct rate_rule messages, recipients, connects;
    struct rate_rule quota;            /* of messages, in an hour or a day */
    const struct quota_warmup *warmup; /* instead of a quota; copied; NULL: none */
    /* Connections at a time, of all nodes together; where no nodes share limits it says nothing. Of a
     * lane or a site. */
    uint32_t connections;
};

/* What holds for a lane. Where borrowers bring different rates for the same lane, site or source, the
 * smallest holds; those with a greater serial replace what there was. */
struct limit_rules {
    uint64_t serial;                 /* of the settings that they are of */
    struct limit_rates lane;         /* of the source at the site */
    struct limit_rates site;         /* of all lanes of the site together */
    struct limit_rates source;       /* of all lanes of the source together */
    usec_t block_pause, block_grace; /* 0: 15 min, 2 h */
    usec_t memory; /* how long the lane is kept that nobody holds; 0: limits_config.lane_memory,
                    * below 0: not at all */
};

/* A lane. What was learned is of (source, site, hosts), what is configured of (source, site): where
 * destinations are one site by their names alone, what one of them says must not close the others'
 * lanes, so `hosts` names the set of hosts that it was said by. Else it is empty. */
struct limit_key {
    struct slice source, site, hosts; /* at most LIMITS_NAME_MAX bytes each */
};

/* --- borrowers and what they hold ------------------------------------------------------------- */

struct limits_borrower_config {
    unsigned number;          /* < LOAN_BORROWERS_MAX; the transport's */
    void (*wake)(void *wake); /* there is something for limits_next_change; NULL: nobody is told.
                               * Called under the lock, by any thread: it must not call limits. */
    void *ctx;
};

/* errors: NULL when out of memory */
MUST_USE struct limits_borrower *limits_borrower_new(struct limits *l,
                                                     const struct limits_borrower_config *config);
void limits_borrower_free(struct limits_borrower *b); /* accepts NULL; it holds nothing */

/* Begin to use a lane: its state, when it is not open and unlimited, is the first change.
 *
 * user     the caller's, given back in changes
 * errors   -ENOMEM; ERR_LIMIT: there are as many sites or lanes as may be, all in use; -ENAMETOOLONG
 *          a name is too long */
MUST_USE int limits_hold(struct limits_borrower *b, const struct limit_key *key,
                         const struct limit_rules *rules, void *user, usec_t now,
                         struct limits_hold **ret);
/* Other rules (reload). What was used stays used. errors: -ENOMEM, the old rules stay */
MUST_USE int limits_set_rules(struct limits_hold *h, const struct limit_rules *rules, usec_t now);
/* The core needs the lane no more. What it did not use of a loan is to be repaid before; connections
 * that it did not report as closed are taken to be. Accepts NULL. */
void limits_release(struct limits_hold *h, usec_t now);
/* A core that ends leaves the lane's window to the next one of its name, over a restart too; that takes it up
 * when it meets the lane first. 0: nothing was left. Out of memory: it is not remembered. */
void limits_note_window(struct limits_hold *h, struct slice core, uint32_t window);
MUST_USE uint32_t limits_take_window(struct limits_hold *h, struct slice core);
/* Tell all that stands of the lane as changes once more: the core has forgotten it. */
void limits_tell_again(struct limits_hold *h);
/* Of the lane, unique and never used again. */
uint64_t limits_hold_id(const struct limits_hold *h);

/* What of a lane a core needs to know. All zero: open, without limits. */
struct limit_state {
    bool is_limited;           /* new entries and connections only by limits_lend */
    bool is_closed;            /* nothing new; what waits goes by other lanes */
    usec_t until;              /* of a closed lane: from then on one entry at a time */
    uint32_t most_connections; /* of all borrowers together; 0: no ceiling */
    uint32_t most_messages;    /* on one connection; 0: no ceiling */
    bool is_emptied; /* nothing is lent to it, and its connections are to end as soon as they can */
};

enum limit_change_kind {
    LIMIT_CHANGED_LANE,       /* `state`; and whoever waits for a loan may ask at once */
    LIMIT_CLOSED_DESTINATION, /* this destination avoids the lane until `state.until` */
    LIMIT_OPENED_DESTINATION, /* by an operator */
};

struct limit_change {
    enum limit_change_kind kind;
    struct limits_hold *hold;
    void *user;
    struct limit_state state;
    char destination[LIMITS_NAME_MAX + 1];
    char reason[LIMITS_TEXT_MAX + 1]; /* of what is closed: the reply, or who ordered it */
};

/* Is there a change? Costs one load. */
bool limits_has_changes(const struct limits_borrower *b);
/* The next one; also of what the caller's own reports led to. A lane that changed several times is
 * told once, as it is now. */
MUST_USE bool limits_next_change(struct limits_borrower *b, struct limit_change *ret, usec_t now);

/* Why nothing is lent. */
enum limit_cause {
    LIMIT_NO_CAUSE,
    LIMIT_BY_CLOSURE,
    LIMIT_BY_PAUSE,
    LIMIT_BY_PACE,
    LIMIT_BY_CEILING,
    LIMIT_BY_RATE,
    LIMIT_BY_QUOTA,
    LIMIT_BY_SHARE,       /* of a rate or quota that other nodes use too */
    LIMIT_BY_CONNECTIONS, /* of a limit of them that other nodes use too */
    LIMIT_CAUSE_COUNT
};
/* "closed", "paused", "pace", ...; "" for LIMIT_NO_CAUSE; static */
const char *limit_cause_text(enum limit_cause cause) NONNULL_RET;

/* --- rates of others than lanes --------------------------------------------------------------- */

enum limit_owner {
    LIMIT_OF_LANE,
    LIMIT_OF_SITE,
    LIMIT_OF_SOURCE,
    LIMIT_OF_TENANT,
    LIMIT_OF_DOMAIN, /* inside a provider: a further bound on one destination */
    LIMIT_OWNER_COUNT
};

struct limit_meter_key {
    enum limit_owner owner; /* LIMIT_OF_TENANT or LIMIT_OF_DOMAIN */
    struct slice name;
};

/* The rates of a tenant or a domain, to be named in limit_ask.also. Held until limits_meter_put.
 *
 * serial   as in limit_rules
 * errors   -ENOMEM; -ENAMETOOLONG */
MUST_USE int limits_meter_get(struct limits *l, const struct limit_meter_key *key,
                              const struct limit_rates *rates, uint64_t serial, usec_t now,
                              struct limits_meter **ret);
void limits_meter_put(struct limits *l, struct limits_meter *m); /* accepts NULL */

/* Units of a loan, or of entries that came back unsent. */
struct limit_units {
    uint32_t messages, recipients, connects;
};

/* What a borrower holds of a meter that lends to it beside all lanes; all zero: nothing. */
struct limits_meter_loan {
    struct limit_units left;
    uint32_t edition; /* of the meter's rules */
    int64_t window;   /* of its quota */
};
struct limits_meter_ask {
    uint32_t messages; /* > 0 */
    uint32_t owed;     /* recipients beyond those lent before: paid for first */
    usec_t now, wall;
};
/* Lend of a meter itself, all of its limits together. A borrower has one loan of it at a time: what is
 * left of the last one was repaid before, or is taken to have been used. One that lends so is not named
 * in limit_ask.also.
 *
 * ret  as limits_lend; `connects` has no bound */
void limits_meter_lend(struct limits_borrower *b, struct limits_meter *m,
                       const struct limits_meter_ask *ask, struct limits_meter_loan *loan,
                       struct limit_grant *ret);
/* What is left of the loan. */
void limits_meter_repay(struct limits_borrower *b, struct limits_meter *m,
                        struct limits_meter_loan *loan, const struct limit_units *left);
/* Entries came back unsent. sent_wall: when they were taken */
void limits_meter_give_back(struct limits *l, struct limits_meter *m,
                            const struct limit_units *unsent, usec_t sent_wall);

/* --- rates and quota of a domain inside a provider --------------------------------------------- */

struct limit_domain {
    struct slice name;                            /* in lower case; at most LIMITS_NAME_MAX bytes */
    struct rate_rule messages, recipients, quota; /* count 0: none */
    uint64_t serial;                              /* as in limit_rules */
};
struct limit_domain_ask {
    uint32_t recipients; /* of the message */
    usec_t now, wall;
};
struct limit_domain_answer {
    bool is_taken;        /* this one may go; also without memory to count it */
    usec_t until, turn;   /* monotonic: when to ask for the next one, and when there is likely to be
                          * room for it; 0: at once */
    enum limit_cause why; /* of until */
};
/* A message goes to the domain, from whatever source, by the transport of the
 * borrower. Transports that wait for a rate take turns. */
void limits_domain_take(struct limits_borrower *b, const struct limit_domain *domain,
                        const struct limit_domain_ask *ask, struct limit_domain_answer *ret);
/* It came back unsent, or its receiver throttled it. sent_wall: when it was taken. Any thread */
void limits_domain_give_back(struct limits *l, struct slice name, uint32_t recipients,
                             usec_t sent_wall);

/* Where a meter stands, for reports. */
struct limits_meter_view {
    struct rate_rule messages, recipients, quota; /* count 0: none */
    usec_t rate_due;                              /* monotonic; the past: now */
    uint64_t quota_left;                          /* UINT64_MAX: no quota */
    usec_t quota_due;                             /* wall; the past: now */
};
/* false: nobody uses the meter, nor was anything used of it lately */
MUST_USE bool limits_meter_view(struct limits *l, const struct limit_meter_key *key, usec_t wall,
                                struct limits_meter_view *ret);

/* --- lending ---------------------------------------------------------------------------------- */

#define LIMIT_ALSO_MAX  2
#define LIMIT_UNBOUNDED UINT32_MAX

struct limit_ask {
    uint32_t messages;   /* > 0 */
    uint32_t recipients; /* 0: not known */
    uint32_t connects;   /* new connections that they would need; 0: none */
    uint32_t owed; /* recipients beyond those lent before: paid for first, even when nothing is
                          * lent, so they are named once */
    bool has_connection; /* one is open or being made: without a connect they can go too */
    struct limits_meter *also[LIMIT_ALSO_MAX]; /* NULL: none; of the same limits */
};

/* "lane", "site", ...; static */
const char *limit_owner_text(enum limit_owner owner) NONNULL_RET;

/* What was lent: it is used between `from` and `until`, or goes back by limits_repay. */
struct limit_grant {
    uint32_t messages;    /* 0: none, ask again at `due` or after a change of the lane */
    uint32_t recipients;  /* LIMIT_UNBOUNDED: no bound */
    uint32_t connects;    /* LIMIT_UNBOUNDED: no bound */
    usec_t from, until;   /* with messages > 0 or connects > 0; verdicts name `from` */
    usec_t due;           /* when to ask again; with messages 0 */
    usec_t turn;          /* when there is likely to be something to lend; >= due */
    double per_second;    /* messages; 0: nothing for now; HUGE_VAL: no bound */
    enum limit_cause why; /* what kept it from being more */
    enum limit_owner whose;
    bool is_ample; /* whoever asked next would get something at once, too */
};

/* Lend of all limits of the lane at once: the smallest holds, and what was lent of the others beyond
 * it is given back exactly. A hold has one loan at a time: what is left of the last one was repaid
 * before, or it is taken to have been used. */
void limits_lend(struct limits_hold *h, const struct limit_ask *ask, usec_t now, usec_t wall,
                 struct limit_grant *ret);

/* What is left of the last loan. */
void limits_repay(struct limits_hold *h, const struct limit_units *left, usec_t now);
/* An entry came back with `again`, not sent, and not because of a reply that limits_refused was told.
 * sent_at: as in limit_accepted */
void limits_give_back(struct limits_hold *h, const struct limit_units *unsent, usec_t sent_at,
                      usec_t now, usec_t wall);
/* Who was told to ask again will not. */
void limits_leave(struct limits_hold *h);

/* --- connections ------------------------------------------------------------------------------ */

/* One was made and greeted. sent_at: `from` of the loan, or when it was begun */
void limits_connected(struct limits_hold *h, usec_t sent_at, usec_t now);
/* It was not, for whatever reason; what a receiver said to it is reported besides. */
void limits_not_connected(struct limits_hold *h, usec_t now);
void limits_disconnected(struct limits_hold *h, usec_t now);

/* --- what receivers say ----------------------------------------------------------------------- */

struct limit_accepted {
    uint32_t messages, recipients; /* taken before the content, or whole */
    uint32_t session_messages;     /* so far on that connection, with this one */
    uint64_t tenant;               /* a number or a hash; 0: none */
    struct slice destination;      /* name */
    usec_t sent_at;                /* `from` of the loan; without one, when it was selected */
};
/* Also while nothing is limited: then it takes no lock. */
void limits_accepted(struct limits_hold *h, const struct limit_accepted *a, usec_t now);

struct limit_refusal {
    /* The reply and what it means. */
    enum reply_class class;
    enum reply_scope scope;
    enum reply_stage stage;
    uint16_t code; /* 0: there was none */
    struct slice text;
    usec_t hint;                        /* the time that it asks for; 0: none */
    struct slice rule;                  /* its name; "": none, the table decided */
    const struct reply_action *actions; /* of the rule */
    uint32_t action_count;
    /* To what. */
    struct slice address;      /* ours, that the receiver sees; "": not known */
    struct slice destination;  /* name */
    uint64_t tenant, message;  /* numbers or hashes */
    uint32_t messages;         /* MAILs; 0 and 1: one */
    uint32_t recipients;       /* 0 and 1: one */
    uint32_t session_messages; /* accepted on that connection before */
    usec_t sent_at;            /* as in limit_accepted */
    usec_t first_blocked;      /* wall: of the message's first such reply; 0: this is it */
    bool has_other_source;     /* another lane of the pool is open and was not tried */
    bool has_open_source;      /* another one is open, tried or not */
    bool has_others_out; /* other entries of the lane are under way: one may yet be accepted */
    bool must_charge;    /* maximal_queue_lifetime is 0 */
    bool
        may_stand_apart; /* others have mail at the site, which is what has these hosts, and nothing
                           * that is configured */
};

/* What becomes of the entry. */
enum limit_fate {
    LIMIT_FATE_CODE,         /* as its code and class say */
    LIMIT_FATE_AGAIN,        /* it stays, as if it had not been tried */
    LIMIT_FATE_CHARGED,      /* deferred by the retry schedule, whatever the code */
    LIMIT_FATE_OTHER_SOURCE, /* at once by another lane, uncharged */
    LIMIT_FATE_NEXT_HOST,    /* the next server, whatever the code */
    LIMIT_FATE_DEFER,        /* for defer_span, or by the retry schedule where that is 0 */
    LIMIT_FATE_BOUNCE,
    LIMIT_FATE_COUNT
};

struct limit_verdict {
    enum limit_fate fate;
    usec_t defer_span;
    bool is_throttled;   /* the window hears of it by is_negative only, failed cohorts not at all */
    bool is_negative;    /* throttled: one negative report to the borrower's window */
    bool keeps_feedback; /* the window hears what it would without rules; else nothing */
    usec_t first_blocked; /* wall: to be kept with the message; 0: not blocked */
    usec_t bounces_at;    /* wall: until then a 5xx is deferred while another lane is open; 0 */
    bool stands_apart; /* the destination is throttled for itself: it is to be a site of its own */
    usec_t suspend_tenant; /* spans, of mail to this site; 0: no */
    usec_t suspend_campaign;
};

/* The source could not connect for a reason of its own: an address that is not there, a proxy that is
 * down. The lane is closed for a minute, and probed then: others of its pool take its part.
 *
 * why   what failed */
void limits_source_failed(struct limits_hold *h, struct slice why, usec_t now);

void limits_refused(struct limits_hold *h, const struct limit_refusal *r, usec_t now, usec_t wall,
                    struct limit_verdict *ret);

#endif
