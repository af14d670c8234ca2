/* A node's log, as its writer and its readers understand it. Pure: events in, values out; the bytes of
 * frames and the way to the servers are the caller's.
 *
 * The log is a stream of frames that numbers them (sequence 1, 2, ...) and stores one only if it was
 * sent for the place behind the last ("expected last sequence"). A writer has up to
 * LOG_IN_FLIGHT_MAX frames under way. Who takes a log over, and the node itself at each start,
 * puts a fence: a frame like any other, of the next epoch. It takes one place, so the old writer's frame for that place is refused, but its
 * next one fits behind the fence and is stored. Therefore what the server says of one frame means
 * nothing alone. Both sides go by the same rules:
 *
 *   - A frame has the epoch of its writer and a serial: the fence has serial 0, then 1, 2, ...
 *   - A frame counts if its epoch is that of the last fence and its serial is the next one of it.
 *     Everything else is void, for all readers alike (struct log_reader).
 *   - Acknowledged is what lies in the contiguous prefix of which the writer knows every place: a
 *     frame that the server stored in the first unknown place, or that was found there.
 *   - After a refusal, or when an answer does not come, the writer sends nothing new and looks at
 *     the first unknown place. It finds itself, and goes on; a higher epoch, and is fenced; a void
 *     frame, which its own frames move behind; or nothing, and sends the same bytes again.
 *
 * One owner at a time. tests/sim/log_random is the proof by trial, also that acknowledging by the
 * server's word alone is found out. */
#ifndef ENGINE_LOG_PREFIX_H
#define ENGINE_LOG_PREFIX_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

#define LOG_IN_FLIGHT_MAX 4

/* What a frame says of itself. */
struct log_frame_id {
    uint64_t epoch;  /* of its writer, at least 1 */
    uint64_t serial; /* 0: the fence with which the epoch begins */
};

enum log_mode {
    LOG_WRITING,
    LOG_LOOKING, /* the place behind the prefix is to be read: log_prefix_found or _nothing */
    LOG_FENCED,  /* somebody else has the log: nothing is acknowledged any more */
    LOG_MODE_COUNT
};

/* The writer's side. Frames with serials acknowledged + 1 .. sent are under way, for the places
 * prefix + 1 and so on, in this order. */
struct log_prefix {
    enum log_mode mode;
    uint64_t epoch;
    uint64_t prefix;       /* sequence: up to here it knows what lies in each place */
    uint64_t acknowledged; /* serial: up to here all own frames lie in the prefix */
    uint64_t sent;         /* serial of the newest frame */
    uint64_t valid;        /* sequence of the newest frame that counts */
    unsigned stored;       /* bit i: the server stored the frame for prefix + 1 + i in its place */
};

/* The fence of `epoch` was stored at this sequence, by compare-and-set behind all that was read. */
void log_prefix_init(struct log_prefix *p, uint64_t epoch, uint64_t fence);

/* Begin another frame; the caller keeps its bytes until it is acknowledged.
 *
 * ret_serial  its serial; log_prefix_place says for which place to send it
 * returns     false while four are under way, while looking, and when fenced */
MUST_USE bool log_prefix_next(struct log_prefix *p, uint64_t *ret_serial);

/* The place for which a frame under way is sent now; expected last sequence is one less.
 *
 * serial  acknowledged + 1 .. sent */
uint64_t log_prefix_place(const struct log_prefix *p, uint64_t serial);

/* The server stored the frame in this place. Answers may come in any order, late, or twice. */
void log_prefix_stored(struct log_prefix *p, uint64_t serial, uint64_t place);

/* The server refused a frame that was sent for this place. When it was sent for another place since,
 * this means nothing. */
void log_prefix_refused(struct log_prefix *p, uint64_t serial, uint64_t place);

/* An answer did not come in time, or the connection was lost. */
void log_prefix_doubt(struct log_prefix *p);

/* LOOKING: this lies in `place`, which was prefix + 1 when it was asked for. */
void log_prefix_found(struct log_prefix *p, uint64_t place, const struct log_frame_id *id);

/* LOOKING: the leader has nothing in that place, and `last` is the sequence of its last frame. When
 * the mode is LOG_WRITING then, all frames under way are to be sent again: the same bytes, each for
 * its log_prefix_place of now. */
void log_prefix_nothing(struct log_prefix *p, uint64_t place, uint64_t last);

/* The stream is not there any more, or has lost what was acknowledged. */
void log_prefix_vanished(struct log_prefix *p);

/* Up to which sequence the log may be purged, so that a reader who begins behind it still tells
 * what counts: the first frame that it meets is one that does.
 *
 * oldest_live  sequence of the oldest frame with mail that is still queued; 0: there is none */
uint64_t log_prefix_purge(const struct log_prefix *p, uint64_t oldest_live);

enum log_verdict {
    LOG_COUNTS,
    LOG_FENCE, /* another epoch begins */
    LOG_VOID,
    LOG_VERDICT_COUNT
};

/* The reader's side. All zero: nothing read. */
struct log_reader {
    uint64_t epoch; /* of the last fence; 0: nothing read */
    uint64_t next;  /* serial that counts next */
};

/* Frames of the stream in their order, from the first that it still has. */
enum log_verdict log_reader_take(struct log_reader *r, const struct log_frame_id *id);

#endif
