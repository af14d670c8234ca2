/* What the files of the flight recorder share with each other; nobody else includes it.
 * flight_recorder.c records, flight_reading.c makes copies for readers. */
#ifndef ENGINE_FLIGHT_RECORDER_PRIVATE_H
#define ENGINE_FLIGHT_RECORDER_PRIVATE_H

#include "engine/trace/flight_recorder.h"

enum { FLIGHT_BUCKETS = 1024 };

struct flight_destination {
    struct flight_destination *next; /* of the bucket */
    uint64_t hash;
    struct list attached, kept; /* struct flight, oldest first: those that began with its mail */
    struct list guests;         /* flight_guest.of_destination, oldest first: in those of others */
    uint32_t kept_count;
    struct list rank; /* in recorder.ranks[kept_count], while that is not 0 */
    usec_t read_at;   /* monotonic; 0: never */
    uint32_t missed_sessions, missed_lines;
    uint16_t transport;
    uint16_t name_len;
    char name[];
};

struct flight_recorder {
    size_t budget, left; /* bytes */
    uint64_t seed;
    struct list ranks[FLIGHT_KEPT_MAX + 2]; /* by kept_count; the one that was added to last stands
                                             * last */
    struct list idle;                       /* the longest idle first */
    uint32_t idle_count;
    struct flight_destination *buckets[FLIGHT_BUCKETS];
};

/* Mail of a destination in a session that began with another one's. */
struct flight_guest {
    struct list of_flight, of_destination;
    struct flight *flight;
    struct flight_destination *to;
};

/* NULL: nothing is recorded of it. */
struct flight_destination *flight_destination_find(const struct flight_recorder *r,
                                                   uint16_t transport, struct slice name);
/* A copy without secrets and guests. NULL: out of memory or budget */
struct flight *flight_copy(const struct flight *f, size_t *budget);
/* Of one that has no guests. */
void flight_free(struct flight *f);

#endif
