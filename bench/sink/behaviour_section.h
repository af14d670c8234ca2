/* The sections of behaviour files as they stand: titles, keys and lines, with every mistake of
 * syntax and value told. What sections mean together is in behaviour_file.c, which alone calls
 * this. */
#ifndef BENCH_BEHAVIOUR_SECTION_H
#define BENCH_BEHAVIOUR_SECTION_H

#include "base/attr.h"
#include "bench/sink/behaviour.h"
#include "engine/config/config_source.h"

#include <stdbool.h>
#include <stddef.h>

enum behaviour_kind {
    BEHAVIOUR_DEFAULT,
    BEHAVIOUR_DESTINATION,
    BEHAVIOUR_DOMAIN,
    BEHAVIOUR_CLIENT,
    BEHAVIOUR_PROFILE,
    BEHAVIOUR_KIND_COUNT,
};

struct behaviour_place {
    size_t source; /* index of the file */
    unsigned line; /* 0 = the whole file */
};

struct behaviour_section {
    enum behaviour_kind kind;
    char *title; /* "" for default */
    struct behaviour_place place;
    struct behaviour own; /* what the section's own keys say */
    unsigned lines[BEHAVIOUR_KEY_COUNT];
    char *use; /* a profile, or NULL */
    unsigned use_line;
    char *description; /* of a profile, or NULL */
};

struct behaviour_complaint;

struct behaviour_sections {
    struct config_source *sources; /* heap */
    size_t source_count;
    struct behaviour_section **items; /* heap, each too; in the order of the files */
    size_t count, capacity;
    struct behaviour_complaint *complaints; /* heap */
    size_t complaint_count;
};

void behaviour_sections_fini(struct behaviour_sections *s); /* accepts a zeroed one */
/* Add the sections of one more file; text: NULL to read it from `name`. Mistakes become complaints.
 * errors: -errno when the file cannot be read; ERR_SYNTAX: the parser could not get to its end, or
 * it is not text */
MUST_USE int behaviour_sections_read(struct behaviour_sections *s, const char *name,
                                     const char *text);
/* NULL when there is none. */
struct behaviour_section *behaviour_sections_profile(const struct behaviour_sections *s,
                                                     const char *title);
/* Once for each place and text. */
void behaviour_complain(struct behaviour_sections *s, struct behaviour_place place, const char *key,
                        const char *fmt, ...) PRINTF_LIKE(4, 5);
/* In the order of files and lines. returns: true when there was one */
bool behaviour_sections_tell(struct behaviour_sections *s,
                             void (*complain)(void *ctx, const char *line), void *ctx);

#endif
