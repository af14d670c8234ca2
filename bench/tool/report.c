/* JSON text for the load tools: strings, spans, latencies, and the file that a live display polls.
 * Called by the reporting thread of each tool; knows nothing of what is counted. */
#include "bench/tool/report.h"

#include "base/file.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

void report_string(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    while (text.len > 0) {
        unsigned char c = (unsigned char)text.data[0];
        size_t len = utf8_length(text);
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
    int err = file_write(fd, text, NULL);
    if (close(fd) != 0 && err == 0) {
        err = -errno;
    }
    if (err == 0 && rename(temporary, path) != 0) {
        err = -errno;
    }
    return err;
}
