/* Whose a spool's log is: a key of the bucket `sluice_owner` for each spool that ever had one, named
 * by its number, changed by compare-and-set only. Its value is `VERSION EPOCH HOLDER`: the spool with
 * number HOLDER writes frames of that epoch into it. Behind that may stand ` given MARK`: HOLDER adopted it
 * up to there and gave it back; then, ` from MARK`: so did one before HOLDER; ` unmade` until the stream
 * was made, before the first frame; and ` adopted`: nothing of the log is needed any more. A key is never
 * removed: a spool that returns after years must find that it was taken over. */
#ifndef ENGINE_LOG_OWNER_H
#define ENGINE_LOG_OWNER_H

#include "base/attr.h"
#include "engine/nodes/cluster_log_module.h"

#include <stdbool.h>
#include <stdint.h>

#define LOG_OWNER_BUCKET    "sluice_owner"
#define LOG_OWNER_VERSION   1U
#define LOG_OWNER_NAME_SIZE 8U
#define LOG_OWNER_TEXT_SIZE 96U

struct log_owner {
    uint64_t epoch;
    uint16_t holder; /* number of a spool; its own until it was taken over */
    bool is_unmade; /* it may have no stream yet, and has no frame */
    bool is_adopted;
    bool is_given; /* the holder has nothing to do with it any more */
    uint64_t from; /* who gave it back adopted it up to this message; 0: nothing */
};

/* The key of a spool's log, which is also the log's name. */
void log_owner_name(uint16_t number, char ret[static LOG_OWNER_NAME_SIZE]);

/* errors: ERR_SYNTAX: it is none, or of a later version */
MUST_USE int log_owner_read(struct slice value, struct log_owner *ret);

/* Returns the bytes. */
size_t log_owner_write(const struct log_owner *o, char ret[static LOG_OWNER_TEXT_SIZE]);

/* errors: ERR_MISSING, ERR_SYNTAX; of the module */
MUST_USE int log_owner_get(const struct cluster_module *m, struct cluster_client *client,
                           uint16_t number, struct log_owner *ret);

/* The epoch of the last frame of a log; 0: it has none. errors: ERR_LOCKED: that frame is the fence of
 * who took the log over; -EPROTONOSUPPORT: it is of a newer version; of the module */
MUST_USE int log_owner_last_epoch(const struct cluster_log_module *m, struct cluster_log *log,
                                  const struct cluster_log_state *state, uint64_t *ret);

/* Remove the stream of a log whose key says that it was adopted, unless it has, or had, a frame. Nobody else
 * may write to it, and nobody looks for it any more. errors: of the module */
MUST_USE int log_owner_drop_empty(const struct cluster_log_module *m, struct cluster_log *log);

/* Make the key of a spool that never had a log, before its stream: else nobody would know whose it is
 * when the spool dies between the two. errors: ERR_AGAIN: there is one; of the module */
MUST_USE int log_owner_reserve(const struct cluster_module *m, struct cluster_client *client,
                               uint16_t number);

/* Begin the next epoch of the spool's own log. Waits for servers; one thread.
 *
 * may_create  a key is made where there is none
 * last        epoch of the last frame: the next one is greater, also when the key was lost, as readers
 *             take a lesser one for void
 * errors    ERR_LOCKED: another one has it, *ret says which; ERR_MISSING: there is no key, so the
 *           servers have lost what they knew; ERR_AGAIN: somebody changes it now; ERR_SYNTAX: the
 *           key's value is none; of the module */
MUST_USE int log_owner_begin(const struct cluster_module *m, struct cluster_client *client,
                             uint16_t number, bool may_create, uint64_t last,
                             struct log_owner *ret);

/* Begin the next epoch of another's log, or have nothing of it needed any more.
 *
 * was       what the key must say now
 * is        what it is to say
 * errors    ERR_AGAIN: it says something else by now; of the module */
MUST_USE int log_owner_swap(const struct cluster_module *m, struct cluster_client *client,
                            uint16_t number, const struct log_owner *was,
                            const struct log_owner *is);

#endif
