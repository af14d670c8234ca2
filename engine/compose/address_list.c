/* Owns the reading of address headers. Pure; must not judge whether an address can be delivered. */
#include "engine/compose/address_list.h"

#include "base/error.h"

#include <stdbool.h>

struct parser {
    struct slice text;
    size_t at;
    char address[ADDRESS_LIST_ADDRESS_MAX_BYTES];
    size_t len;
    bool is_angle;  /* between < and > */
    bool had_angle; /* the address of this mailbox stood in <...> */
    bool is_too_long;
};

static void keep_char(struct parser *p, char c)
{
    if (p->had_angle && !p->is_angle) {
        return; /* words after <...> are no part of the address */
    }
    if (p->len == sizeof(p->address)) {
        p->is_too_long = true;
        return;
    }
    p->address[p->len++] = c;
}

/* Skip a comment: from its opening parenthesis past the closing one of the same level. */
static int skip_comment(struct parser *p)
{
    int depth = 0;
    for (; p->at < p->text.len; p->at++) {
        char c = p->text.data[p->at];
        if (c == '\\') {
            p->at++;
        } else if (c == '(') {
            depth++;
        } else if (c == ')' && --depth == 0) {
            p->at++;
            return 0;
        }
    }
    return ERR_SYNTAX;
}

/* A quoted string or a domain literal, kept as it stands. */
static int keep_until(struct parser *p, char end)
{
    keep_char(p, p->text.data[p->at++]);
    for (; p->at < p->text.len; p->at++) {
        char c = p->text.data[p->at];
        if (c == '\r' || c == '\n') {
            continue; /* folding */
        }
        keep_char(p, c);
        if (c == '\\' && p->at + 1 < p->text.len) {
            keep_char(p, p->text.data[++p->at]);
        } else if (c == end) {
            p->at++;
            return 0;
        }
    }
    return ERR_SYNTAX;
}

/* "@relay,@relay:local@domain" is local@domain. */
static struct slice without_route(struct slice s)
{
    if (s.len > 0 && s.data[0] == '@') {
        size_t colon = slice_find(s, ':');
        return colon < s.len ? slice_from(s, colon + 1) : s;
    }
    return s;
}

static int end_mailbox(struct parser *p, int (*found)(void *, struct slice), void *ctx)
{
    struct slice address = without_route(slice_make(p->address, p->len));
    int err = p->is_angle || p->is_too_long ? ERR_SYNTAX : 0;
    if (err == 0 && address.len > 0) {
        err = found(ctx, address);
    }
    p->len = 0;
    p->had_angle = false;
    return err;
}

static int step_address(struct parser *p, int (*found)(void *, struct slice), void *ctx)
{
    char c = p->text.data[p->at];
    switch (c) {
    case '(':
        return skip_comment(p);
    case '"':
        return keep_until(p, '"');
    case '[':
        return keep_until(p, ']');
    case '<':
        if (p->is_angle || p->had_angle) {
            return ERR_SYNTAX;
        }
        p->len = 0; /* what stood before is the display name */
        p->is_too_long = false;
        p->is_angle = p->had_angle = true;
        break;
    case '>':
        if (!p->is_angle) {
            return ERR_SYNTAX;
        }
        p->is_angle = false;
        break;
    case ',':
    case ';':
        if (p->is_angle && c == ',') {
            keep_char(p, c); /* inside a source route */
            break;
        }
        p->at++;
        return end_mailbox(p, found, ctx);
    case ':':
        if (p->is_angle) {
            keep_char(p, c);
        } else {
            p->len = 0; /* the name of a group */
        }
        break;
    case ' ':
    case '\t':
    case '\r':
    case '\n':
        break;
    default:
        keep_char(p, c);
        break;
    }
    p->at++;
    return 0;
}

int address_list_parse(struct slice text, int (*found)(void *ctx, struct slice address), void *ctx)
{
    struct parser p = {.text = text};
    int err = 0;
    while (p.at < text.len && err == 0) {
        err = step_address(&p, found, ctx);
    }
    return err < 0 ? err : end_mailbox(&p, found, ctx);
}
