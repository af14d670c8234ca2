/* Owns the reading of a rules file. Called by reply_set.c; must not know what rules are compared
 * with. The tokens are those of configuration files; the parser library is not used, as it can read
 * one file at a time in a process and a command may classify while another thread reloads. */
#include "engine/reply/reply_file.h"

#include "base/error.h"
#include "engine/config/config_near.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 16

struct item {
    char *text; /* unescaped, heap */
    unsigned line;
};

/* One reading. */
struct reader {
    const struct config_source *source;
    const struct config_sink *sink;
    struct reply_rules *rules;
    struct reply_rule *rule; /* the section under way */
    size_t first;            /* rule of this file */
    struct config_token token;
    struct item items[ITEMS_MAX]; /* of the option under way */
    size_t item_count;
    unsigned seen; /* bits by option, of the section under way */
    unsigned class_line, scope_line;
    int err; /* -ENOMEM */
};

/* --- mistakes --------------------------------------------------------------------------------- */

static void tell(const struct config_sink *sink, bool is_warning, const char *place,
                 const char *key, const char *message)
{
    char line[4096 + 1400];
    (void)snprintf(line, sizeof(line), "%s: %.80s: %s%s", place, key, is_warning ? "warning: " : "",
                   message);
    for (char *p = line; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?'; /* mistakes are printed on terminals */
        }
    }
    sink->complain(sink->ctx, is_warning, line);
}

void reply_file_complain(struct reply_rules *rules, const struct config_sink *sink,
                         const char *file, unsigned line, const char *key, const char *fmt, ...)
{
    char message[1200], place[4200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap); /* cut where it is too long */
    va_end(ap);
    (void)snprintf(place, sizeof(place), "%s:%u", file, line);
    tell(sink, false, place, key, message);
    rules->errors++;
}

void reply_file_warn(const struct config_sink *sink, const char *file, unsigned line,
                     const char *key, const char *fmt, ...)
{
    char message[1200], place[4200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    (void)snprintf(place, sizeof(place), "%s:%u", file, line);
    tell(sink, true, place, key, message);
}

#define COMPLAIN(r, line, key, ...)                                                                \
    reply_file_complain((r)->rules, (r)->sink, (r)->source->name, line, key, __VA_ARGS__)

/* --- options ---------------------------------------------------------------------------------- */

/* "; did you mean X?", of the words that `text_of` gives for first to last. */
static const char *meant(const char *word, const char *(*text_of)(unsigned), unsigned first,
                         unsigned count, char ret[static CONFIG_NEAR_TEXT])
{
    struct config_near n;
    config_near_begin(&n, word);
    for (unsigned i = first; i < count; i++) {
        config_near_offer(&n, text_of(i));
    }
    return config_near_text(&n, ret);
}

static const char *class_text(unsigned i)
{
    return reply_class_text((enum reply_class)i);
}

static const char *scope_text(unsigned i)
{
    return reply_scope_text((enum reply_scope)i);
}

static const char *stage_text(unsigned i)
{
    return reply_stage_text((enum reply_stage)i);
}

static void take_provider(struct reader *r)
{
    const struct item *item = &r->items[0];
    size_t len = strlen(item->text);
    if (len == 0 || len > REPLY_RULE_NAME_MAX) {
        COMPLAIN(r, item->line, "provider", "\"%.80s\" is no provider's name; write 1 to %d bytes",
                 item->text, REPLY_RULE_NAME_MAX);
        return;
    }
    r->rule->provider = r->items[0].text;
    r->items[0].text = NULL;
}

static void take_stage(struct reader *r)
{
    char near[CONFIG_NEAR_TEXT];
    for (size_t i = 0; i < r->item_count; i++) {
        const char *word = r->items[i].text;
        enum reply_stage stage = reply_stage_find(slice_of(word));
        if (stage == REPLY_STAGE_COUNT) {
            COMPLAIN(r, r->items[i].line, "stage",
                     "\"%.40s\" is no stage; write greeting, ehlo, starttls, auth, mail, rcpt, "
                     "data or end%s",
                     word, meant(word, stage_text, 0, REPLY_STAGE_COUNT, near));
        } else {
            r->rule->stages |= 1u << stage;
        }
    }
}

/* "421", "45x", "4xx" */
static void take_code(struct reader *r)
{
    struct reply_rule *rule = r->rule;
    rule->has_codes = true;
    for (size_t i = 0; i < r->item_count; i++) {
        const char *text = r->items[i].text;
        bool has_form = strlen(text) == 3 && (text[0] == '4' || text[0] == '5');
        for (size_t k = 1; k < 3 && has_form; k++) {
            has_form = (text[k] >= '0' && text[k] <= '9' && text[k - 1] != 'x') || text[k] == 'x';
        }
        if (!has_form) {
            COMPLAIN(r, r->items[i].line, "code",
                     "\"%.40s\" is no code that refuses; write 400 to 599, or x for any digit at "
                     "its end: 45x, 5xx",
                     text);
            continue;
        }
        for (unsigned code = 0; code < REPLY_CODE_COUNT; code++) {
            char digits[12];
            (void)snprintf(digits, sizeof(digits), "%u", code + REPLY_CODE_FIRST);
            if (digits[0] == text[0] && (text[1] == 'x' || digits[1] == text[1]) &&
                (text[2] == 'x' || digits[2] == text[2])) {
                rule->codes[code / 64] |= 1ULL << (code % 64);
            }
        }
    }
}

static bool is_status(const char *text)
{
    unsigned points = 0;
    size_t len = 0; /* of the number */
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '.') {
            if (len == 0 || ++points > 2) {
                return false;
            }
            len = 0;
        } else if ((*p == 'x' || (*p >= '0' && *p <= '9' && (len == 0 || p[-1] != 'x'))) &&
                   len < 3) {
            len++;
        } else {
            return false;
        }
    }
    return points == 2 && len > 0 && strlen(text) < REPLY_STATUS_BYTES &&
           strchr("45x", text[0]) != NULL;
}

