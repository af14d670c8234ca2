/* Tables for a terminal: columns as wide as what is in them, and nothing that a stranger wrote gets
 * to control the terminal. One thread. */
#ifndef ENGINE_CLI_TABLE_H
#define ENGINE_CLI_TABLE_H

#include "base/attr.h"
#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define CLI_TABLE_COLUMNS_MAX 24
#define CLI_SPAN_TEXT         32
#define CLI_WHEN_TEXT         48

struct cli_column {
    const char *title;
    bool is_number; /* stands to the right */
};

/* Rows are kept until it is printed. */
struct cli_table {
    const struct cli_column *columns; /* ends with a NULL title */
    size_t column_count;
    size_t widths[CLI_TABLE_COLUMNS_MAX]; /* in characters */
    size_t next;                          /* column of the next cell */
    size_t row_count;
    struct buf text; /* cells, each with a kind before and a NUL behind it */
};

void cli_table_init(struct cli_table *t, const struct cli_column *columns);
void cli_table_fini(struct cli_table *t);
/* The next cell; behind the last column begins the next row. */
void cli_table_text(struct cli_table *t, const char *text);
void cli_table_number(struct cli_table *t, long long n);
void cli_table_cell(struct cli_table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A line of its own below the last row, indented. */
void cli_table_note(struct cli_table *t, const char *text);
/* Print the table with its titles; nothing when it has no rows. */
void cli_table_print(const struct cli_table *t, FILE *out);

/* --- pieces ----------------------------------------------------------------------------------- */

/* UTF-8 without control characters and without marks that turn the direction of text: '?' instead.
 */
void cli_print_safe(FILE *out, const char *text);
/* How many bytes at the start of valid UTF-8 a terminal must not get as they are; 0: none. */
size_t cli_danger_length(const unsigned char *p);
/* Seconds as the largest two units that matter: 45s, 3m20s, 5h02m, 3d04h. returns ret */
const char *cli_span_text(double seconds, char ret[CLI_SPAN_TEXT]);
/* Of a point in time: "in 3m20s", "45s ago"; "" when it is NULL or no number. now: seconds */
const char *cli_when_text(const json_t *time, double now, char ret[CLI_WHEN_TEXT]);
/* Members of an object: "" or 0 when absent. */
const char *cli_member_text(const json_t *object, const char *name);
long long cli_member_number(const json_t *object, const char *name);
/* Wall clock, seconds. */
double cli_now(void);

#endif
