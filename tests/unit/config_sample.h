/* Loads a configuration text in tests and keeps what was complained about. */
#ifndef TESTS_UNIT_CONFIG_SAMPLE_H
#define TESTS_UNIT_CONFIG_SAMPLE_H

#include "engine/config/config.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

struct sample {
    struct config *config;
    int err;
    char said[65536]; /* lines, each with newline */
    int errors, warnings;
};

static inline void sample_complain(void *ctx, bool is_warning, const char *line)
{
    struct sample *s = ctx;
    size_t len = strlen(s->said);
    (void)snprintf(s->said + len, sizeof(s->said) - len, "%s\n", line);
    *(is_warning ? &s->warnings : &s->errors) += 1;
}

static inline void sample_load(struct sample *s, const char *text)
{
    struct config_sink sink = {.complain = sample_complain, .ctx = s};
    s->config = NULL;
    s->errors = s->warnings = 0;
    s->said[0] = '\0';
    s->err = config_load_text(text, "f", &sink, &s->config);
    assert_true(s->err == 0 ? s->config != NULL && s->errors == 0
                            : s->config == NULL && s->errors > 0);
}

#endif
