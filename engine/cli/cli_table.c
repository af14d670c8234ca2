/* Owns the cells of a table until they are printed. Called by the commands. */
#include "engine/cli/cli_table.h"

#include "base/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

enum { CELL_TEXT = 1024, NOTE_INDENT = 4 };

static const char CELL = 'c', NOTE = 'n';

/* --- pieces ----------------------------------------------------------------------------------- */

size_t cli_danger_length(const unsigned char *p)
{
    if (p[0] < 0x20 || p[0] == 0x7f) {
        return 1;
    }
    if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) {
        return 2; /* C1 controls */
    }
    if (p[0] == 0xe2 && p[1] == 0x80 &&
        ((p[2] >= 0xaa && p[2] <= 0xae) || p[2] == 0x8e || p[2] == 0x8f)) {
        return 3; /* embeddings and overrides of direction */
    }
    if (p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9) {
        return 3; /* isolates */
    }
    return 0;
}

void cli_print_safe(FILE *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        size_t len = cli_danger_length(p);
        (void)fputc(len > 0 ? '?' : *p, out);
        p += len > 0 ? len : 1;
    }
}

/* Characters that cli_print_safe prints. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        size_t len = cli_danger_length(p);
        width += len > 0 || (*p & 0xc0) != 0x80 ? 1 : 0;
        p += len > 0 ? len : 1;
    }
    return width;
}

const char *cli_span_text(double seconds, char ret[CLI_SPAN_TEXT])
{
    long long s = 0;
    if (seconds >= 0) {
        s = seconds > 1e12 ? 1000000000000LL : (long long)seconds;
    }
    if (s < 60) {
        (void)snprintf(ret, CLI_SPAN_TEXT, "%llds", s);
    } else if (s < 3600) {
        (void)snprintf(ret, CLI_SPAN_TEXT, "%lldm%02llds", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(ret, CLI_SPAN_TEXT, "%lldh%02lldm", s / 3600, s % 3600 / 60);
    } else {
        (void)snprintf(ret, CLI_SPAN_TEXT, "%lldd%02lldh", s / 86400, s % 86400 / 3600);
    }
    return ret;
}

const char *cli_when_text(const json_t *time, double now, char ret[CLI_WHEN_TEXT])
{
    char span[CLI_SPAN_TEXT];
    ret[0] = '\0';
    if (json_is_number(time)) {
        double ahead = json_number_value(time) - now;
        const char *text = cli_span_text(ahead < 0 ? -ahead : ahead, span);
        (void)snprintf(ret, CLI_WHEN_TEXT, ahead < 0 ? "%s ago" : "in %s", text);
    }
    return ret;
}

const char *cli_member_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

long long cli_member_number(const json_t *object, const char *name)
{
    return (long long)json_number_value(json_object_get(object, name));
}

double cli_now(void)
{
    return (double)clock_wall() / (double)USEC_PER_SEC;
}

/* --- tables ----------------------------------------------------------------------------------- */

void cli_table_init(struct cli_table *t, const struct cli_column *columns)
{
    *t = (struct cli_table){.columns = columns};
    buf_init(&t->text, 0);
    for (; columns[t->column_count].title != NULL; t->column_count++) {
        assert(t->column_count < CLI_TABLE_COLUMNS_MAX);
        t->widths[t->column_count] = width_of(columns[t->column_count].title);
    }
}

void cli_table_fini(struct cli_table *t)
{
    buf_fini(&t->text);
}

static void put_cell(struct cli_table *t, char kind, const char *text)
{
    buf_append_char(&t->text, kind);
    buf_append(&t->text, text, strlen(text) + 1);
}

void cli_table_text(struct cli_table *t, const char *text)
{
    size_t width = width_of(text);
    t->row_count += t->next == 0 ? 1 : 0;
    t->widths[t->next] = width > t->widths[t->next] ? width : t->widths[t->next];
    t->next = (t->next + 1) % t->column_count;
    put_cell(t, CELL, text);
}

void cli_table_number(struct cli_table *t, long long n)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", n);
    cli_table_text(t, text);
}

void cli_table_cell(struct cli_table *t, const char *fmt, ...)
{
    char text[CELL_TEXT];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    cli_table_text(t, text);
}

void cli_table_note(struct cli_table *t, const char *text)
{
    assert(t->next == 0);
    put_cell(t, NOTE, text);
}

static void print_cell(const struct cli_table *t, size_t column, const char *text, FILE *out)
{
    bool is_last = column + 1 == t->column_count;
    int pad = (int)(t->widths[column] - width_of(text));
    bool is_right = t->columns[column].is_number;
    (void)fprintf(out, "%*s", is_right ? pad : 0, "");
    cli_print_safe(out, text);
    /* Nothing follows an empty last cell but the line's end. */
    (void)fprintf(out, "%*s%s", is_right || is_last ? 0 : pad, "", is_last ? "\n" : "  ");
}

void cli_table_print(const struct cli_table *t, FILE *out)
{
    size_t column = 0;
    if (t->row_count == 0 || t->text.failed) {
        return;
    }
    for (size_t i = 0; i < t->column_count; i++) {
        print_cell(t, i, t->columns[i].title, out);
    }
    for (const char *p = t->text.data; p < t->text.data + t->text.len; p += strlen(p) + 1) {
        if (*p == NOTE) {
            (void)fprintf(out, "%*s", NOTE_INDENT, "");
            cli_print_safe(out, p + 1);
            (void)fputc('\n', out);
        } else {
            print_cell(t, column, p + 1, out);
            column = column + 1 < t->column_count ? column + 1 : 0;
        }
    }
}