static void take_status(struct reader *r)
{
    for (size_t i = 0; i < r->item_count; i++) {
        const char *text = r->items[i].text;
        if (!is_status(text)) {
            COMPLAIN(r, r->items[i].line, "status",
                     "\"%.40s\" is no enhanced status; write three numbers, or x for any number or "
                     "its last digits: 4.7.28, x.7.1, 4.7.5xx",
                     text);
        } else if (r->rule->status_count == REPLY_STATUSES_MAX) {
            COMPLAIN(r, r->items[i].line, "status", "these are too many; write at most %d",
                     REPLY_STATUSES_MAX);
        } else {
            memcpy(r->rule->statuses[r->rule->status_count++], text, strlen(text) + 1);
        }
    }
}

static void take_long(struct reader *r, const char *key, char **ret, unsigned *ret_line)
{
    struct item *item = &r->items[0];
    size_t len = strlen(item->text);
    if (len == 0 || len > REPLY_PATTERN_MAX) {
        COMPLAIN(r, item->line, key, "it has %zu bytes; write 1 to %d", len, REPLY_PATTERN_MAX);
        return;
    }
    *ret = item->text;
    *ret_line = item->line;
    item->text = NULL;
}

static void take_text(struct reader *r)
{
    take_long(r, "text", &r->rule->text, &r->rule->text_line);
}

static void take_example(struct reader *r)
{
    take_long(r, "example", &r->rule->example, &r->rule->example_line);
}

static void take_class(struct reader *r)
{
    char near[CONFIG_NEAR_TEXT];
    const struct item *item = &r->items[0];
    r->rule->class = reply_class_find(slice_of(item->text));
    r->class_line = item->line;
    if (r->rule->class == REPLY_CLASS_COUNT) {
        COMPLAIN(r, item->line, "class",
                 "\"%.40s\" is no class; write throttled, blocked, greylisted, unavailable, "
                 "mailbox, full, content, policy, auth, protocol or other%s",
                 item->text, meant(item->text, class_text, 1, REPLY_CLASS_COUNT, near));
    }
}

