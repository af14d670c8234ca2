/* The inside of struct limits, for its own files. What each struct holds is guarded by limits->lock
 * unless it says otherwise; functions that need the lock say so by ON_ROLE(l->lock), and those that
 * get no struct limits are called with it held too. */
#ifndef ENGINE_LIMITS_PRIVATE_H
#define ENGINE_LIMITS_PRIVATE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_figures.h"
#include "engine/limit/limits_part.h"
#include "engine/limit/limits_report.h"
#include "sched/limit/ceiling.h"
#include "sched/limit/pace.h"
#include "sched/limit/quota.h"
#include "sched/limit/rate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LIMITS_UNITS = PACE_CONNECTS + 1,
    /* What other nodes use too: rates by their units, and these. */
    LIMITS_PART_CONNECTIONS = LIMITS_UNITS,
    LIMITS_PART_QUOTA,
    LIMITS_PARTS,
    LIMITS_METER_NAME_MAX = 2 * LIMITS_NAME_MAX + 1, /* of a lane: source, NUL, site */
};

struct THREAD_ROLE limits_lock {
    pthread_mutex_t mutex;
};

/* A hash table with as many chains as it was made for; its memory is touched as it fills. */
struct limits_link {
    struct limits_link *next;
    uint64_t hash;
};
struct limits_table {
    struct limits_link **chains;
    uint64_t mask;
    uint32_t count;
};

/* What this node had of a quota that went, in case that it comes back. */
struct limits_chunk {
    usec_t span;       /* of the quota; 0: nothing is known */
    int64_t window;    /* that the rest is of */
    uint32_t share;    /* messages that may be lent yet */
    uint64_t taken;    /* by all nodes, as was known last */
    uint64_t revision; /* of the value that said so */
    usec_t asked_at;   /* monotonic; when somebody last wanted some */
};

/* A limit of a meter that other nodes use too: limits_part.h. */
struct limits_part {
    struct limits_parts *all;
    struct limits_meter *meter;
    unsigned unit; /* enum pace_unit, or LIMITS_PART_... */
    /* As configured; the meter's is that of the part. Of connections the count, of a quota the span. */
    struct rate_rule rule;
    uint32_t parts, share; /* of a quota: messages of its window that may be lent yet */
    uint64_t id;
    bool has_slot;
    uint32_t slot;
    usec_t asked_at, short_at;  /* last; 0: never */
    usec_t waits_since;         /* somebody, for a part; 0: nobody */
    int64_t second;             /* that `lent` is of */
    uint32_t lent, lent_before; /* of connections the most that were wanted */
    int64_t owed;               /* in thousandths, while there is no part: to be paid for first */
    /* Of a quota. */
    int64_t window;    /* that `share` and `taken` are of */
    uint64_t taken;    /* by all nodes, as was known last */
    uint64_t revision; /* of the value that said so */
    usec_t used_up_at; /* when that was known to be all of it; 0: it is not */
};

struct limits_parts {
    bool is_on;
    usec_t until;
    uint64_t next_id;
    struct limits_part **slots;     /* [room]; NULL: empty; from `end` on never used */
    uint32_t end, room, first_free; /* none is empty below first_free */
    void (*wake)(void *ctx);
    void *ctx;
};

/* The connections of a lane's or a site's lanes, where all nodes may have so many together: limits_seats.c.
 * Those that are being made are counted from the time that they were lent. */
struct limits_seats {
    uint32_t limit; /* 0: there is no limit */
    uint32_t open, connecting;
    uint32_t closing; /* closed or failed within SEATS_CLOSE_SPAN of closed_at, and not later */
    usec_t closed_at;
    struct list lanes; /* limits_seated.in_meter */
};

