/* Owns the text of configuration files on its way to the parser. The parser library counts a C
 * comment as a line too many and stops at the first unknown key; both are cured here, by blanking
 * bytes. It must not judge what the text means. */
#include "engine/config/config_source.h"

#include "base/buf.h"
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void blank(char *text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (text[i] != '\n') {
            text[i] = ' ';
        }
    }
}

/* End of the quoted string that starts at `at`, past its quote. */
static size_t skip_string(const char *text, size_t len, size_t at)
{
    char quote = text[at++];
    while (at < len && text[at] != quote) {
        at += text[at] == '\\' && at + 1 < len ? 2 : 1;
    }
    return at < len ? at + 1 : len;
}

static bool starts_comment(const char *text, size_t len, size_t at)
{
    return text[at] == '#' ||
           (text[at] == '/' && at + 1 < len && (text[at + 1] == '/' || text[at + 1] == '*'));
}

static size_t skip_comment(const char *text, size_t len, size_t at)
{
    if (text[at] == '/' && text[at + 1] == '*') {
        const char *end = at + 2 < len ? memmem(text + at + 2, len - at - 2, "*/", 2) : NULL;
        return end != NULL ? (size_t)(end - text) + 2 : len;
    }
    const char *end = memchr(text + at, '\n', len - at);
    return end != NULL ? (size_t)(end - text) : len;
}

static unsigned line_of(const char *text, size_t at)
{
    unsigned line = 1;
    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n' ? 1 : 0;
    }
    return line;
}

static void blank_comments(struct config_source *s)
{
    for (size_t at = 0; at < s->len;) {
        if (s->text[at] == '"' || s->text[at] == '\'') {
            at = skip_string(s->text, s->len, at);
        } else if (starts_comment(s->text, s->len, at)) {
            size_t end = skip_comment(s->text, s->len, at);
            if (end == s->len) { /* the text ends with a newline, which ends all others */
                s->open_comment = line_of(s->text, at);
            }
            blank(s->text, at, end);
            at = end;
        } else {
            at++;
        }
    }
}

int config_source_set(struct config_source *s, const char *name, struct slice text)
{
    *s = (struct config_source){.name = strdup(name)};
    s->text = text.len <= CONFIG_SOURCE_MAX_BYTES ? malloc(text.len + 2) : NULL;
    if (s->name == NULL || s->text == NULL) {
        config_source_fini(s);
        return text.len > CONFIG_SOURCE_MAX_BYTES ? ERR_LIMIT : -ENOMEM;
    }
    memcpy(s->text, text.data, text.len);
    s->text[text.len] = '\n';
    s->text[text.len + 1] = '\0';
    s->len = text.len + 1;
    blank_comments(s);
    return 0;
}

int config_source_read(struct config_source *s, const char *path)
{
    struct buf b;
    int err = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    buf_init(&b, CONFIG_SOURCE_MAX_BYTES);
    for (;;) {
        char *room = buf_reserve(&b, 65536);
        if (room == NULL) {
            err = ERR_LIMIT;
            break;
        }
        ssize_t n = read(fd, room, 65536);
        if (n <= 0) {
            err = n < 0 ? -errno : 0;
            break;
        }
        b.len += (size_t)n;
    }
    (void)close(fd); /* read only: nothing can be lost */
    if (err == 0 && b.len > 0 && memchr(b.data, '\0', b.len) != NULL) {
        err = ERR_SYNTAX;
    }
    if (err == 0) {
        err = config_source_set(s, path, b.len > 0 ? buf_slice(&b) : SLICE(""));
    }
    buf_fini(&b);
    return err;
}

const char *config_source_advice(int err)
{
    static_assert(CONFIG_SOURCE_MAX_BYTES == 64u << 20, "the text says so");
    return err == ERR_LIMIT ? "name a text file that is no larger than 64 MB"
                            : "name a text file that can be read";
}

void config_source_fini(struct config_source *s)
{
    free(s->name);
    free(s->text);
    *s = (struct config_source){.name = NULL};
}

void config_token_next(const struct config_source *s, struct config_token *t)
{
    size_t at = t->end;
    while (at < s->len && strchr(" \t\r\n", s->text[at]) != NULL) {
        t->line += s->text[at++] == '\n';
    }
    t->start = at;
    t->first_line = t->line;
    t->kind = 0;
    if (at < s->len && strchr("{}()=,+", s->text[at]) != NULL) {
        t->kind = s->text[at++];
    } else if (at < s->len && (s->text[at] == '"' || s->text[at] == '\'')) {
        t->kind = 'w';
        at = skip_string(s->text, s->len, at);
        for (size_t i = t->start; i < at; i++) {
            t->line += s->text[i] == '\n';
        }
    } else if (at < s->len) {
        t->kind = 'w';
        while (at < s->len && strchr(" \t\r\n{}()=,+\"'", s->text[at]) == NULL) {
            at++;
        }
    }
    t->end = at;
    bool is_quoted = t->kind == 'w' && strchr("\"'", s->text[t->start]) != NULL;
    size_t quotes = is_quoted ? 1 : 0;
    size_t inner = t->end - t->start > 2 * quotes ? t->end - t->start - 2 * quotes : 0;
    t->value = slice_make(s->text + t->start + quotes, inner);
}

