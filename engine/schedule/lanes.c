/* See the header for who owns this; nothing here is shared but what limits.h guards. */
#include "engine/schedule/lanes.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS_MIN = 64, SWEPT_AT_ONCE = 8 };

struct lane {
    struct limits_hold *hold; /* NULL: there was no memory, or no room, for it */
    struct lane_group *group;
    uint32_t source;           /* id */
    uint32_t slots;            /* connections that have it */
    bool is_closed;            /* the core was told so */
    bool is_limited;           /* likewise */
    char address[IP_TEXT_MAX]; /* ours, as receivers see it; "": the system chooses */
};

/* The lanes of a site. */
struct lane_group {
    struct lane_group *next; /* in its chain */
    uint64_t hash;
    uint64_t serial; /* of the settings whose rules the lanes have */
    uint32_t lane_count;
    struct lane **lanes; /* [lane_count] */
    size_t key_len;
    char key[];
};

static void wake_owner(void *ctx)
{
    mailbox_wake(ctx);
}

int lanes_init(struct lanes *l, const struct lanes_config *config)
{
    const struct limits_borrower_config borrower = {
        .number = config->transport % LOAN_BORROWERS_MAX, .wake = wake_owner, .ctx = config->box};
    *l = (struct lanes){.engine = config->engine,
                        .sched = config->sched,
                        .transport = config->transport,
                        .seed = hash_random_seed()};
    l->chain_count = CHAINS_MIN;
    l->chains = calloc(l->chain_count, sizeof(struct lane_group *));
    l->borrower = limits_borrower_new(config->engine->limits, &borrower);
    int err =
        l->chains == NULL || l->borrower == NULL ? -ENOMEM : lanes_grow(l, config->slot_count);
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
    limits_release(lane->hold, now);
    free(lane);
}

static void free_group(struct lane_group *g, usec_t now)
{
    for (uint32_t i = 0; i < g->lane_count; i++) {
        free_lane(g->lanes[i], now);
    }
    free(g->lanes);
    free(g);
}

void lanes_fini(struct lanes *l)
{
    for (uint32_t i = 0; l->chains != NULL && i < l->chain_count; i++) {
        while (l->chains[i] != NULL) {
            struct lane_group *next = l->chains[i]->next;
            free_group(l->chains[i], 0);
            l->chains[i] = next;
        }
    }
    limits_borrower_free(l->borrower);
    free(l->chains);
    free(l->slots);
    *l = (struct lanes){0};
}

/* --- sites ------------------------------------------------------------------------------------ */

static struct lane_group *find_group(const struct lanes *l, struct slice key, uint64_t hash)
{
    struct lane_group *g = l->chains[hash % l->chain_count];
    while (g != NULL && (g->hash != hash || !slice_eq(slice_make(g->key, g->key_len), key))) {
        g = g->next;
    }
    return g;
}

/* More chains when there are as many sites; without memory they become longer. */
static void widen(struct lanes *l)
{
    uint32_t count = l->chain_count * 2;
    struct lane_group **chains =
        l->group_count < l->chain_count ? NULL : calloc(count, sizeof(struct lane_group *));
    if (chains == NULL) {
        return;
    }
    for (uint32_t i = 0; i < l->chain_count; i++) {
        while (l->chains[i] != NULL) {
            struct lane_group *g = l->chains[i];
            l->chains[i] = g->next;
            g->next = chains[g->hash % count];
            chains[g->hash % count] = g;
        }
    }
    free(l->chains);
    l->chains = chains;
    l->chain_count = count;
}

static struct lane_group *add_group(struct lanes *l, struct slice key, uint64_t hash)
{
    struct lane_group *g = calloc(1, sizeof(*g) + key.len);
    if (g == NULL) {
        return NULL;
    }
    g->hash = hash;
    g->key_len = key.len;
    memcpy(g->key, key.data, key.len);
    widen(l);
    g->next = l->chains[hash % l->chain_count];
    l->chains[hash % l->chain_count] = g;
    l->group_count++;
    return g;
}