/* The configured rates and the quota of one owner. */
struct limits_meter {
    struct limits_link link;
    enum limit_owner owner;
    uint32_t references;
    uint32_t edition; /* counts changes of its rules */
    uint64_t serial;  /* of the settings that these are of */
    struct rate rates[LIMITS_UNITS];
    struct limits_part *parts[LIMITS_PARTS]; /* own; NULL: it is not shared */
    struct limits_seats seats;
    usec_t next_turn; /* who waits for it from now on comes then; before that: nobody waits */
    struct quota quota;
    struct quota_warmup *warmup; /* own; of the quota; NULL: none */
    /* What a limit was when it went, in case that it comes back: while a reload goes round, one who
     * has no limit may be heard before one who has. */
    struct rate gone_rates[LIMITS_UNITS];
    struct quota_state gone_quota;
    struct limits_chunk gone_chunk;
    struct list idle; /* without references, the longest first */
    size_t name_len;
    char name[];
};

/* A site with one of its sets of hosts: what one receiver's word is about. */
struct limits_place {
    struct limits_link link;
    struct list lanes;   /* limits_lane.in_place */
    usec_t closed_until; /* all lanes, by a rule; 0: not */
    size_t site_len, hosts_len;
    char text[]; /* site, hosts */
};

/* Destinations that avoid a lane. */
struct limits_closed {
    struct list in_lane;
    uint64_t serial; /* of its last change */
    usec_t until, pause;
    usec_t said_at;
    bool is_of_lane;                 /* it may be the lane that is meant */
    uint64_t tenants[2], message[2]; /* that it was said to, two of them; the latest first */
    char reason[LIMITS_TEXT_MAX + 1];
    size_t name_len;
    char name[];
};

enum { LIMITS_SEATS = LIMIT_OF_SITE + 1 }; /* owners whose connections are counted */

/* A lane among those of a meter. */
struct limits_seated {
    struct list in_meter; /* limits_seats.lanes; linked while the lane has the meter */
    struct limits_lane *lane;
};

/* Of a hold at a meter: what it may have of the seats of this node, while they are too few. */
struct limits_cap {
    bool is_set;
    uint32_t most;
};

enum limits_fact_kind {
    LIMITS_FACT_PACE, /* one for each unit, by enum pace_unit */
    LIMITS_FACT_CONNECTIONS = LIMITS_FACT_PACE + LIMITS_UNITS,
    LIMITS_FACT_SESSION,
    LIMITS_FACT_CLOSED,
    LIMITS_FACT_PAUSED,
    LIMITS_FACT_COUNT
};

/* Why something stands. */
struct limits_fact {
    usec_t since; /* monotonic */
    uint32_t times;
    char rule[LIMITS_RULE_MAX + 1];
    char text[LIMITS_TEXT_MAX + 1];
};

/* Replies of a rule whose action is for the Nth of them. */
struct limits_counter {
    struct list in_lane;
    uint64_t hash; /* of the rule's name and the action */
    usec_t begin;  /* of the present part of the period */
    uint32_t last; /* part that has a count */
    uint32_t parts[16];
};

/* Whether one destination of a lane is throttled for itself. Since its pace began. */
struct limits_alone {
    uint64_t name; /* hash of who was refused; 0: nobody yet */
    bool is_over;  /* others were refused too */
    usec_t since;
    usec_t tried_at;               /* one was had stand apart without proof; 0: none was */
    uint32_t refused, own, others; /* messages: its own; accepted of it, and of others */
    uint64_t gone;                 /* the last one that has a lane of its own; 0: none has */
    usec_t gone_at;                /* what was sent until then is not of this lane any more */
};

/* Who was found to be throttled for itself, until its own lane is made. */
struct limits_heir {
    uint64_t name; /* hash; 0: none */
    uint64_t lane; /* id of the one that it leaves */
    uint32_t slot;
    usec_t at;
    double part; /* of what goes by that lane, 0..1 */
};
enum { LIMITS_HEIRS = 16 };

/* The window with which a core ended, until it takes it up again; limits_window.c. */
struct limits_window {
    struct list in_lane;
    uint32_t window;
    size_t core_len;
    char core[];
};

