/* Names, labels and numbers in the order that the format wants them. Called by the metrics; decides
 * nothing about what is shown. */
#include "engine/tally/exposition.h"

#include <math.h>
#include <stdio.h>

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

/* Length of the UTF-8 sequence that s begins with, by RFC 3629; 0: it is none. */
static size_t sequence_length(struct slice s)
{
    const unsigned char *b = (const unsigned char *)s.data;
    size_t len = announced_length(b[0]);
    if (len == 0 || len > s.len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
        (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f)) {
        return 0; /* too long, a surrogate, or beyond the last one */
    }
    return len;
}

static void put_value(struct buf *out, struct slice value)
{
    while (value.len > 0) {
        size_t len = sequence_length(value);
        char c = value.data[0];
        if (len == 0 || (len == 1 && (unsigned char)c < ' ' && c != '\n')) {
            buf_append_char(out, '?');
            len = 1;
        } else if (c == '\n') {
            buf_append_str(out, "\\n");
        } else if (c == '"' || c == '\\') {
            buf_append_char(out, '\\');
            buf_append_char(out, c);
        } else {
            buf_append(out, value.data, len);
        }
        value = slice_from(value, len);
    }
}

/* With braces, or nothing. more: a label without comma, or NULL */
static void put_labels(struct buf *out, const struct exposition_labels *labels, const char *more)
{
    char before = '{';
    for (int i = 0; labels != NULL && i < EXPOSITION_LABELS; i++) {
        if (labels->items[i].name != NULL) {
            buf_printf(out, "%c%s=\"", before, labels->items[i].name);
            put_value(out, labels->items[i].value);
            buf_append_char(out, '"');
            before = ',';
        }
    }
    if (more != NULL) {
        buf_printf(out, "%c%s", before, more);
        before = ',';
    }
    if (before == ',') {
        buf_append_char(out, '}');
    }
}

static void put_number(struct buf *out, double value)
{
    if (value == floor(value) && fabs(value) < 1e15) {
        buf_printf(out, " %.0f\n", value);
    } else {
        buf_printf(out, " %.9g\n", value);
    }
}

void exposition_family(struct buf *out, const char *name, enum exposition_kind kind,
                       const char *help)
{
    static const char *const kinds[] = {
        [EXPOSITION_COUNTER] = "counter",
        [EXPOSITION_GAUGE] = "gauge",
        [EXPOSITION_HISTOGRAM] = "histogram",
    };
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kinds[kind]);
}

void exposition_sample(struct buf *out, const char *name, const struct exposition_labels *labels,
                       double value)
{
    buf_append_str(out, name);
    put_labels(out, labels, NULL);
    put_number(out, value);
}

void exposition_histogram(struct buf *out, const char *name, const struct exposition_labels *labels,
                          const double *bounds, uint32_t count, const uint64_t *buckets, double sum)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i <= count; i++) {
        char le[40] = "le=\"+Inf\"";
        below += buckets[i];
        if (i < count) {
            (void)snprintf(le, sizeof(le), "le=\"%.9g\"", bounds[i]);
        }
        buf_printf(out, "%s_bucket", name);
        put_labels(out, labels, le);
        put_number(out, (double)below);
    }
    buf_printf(out, "%s_sum", name);
    put_labels(out, labels, NULL);
    put_number(out, sum);
    buf_printf(out, "%s_count", name);
    put_labels(out, labels, NULL);
    put_number(out, (double)below);
}
