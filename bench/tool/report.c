/* JSON text for the load tools: strings, spans, latencies, and the file that a live display polls.
 * Called by the reporting thread of each tool; knows nothing of what is counted. */
#include "bench/tool/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Length of a UTF-8 sequence by its first byte; 0: none begins so. */
static size_t announced_length(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    return 2U + (first >= 0xe0) + (first >= 0xf0);
}

/* Length of the UTF-8 sequence at the start of s (RFC 3629: no overlong forms, no surrogates), or
 * 0. */
static size_t utf8_sequence(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.data;
    size_t len = announced_length(p[0]);
    if (len == 0 || s.len < len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
        return 0;
    }
    return len;
}

void report_string(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    while (text.len > 0) {
        unsigned char c = (unsigned char)text.data[0];
        size_t len = utf8_sequence(text);
        if (len == 0) {
            buf_append_str(out, "\xef\xbf\xbd");
            len = 1;
        } else if (c == '"' || c == '\\') {
            buf_append_char(out, '\\');
            buf_append_char(out, (char)c);
        } else if (c < 0x20) {
            buf_printf(out, "\\u%04x", c);
        } else {
            buf_append(out, text.data, len);
        }
        text = slice_from(text, len);
    }
    buf_append_char(out, '"');
}

void report_seconds(struct buf *out, const char *name, usec_t span)
{
    buf_printf(out, "\"%s\": %.6f", name, (double)span / (double)USEC_PER_SEC);
}

void report_latency(struct buf *out, const struct histogram *h)
{
    buf_printf(out, "\"latency\": {\"count\": %llu, ", (unsigned long long)h->count);
    report_seconds(out, "p50", (usec_t)histogram_quantile(h, 0.5));
    buf_append_str(out, ", ");
    report_seconds(out, "p99", (usec_t)histogram_quantile(h, 0.99));
    buf_append_str(out, ", ");
    report_seconds(out, "max", (usec_t)h->max);
    buf_append_char(out, '}');
}

void report_quantiles(struct buf *out, const char *name, const struct histogram *h)
{
    static const struct {
        const char *name;
        double share;
    } quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    buf_printf(out, "\"%s\": {\"count\": %llu, ", name, (unsigned long long)h->count);
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        report_seconds(out, quantiles[i].name, (usec_t)histogram_quantile(h, quantiles[i].share));
        buf_append_str(out, ", ");
    }
    report_seconds(out, "max", (usec_t)h->max);
    buf_append_char(out, '}');
}

int report_replace(const char *path, struct slice text)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary)) {
        return -ENAMETOOLONG;
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return -errno;
    }
    int err = 0;
    while (text.len > 0 && err == 0) {
        ssize_t n = write(fd, text.data, text.len);
        if (n >= 0) {
            text = slice_from(text, (size_t)n);
        } else if (errno != EINTR) {
            err = -errno;
        }
    }
    if (close(fd) != 0 && err == 0) {
        err = -errno;
    }
    if (err == 0 && rename(temporary, path) != 0) {
        err = -errno;
    }
    return err;
}