struct limits_learned {
    struct limits_alone alone;
    struct pace *paces[LIMITS_UNITS]; /* NULL: nothing was ever refused */
    struct ceiling connections, session;
    struct ceiling_doubt session_doubt; /* of what no rule says */
    bool is_closed;
    bool is_ordered;                  /* by an operator: it opens by itself at its end */
    usec_t closed_until;              /* from then on it is probed */
    usec_t closed_pause;              /* the length of the latest; doubles */
    usec_t closed_from;               /* what was sent before says nothing new */
    usec_t paused_until;              /* 0: not */
    usec_t probed_at;                 /* one is on its way; 0: none is */
    const struct limits_hold *prober; /* whose it is */
    usec_t slowed_at;                 /* by a rule: what was sent before says nothing new */
    usec_t negative_at[8];            /* by borrower % 8: the last report to a window */
    struct list destinations, counters, windows;
    uint32_t destination_count, counter_count;
    struct limits_fact *facts[LIMITS_FACT_COUNT]; /* NULL: it never stood */
};

/* What kept a lane from lending when it was asked last. */
struct limits_wait {
    enum limit_cause why; /* LIMIT_NO_CAUSE: it lent */
    enum limit_owner whose;
    usec_t turn;
};

struct limits_lane {
    /* Any thread, atomic. What was accepted while nothing is learned, in seconds by parity: the
     * second, 32 bits, and the count. Relaxed: they are figures, and the lock orders what is decided
     * by them. */
    _Atomic uint64_t recent[LIMITS_UNITS][2];
    _Atomic usec_t last_accepted; /* 0: never */
    _Atomic uint64_t tenant;      /* the first that it was seen to have */
    _Atomic bool has_tenants;     /* more than that one */
    _Atomic bool is_watched;      /* something is learned that acceptance concerns */

    struct limits_link link;
    uint64_t id;
    uint32_t slot; /* in limits.lanes */
    struct limits_place *place;
    struct list in_place;
    struct list holds; /* limits_hold.in_lane */
    struct list idle;  /* without holds, the longest first */
    usec_t idle_since;
    struct limits_meter *meters[LIMIT_OF_SOURCE + 1]; /* NULL: it has no limits */
    struct limits_seated seated[LIMITS_SEATS];
    usec_t block_pause, block_grace, memory; /* as in limit_rules */
    struct ceiling_count connections;
    uint32_t connecting;          /* connects that were lent, without an outcome */
    struct limits_figure *figure; /* of its provider and source */
    bool is_paced, is_bound;      /* is_bound: by something that was learned */
    struct limits_wait wait;
    struct limit_state shown;       /* as its holds know it */
    struct limits_learned *learned; /* NULL: nothing */
    uint64_t destination_serial;
    size_t source_len;
    char source[];
};

enum { LIMITS_LOAN_METERS = LIMIT_OF_SOURCE + 1 + LIMIT_ALSO_MAX };

/* What a hold has borrowed, so that exactly that can go back. */
struct limits_loan {
    struct limit_units lent;
    usec_t from;
    uint32_t meter_count;
    struct limits_meter *meters[LIMITS_LOAN_METERS]; /* own references */
    uint32_t editions[LIMITS_LOAN_METERS];
    int64_t windows[LIMITS_LOAN_METERS];
    bool is_paced[LIMITS_UNITS];
};

/* When a hold that waits for a meter comes for its part, so that not all who wait ask for each. */
struct limits_turn {
    const struct limits_meter *meter; /* compared only */
    uint32_t edition;
    usec_t at;
};

struct limits_hold {
    struct limits_borrower *borrower;
    struct limits_lane *lane;
    void *user;
    struct list in_lane;
    struct list changed;       /* in borrower.changed while there is something to tell */
    uint64_t destination_seen; /* destinations up to that serial were told */
    uint32_t open;             /* connections */
    uint32_t connecting;
    usec_t connect_lent_at;
    bool waits_to_connect; /* for a ceiling */
    bool must_tell;        /* the lane's state */
    uint32_t lacking;      /* connections that it asked for last and did not get */
    usec_t lacking_at;
    struct limits_cap caps[LIMITS_SEATS];
    struct limits_loan loan;
    struct limits_turn turns[LIMIT_OWNER_COUNT]; /* kept until something was lent */
};

struct limits_borrower {
    struct limits *limits;
    struct limits_borrower_config config;
    struct list changed;
    uint32_t holds;
    _Atomic bool has_changes; /* a hint for the owner, who takes the lock to look */
};

struct history;

