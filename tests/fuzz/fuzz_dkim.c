/* Headers, bodies and records of DKIM out of arbitrary bytes: fields lie within the text and in its
 * order, both forms of a field are bounded by it, a body's hash does not depend on its pieces, and
 * the relaxed form of a relaxed field is that field. */
#include "base/error.h"
#include "net/dkim/dkim_body.h"
#include "net/dkim/dkim_header.h"
#include "net/dkim/dkim_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_field(const struct dkim_field *f, struct buf *first, struct buf *second)
{
    buf_clear(first);
    buf_clear(second);
    dkim_field_put(f, DKIM_RELAXED, first);
    require(first->len <= f->text.len && memchr(first->data, '\t', first->len) == NULL);
    const struct dkim_field again = {buf_slice(first), f->name_len};
    dkim_field_put(&again, DKIM_RELAXED, second);
    require(slice_eq(buf_slice(first), buf_slice(second)));
    buf_clear(second);
    dkim_field_put(f, DKIM_SIMPLE, second);
    require(slice_eq(f->text, buf_slice(second)));
}

static void check_header(struct slice text)
{
    struct dkim_header h;
    struct buf first, second;
    if (dkim_header_parse(text, &h) != 0) {
        return;
    }
    buf_init(&first, 0);
    buf_init(&second, 0);
    const char *end = text.data;
    for (size_t i = 0; i < h.count; i++) {
        const struct dkim_field *f = &h.fields[i];
        require(f->name_len > 0 && f->name_len < f->text.len && f->text.data >= end);
        end = f->text.data + f->text.len;
        struct slice name = slice_to(f->text, f->name_len);
        require(dkim_header_find_above(&h, name, i + 1) == i && dkim_header_count(&h, name) > 0);
        check_field(f, &first, &second);
    }
    require(h.count == 0 || end <= text.data + text.len);
    buf_fini(&first);
    buf_fini(&second);
    dkim_header_fini(&h);
}

static void hash_body(struct slice text, enum dkim_canon canon, size_t piece,
                      uint8_t ret[DKIM_HASH_BYTES])
{
    struct dkim_body b;
    require(dkim_body_init(&b, canon) == 0);
    while (text.len > 0) {
        size_t len = text.len < piece ? text.len : piece;
        dkim_body_update(&b, slice_to(text, len));
        text = slice_from(text, len);
    }
    require(dkim_body_finish(&b, ret) == 0);
    dkim_body_fini(&b);
}

static void check_body(struct slice text, size_t piece)
{
    for (enum dkim_canon canon = DKIM_SIMPLE; canon <= DKIM_RELAXED; canon++) {
        uint8_t whole[DKIM_HASH_BYTES], hash[DKIM_HASH_BYTES];
        hash_body(text, canon, text.len + 1, whole);
        hash_body(text, canon, piece, hash);
        require(memcmp(whole, hash, sizeof(hash)) == 0);
    }
}

static void check_record(struct slice text)
{
    struct dkim_record r;
    if (dkim_record_parse(text, &r) == 0 && r.key.len > 0) {
        require(r.key.data > text.data && r.key.data + r.key.len <= text.data + text.len);
    }
}

/* The first byte is the size of the body's pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct slice text = slice_make((const char *)data + 1, size - 1);
    check_header(text);
    check_body(text, (size_t)data[0] + 1);
    check_record(text);
    return 0;
}
