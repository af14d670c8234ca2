/* Sources that entries have tried, see sched/place/source_tried.h. Called by the report path and by
 * placement. */
#include "sched/place/source_tried.h"

#include "sched/transport.h"

#include <assert.h>
#include <string.h>

#define RECORDS_LEAST 16
#define ALL_TRIED     UINT32_MAX /* the number of an entry for which there was no memory */

struct source_record {
    uint64_t mask;
    uint32_t next_free;
};

void source_tried_fini(struct sched *s)
{
    assert(s->tried_sources.used == 0);
    if (s->tried_sources.at != NULL) {
        s->host.release(s->host.ctx, s->tried_sources.at);
    }
    s->tried_sources = (struct source_records){0};
}

uint64_t source_tried(const struct sched *s, const struct sched_entry *e)
{
    uint32_t number = e->place.note;
    if (number == 0) {
        return 0;
    }
    return number == ALL_TRIED ? UINT64_MAX : s->tried_sources.at[number - 1].mask;
}

static bool grow(struct sched *s)
{
    struct source_records *r = &s->tried_sources;
    uint32_t capacity = r->capacity == 0 ? RECORDS_LEAST : 2 * r->capacity;
    struct source_record *at = s->host.alloc(s->host.ctx, capacity * sizeof(*at));
    if (at == NULL) {
        return false;
    }
    if (r->at != NULL) {
        memcpy(at, r->at, r->capacity * sizeof(*at));
        s->host.release(s->host.ctx, r->at);
    }
    for (uint32_t i = r->capacity; i < capacity; i++) {
        at[i] = (struct source_record){.next_free = i + 1 < capacity ? i + 2 : r->first_free};
    }
    r->first_free = r->capacity + 1;
    r->at = at;
    r->capacity = capacity;
    return true;
}

void source_tried_add(struct sched *s, struct sched_entry *e, uint32_t place)
{
    struct source_records *r = &s->tried_sources;
    if (e->place.note == 0) {
        if (r->first_free == 0 && !grow(s)) {
            e->place.note = ALL_TRIED;
            return;
        }
        e->place.note = r->first_free;
        r->first_free = r->at[e->place.note - 1].next_free;
        r->at[e->place.note - 1].mask = 0;
        r->used++;
    }
    if (e->place.note != ALL_TRIED) {
        r->at[e->place.note - 1].mask |= source_bit(place);
    }
}

void source_tried_forget(struct sched *s, struct sched_entry *e)
{
    struct source_records *r = &s->tried_sources;
    uint32_t number = e->place.note;
    e->place.note = 0;
    if (number != 0 && number != ALL_TRIED) {
        r->at[number - 1].next_free = r->first_free;
        r->first_free = number;
        r->used--;
    }
}
