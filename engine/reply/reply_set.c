/* Owns the compiled rules, and the search for the one that a reply is about. Called by whoever has
 * settings to make, by workers for each reply that refuses, and by commands; must not act on what
 * it finds.
 *
 * A reply is a stranger's text, so the cost of one comparison is bounded: an expression that needs
 * more than MATCH_LIMIT steps is passed over and counted. Most are never tried: rules are listed by
 * code, and reply_literal.h knows which literals the text lacks. */
#include "engine/reply/reply_set.h"

#include "base/error.h"
#include "engine/reply/reply_default.h"
#include "engine/reply/reply_file.h"
#include "engine/reply/reply_literal.h"
#include "engine/reply/reply_shipped.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MATCH_LIMIT   20000 /* steps; a tenth of a millisecond or two */
#define HEAP_LIMIT_KB 1024
#define PATTERN_OPTIONS                                                                            \
    (PCRE2_CASELESS | PCRE2_DOTALL | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C)

/* What the search looks at of a rule. */
struct compiled {
    pcre2_code *code; /* NULL: the rule has no text */
    struct reply_literal literal;
    _Atomic uint64_t failures; /* any thread, atomic */
};

struct reply_set {
    struct config_source *sources;
    size_t source_count;
    struct reply_rules rules;
    struct compiled *compiled;             /* [rules.count] */
    uint16_t *lists;                       /* numbers of rules, all codes' one after the other */
    uint32_t starts[REPLY_CODE_COUNT + 1]; /* in lists, by code */
};

struct reply_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    struct reply_grams grams;
    char text[REPLY_TEXT_MAX];
};

/* --- matchers --------------------------------------------------------------------------------- */

struct reply_matcher *reply_matcher_new(void)
{
    struct reply_matcher *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return NULL;
    }
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    if (m->data == NULL || m->context == NULL) {
        reply_matcher_free(m);
        return NULL;
    }
    (void)pcre2_set_match_limit(m->context, MATCH_LIMIT); /* they always succeed */
    (void)pcre2_set_heap_limit(m->context, HEAP_LIMIT_KB);
    return m;
}

void reply_matcher_free(struct reply_matcher *m)
{
    if (m != NULL) {
        pcre2_match_data_free(m->data);
        pcre2_match_context_free(m->context);
        free(m);
    }
}

/* The bytes of the reply's own code at the start of a word, where a line of it goes on that others put
 * into one: "550-" always, "550 " behind such a one. 0: it is another word. */
static size_t code_len(struct slice in, size_t at, uint16_t code, bool *is_continued)
{
    char text[8];
    (void)snprintf(text, sizeof(text), "%u", code);
    if (code == 0 || at + 4 > in.len || memcmp(in.data + at, text, 3) != 0) {
        return 0;
    }
    *is_continued = *is_continued || in.data[at + 3] == '-';
    bool is_code = in.data[at + 3] == '-' || (*is_continued && in.data[at + 3] == ' ');
    return is_code ? 4 : 0;
}

struct slice reply_matcher_text(struct reply_matcher *m, const struct reply *reply)
{
    struct slice in = reply->text, status = slice_of(reply->status);
    size_t len = 0;
    bool is_start = true, is_continued = false; /* of a word; more lines of the reply are in it */
    for (size_t i = 0; i < in.len && len < sizeof(m->text); i++) {
        i += is_start ? code_len(in, i, reply->code, &is_continued) : 0;
        size_t end = i + status.len;
        if (is_start && status.len > 0 && end <= in.len && (end == in.len || in.data[end] == ' ') &&
            memcmp(in.data + i, status.data, status.len) == 0) {
            i = end; /* and the space behind it */
            continue;
        }
        if (i >= in.len) {
            break;
        }
        is_start = in.data[i] == ' ';
        if (!is_start || (len > 0 && m->text[len - 1] != ' ')) {
            m->text[len++] = in.data[i];
        }
    }
    return slice_trim(slice_make(m->text, len));
}

