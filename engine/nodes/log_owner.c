/* Owns the value of a log's owner. Called by the keeper of the log and by who takes one over; must not
 * know what a log holds. */
#include "engine/nodes/log_owner.h"

#include "base/error.h"
#include "engine/cluster/log_frame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void log_owner_name(uint16_t number, char ret[static LOG_OWNER_NAME_SIZE])
{
    (void)snprintf(ret, LOG_OWNER_NAME_SIZE, "%u", number);
}

size_t log_owner_write(const struct log_owner *o, char ret[static LOG_OWNER_TEXT_SIZE])
{
    int len = snprintf(ret, LOG_OWNER_TEXT_SIZE, "%u %" PRIu64 " %u", LOG_OWNER_VERSION, o->epoch,
                       o->holder);
    if (o->is_given || o->from > 0) {
        len += snprintf(ret + len, LOG_OWNER_TEXT_SIZE - (size_t)len, " %s %" PRIu64,
                        o->is_given ? "given" : "from", o->from);
    }
    const char *state = o->is_unmade ? " unmade" : "";
    return (size_t)len + (size_t)snprintf(ret + len, LOG_OWNER_TEXT_SIZE - (size_t)len, "%s",
                                          o->is_adopted ? " adopted" : state);
}

int log_owner_read(struct slice value, struct log_owner *ret)
{
    char text[LOG_OWNER_TEXT_SIZE] = "";
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
    const char *rest = text + end;
    int used = 0;
    char word[8];
    if (sscanf(rest, " %7[a-z] %" SCNu64 "%n", word, &o.from, &used) == 2) {
        o.is_given = strcmp(word, "given") == 0;
        if (!o.is_given && strcmp(word, "from") != 0) {
            return ERR_SYNTAX;
        }
        rest += used;
    }
    o.is_unmade = strcmp(rest, " unmade") == 0;
    o.is_adopted = strcmp(rest, " adopted") == 0;
    /* No number has a sign, zeros in front, or a value that is cut off. */
    char as_written[LOG_OWNER_TEXT_SIZE];
    if (log_owner_write(&o, as_written) != value.len || strcmp(as_written, text) != 0 ||
        o.from == UINT64_MAX) {
        return ERR_SYNTAX;
    }
    *ret = o;
    return 0;
}

/* revision: 0: there is no key. errors: of the module */
static int put(const struct cluster_module *m, struct cluster_client *client, const char *name,
               const struct log_owner *o, uint64_t revision)
{
    char text[LOG_OWNER_TEXT_SIZE];
    size_t len = log_owner_write(o, text);
    return m->swap(client, LOG_OWNER_BUCKET, name, slice_make(text, len), revision, &revision);
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
        int why = err == 0 ? log_frame_read(slice_make(found.data, found.len), &frame) : err;
        err = why == -EPROTONOSUPPORT ? why : err;
        if (why == 0) {
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

int log_owner_drop_empty(const struct cluster_log_module *m, struct cluster_log *log)
{
    struct cluster_log_state state;
    int err = m->look(log, &state);
    if (err == 0 && state.last == 0) {
        err = m->remove(log);
    }
    return err == ERR_MISSING ? 0 : err;
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
    if (err == 0 && (o.epoch != was->epoch || o.holder != was->holder ||
                     o.is_adopted != was->is_adopted || o.is_given != was->is_given)) {
        err = ERR_AGAIN;
    }
    return err != 0 ? err : put(m, client, name, is, revision);
}
