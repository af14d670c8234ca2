/* What is done because of a reply, as a rule says it: "pause 10m after 3 in 5m". Pure. Whoever
 * reacts carries it out; here it is only read and printed. */
#ifndef ENGINE_REPLY_ACTION_H
#define ENGINE_REPLY_ACTION_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdint.h>

enum reply_action_kind {
    REPLY_ACTION_NONE, /* nothing, not even what its class would do */
    REPLY_SLOW,        /* the lane's pace, by the factor */
    REPLY_PAUSE,       /* the lane sends nothing for the span */
    REPLY_CLOSE,       /* the lane, for the span */
    REPLY_CLOSE_SITE,  /* all lanes of the site */
    REPLY_NEXT_HOST,   /* the site's next server is tried, whatever the code */
    REPLY_DEFER,       /* also a 5xx; for the span, or by the retry schedule where it is 0 */
    REPLY_BOUNCE,      /* also a 4xx */
    REPLY_SUSPEND_TENANT,
    REPLY_SUSPEND_CAMPAIGN,
    REPLY_ACTION_KIND_COUNT
};

struct reply_action {
    enum reply_action_kind kind;
    uint32_t factor; /* SLOW: thousandths of the pace that are left; 0: the reaction's own step */
    usec_t span;     /* 0: none */
    uint32_t after;  /* only from that reply of the rule on; 0 and 1: at once */
    usec_t period;   /* counted in the last of that; 0 where after is */
};

#define REPLY_ACTIONS_MAX     4
#define REPLY_ACTION_WHY_MAX  200
#define REPLY_ACTION_TEXT_MAX 80

/* errors   ERR_SYNTAX: ret_why says "what is wrong; what would be right" */
MUST_USE int reply_action_parse(struct slice text, struct reply_action *ret,
                                char ret_why[static REPLY_ACTION_WHY_MAX]);
/* As a rule would say it. returns ret */
const char *reply_action_text(const struct reply_action *a,
                              char ret[static REPLY_ACTION_TEXT_MAX]) NONNULL_RET;
/* A time that somebody wrote: "90s", "15m", "2h", "1d". errors: ERR_SYNTAX, with ret_why */
MUST_USE int reply_action_span(struct slice text, usec_t *ret,
                               char ret_why[static REPLY_ACTION_WHY_MAX]);

#endif
