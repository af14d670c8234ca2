/* The text of one configuration file as it is given to the parser: comments blanked, and statements
 * blanked that the parser cannot get past, so that one run finds as many mistakes as possible.
 * Every byte keeps its line. Used by config_load.c, by the rules for replies and by
 * the receiver's behaviour files. */
#ifndef ENGINE_CONFIG_SOURCE_H
#define ENGINE_CONFIG_SOURCE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_SOURCE_MAX_BYTES (64u * 1024 * 1024)

struct config_source {
    char *name;            /* for complaints */
    char *text;            /* NUL-terminated, ends with a newline */
    size_t len;            /* bytes before the NUL */
    unsigned open_comment; /* line of a comment that never ends; 0: none */
};

/* errors   -errno of the file; ERR_LIMIT; ERR_SYNTAX when it has a NUL byte */
MUST_USE int config_source_read(struct config_source *s, const char *path);
/* errors   ERR_LIMIT, -ENOMEM */
MUST_USE int config_source_set(struct config_source *s, const char *name, struct slice text);
void config_source_fini(struct config_source *s);
/* What would be right where a file could not be read; static. */
const char *config_source_advice(int err);

/* Blank the statement that starts with `word` on this line. false when there is none. */
MUST_USE bool config_source_blank_word(struct config_source *s, unsigned line, const char *word);
/* The `word` on this line begins a section: behind it stands a brace, or a title and a brace. */
bool config_source_is_section(const struct config_source *s, unsigned line, const char *word);
/* Blank the section whose title and opening brace (on this line) are these. */
MUST_USE bool config_source_blank_title(struct config_source *s, unsigned line, const char *title);
/* The line of a quote, or of the last opening brace, that is never closed; 0 when all are. The
 * parser takes the end of a file for the end of every section. */
unsigned config_source_unclosed(const struct config_source *s, bool *ret_is_quote);

/* The line of the first statement that begins with "" in place of a name, at which the parser ends
 * without a word; 0: there is none. */
unsigned config_source_nameless(const struct config_source *s);

/* A token as the parser's lexer cuts it: a string, a word, or one of { } ( ) = , +. */
struct config_token {
    size_t start, end;  /* bytes of the text, quotes included */
    struct slice value; /* the value without its quotes; escapes are as they stand in the text */
    unsigned first_line;
    unsigned line; /* of its end, as the parser counts */
    char kind;     /* 'w' word or string, else the character itself; 0 at the end */
};

/* From one token to the next; before the first it is {.line = 1}. */
void config_token_next(const struct config_source *s, struct config_token *t);

#endif
