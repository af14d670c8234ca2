/* Notices about arbitrary mail from arbitrary peers: always a well-formed report. The input is cut
 * at 0xfe into the strings that strangers choose and the pieces of the original; its first byte
 * holds the flags. */
#include "engine/writer/bounce.h"
#include "tests/unit/bounce_check.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Take the bytes up to the next cut. */
static struct slice take(struct slice *in)
{
    size_t len = slice_find(*in, (char)0xfe);
    struct slice piece = slice_to(*in, len);
    *in = slice_from(*in, len < in->len ? len + 1 : len);
    return piece;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_make((const char *)data, size);
    struct bounce_recipient recipients[2];
    struct slice parts[3];
    struct buf out;
    bool is_utf8;
    if (size == 0) {
        return 0;
    }
    unsigned flags = data[0];
    in = slice_from(in, 1);
    for (int i = 0; i < 2; i++) {
        recipients[i] = (struct bounce_recipient){
            .address = take(&in),
            .original = take(&in),
            .status = take(&in),
            .diagnostic = take(&in),
            .remote_mta = take(&in),
            .is_reply = (flags & 1) != 0,
            .is_expired = (flags & 2) != 0,
        };
    }
    struct bounce_message message = {.id = SLICE("0A1B"),
                                     .sender = take(&in),
                                     .envid = take(&in),
                                     .arrival = 1,
                                     .is_smtputf8 = (flags & 4) != 0,
                                     .parts = parts,
                                     .part_count = 3,
                                     .is_headers_only = (flags & 8) != 0};
    for (int i = 0; i < 3; i++) {
        parts[i] = i < 2 ? take(&in) : in;
    }
    const struct bounce_config config = {.hostname = SLICE("relay.example"),
                                         .size_limit = (flags & 16) != 0 ? 100 : 50000,
                                         .now = 2,
                                         .retry_until = (flags & 32) != 0 ? 3 : 0,
                                         .unique = 7};
    const struct bounce_news news = {(flags & 64) != 0 ? BOUNCE_DELAY : BOUNCE_FAILURE, recipients,
                                     (flags & 128) != 0 ? 2 : 1};
    buf_init(&out, 0);
    if (bounce_format(&out, &config, &message, &news, &is_utf8) != 0) {
        abort();
    }
    const char *wrong = bounce_check(buf_slice(&out));
    if (wrong != NULL) {
        fprintf(stderr, "%s\n", wrong);
        abort();
    }
    buf_fini(&out);
    return 0;
}