static void take_scope(struct reader *r)
{
    char near[CONFIG_NEAR_TEXT];
    const struct item *item = &r->items[0];
    r->rule->scope = reply_scope_find(slice_of(item->text));
    r->scope_line = item->line;
    if (r->rule->scope == REPLY_SCOPE_COUNT) {
        COMPLAIN(r, item->line, "scope",
                 "\"%.40s\" is no scope; write messages, recipients, connection-rate, connections "
                 "or session for throttled, lane or destination for blocked%s",
                 item->text, meant(item->text, scope_text, 1, REPLY_SCOPE_COUNT, near));
    }
}

static void take_action(struct reader *r)
{
    char why[REPLY_ACTION_WHY_MAX];
    for (size_t i = 0; i < r->item_count; i++) {
        struct reply_rule *rule = r->rule;
        if (rule->action_count == REPLY_ACTIONS_MAX) {
            COMPLAIN(r, r->items[i].line, "action", "these are too many; write at most %d",
                     REPLY_ACTIONS_MAX);
        } else if (reply_action_parse(slice_of(r->items[i].text),
                                      &rule->actions[rule->action_count], why) != 0) {
            COMPLAIN(r, r->items[i].line, "action", "%s", why);
        } else {
            rule->action_count++;
        }
    }
}

static const struct option {
    const char *name;
    bool is_list;
    void (*take)(struct reader *r);
} options[] = {
    {"provider", false, take_provider}, {"stage", true, take_stage},
    {"code", true, take_code},          {"status", true, take_status},
    {"text", false, take_text},         {"class", false, take_class},
    {"scope", false, take_scope},       {"action", true, take_action},
    {"example", false, take_example},
};
enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]), OPTION_CLASS = 5 };

static const char *option_text(unsigned i)
{
    return options[i].name;
}

/* --- syntax ----------------------------------------------------------------------------------- */

static void step(struct reader *r)
{
    config_token_next(r->source, &r->token);
}

static bool is_quoted(const struct reader *r)
{
    return r->token.kind == 'w' && strchr("\"'", r->source->text[r->token.start]) != NULL;
}

/* What stands between the quotes. In single quotes a backslash stands for itself, except before a
 * single quote and another backslash; in double ones only those two may stand behind it. NULL: it
 * was told why not */
static char *unescape(struct reader *r)
{
    const char quote = is_quoted(r) ? r->source->text[r->token.start] : '\0';
    struct slice in = r->token.value;
    char *out = malloc(in.len + 1);
    size_t len = 0;
    if (out == NULL) {
        r->err = -ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < in.len; i++) {
        char c = in.data[i], after = i + 1 < in.len ? in.data[i + 1] : '\0';
        bool is_escape = c == '\\' && quote != '\0' && (after == '\\' || after == quote);
        if (c == '\\' && quote == '"' && !is_escape) {
            COMPLAIN(r, r->token.first_line, "syntax",
                     "\\%c is not known in double quotes; write a regular expression in 'single "
                     "quotes', where a backslash stands for itself",
                     after);
            free(out);
            return NULL;
        }
        i += is_escape ? 1 : 0;
        out[len++] = is_escape ? after : c;
    }
    out[len] = '\0';
    return out;
}

/* false: the file cannot be read on from here */
static bool wrong(struct reader *r, const char *right)
{
    char what[48] = "the end of the file";
    if (r->token.kind != 0) {
        (void)snprintf(what, sizeof(what), "\"%.*s\"",
                       r->token.value.len < 40 ? (int)r->token.value.len : 40,
                       r->source->text + r->token.start);
    }
    COMPLAIN(r, r->token.first_line > 0 ? r->token.first_line : 1, "syntax",
             "%s stands in the wrong place; %s", what, right);
    return false;
}