enum { LIMITS_FIGURE_CHAINS = 1024 };
struct limits_figures {
    pthread_mutex_t mutex; /* of who adds a row */
    uint32_t count;
    struct limits_figure *other; /* of those without a row */
    /* any thread, atomic: limits_figures.c */
    _Atomic(struct limits_figure *) first;
    _Atomic(struct limits_figure *) chains[LIMITS_FIGURE_CHAINS];
};

struct limits {
    struct limits_lock lock;
    uint64_t seed;
    struct limits_config config;
    struct limits_table lane_table, place_table, meter_table;
    struct limits_lane **lanes; /* [lanes_max], by slot; for walks */
    uint32_t slot_end;          /* slots from here on were never used */
    uint32_t *free_slots;       /* [lanes_max] */
    uint32_t free_slot_count;
    struct list idle_lanes, idle_meters;
    uint64_t next_id;
    struct limits_parts parts;
    uint32_t closed_lanes, paced_lanes;
    uint64_t destination_total; /* closed ones, of all lanes */
    struct limits_heir heirs[LIMITS_HEIRS];
    unsigned next_heir;
    struct limits_figures figures;
    struct history *reactions;
    void (*reaction_wake)(void *ctx); /* set at creation; NULL: nobody waits */
    void *reaction_ctx;
    _Atomic bool is_reaction_awaited; /* any thread, atomic: see limits_reacted */
    pthread_mutex_t saving;           /* who has it writes the memory file; taken before `lock` */
    usec_t saved_at;                  /* when the memory file was written */
    uint64_t saved_changes;
    uint64_t changes; /* counts what would change the memory file */
    usec_t wall;      /* the latest that anybody brought; quotas count by it */
};

void limits_enter(struct limits *l) ROLE_TAKEN(l->lock);
void limits_leave_lock(struct limits *l) ROLE_LEFT(l->lock);

/* limits_table.c */
MUST_USE int limits_table_init(struct limits_table *t, uint32_t most);
void limits_table_fini(struct limits_table *t);
void limits_table_add(struct limits_table *t, struct limits_link *link, uint64_t hash);
void limits_table_remove(struct limits_table *t, struct limits_link *link);
static inline struct limits_link *limits_table_chain(const struct limits_table *t, uint64_t hash)
{
    return t->chains[hash & t->mask];
}

/* limits_lane.c */
MUST_USE int limits_lane_get(struct limits *l, const struct limit_key *key, usec_t now,
                             struct limits_lane **ret) ON_ROLE(l->lock);
struct limits_lane *limits_lane_find(struct limits *l, const struct limit_key *key)
    ON_ROLE(l->lock);
/* NULL: out of memory */
struct limits_learned *limits_lane_learned(struct limits_lane *lane);
void limits_lane_free_learned(struct limits_learned *learned);
/* Remember a core's window (limits_window.c). */
void limits_window_set(struct limits *l, struct limits_lane *lane, struct slice core,
                       uint32_t window) ON_ROLE(l->lock);
void limits_windows_drop(struct limits_learned *learned);
static inline struct slice limits_lane_source(const struct limits_lane *lane)
{
    return slice_make(lane->source, lane->source_len);
}
static inline struct slice limits_place_site(const struct limits_place *p)
{
    return slice_make(p->text, p->site_len);
}
static inline struct slice limits_place_hosts(const struct limits_place *p)
{
    return slice_make(p->text + p->site_len, p->hosts_len);
}
/* A few of those that were idle for long are forgotten. */
void limits_forget_idle(struct limits *l, usec_t now) ON_ROLE(l->lock);
void limits_free_lane(struct limits *l, struct limits_lane *lane) ON_ROLE(l->lock);

/* limits_meter.c */
bool limit_rates_are_none(const struct limit_rates *rates);
/* What a meter is to count. */
struct limits_meter_rules {
    struct limit_meter_key key;
    const struct limit_rates *rates;
    uint64_t serial;
};
/* A reference to the meter of that name, which is made when there is none, with these rates.
 * errors: -ENOMEM */
MUST_USE int limits_meter_take(struct limits *l, const struct limits_meter_rules *rules, usec_t now,
                               struct limits_meter **ret) ON_ROLE(l->lock);
