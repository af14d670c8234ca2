/* Looks into lines of the event log for those that hand them on. Called by the cursor, the feed and
 * the log itself; must not allocate, as it runs for each line. */
#include "engine/event/event_line.h"

#include <stdio.h>
#include <string.h>

bool event_line_is_whole(struct slice line)
{
    size_t depth = 0;
    bool is_quoted = false;
    if (line.len < 2 || line.data[0] != '{') {
        return false;
    }
    for (size_t i = 0; i < line.len; i++) {
        char c = line.data[i];
        if (is_quoted) {
            i += c == '\\';
            is_quoted = c != '"';
        } else if (c == '"') {
            is_quoted = true;
        } else if (c == '{') {
            depth++;
        } else if (c == '}') {
            if (--depth == 0) {
                return i == line.len - 1;
            }
        } else if ((unsigned char)c < ' ') {
            return false;
        }
    }
    return false;
}

struct slice event_line_type(struct slice line)
{
    static const struct slice start = {"{\"type\":\"", 9};
    if (line.len < start.len || memcmp(line.data, start.data, start.len) != 0) {
        return SLICE("");
    }
    struct slice rest = slice_from(line, start.len);
    size_t end = slice_find(rest, '"');
    return end < rest.len ? slice_to(rest, end) : SLICE("");
}

unsigned event_line_type_bit(struct slice type)
{
    static const struct slice types[] = {
        {"Reception", 9},   {"Delivery", 8},          {"TransientFailure", 16},   {"Bounce", 6},
        {"Expiration", 10}, {"AdminBounce", 11},      {"AdminDrop", 9},           {"Reaction", 8},
        {"Suppressed", 10}, {"SuppressionAdded", 16}, {"SuppressionRemoved", 18}, {"OOB", 3},
        {"Feedback", 8},    {"AutoReply", 9},
    };
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (slice_eq(type, types[i])) {
            return 1U << i;
        }
    }
    return 0;
}

bool event_line_is_of_mail(struct slice line)
{
    struct slice type = event_line_type(line);
    return !slice_eq(type, SLICE("Reaction")) && !slice_eq(type, SLICE("SuppressionAdded")) &&
           !slice_eq(type, SLICE("SuppressionRemoved"));
}

/* Digits at the start, at most 18 of them. returns: how many */
static size_t read_line_digits(struct slice s, uint64_t *ret)
{
    size_t n = 0;
    uint64_t value = 0;
    while (n < s.len && n < 18 && s.data[n] >= '0' && s.data[n] <= '9') {
        value = value * 10 + (uint64_t)(s.data[n++] - '0');
    }
    *ret = value;
    return n;
}

usec_t event_line_time(struct slice line)
{
    /* Inside a string the quotes would have backslashes, so this is the member or nothing. */
    static const struct slice key = {",\"timestamp\":", 13};
    uint64_t seconds = 0;
    const char *at = memmem(line.data, line.len, key.data, key.len);
    if (at == NULL) {
        return 0;
    }
    at += key.len;
    (void)read_line_digits(slice_make(at, (size_t)(line.data + line.len - at)), &seconds);
    return seconds < (uint64_t)(INT64_MAX / USEC_PER_SEC) ? (usec_t)seconds * USEC_PER_SEC : 0;
}

size_t event_line_head(uint64_t number, usec_t now, char ret[static EVENT_LINE_HEAD_MAX])
{
    int len = snprintf(ret, EVENT_LINE_HEAD_MAX, EVENT_LINE_HEAD "%llu,\"timestamp\":%lld}\n",
                       (unsigned long long)number, (long long)(now / USEC_PER_SEC));
    return (size_t)len;
}

bool event_line_head_number(struct slice line, uint64_t *ret)
{
    static const struct slice start = {EVENT_LINE_HEAD, sizeof(EVENT_LINE_HEAD) - 1};
    uint64_t number = 0;
    if (line.len < start.len || memcmp(line.data, start.data, start.len) != 0) {
        return false;
    }
    struct slice rest = slice_from(line, start.len);
    size_t n = read_line_digits(rest, &number);
    if (n == 0 || n == rest.len || (rest.data[n] != ',' && rest.data[n] != '}')) {
        return false;
    }
    *ret = number;
    return true;
}
