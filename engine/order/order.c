/* Orders as data. Called by the order book, its file and the API's handlers. Must not know what an
 * order does. */
#include "engine/order/order.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>

static const char *const kinds[ORDER_KIND_COUNT] = {
    [ORDER_NONE] = "none",
    [ORDER_SUSPEND] = "suspend",
    [ORDER_BOUNCE] = "bounce",
    [ORDER_DROP] = "drop",
};

const char *order_kind_text(enum order_kind kind)
{
    return kinds[kind];
}

enum order_kind order_kind_find(struct slice text)
{
    for (enum order_kind kind = ORDER_SUSPEND; kind < ORDER_KIND_COUNT; kind++) {
        if (slice_eq(text, slice_of(kinds[kind]))) {
            return kind;
        }
    }
    return ORDER_NONE;
}

bool order_is_of(const struct order *o, struct slice tenant)
{
    return o->owner == NULL || slice_eq(slice_of(o->owner), tenant);
}

bool order_is_visible(const struct order *o, struct slice tenant)
{
    const char *named = o->owner != NULL ? o->owner : o->selector.value[SELECTOR_TENANT];
    return tenant.len == 0 || (named != NULL && slice_eq(slice_of(named), tenant));
}

void order_init(struct order *o)
{
    *o = (struct order){0};
}

void order_fini(struct order *o)
{
    selector_fini(&o->selector);
    free(o->owner);
    free(o->site);
    free(o->reason);
    free(o->by);
    order_init(o);
}

int order_set_text(char **text, struct slice value, size_t most)
{
    if (value.len > most) {
        return ERR_LIMIT;
    }
    for (size_t i = 0; i < value.len; i++) {
        if ((uint8_t)value.data[i] < ' ' || value.data[i] == 0x7f) {
            return ERR_SYNTAX;
        }
    }
    json_t *checked = value.len == 0 ? NULL : json_stringn(value.data, value.len);
    if (checked == NULL) {
        return ERR_SYNTAX;
    }
    json_decref(checked);
    char *copy = slice_dup(value);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(*text);
    *text = copy;
    return 0;
}
