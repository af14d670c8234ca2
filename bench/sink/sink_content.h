/* The content of one message after DATA or BDAT: finds the end, removes dot stuffing, reads the two
 * header fields of sluice-source, hashes and keeps bytes where asked. Owner: one session.
 *
 * Hash: SHA-256 of everything from the X-Sluice-Id field on. Relays put their fields on top, so the
 * hash is the same on both sides of a relay that changes nothing else. Without that field it is
 * the hash of the whole content. */
#ifndef BENCH_SINK_CONTENT_H
#define BENCH_SINK_CONTENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_HASH_TEXT_BYTES 65

struct evp_md_ctx_st;

struct sink_content {
    /* set at creation */
    bool does_hash;
    bool does_keep; /* the whole content stays in `head` */
    uint64_t limit; /* bytes; 0 = none */

    /* of the current message */
    struct buf head;   /* the first bytes of the content, or all of them */
    bool is_head_done; /* the fields were read, later bytes go to the hash at once */
    struct evp_md_ctx_st *hash;
    char before[2];      /* the last two bytes of the raw input: CR LF at a line start */
    uint64_t size_bytes; /* without dot stuffing and the final dot */
    bool is_too_large;   /* limit exceeded, or no memory: refuse it */
    usec_t stamp;        /* wall clock; 0 = none */
    size_t id_at;        /* the id within head; */
    size_t id_len;       /* 0 = none */
};

/* errors: -ENOMEM */
MUST_USE int sink_content_init(struct sink_content *c, bool does_hash, bool does_keep,
                               uint64_t limit);
void sink_content_fini(struct sink_content *c); /* accepts a zeroed one */
/* Before the first byte of each message. */
void sink_content_begin(struct sink_content *c);
/* Take raw input after DATA.
 *
 * ret_done true: the final dot was consumed
 * returns  bytes consumed; the rest must be offered again, with more behind it
 */
MUST_USE size_t sink_content_feed(struct sink_content *c, struct slice raw, bool *ret_done);
/* Take bytes of a chunk (RFC 3030): they are the content itself. */
void sink_content_feed_chunk(struct sink_content *c, struct slice raw);
/* After the final dot or the last chunk: stamp, id and hash are known. ret_hash: hex, "" when not
 * asked for */
void sink_content_end(struct sink_content *c, char ret_hash[SINK_HASH_TEXT_BYTES]);
/* Valid until the next begin. */
struct slice sink_content_id(const struct sink_content *c);

#endif
