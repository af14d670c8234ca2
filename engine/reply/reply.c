/* Owns the words of replies, and takes a reply's line apart. Called by the rules' reader, by whoever
 * classifies and by whoever prints; knows no rule. */
#include "engine/reply/reply.h"

#include <stdio.h>
#include <string.h>

static const char *const classes[REPLY_CLASS_COUNT] = {
    [REPLY_CLASS_NONE] = "",
    [REPLY_THROTTLED] = "throttled",
    [REPLY_BLOCKED] = "blocked",
    [REPLY_GREYLISTED] = "greylisted",
    [REPLY_UNAVAILABLE] = "unavailable",
    [REPLY_MAILBOX] = "mailbox",
    [REPLY_FULL] = "full",
    [REPLY_CONTENT] = "content",
    [REPLY_POLICY] = "policy",
    [REPLY_AUTH] = "auth",
    [REPLY_PROTOCOL] = "protocol",
    [REPLY_OTHER] = "other",
};

static const char *const scopes[REPLY_SCOPE_COUNT] = {
    [REPLY_SCOPE_NONE] = "",
    [REPLY_MESSAGES] = "messages",
    [REPLY_RECIPIENTS] = "recipients",
    [REPLY_CONNECTION_RATE] = "connection-rate",
    [REPLY_CONNECTIONS] = "connections",
    [REPLY_SESSION] = "session",
    [REPLY_LANE] = "lane",
    [REPLY_DESTINATION] = "destination",
};

static const char *const stages[REPLY_STAGE_COUNT + 1] = {
    [REPLY_AT_GREETING] = "greeting", [REPLY_AT_EHLO] = "ehlo", [REPLY_AT_STARTTLS] = "starttls",
    [REPLY_AT_AUTH] = "auth",         [REPLY_AT_MAIL] = "mail", [REPLY_AT_RCPT] = "rcpt",
    [REPLY_AT_DATA] = "data",         [REPLY_AT_END] = "end",   [REPLY_AT_NOTHING] = "",
};

const char *reply_class_text(enum reply_class class)
{
    return classes[class];
}

const char *reply_scope_text(enum reply_scope scope)
{
    return scopes[scope];
}

const char *reply_stage_text(enum reply_stage stage)
{
    return stages[stage];
}

/* The place of the word in the list, or the list's length. */
static unsigned find(const char *const *words, unsigned count, struct slice word)
{
    unsigned i = 0;
    while (i < count && (words[i][0] == '\0' || !slice_eq(slice_of(words[i]), word))) {
        i++;
    }
    return i;
}

enum reply_class reply_class_find(struct slice word)
{
    return (enum reply_class)find(classes, REPLY_CLASS_COUNT, word);
}

enum reply_scope reply_scope_find(struct slice word)
{
    return (enum reply_scope)find(scopes, REPLY_SCOPE_COUNT, word);
}

enum reply_stage reply_stage_find(struct slice word)
{
    return (enum reply_stage)find(stages, REPLY_STAGE_COUNT, word);
}

bool reply_scope_fits(enum reply_scope scope, enum reply_class class)
{
    if (class == REPLY_THROTTLED) {
        return scope >= REPLY_MESSAGES && scope <= REPLY_SESSION;
    }
    if (class == REPLY_BLOCKED) {
        return scope == REPLY_LANE || scope == REPLY_DESTINATION;
    }
    return scope == REPLY_SCOPE_NONE;
}

enum reply_scope reply_scope_usual(enum reply_class class)
{
    if (class == REPLY_THROTTLED) {
        return REPLY_MESSAGES;
    }
    return class == REPLY_BLOCKED ? REPLY_LANE : REPLY_SCOPE_NONE;
}