/* From an opening brace or parenthesis to past the one that closes it. */
static void token_skip_block(const struct config_source *s, struct config_token *t)
{
    int depth = 0;
    do {
        depth += t->kind == '{' || t->kind == '(' ? 1 : 0;
        depth -= t->kind == '}' || t->kind == ')' ? 1 : 0;
        if (depth > 0) {
            config_token_next(s, t);
        }
    } while (depth > 0 && t->kind != 0);
}

/* The first such word on this line; false when there is none. */
static bool find_word(const struct config_source *s, unsigned line, const char *word,
                      struct config_token *ret)
{
    *ret = (struct config_token){.line = 1};
    do {
        config_token_next(s, ret);
    } while (ret->kind != 0 &&
             !(ret->line == line && ret->kind == 'w' && slice_eq(ret->value, slice_of(word))));
    return ret->kind != 0;
}

bool config_source_is_section(const struct config_source *s, unsigned line, const char *word)
{
    struct config_token t;
    if (!find_word(s, line, word, &t)) {
        return false;
    }
    config_token_next(s, &t);
    if (t.kind == 'w') {
        config_token_next(s, &t);
    }
    return t.kind == '{';
}

bool config_source_blank_word(struct config_source *s, unsigned line, const char *word)
{
    struct config_token t;
    if (!find_word(s, line, word, &t)) {
        return false;
    }
    size_t start = t.start;
    struct config_token end = t;
    config_token_next(s, &t);
    if (t.kind == '+') {
        config_token_next(s, &t);
    }
    if (t.kind == '=') {
        end = t;
        config_token_next(s, &t);
    } else if (t.kind == 'w') {
        config_token_next(s, &t); /* a section's title */
        if (t.kind != '{') {
            blank(s->text, start, end.end);
            /* only the stray word is blanked: what follows may be a statement of its own */
            return true;
        }
    }
    if (t.kind == '{' || t.kind == '(') {
        token_skip_block(s, &t);
        end = t;
    } else if (t.kind == 'w') {
        end = t;
    }
    blank(s->text, start, end.end);
    return true;
}

bool config_source_blank_title(struct config_source *s, unsigned line, const char *title)
{
    struct config_token before = {.line = 1}, name = before, t = before;
    for (;;) {
        config_token_next(s, &t);
        if (t.kind == 0) {
            return false;
        }
        if (t.kind == '{' && t.line == line && slice_eq(name.value, slice_of(title)) &&
            before.kind == 'w') {
            break;
        }
        before = name;
        name = t;
    }
    size_t start = before.start;
    token_skip_block(s, &t);
    blank(s->text, start, t.end);
    return true;
}

#define MAX_DEPTH 64 /* deeper is not counted: the parser knows no section inside a section */

unsigned config_source_unclosed(const struct config_source *s, bool *ret_is_quote)
{
    struct config_token t = {.line = 1};
    unsigned lines[MAX_DEPTH];
    size_t depth = 0;
    *ret_is_quote = false;
    for (config_token_next(s, &t); t.kind != 0; config_token_next(s, &t)) {
        if (t.kind == '{') {
            lines[depth < MAX_DEPTH ? depth : MAX_DEPTH - 1] = t.line;
            depth++;
        } else if (t.kind == '}' && depth > 0) {
            depth--;
        } else if (t.end == s->len) { /* the last byte is a newline, so no quote closes there */
            *ret_is_quote = true;
            return t.first_line;
        }
    }
    if (depth == 0) {
        return 0;
    }
    return lines[(depth < MAX_DEPTH ? depth : MAX_DEPTH) - 1];
}

unsigned config_source_nameless(const struct config_source *s)
{
    struct config_token t = {.line = 1};
    char last = 0, before = 0; /* kinds of the two tokens in front */
    bool is_list = false;
    for (config_token_next(s, &t); t.kind != 0; config_token_next(s, &t)) {
        is_list = t.kind == '{' ? last == '=' : is_list && t.kind != '}';
        bool is_value = last == '=' || last == '(' || is_list;
        bool is_title = last == 'w' && before != '='; /* or what should be one */
        if (t.kind == 'w' && t.value.len == 0 && !is_value && !is_title) {
            return t.first_line;
        }
        before = last;
        last = t.kind;
    }
    return 0;
}
