/* A message body on the wire: dot-stuffing as runs of slices, without copying, and the automaton
 * that watches what is written. Called by the shell that streams a body after
 * SMTP_CLIENT_WANT_BODY; pure. The terminator line itself is smtp_client_body_sent's; reading
 * received bodies is smtp_body's. */
#ifndef NET_SMTP_WIRE_H
#define NET_SMTP_WIRE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smtp_wire {
    bool has_cr;         /* the last body byte was CR */
    bool at_line_start;  /* the next body byte begins a line */
    bool is_dot_doubled; /* the dot at the head of the input was written once; once is missing */
    bool is_malformed;   /* a bare CR, bare LF or NUL was met; nothing more is produced */
};

void smtp_wire_init(struct smtp_wire *w);

/* Turn body bytes, CRLF line ends, into wire bytes.
 *
 * in       advanced past the bytes covered by the runs; cut anywhere; must stay valid while the
 *          runs are in use
 * runs     up to max slices, all of them views of *in; where a dot is doubled one run ends with it
 *          and the next begins with the same byte
 * returns  number of runs; in->len > 0 afterwards means call again with more room
 * errors   ERR_SYNTAX: bare CR, bare LF or NUL in the body (sticky). Runs of earlier calls were
 *          fine, this call gives none: never end this message (smtp_client_body_failed)
 * source   RFC 5321 4.5.2; reliability-security 4.1 */
MUST_USE int smtp_wire_runs(struct smtp_wire *w, struct slice *in, struct slice *runs, int max);

/* What must follow the last run so that the body ends with a line end: "\r\n" or nothing. A body
 * of zero bytes needs nothing.
 *
 * errors   ERR_SYNTAX when the body ended in a bare CR, or was malformed */
MUST_USE int smtp_wire_end(const struct smtp_wire *w, struct slice *ret);

/* Watches all bytes of a DATA section at the last write: no bare CR or LF, no NUL, every leading
 * dot doubled, the terminator once and last. For tests and debug builds. */
enum smtp_wire_state {
    SMTP_WIRE_LINE_START,
    SMTP_WIRE_TEXT,
    SMTP_WIRE_CR,
    SMTP_WIRE_DOT,    /* one dot at the start of a line */
    SMTP_WIRE_DOT_CR, /* dot, CR: only LF may follow */
    SMTP_WIRE_ENDED,  /* terminator seen: nothing may follow */
    SMTP_WIRE_BAD,
    SMTP_WIRE_STATE_COUNT
};

struct smtp_wire_check {
    enum smtp_wire_state state;
    size_t line_size;    /* bytes of the line under way, without line end, doubled dot counted */
    size_t longest_line; /* bytes */
};

void smtp_wire_check_init(struct smtp_wire_check *check);
/* returns  false once the bytes broke a rule */
bool smtp_wire_check_bytes(struct smtp_wire_check *check, struct slice wire);

#endif
