/* Why something stands: by which rule, since when, how often. Called with the lock held by whatever
 * changes a lane; must not decide anything. */
#include "engine/limit/limits_private.h"

#include <stdlib.h>
#include <string.h>

void limits_copy_text(char *ret, size_t size, struct slice text)
{
    size_t len = text.len < size ? text.len : size - 1;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        ret[i] = c < ' ' || c == 0x7f ? ' ' : text.data[i];
    }
    ret[len] = '\0';
}

/* Without memory it stands without a cause. */
void limits_fact_note(struct limits_learned *learned, unsigned kind, struct slice rule,
                      struct slice text, usec_t now)
{
    struct limits_fact *fact = learned->facts[kind];
    if (fact == NULL) {
        fact = learned->facts[kind] = calloc(1, sizeof(*fact));
    }
    if (fact == NULL) {
        return;
    }
    fact->since = fact->times == 0 ? now : fact->since;
    fact->times++;
    limits_copy_text(fact->rule, sizeof(fact->rule), rule);
    limits_copy_text(fact->text, sizeof(fact->text), text);
}

void limits_fact_end(struct limits_learned *learned, unsigned kind)
{
    if (learned->facts[kind] != NULL) {
        *learned->facts[kind] = (struct limits_fact){0};
    }
}
