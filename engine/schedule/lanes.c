/* See the header for who owns this; nothing here is shared but what limits.h guards. */
#include "engine/schedule/lanes.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/order/suspension.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/message.h"
#include "engine/schedule/receiver.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/sched.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lane {
    struct list all; /* lanes.all */
    struct limits_hold *hold;
    uint64_t serial;    /* of the settings whose rules it has */
    uint32_t slots;     /* connections that have it */
    uint32_t connected; /* of them, those that were made */
    bool is_gone;       /* the core has forgotten it: it goes with the last of them */
    bool is_closed;     /* the core was told so */
    double per_second;  /* messages, as it was lent last; HUGE_VAL: no bound */
    uint32_t source;    /* id */
    size_t site_len;
    char site[]; /* as the core knows it */
};

static void wake_owner(void *ctx)
{
    mailbox_wake(ctx);
}

int lanes_init(struct lanes *l, const struct lanes_config *config)
{
    const struct limits_borrower_config borrower = {
        .number = config->transport % LOAN_BORROWERS_MAX, .wake = wake_owner, .ctx = config->box};
    *l = (struct lanes){
        .engine = config->engine, .sched = config->sched, .transport = config->transport};
    (void)snprintf(l->name, sizeof(l->name), "%s", config->name);
    list_init(&l->all);
    l->borrower = limits_borrower_new(config->engine->limits, &borrower);
    int err = l->borrower == NULL ? -ENOMEM : lanes_grow(l, config->slot_count);
    if (err != 0) {
        lanes_fini(l);
    }
    return err;
}

