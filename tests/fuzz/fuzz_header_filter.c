/* Control headers out of arbitrary bytes in arbitrary pieces: the same as in one piece, nothing
 * added, nothing of the header's control fields left.
 *
 * The first byte says how long pieces are, the second one how much is kept; the rest is the
 * message, which gets the line end that every message has. */
#include "base/buf.h"
#include "engine/compose/header_filter.h"

#include <stdbool.h>
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

static void filter(struct slice message, size_t piece, size_t cut, struct buf *out)
{
    static const char *const names[] = {"X-T", "C"};
    struct header_filter f;
    struct buf b;
    buf_init(&b, 0);
    header_filter_init(&f, names, 2, 0);
    while (message.len > 0) {
        size_t len = message.len < piece ? message.len : piece;
        buf_append(&b, message.data, len);
        message = slice_from(message, len);
        size_t ready = header_filter_run(&f, &b);
        require(ready <= b.len);
        if (ready >= cut) {
            buf_append(out, b.data, ready);
            buf_consume(&b, ready);
            header_filter_cut(&f);
        }
    }
    require(header_filter_run(&f, &b) == b.len);
    buf_append_slice(out, buf_slice(&b));
    buf_fini(&b);
}

/* Every byte of it stands in the message, in this order. */
static bool is_part_of(struct slice part, struct slice message)
{
    size_t at = 0;
    for (size_t i = 0; i < message.len && at < part.len; i++) {
        at += message.data[i] == part.data[at];
    }
    return at == part.len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf message, whole, pieces, again;
    if (size < 2) {
        return 0;
    }
    buf_init(&message, 0);
    buf_init(&whole, 0);
    buf_init(&pieces, 0);
    buf_init(&again, 0);
    buf_append(&message, data + 2, size - 2);
    buf_append_str(&message, "\r\n");
    filter(buf_slice(&message), message.len, 1, &whole);
    filter(buf_slice(&message), 1 + data[0], 1 + data[1], &pieces);
    filter(buf_slice(&whole), 1 + data[1], 1 + data[0], &again);
    require(slice_eq(buf_slice(&whole), buf_slice(&pieces)));
    require(slice_eq(buf_slice(&whole), buf_slice(&again)));
    require(is_part_of(buf_slice(&whole), buf_slice(&message)));
    buf_fini(&message);
    buf_fini(&whole);
    buf_fini(&pieces);
    buf_fini(&again);
    return 0;
}