static void drop_items(struct reader *r)
{
    for (size_t i = 0; i < r->item_count; i++) {
        free(r->items[i].text);
    }
    r->item_count = 0;
}

/* The token is one value of the option. false: it is none that can be taken */
static bool add_item(struct reader *r)
{
    char *text = NULL;
    if (r->item_count == ITEMS_MAX) {
        return wrong(r, "a list has at most 16 items");
    }
    text = unescape(r);
    if (text != NULL) {
        r->items[r->item_count++] = (struct item){text, r->token.first_line};
    }
    return r->err == 0;
}

/* VALUE or {VALUE, VALUE}, up to the token behind. */
static bool read_values(struct reader *r)
{
    static const char right[] = "write NAME = VALUE or NAME = {VALUE, VALUE}";
    if (r->token.kind == 'w') {
        bool is_good = add_item(r);
        step(r);
        return is_good;
    }
    if (r->token.kind != '{') {
        return wrong(r, right);
    }
    do {
        step(r);
        if (r->token.kind != 'w' || !add_item(r)) {
            return r->err == 0 && wrong(r, right);
        }
        step(r);
    } while (r->token.kind == ',');
    if (r->token.kind != '}') {
        return wrong(r, right);
    }
    step(r);
    return true;
}

static bool read_option(struct reader *r)
{
    char name[REPLY_RULE_NAME_MAX] = "", near[CONFIG_NEAR_TEXT];
    unsigned line = r->token.first_line, i = 0;
    (void)snprintf(name, sizeof(name), SLICE_FMT, SLICE_ARG(r->token.value)); /* cut by design */
    step(r);
    if (r->token.kind != '=') {
        return wrong(r, "write NAME = VALUE");
    }
    step(r);
    drop_items(r);
    if (!read_values(r)) {
        return false;
    }
    while (i < OPTION_COUNT && strcmp(options[i].name, name) != 0) {
        i++;
    }
    if (i == OPTION_COUNT) {
        COMPLAIN(r, line, name,
                 "a rule has no such option; write provider, stage, code, status, "
                 "text, class, scope, action or example%s",
                 meant(name, option_text, 0, OPTION_COUNT, near));
    } else if ((r->seen & 1u << i) != 0) {
        COMPLAIN(r, line, name, "this rule has it already; keep one of them");
    } else if (r->item_count > 1 && !options[i].is_list) {
        COMPLAIN(r, line, name, "it takes one value; write %s = VALUE", name);
    } else if (r->item_count > 0) {
        options[i].take(r);
    }
    r->seen |= i < OPTION_COUNT ? 1u << i : 0;
    return true;
}

/* --- rules ------------------------------------------------------------------------------------ */

