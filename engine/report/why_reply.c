/* Classifies what is shown, anew: the spool and the event log keep replies, and rules may have
 * changed since. Called by whoever answers why. */
#include "engine/report/why_reply.h"

#include "base/buf.h"
#include "engine/http/api.h"
#include "engine/http/clerk.h"
#include "engine/reply/reply_set.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdio.h>

#define RULE_TEXT_MAX 400

void why_reply(struct why *w, json_t *link, struct slice line)
{
    struct reply_matcher *m = reply_matcher_new();
    const struct reply_set *set = settings_of(w->clerk->engine)->replies;
    struct reply_verdict v = {.class = REPLY_CLASS_NONE};
    struct reply reply;
    char rule[RULE_TEXT_MAX] = "";
    struct buf text;
    reply_read(line, &reply);
    if (m != NULL && reply.code != 0) {
        reply_set_classify(set, m, &reply, &v);
    }
    if (v.class == REPLY_CLASS_NONE) {
        why_because(link, line);
    } else {
        const struct reply_rule *r = v.rule == REPLY_NO_RULE ? NULL : reply_set_rule(set, v.rule);
        if (r != NULL) {
            (void)snprintf(rule, sizeof(rule), "rule %s at %s:%u", r->name, r->file, r->line);
        } else {
            (void)snprintf(rule, sizeof(rule), "no rule, by %s", v.why);
        }
        buf_init(&text, 0);
        buf_printf(&text, SLICE_FMT " [%s: %s]", SLICE_ARG(line), reply_class_text(v.class), rule);
        why_because(link, text.failed ? line : buf_slice(&text));
        buf_fini(&text);
        if (link != NULL) {
            api_set_text(link, "class", slice_of(reply_class_text(v.class)));
            api_set_text(link, "rule", slice_of(rule));
        }
    }
    reply_matcher_free(m);
}