int lanes_grow(struct lanes *l, uint32_t slot_count)
{
    if (slot_count <= l->slot_count) {
        return 0;
    }
    struct lane_slot *grown = realloc(l->slots, slot_count * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    memset(grown + l->slot_count, 0, (slot_count - l->slot_count) * sizeof(*grown));
    l->slots = grown;
    l->slot_count = slot_count;
    return 0;
}

static void free_lane(struct lane *lane, usec_t now)
{
    list_remove(&lane->all);
    limits_release(lane->hold, now);
    free(lane);
}

static struct sched_lane_key key_of(const struct lane *lane)
{
    return (struct sched_lane_key){slice_make(lane->site, lane->site_len), lane->source};
}

static void note_window(const struct lanes *l, const struct lane *lane)
{
    uint32_t window = lane->is_gone ? 0 : sched_lane_window(l->sched, key_of(lane));
    if (window > 0) {
        limits_note_window(lane->hold, slice_of(l->name), window);
    }
}

void lanes_fini(struct lanes *l)
{
    while (l->borrower != NULL && !list_is_empty(&l->all)) {
        struct lane *lane = list_first(&l->all, struct lane, all);
        note_window(l, lane);
        free_lane(lane, 0);
    }
    limits_borrower_free(l->borrower);
    free(l->slots);
    *l = (struct lanes){0};
}

/* --- rules ------------------------------------------------------------------------------------ */

/* Whether the provider or the domain says it, and not the transport for all that it sends to. */
static bool is_own(const struct lanes_site *site, const char *option)
{
    const struct config_option *o = config_option_find(CONFIG_SECTION_TRANSPORT, option);
    return policy_origin(site->settings->policies, site->policy, o).section !=
           CONFIG_SECTION_TRANSPORT;
}

/* Windows are the scheduler's; that they hold over all nodes is told here. */
static void fill_connections(const struct lanes_site *site, struct limit_rules *ret)
{
    const struct sched_config *c = &site->policy->options.sched;
    if (site->settings->config->cluster.node == NULL) {
        return;
    }
    ret->site.connections = (uint32_t)c->site_concurrency_limit;
    if (c->destination_concurrency_limit <= UINT16_MAX && /* no node can have more */
        is_own(site, "destination_concurrency_limit")) {
        ret->lane.connections = (uint32_t)c->destination_concurrency_limit;
    }
}

static void fill_rules(const struct lanes_site *site, const struct config_egress_source *source,
                       struct limit_rules *ret)
{
    const struct config_limits *c = &site->policy->options.limits;
    usec_t memory = site->policy->options.sched.lane_memory;
    *ret = (struct limit_rules){
        .serial = site->settings->serial,
        .lane = {.messages = c->max_message_rate,
                 .recipients = c->max_recipient_rate,
                 .connects = c->max_connection_rate,
                 .quota = c->max_message_quota},
        .site = {.messages = c->site_message_rate},
        .block_pause = c->block_pause,
        .block_grace = c->block_grace,
        .memory = memory > 0 ? memory : -1,
    };
    fill_connections(site, ret);
    if (source != NULL) {
        ret->source = (struct limit_rates){.messages = source->max_message_rate,
                                           .recipients = source->max_recipient_rate,
                                           .connects = source->max_connection_rate,
                                           .quota = source->max_message_quota,
                                           .warmup = source->warmup};
    }
}

/* A name of the limits is shorter than a site's may be: what is too long ends in a hash of it all. */
static struct slice short_name(struct slice name, char *room)
{
    if (name.len <= LIMITS_NAME_MAX) {
        return name;
    }
    enum { HASH_TEXT = 17 };
    memcpy(room, name.data, LIMITS_NAME_MAX - HASH_TEXT);
    char *at = room + LIMITS_NAME_MAX - HASH_TEXT;
    uint64_t hash = hash_checksum(name.data, name.len);
    *at++ = '#';
    for (int i = 60; i >= 0; i -= 4) {
        *at++ = "0123456789abcdef"[hash >> i & 15];
    }
    return slice_make(room, LIMITS_NAME_MAX);
}

static struct limit_key limit_key_of(const struct lanes_site *site,
                                     const struct config_egress_source *source, char *room)
{
    return (struct limit_key){
        .source = source == NULL ? SLICE("") : slice_of(source->name),
        .site = short_name(site->name, room),
        .hosts = short_name(site->hosts, room + LIMITS_NAME_MAX),
    };
}

void lanes_limit_key(struct slice site, struct slice source, char room[static LANES_KEY_ROOM],
                     struct limit_key *ret)
{
    struct slice name, hosts;
    receiver_limits(site, &name, &hosts);
    *ret = (struct limit_key){.source = source,
                              .site = short_name(name, room),
                              .hosts = short_name(hosts, room + LIMITS_NAME_MAX)};
}

/* errors: of limits_hold; -ENOMEM */
static int new_lane(struct lanes *l, const struct lanes_site *site, uint32_t place, usec_t now)
{
    const struct transport_sources *sources = &site->settings->sources->transports[l->transport];
    const struct config_egress_source *source = sources->sections[place];
    struct lane *lane = calloc(1, sizeof(*lane) + site->key.len);
    struct limit_rules rules;
    char room[LANES_KEY_ROOM];
    if (lane == NULL) {
        return -ENOMEM;
    }
    lane->source = sources->given[place].id;
    lane->per_second = HUGE_VAL;
    lane->serial = site->settings->serial;
    lane->site_len = site->key.len;
    memcpy(lane->site, site->key.data, site->key.len);
    const struct limit_key key = limit_key_of(site, source, room);
    fill_rules(site, source, &rules);
    int err = limits_hold(l->borrower, &key, &rules, lane, now, &lane->hold);
    if (err != 0) {
        free(lane);
        return err;
    }
    list_push_back(&l->all, &lane->all);
    if (!sched_lane_attach(l->sched, key_of(lane), lane, now)) {
        free_lane(lane, now); /* the core does not know the lane, or is short of memory */
        return 0;
    }
    sched_lane_recall(l->sched, key_of(lane), limits_take_window(lane->hold, slice_of(l->name)),
                      now);
    return 0;
}

static void follow_rules(struct lane *lane, const struct lanes_site *site,
                         const struct config_egress_source *source, usec_t now)
{
    struct limit_rules rules;
    if (lane->serial == site->settings->serial) {
        limits_tell_again(lane->hold); /* a destination that is new there has heard nothing */
        return;
    }
    fill_rules(site, source, &rules);
    if (limits_set_rules(lane->hold, &rules, now) != 0) {
        log_error("out of memory: the limits of a lane stay as they were");
        return;
    }
    lane->serial = site->settings->serial;
}

void lanes_found(struct lanes *l, const struct lanes_site *site, usec_t now)
{
    const struct transport_sources *sources = &site->settings->sources->transports[l->transport];
    for (uint32_t i = 0; i < sources->count; i++) {
        const struct sched_lane_key key = {site->key, sources->given[i].id};
        struct lane *lane = sched_lane_user(l->sched, key);
        if (lane != NULL) {
            follow_rules(lane, site, sources->sections[i], now);
        } else {
            int err = new_lane(l, site, i, now);
            if (err != 0) {
                log_error("lanes: %s: a lane of " SLICE_FMT " has no limits but its window",
                          err_str(err), SLICE_ARG(site->key));
            }
        }
    }
}

void lanes_gone(const struct sched_action *a, usec_t now)
{
    struct lane *lane = a->lane_user;
    lanes_return(a, now);
    lane->is_gone = true;
    if (lane->slots == 0) {
        free_lane(lane, now);
    }
}

/* --- what the core is told -------------------------------------------------------------------- */

static struct sched_reason closed_reason(const struct limit_change *c)
{
    struct sched_reason reason = {.status = "4.7.1"};
    (void)snprintf(reason.text, sizeof(reason.text), "%s", c->reason);
    return reason;
}

/* What the core refuses to hear is of a lane that it has forgotten: SCHED_LANE_GONE follows. */
static void tell_lane(struct lanes *l, struct lane *lane, const struct limit_change *c, usec_t now)
{
    const struct limit_state *state = &c->state;
    if (state->is_closed) {
        const struct sched_reason reason = closed_reason(c);
        lane->is_closed = sched_lane_close(l->sched, key_of(lane), state->until, &reason, now);
    } else if (lane->is_closed) {
        lane->is_closed = !sched_lane_open(l->sched, key_of(lane), now);
    }
    lane->per_second = state->is_limited ? lane->per_second : HUGE_VAL;
    (void)sched_lane_limit(l->sched, key_of(lane), state->is_limited, now);
    uint32_t most = state->is_emptied ? SCHED_NO_CONNECTIONS : state->most_connections;
    (void)sched_lane_ceiling(l->sched, key_of(lane), most, state->most_messages, now);
}

void lanes_follow(struct lanes *l, usec_t now)
{
    struct limit_change c;
    while (limits_has_changes(l->borrower) && limits_next_change(l->borrower, &c, now)) {
        struct lane *lane = c.user;
        if (c.kind == LIMIT_CHANGED_LANE) {
            tell_lane(l, lane, &c, now);
            continue;
        }
        const struct sched_reason reason = closed_reason(&c);
        usec_t until = c.kind == LIMIT_CLOSED_DESTINATION ? c.state.until : 0;
        (void)sched_close_for(l->sched, key_of(lane), slice_of(c.destination), until, &reason,
                              now); /* false: it is not there now, and asks when it is */
    }
}

/* --- loans ------------------------------------------------------------------------------------ */

static enum sched_why why_of(enum limit_cause cause)
{
    static const enum sched_why whys[LIMIT_CAUSE_COUNT] = {
        [LIMIT_NO_CAUSE] = SCHED_WHY_NOTHING,       [LIMIT_BY_CLOSURE] = SCHED_WHY_LANE_CLOSED,
        [LIMIT_BY_PAUSE] = SCHED_WHY_PACE,          [LIMIT_BY_PACE] = SCHED_WHY_PACE,
        [LIMIT_BY_CEILING] = SCHED_WHY_CEILING,     [LIMIT_BY_RATE] = SCHED_WHY_RATE,
        [LIMIT_BY_QUOTA] = SCHED_WHY_QUOTA,         [LIMIT_BY_SHARE] = SCHED_WHY_RATE,
        [LIMIT_BY_CONNECTIONS] = SCHED_WHY_CEILING,
    };
    return whys[cause];
}

void lanes_ask(struct lanes *l, const struct sched_action *a, usec_t now)
{
    struct lane *lane = a->lane_user;
    const struct limit_ask ask = {
        .messages = a->loan->wanted > 0 ? a->loan->wanted : 1,
        .recipients = a->loan->recipients_wanted,
        .connects = a->loan->connects_wanted,
        .owed = a->loan->recipients_owed,
        .has_connection = a->loan->has_connection,
    };
    struct limit_grant lent;
    limits_lend(lane->hold, &ask, now, clock_wall(), &lent);
    lane->per_second = lent.per_second;
    const struct sched_grant grant = {
        .messages = lent.messages,
        .connects = lent.connects == LIMIT_UNBOUNDED ? SCHED_NO_BOUND_OF_CONNECTS : lent.connects,
        .recipients = lent.recipients == LIMIT_UNBOUNDED ? SCHED_NO_BOUND : lent.recipients,
        .from = lent.from,
        .until = lent.until,
        .due = lent.due,
        .turn = lent.turn,
        .per_second = isfinite(lent.per_second) ? lent.per_second : 0,
        .why = why_of(lent.why),
        .is_ample = lent.is_ample,
    };
    if (!sched_lane_grant(l->sched, a->loan->lane, &grant, now)) { /* what is not lent is 0 */
        const struct limit_units all = {
            .messages = lent.messages,
            .recipients = lent.recipients == LIMIT_UNBOUNDED ? 0 : lent.recipients,
            .connects = lent.connects == LIMIT_UNBOUNDED ? 0 : lent.connects,
        };
        limits_repay(lane->hold, &all, now);
    }
}

double lanes_rate(const struct lanes *l, struct slice site)
{
    const struct settings *s = settings_of(l->engine);
    const struct transport_sources *sources = &s->sources->transports[l->transport];
    double rate = 0;
    bool is_known = false;
    for (uint32_t i = 0; i < sources->count; i++) {
        const struct sched_lane_key key = {site, sources->given[i].id};
        const struct lane *lane = sched_lane_user(l->sched, key);
        is_known = is_known || lane != NULL;
        rate += lane != NULL && !lane->is_closed ? lane->per_second : 0;
    }
    return is_known ? rate : HUGE_VAL;
}

void lanes_return(const struct sched_action *a, usec_t now)
{
    const struct lane *lane = a->lane_user;
    const struct limit_units left = {a->loan->left.messages, a->loan->left.recipients,
                                     a->loan->left.connects};
    limits_repay(lane->hold, &left, now);
}

/* --- deliveries and connections --------------------------------------------------------------- */

static void drop_slot(struct lane_slot *slot, usec_t now)
{
    struct lane *lane = slot->lane;
    if (lane != NULL && slot->is_connected) {
        lane->connected--;
        limits_disconnected(lane->hold, now);
    } else if (lane != NULL) {
        limits_not_connected(lane->hold, now);
    }
    if (lane != NULL && --lane->slots == 0 && lane->is_gone) {
        free_lane(lane, now);
    }
    *slot = (struct lane_slot){.lane = NULL};
}

bool lanes_have_others(const struct sched_action *a)
{
    const struct lane *lane = a->lane_user;
    return a->connection_is_new && lane != NULL && lane->connected > 0;
}

void lanes_deliver(struct lanes *l, const struct sched_action *a, struct delivery *d, usec_t now)
{
    struct lane_slot *slot = &l->slots[a->connection];
    d->is_lent = a->lent_from != 0;
    d->sent_at = d->is_lent ? a->lent_from : now;
    if (!a->connection_is_new) {
        return;
    }
    drop_slot(slot, now); /* its end was heard of by the core alone */
    if (a->lane_user != NULL) {
        struct lane *lane = a->lane_user;
        lane->slots++;
        *slot = (struct lane_slot){.lane = lane, .sent_at = d->sent_at};
    }
}

void lanes_closed(struct lanes *l, uint32_t connection, usec_t now)
{
    drop_slot(&l->slots[connection], now);
}

/* The same for all transports. */
static uint64_t tenant_number(const struct delivery *d)
{
    struct slice tenant = d->message->envelope.tenant;
    return tenant.len == 0 ? 0 : hash_checksum(tenant.data, tenant.len);
}

/* What was lent for it, as no receiver had it. */
static void give_back(const struct lane *lane, const struct delivery *d, usec_t now)
{
    struct limit_units unsent = {.messages = 1};
    (void)sched_entry_indexes(d->entry, &unsent.recipients);
    limits_give_back(lane->hold, &unsent, d->sent_at, now, clock_wall());
}

/* MAILs that were let through: not the one that was taken, and then throttled at a recipient of it or
 * behind the content. */
static uint32_t passed_messages(const struct delivery *d)
{
    const struct refusal *f = d->is_refused ? d->request->refusal : NULL;
    bool is_throttled = f != NULL && f->class == REPLY_THROTTLED && f->scope == REPLY_MESSAGES &&
                        request_stage_of(f->verdict.stage) > REPLY_AT_MAIL;
    return d->taken_messages - (is_throttled && d->taken_messages > 0);
}

void lanes_heard(struct lanes *l, const struct delivery *d, usec_t now)
{
    struct lane_slot *slot = &l->slots[d->connection];
    if (slot->lane == NULL) {
        return;
    }
    if (d->depth > 0 && !slot->is_connected) {
        slot->is_connected = true;
        slot->lane->connected++;
        limits_connected(slot->lane->hold, slot->sent_at, now);
    }
    if (d->taken_messages > 0) {
        slot->messages += d->taken_messages;
    }
    if (passed_messages(d) > 0) {
        const struct limit_accepted a = {
            .messages = passed_messages(d),
            .recipients = d->taken_recipients,
            .session_messages = slot->messages,
            .tenant = tenant_number(d),
            .destination = d->destination,
            .sent_at = d->sent_at,
        };
        limits_accepted(slot->lane->hold, &a, now);
    } else if (d->is_lent && !d->is_refused) {
        give_back(slot->lane, d, now);
    }
}

void lanes_parted(struct lanes *l, const struct delivery *d, usec_t now)
{
    if (!d->connection_open && !d->connection_ends) {
        drop_slot(&l->slots[d->connection], now);
    }
}

/* Whether more than one entry is under way on the lane. */
static bool has_others_out(const struct lanes *l, const struct lane *lane)
{
    const struct sched_lane_key key = key_of(lane);
    struct sched_lane_view view;
    for (uint32_t i = 0; sched_view_lane(l->sched, key.site, i, &view); i++) {
        if (view.source == key.source) {
            return view.in_flight > 1;
        }
    }
    return false;
}

/* No receiver had anything to do with it. Where another source is left its lane is closed, and they
 * take its part; the last one goes on trying, and its mail waits for the retry schedule. */
static void own_failure(const struct lane *lane, const struct delivery *d,
                        const struct sched_others *others, usec_t now, struct limit_verdict *ret)
{
    if (d->is_lent) {
        give_back(lane, d, now);
    }
    if (others->has_any) {
        limits_source_failed(lane->hold, d->request->refusal->verdict.text, now);
    }
    if (others->has_untried) {
        ret->fate = LIMIT_FATE_OTHER_SOURCE;
    }
}

/* Whether others at the site would go on without the destination's limit. */
static bool may_stand_apart(const struct lanes *l, const struct lane *lane)
{
    struct slice site = slice_make(lane->site, lane->site_len);
    struct sched_site_view view;
    return receiver_is_by_hosts(site) && sched_view_site(l->sched, site, &view) &&
           view.destinations > 1;
}

/* The rule of a reply suspends mail of the message's tenant or campaign, at the site of the lane. */
static void suspend(const struct engine *e, const struct lane *lane, const struct delivery *d,
                    const struct limit_verdict *v)
{
    const struct refusal *f = d->request->refusal;
    struct suspension wanted = {
        .tenant = d->message->envelope.tenant,
        .site = slice_make(lane->site, lane->site_len),
        .destination = d->nexthop,
        .span = v->suspend_tenant,
        .rule = slice_of(f->rule),
        .text = f->verdict.text,
    };
    struct mailbox *clerk = e->boxes.clerks[0];
    if (v->suspend_tenant > 0 && wanted.tenant.len > 0) {
        suspensions_ask(e->suspensions, &wanted, clerk);
    }
    wanted.campaign = d->message->envelope.campaign;
    wanted.span = v->suspend_campaign;
    if (v->suspend_campaign > 0 && wanted.campaign.len > 0) {
        suspensions_ask(e->suspensions, &wanted, clerk);
    }
}

void lanes_refused(struct lanes *l, const struct delivery *d, usec_t now, struct limit_verdict *ret)
{
    const struct refusal *f = d->request->refusal;
    const struct sched_others others = sched_other_sources(
        l->sched, d->entry, source_table_whole(settings_of(l->engine)->sources, d->pool));
    struct lane_slot *slot = &l->slots[d->connection];
    const struct config *config = settings_of(l->engine)->config;
    *ret = (struct limit_verdict){.fate = LIMIT_FATE_CODE, .keeps_feedback = true};
    if (slot->lane == NULL) {
        return;
    }
    if (f->is_own) {
        own_failure(slot->lane, d, &others, now, ret);
        return;
    }
    char address[IP_TEXT_MAX] = "";
    if (f->ours.family != 0) {
        (void)ip_text(&f->ours, address);
    }
    const struct limit_refusal r = {
        .class = f->class,
        .scope = f->scope,
        .stage = request_stage_of(f->verdict.stage),
        .code = f->verdict.code,
        .text = f->verdict.text,
        .hint = f->hint,
        .rule = slice_of(f->rule),
        .actions = f->actions,
        .action_count = f->action_count,
        .address = slice_of(address),
        .destination = d->destination,
        .tenant = tenant_number(d),
        .message = d->message->envelope.id,
        .messages = 1,
        .recipients = request_held_count(d->request),
        .session_messages = slot->messages,
        .sent_at = d->sent_at,
        .first_blocked = d->message->retry.blocked,
        .has_others_out = has_others_out(l, slot->lane),
        .has_other_source = others.has_untried,
        .has_open_source = others.has_any,
        .must_charge = config_queue_lifetime(config, d->message->envelope.tenant,
                                             d->message->envelope.sender.len == 0) == 0,
        .may_stand_apart = may_stand_apart(l, slot->lane),
    };
    limits_refused(slot->lane->hold, &r, now, clock_wall(), ret);
    if (ret->suspend_tenant > 0 || ret->suspend_campaign > 0) {
        suspend(l->engine, slot->lane, d, ret);
    }
}
