/* What other nodes wrote, out of arbitrary bytes: a limit's value is refused or printed as it was, and
 * its division and the next step stay within the limit; a frame is refused, or written again as the
 * same bytes. The last 8 bytes are put right first, so that more than the checksum is tried. */
#include "base/hash.h"
#include "engine/cluster/limit_share.h"
#include "engine/cluster/log_frame.h"

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

static uint64_t all_shares_of(const struct limit_share *v)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        sum += v->entries[i].share;
    }
    return sum;
}

static void try_value(struct slice text)
{
    struct limit_share v;
    if (limit_share_parse(text, &v) != 0) {
        return;
    }
    struct buf out;
    buf_init(&out, 0);
    limit_share_print(&out, &v);
    require(slice_eq(buf_slice(&out), text));
    buf_fini(&out);
    struct limit_share_self self = {.node = 2, .limit = 1 + v.turn % 50, .want = 60};
    struct limit_share_step step;
    limit_share_next(&v, &self, USEC_PER_SEC, &step);
    uint64_t before = all_shares_of(&v), after = all_shares_of(&step.value);
    require(after <= before || after <= self.limit);
    require(step.may_use <= self.limit && step.then_use <= self.limit);
}

static void try_frame(struct slice bytes)
{
    struct log_frame f;
    struct log_item item;
    if (log_frame_read(bytes, &f) != 0) {
        return;
    }
    struct buf out;
    buf_init(&out, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&out, f.node, &f.id);
    while (log_frame_next(&f.items, &item)) {
        log_frame_add(&out, &item);
    }
    log_frame_end(&out);
    require(slice_eq(buf_slice(&out), bytes));
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_value(slice_make((const char *)data, size));
    try_frame(slice_make((const char *)data, size));
    char *copy = malloc(size > 0 ? size : 1);
    if (copy != NULL && size >= 8) {
        memcpy(copy, data, size);
        uint64_t sum = hash_checksum(copy, size - 8);
        for (size_t i = 0; i < 8; i++) {
            copy[size - 8 + i] = (char)(sum >> (56 - 8 * i));
        }
        try_frame(slice_make(copy, size));
    }
    free(copy);
    return 0;
}
