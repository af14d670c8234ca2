/* What the client of a hostile dialogue could see: its commands, when each was wholly handed over,
 * and the replies, matched in order. An end that is wrong is excused only when a server that
 * behaves would have said the same bytes and the end were right of it: then no client can know.
 *
 * A server that behaves: answers each command once, in order, behind its last byte (a message may
 * be refused before); grants RCPT only behind MAIL, a message only behind RCPT, and RSET; says to
 * the end of a message by BDAT nothing that it says to another command, unless each of the two has
 * but that one saying, and nothing of an address (2.1.z, RFC 3463 3.2); goes behind 421. Of a
 * message that was granted, in a code of its own or as one before, more may be said behind that,
 * and 421 at any time. */
#ifndef TESTS_SIM_SMTP_VIEW_H
#define TESTS_SIM_SMTP_VIEW_H

#include "tests/sim/smtp_hostile.h"

#define VIEW_COMMANDS 400

struct view_command {
    enum hostile_kind kind;
    unsigned message, recipient;
};

struct view {
    struct view_command commands[VIEW_COMMANDS]; /* in the order of their last bytes */
    unsigned count;                              /* of commands, */
    unsigned complete;                           /* ... wholly handed over */
    unsigned complete_at[HOSTILE_REPLIES];       /* when the reply's first byte was read */
    unsigned dated;                              /* replies of which that is known */
    char line[200];
    unsigned line_len, message, recipient;
    bool is_chunk[HOSTILE_MESSAGES];
    bool has_fin;
};

/* What had been read when something was said of a message. */
struct view_moment {
    uint64_t taken; /* bytes of replies that were taken in */
    uint64_t seen;  /* ... that lay there */
};

/* Bytes of commands, the last byte of a chunk, were handed over. */
void view_hand_over(struct view *v, struct slice bytes);
void view_end_chunk(struct view *v);
/* All up to seen is about to be read. */
void view_read(struct view *v, const struct hostile *p, uint64_t seen);

/* Whether a server that behaves explains all that was seen, and took, or did not take, the message
 * for the recipient. */
bool view_explains(const struct view *v, const struct hostile *p, struct view_moment when,
                   unsigned message, unsigned recipient, bool is_taken);
/* The commands and replies in the order in which they were seen. */
void view_print(const struct view *v, const struct hostile *p);

#endif
