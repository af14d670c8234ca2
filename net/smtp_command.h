/* One SMTP command line: its verb, and the arguments of those verbs that have a grammar.
 * Called by smtp_server; pure; keeps nothing between calls. */
#ifndef NET_SMTP_COMMAND_H
#define NET_SMTP_COMMAND_H

#include "base/attr.h"
#include "base/slice.h"
#include "net/smtp_address.h"

#include <stdbool.h>
#include <stdint.h>

enum smtp_verb {
    SMTP_VERB_UNKNOWN,   /* a word, but none of ours */
    SMTP_VERB_BAD,       /* empty, or starts with white space or holds control characters */
    SMTP_VERB_FORBIDDEN, /* another protocol talks: HTTP, a mail header, TLS */
    SMTP_VERB_HELO,
    SMTP_VERB_EHLO,
    SMTP_VERB_STARTTLS,
    SMTP_VERB_AUTH,
    SMTP_VERB_MAIL,
    SMTP_VERB_RCPT,
    SMTP_VERB_DATA,
    SMTP_VERB_BDAT,
    SMTP_VERB_RSET,
    SMTP_VERB_NOOP,
    SMTP_VERB_VRFY,
    SMTP_VERB_EXPN,
    SMTP_VERB_HELP,
    SMTP_VERB_QUIT,
    SMTP_VERB_COUNT
};

struct smtp_command {
    enum smtp_verb verb;
    struct slice args; /* behind the verb, without spaces at both ends */
    bool has_8bit;     /* some byte of args is above 127 */
};

/* Whether a line that begins with this byte cannot be SMTP: the connection is to be closed
 * without waiting for a line end, which a TLS ClientHello may not have. */
bool smtp_command_is_alien(char first);

/* Take a line apart; line is without its CRLF. Verbs match in any case. */
struct smtp_command smtp_command_parse(struct slice line);

/* Whether a line may have been meant as BDAT, so that content follows it whatever it says. */
bool smtp_command_is_bdat(struct slice line);

enum smtp_command_fault {
    SMTP_COMMAND_OK,
    SMTP_COMMAND_BAD_SYNTAX,
    SMTP_COMMAND_BAD_ADDRESS,
    SMTP_COMMAND_BAD_PARAMETER,     /* known, but its value is wrong or it stands twice */
    SMTP_COMMAND_UNKNOWN_PARAMETER, /* also a parameter that EHLO did not offer */
    SMTP_COMMAND_NEEDS_UTF8,        /* 8-bit address without SMTPUTF8 */
    SMTP_COMMAND_FAULT_COUNT
};

/* Which extensions MAIL may use. */
struct smtp_command_offers {
    bool smtputf8;
    bool auth;
    bool mt_priority;
    bool requiretls;
};

struct smtp_mail {
    struct smtp_address sender;
    uint64_t size; /* SIZE=; UINT64_MAX when it does not fit, 0 when absent */
    bool is_8bitmime;
    bool is_smtputf8;
    bool requires_tls; /* REQUIRETLS (RFC 8689) */
    bool has_priority; /* MT-PRIORITY= */
    int8_t priority;   /* -9 to 9 */
};

/* The arguments of MAIL: "FROM:<path> parameters".
 * source   RFC 5321 4.1.2, RFC 1870, 6152, 6531, 6710, 4954 section 5 */
MUST_USE enum smtp_command_fault
smtp_command_mail(struct slice args, struct smtp_command_offers offers, struct smtp_mail *ret);

/* The arguments of RCPT: "TO:<path>"; no parameter is known.
 * is_smtputf8   what the transaction's MAIL said */
MUST_USE enum smtp_command_fault smtp_command_rcpt(struct slice args, bool is_smtputf8,
                                                   struct smtp_address *ret);

/* The arguments of BDAT: "size [LAST]".
 * returns  false on bad syntax; *ret_size is UINT64_MAX when the number does not fit */
MUST_USE bool smtp_command_bdat(struct slice args, uint64_t *ret_size, bool *ret_last);

#endif
