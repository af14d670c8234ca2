/* A server made of random deviations, and the truth about what it took. */
#ifndef TESTS_SIM_SMTP_HOSTILE_H
#define TESTS_SIM_SMTP_HOSTILE_H

#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define HOSTILE_MESSAGES   12
#define HOSTILE_RECIPIENTS 3
#define HOSTILE_REPLIES    400

enum hostile_kind {
    HOSTILE_GREETING,
    HOSTILE_EHLO,
    HOSTILE_RESET,
    HOSTILE_MAIL,
    HOSTILE_RCPT,
    HOSTILE_DATA,
    HOSTILE_END,
    HOSTILE_REFUSAL,
    HOSTILE_QUIT,
    HOSTILE_KIND_COUNT
};

/* What was said, up to position in the stream of replies. */
struct hostile_reply {
    uint64_t position;
    enum hostile_kind words;   /* whose words they are */
    enum hostile_kind command; /* that it answers */
    unsigned message;
    bool is_lie; /* a stray, or the wrong code */
};

struct hostile {
    uint64_t random, read; /* read: bytes of replies that the client has */
    struct buf in, out;    /* out: all that was ever said */
    struct buf swapped;    /* a reply that comes behind the next */
    struct hostile_reply replies[HOSTILE_REPLIES], swapped_reply;
    unsigned reply_count, said, words;
    unsigned at[3], how[3];                 /* deviations: at which reply, and which */
    unsigned deviations, met;               /* drawn; that came to pass */
    unsigned taken[HOSTILE_MESSAGES];       /* a bit a recipient */
    unsigned message, recipients, accepted; /* of the transaction that is open */
    uint64_t chunk_left;
    bool is_open, is_content, has_content, is_chunk, has_left, is_reset, is_merging, is_chunking;
};

extern unsigned long hostile_seed, hostile_deviations;

void hostile_init(struct hostile *p, uint64_t seed);
void hostile_fini(struct hostile *p);
unsigned hostile_draw(struct hostile *p, unsigned below);
unsigned hostile_recipients(const struct hostile *p, unsigned message);
void hostile_hear(struct hostile *p, struct slice bytes);
/* Answer one command of what was heard. */
void hostile_step(struct hostile *p);
/* All that is left of it. */
void hostile_finish(struct hostile *p);
/* What was said and is not read. */
struct slice hostile_says(const struct hostile *p);
/* Of the i-th reply: where it begins among the bytes said, and all of it. */
uint64_t hostile_reply_begin(const struct hostile *p, unsigned i);
struct slice hostile_reply_text(const struct hostile *p, unsigned i);

#endif
