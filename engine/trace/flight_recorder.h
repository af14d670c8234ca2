/* The last sessions with every destination, as far as a budget of memory reaches: those under way,
 * and of those that are over the last four and the last two in which something failed. One for each
 * worker, for the connections that it owns.
 *
 * Concurrency: all of it is the worker's alone, and no delivery ever waits for a reader. Who wants
 * to read asks the worker by a letter (trace_question.h) and gets copies, which nobody changes.
 *
 * A connection records through a pointer of its own, which is NULL while nothing is recorded: the
 * recorder takes it away when the connection has been idle for longer than others, so that
 * thousands of idle connections cost no more than a few sessions each destination. What the
 * connection carries later begins a session of its own.
 *
 * When the budget ends, the destination with the most finished sessions gives its oldest one, among
 * equals the one that ended a session the longest ago; when there is none left, an idle one goes,
 * and then lines are left out. */
#ifndef ENGINE_FLIGHT_RECORDER_H
#define ENGINE_FLIGHT_RECORDER_H

#include "base/attr.h"
#include "base/list.h"
#include "engine/trace/dialogue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLIGHT_LAST     4 /* finished sessions kept for each destination */
#define FLIGHT_FAILED   2 /* of those with a failure, at least so many */
#define FLIGHT_KEPT_MAX (FLIGHT_LAST + FLIGHT_FAILED)
#define FLIGHT_WHY_MAX  300 /* bytes of the text of a failure */

struct flight_destination;
struct flight_recorder;
struct smtp_client_config;

/* One session. */
struct flight {
    struct list link;   /* among the destination's, oldest first */
    struct list idle;   /* linked while its connection is idle */
    struct list guests; /* other destinations whose mail it carried; none in a copy */
    uint32_t guest_count;
    uint64_t *guest_hashes; /* of the latest guests, in turn; NULL: none, or it is over. Looked
                             * through at each delivery, so they stand together */
    uint32_t next_hash;
    struct flight_destination *to; /* NULL in a copy */
    struct flight **slot;          /* the connection's pointer to it; NULL: kept, or a copy */
    uint64_t session;
    usec_t started;    /* wall */
    usec_t ended;      /* wall; 0: not yet, or nobody looked any more */
    uint32_t messages; /* taken by the server */
    uint16_t transport;
    bool is_open; /* recorded at the time of reading */
    bool is_failed;
    bool is_excerpt; /* the session went on; this is how it looked when something had failed */
    const struct smtp_client_config *auth; /* with secrets that the server may repeat, or NULL */
    char *why;                             /* of the last failure; NULL: none */
    struct dialogue dialogue;
    const char *host, *address, *source; /* behind the struct; "" without a source */
};

struct flight_names {
    uint16_t transport;
    struct slice destination; /* whose mail it begins with */
    struct slice host, address, source;
};

/* NULL when out of memory. budget: bytes for all that is recorded */
struct flight_recorder *flight_recorder_new(size_t budget, uint64_t seed);
void flight_recorder_free(struct flight_recorder *r); /* accepts NULL; no connection is left */

/* Another budget. What is recorded beyond a smaller one goes at once, except of sessions under way:
 * then the budget is not yet reached when this returns, and it has to be called again. */
void flight_recorder_set_budget(struct flight_recorder *r, size_t budget);
/* Begin a session in *slot, which is NULL; it stays NULL where the budget or memory ends.
 *
 * slot     stays where it is until flight_end
 * now      monotonic, as in all calls */
void flight_begin(struct flight_recorder *r, struct flight **slot, const struct flight_names *names,
                  uint64_t session, usec_t now);
/* Mail of this destination is about to go over its connection. */
void flight_carry(struct flight_recorder *r, struct flight *f, struct slice destination);
/* Make room for so many bytes; called by flight_append. */
void flight_make_room(struct flight_recorder *r, struct flight *f, size_t bytes);
/* All of these accept f NULL and do nothing then. */
static inline void flight_append(struct flight_recorder *r, struct flight *f,
                                 enum dialogue_kind kind, struct slice piece, usec_t now)
{
    if (f != NULL) {
        if (dialogue_is_full(&f->dialogue, piece.len)) {
            flight_make_room(r, f, piece.len);
        }
        dialogue_append(&f->dialogue, kind, piece, now);
    }
}
void flight_body(struct flight_recorder *r, struct flight *f, uint64_t id, uint64_t size_bytes,
                 usec_t now);
void flight_auth(struct flight_recorder *r, struct flight *f, struct slice commands, usec_t now);
/* What was recorded last failed. */
void flight_fail(struct flight_recorder *r, struct flight *f, struct slice why);
/* Nothing is under way on the connection, or something is again. *slot may be NULL afterwards. */
void flight_rest(struct flight_recorder *r, struct flight *f);
void flight_resume(struct flight_recorder *r, struct flight *f);
/* The connection is gone: the session is kept, and its slot NULL. */
void flight_end(struct flight_recorder *r, struct flight *f);

struct flight_filter {
    usec_t after; /* monotonic: only those with something recorded since then; 0: all */
    bool failed_only;
    uint32_t limit; /* sessions, the newest ones */
};

struct flight_reading {
    struct list flights; /* struct flight, copies; flight_free each */
    size_t budget;       /* bytes that copies may take: set by the caller, stays where it is */
    uint32_t count;
    bool has_more;            /* the limit or the budget did not reach for all */
    uint32_t missed_sessions; /* since the last reading, gone before anybody could read them */
    uint32_t missed_lines;
};

/* Copy sessions that carried mail of the destination into ret, which is initialised (flight_reading_init). */
void flight_read(struct flight_recorder *r, uint16_t transport, struct slice destination,
                 const struct flight_filter *filter, usec_t now, struct flight_reading *ret);
void flight_reading_init(struct flight_reading *r, size_t budget);
void flight_reading_fini(struct flight_reading *r); /* accepts a zeroed one */

/* Bytes of the budget that are in use. */
size_t flight_recorder_bytes(const struct flight_recorder *r);

#endif
