/* A refusal that says something about us and not only about its recipient: "slow down", "your
 * address is blocked", or one for which a rule names an action. The recipients that it is about are
 * held: they get no result until the scheduler thread, which knows what else goes to that receiver,
 * has said what becomes of them.
 *
 * Made by the worker that heard it, and belongs to the request; whoever has the delivery reads it.
 * It refers to nothing of the connection. */
#ifndef ENGINE_REFUSAL_H
#define ENGINE_REFUSAL_H

#include "base/attr.h"
#include "base/clock.h"
#include "dns/hosts.h"
#include "engine/outbound/request_session.h"
#include "engine/reply/reply_rule.h"
#include "net/outcome.h"

#include <stdbool.h>
#include <stdint.h>

struct reply_verdict;

struct refusal {
    enum reply_class class;
    enum reply_scope scope;
    char rule[REPLY_RULE_NAME_MAX]; /* that decided; "": the table of replies without one */
    struct reply_action actions[REPLY_ACTIONS_MAX]; /* of that rule */
    uint32_t action_count;
    usec_t hint;                    /* the time that the reply asks for; 0: none */
    struct outcome_verdict verdict; /* of the client's core; its text is in `bytes` */
    bool is_own;                    /* no receiver said anything: the source could not connect */
    bool is_complete;               /* the mail dialogue ran to its end */
    bool is_returned;               /* it ended the session, and is nothing that the recipients got:
                                     * as the code says they go to another connection */
    enum outcome_class falls_to;    /* what it is for the recipients if nobody else can take them:
                                  * OUTCOME_SOFT or _HARD, whatever the code */
    struct request_session session; /* of the connection that it was said on */
    struct dns_host host;           /* session.host */
    struct ip ours;                 /* the address that the receiver saw; family 0: not known */
    char bytes[];                   /* what the slices above are of */
};

/* Whether refusals with this meaning wait for the scheduler thread.
 *
 * actions  how many the rule names that decided */
MUST_USE bool refusal_is_wider(const struct reply_verdict *meaning, uint32_t actions);
/* Everything is copied.
 *
 * rule    that decided; NULL: none
 * errors  NULL when out of memory: the recipients then get what the verdict says
 * frees   the caller, with free */
MUST_USE struct refusal *refusal_new(const struct reply_verdict *meaning,
                                     const struct reply_rule *rule, const struct outcome_verdict *v,
                                     const struct request_session *session);

#endif
