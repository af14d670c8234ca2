#include "tests/sim/smtp_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what is seen ----------------------------------------------------------------------------- */

static void push(struct view *v, enum hostile_kind kind, unsigned recipient)
{
    if (v->count == VIEW_COMMANDS) {
        abort();
    }
    v->commands[v->count++] = (struct view_command){kind, v->message, recipient};
}

static void end_line(struct view *v)
{
    static const struct {
        const char *verb;
        enum hostile_kind kind;
    } verbs[] = {{"EHLO", HOSTILE_EHLO}, {"HELO", HOSTILE_EHLO}, {"RSET", HOSTILE_RESET},
                 {"DATA", HOSTILE_DATA}, {"QUIT", HOSTILE_QUIT}, {".\r\n", HOSTILE_END}};
    bool is_chunk = memcmp(v->line, "BDAT", 4) == 0;
    if (v->count == 0) {
        push(v, HOSTILE_GREETING, 0);
    }
    if (memcmp(v->line, "MAIL", 4) == 0) {
        v->message = (unsigned)strtoul(v->line + 12, NULL, 10);
        v->recipient = 0;
        push(v, HOSTILE_MAIL, 0);
    } else if (memcmp(v->line, "RCPT", 4) == 0) {
        push(v, HOSTILE_RCPT, v->recipient++);
    } else if (is_chunk) {
        push(v, HOSTILE_END, 0);
        v->is_chunk[v->message] = true;
    }
    for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (memcmp(v->line, verbs[i].verb, strlen(verbs[i].verb)) == 0) {
            push(v, verbs[i].kind, 0);
        }
    }
    v->complete = v->count - (is_chunk ? 1 : 0);
}

void view_hand_over(struct view *v, struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        v->line[v->line_len] = bytes.data[i];
        v->line_len += v->line_len < sizeof(v->line) - 2 ? 1 : 0;
        v->line[v->line_len] = '\0';
        if (bytes.data[i] == '\n') {
            end_line(v);
            v->line_len = 0;
        }
    }
}

void view_end_chunk(struct view *v)
{
    v->complete = v->count;
}

void view_read(struct view *v, const struct hostile *p, uint64_t seen)
{
    while (v->dated < p->reply_count && hostile_reply_begin(p, v->dated) < seen) {
        /* the greeting is asked for by the connection itself */
        v->complete_at[v->dated++] = v->complete > 0 ? v->complete : 1;
    }
}

/* --- the other explanation -------------------------------------------------------------------- */

struct story {
    bool is_open, has_recipient; /* of the transaction under way */
    bool is_chunk;               /* by BDAT */
    bool is_lone_dot;            /* 354 was said though it has none: to nobody */
    bool is_mail_good, is_rcpt_good, is_refused, is_granted; /* of the message asked about */
};

static unsigned code_of(struct slice text)
{
    return text.len < 3
               ? 0
               : (unsigned)strtoul((char[]){text.data[0], text.data[1], text.data[2], 0}, NULL, 10);
}

/* Whether a server that behaves may grant this command now. */
static bool may_grant(const struct story *s, enum hostile_kind kind, struct slice text)
{
    unsigned class = code_of(text) / 100;
    bool is_of_address = text.len > 8 && memcmp(text.data + 4, "2.1.", 4) == 0;
    switch ((int)kind) {
    case HOSTILE_DATA:
        return class == 3;
    case HOSTILE_RCPT:
        return class == 2 && s->is_open;
    case HOSTILE_END:
        return class == 2 && (!is_of_address || !s->is_chunk) &&
               (s->has_recipient || s->is_lone_dot);
    default:
        return class == 2;
    }
}

/* Whether what was said to ends can be told from what was said to the other kind, or is the very
 * same. */
static bool is_one_way(const struct view *v, const struct hostile *p, unsigned count,
                       enum hostile_kind other)
{
    struct slice first = {0};
    bool is_shared = false;
    bool has_varied = false;
    for (unsigned i = 0; i < count; i++) {
        struct slice a = hostile_reply_text(p, i);
        enum hostile_kind kind = v->commands[i].kind;
        if (code_of(a) >= 300 || (kind != HOSTILE_END && kind != other)) {
            continue;
        }
        first = first.len == 0 ? a : first;
        has_varied = has_varied || !slice_eq(first, a);
        for (unsigned j = 0; j < i; j++) {
            enum hostile_kind before = v->commands[j].kind;
            is_shared =
                is_shared || (before != kind && (before == HOSTILE_END || before == other) &&
                              slice_eq(a, hostile_reply_text(p, j)));
        }
    }
    return !is_shared || !has_varied;
}

