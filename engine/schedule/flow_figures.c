/* Called by reports of tenants and metrics, on a clerk's thread. */
#include "engine/schedule/flow_figures.h"

#include "engine/activator/activator.h"
#include "engine/activator/flow_names.h"
#include "engine/config/config.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The place where the number is, or belongs. */
static uint32_t place_of(const struct flow_figures *f, uint32_t number)
{
    uint32_t low = 0, high = f->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (f->list[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* NULL: no memory */
static struct flow_figure *obtain_figure(struct flow_figures *f, uint32_t number)
{
    uint32_t place = place_of(f, number);
    if (place < f->count && f->list[place].number == number) {
        return &f->list[place];
    }
    if (f->count == f->capacity) {
        uint32_t capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
        struct flow_figure *grown = realloc(f->list, capacity * sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        f->list = grown;
        f->capacity = capacity;
    }
    memmove(&f->list[place + 1], &f->list[place], (f->count - place) * sizeof(*f->list));
    f->count++;
    f->list[place] = (struct flow_figure){.number = number};
    return &f->list[place];
}

/* errors: -ENOMEM */
static int add_core(struct flow_figures *f, const struct sched *core, usec_t now)
{
    struct sched_flow_view v;
    uint64_t cursor = 0;
    while (sched_view_flows(core, &cursor, &v)) {
        struct flow_figure *one = v.jobs + v.held > 0 ? obtain_figure(f, v.key.tenant) : NULL;
        if (one == NULL && v.jobs + v.held > 0) {
            return -ENOMEM;
        }
        if (one != NULL) {
            one->weight = v.weight > one->weight ? v.weight : one->weight;
            one->held += v.held;
            one->recipients += v.recipients;
            one->waiting += v.waiting;
            usec_t wait = v.waiting > 0 && v.oldest > 0 && now > v.oldest ? now - v.oldest : 0;
            one->longest = wait > one->longest ? wait : one->longest;
            usec_t *of_class = &f->longest[v.key.class];
            *of_class = wait > *of_class ? wait : *of_class;
        }
    }
    return 0;
}

int flow_figures_take(const struct engine *e, struct flow_figures *ret)
{
    const uint32_t transports = (uint32_t)settings_of(e)->config->transport_count;
    usec_t now = clock_mono();
    int err = 0;
    *ret = (struct flow_figures){.count = 0};
    for (uint32_t t = 0; t < transports && err == 0; t++) {
        const struct sched *core = sched_thread_core(e->scheds[t % e->sched_count], t);
        err = core == NULL ? 0 : add_core(ret, core, now);
    }
    if (err != 0) {
        flow_figures_fini(ret);
    }
    for (uint32_t i = 0; i < ret->count; i++) {
        struct label name;
        if (flow_names_tenant(activator_flow_names(e->activator), ret->list[i].number, &name)) {
            ret->list[i].name = name; /* else its last message has just gone */
        }
    }
    return err;
}

void flow_figures_fini(struct flow_figures *f)
{
    free(f->list);
    *f = (struct flow_figures){.count = 0};
}

const struct flow_figure *flow_figures_of(const struct flow_figures *f, struct slice tenant)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const struct flow_figure *one = &f->list[i];
        if (slice_ieq(label_slice(&one->name), tenant) && (one->number == 0 || one->name.len > 0)) {
            return one;
        }
    }
    return NULL;
}
