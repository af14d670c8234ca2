/* Rules files and what they make of replies: every kind of mistake with its line, the order of
 * rules, the table without a rule, and each shipped rule on its own example. */
#include "base/buf.h"
#include "base/error.h"
#include "engine/reply/reply_literal.h"
#include "engine/reply/reply_set.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIPPED_MIN 200
#define A           "rule a { code = 421 class = throttled }\n"

static void hear(void *ctx, bool is_warning, const char *line)
{
    (void)is_warning;
    buf_printf(ctx, "%s\n", line);
}

/* The set of the text, or NULL; *ret_said: all complaints, NUL-terminated, until the next call */
static struct reply_set *load(const char *text, const char **ret_said)
{
    static struct buf said;
    const struct config_sink sink = {.complain = hear, .ctx = &said};
    struct reply_set *s = NULL;
    buf_fini(&said);
    buf_init(&said, 0);
    int err = reply_set_load_text(slice_of(text), "f", &sink, &s);
    assert_true(err == (s == NULL ? ERR_SYNTAX : 0));
    buf_append_char(&said, '\0');
    *ret_said = said.data;
    return s;
}

static struct reply_set *load_right(const char *text)
{
    const char *said;
    struct reply_set *s = load(text, &said);
    assert_string_equal(said, "");
    assert_non_null(s);
    return s;
}

