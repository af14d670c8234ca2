/* The contiguous prefix of a node's log, and which of its frames count.
 * Called by the thread that writes the log, by who replays one, and by models. It must not know what a
 * frame holds. */
#include "engine/cluster/log_prefix.h"

#include <assert.h>

void log_prefix_init(struct log_prefix *p, uint64_t epoch, uint64_t fence)
{
    assert(epoch > 0 && fence > 0);
    *p = (struct log_prefix){.epoch = epoch, .prefix = fence, .valid = fence};
}

bool log_prefix_next(struct log_prefix *p, uint64_t *ret_serial)
{
    if (p->mode != LOG_WRITING || p->sent - p->acknowledged == LOG_IN_FLIGHT_MAX) {
        return false;
    }
    *ret_serial = ++p->sent;
    return true;
}

uint64_t log_prefix_place(const struct log_prefix *p, uint64_t serial)
{
    assert(serial > p->acknowledged && serial <= p->sent);
    return p->prefix + (serial - p->acknowledged);
}

/* The frame for the first unknown place lies there. */
static void advance(struct log_prefix *p)
{
    p->prefix++;
    p->acknowledged++;
    p->valid = p->prefix;
    p->stored >>= 1;
}

/* Go on where the places that follow are known as well. */
static void settle(struct log_prefix *p)
{
    while ((p->stored & 1) != 0) {
        advance(p);
    }
    if (p->mode == LOG_LOOKING && p->acknowledged == p->sent) {
        p->mode = LOG_WRITING;
    }
}

void log_prefix_stored(struct log_prefix *p, uint64_t serial, uint64_t place)
{
    bool is_under_way = serial > p->acknowledged && serial <= p->sent;
    if (p->mode == LOG_FENCED || !is_under_way || place != log_prefix_place(p, serial)) {
        return; /* it lies in a place where it is void, or was acknowledged */
    }
    p->stored |= 1U << (serial - p->acknowledged - 1);
    settle(p);
}

void log_prefix_doubt(struct log_prefix *p)
{
    if (p->mode == LOG_WRITING && p->acknowledged < p->sent) {
        p->mode = LOG_LOOKING;
    }
}

void log_prefix_refused(struct log_prefix *p, uint64_t serial, uint64_t place)
{
    bool is_under_way = serial > p->acknowledged && serial <= p->sent;
    if (is_under_way && place == log_prefix_place(p, serial)) {
        log_prefix_doubt(p);
    }
}

void log_prefix_found(struct log_prefix *p, uint64_t place, const struct log_frame_id *id)
{
    if (p->mode != LOG_LOOKING || place != p->prefix + 1) {
        return; /* the server's own answer came before this one */
    }
    if (id->epoch > p->epoch) {
        p->mode = LOG_FENCED;
    } else if (id->epoch == p->epoch && id->serial == p->acknowledged + 1) {
        advance(p);
        settle(p);
    } else {
        p->prefix++;   /* void: own frames move behind it ... */
        p->stored = 0; /* ... and out of the places in which some were stored */
    }
}

void log_prefix_nothing(struct log_prefix *p, uint64_t place, uint64_t last)
{
    if (p->mode == LOG_LOOKING && place == p->prefix + 1) {
        /* Only who has the log purges it: what was there and is not was another's. */
        p->mode = last < place ? LOG_WRITING : LOG_FENCED;
    }
}

void log_prefix_vanished(struct log_prefix *p)
{
    p->mode = LOG_FENCED;
}

uint64_t log_prefix_purge(const struct log_prefix *p, uint64_t oldest_live)
{
    return (oldest_live > 0 && oldest_live < p->valid ? oldest_live : p->valid) - 1;
}

enum log_verdict log_reader_take(struct log_reader *r, const struct log_frame_id *id)
{
    bool is_first = r->epoch == 0;
    if (id->serial == 0 && id->epoch > r->epoch) {
        *r = (struct log_reader){.epoch = id->epoch, .next = 1};
        return LOG_FENCE;
    }
    if (!is_first && (id->epoch != r->epoch || id->serial != r->next)) {
        return LOG_VOID;
    }
    *r = (struct log_reader){.epoch = id->epoch, .next = id->serial + 1};
    return LOG_COUNTS;
}
