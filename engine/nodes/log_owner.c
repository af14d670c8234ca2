/* Owns the value of a log's owner. Called by the keeper of the log and by who takes one over; must not
 * know what a log holds. */
#include "engine/nodes/log_owner.h"

#include "base/error.h"
#include "engine/cluster/log_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void log_owner_name(uint16_t number, char ret[static LOG_OWNER_NAME_SIZE])
{
    (void)snprintf(ret, LOG_OWNER_NAME_SIZE, "%u", number);
}

int log_owner_read(struct slice value, struct log_owner *ret)
{
    char text[64] = "";
    unsigned version, holder = 0;
    int end = 0;
    struct log_owner o = {.epoch = 0};
    if (value.len >= sizeof(text)) {
        return ERR_SYNTAX;
    }
    memcpy(text, value.data, value.len);
    if (sscanf(text, "%u %" SCNu64 " %u%n", &version, &o.epoch, &holder, &end) != 3 ||
        version != LOG_OWNER_VERSION || o.epoch == 0 || o.epoch > INT64_MAX || holder == 0 ||
        holder > UINT16_MAX) {
        return ERR_SYNTAX;
    }
    o.holder = (uint16_t)holder;
    o.is_unmade = strcmp(text + end, " unmade") == 0;
    o.is_adopted = strcmp(text + end, " adopted") == 0;
    if (strlen(text) != value.len || (text[end] != '\0' && !o.is_unmade && !o.is_adopted)) {
        return ERR_SYNTAX;
    }
    *ret = o;
    return 0;
}

/* revision: 0: there is no key. errors: of the module */
static int put(const struct cluster_module *m, struct cluster_client *client, const char *name,
               const struct log_owner *o, uint64_t revision)
{
    char text[64];
    const char *state = o->is_unmade ? " unmade" : "";
    int len = snprintf(text, sizeof(text), "%u %" PRIu64 " %u%s", LOG_OWNER_VERSION, o->epoch,
                       o->holder, o->is_adopted ? " adopted" : state);
    return m->swap(client, LOG_OWNER_BUCKET, name, slice_make(text, (size_t)len), revision,
                   &revision);
}

/* errors: ERR_SYNTAX; of the module */
static int get(const struct cluster_module *m, struct cluster_client *client, const char *name,
               struct log_owner *ret, uint64_t *ret_revision)
{
    struct cluster_value seen = {.data = NULL};
    int err = m->bucket(client, LOG_OWNER_BUCKET);
    err = err != 0 ? err : m->get(client, LOG_OWNER_BUCKET, name, &seen);
    if (err == 0) {
        err = log_owner_read(slice_make(seen.data, seen.len), ret);
        *ret_revision = seen.revision;
        free(seen.data);
    }
    return err;
}

int log_owner_get(const struct cluster_module *m, struct cluster_client *client, uint16_t number,
                  struct log_owner *ret)
{
    char name[LOG_OWNER_NAME_SIZE];
    uint64_t revision;
    log_owner_name(number, name);
    return get(m, client, name, ret, &revision);
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
            struct log_item item;
            bool is_fence = frame.id.serial == 0 && log_frame_next(&frame.items, &item);
            epoch = frame.id.epoch;
            err = is_fence && item.number != frame.node ? ERR_LOCKED : 0;
        }
        err = err == ERR_MISSING ? 0 : err;
        free(found.data);
    }
    if (err == 0) {
        *ret = epoch;
    }
    return err;
}

int log_owner_reserve(const struct cluster_module *m, struct cluster_client *client,
                      uint16_t number)
{
    char name[LOG_OWNER_NAME_SIZE];
    log_owner_name(number, name);
    const struct log_owner o = {.epoch = 1, .holder = number, .is_unmade = true};
    return put(m, client, name, &o, 0);
}

int log_owner_begin(const struct cluster_module *m, struct cluster_client *client, uint16_t number,
                    bool may_create, uint64_t last, struct log_owner *ret)
{
    char name[LOG_OWNER_NAME_SIZE];
    struct log_owner o = {.holder = number};
    uint64_t revision = 0;
    log_owner_name(number, name);
    int err = get(m, client, name, &o, &revision);
    if (err == ERR_MISSING && may_create) {
        err = 0;
    }
    if (err == 0 && (o.holder != number || o.is_adopted)) {
        err = ERR_LOCKED;
    }
    o.epoch = o.epoch > last ? o.epoch : last;
    err = err == 0 && o.epoch >= INT64_MAX ? ERR_SYNTAX : err; /* no writer came that far */
    o.epoch += err == 0 ? 1 : 0;
    o.is_unmade = false;
    *ret = o;
    return err != 0 ? err : put(m, client, name, &o, revision);
}

int log_owner_swap(const struct cluster_module *m, struct cluster_client *client, uint16_t number,
                   const struct log_owner *was, const struct log_owner *is)
{
    char name[LOG_OWNER_NAME_SIZE];
    struct log_owner o = {.epoch = 0};
    uint64_t revision = 0;
    log_owner_name(number, name);
    int err = get(m, client, name, &o, &revision);
    if (err == 0 &&
        (o.epoch != was->epoch || o.holder != was->holder || o.is_adopted != was->is_adopted)) {
        err = ERR_AGAIN;
    }
    return err != 0 ? err : put(m, client, name, is, revision);
}