/* --- classifying ------------------------------------------------------------------------------ */

static int match(const pcre2_code *code, struct reply_matcher *m, struct slice text)
{
    return pcre2_match(code, (PCRE2_SPTR)text.data, text.len, 0, 0, m->data, m->context);
}

static bool has_text(const struct reply_set *s, struct reply_matcher *m, size_t number,
                     struct slice text)
{
    struct compiled *c = &s->compiled[number];
    if (c->code == NULL) {
        return true;
    }
    if (!reply_grams_may_have(&m->grams, &c->literal)) {
        return false;
    }
    int found = match(c->code, m, text);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        atomic_fetch_add_explicit(&c->failures, 1, memory_order_relaxed);
    }
    return found >= 0;
}

/* The number of the first rule from `first` on, or REPLY_NO_RULE. */
static uint16_t find(const struct reply_set *s, struct reply_matcher *m, const struct reply *reply,
                     size_t first)
{
    unsigned index = (unsigned)reply->code - REPLY_CODE_FIRST;
    if (index >= REPLY_CODE_COUNT) {
        return REPLY_NO_RULE;
    }
    struct slice text = reply_matcher_text(m, reply);
    reply_grams_mark(&m->grams, text);
    for (uint32_t i = s->starts[index]; i < s->starts[index + 1]; i++) {
        uint16_t number = s->lists[i];
        if (number >= first && reply_rule_fits(&s->rules.items[number], reply) &&
            has_text(s, m, number, text)) {
            return number;
        }
    }
    return REPLY_NO_RULE;
}

/* At the greeting no message was offered: who is told to slow down there has too many connections, or
 * makes them too fast. A rule that is about greetings says which. */
static enum reply_scope scope_at(const struct reply *reply, const struct reply_rule *rule)
{
    bool is_of_mail = rule->scope == REPLY_MESSAGES || rule->scope == REPLY_RECIPIENTS ||
                      rule->scope == REPLY_SESSION;
    if (reply->stage != REPLY_AT_GREETING || rule->stages != 0 || !is_of_mail) {
        return rule->scope;
    }
    return reply->has_others ? REPLY_CONNECTIONS : REPLY_CONNECTION_RATE;
}

void reply_set_classify(const struct reply_set *s, struct reply_matcher *m,
                        const struct reply *reply, struct reply_verdict *ret)
{
    *ret = (struct reply_verdict){.rule = REPLY_NO_RULE};
    if (reply->code != 0 && reply->code < REPLY_CODE_FIRST) {
        return;
    }
    ret->rule = find(s, m, reply, 0);
    if (ret->rule != REPLY_NO_RULE) {
        ret->class = s->rules.items[ret->rule].class;
        ret->scope = scope_at(reply, &s->rules.items[ret->rule]);
    } else {
        ret->class = reply_default(reply, &ret->scope, &ret->why);
    }
}

/* --- compiling -------------------------------------------------------------------------------- */

/* Texts on which expressions that try one thing in many ways show it. */
static const char *const probes[] = {
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
    "00000000000000000000000000000000000000000000000000000000000000000!",
    "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a!",
    "1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.!",
    "a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-!",
};

struct loading {
    struct reply_set *set;
    struct reply_matcher *matcher;
    const struct config_sink *sink;
};

static bool is_catastrophic(struct loading *l, const pcre2_code *code, struct slice text)
{
    int found = match(code, l->matcher, text);
    return found < 0 && found != PCRE2_ERROR_NOMATCH;
}

