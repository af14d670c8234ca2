/* One entry of a list of suppressed recipients as clients write it: a line of CSV, or a JSON object.
 * Pure; called by suppress_request.c and its fuzzer. */
#ifndef ENGINE_SUPPRESS_LINE_H
#define ENGINE_SUPPRESS_LINE_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/spool/spool_suppress.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum suppress_column {
    SUPPRESS_TENANT,
    SUPPRESS_ADDRESS,
    SUPPRESS_REASON,
    SUPPRESS_ADDED,
    SUPPRESS_EXPIRES,
    SUPPRESS_SOURCE,
    SUPPRESS_COLUMN_COUNT
};

#define SUPPRESS_COLUMNS_MAX 32 /* that a file may have; what is behind them is passed over */

/* Which column of a file has what. */
struct suppress_columns {
    size_t count;
    enum suppress_column columns[SUPPRESS_COLUMNS_MAX]; /* _COUNT: not one of ours */
};

/* Without a line of names: the address alone. */
void suppress_columns_default(struct suppress_columns *c);
/* Whether the line names columns, in any order and case; one of them must be "address", "email" or
 * "recipient". */
MUST_USE bool suppress_columns_read(struct suppress_columns *c, struct slice line);

/* An entry with its texts beside it. */
struct suppress_entry {
    struct spool_suppression entry; /* slices are of `text`; added 0: not said */
    char text[SPOOL_SUPPRESS_TENANT_MAX + SPOOL_SUPPRESS_ADDRESS_MAX + SPOOL_SUPPRESS_SOURCE_MAX];
};

/* What a request says for all its lines, where a line says nothing. */
struct suppress_defaults {
    struct slice tenant, source;
    enum spool_suppress_reason reason;
    usec_t expires;
};

/* Read a line without its end. What it says is checked: the address as an envelope's is, and made to the
 * form that lists have. Quotes as in RFC 4180, but no line breaks in them.
 *
 * ret_wrong  what is wrong, static; NULL where it returns true */
MUST_USE bool suppress_line_csv(const struct suppress_columns *c, struct slice line,
                                const struct suppress_defaults *d, struct suppress_entry *ret,
                                const char **ret_wrong);
MUST_USE bool suppress_line_json(const json_t *object, const struct suppress_defaults *d,
                                 struct suppress_entry *ret, const char **ret_wrong);
/* An address or "@domain" as lists have it. out: SPOOL_SUPPRESS_ADDRESS_MAX. returns bytes; 0: none */
size_t suppress_line_address(struct slice text, char *out);

/* A line of CSV with all columns in their order, and the line of their names. */
void suppress_line_put_names(struct buf *out);
void suppress_line_put(struct buf *out, const struct spool_suppression *s);

#endif
