/* Owns how another's log is fenced and read. Called by who takes logs over and by `sluice repair`; must not
 * know what becomes of the mail. */
#include "engine/nodes/taken_log.h"

#include "base/error.h"
#include "engine/cluster/log_frame.h"

#include <errno.h>
#include <stdlib.h>

int taken_log_look(const struct taken_log *t, struct cluster_log_state *ret)
{
    int err;
    do {
        err = t->module->look(t->log, ret);
    } while (t->must_ask_again(t->ctx, err));
    return err;
}

int taken_log_fence(const struct taken_log *t, uint16_t holder, uint64_t epoch, uint64_t *ret_place)
{
    struct buf fence;
    int err;
    buf_init(&fence, LOG_FRAME_BYTES_MAX);
    const struct log_frame_id id = {.epoch = epoch};
    log_frame_begin(&fence, t->number, &id);
    log_frame_add(&fence, &(const struct log_item){.kind = LOG_ITEM_FENCE, .number = holder});
    log_frame_end(&fence);
    do { /* a fence that lies there after all makes the one that follows void */
        struct cluster_log_state state;
        err = fence.failed ? -ENOMEM : taken_log_look(t, &state);
        err =
            err != 0 ? err : t->module->send(t->log, state.last + 1, buf_slice(&fence), ret_place);
    } while (t->must_ask_again(t->ctx, err));
    buf_fini(&fence);
    return err;
}

/* errors: as taken_log_read */
static int read_place(const struct taken_log *t, uint64_t place, struct replay *replay,
                      struct taken_log_figures *figures)
{
    struct cluster_value found = {.data = NULL};
    int err;
    do {
        err = t->module->read(t->log, place, &found);
    } while (t->must_ask_again(t->ctx, err));
    if (err == 0) {
        figures->bytes += found.len;
        err = replay_frame(replay, slice_make(found.data, found.len));
    } else if (err == ERR_MISSING) {
        err = 0; /* it was purged meanwhile: taken_log_read looks at that */
    }
    if (err == ERR_CORRUPT) {
        figures->unreadable++; /* it is no frame, so void for all */
        err = 0;
    }
    free(found.data);
    return err;
}

int taken_log_read(const struct taken_log *t, uint64_t fence, struct replay *replay,
                   struct taken_log_figures *ret)
{
    struct cluster_log_state state;
    int err = taken_log_look(t, &state);
    uint64_t first = err == 0 ? state.first : 0;
    for (uint64_t place = first; err == 0 && place < fence; place++) {
        err = read_place(t, place, replay, ret);
    }
    err = err != 0 ? err : taken_log_look(t, &state);
    return err == 0 && state.first > first ? ERR_AGAIN : err;
}