/* --- a line ----------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t reply_status_len(struct slice text)
{
    size_t at = 0, digits = 0;
    unsigned points = 0;
    for (; at < text.len && text.data[at] != ' '; at++) {
        if (text.data[at] == '.' && digits > 0 && points < 2) {
            points++;
            digits = 0;
        } else if (!is_digit(text.data[at]) || ++digits > 3) {
            return 0;
        }
    }
    bool is_whole = points == 2 && digits > 0 && at < REPLY_STATUS_BYTES;
    bool is_class = is_whole && memchr("245", text.data[0], 3) != NULL && text.data[1] == '.';
    return is_class ? at : 0;
}

/* "(in reply to RCPT TO command)" goes from the end of the text. */
static enum reply_stage cut_stage(struct slice *text)
{
    static const struct {
        const char *command;
        enum reply_stage stage;
    } commands[] = {
        {"initial greeting", REPLY_AT_GREETING},
        {"EHLO", REPLY_AT_EHLO},
        {"HELO", REPLY_AT_EHLO},
        {"STARTTLS", REPLY_AT_STARTTLS},
        {"AUTH", REPLY_AT_AUTH},
        {"MAIL FROM", REPLY_AT_MAIL},
        {"RCPT TO", REPLY_AT_RCPT},
        {"end of DATA", REPLY_AT_END},
        {"DATA", REPLY_AT_DATA},
    };
    const struct slice head = SLICE(" (in reply to "), tail = SLICE(" command)");
    if (text->len < tail.len ||
        memcmp(text->data + text->len - tail.len, tail.data, tail.len) != 0) {
        return REPLY_AT_NOTHING;
    }
    size_t end = text->len - tail.len, at = end;
    while (at > 0 && text->data[at - 1] != '(') {
        at--;
    }
    if (at < 2 || end < at + head.len - 2 ||
        memcmp(text->data + at - 2, head.data, head.len) != 0) {
        return REPLY_AT_NOTHING;
    }
    struct slice command = slice_make(text->data + at - 2 + head.len, end - at + 2 - head.len);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (slice_eq(slice_of(commands[i].command), command)) {
            *text = slice_to(*text, at - 2);
            return commands[i].stage;
        }
    }
    return REPLY_AT_NOTHING;
}

static bool begins(struct slice text, struct slice with)
{
    return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

/* Who said it goes from the start of the text: "host NAME[ADDRESS] said: ", and how it is put of a
 * session that did not begin. */
static void cut_host(struct slice *text)
{
    static const struct slice words[] = {
        {"] said: ", sizeof("] said: ") - 1},
        {"] refused to talk to me: ", sizeof("] refused to talk to me: ") - 1},
    };
    if (!begins(*text, SLICE("host ")) &&
        !begins(*text, SLICE("SASL authentication failed; server "))) {
        return;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = memmem(text->data, text->len, words[i].data, words[i].len);
        if (at != NULL) {
            *text = slice_from(*text, (size_t)(at - text->data) + words[i].len);
            return;
        }
    }
}

void reply_read(struct slice line, struct reply *ret)
{
    struct slice text = slice_trim(line);
    *ret = (struct reply){.stage = cut_stage(&text)};
    cut_host(&text);
    bool has_code = text.len >= 3 && text.data[0] >= '2' && text.data[0] <= '5' &&
                    is_digit(text.data[1]) && is_digit(text.data[2]) &&
                    (text.len == 3 || text.data[3] == ' ' || text.data[3] == '-');
    if (has_code) {
        ret->code = (uint16_t)((text.data[0] - '0') * 100 + (text.data[1] - '0') * 10 +
                               (text.data[2] - '0'));
        text = slice_trim(slice_from(text, text.len > 3 ? 4 : 3));
        size_t len = reply_status_len(text);
        (void)snprintf(ret->status, sizeof(ret->status), "%u.0.0", ret->code / 100U);
        if (len > 0 && text.data[0] == ret->status[0]) {
            memcpy(ret->status, text.data, len);
        }
        struct slice rest = slice_trim(slice_from(text, len));
        size_t before = rest.len;
        cut_host(&rest);
        text = rest.len < before ? rest : text;
    }
    ret->text = text;
}
