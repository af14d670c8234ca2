/* Rules for replies out of arbitrary bytes, by what the first byte says. 'T': a reply, which the
 * shipped rules classify at every stage within their steps. 'D': a report's status, and behind the
 * line's end its diagnostic code, likewise. 'L': a regular expression, and behind
 * the line's end a text: what matches has the literal that was found for it. Anything else: a rules
 * file, which is refused with complaints, or whose rules classify their own examples. */
#include "engine/reply/reply_dsn.h"
#include "engine/reply/reply_literal.h"
#include "engine/reply/reply_set.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static unsigned complaints;

static void hear(void *ctx, bool is_warning, const char *line)
{
    (void)ctx; /* there is one counter */
    require(strlen(line) > 0 && strpbrk(line, "\r\n\x1b") == NULL);
    complaints += !is_warning;
}

static const struct config_sink sink = {.complain = hear};

static void check_verdict(const struct reply_set *s, const struct reply_verdict *v)
{
    require(v->class < REPLY_CLASS_COUNT && reply_scope_fits(v->scope, v->class));
    require(v->rule == REPLY_NO_RULE || v->rule < reply_set_count(s));
    require((v->rule == REPLY_NO_RULE && v->class != REPLY_CLASS_NONE) == (v->why != NULL));
}

static void judge(const struct reply_set *s, struct reply_matcher *m, struct reply *reply)
{
    struct reply_verdict v;
    for (int stage = 0; stage <= REPLY_STAGE_COUNT; stage++) {
        reply->stage = (enum reply_stage)stage;
        reply_set_classify(s, m, reply, &v);
        check_verdict(s, &v);
    }
}

static void classify(const struct reply_set *s, struct reply_matcher *m, struct slice line)
{
    struct reply reply;
    reply_read(line, &reply);
    judge(s, m, &reply);
}

static struct slice behind_line(struct slice all, size_t end)
{
    return end < all.len ? slice_from(all, end + 1) : SLICE("");
}

static bool is_within(struct slice part, struct slice all)
{
    return part.len == 0 || (part.data >= all.data && part.data + part.len <= all.data + all.len);
}

/* What it says holds for any two fields. */
static void classify_dsn(const struct reply_set *s, struct reply_matcher *m, struct slice all)
{
    size_t end = slice_find(all, '\n');
    struct slice status = slice_to(all, end), diagnostic = behind_line(all, end);
    struct reply reply;
    reply_read_dsn(status, diagnostic, &reply);
    require(reply.is_report && is_within(reply.text, diagnostic));
    require(reply.code == 0 || (reply.code >= 200 && reply.code < 600));
    require(reply.code == 0 ? reply.status[0] == '\0' : reply.status[0] == '0' + reply.code / 100);
    require(reply.code != 0 || slice_trim(diagnostic).len == 0);
    judge(s, m, &reply);
}

static void check_shipped(struct reply_matcher *m, struct slice line, bool is_dsn)
{
    static struct reply_set *shipped;
    const struct config_texts none = {NULL, 0};
    if (shipped == NULL) {
        require(reply_set_load(&none, true, &sink, &shipped) == 0);
    }
    if (is_dsn) {
        classify_dsn(shipped, m, line);
    } else {
        classify(shipped, m, line);
    }
    for (size_t i = 0; i < reply_set_count(shipped); i++) {
        require(reply_set_failures(shipped, i) == 0);
    }
}

static void check_literal(struct slice all)
{
    size_t end = slice_find(all, '\n');
    struct slice pattern = slice_to(all, end);
    struct slice text = behind_line(all, end);
    struct reply_literal literal;
    struct reply_grams grams;
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)pattern.data, pattern.len,
        PCRE2_CASELESS | PCRE2_DOTALL | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP, &error, &at, NULL);
    if (code == NULL) {
        return;
    }
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    require(limits != NULL && match != NULL && pcre2_set_match_limit(limits, 20000) == 0);
    reply_literal_find(pattern, &literal);
    reply_grams_mark(&grams, text);
    int found = pcre2_match(code, (PCRE2_SPTR)text.data, text.len, 0, 0, match, limits);
    require(found < 0 || reply_grams_may_have(&grams, &literal));
    pcre2_match_data_free(match);
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
}

static void check_file(struct reply_matcher *m, struct slice text)
{
    struct reply_set *s = NULL;
    complaints = 0;
    int err = reply_set_load_text(text, "f", &sink, &s);
    require((err == 0) == (s != NULL) && (err != 0) == (complaints > 0));
    for (size_t i = 0; s != NULL && i < reply_set_count(s); i++) {
        const char *example = reply_set_rule(s, i)->example;
        if (example != NULL) {
            classify(s, m, slice_of(example));
        }
    }
    reply_set_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reply_matcher *m = reply_matcher_new();
    struct slice all = slice_make((const char *)data, size);
    require(m != NULL);
    if (size > 0 && (data[0] == 'T' || data[0] == 'D')) {
        check_shipped(m, slice_from(all, 1), data[0] == 'D');
    } else if (size > 0 && data[0] == 'L') {
        check_literal(slice_from(all, 1));
    } else {
        check_file(m, all);
    }
    reply_matcher_free(m);
    return 0;
}