void limits_meter_drop(struct limits *l, struct limits_meter *m) ON_ROLE(l->lock);
/* NULL: there is none */
struct limits_meter *limits_meter_find(struct limits *l, const struct limit_meter_key *key)
    ON_ROLE(l->lock);
void limits_meter_forget_idle(struct limits *l, usec_t now) ON_ROLE(l->lock);
bool limits_meter_is_limited(const struct limits_meter *m);
/* Of the quota: as quota_lend, from what this node took of it where nodes share it. why: of a refusal */
struct limits_moment {
    usec_t now, wall;
};
usec_t limits_quota_lend(struct limits_meter *m, uint32_t want, const struct limits_moment *at,
                         struct quota_loan *ret, enum limit_cause *ret_why);
void limits_quota_return(struct limits_meter *m, uint32_t amount, int64_t window);
/* What all nodes have left of it, as far as is known; UINT64_MAX: there is none. */
uint64_t limits_quota_left(struct limits_meter *m, usec_t wall);
/* As quota_due of one message, by what all nodes have left. */
usec_t limits_quota_due(struct limits_meter *m, usec_t wall);
/* Undoes what was taken of the quota at that time. */
void limits_quota_back(struct limits_meter *m, uint32_t amount, usec_t wall);
void limits_meter_free(struct limits *l, struct limits_meter *m) ON_ROLE(l->lock);

/* The rate as it is configured. */
static inline const struct rate_rule *limits_meter_rule(const struct limits_meter *m, unsigned unit)
{
    return m->parts[unit] != NULL ? &m->parts[unit]->rule : &m->rates[unit].rule;
}

/* limits_part.c */
/* A rate, or LIMITS_PART_CONNECTIONS, has another rule. errors: -ENOMEM, it is as before */
MUST_USE int limits_part_configure(struct limits *l, struct limits_meter *m, unsigned unit,
                                   const struct rate_rule *rule) ON_ROLE(l->lock);
void limits_part_free(struct limits *l, struct limits_meter *m, unsigned unit) ON_ROLE(l->lock);
/* It has none, and is to be looked at. Out of memory or of slots: it stays without, and whoever wants it
 * asks again. */
void limits_part_take_slot(struct limits_part *part);
void limits_parts_fini(struct limits *l);
/* Somebody asks for it. returns 0: there is a part, or it is not shared; else when to ask again */
usec_t limits_part_due(struct limits_meter *m, unsigned unit, usec_t now);
/* When to ask again for what is due then: sooner, where the part may have grown meanwhile. */
usec_t limits_part_look_again(const struct limits_meter *m, enum pace_unit unit, usec_t due,
                              usec_t now);
/* Somebody wants a part of the meter, which may be on its way; or other nodes wait for it until it is given
 * back with what is left of the burst. */
bool limits_part_is_used(const struct limits_meter *m);
/* So many went without being asked for. false: the rate has them to count */
MUST_USE bool limits_part_owe(struct limits_meter *m, enum pace_unit unit, uint32_t amount);
/* What was taken of the meter's rates, or lent or owed, was not used. Of a rate that this node has no part of any
 * more only a debt is less. */
void limits_part_back(struct limits_meter *m, const struct limit_units *unused);
/* So many were lent; is_short: somebody was refused. */
void limits_part_lent(struct limits_meter *m, enum pace_unit unit, uint32_t lent, bool is_short,
                      usec_t now);

/* limits_chunk.c */
/* The quota has begun or ended, or has another span; what was left of one that went comes back with
 * it. errors: -ENOMEM */
MUST_USE int limits_chunk_configure(struct limits *l, struct limits_meter *m) ON_ROLE(l->lock);
/* The wall clock is in another window: nothing is left of the last one. */
void limits_chunk_turn(struct limits_part *part, usec_t wall);
void limits_chunk_describe(struct limits_part *part, usec_t now, usec_t wall,
                           struct limits_part_view *ret);

