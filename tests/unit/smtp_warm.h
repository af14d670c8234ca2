/* A client core that knows its server's replies, as if it had carried messages already. */
#ifndef TESTS_UNIT_SMTP_WARM_H
#define TESTS_UNIT_SMTP_WARM_H

#include "net/smtp_client.h"

/* Replies to RSET, MAIL, RCPT and the end of a message. */
struct smtp_warm_words {
    const char *reset, *mail, *rcpt, *end;
};

#define SMTP_WARM_WORDS                                                                            \
    (&(const struct smtp_warm_words){"250 reset\r\n", "250 ok\r\n", "250 ok\r\n",                  \
                                     "250 2.6.0 queued\r\n"})

/* Another core carries two messages to a server that says so; c learns what that one learnt. */
void smtp_warm(struct smtp_client *c, const struct smtp_warm_words *words);

#endif
