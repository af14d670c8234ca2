/* One write(2) per line, so that lines of different threads do not mix. What is printed may contain
 * bytes that a peer sent: everything but printable ASCII is escaped, and a line has a limit. */
#include "base/log.h"

#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TEXT_LIMIT 1000
/* Time stamp and level, then each byte of the text as up to four. */
#define LINE_LIMIT (64 + 4 * TEXT_LIMIT)

static enum log_level limit = LOG_LEVEL_INFO; /* written before the first thread, then constant */
static void (*sink)(void *ctx, const char *line); /* likewise */
static void *sink_ctx;

void log_set_level(enum log_level level)
{
    limit = level;
}

void log_set_sink(void (*to)(void *ctx, const char *line), void *ctx)
{
    sink = to;
    sink_ctx = ctx;
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "unknown";
}

static size_t write_prefix(char *line, size_t room, enum log_level level)
{
    usec_t now = clock_wall();
    time_t seconds = (time_t)(now / USEC_PER_SEC);
    struct tm utc = {0};
    (void)gmtime_r(&seconds, &utc); /* fails only beyond the year 2^31 */
    size_t len = strftime(line, room, "%Y-%m-%dT%H:%M:%S", &utc);
    int more =
        snprintf(line + len, room - len, ".%03dZ %s: ", (int)(now % USEC_PER_SEC / USEC_PER_MSEC),
                 level_name(level));
    return more < 0 ? len : len + (size_t)more;
}

static size_t escape(char *to, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (byte >= ' ' && byte < 0x7f && byte != '\\') {
        to[0] = (char)byte;
        return 1;
    }
    to[0] = '\\';
    switch (byte) {
    case '\\':
        to[1] = '\\';
        return 2;
    case '\n':
        to[1] = 'n';
        return 2;
    case '\r':
        to[1] = 'r';
        return 2;
    case '\t':
        to[1] = 't';
        return 2;
    default:
        to[1] = 'x';
        to[2] = digits[byte >> 4];
        to[3] = digits[byte & 15];
        return 4;
    }
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > limit) {
        return;
    }
    int saved_errno = errno; /* a caller may log between a failure and its return */
    char text[TEXT_LIMIT];
    va_list args;
    va_start(args, fmt);
    int text_len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    size_t used = text_len < 0 ? 0 : (size_t)text_len;
    if (used >= sizeof(text)) {
        used = sizeof(text) - 1;
        text[used - 3] = text[used - 2] = text[used - 1] = '.';
    }
    char line[LINE_LIMIT];
    size_t len = write_prefix(line, 64, level);
    for (size_t i = 0; i < used; i++) {
        len += escape(line + len, (unsigned char)text[i]);
    }
    if (sink != NULL) {
        line[len] = '\0';
        sink(sink_ctx, line);
        errno = saved_errno;
        return;
    }
    line[len++] = '\n';
    ssize_t wrote;
    do {
        wrote = write(STDERR_FILENO, line, len);
    } while (wrote < 0 && errno == EINTR);
    errno = saved_errno; /* nowhere to report that standard error is gone */
}