/* limits_seats.c */
/* The lane has that meter from now on, or will not have it any more. */
void limits_seats_join(struct limits_lane *lane, unsigned owner);
void limits_seats_leave(struct limits_lane *lane, unsigned owner);
/* The lane has so many more connections, or fewer, that are being made or open. */
void limits_seats_count(struct limits_lane *lane, int connecting, int open);
/* One of them was closed, or was not made in the end, and its receiver may not know it yet. Behind
 * limits_seats_count. */
void limits_seats_closed(struct limits *l, struct limits_lane *lane, usec_t now) ON_ROLE(l->lock);
/* So many more the hold may have of the meter now, of those that it asks for. */
uint32_t limits_seats_room(struct limits_meter *m, struct limits_hold *h, uint32_t asked,
                           usec_t now);
/* It gets none: when to ask again, if it is not told before that there are some. */
usec_t limits_seats_refuse(struct limits *l, struct limits_meter *m, struct limits_hold *h,
                           uint32_t asked, usec_t now) ON_ROLE(l->lock);
/* This node may have another number of them: holds that have too many are told. */
void limits_seats_fit(struct limits *l, struct limits_meter *m, usec_t now) ON_ROLE(l->lock);
/* Those that this node has, with those that are closing; and that its holds lack besides. */
uint32_t limits_seats_held(struct limits_meter *m, usec_t now);
uint32_t limits_seats_lacking(struct limits_meter *m, usec_t now);
/* What the hold may have beside what its lane may. */
void limits_seats_cap(const struct limits_hold *h, struct limit_state *state);

/* limits_change.c */
/* Tell the holds of a lane when its state is another one; is_turn: also when it is not, as who waits
 * for a loan may ask at once. */
void limits_lane_changed(struct limits *l, struct limits_lane *lane, bool is_turn, usec_t now)
    ON_ROLE(l->lock);
void limits_tell(struct limits_hold *h);
/* Nothing of it counts as standing any more. */
void limits_lane_uncount(struct limits *l, const struct limits_lane *lane) ON_ROLE(l->lock);
struct limit_state limits_lane_state(const struct limits_lane *lane, usec_t now);

/* The state of a lane that is held from now on. */
void limits_tell_first(struct limits_hold *h);

/* limits_repay.c */
void limits_drop_loan(struct limits *l, struct limits_hold *h) ON_ROLE(l->lock);
void limits_unsend(struct limits *l, struct limits_lane *lane, const struct limit_units *unsent,
                   usec_t sent_at, usec_t now) ON_ROLE(l->lock);

/* limits_turn.c */
/* Of a rate: may the hold have some of it now? returns 0: yes; else when it is due */
usec_t limits_turn_of(const struct limits_meter *m, struct limits_hold *h, enum pace_unit unit,
                      usec_t now);
/* The hold was refused; returns when it is to come. due: not before */
usec_t limits_turn_take(struct limits_meter *m, struct limits_hold *h, enum pace_unit unit,
                        uint32_t wanted, usec_t due);
/* Something was lent. */
void limits_turns_end(struct limits_hold *h);

/* limits_connection.c */
void limits_count_disconnected(struct limits *l, struct limits_hold *h, usec_t now)
    ON_ROLE(l->lock);
/* A connect that was lent has its outcome. */
void limits_count_connect_ended(struct limits_hold *h);

/* limits_pace.c */
/* The pace, made with what was accepted lately; NULL: out of memory */
struct pace *limits_pace_get(struct limits *l, struct limits_lane *lane, enum pace_unit unit,
                             usec_t now) ON_ROLE(l->lock);
void limits_count_recent(struct limits_lane *lane, enum pace_unit unit, uint32_t n, usec_t now);

/* limits_closure.c */
void limits_close(struct limits *l, struct limits_lane *lane, usec_t span, bool is_ordered,
                  usec_t now) ON_ROLE(l->lock);
void limits_open(struct limits *l, struct limits_lane *lane, enum limit_reaction_cause cause,
                 usec_t now) ON_ROLE(l->lock);
/* The receiver does not want the lane, or what it is closed to. */
void limits_blocked(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                    usec_t now) ON_ROLE(l->lock);
/* This destination took what was sent. */
void limits_open_destination(struct limits *l, struct limits_lane *lane,
                             const struct limit_accepted *a, usec_t now) ON_ROLE(l->lock);
