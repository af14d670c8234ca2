/* Owns how a report's words are read. Called by whoever has taken a report apart; must not judge, that
 * is the rules'. */
#include "engine/reply/reply_dsn.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TYPE_MAX 20 /* bytes of "X-Postfix" and its like */

/* --- where the reply stands ------------------------------------------------------------------- */

/* "smtp; ", "X-Postfix;" in front of the text. */
static struct slice without_type(struct slice text)
{
    size_t at = 0;
    while (at < text.len && at < TYPE_MAX &&
           (isalnum((unsigned char)text.data[at]) || text.data[at] == '-')) {
        at++;
    }
    bool is_type = at > 0 && at < text.len && text.data[at] == ';';
    return is_type ? slice_trim(slice_from(text, at + 1)) : text;
}

static bool ends_with(struct slice text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.data + text.len - len, with, len) == 0;
}

/* Whether three digits behind this would be a reply's and no number in a sentence. */
static bool leads_to_reply(struct slice before)
{
    struct slice text = slice_trim(before);
    return text.len == 0 || strchr(":;'\"(>", text.data[text.len - 1]) != NULL ||
           ends_with(text, "error");
}

static bool is_code_at(struct slice text, size_t at)
{
    const char *p = text.data + at;
    bool is_free = at == 0 || strchr(" '\"(\t\n", p[-1]) != NULL;
    return is_free && at + 3 <= text.len && (p[0] == '4' || p[0] == '5') &&
           isdigit((unsigned char)p[1]) && isdigit((unsigned char)p[2]) &&
           (at + 3 == text.len || p[3] == ' ' || p[3] == '-');
}

/* Where the first reply begins; text.len: there is none. */
static size_t find_reply(struct slice text)
{
    size_t at = 0;
    while (at < text.len && !(is_code_at(text, at) && leads_to_reply(slice_to(text, at)))) {
        at++;
    }
    return at;
}

/* Without the quote that ends what the quote in front of it began. */
static struct slice unquoted(struct slice text, size_t at)
{
    struct slice reply = slice_from(text, at);
    if (at > 0 && reply.len > 0 && (text.data[at - 1] == '\'' || text.data[at - 1] == '"') &&
        reply.data[reply.len - 1] == text.data[at - 1]) {
        reply.len--;
    }
    return reply;
}

/* Without what qmail puts behind a reply. */
static struct slice without_tail(struct slice reply)
{
    static const char *const tails[] = {
        " Giving up on ",
        " I'm not going to try again; this message has been in the queue too long.",
    };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        const char *at = memmem(reply.data, reply.len, tails[i], strlen(tails[i]));
        reply = at == NULL ? reply : slice_to(reply, (size_t)(at - reply.data));
    }
    return reply;
}

/* What the reply answered, by the words that Exim and qmail put in front of it. */
static enum reply_stage stage_before(struct slice before)
{
    static const struct {
        const char *words;
        enum reply_stage stage;
    } rows[] = {
        {"after RCPT TO", REPLY_AT_RCPT},
        {"does not like recipient", REPLY_AT_RCPT},
        {"after MAIL FROM", REPLY_AT_MAIL},
        {"but sender was rejected", REPLY_AT_MAIL},
        {"after end of data", REPLY_AT_END},
        {"failed after I sent the message", REPLY_AT_END},
        {"failed on DATA command", REPLY_AT_DATA},
        {"after DATA", REPLY_AT_DATA},
        {"after pipelined DATA", REPLY_AT_DATA},
        {"after EHLO", REPLY_AT_EHLO},
        {"after HELO", REPLY_AT_EHLO},
        {"after initial connection", REPLY_AT_GREETING},
        {"refused to talk to me", REPLY_AT_GREETING},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (memmem(before.data, before.len, rows[i].words, strlen(rows[i].words)) != NULL) {
            return rows[i].stage;
        }
    }
    return REPLY_AT_NOTHING;
}

/* --- the status ------------------------------------------------------------------------------- */

/* Whether it says more than that the delivery failed: x.0.0 does not, nor does x.5.0, which Sendmail and
 * Microsoft write of any refusal whose reply had none. */
static bool is_telling(const char *status)
{
    return status[0] != '\0' && strcmp(status + 1, ".0.0") != 0 && strcmp(status + 1, ".5.0") != 0;
}

static void copy_status(struct slice text, char ret[static REPLY_STATUS_BYTES])
{
    size_t len = reply_status_len(text);
    memcpy(ret, text.data, len);
    ret[len] = '\0';
}

/* qmail's, and that of a text which begins with one: "Sorry, no mailbox here. (#5.1.1)". */
static void status_in(struct slice text, char ret[static REPLY_STATUS_BYTES])
{
    copy_status(text, ret);
    const char *at = ret[0] == '\0' ? memmem(text.data, text.len, "(#", 2) : NULL;
    if (at != NULL) {
        struct slice inner = slice_from(text, (size_t)(at - text.data) + 2);
        copy_status(slice_to(inner, slice_find(inner, ')')), ret);
    }
}

static uint16_t code_of(const char *status)
{
    bool is_soft = status[0] == '4';
    if (is_telling(status)) {
        return is_soft ? 450 : 550;
    }
    return is_soft ? 451 : 554;
}

void reply_read_dsn(struct slice status, struct slice diagnostic, struct reply *ret)
{
    struct slice text = without_type(slice_trim(diagnostic)), field = slice_trim(status);
    char said[REPLY_STATUS_BYTES];
    size_t at = find_reply(text);
    reply_read(at < text.len ? without_tail(unquoted(text, at)) : text, ret);
    ret->is_report = true;
    if (ret->stage == REPLY_AT_NOTHING) {
        ret->stage = stage_before(slice_to(text, at));
    }
    copy_status(slice_to(field, slice_find(field, ' ')), said);
    if (!is_telling(said)) {
        char inner[REPLY_STATUS_BYTES];
        status_in(ret->text, inner);
        memcpy(said, is_telling(inner) ? inner : said, sizeof(said));
    }
    if (ret->code < 400 && (said[0] == '4' || said[0] == '5')) {
        ret->code = 0; /* how a program ended, or a greeting with the refusal behind it */
        ret->text = text;
    }
    if (ret->code == 0 && (said[0] == '4' || said[0] == '5' || text.len > 0)) {
        ret->code = code_of(said);
        ret->is_unsaid = true;
        (void)snprintf(ret->status, sizeof(ret->status), "%u.0.0", ret->code / 100U);
    }
    if (is_telling(said) && !is_telling(ret->status) && said[0] == ret->status[0]) {
        memcpy(ret->status, said, sizeof(said));
    }
}
