/* Decoding of received message content (DATA or BDAT) and the facts learnt on the way.
 * Owned by smtp_server; pure. This is the only place that decides where a DATA body ends: at the
 * exact bytes CR LF . CR LF and nothing else. */
#ifndef NET_SMTP_BODY_H
#define NET_SMTP_BODY_H

#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What makes a message unacceptable; found while reading, told after its true end. */
enum smtp_body_fault {
    SMTP_BODY_OK,
    SMTP_BODY_BARE_CR,
    SMTP_BODY_BARE_LF,
    SMTP_BODY_NUL,
    SMTP_BODY_TOO_LARGE,
    SMTP_BODY_LINE_TOO_LONG,
    SMTP_BODY_HEADER_TOO_LARGE,
    SMTP_BODY_NO_MEMORY,
    SMTP_BODY_FAULT_COUNT
};

/* Facts about the decoded bytes: dots unstuffed, every line ends with CRLF. */
struct smtp_body_facts {
    uint64_t size;           /* bytes */
    uint64_t header_size;    /* bytes of the header fields; the separating empty line comes after */
    uint64_t longest_line;   /* bytes without CRLF */
    uint32_t header_fields;  /* number */
    uint32_t received_count; /* Received: fields, that is hops so far */
    bool has_separator;      /* an empty line follows the header fields */
    bool has_leading_dot;    /* some line begins with '.' (sending by DATA must stuff it) */
    bool has_8bit;           /* some byte is above 127, in header or content */
    bool has_8bit_header;    /* some byte of the header fields is above 127 */
    bool has_message_id, has_date, has_from;
    bool has_tls_required; /* RFC 8689 section 3; what it says is not looked at */
};

struct smtp_body_limits {
    uint64_t size;          /* bytes decoded; 0 = no limit */
    uint64_t header_size;   /* bytes; 0 = no limit */
    uint64_t line;          /* bytes without CRLF; 0 = no limit */
    uint32_t header_fields; /* number; 0 = no limit */
    bool fix_bare_lf;       /* a bare LF becomes CRLF; it never helps to end the data */
};

enum smtp_body_line { /* where in a line the decoder stands; all that ends DATA is here */
                      SMTP_BODY_LINE_START, /* after CRLF, or at the first byte */
                      SMTP_BODY_DOT,        /* line start, then '.' (DATA only) */
                      SMTP_BODY_DOT_CR,     /* line start, then ". CR" (DATA only) */
                      SMTP_BODY_TEXT,
                      SMTP_BODY_CR, /* CR within or at the end of text */
};

enum smtp_body_header { /* where in the header section */
                        SMTP_BODY_FIELD_START,
                        SMTP_BODY_FIELD_NAME,
                        SMTP_BODY_FIELD_NAME_END, /* white space between name and colon */
                        SMTP_BODY_FIELD_VALUE,
                        SMTP_BODY_HEADER_DONE,
};

struct smtp_body {
    struct smtp_body_limits limits;
    struct smtp_body_facts facts;
    enum smtp_body_fault fault; /* the first one found */
    enum smtp_body_line line;
    enum smtp_body_header header;
    bool has_dots;      /* DATA: unstuff and look for the end; else BDAT */
    uint64_t line_size; /* bytes of the current line so far */
    uint32_t name_len;  /* of the current field; may exceed the array */
    char name[16];      /* in lower case, cut */
};

void smtp_body_init(struct smtp_body *body, const struct smtp_body_limits *limits, bool has_dots);

enum smtp_body_result {
    SMTP_BODY_MORE, /* all of in is consumed */
    SMTP_BODY_FULL, /* out has no room for another byte */
    SMTP_BODY_END,  /* the end of DATA was consumed; in begins behind it */
};

/* Decode bytes of in and append them to out until in is empty, out is at its limit (out->limit,
 * which must be set and be at least 2), or DATA ends. After a fault nothing more is appended, but
 * decoding goes on to the true end, and facts.size keeps counting.
 *
 * in   in/out; moved past what was consumed */
enum smtp_body_result smtp_body_decode(struct smtp_body *body, struct slice *in, struct buf *out);

/* Learn the facts of content that has no dots to take away, and has its place already: as
 * smtp_body_decode, but for the copy.
 *
 * body  not for DATA */
void smtp_body_look(struct smtp_body *body, struct slice in);

/* The last BDAT chunk is complete: a last line without CRLF gets one.
 * returns SMTP_BODY_FULL when out has no room for two bytes (call again), else SMTP_BODY_END */
enum smtp_body_result smtp_body_finish(struct smtp_body *body, struct buf *out);

#endif