static bool is_used(const struct lane_group *g)
{
    for (uint32_t i = 0; i < g->lane_count; i++) {
        if (g->lanes[i]->slots > 0) {
            return true;
        }
    }
    return false;
}

/* A group is kept while the core knows its site, or a connection of it is not over. */
static void sweep(struct lanes *l, usec_t now)
{
    struct sched_site_view view;
    for (int i = 0; i < SWEPT_AT_ONCE && l->group_count > 0; i++) {
        l->swept = (l->swept + 1) % l->chain_count;
        struct lane_group **at = &l->chains[l->swept];
        while (*at != NULL) {
            struct lane_group *g = *at;
            if (is_used(g) || sched_view_site(l->sched, slice_make(g->key, g->key_len), &view)) {
                at = &g->next;
                continue;
            }
            *at = g->next;
            l->group_count--;
            free_group(g, now);
        }
    }
}

/* --- rules ------------------------------------------------------------------------------------ */

static void fill_rules(const struct lanes_site *site, const struct config_egress_source *source,
                       struct limit_rules *ret)
{
    const struct config_limits *c = &site->policy->options.limits;
    *ret = (struct limit_rules){
        .serial = site->settings->serial,
        .lane = {.messages = c->max_message_rate,
                 .recipients = c->max_recipient_rate,
                 .connects = c->max_connection_rate,
                 .quota = c->max_message_quota},
        .site = {.messages = c->site_message_rate},
        .block_pause = c->block_pause,
        .block_grace = c->block_grace,
    };
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

static void hold_lane(struct lanes *l, struct lane *lane, const struct lanes_site *site,
                      const struct config_egress_source *source, usec_t now)
{
    char name_room[LIMITS_NAME_MAX], hosts_room[LIMITS_NAME_MAX];
    struct limit_rules rules;
    const struct limit_key key = {
        .source = source == NULL ? SLICE("") : slice_of(source->name),
        .site = short_name(site->name, name_room),
        .hosts = short_name(site->hosts, hosts_room),
    };
    fill_rules(site, source, &rules);
    if (lane->hold != NULL && limits_set_rules(lane->hold, &rules, now) != 0) {
        log_error("out of memory: the limits of a lane stay as they were");
    } else if (lane->hold == NULL &&
               limits_hold(l->borrower, &key, &rules, lane, now, &lane->hold) != 0) {
        lane->hold = NULL;
    }
    if (source != NULL && source->address.family != 0) {
        (void)ip_text(&source->address, lane->address);
    }
}

static struct lane *find_lane(const struct lane_group *g, uint32_t source)
{
    for (uint32_t i = 0; i < g->lane_count; i++) {
        if (g->lanes[i]->source == source) {
            return g->lanes[i];
        }
    }
    return NULL;
}

/* The lane of a source, made when it is missing. NULL: out of memory */
static struct lane *obtain_lane(struct lane_group *g, uint32_t source)
{
    struct lane *lane = find_lane(g, source);
    if (lane != NULL) {
        return lane;
    }
    lane = calloc(1, sizeof(*lane));
    struct lane **grown = realloc(g->lanes, (g->lane_count + 1) * sizeof(struct lane *));
    if (grown != NULL) {
        g->lanes = grown;
    }
    if (lane == NULL || grown == NULL) {
        free(lane);
        return NULL;
    }
    lane->group = g;
    lane->source = source;
    g->lanes[g->lane_count++] = lane;
    return lane;
}

void lanes_found(struct lanes *l, const struct lanes_site *site, usec_t now)
{
    const struct transport_sources *sources = &site->settings->sources->transports[l->transport];
    uint64_t hash = hash_bytes(site->key.data, site->key.len, l->seed);
    struct lane_group *g = find_group(l, site->key, hash);
    bool is_new = g == NULL;
    if (is_new) {
        g = add_group(l, site->key, hash);
    }
    if (g == NULL) {
        return;
    }
    for (uint32_t i = 0; i < sources->count; i++) {
        struct lane *lane = obtain_lane(g, sources->given[i].id);
        if (lane != NULL && (lane->hold == NULL || g->serial != site->settings->serial)) {
            hold_lane(l, lane, site, sources->sections[i], now);
        } else if (lane != NULL) {
            limits_tell_again(lane->hold); /* a destination that is new there has heard nothing */
        }
    }
    g->serial = site->settings->serial;
}

/* --- what the core is told -------------------------------------------------------------------- */

static struct sched_lane_key key_of(const struct lane *lane)
{
    return (struct sched_lane_key){slice_make(lane->group->key, lane->group->key_len),
                                   lane->source};
}

static struct sched_reason closed_reason(const struct limit_change *c)
{
    struct sched_reason reason = {.status = "4.7.1"};
    (void)snprintf(reason.text, sizeof(reason.text), "%s", c->reason);
    return reason;
}

static void tell_lane(struct lanes *l, struct lane *lane, const struct limit_change *c, usec_t now)
{
    if (c->state.is_closed) {
        const struct sched_reason reason = closed_reason(c);
        lane->is_closed = sched_lane_close(l->sched, key_of(lane), c->state.until, &reason, now);
    } else if (lane->is_closed) {
        lane->is_closed = !sched_lane_open(l->sched, key_of(lane), now);
    }
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
    sweep(l, now);
}

/* --- deliveries and connections --------------------------------------------------------------- */

static void drop_slot(struct lanes *l, struct lane_slot *slot, usec_t now)
{
    if (slot->lane != NULL) {
        slot->lane->slots--;
        if (slot->is_connected) {
            limits_disconnected(slot->lane->hold, now);
        } else {
            limits_not_connected(slot->lane->hold, now);
        }
    }
    *slot = (struct lane_slot){.lane = NULL};
}

void lanes_deliver(struct lanes *l, const struct sched_action *a, struct delivery *d, usec_t now)
{
    struct lane_slot *slot = &l->slots[a->connection];
    d->sent_at = now;
    if (!a->connection_is_new) {
        return;
    }
    drop_slot(l, slot, now); /* its end was heard of by the core alone */
    struct slice key = sched_destination_site(a->destination);
    struct lane_group *g = find_group(l, key, hash_bytes(key.data, key.len, l->seed));
    struct lane *lane = g == NULL ? NULL : find_lane(g, a->source);
    if (lane != NULL && lane->hold != NULL) {
        lane->slots++;
        *slot = (struct lane_slot){.lane = lane, .sent_at = d->sent_at};
    }
}

void lanes_closed(struct lanes *l, uint32_t connection, usec_t now)
{
    drop_slot(l, &l->slots[connection], now);
}

/* The same for all transports. */
static uint64_t tenant_number(const struct delivery *d)
{
    struct slice tenant = d->message->envelope.tenant;
    return tenant.len == 0 ? 0 : hash_checksum(tenant.data, tenant.len);
}

void lanes_reported(struct lanes *l, const struct delivery *d, usec_t now)
{
    struct lane_slot *slot = &l->slots[d->connection];
    if (slot->lane == NULL) {
        return;
    }
    if (d->depth > 0 && !slot->is_connected) {
        slot->is_connected = true;
        limits_connected(slot->lane->hold, slot->sent_at, now);
    }
    if (d->taken_messages > 0) {
        slot->messages += d->taken_messages;
        const struct limit_accepted a = {
            .messages = d->taken_messages,
            .recipients = d->taken_recipients,
            .session_messages = slot->messages,
            .tenant = tenant_number(d),
            .destination = d->destination,
            .sent_at = d->sent_at,
        };
        limits_accepted(slot->lane->hold, &a, now);
    }
    if (!d->connection_open && !d->connection_ends) {
        drop_slot(l, slot, now); /* no connection was made */
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
        .address = slice_of(slot->lane->address),
        .destination = d->destination,
        .tenant = tenant_number(d),
        .message = d->message->envelope.id,
        .messages = 1,
        .recipients = request_held_count(d->request),
        .session_messages = slot->messages,
        .sent_at = d->sent_at,
        .first_blocked = d->message->retry.blocked,
        .has_other_source = others.has_untried,
        .has_open_source = others.has_any,
        .must_charge = config->maximal_queue_lifetime == 0,
    };
    limits_refused(slot->lane->hold, &r, now, clock_wall(), ret);
}
