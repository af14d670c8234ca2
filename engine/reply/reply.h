/* What a receiver said, and what it means: the words of replies, and a reply taken apart. Pure.
 *
 * The words stand in rules files, events, CSV files, metrics and requests: they are never renamed,
 * and new ones come last. */
#ifndef ENGINE_REPLY_H
#define ENGINE_REPLY_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum reply_class {
    REPLY_CLASS_NONE,  /* no receiver said anything: an order, a domain without hosts, success */
    REPLY_THROTTLED,   /* too much at once: later, and slower */
    REPLY_BLOCKED,     /* our address or name is not wanted */
    REPLY_GREYLISTED,  /* whoever comes again after a while is let in */
    REPLY_UNAVAILABLE, /* the receiver does not work, or cannot be reached */
    REPLY_MAILBOX,     /* the recipient does not exist, or takes nothing at all */
    REPLY_FULL,        /* the recipient's mailbox is */
    REPLY_CONTENT,     /* what the message says, or a domain or URI that it names */
    REPLY_POLICY,      /* a rule of the receiver about sender, recipient or relaying */
    REPLY_AUTH,        /* SPF, DKIM, DMARC, reverse DNS, or SMTP authentication */
    REPLY_PROTOCOL,    /* the dialogue went wrong */
    REPLY_OTHER,
    REPLY_CLASS_COUNT
};

/* What of a lane a reply speaks about. */
enum reply_scope {
    REPLY_SCOPE_NONE,
    REPLY_MESSAGES, /* throttled: this one to SESSION */
    REPLY_RECIPIENTS,
    REPLY_CONNECTION_RATE,
    REPLY_CONNECTIONS,
    REPLY_SESSION,
    REPLY_LANE, /* blocked: this one and DESTINATION */
    REPLY_DESTINATION,
    REPLY_SCOPE_COUNT
};

/* What the reply answers. */
enum reply_stage {
    REPLY_AT_GREETING,
    REPLY_AT_EHLO,
    REPLY_AT_STARTTLS,
    REPLY_AT_AUTH,
    REPLY_AT_MAIL,
    REPLY_AT_RCPT,
    REPLY_AT_DATA,
    REPLY_AT_END, /* of the content */
    REPLY_STAGE_COUNT,
    REPLY_AT_NOTHING = REPLY_STAGE_COUNT /* there was no dialogue, or it is not known */
};

/* "throttled", ...; "" for REPLY_CLASS_NONE, REPLY_SCOPE_NONE and REPLY_AT_NOTHING; static */
const char *reply_class_text(enum reply_class class) NONNULL_RET;
const char *reply_scope_text(enum reply_scope scope) NONNULL_RET;
const char *reply_stage_text(enum reply_stage stage) NONNULL_RET;
/* The COUNT of the enum: there is no such word. */
enum reply_class reply_class_find(struct slice word);
enum reply_scope reply_scope_find(struct slice word);
enum reply_stage reply_stage_find(struct slice word);
/* Whether a reply of this class can speak about that: each class has its own scopes, most none. */
bool reply_scope_fits(enum reply_scope scope, enum reply_class class);
/* What a reply of this class is about when nobody says so. */
enum reply_scope reply_scope_usual(enum reply_class class);

#define REPLY_STATUS_BYTES 12 /* with NUL: "5.7.999" */

/* One reply and what is known around it. Zeroed is an empty one, at the greeting. */
struct reply {
    enum reply_stage stage;
    uint16_t code;                   /* 0: there was none; the text says what happened instead */
    char status[REPLY_STATUS_BYTES]; /* enhanced; x.0.0: none; "" without a code */
    struct slice text;               /* without the code */
    struct slice provider;           /* of the site; "": not known */
    bool is_later_mail; /* the session's first MAIL was accepted, and this one is another */
    bool has_others;    /* other connections of the lane live */
    bool is_known_here; /* the destination accepted this recipient's mail before */
    bool is_report;     /* nobody said it to us, a report recounts it */
    bool is_unsaid;     /* nor was it said to whoever reports: the words are the report's own */
};

/* Take a line apart: "550 5.1.1 no such user", or as results, events and logs have it: "host
 * NAME[ADDRESS] said: 550 5.1.1 no such user (in reply to RCPT TO command)", or as it is shown, with
 * code and status in front. Of a text without a code all of it is the text. Slices are of the line.
 *
 * ret  all is set but what is known around the reply; its stage only where the line tells it, and
 *      for a text without a code REPLY_AT_NOTHING */
void reply_read(struct slice line, struct reply *ret);
/* The length of the enhanced status that the text's first word is; 0: it is none. */
size_t reply_status_len(struct slice text);

#endif