/* The expression's own text, with what repeats taken for letters, is the likeliest to almost match. */
static void probe(struct loading *l, const struct reply_rule *rule, const pcre2_code *code)
{
    struct reply example = {.code = 0};
    bool is_bad = false;
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]) && !is_bad; i++) {
        is_bad = is_catastrophic(l, code, slice_of(probes[i]));
    }
    if (!is_bad && rule->example != NULL) {
        reply_read(slice_of(rule->example), &example);
        is_bad = is_catastrophic(l, code, reply_matcher_text(l->matcher, &example));
    }
    if (is_bad) {
        reply_file_complain(&l->set->rules, l->sink, rule->file, rule->text_line, "text",
                            "rule \"%s\": this expression needs more than %d steps to see that it "
                            "does not match; write no repetition inside a repetition, and not "
                            "several .* one after the other",
                            rule->name, MATCH_LIMIT);
    }
}

static int compile(struct loading *l, size_t number)
{
    struct reply_rule *rule = &l->set->rules.items[number];
    struct compiled *c = &l->set->compiled[number];
    int code = 0;
    PCRE2_SIZE at = 0;
    if (rule->text == NULL) {
        return 0;
    }
    c->code = pcre2_compile((PCRE2_SPTR)rule->text, strlen(rule->text), PATTERN_OPTIONS, &code, &at,
                            NULL);
    if (c->code == NULL) {
        char why[200];
        if (code == PCRE2_ERROR_NOMEMORY) {
            return -ENOMEM;
        }
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why)); /* cut if long */
        reply_file_complain(&l->set->rules, l->sink, rule->file, rule->text_line, "text",
                            "rule \"%s\": %s, at byte %zu of the expression; write a Perl regular "
                            "expression in 'single quotes'",
                            rule->name, why, (size_t)at);
        return 0;
    }
    /* Without it, as under MemoryDenyWriteExecute, the expression is interpreted. */
    (void)pcre2_jit_compile(c->code, PCRE2_JIT_COMPLETE);
    reply_literal_find(slice_of(rule->text), &c->literal);
    probe(l, rule, c->code);
    return 0;
}

/* The rules that may be about each code, in order. */
static int list_rules(struct reply_set *s)
{
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        count = 0;
        for (uint16_t code = 0; code < REPLY_CODE_COUNT; code++) {
            s->starts[code] = count;
            for (size_t i = 0; i < s->rules.count; i++) {
                if (reply_rule_has_code(&s->rules.items[i], (uint16_t)(code + REPLY_CODE_FIRST))) {
                    if (pass > 0) {
                        s->lists[count] = (uint16_t)i;
                    }
                    count++;
                }
            }
        }
        if (pass == 0) {
            s->lists = calloc(count + 1, sizeof(*s->lists));
        }
        if (s->lists == NULL) {
            return -ENOMEM;
        }
    }
    s->starts[REPLY_CODE_COUNT] = count;
    return 0;
}

/* An example is a reply that its own rule is about, and no rule in front of it in the same file. */
static void check_example(struct loading *l, size_t number, size_t first)
{
    const struct reply_rule *rule = &l->set->rules.items[number];
    struct reply reply;
    if (rule->example == NULL) {
        return;
    }
    reply_read(slice_of(rule->example), &reply);
    reply.stage = reply.stage == REPLY_AT_NOTHING ? reply_rule_stage(rule) : reply.stage;
    if (find(l->set, l->matcher, &reply, number) != number) {
        reply_file_complain(&l->set->rules, l->sink, rule->file, rule->example_line, "example",
                            "rule \"%s\" is not about its own example; write a whole reply, such "
                            "as 421 4.7.0 TEXT, that its code, status, stage and text fit",
                            rule->name);
        return;
    }
    uint16_t found = find(l->set, l->matcher, &reply, first);
    if (found != number) {
        const struct reply_rule *other = &l->set->rules.items[found];
        reply_file_warn(l->sink, rule->file, rule->example_line, "example",
                        "rule \"%s\" in line %u is about this reply and stands in front of rule "
                        "\"%s\"; write the narrower one first",
                        other->name, other->line, rule->name);
    }
}

