/* What the messages of sluice-source look like. A message is its number: sender, recipients, size
 * and content follow from it and the options, only the time stamp is new each time it is sent. */
#ifndef BENCH_SOURCE_MESSAGE_H
#define BENCH_SOURCE_MESSAGE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "bench/source/source_options.h"

#include <stdint.h>

#define SOURCE_ID_BYTES   96
#define SOURCE_HASH_BYTES 65

/* Shared by all messages; immutable. */
struct source_template {
    const struct source_options *options;
    char prefix[40];
    char date[40];        /* of the start, RFC 5322 */
    struct slice *domain; /* heap; as options.domains, measured */
    struct buf text;      /* as long as the largest body */
};

MUST_USE int source_template_init(struct source_template *t, const struct source_options *options);
void source_template_fini(struct source_template *t);

void source_message_id(const struct source_template *t, uint64_t number, char ret[SOURCE_ID_BYTES]);
/* How many recipients the message has: >= 1. */
uint32_t source_message_recipients(const struct source_template *t, uint64_t number);
/* Append the address of recipient `index` of the message; no other recipient has it. */
void source_message_recipient(const struct source_template *t, uint64_t number, uint32_t index,
                              struct buf *out);
/* Whose message it is: 0 to options.tenants - 1; 0 without tenants. */
uint32_t source_message_tenant(const struct source_template *t, uint64_t number);
/* Append the address of the sender, "" for the null sender. */
void source_message_sender(const struct source_template *t, uint64_t number, struct buf *out);
/* Append the content without the final dot; no line starts with a dot. stamp: wall clock */
void source_message_content(const struct source_template *t, uint64_t number, usec_t stamp,
                            struct buf *out);
/* SHA-256 in hex of the content from its X-Sluice-Id field on; what the sink writes too. */
void source_message_hash(const struct source_template *t, uint64_t number,
                         char ret[SOURCE_HASH_BYTES]);

#endif
