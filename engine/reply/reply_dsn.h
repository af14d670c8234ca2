/* What a report of delivery (RFC 3464, and those without its form) tells of one recipient, as a
 * reply that rules can judge. Pure. */
#ifndef ENGINE_REPLY_DSN_H
#define ENGINE_REPLY_DSN_H

#include "engine/reply/reply.h"

/* Take a report's words apart. The reply that counts is the first that stands whole in the text: what
 * the host said that the reporter talked to; what that one recounts of others is its text. A text
 * without any reply gets the code that the status means: 450 or 550, and 451 or 554 when the status
 * says no more than that, as 450 and 550 alone would speak of the recipient.
 *
 * status      the report's Status field, with or without its comment; "": it has none
 * diagnostic  its Diagnostic-Code, unfolded, with or without the type in front; or the lines about
 *             the recipient in a report without fields, joined
 * ret         as of reply_read; is_report is set. The code is 0 only where neither field says anything;
 *             that of a delivery that did not fail is as the report has it. Slices are of diagnostic */
void reply_read_dsn(struct slice status, struct slice diagnostic, struct reply *ret);

#endif
