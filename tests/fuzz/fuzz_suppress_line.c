/* Files of suppressed recipients out of arbitrary bytes: a line is refused with a reason, or becomes an entry
 * that is written as CSV and read back as the same. */
#include "engine/suppression/suppress_line.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static const struct suppress_defaults defaults = {
    .tenant = {"acme", 4}, .source = {"a file", 6}, .reason = SPOOL_SUPPRESS_BY_HAND};

static void check_entry(const struct suppress_entry *e)
{
    const struct spool_suppression *s = &e->entry;
    require(s->address.len > 0 && s->address.len <= SPOOL_SUPPRESS_ADDRESS_MAX);
    require(memchr(s->address.data, '@', s->address.len) != NULL);
    require(s->tenant.len <= SPOOL_SUPPRESS_TENANT_MAX &&
            s->source.len <= SPOOL_SUPPRESS_SOURCE_MAX);
    require(s->reason < SPOOL_SUPPRESS_REASON_COUNT);
    struct suppress_columns columns;
    struct suppress_entry again;
    const char *wrong;
    struct buf out;
    buf_init(&out, 0);
    suppress_line_put_names(&out);
    out.len -= 2;
    require(suppress_columns_read(&columns, buf_slice(&out)));
    buf_clear(&out);
    suppress_line_put(&out, s);
    out.len -= 2;
    require(suppress_line_csv(&columns, buf_slice(&out), &defaults, &again, &wrong));
    require(slice_eq(again.entry.address, s->address) && slice_eq(again.entry.tenant, s->tenant));
    require(again.entry.reason == s->reason);
    require(again.entry.added / USEC_PER_SEC == s->added / USEC_PER_SEC);
    buf_fini(&out);
}

static void check_line(const struct suppress_columns *columns, struct slice line)
{
    struct suppress_entry e;
    const char *wrong = NULL;
    bool is_right = suppress_line_csv(columns, line, &defaults, &e, &wrong);
    require(is_right == (wrong == NULL));
    if (is_right) {
        check_entry(&e);
    }
    json_t *o = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, NULL);
    wrong = NULL;
    is_right = suppress_line_json(o, &defaults, &e, &wrong);
    require(is_right == (wrong == NULL));
    if (is_right) {
        check_entry(&e);
    }
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = slice_make((const char *)data, size);
    struct suppress_columns columns;
    suppress_columns_default(&columns);
    bool is_first = true;
    while (rest.len > 0) {
        size_t len = slice_find(rest, '\n');
        struct slice line = slice_to(rest, len);
        rest = slice_from(rest, len < rest.len ? len + 1 : len);
        if (!is_first || !suppress_columns_read(&columns, line)) {
            check_line(&columns, line);
        }
        is_first = false;
    }
    return 0;
}
