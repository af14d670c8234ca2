/* Builds notices to senders: RFC 3464 multipart/report messages about failed, expired or delayed
 * recipients. Pure formatting; the caller queues the result with the null envelope sender and
 * decides that a sender gets one at all (never one about a message with a null sender). */
#ifndef ENGINE_BOUNCE_H
#define ENGINE_BOUNCE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bounce_kind {
    BOUNCE_FAILURE, /* recipients that failed or expired */
    BOUNCE_DELAY,   /* recipients that are still being tried */
    BOUNCE_CLEARED, /* recipients that were reached after a delay notice */
};

/* All slices may hold bytes that strangers chose; they are sanitised. */
struct bounce_recipient {
    struct slice address;    /* final recipient */
    struct slice original;   /* ORCPT of RFC 3461, "rfc822;user@example", or empty */
    struct slice status;     /* "5.1.1"; anything malformed becomes 5.0.0 or 4.0.0 */
    struct slice diagnostic; /* the peer's reply, or our own text */
    struct slice remote_mta; /* host that said so; empty: our own finding */
    bool is_reply;           /* diagnostic is an SMTP reply: Diagnostic-Code gets type smtp */
    bool is_expired;         /* failure after the lifetime: told so in words */
};

struct bounce_message {
    struct slice id;           /* our name for the message */
    struct slice sender;       /* envelope sender: the notice's recipient */
    struct slice envid;        /* ENVID of RFC 3461, or empty */
    usec_t arrival;            /* usec, wall */
    bool is_smtputf8;          /* it was an SMTPUTF8 message */
    const struct slice *parts; /* the message as it is stored, CRLF lines, in pieces */
    size_t part_count;
    bool is_headers_only; /* return the header only (RET=HDRS) whatever the size */
    size_t left_out;      /* recipients that it is about as well, told as a number */
};

struct bounce_config {
    struct slice hostname; /* ours: From, Reporting-MTA, Message-Id, boundary */
    size_t size_limit;     /* bounce_size_limit: larger originals come back as header only */
    usec_t now;            /* usec, wall: Date */
    usec_t retry_until;    /* delay notices: when it is given up; 0: not told */
    uint64_t unique;       /* different for each notice; makes Message-Id and boundary */
};

/* What the notice says of whom. */
struct bounce_news {
    enum bounce_kind kind;
    const struct bounce_recipient *recipients; /* [count]; at most BOUNCE_RECIPIENTS_MAX are told
                                                * each, and no more than BOUNCE_REPORT_BYTES tell
                                                * of; the others as a number */
    size_t count;                              /* >= 1 */
};

/* Append the whole notice: header and body with CRLF line ends, no line over 998 bytes, not
 * dot-stuffed.
 *
 * ret_smtputf8 the notice has UTF-8 in its header or is a global report: needs SMTPUTF8 to send
 * returns      0
 * errors       -ENOMEM or ERR_LIMIT: the buffer failed; its content is cut
 */
#define BOUNCE_RECIPIENTS_MAX 10000
#define BOUNCE_REPORT_BYTES   (4 << 20)
MUST_USE int bounce_format(struct buf *out, const struct bounce_config *config,
                           const struct bounce_message *message, const struct bounce_news *news,
                           bool *ret_smtputf8);

#endif