void limits_open_destinations(struct limits *l, struct limits_lane *lane, usec_t now)
    ON_ROLE(l->lock);
/* One that was closed before the restart, or is closed at another node. false: here it is for longer, or
 * there is no memory */
struct limits_recalled {
    struct slice name, reason;
    usec_t left, pause;
};
bool limits_recall_destination(struct limits *l, struct limits_lane *lane,
                               const struct limits_recalled *what, usec_t now) ON_ROLE(l->lock);
/* Does the text name this address? Pure. */
bool limits_names_address(struct slice text, struct slice address);
/* A verdict on a probe came that says nothing about why it is closed. */
void limits_probe_ended(struct limits *l, struct limits_lane *lane, usec_t now) ON_ROLE(l->lock);
void limits_free_destinations(struct limits *l, struct limits_lane *lane) ON_ROLE(l->lock);

/* limits_action.c */
/* What the actions of the reply's rule say. true: the class does nothing to the lane besides */
bool limits_act(struct limits *l, struct limits_hold *h, const struct limit_refusal *r, usec_t now,
                struct limit_verdict *ret) ON_ROLE(l->lock);

/* limits_refusal.c */
/* One refusal more for a pace; NULL: out of memory, nothing is learned. */
struct pace *limits_learn_pace(struct limits *l, struct limits_lane *lane, enum pace_unit unit,
                               const struct limit_refusal *r, usec_t now) ON_ROLE(l->lock);

/* limits_reaction.c */
struct limits_reacted {
    enum limit_reaction_kind kind;
    struct slice rule, text;
    enum limit_reaction_cause cause;
    enum reply_class class;
    enum pace_unit unit;
    struct slice destination; /* "": the lane */
    usec_t span;              /* from now on; 0: without an end */
    double value;             /* of a pace or a ceiling */
};
void limits_reacted(struct limits *l, const struct limits_lane *lane,
                    const struct limits_reacted *what, usec_t now) ON_ROLE(l->lock);
/* A pace of the lane has ended by itself. */
void limits_forgot_pace(struct limits *l, const struct limits_lane *lane, enum pace_unit unit,
                        usec_t now) ON_ROLE(l->lock);

/* limits_figures.c */
MUST_USE int limits_figures_init(struct limits *l);
void limits_figures_fini(struct limits *l);
struct limits_figure *limits_figure_of_lane(struct limits *l,
                                            const struct limit_key *key) NONNULL_RET;
enum limits_figure_lanes limits_figure_lanes_of(const struct limits_lane *lane);
/* The lane counts among others now, or among those of before: LIMIT_LANES: it is new. */
void limits_figure_move_lane(const struct limits_lane *lane, enum limits_figure_lanes before);
void limits_figure_leave_lane(const struct limits_lane *lane);

/* limits_alone.c */
void limits_alone_accepted(struct limits_learned *learned, const struct limit_accepted *a);
/* Refused with the scope of messages or recipients; is_new: that began the pace. true: by all that is
 * known only this destination is throttled, and the caller has it stand apart. */
MUST_USE bool limits_alone_refused(struct limits *l, struct limits_lane *lane,
                                   const struct limit_refusal *r, bool is_new, usec_t now)
    ON_ROLE(l->lock);
/* Of a destination that has a lane of its own, sent before it had: that is news to no pace. */
MUST_USE bool limits_alone_is_gone(const struct limits_lane *lane, const struct limit_refusal *r);
/* The lane is new. If it is one of a destination that stands apart, its pace is its part of what the
 * lane learned that it left, whose paces are forgotten. */
void limits_alone_inherit(struct limits *l, struct limits_lane *lane, usec_t now) ON_ROLE(l->lock);

/* limits_fact.c */
/* With a NUL, cut to size, control bytes as spaces. */
void limits_copy_text(char *ret, size_t size, struct slice text);
void limits_fact_note(struct limits_learned *learned, unsigned kind, struct slice rule,
                      struct slice text, usec_t now);
void limits_fact_end(struct limits_learned *learned, unsigned kind);

#endif
