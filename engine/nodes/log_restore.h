/* A spool from a node's log, for who lost the node's disk. */
#ifndef ENGINE_LOG_RESTORE_H
#define ENGINE_LOG_RESTORE_H

#include "base/attr.h"

#include <stdint.h>

struct config;

#define LOG_RESTORE_TEXT 300

struct log_restore {
    uint64_t frames, void_frames, bytes, messages;
    uint64_t damaged; /* frames, or changes in frames, that are none */
};

/* Take the log from whoever still writes it, read it, and make the spool that the configuration
 * names, in which there must be none. It is made in a folder there, `from-log`, and moved to its place
 * when it is whole, so that this can be done again. Waits for servers; for a program that runs nothing else.
 *
 * text    what is wrong
 * errors  ERR_MISSING: there is no such log; ERR_LOCKED: there is a spool already, or another node has
 *         the log; ERR_CLOSED: no server answers; of the spool */
MUST_USE int log_restore(const struct config *config, const char *node, struct log_restore *ret,
                         char text[static LOG_RESTORE_TEXT]);

#endif