static int finish(struct loading *l)
{
    struct reply_set *s = l->set;
    s->compiled = calloc(s->rules.count + 1, sizeof(*s->compiled));
    int err = s->compiled == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < s->rules.count && err == 0; i++) {
        err = compile(l, i);
    }
    if (err != 0 || s->rules.errors > 0) {
        return err != 0 ? err : ERR_SYNTAX;
    }
    err = list_rules(s);
    for (size_t i = 0, first = 0; i < s->rules.count && err == 0; i++) {
        first = s->rules.items[i].file != s->rules.items[first].file ? i : first;
        check_example(l, i, first);
    }
    return err == 0 && s->rules.errors > 0 ? ERR_SYNTAX : err;
}

/* --- loading ---------------------------------------------------------------------------------- */

/* The next file: of the operator, or a text. */
static int add_source(struct loading *l, const char *path, const struct slice *text)
{
    struct reply_set *s = l->set;
    struct config_source *source = &s->sources[s->source_count];
    int err =
        text != NULL ? config_source_set(source, path, *text) : config_source_read(source, path);
    if (err == -ENOMEM) {
        return err;
    }
    if (err != 0) {
        reply_file_complain(&s->rules, l->sink, path, 1, "files", "%s; %s",
                            err == ERR_SYNTAX ? "it has a NUL byte" : err_str(err),
                            config_source_advice(err));
        return 0;
    }
    s->source_count++;
    return reply_file_parse(source, l->sink, &s->rules);
}

static int loading_init(struct loading *l, const struct config_sink *sink, size_t files)
{
    *l = (struct loading){.sink = sink, .matcher = reply_matcher_new()};
    l->set = calloc(1, sizeof(*l->set));
    if (l->set != NULL) {
        l->set->sources = calloc(files + 1, sizeof(*l->set->sources));
    }
    return l->matcher == NULL || l->set == NULL || l->set->sources == NULL ? -ENOMEM : 0;
}

/* The end of a loading that came so far. */
static int loading_end(struct loading *l, int err, struct reply_set **ret)
{
    err = err == 0 ? finish(l) : err;
    reply_matcher_free(l->matcher);
    if (err != 0) {
        reply_set_free(l->set);
        return err;
    }
    *ret = l->set;
    return 0;
}

int reply_set_load(const struct config_texts *files, bool has_shipped,
                   const struct config_sink *sink, struct reply_set **ret)
{
    struct loading l;
    int err = loading_init(&l, sink, files->count + 1);
    for (size_t i = 0; i < files->count && err == 0; i++) {
        err = add_source(&l, files->items[i], NULL);
    }
    if (err == 0 && has_shipped) {
        struct slice text = slice_make((const char *)reply_shipped_bytes, reply_shipped_size);
        err = add_source(&l, reply_shipped_path, &text);
    }
    return loading_end(&l, err, ret);
}

int reply_set_load_text(struct slice text, const char *name, const struct config_sink *sink,
                        struct reply_set **ret)
{
    struct loading l;
    int err = loading_init(&l, sink, 1);
    err = err == 0 ? add_source(&l, name, &text) : err;
    return loading_end(&l, err, ret);
}

void reply_set_free(struct reply_set *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; s->compiled != NULL && i < s->rules.count; i++) {
        pcre2_code_free(s->compiled[i].code);
    }
    for (size_t i = 0; i < s->source_count; i++) {
        config_source_fini(&s->sources[i]);
    }
    reply_rules_fini(&s->rules);
    free(s->compiled);
    free(s->lists);
    free(s->sources);
    free(s);
}

size_t reply_set_count(const struct reply_set *s)
{
    return s->rules.count;
}

const struct reply_rule *reply_set_rule(const struct reply_set *s, size_t number)
{
    return &s->rules.items[number];
}

uint64_t reply_set_failures(const struct reply_set *s, size_t number)
{
    return atomic_load_explicit(&s->compiled[number].failures, memory_order_relaxed);
}
