/* The log of a spool that is not this process's own: fenced, so that nothing that its writer adds
 * counts any more, and read. Waits for servers; one thread at a time. */
#ifndef ENGINE_TAKEN_LOG_H
#define ENGINE_TAKEN_LOG_H

#include "base/attr.h"
#include "engine/nodes/cluster_log_module.h"
#include "engine/replica/replay.h"

#include <stdbool.h>
#include <stdint.h>

struct taken_log {
    const struct cluster_log_module *module;
    struct cluster_log *log;
    uint16_t number;
    /* Whether to ask a server again after this error, after a moment; 0: the answer came. */
    bool (*must_ask_again)(void *ctx, int err);
    void *ctx;
};

struct taken_log_figures {
    uint64_t bytes;
    uint64_t unreadable; /* frames */
};

/* errors: ERR_MISSING: there is none; of the module */
MUST_USE int taken_log_look(const struct taken_log *t, struct cluster_log_state *ret);
/* Put the fence of an epoch behind all that is there.
 *
 * holder     number of the spool that holds the log from here on
 * ret_place  of the fence
 * errors     -ENOMEM; of the module */
MUST_USE int taken_log_fence(const struct taken_log *t, uint16_t holder, uint64_t epoch,
                             uint64_t *ret_place);
/* Replay all in front of the fence.
 *
 * errors  ERR_AGAIN: its writer purged some meanwhile, and what was read may be half of it: begin
 *         again, with an empty spool; ERR_CLOSED, -ETIMEDOUT: of a server; of the spool */
MUST_USE int taken_log_read(const struct taken_log *t, uint64_t fence, struct replay *replay,
                            struct taken_log_figures *ret);

#endif