static void mistakes_are_told_with_their_line(void **state)
{
    static const struct {
        const char *text, *said; /* a line begins so */
    } rows[] = {
        {"rule a {\n code = 421\n class = throttled\n text = 'a(b' }",
         "f:4: text: rule \"a\": missing closing parenthesis, at byte 3 of the expression; write a "
         "Perl"},
        {"rule a { code = 421 class = throttled\n\n text = '(a+)+$' }",
         "f:3: text: rule \"a\": this expression needs more than 20000 steps to see that it does "
         "not match; write no repetition inside"},
        {"rule a { code = 421 class = throttled text = '(x+x+)+[yz]'\n"
         " example = '421 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }",
         "f:1: text: rule \"a\": this expression needs more than"},
        {"rule a { code = 421\n class = slow }",
         "f:2: class: \"slow\" is no class; write throttled, blocked,"},
        {"rule a { code = 421 class = trottled }",
         "f:1: class: \"trottled\" is no class; write throttled, blocked, greylisted, unavailable, "
         "mailbox, full, content, policy, auth, protocol or other; did you mean \"throttled\"?"},
        {"rule a { code = 421 class = throttled\n scope = lanes }",
         "f:2: scope: \"lanes\" is no scope; write messages, recipients, connection-rate, "
         "connections or session for throttled, lane or destination for blocked; did you mean "
         "\"lane\"?"},
        {"rule a { code = 421 class = throttled\n scope = lane }",
         "f:2: scope: a reply that is throttled has no scope lane; write"},
        {"rule a { code = 421 class = mailbox\n scope = messages }",
         "f:2: scope: a reply that is mailbox has no scope messages; write none"},
        {"rule a { code = 421 class = throttled\n action = 'stop' }",
         "f:2: action: \"stop\" is no action; "},
        {"rule a { code = 421 class = throttled\n action = 'pause 5m3s' }",
         "f:2: action: \"5m3s\" has two units; write a whole number"},
        {"rule a { code = 421 class = throttled\n action = {'slow',\n 'pause 0s'} }",
         "f:3: action: \"0s\" is no time at all; write at least 1s"},
        {"rule a { code = 421 class = throttled action = {slow, none} }",
         "f:1: action: none goes together with no other;"},
        {"rule a { code = 421 class = throttled\n stage = body }",
         "f:2: stage: \"body\" is no stage; write greeting,"},
        {"rule a { code = 250 class = throttled }", "f:1: code: \"250\" is no code that refuses;"},
        {"rule a { code = 4x1 class = throttled }", "f:1: code: \"4x1\" is no code that refuses;"},
        {"rule a { status = 4.7 class = throttled }",
         "f:1: status: \"4.7\" is no enhanced status; write three numbers"},
        {"rule a { status = 4.7.x1 class = throttled }", "f:1: status: \"4.7.x1\" is no"},
        {"rule a { status = 4.7.1234 class = throttled }", "f:1: status: \"4.7.1234\" is no"},
        {"rule a { class = throttled }", "f:1: rule: \"a\" is about every reply; write at least"},
        {"rule a { code = 421 }", "f:1: class: rule \"a\" says no class; write class = CLASS"},
        {"rule 'a b' { code = 421 class = full }", "f:1: rule: \"a b\" is no name; write"},
        {A "\n" A, "f:3: rule: there is a rule \"a\" in line 1 already;"},
        {"rule a { code = 421 class = full\n colour = red }",
         "f:2: colour: a rule has no such option; write provider, stage,"},
        {"rule a { code = 421 class = full\n txet = red }",
         "f:2: txet: a rule has no such option; write provider, stage, code, status, text, class, "
         "scope, action or example; did you mean \"text\"?"},
        {"rule a { code = 421 class = full\n code = 422 }",
         "f:2: code: this rule has it already; keep one of them"},
        {"rule a { code = 421 class = {full, mailbox} }",
         "f:1: class: it takes one value; write class = VALUE"},
        {"rule a { code = 421 class = full\n text = \"a\\.b\" }",
         "f:2: syntax: \\. is not known in double quotes; write a regular expression in 'single"},
        {"rule a { code = 421 class = full\n example = '550 5.1.1 nobody' }",
         "f:2: example: rule \"a\" is not about its own example; write a whole reply"},
        {"rule a { code = 421 class = full text = '' }", "f:1: text: it has 0 bytes; write 1 to"},
        {"rule a { code = 421 class = full\n", "f:1: syntax: this brace is never closed; write }"},
        {"rule a { code = 421 text = 'x\n class = full }", "f:1: syntax: this quote is never"},
        {"/* rule a", "f:1: syntax: this comment is never closed; write */ where it ends"},
        {"rule { code = 421 }",
         "f:1: syntax: \"{\" stands in the wrong place; write rule \"NAME\""},
        {"\nclass = full", "f:2: syntax: \"class\" stands in the wrong place; write rule \"NAME\""},
        {"rule a { code 421 }", "f:1: syntax: \"421\" stands in the wrong place; write NAME ="},
        {"rule a { code = }",
         "f:1: syntax: \"}\" stands in the wrong place; write NAME = VALUE or"},
        {"rule a { code = {421 class = full }", "f:1: syntax: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *said;
        assert_null(load(rows[i].text, &said));
        if (strncmp(said, rows[i].said, strlen(rows[i].said)) != 0) {
            fail_msg("of %s\nsaid:   %s\nwanted: %s", rows[i].text, said, rows[i].said);
        }
    }
}

static void one_run_shows_all_mistakes(void **state)
{
    const char *said;
    (void)state;
    assert_null(load("rule a { code = 99 class = full }\nrule b { code = 421 class = x }\n"
                     "rule c { text = '(' class = full }",
                     &said));
    assert_non_null(strstr(said, "f:1: code: "));
    assert_non_null(strstr(said, "f:2: class: "));
    assert_non_null(strstr(said, "f:3: text: "));
}

static struct reply_verdict classify(const struct reply_set *s, const char *line,
                                     enum reply_stage stage, const char *provider)
{
    struct reply_matcher *m = reply_matcher_new();
    struct reply_verdict v;
    struct reply r;
    assert_non_null(m);
    reply_read(slice_of(line), &r);
    r.stage = stage;
    r.provider = slice_of(provider);
    reply_set_classify(s, m, &r, &v);
    reply_matcher_free(m);
    return v;
}

static void the_first_rule_that_fits_wins(void **state)
{
    static const char text[] =
        "rule one { provider = P code = 421 text = 'slow  ?down' class = throttled }\n"
        "rule two { stage = {rcpt, data} code = 45x class = greylisted }\n"
        "rule three { status = {4.7.x, x.1.1} class = blocked scope = destination }\n"
        "rule four { text = '^odd text$' class = full }\n"
        "rule six { status = 5.7.5xx class = other }\n"
        "rule five { code = 4xx text = 'a' class = other }\n";
    static const struct {
        const char *line;
        enum reply_stage stage;
        const char *provider;
        uint16_t rule;
    } rows[] = {
        {"421 please SLOW down", REPLY_AT_MAIL, "", 0},
        {"421 please slow   down", REPLY_AT_MAIL, "p", 0},
        {"421 please slow down", REPLY_AT_MAIL, "P-365", 0},
        {"421 please slow down", REPLY_AT_MAIL, "p365", 5},
        {"421 plese slow down", REPLY_AT_MAIL, "q", REPLY_NO_RULE},
        {"451 later", REPLY_AT_RCPT, "", 1},
        {"451 later", REPLY_AT_NOTHING, "", 1},
        {"451 4.7.99 later", REPLY_AT_END, "", 2},
        {"550 5.1.1 later", REPLY_AT_RCPT, "", 2},
        {"550 5.1.11 later", REPLY_AT_RCPT, "", REPLY_NO_RULE},
        {"550 odd text", REPLY_AT_RCPT, "", 3},
        {"550 5.2.2 odd 5.2.2 text", REPLY_AT_RCPT, "", 3}, /* of several lines */
        {"550 5.2.2 odd 5.2.3 text", REPLY_AT_RCPT, "", REPLY_NO_RULE},
        {"421 AAA", REPLY_AT_MAIL, "", 5},
        {"550 5.7.512 x", REPLY_AT_MAIL, "", 4},
        {"550 5.7.51 x", REPLY_AT_MAIL, "", REPLY_NO_RULE},
        {"250 2.1.1 odd text", REPLY_AT_MAIL, "", REPLY_NO_RULE},
    };
    (void)state;
    struct reply_set *s = load_right(text);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reply_verdict v = classify(s, rows[i].line, rows[i].stage, rows[i].provider);
        if (v.rule != rows[i].rule) {
            fail_msg("%s: rule %u, not %u", rows[i].line, v.rule, rows[i].rule);
        }
        assert_true((v.rule == REPLY_NO_RULE) == (v.why != NULL) || v.class == REPLY_CLASS_NONE);
    }
    struct reply_verdict v = classify(s, "421 slow down", REPLY_AT_MAIL, "");
    assert_int_equal(v.class, REPLY_THROTTLED);
    assert_int_equal(v.scope, REPLY_MESSAGES); /* the class's usual one */
    assert_int_equal(classify(s, "250 ok", REPLY_AT_END, "").class, REPLY_CLASS_NONE);
    reply_set_free(s);
}

