/* A limit's value as text, both ways.
 * Called by the thread that talks to the cluster. The reader must trust nothing: other versions of
 * this program, and operators with a tool, write there too. */
#include "base/error.h"
#include "engine/cluster/limit_share.h"

#define LEFT_MAX (LIMIT_SHARE_UNITS_MAX * 1000U) /* a token a unit at least, in thousandths */

void limit_share_print(struct buf *out, const struct limit_share *v)
{
    buf_printf(out, "1 %u %u", v->turn, v->left);
    for (uint32_t i = 0; i < v->count; i++) {
        const struct limit_share_entry *e = &v->entries[i];
        buf_printf(out, " %u:%u:%u", e->node, e->share, e->want);
    }
}

/* Take a number without needless zeros in front off the text.
 * errors: ERR_SYNTAX; ERR_LIMIT above `most` */
static int take_number(struct slice *text, uint32_t most, uint32_t *ret)
{
    uint64_t value = 0;
    size_t len = 0;
    while (len < text->len && len < 11 && text->data[len] >= '0' && text->data[len] <= '9') {
        value = value * 10 + (uint64_t)(text->data[len] - '0');
        len++;
    }
    if (len == 0 || (len > 1 && text->data[0] == '0')) {
        return ERR_SYNTAX;
    }
    if (value > most) {
        return ERR_LIMIT;
    }
    *text = slice_from(*text, len);
    *ret = (uint32_t)value;
    return 0;
}

static int take_byte(struct slice *text, char c)
{
    if (text->len == 0 || text->data[0] != c) {
        return ERR_SYNTAX;
    }
    *text = slice_from(*text, 1);
    return 0;
}

static int take_entry(struct slice *text, struct limit_share_entry *ret)
{
    uint32_t node = 0;
    int err = take_byte(text, ' ');
    err = err == 0 ? take_number(text, UINT16_MAX, &node) : err;
    err = err == 0 ? take_byte(text, ':') : err;
    err = err == 0 ? take_number(text, LIMIT_SHARE_UNITS_MAX, &ret->share) : err;
    err = err == 0 ? take_byte(text, ':') : err;
    err = err == 0 ? take_number(text, LIMIT_SHARE_UNITS_MAX, &ret->want) : err;
    ret->node = (uint16_t)node;
    return err;
}

int limit_share_parse(struct slice text, struct limit_share *ret)
{
    struct limit_share v = {.count = 0};
    uint16_t last = 0; /* number 0 is nobody's */
    int err = take_byte(&text, '1');
    err = err == 0 ? take_byte(&text, ' ') : err;
    err = err == 0 ? take_number(&text, UINT32_MAX, &v.turn) : err;
    err = err == 0 ? take_byte(&text, ' ') : err;
    err = err == 0 ? take_number(&text, LEFT_MAX, &v.left) : err;
    while (err == 0 && text.len > 0) {
        struct limit_share_entry e = {.node = 0};
        err = take_entry(&text, &e);
        if (err == 0 && e.node <= last) {
            err = ERR_SYNTAX;
        }
        if (err == 0 && v.count == LIMIT_SHARE_NODES_MAX) {
            err = ERR_LIMIT;
        }
        if (err == 0) {
            v.entries[v.count++] = e;
            last = e.node;
        }
    }
    if (err == 0) {
        *ret = v;
    }
    return err;
}
