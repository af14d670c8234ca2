/* Fields of CSV as others write it (RFC 4180). Pure. */
#ifndef ENGINE_CSV_FIELD_H
#define ENGINE_CSV_FIELD_H

#include "base/buf.h"

#include <stdbool.h>

/* The next field of a record without its quotes.
 *
 * rest  in/out; what follows the field's comma; its data is NULL behind the last one
 * out   cleared first; failure is its own
 * returns  false: there is no further field, or its quotes do not match */
MUST_USE bool csv_field_next(struct slice *rest, struct buf *out);

/* Whether a quote is open at the end: the record goes on in the next line. */
MUST_USE bool csv_field_is_open(struct slice text);

#endif