static void a_shadowed_example_is_told(void **state)
{
    const char *said;
    (void)state;
    struct reply_set *s = load("rule a { code = 4xx class = full }\n"
                               "rule b { code = 421 class = other\n example = '421 x' }",
                               &said);
    assert_non_null(s);
    assert_non_null(
        strstr(said, "f:3: example: warning: rule \"a\" in line 1 is about this reply"));
    reply_set_free(s);
}

/* At run time an expression that needs too many steps is passed over, counted, and ends soon. */
static void steps_are_bounded(void **state)
{
    char line[900] = "421 ";
    (void)state;
    struct reply_set *s = load_right("rule b { text = '(q+r?)+[yz]' class = full }\n" A);
    memset(line + 4, 'q', sizeof(line) - 5);
    line[sizeof(line) - 1] = '\0';
    struct reply_verdict v = classify(s, line, REPLY_AT_MAIL, "");
    assert_int_equal(v.rule, 1);
    assert_int_equal(reply_set_failures(s, 0), 1);
    assert_int_equal(reply_set_failures(s, 1), 0);
    reply_set_free(s);
}

static void without_a_rule_the_table_decides(void **state)
{
    static const struct {
        const char *line;
        enum reply_stage stage;
        enum reply_class class;
        enum reply_scope scope;
    } rows[] = {
        {"421 no", REPLY_AT_GREETING, REPLY_UNAVAILABLE, REPLY_SCOPE_NONE},
        {"450 no", REPLY_AT_GREETING, REPLY_UNAVAILABLE, REPLY_SCOPE_NONE},
        {"454 4.7.0 no", REPLY_AT_EHLO, REPLY_UNAVAILABLE, REPLY_SCOPE_NONE},
        {"connect to h[1.2.3.4]:25: Connection refused", REPLY_AT_NOTHING, REPLY_UNAVAILABLE, 0},
        {"lost connection with h[1.2.3.4] while", REPLY_AT_MAIL, REPLY_UNAVAILABLE, 0},
        {"conversation with h[1.2.3.4] timed out", REPLY_AT_END, REPLY_UNAVAILABLE, 0},
        {"Protocol error: host h[1.2.3.4] said: x", REPLY_AT_MAIL, REPLY_PROTOCOL, 0},
        {"421 no", REPLY_AT_MAIL, REPLY_THROTTLED, REPLY_MESSAGES},
        {"450 4.7.99 no", REPLY_AT_MAIL, REPLY_THROTTLED, REPLY_MESSAGES},
        {"450 4.3.2 no", REPLY_AT_MAIL, REPLY_THROTTLED, REPLY_MESSAGES},
        {"450 4.3.1 no", REPLY_AT_MAIL, REPLY_FULL, 0},
        {"450 4.2.1 no", REPLY_AT_RCPT, REPLY_MAILBOX, 0},
        {"452 4.2.2 no", REPLY_AT_RCPT, REPLY_FULL, 0},
        {"552 5.2.2 no", REPLY_AT_RCPT, REPLY_FULL, 0},
        {"452 4.5.3 no", REPLY_AT_RCPT, REPLY_OTHER, 0},
        {"450 4.7.1 no", REPLY_AT_RCPT, REPLY_GREYLISTED, 0},
        {"451 4.7.1 no", REPLY_AT_RCPT, REPLY_GREYLISTED, 0},
        {"452 4.7.1 no", REPLY_AT_RCPT, REPLY_POLICY, 0},
        {"451 4.7.1 no", REPLY_AT_END, REPLY_OTHER, 0},
        {"452 4.2.2 no", REPLY_AT_END, REPLY_FULL, 0},
        {"550 5.1.1 no", REPLY_AT_RCPT, REPLY_MAILBOX, 0},
        {"550 5.1.1 no", REPLY_AT_MAIL, REPLY_POLICY, 0},
        {"550 no", REPLY_AT_RCPT, REPLY_OTHER, 0},
        {"551 no", REPLY_AT_RCPT, REPLY_MAILBOX, 0},
        {"550 no", REPLY_AT_END, REPLY_POLICY, 0},
        {"550 5.7.1 no", REPLY_AT_MAIL, REPLY_POLICY, 0},
        {"554 no", REPLY_AT_GREETING, REPLY_POLICY, 0},
        {"550 5.7.26 no", REPLY_AT_END, REPLY_AUTH, 0},
        {"535 5.7.8 no", REPLY_AT_AUTH, REPLY_AUTH, 0},
        {"552 5.3.4 no", REPLY_AT_MAIL, REPLY_CONTENT, 0},
        {"503 5.5.1 no", REPLY_AT_DATA, REPLY_PROTOCOL, 0},
        {"554 5.6.0 no", REPLY_AT_END, REPLY_CONTENT, 0},
        {"599 no", REPLY_AT_RCPT, REPLY_OTHER, 0},
    };
    (void)state;
    struct reply_set *s = load_right("");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reply_verdict v = classify(s, rows[i].line, rows[i].stage, "");
        if (v.class != rows[i].class || v.scope != rows[i].scope) {
            fail_msg("%s: %s %s", rows[i].line, reply_class_text(v.class),
                     reply_scope_text(v.scope));
        }
        assert_non_null(v.why);
    }
    reply_set_free(s);
}

