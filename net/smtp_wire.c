/* Dot-stuffing without copies, and the automaton over written bytes. Pure. */
#include "net/smtp_wire.h"

#include "base/error.h"
#include "net/smtp_text.h"

void smtp_wire_init(struct smtp_wire *w)
{
    *w = (struct smtp_wire){.at_line_start = true};
}

/* Length of the part of s that needs no doubled dot behind its first byte: up to and including the
 * first LF that is followed by a dot, or all of it.
 *
 * returns  0 when a line end is not CRLF, or for a NUL */
static size_t plain_run(const struct smtp_wire *w, struct slice s)
{
    size_t at = 0;
    bool had_cr = w->has_cr;
    while (at < s.len) {
        bool has_8bit; /* goes out as it is */
        if (!had_cr) {
            at += smtp_text_span(slice_from(s, at), &has_8bit);
            if (at == s.len) {
                break; /* an open line */
            }
            if (s.data[at] != '\r') {
                return 0;
            }
            at++;
            if (at == s.len) {
                break; /* the LF of this CR comes with a later piece */
            }
        }
        if (s.data[at] != '\n') {
            return 0;
        }
        had_cr = false;
        at++;
        if (at < s.len && s.data[at] == '.') {
            return at;
        }
    }
    return s.len;
}

int smtp_wire_runs(struct smtp_wire *w, struct slice *in, struct slice *runs, int max)
{
    int count = 0;
    struct smtp_wire next = *w;
    struct slice rest = *in;
    while (!next.is_malformed && rest.len > 0 && count < max) {
        if (next.at_line_start && rest.data[0] == '.' && !next.is_dot_doubled) {
            /* This run writes the dot, the next one begins with it again. */
            if (count > 0) {
                runs[count - 1].len++;
            } else {
                runs[count++] = slice_to(rest, 1);
            }
            next.is_dot_doubled = true;
            continue;
        }
        size_t len = plain_run(&next, rest);
        if (len == 0) {
            next.is_malformed = true;
            break;
        }
        runs[count++] = slice_to(rest, len);
        char last = rest.data[len - 1];
        next = (struct smtp_wire){.has_cr = last == '\r', .at_line_start = last == '\n'};
        rest = slice_from(rest, len);
    }
    if (next.is_malformed) {
        w->is_malformed = true;
        return ERR_SYNTAX;
    }
    *w = next;
    *in = rest;
    return count;
}

int smtp_wire_end(const struct smtp_wire *w, struct slice *ret)
{
    if (w->is_malformed || w->has_cr) {
        return ERR_SYNTAX;
    }
    *ret = w->at_line_start ? SLICE("") : SLICE("\r\n");
    return 0;
}

void smtp_wire_check_init(struct smtp_wire_check *check)
{
    *check = (struct smtp_wire_check){.state = SMTP_WIRE_LINE_START};
}

/* A byte that is not the expected end of a line, in or at the start of text. */
static enum smtp_wire_state text_byte(char c)
{
    if (c == '\n' || c == '\0') {
        return SMTP_WIRE_BAD;
    }
    return c == '\r' ? SMTP_WIRE_CR : SMTP_WIRE_TEXT;
}

static enum smtp_wire_state next_state(enum smtp_wire_state state, char c)
{
    switch (state) {
    case SMTP_WIRE_LINE_START:
        return c == '.' ? SMTP_WIRE_DOT : text_byte(c);
    case SMTP_WIRE_TEXT:
        return text_byte(c);
    case SMTP_WIRE_CR:
        return c == '\n' ? SMTP_WIRE_LINE_START : SMTP_WIRE_BAD;
    case SMTP_WIRE_DOT:
        /* A lone dot ends the data; anything but a second dot was not stuffed. */
        if (c == '\r') {
            return SMTP_WIRE_DOT_CR;
        }
        return c == '.' ? SMTP_WIRE_TEXT : SMTP_WIRE_BAD;
    case SMTP_WIRE_DOT_CR:
        return c == '\n' ? SMTP_WIRE_ENDED : SMTP_WIRE_BAD;
    case SMTP_WIRE_ENDED:
    case SMTP_WIRE_BAD:
    case SMTP_WIRE_STATE_COUNT:
        break;
    }
    return SMTP_WIRE_BAD;
}

bool smtp_wire_check_bytes(struct smtp_wire_check *check, struct slice wire)
{
    for (size_t i = 0; i < wire.len && check->state != SMTP_WIRE_BAD; i++) {
        check->state = next_state(check->state, wire.data[i]);
        if (check->state == SMTP_WIRE_TEXT || check->state == SMTP_WIRE_DOT) {
            check->line_size++;
            if (check->line_size > check->longest_line) {
                check->longest_line = check->line_size;
            }
        } else if (check->state == SMTP_WIRE_LINE_START) {
            check->line_size = 0;
        }
    }
    return check->state != SMTP_WIRE_BAD;
}
