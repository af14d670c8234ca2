/* A message that came back, taken apart: what kind it is, whom it speaks of, and which tokens stand
 * in it. Nothing of it is believed here: who has the keys (return_token.h) decides that.
 *
 * MIME is GMime's: heard_setup once in a process, then any number of threads, each with a report of
 * its own. The cost is bounded: HEARD_BYTES_MAX of the message are read, at most HEARD_PARTS_MAX
 * parts of them, HEARD_TEXT_MAX bytes of text whatever encodings and charsets make of it, and
 * every list below has its room. What does not fit is left out and said (is_cut). */
#ifndef ENGINE_HEARD_H
#define ENGINE_HEARD_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/heard/return_token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARD_BYTES_MAX ((size_t)256 * 1024)
#define HEARD_TEXT_MAX  ((size_t)64 * 1024)
#define HEARD_PARTS_MAX 64
#define HEARD_BORDERS_MAX                                                                          \
    512 /* lines that begin with two dashes; and boundaries as many as parts */
#define HEARD_FIELDS_MAX    1000 /* of one header or one group of a status */
#define HEARD_RECIPIENT_MAX 16
#define HEARD_ADDRESS_MAX   32
#define HEARD_TOKEN_MAX     8
#define HEARD_ADDRESS_BYTES 321 /* with NUL */

enum heard_kind {
    HEARD_UNKNOWN,
    HEARD_BOUNCE,      /* a delivery status, of whatever action */
    HEARD_COMPLAINT,   /* a feedback report; feedback_type says of what */
    HEARD_UNSUBSCRIBE, /* by mail, or a feedback report of type opt-out */
    HEARD_AUTO_REPLY,  /* of a person's program: absent, received, read */
    HEARD_KIND_COUNT
};

enum heard_action {
    HEARD_FAILED,
    HEARD_DELAYED,
    HEARD_DELIVERED,
    HEARD_RELAYED,
    HEARD_EXPANDED,
    HEARD_ACTION_COUNT
};

/* Texts are printable, without line ends, NUL-terminated, "": not said. */
struct heard_recipient {
    enum heard_action action;
    char address[HEARD_ADDRESS_BYTES];  /* where it went in the end */
    char original[HEARD_ADDRESS_BYTES]; /* what the report says that we sent to */
    char status[12];                    /* enhanced, "5.1.1" */
    char diagnostic[1024];              /* the receiver's words, its reply code in front if known */
    char remote_mta[256];
};

struct heard {
    enum heard_kind kind;
    const char *shape; /* how it was recognised, for people: "RFC 3464"; static */
    bool is_cut;       /* a bound was met */

    size_t recipient_count;
    struct heard_recipient recipients[HEARD_RECIPIENT_MAX];
    /* every address that the report or the returned message's header names as a recipient, also
     * those above; each once */
    size_t address_count;
    char addresses[HEARD_ADDRESS_MAX][HEARD_ADDRESS_BYTES];
    /* texts of the shape of a token, not read: in the header of the message that it returns, and
     * anywhere else in it */
    size_t returned_token_count, token_count;
    char returned_tokens[HEARD_TOKEN_MAX][RETURN_TOKEN_LEN];
    char tokens[HEARD_TOKEN_MAX][RETURN_TOKEN_LEN];

    char from[HEARD_ADDRESS_BYTES]; /* of the report's own header */
    char subject[256];
    char reporting_mta[256];
    char arrival_date[64];         /* of the original, in the reporter's words */
    char original_message_id[256]; /* the Message-ID of the returned message */
    char feedback_type[32];        /* in lower case */
    char user_agent[128];
    char source_ip[64];
    char original_mail_from[HEARD_ADDRESS_BYTES];
    char reported_domain[256];
    uint32_t incidents; /* 0: not said */
};

/* Before the first report; any number of times, on one thread at a time. */
void heard_setup(void);

/* Read a report.
 *
 * message    header and body, CRLF or LF
 * recipient  the address that it was sent to
 * ret        all of it is set, whatever the message is */
void heard_read(struct slice message, struct slice recipient, struct heard *ret);

const char *heard_kind_text(enum heard_kind kind) NONNULL_RET;
const char *heard_action_text(enum heard_action action) NONNULL_RET;

#endif
