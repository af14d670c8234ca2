/* One rule of a rules file: what replies it is about, and what they mean. Pure. */
#ifndef ENGINE_REPLY_RULE_H
#define ENGINE_REPLY_RULE_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/reply/reply.h"
#include "engine/reply/reply_action.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_CODE_FIRST    400 /* rules are about replies that refuse */
#define REPLY_CODE_COUNT    200
#define REPLY_STATUSES_MAX  8
#define REPLY_TEXT_MAX      1000 /* bytes of a reply that rules see */
#define REPLY_PATTERN_MAX   2000 /* bytes of a regular expression, or of an example */
#define REPLY_RULE_NAME_MAX 64

struct reply_rule {
    char *name;       /* the title */
    const char *file; /* the reader's */
    unsigned line;
    char *provider;  /* NULL: any; "microsoft" is for "microsoft-365" as well */
    uint32_t stages; /* bits by enum reply_stage; 0: any */
    uint64_t codes[(REPLY_CODE_COUNT + 63) / 64];
    bool has_codes;                                        /* else any */
    char statuses[REPLY_STATUSES_MAX][REPLY_STATUS_BYTES]; /* "4.7.28", "x.7.x" */
    uint32_t status_count;                                 /* 0: any */
    char *text;                                            /* regular expression; NULL: any */
    unsigned text_line;
    enum reply_class class;
    enum reply_scope scope;
    struct reply_action actions[REPLY_ACTIONS_MAX];
    uint32_t action_count; /* 0: what its class does */
    char *example;         /* a reply that it is about; NULL: none */
    unsigned example_line;
};

static inline bool reply_rule_has_code(const struct reply_rule *r, uint16_t code)
{
    unsigned bit = (unsigned)code - REPLY_CODE_FIRST;
    return !r->has_codes || (bit < REPLY_CODE_COUNT && (r->codes[bit / 64] >> (bit % 64) & 1) != 0);
}

/* Everything but the text, and the code, which whoever asks has looked at. What is not known of the
 * reply, its stage or provider, hinders no rule. */
MUST_USE bool reply_rule_fits(const struct reply_rule *r, const struct reply *reply);
/* The stage of its example, when the example does not tell it: its first, or REPLY_AT_NOTHING. */
enum reply_stage reply_rule_stage(const struct reply_rule *r);
void reply_rule_fini(struct reply_rule *r); /* accepts a zeroed one */

#endif
