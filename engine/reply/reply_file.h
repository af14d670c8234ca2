/* From a rules file to rules: the configuration's syntax, with sections `rule "NAME" { ... }` only.
 * Every mistake is told as "FILE:LINE: key: what is wrong; what would be right". */
#ifndef ENGINE_REPLY_FILE_H
#define ENGINE_REPLY_FILE_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/config/config_source.h"
#include "engine/reply/reply_rule.h"

#include <stddef.h>

#define REPLY_RULES_MAX 5000 /* of all files */

struct reply_rules {
    struct reply_rule *items;
    size_t count, capacity;
    size_t errors; /* mistakes that were told and that are no warnings */
};

/* Add the rules of a file behind those that are there already.
 *
 * source   outlives the rules, which keep its name
 * errors   -ENOMEM; mistakes are counted in rules->errors */
MUST_USE int reply_file_parse(const struct config_source *source, const struct config_sink *sink,
                              struct reply_rules *rules);
void reply_rules_fini(struct reply_rules *rules);

/* Tell a mistake in this line of a file, and count it. */
void reply_file_complain(struct reply_rules *rules, const struct config_sink *sink,
                         const char *file, unsigned line, const char *key, const char *fmt, ...)
    PRINTF_LIKE(6, 7);
void reply_file_warn(const struct config_sink *sink, const char *file, unsigned line,
                     const char *key, const char *fmt, ...) PRINTF_LIKE(5, 6);

#endif
