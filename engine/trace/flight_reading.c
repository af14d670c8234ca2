/* Copies of recorded sessions, for readers. Owns nothing: changes of what is recorded only when a
 * destination was read, and what its reader has missed. */
#include "engine/trace/flight_recorder_private.h"

enum {
    WALK_MAX = 1000,              /* sessions looked at in one reading */
    FORGOTTEN = 10 * 1000 * 1000, /* usec: a reader that asked nothing for so long does not
                                   * follow any more */
};

void flight_reading_init(struct flight_reading *r, size_t budget)
{
    *r = (struct flight_reading){.budget = budget};
    list_init(&r->flights);
}

void flight_reading_fini(struct flight_reading *r)
{
    while (r->flights.next != NULL && !list_is_empty(&r->flights)) {
        flight_free(list_first(&r->flights, struct flight, link));
    }
}

/* returns false when no more may be read. walked: sessions passed over so far */
static bool read_one(const struct flight *f, const struct flight_filter *filter, int *walked,
                     struct flight_reading *ret)
{
    if (f->dialogue.changed < filter->after || (filter->failed_only && !f->is_failed)) {
        return ++*walked < WALK_MAX;
    }
    struct flight *copy = ret->count < filter->limit ? flight_copy(f, &ret->budget) : NULL;
    if (copy == NULL) {
        return false;
    }
    list_push_front(&ret->flights, &copy->link);
    ret->count++;
    return true;
}

/* The newest first. returns false when no more may be read */
static bool read_list(const struct list *flights, const struct flight_filter *filter,
                      struct flight_reading *ret)
{
    int walked = 0;
    for (struct list *l = flights->prev; l != flights; l = l->prev) {
        if (!read_one(container_of(l, const struct flight, link), filter, &walked, ret)) {
            return false;
        }
    }
    return true;
}

/* The same for sessions that began with mail of others. */
static bool read_guests(const struct list *guests, const struct flight_filter *filter,
                        struct flight_reading *ret)
{
    int walked = 0;
    for (struct list *l = guests->prev; l != guests; l = l->prev) {
        const struct flight_guest *g = container_of(l, const struct flight_guest, of_destination);
        if (!read_one(g->flight, filter, &walked, ret)) {
            return false;
        }
    }
    return true;
}

void flight_read(struct flight_recorder *r, uint16_t transport, struct slice destination,
                 const struct flight_filter *filter, usec_t now, struct flight_reading *ret)
{
    struct flight_destination *to = flight_destination_find(r, transport, destination);
    if (to == NULL) {
        return;
    }
    if (filter->after != 0 && to->read_at != 0 && now - to->read_at < FORGOTTEN) {
        ret->missed_sessions += to->missed_sessions;
        ret->missed_lines += to->missed_lines;
    }
    to->read_at = now;
    to->missed_sessions = to->missed_lines = 0;
    if (!read_list(&to->attached, filter, ret) || !read_list(&to->kept, filter, ret) ||
        !read_guests(&to->guests, filter, ret)) {
        ret->has_more = true;
    }
}