/* What is known around a reply changes what the same words mean. */
static void the_table_looks_around(void **state)
{
    struct reply_set *s = load_right("");
    struct reply_matcher *m = reply_matcher_new();
    struct reply r = {.stage = REPLY_AT_GREETING, .code = 421, .has_others = true};
    struct reply_verdict v;
    (void)state;
    assert_non_null(m);
    reply_set_classify(s, m, &r, &v);
    assert_true(v.class == REPLY_THROTTLED && v.scope == REPLY_CONNECTIONS);
    r = (struct reply){.stage = REPLY_AT_MAIL, .code = 421, .is_later_mail = true};
    reply_set_classify(s, m, &r, &v);
    assert_true(v.class == REPLY_THROTTLED && v.scope == REPLY_SESSION);
    r = (struct reply){
        .stage = REPLY_AT_RCPT, .code = 450, .status = "4.7.1", .is_known_here = true};
    reply_set_classify(s, m, &r, &v);
    assert_int_equal(v.class, REPLY_POLICY);
    reply_matcher_free(m);
    reply_set_free(s);
}

/* A literal is claimed only where no match can do without it. */
static void literals_are_conservative(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool may_have;
    } rows[] = {
        {"slow down", "please SLOW DOWN now", true},
        {"slow down", "please go on", false},
        {"blocked using .*spamhaus", "x", false},
        {"(blocked|listed) using", "blocked using", true},
        {"(blocked|listed) us", "xx us", false},
        {"(blocked|listed)? us", "xx us", true},
        {"a(blocked|no) us", "xx us", true},
        {"(a(bcd|cde)f|g(hij)?klm)", "xx klm", true},
        {"(a(bcd|cde)f|g(hij)?klm)", "xx hij", false},
        {"(long|short){2}", "nothing", true},
        {"long {text|short", "short", true},
        {"long{1,2} text", "lon text", true},
        {"a(?=longer)", "nothing", true},
        {"(blocked|listed) using", "blocked by", false},
        {"abcdefs?", "abcdef", true},
        {"abcd*", "abc", true},
        {"abcde{0,1}", "abcd", true},
        {"abcd+efgh", "abcddefgh", true},
        {"alpha|beta", "beta", true},
        {"(?i)alpha", "nothing", true},
        {"\\Qa.b.c.d\\E", "nothing", true},
        {"(?x) a b c d e", "abcde", true},
        {"\\x41\\x42long text", "nothing", true},
        {"[a|b(]long text", "along text", true},
        {"[]a]long text", "]long text", true},
        {"[[:alpha:]]long text", "zlong text", true},
        {"\\d\\.\\d long", "1.2 long", true},
        {"(a(b|c)\\)|[)])rest of", "xrest of", true},
        {"(?:unclosed", "x", true},
        {"long\\btext here", "longtext here", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reply_literal literal;
        struct reply_grams grams;
        reply_literal_find(slice_of(rows[i].pattern), &literal);
        reply_grams_mark(&grams, slice_of(rows[i].text));
        if (reply_grams_may_have(&grams, &literal) != rows[i].may_have) {
            fail_msg("%s in %s", rows[i].pattern, rows[i].text);
        }
    }
}

