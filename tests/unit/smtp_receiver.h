/* A receiver without I/O for tests of the client core: it speaks ESMTP with PIPELINING and CHUNKING
 * and does to each message what a seed says, whenever and however that message comes. */
#ifndef TESTS_UNIT_SMTP_RECEIVER_H
#define TESTS_UNIT_SMTP_RECEIVER_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define SMTP_RECEIVER_MESSAGES 64

/* What happens to a message; the rest of its life is normal. */
enum smtp_receiver_fate {
    SMTP_RECEIVER_TAKES,
    SMTP_RECEIVER_REFUSES_MAIL,
    SMTP_RECEIVER_REFUSES_RCPT, /* all of them */
    SMTP_RECEIVER_REFUSES_ONE,  /* the first recipient */
    SMTP_RECEIVER_REFUSES_DATA, /* BDAT: as END */
    SMTP_RECEIVER_REFUSES_END,
    SMTP_RECEIVER_WANTS_NOTHING, /* refuses all recipients, but says 354 and 250 */
    SMTP_RECEIVER_LEAVES_AT_MAIL,
    SMTP_RECEIVER_LEAVES_AT_RCPT,
    SMTP_RECEIVER_LEAVES_AT_END,    /* without having taken it */
    SMTP_RECEIVER_LEAVES_WITH_IT,   /* without an answer to a message that it took */
    SMTP_RECEIVER_SAYS_421_AT_MAIL, /* and leaves */
    SMTP_RECEIVER_SAYS_421_AT_END,  /* and leaves */
    SMTP_RECEIVER_BABBLES_AT_RCPT,  /* and leaves */
    SMTP_RECEIVER_BABBLES_AT_END,   /* having taken it, and leaves */
    SMTP_RECEIVER_FATE_COUNT
};

struct smtp_receiver {
    const char *features; /* lines of the EHLO reply */
    uint64_t seed;
    unsigned taken[SMTP_RECEIVER_MESSAGES]; /* how often each was taken; over all connections */

    struct buf in;  /* what came and is not read */
    struct buf out; /* what is to be said */
    bool has_left;  /* reads and says no more */
    bool is_open, is_content;
    uint64_t chunk_left; /* bytes of BDAT */
    bool is_chunk;
    unsigned message, recipients, accepted;
};

/* The fate of message i, whose sender is "sI@a". */
enum smtp_receiver_fate smtp_receiver_fate(const struct smtp_receiver *r, unsigned message);

/* A new connection. */
void smtp_receiver_connect(struct smtp_receiver *r);
void smtp_receiver_fini(struct smtp_receiver *r);
/* Read one command, or some bytes of a message; returns false when nothing could be read. */
bool smtp_receiver_step(struct smtp_receiver *r);

#endif