static bool is_name(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= REPLY_RULE_NAME_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

static void check_name(struct reader *r)
{
    const struct reply_rule *rule = r->rule;
    if (!is_name(rule->name)) {
        COMPLAIN(r, rule->line, "rule",
                 "\"%.80s\" is no name; write 1 to %d letters, digits and - _ .", rule->name,
                 REPLY_RULE_NAME_MAX);
    }
    for (size_t i = r->first; i + 1 < r->rules->count; i++) {
        if (strcmp(r->rules->items[i].name, rule->name) == 0) {
            COMPLAIN(r, rule->line, "rule",
                     "there is a rule \"%s\" in line %u already; give one of them another name",
                     rule->name, r->rules->items[i].line);
            break;
        }
    }
}

/* What a rule needs, and what does not go together. */
static void check_rule(struct reader *r)
{
    struct reply_rule *rule = r->rule;
    check_name(r);
    if ((r->seen & 1u << OPTION_CLASS) == 0) {
        COMPLAIN(r, rule->line, "class", "rule \"%.64s\" says no class; write class = CLASS",
                 rule->name);
    } else if (rule->class != REPLY_CLASS_COUNT && rule->scope == REPLY_SCOPE_NONE) {
        rule->scope = reply_scope_usual(rule->class);
    } else if (rule->class != REPLY_CLASS_COUNT && rule->scope != REPLY_SCOPE_COUNT &&
               !reply_scope_fits(rule->scope, rule->class)) {
        COMPLAIN(r, r->scope_line, "scope", "a reply that is %s has no scope %s; write %s",
                 reply_class_text(rule->class), reply_scope_text(rule->scope),
                 rule->class == REPLY_BLOCKED ? "lane or destination"
                                              : "none, or another class in this rule");
    }
    bool wants_any = !rule->has_codes && rule->status_count == 0 && rule->text == NULL;
    if (wants_any && r->rules->errors == 0) {
        COMPLAIN(r, rule->line, "rule",
                 "\"%.64s\" is about every reply; write at least one of code, status and text",
                 rule->name);
    }
    for (uint32_t i = 0; i < rule->action_count; i++) {
        if (rule->actions[i].kind == REPLY_ACTION_NONE && rule->action_count > 1) {
            COMPLAIN(r, rule->line, "action", "none goes together with no other; keep one of them");
            break;
        }
    }
}

/* The rule whose title is the token; NULL: out of memory, or too many. */
static struct reply_rule *add_rule(struct reader *r, unsigned line)
{
    struct reply_rules *rules = r->rules;
    if (rules->count == rules->capacity) {
        size_t capacity = rules->capacity == 0 ? 64 : 2 * rules->capacity;
        struct reply_rule *grown = realloc(rules->items, capacity * sizeof(*grown));
        if (grown == NULL) {
            r->err = -ENOMEM;
            return NULL;
        }
        rules->items = grown;
        rules->capacity = capacity;
    }
    if (rules->count == REPLY_RULES_MAX) {
        COMPLAIN(r, line, "rule", "there are more than %d rules; remove some", REPLY_RULES_MAX);
        return NULL;
    }
    char *name = unescape(r);
    if (name == NULL) {
        return NULL;
    }
    struct reply_rule *rule = &rules->items[rules->count++];
    *rule = (struct reply_rule){.name = name, .file = r->source->name, .line = line};
    return rule;
}

static bool read_rule(struct reader *r)
{
    static const char right[] = "write rule \"NAME\" { ... }";
    unsigned line = r->token.first_line;
    if (r->token.kind != 'w' || !slice_eq(r->token.value, SLICE("rule"))) {
        return wrong(r, right);
    }
    step(r);
    if (r->token.kind != 'w') {
        return wrong(r, right);
    }
    r->rule = add_rule(r, line);
    r->seen = 0;
    step(r);
    if (r->rule == NULL) {
        return false;
    }
    if (r->token.kind != '{') {
        return wrong(r, right);
    }
    step(r);
    while (r->token.kind == 'w') {
        if (!read_option(r)) {
            return false;
        }
    }
    if (r->token.kind != '}') {
        return wrong(r, "write NAME = VALUE, or } where the rule ends");
    }
    step(r);
    check_rule(r);
    return true;
}

int reply_file_parse(const struct config_source *source, const struct config_sink *sink,
                     struct reply_rules *rules)
{
    struct reader r = {.source = source, .sink = sink, .rules = rules, .first = rules->count};
    bool is_quote = false;
    unsigned unclosed = config_source_unclosed(source, &is_quote);
    if (unclosed > 0) {
        COMPLAIN(&r, unclosed, "syntax", "this %s is never closed; write %s",
                 is_quote ? "quote" : "brace",
                 is_quote ? "the same quote where the text ends" : "} where its rule or list ends");
        return 0;
    }
    if (source->open_comment > 0) {
        COMPLAIN(&r, source->open_comment, "syntax",
                 "this comment is never closed; write */ where it ends");
        return 0;
    }
    r.token = (struct config_token){.line = 1};
    step(&r);
    while (r.token.kind != 0 && read_rule(&r)) {
    }
    drop_items(&r);
    return r.err;
}

void reply_rules_fini(struct reply_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        reply_rule_fini(&rules->items[i]);
    }
    free(rules->items);
    *rules = (struct reply_rules){.items = NULL};
}
