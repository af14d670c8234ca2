/* Owns the value of a log's owner. Called by the keeper of the log and by who takes one; must not know
 * what frames hold. */
#include "engine/nodes/log_owner.h"

#include "base/error.h"
#include "engine/cluster/log_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int log_owner_read(struct slice value, struct log_owner *ret)
{
    char text[64] = "";
    unsigned version;
    int end = 0;
    struct log_owner o = {.epoch = 0};
    _Static_assert(NODE_ENTRY_NAME_MAX == 32, "the width below");
    if (value.len >= sizeof(text)) {
        return ERR_SYNTAX;
    }
    memcpy(text, value.data, value.len);
    if (sscanf(text, "%u %" SCNu64 " %32s%n", &version, &o.epoch, o.holder, &end) != 3 ||
        (size_t)end != value.len || version != LOG_OWNER_VERSION || o.epoch == 0 ||
        o.epoch > INT64_MAX) {
        return ERR_SYNTAX;
    }
    *ret = o;
    return 0;
}

int log_owner_last_epoch(const struct cluster_log_module *m, struct cluster_log *log,
                         const struct cluster_log_state *state, uint64_t *ret)
{
    uint64_t epoch = 0;
    int err = 0;
    for (uint64_t place = state->last; err == 0 && epoch == 0 && place >= state->first; place--) {
        struct cluster_value found = {.data = NULL};
        struct log_frame frame;
        err = m->read(log, place, &found);
        if (err == 0 && log_frame_read(slice_make(found.data, found.len), &frame) == 0) {
            epoch = frame.id.epoch;
        }
        err = err == ERR_MISSING ? 0 : err;
        free(found.data);
    }
    if (err == 0) {
        *ret = epoch;
    }
    return err;
}

int log_owner_begin(const struct cluster_module *m, struct cluster_client *client, const char *node,
                    uint64_t last, struct log_owner *ret)
{
    struct cluster_value seen = {.data = NULL};
    struct log_owner o = {.epoch = 0};
    char text[64];
    int err = m->bucket(client, LOG_OWNER_BUCKET);
    err = err != 0 ? err : m->get(client, LOG_OWNER_BUCKET, node, &seen);
    if (err == 0) {
        err = log_owner_read(slice_make(seen.data, seen.len), &o);
        free(seen.data);
    } else if (err == ERR_MISSING) {
        (void)snprintf(o.holder, sizeof(o.holder), "%s", node);
        err = 0;
    }
    if (err == 0 && strcmp(o.holder, node) != 0) {
        err = ERR_LOCKED;
    }
    o.epoch = o.epoch > last ? o.epoch : last;
    err = err == 0 && o.epoch >= INT64_MAX ? ERR_SYNTAX : err; /* no writer came that far */
    o.epoch += err == 0 ? 1 : 0;
    *ret = o;
    if (err != 0) {
        return err;
    }
    int len =
        snprintf(text, sizeof(text), "%u %" PRIu64 " %s", LOG_OWNER_VERSION, o.epoch, o.holder);
    return m->swap(client, LOG_OWNER_BUCKET, node, slice_make(text, (size_t)len), seen.revision,
                   &seen.revision);
}