static void hear_aloud(void *ctx, bool is_warning, const char *line)
{
    unsigned *count = ctx;
    print_error("%s: %s\n", is_warning ? "warning" : "error", line);
    ++*count;
}

/* Loading them fails when a rule is not about its example; a warning says that another one is. */
static void each_shipped_rule_is_about_its_example(void **state)
{
    const struct config_texts none = {NULL, 0};
    unsigned complaints = 0;
    const struct config_sink sink = {.complain = hear_aloud, .ctx = &complaints};
    struct reply_set *s = NULL;
    (void)state;
    int err = reply_set_load(&none, true, &sink, &s);
    assert_int_equal(complaints, 0);
    assert_int_equal(err, 0);
    size_t count = reply_set_count(s);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(reply_set_rule(s, i)->example);
    }
    print_message("%zu shipped rules\n", count);
    assert_true(count >= SHIPPED_MIN);
    reply_set_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told_with_their_line),
        cmocka_unit_test(one_run_shows_all_mistakes),
        cmocka_unit_test(the_first_rule_that_fits_wins),
        cmocka_unit_test(a_shadowed_example_is_told),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(without_a_rule_the_table_decides),
        cmocka_unit_test(the_table_looks_around),
        cmocka_unit_test(literals_are_conservative),
        cmocka_unit_test(each_shipped_rule_is_about_its_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
