#include "bench/sim/sim_relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART 5000 /* recipients that the core takes at once */

struct sim_flight {
    struct sim_event end;
    struct sim_relay *relay;
    struct sched_entry *entry;
    struct sim_mail *mail;
    struct sim_flight *next; /* unused */
    uint32_t destination;
};

static void *allocate_relay_memory(void *ctx, size_t size)
{
    return malloc(size);
}

static void release_relay_memory(void *ctx, void *obj)
{
    free(obj);
}

static void release_relay_hosts(void *ctx, void *hosts)
{
}

static void *relay_must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static uint32_t destination_of(const struct sim_relay *r, const struct sim_mail *m, uint32_t index)
{
    return (m->destination + index % m->spread) % r->options.destinations;
}

/* Its next recipients. */
static struct sched_message next_relay_part(struct sim_relay *r, struct sim_mail *m, uint32_t limit,
                                            struct sched_recipient *room)
{
    uint32_t left = m->recipients - m->read, count = left < limit ? left : limit;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = r->names[destination_of(r, m, m->read + i)];
        room[i] = (struct sched_recipient){
            .address = SLICE("u@x"), .nexthop = slice_of(name), .index = m->read + i};
    }
    m->read += count;
    return (struct sched_message){.id = m->id,
                                  .handle = m,
                                  .recipients = room,
                                  .recipient_count = count,
                                  .unread_count = left - count,
                                  .more = left > count,
                                  .flow = m->flow,
                                  .weight = m->weight};
}

static void work(struct sim_relay *r);

static void end_flight(struct sim_event *e)
{
    struct sim_flight *f = container_of(e, struct sim_flight, end);
    struct sim_relay *r = f->relay;
    const struct sched_outcome done = {
        .entry = f->entry, .feedback = SCHED_POSITIVE, .connection_open = true};
    if (r->options.delivered != NULL) {
        r->options.delivered(r, f->mail, f->destination);
    }
    f->next = r->unused;
    r->unused = f;
    sched_report(r->sched, &done, r->world->now);
    work(r);
}

static void begin_flight(struct sim_relay *r, const struct sched_action *a)
{
    struct sim_flight *f = r->unused;
    uint32_t count;
    r->unused = f->next;
    f->entry = a->entry;
    f->mail = a->handle;
    f->destination = destination_of(r, f->mail, sched_entry_indexes(a->entry, &count)[0]);
    r->selections++;
    if (r->options.selected != NULL) {
        r->options.selected(r, f->mail, f->destination);
    }
    sim_after(r->world, &f->end, sim_between(r->world, r->options.delivery[f->destination]));
}

static void free_mail(struct sim_relay *r, struct sim_mail *m)
{
    list_remove(&m->in_relay);
    r->waiting--;
    free(m);
}

static void act_relay(struct sim_relay *r, const struct sched_action *a)
{
    static struct sched_recipient room[PART];
    if (a->kind == SCHED_DELIVER) {
        begin_flight(r, a);
    } else if (a->kind == SCHED_READ) {
        uint32_t wanted = a->wanted < PART ? a->wanted : PART;
        const struct sched_message part = next_relay_part(r, a->handle, wanted, room);
        if (sched_submit_more(r->sched, &part, r->world->now) != 0) {
            abort();
        }
    } else if (a->kind == SCHED_FINISHED) {
        free_mail(r, a->handle);
    }
}

/* Idle connections, and windows that open, are all that the core waits for by itself. */
static void work(struct sim_relay *r)
{
    struct sched_action a;
    if (r->is_working) {
        return; /* submitted by one that was told of a delivery */
    }
    r->is_working = true;
    while (sched_pull(r->sched, &a, r->world->now)) {
        act_relay(r, &a);
    }
    r->is_working = false;
    usec_t at = sched_wake_at(r->sched);
    if (at == USEC_NEVER) {
        sim_cancel(r->world, &r->wake);
    } else {
        sim_at(r->world, &r->wake, at < r->world->now ? r->world->now : at);
    }
}

static void wake_relay(struct sim_event *e)
{
    work(container_of(e, struct sim_relay, wake));
}

void sim_relay_defaults(struct sim_relay_options *o)
{
    *o = (struct sim_relay_options){0};
    sched_config_defaults(&o->config);
    o->config.recipient_limit = o->config.message_recipient_limit = 2000000;
    o->config.connection_idle_limit = USEC_PER_SEC;
}

void sim_relay_init(struct sim_relay *r, struct sim_world *w, const struct sim_relay_options *o)
{
    static const struct sched_host host = {allocate_relay_memory, release_relay_memory,
                                           release_relay_memory, NULL};
    *r = (struct sim_relay){.options = *o, .world = w, .next_id = 1};
    r->wake.happen = wake_relay;
    list_init(&r->mail);
    r->names = relay_must(calloc(o->destinations, sizeof(*r->names)));
    for (uint32_t i = 0; i < o->destinations; i++) {
        (void)snprintf(r->names[i], sizeof(r->names[i]), "d%u", i);
    }
    r->flights = relay_must(calloc((size_t)o->config.process_limit, sizeof(*r->flights)));
    for (int i = 0; i < o->config.process_limit; i++) {
        struct sim_flight *f = &r->flights[i];
        f->relay = r;
        f->end.happen = end_flight;
        f->next = r->unused;
        r->unused = f;
    }
    r->sched = relay_must(sched_new(&o->config, &host, release_relay_hosts, w->now));
}

void sim_relay_fini(struct sim_relay *r)
{
    r->is_working = true; /* nothing is selected any more */
    r->options.delivered = NULL;
    for (int i = 0; i < r->options.config.process_limit; i++) {
        if (r->flights[i].end.node.position != 0) {
            sim_cancel(r->world, &r->flights[i].end);
            end_flight(&r->flights[i].end);
        }
    }
    sim_cancel(r->world, &r->wake);
    sched_free(r->sched);
    list_foreach_safe(m, &r->mail, struct sim_mail, in_relay)
    {
        free_mail(r, m);
    }
    free(r->flights);
    free(r->names);
}

void sim_relay_submit(struct sim_relay *r, const struct sim_mail *m)
{
    static struct sched_recipient room[PART];
    struct sim_mail *copy = relay_must(malloc(sizeof(*copy)));
    *copy = *m;
    copy->queued = r->world->now;
    copy->id = r->next_id++;
    copy->read = 0;
    list_init(&copy->in_relay);
    list_push_back(&r->mail, &copy->in_relay);
    uint32_t limit = sched_read_limit(r->sched);
    const struct sched_message first = next_relay_part(r, copy, limit < PART ? limit : PART, room);
    if (sched_submit(r->sched, &first, r->world->now) != 0) {
        abort();
    }
    r->waiting++;
    work(r);
}
