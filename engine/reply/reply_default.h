/* What a reply means that no rule is about: by its code, its enhanced status and what it answers.
 * Pure. */
#ifndef ENGINE_REPLY_DEFAULT_H
#define ENGINE_REPLY_DEFAULT_H

#include "engine/reply/reply.h"

/* ret_why: in words, static. Never REPLY_BLOCKED: that is never known by a code alone. */
enum reply_class reply_default(const struct reply *reply, enum reply_scope *ret_scope,
                               const char **ret_why);

#endif
