/* The clients of a receiver: found by address, limited, counted. Called by the sessions of all
 * workers; the report reads under the lock. */
#include "bench/sink/sink_client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM    64
#define INTERVALS_MAX 1000000 /* whatever happens after so many intervals counts for the last one */

int sink_clients_init(struct sink_clients *t, usec_t start, usec_t interval)
{
    *t = (struct sink_clients){.start = start, .interval = interval};
    return -pthread_mutex_init(&t->lock, NULL);
}

void sink_clients_fini(struct sink_clients *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->items[i]->course);
        free(t->items[i]);
    }
    free(t->items);
    (void)pthread_mutex_destroy(&t->lock);
    t->items = NULL;
    t->count = 0;
}

static NONNULL_RET void *must_have(void *memory)
{
    if (memory == NULL) {
        abort(); /* a limit that is not kept falsifies the measurement */
    }
    return memory;
}

/* As endpoint_key says: an IPv4 address stands behind twelve zero bytes. ::1 would too, but 0.0.0.1
 * is nobody's address. */
static void set_name(struct sink_client *c)
{
    static const uint8_t zeroes[12];
    static const uint8_t loopback[16] = {[15] = 1};
    bool is_ipv4 = memcmp(c->address, zeroes, sizeof(zeroes)) == 0 &&
                   memcmp(c->address, loopback, sizeof(loopback)) != 0;
    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, c->address + (is_ipv4 ? sizeof(zeroes) : 0),
                    c->name, sizeof(c->name));
}

static struct sink_client *add(struct sink_clients *t, const uint8_t address[16],
                               const struct behaviour *behaviour)
{
    struct sink_client *c = must_have(calloc(1, sizeof(*c)));
    t->items = must_have(realloc(t->items, (t->count + 1) * sizeof(struct sink_client *)));
    memcpy(c->address, address, sizeof(c->address));
    c->behaviour = behaviour;
    set_name(c);
    t->items[t->count++] = c;
    return c;
}

struct sink_client *sink_clients_find(struct sink_clients *t, const uint8_t address[16],
                                      const struct behaviour *behaviour)
{
    struct sink_client *found = NULL;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->count && found == NULL; i++) {
        if (memcmp(t->items[i]->address, address, sizeof(t->items[i]->address)) == 0) {
            found = t->items[i];
        }
    }
    if (found == NULL) {
        found = t->count < SINK_CLIENTS_MAX ? add(t, address, behaviour) : t->items[t->count - 1];
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

bool sink_clients_take(struct sink_clients *t, struct sink_client *c, enum sink_bucket bucket,
                       const struct rate_plan *plan, usec_t now)
{
    if (plan->count == 0) {
        return true;
    }
    pthread_mutex_lock(&t->lock);
    if (t->begin == 0) {
        t->begin = now;
        t->begin_wall = clock_wall();
    }
    bool is_there = rate_plan_take(&c->buckets[bucket], plan, t->begin, now);
    pthread_mutex_unlock(&t->lock);
    return is_there;
}

/* The counters of an interval; all before it exist too. */
static uint32_t *course_at(struct sink_clients *t, struct sink_client *c, usec_t wall)
{
    usec_t since = wall > t->start ? (wall - t->start) / t->interval : 0;
    size_t index = since < INTERVALS_MAX ? (size_t)since : INTERVALS_MAX - 1;
    if (index >= c->room) {
        size_t room = c->room == 0 ? FIRST_ROOM : c->room;
        while (room <= index) {
            room *= 2;
        }
        c->course = must_have(realloc(c->course, room * sizeof(*c->course)));
        memset(c->course + c->room, 0, (room - c->room) * sizeof(*c->course));
        c->room = room;
    }
    return c->course[index];
}

void sink_clients_count(struct sink_clients *t, struct sink_client *c, enum sink_happening what,
                        uint64_t count, usec_t wall)
{
    pthread_mutex_lock(&t->lock);
    c->totals[what] += count;
    if (t->interval > 0) {
        course_at(t, c, wall)[what] += (uint32_t)count;
    }
    pthread_mutex_unlock(&t->lock);
}
