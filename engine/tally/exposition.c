/* Names, labels and numbers in the order that the format wants them. Called by the metrics; decides
 * nothing about what is shown. */
#include "engine/tally/exposition.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>

static void put_label_value(struct buf *out, struct slice value)
{
    while (value.len > 0) {
        size_t len = utf8_length(value);
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
            put_label_value(out, labels->items[i].value);
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

static void put_sample_number(struct buf *out, double value)
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
    put_sample_number(out, value);
}

void exposition_histogram(struct buf *out, const char *name, const struct exposition_labels *labels,
                          const struct exposition_buckets *b)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i <= b->count; i++) {
        char le[40] = "le=\"+Inf\"";
        below += b->buckets[i];
        if (i < b->count) {
            (void)snprintf(le, sizeof(le), "le=\"%.9g\"", b->bounds[i]);
        }
        buf_printf(out, "%s_bucket", name);
        put_labels(out, labels, le);
        put_sample_number(out, (double)below);
    }
    buf_printf(out, "%s_sum", name);
    put_labels(out, labels, NULL);
    put_sample_number(out, b->sum);
    buf_printf(out, "%s_count", name);
    put_labels(out, labels, NULL);
    put_sample_number(out, (double)below);
}
