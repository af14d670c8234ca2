#include "engine/outbound/refusal.h"

#include "engine/reply/reply_hint.h"
#include "engine/reply/reply_set.h"

#include <stdlib.h>
#include <string.h>

bool refusal_is_wider(const struct reply_verdict *v, uint32_t actions)
{
    return v->class == REPLY_THROTTLED || v->class == REPLY_BLOCKED || actions > 0;
}

/* Appends a copy of s to the bytes that stand at *at, and returns it. */
static struct slice keep(char **at, struct slice s)
{
    char *copy = *at;
    if (s.len > 0) {
        memcpy(copy, s.data, s.len);
    }
    *at += s.len;
    return slice_make(copy, s.len);
}

struct refusal *refusal_new(const struct reply_verdict *meaning, const struct reply_rule *rule,
                            const struct outcome_verdict *v, const struct request_session *s)
{
    size_t address = strlen(s->address) + 1;
    struct refusal *f =
        calloc(1, sizeof(*f) + v->text.len + s->source.len + s->host->name.len + address);
    if (f == NULL) {
        return NULL;
    }
    char *at = f->bytes;
    f->class = meaning->class;
    f->scope = meaning->scope;
    if (rule != NULL) {
        (void)strncpy(f->rule, rule->name, sizeof(f->rule) - 1);
        memcpy(f->actions, rule->actions, sizeof(f->actions));
        f->action_count = rule->action_count;
    }
    f->hint = reply_hint(v->text);
    f->verdict = *v;
    f->falls_to = v->class;
    f->verdict.text = keep(&at, v->text);
    f->session = *s;
    f->session.source = keep(&at, s->source);
    f->host = *s->host;
    f->host.name = keep(&at, s->host->name);
    f->host.tlsa = NULL;
    f->session.host = &f->host;
    f->session.address = keep(&at, slice_make(s->address, address)).data;
    return f;
}
