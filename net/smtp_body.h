/* A message body on the wire: dot-stuffing as runs of slices, without copying.
 * Called by the shell that streams a body after SMTP_CLIENT_WANT_BODY; pure. The terminator line
 * itself is smtp_client_body_sent's. */
#ifndef NET_SMTP_BODY_H
#define NET_SMTP_BODY_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smtp_body {
    char last[2]; /* the last two body bytes seen, for line ends across chunks */
    bool dot_due; /* the next run repeats the dot that ended the last one */
    bool is_started;
    bool is_malformed; /* a bare CR, bare LF or NUL was met; nothing more is produced */
};

void smtp_body_init(struct smtp_body *b);

/* Turn body bytes into wire bytes.
 *
 * in       advanced past the bytes covered by the runs. The chunk must stay valid while the runs
 *          are in use; cut anywhere
 * runs     up to max slices, all of them views of *in; where a dot is doubled one run ends with it
 *          and the next begins with the same byte
 * returns  number of runs; in->len > 0 afterwards means call again with more room
 * errors   ERR_SYNTAX: bare CR, bare LF or NUL in the body (sticky). Runs of earlier calls were
 *          fine, this call gives none: drop the connection, never end the message */
MUST_USE int smtp_body_runs(struct smtp_body *b, struct slice *in, struct slice *runs, size_t max);

/* What must follow the last run so that the body ends with a line end: "\r\n" or nothing. A body
 * of zero bytes needs nothing.
 * errors   ERR_SYNTAX when the body ended in a bare CR */
MUST_USE int smtp_body_end(const struct smtp_body *b, struct slice *ret);

/* The automaton that watches the last write of a DATA section: no bare CR or LF, no NUL, every
 * leading dot doubled, the terminator exactly once and last. Debug builds and tests. */
enum smtp_wire_state {
    SMTP_WIRE_LINE_START,
    SMTP_WIRE_TEXT,
    SMTP_WIRE_CR,
    SMTP_WIRE_DOT,    /* one dot at the start of a line */
    SMTP_WIRE_DOT_CR, /* dot, CR: only LF may follow */
    SMTP_WIRE_END,    /* terminator seen: nothing may follow */
    SMTP_WIRE_BAD,
};

struct smtp_wire {
    enum smtp_wire_state state;
    size_t line_len;     /* of the line under way, without line end, doubled dot counted */
    size_t line_len_max; /* longest so far */
};

void smtp_wire_init(struct smtp_wire *w);
/* returns  false once the bytes broke a rule */
bool smtp_wire_check(struct smtp_wire *w, struct slice wire);

#endif
