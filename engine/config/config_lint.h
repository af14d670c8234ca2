/* What is allowed in a configuration and still looks like a mistake. For `sluice check`: each
 * finding is a warning of the form "FILE:LINE: key: warning: what; what would be better". */
#ifndef ENGINE_CONFIG_LINT_H
#define ENGINE_CONFIG_LINT_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/config/config_option.h"

#include <stdbool.h>

/* Things that nothing leads to, routes that change nothing, limits that contradict each other,
 * timeouts shorter than RFC 5321 asks for, names that are not fully qualified, and files with
 * secrets that others can read. Looks at the files that the configuration names. */
void config_lint(const struct config *c, const struct config_sink *sink);

#endif