static void note(struct story *s, const struct view_command *c, bool is_granted, unsigned message,
                 unsigned recipient)
{
    bool is_ours = c->message == message;
    if (c->kind == HOSTILE_MAIL) {
        s->is_open = is_granted;
        s->has_recipient = false;
        s->is_mail_good = is_ours ? is_granted : s->is_mail_good;
        s->is_refused = s->is_refused || (is_ours && !is_granted);
    } else if (c->kind == HOSTILE_RCPT) {
        s->has_recipient = s->has_recipient || is_granted;
        if (is_ours && c->recipient == recipient) {
            s->is_rcpt_good = is_granted;
            s->is_refused = s->is_refused || !is_granted;
        }
    } else if (c->kind == HOSTILE_DATA) {
        s->is_lone_dot = is_granted && !s->has_recipient;
        s->is_refused = s->is_refused || (is_ours && !is_granted);
    } else if (c->kind == HOSTILE_END) {
        s->is_open = s->has_recipient = s->is_lone_dot = false;
        s->is_refused = s->is_refused || (is_ours && !is_granted);
        s->is_granted = s->is_granted || (is_ours && is_granted);
    }
}

/* Whether the reply that nothing asked for stands behind the end of a message that was granted in
 * a code of its own, or as one was granted before: then that is what is said of the message. */
static bool is_behind_end(const struct view *v, const struct hostile *p, unsigned at)
{
    struct slice end = hostile_reply_text(p, at - 1);
    if (at > v->count || v->commands[at - 1].kind != HOSTILE_END || end.len < 10) {
        return false;
    }
    bool is_own_code = end.data[5] == '.';
    bool is_own_text = false;
    bool is_shared = false;
    for (unsigned i = 0; i + 1 < at; i++) {
        struct slice text = hostile_reply_text(p, i);
        enum hostile_kind kind = v->commands[i].kind;
        if (kind == HOSTILE_MAIL || kind == HOSTILE_RCPT) {
            is_own_code = is_own_code && memcmp(text.data, end.data, 9) != 0;
            is_shared = is_shared || slice_eq(text, end);
        }
        is_own_text = is_own_text || (kind == HOSTILE_END && slice_eq(text, end));
    }
    return is_own_code || (is_own_text && !is_shared);
}

bool view_explains(const struct view *v, const struct hostile *p, struct view_moment when,
                   unsigned message, unsigned recipient, bool is_taken)
{
    struct story s = {0};
    bool is_gone = false; /* 421 was said */
    unsigned count = 0;
    for (unsigned i = 0; i < v->dated && hostile_reply_begin(p, i) < when.seen; i++) {
        struct slice text = hostile_reply_text(p, i);
        if (is_gone) {
            return false;
        }
        if (hostile_reply_begin(p, i) + text.len > when.taken) {
            /* It lay there; who decides reply by reply looks no farther. */
            bool is_excused = is_taken && (code_of(text) == 421 || is_behind_end(v, p, i));
            if (i >= v->complete_at[i] && !is_excused) {
                return false;
            }
            break;
        }
        if (i >= v->count) {
            return false;
        }
        const struct view_command *c = &v->commands[i];
        unsigned code = code_of(text);
        s.is_chunk = v->is_chunk[c->message];
        bool is_granted = code < 400;
        bool is_asked = i < v->complete_at[i] || (c->kind == HOSTILE_END && !is_granted);
        is_gone = code == 421 && !is_taken;
        if (!is_asked || (is_granted && !may_grant(&s, c->kind, text)) ||
            (!is_granted && !is_gone && c->kind == HOSTILE_RESET)) {
            return false;
        }
        note(&s, c, is_granted, message, recipient);
        count = i + 1;
    }
    for (enum hostile_kind other = HOSTILE_RESET; other <= HOSTILE_RCPT; other++) {
        if (v->is_chunk[message] && !is_one_way(v, p, count, other)) {
            return false;
        }
    }
    if (is_gone && !v->has_fin) {
        return false;
    }
    return is_taken ? s.is_mail_good && s.is_rcpt_good && s.is_granted
                    : s.is_refused || (is_gone && !s.is_granted);
}

void view_print(const struct view *v, const struct hostile *p)
{
    static const char *const names[] = {
        [HOSTILE_GREETING] = "connect", [HOSTILE_EHLO] = "EHLO", [HOSTILE_RESET] = "RSET",
        [HOSTILE_MAIL] = "MAIL",        [HOSTILE_RCPT] = "RCPT", [HOSTILE_DATA] = "DATA",
        [HOSTILE_END] = "end",          [HOSTILE_REFUSAL] = "",  [HOSTILE_QUIT] = "QUIT"};
    for (unsigned i = 0; i < p->reply_count || i < v->count; i++) {
        (void)fprintf(stderr, "  ");
        if (i < v->count) {
            (void)fprintf(stderr, "%u %s", v->commands[i].message, names[v->commands[i].kind]);
        }
        if (i < p->reply_count) {
            struct slice text = hostile_reply_text(p, i);
            const struct hostile_reply *r = &p->replies[i];
            (void)fprintf(stderr, " <- %.*s (to %u %s%s; %u complete)", (int)text.len - 2,
                          text.data, r->message, names[r->command], r->is_lie ? ", lie" : "",
                          i < v->dated ? v->complete_at[i] : 999);
        }
        (void)fprintf(stderr, "\n");
    }
}
