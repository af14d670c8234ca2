/* The daemon's own messages (not the event log of deliveries): one line each to standard error,
 * with a time stamp and level, control characters escaped. Library rooms use LOG_DEBUG at most. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/attr.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Lines above this level are not formatted; set once, before the first thread. */
void log_set_level(enum log_level level);
/* Lines go there instead of to standard error, without their newline; any thread calls it. NULL: to
 * standard error again. While no other thread logs. */
void log_set_sink(void (*sink)(void *ctx, const char *line), void *ctx);
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
