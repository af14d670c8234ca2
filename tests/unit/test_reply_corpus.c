/* The shipped rules and the table behind them on replies and reports of the world, as
 * reply_corpus.txt has them: how many get the class that its readers gave, and that no reply about
 * anything else is taken for a recipient who is not there, as addresses are suppressed by that.
 * SOURCE_FOLDER comes from the build. */
#include "engine/reply/reply_dsn.h"
#include "engine/reply/reply_set.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS  SOURCE_FOLDER "/tests/unit/reply_corpus.txt"
#define PERCENT 98

/* How an example comes: as it was said, in a report, or said and now quoted by somebody's report. */
enum way { SAID, REPORTED, QUOTED, WAY_COUNT };

struct example {
    enum reply_class class;
    enum way way;
    struct reply reply;
    char text[2000];
};

static bool is_word(const char *word, const char *end, const char *with)
{
    return strlen(with) == (size_t)(end - word) && strncmp(word, with, strlen(with)) == 0;
}

/* One line of the corpus; false: it has no example. */
static bool read_example(char *line, struct example *ret)
{
    char *words[4], *at = line;
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#') {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        words[i] = at;
        at = i < 3 ? strchr(at, ' ') : at;
        assert_non_null(at);
        if (i < 3) {
            *at++ = '\0';
        }
    }
    ret->class = reply_class_find(slice_of(words[0]));
    assert_int_not_equal(ret->class, REPLY_CLASS_COUNT);
    assert_true(strlen(words[3]) < sizeof(ret->text));
    strcpy(ret->text, words[3]);
    char *colon = strchr(words[1], ':');
    const char *end = colon == NULL ? words[1] + strlen(words[1]) : colon;
    if (is_word(words[1], end, "dsn")) {
        ret->way = REPORTED;
        reply_read_dsn(slice_of(colon == NULL ? "" : colon + 1), slice_of(ret->text), &ret->reply);
    } else {
        ret->way = SAID;
        reply_read(slice_of(ret->text), &ret->reply);
        enum reply_stage stage = reply_stage_find(slice_of(words[1]));
        if (strcmp(words[1], "-") != 0) {
            assert_int_not_equal(stage, REPLY_STAGE_COUNT);
            ret->reply.stage = stage;
        }
        ret->reply.provider = slice_of(strcmp(words[2], "-") == 0 ? "" : words[2]);
    }
    return true;
}

static void complain(void *ctx, bool is_warning, const char *line)
{
    (void)ctx;
    (void)is_warning;
    print_error("%s\n", line);
}

struct score {
    unsigned count, right, killed;
};

static void judge(const struct reply_set *set, struct reply_matcher *matcher,
                  const struct example *e, struct score *score)
{
    struct reply_verdict v;
    reply_set_classify(set, matcher, &e->reply, &v);
    score->count++;
    score->right += v.class == e->class;
    score->killed += v.class == REPLY_MAILBOX && e->class != REPLY_MAILBOX;
    if (v.class != e->class) {
        print_message("%s, not %s (%s): %s\n", reply_class_text(e->class),
                      reply_class_text(v.class),
                      v.rule == REPLY_NO_RULE ? v.why : reply_set_rule(set, v.rule)->name, e->text);
    }
}

/* What a host said about a message, as the Diagnostic-Code of another's report, which says no more: what the
 * reply answered is not in it. */
static void judge_quoted(const struct reply_set *set, struct reply_matcher *matcher,
                         struct example *e, struct score *score)
{
    char quoted[sizeof(e->text) + 8];
    bool is_about_message = e->reply.stage == REPLY_AT_MAIL || e->reply.stage == REPLY_AT_RCPT ||
                            e->reply.stage == REPLY_AT_DATA || e->reply.stage == REPLY_AT_END;
    if (e->way == SAID && is_about_message) {
        (void)snprintf(quoted, sizeof(quoted), "smtp; %s", e->text);
        reply_read_dsn(SLICE(""), slice_of(quoted), &e->reply);
        judge(set, matcher, e, score);
    }
}

/* The rules that are shipped. */
struct shipped {
    struct reply_set *set;
    struct reply_matcher *matcher;
};

static struct shipped open_shipped(void)
{
    const struct config_texts none = {NULL, 0};
    const struct config_sink sink = {.complain = complain};
    struct shipped rules = {.matcher = reply_matcher_new()};
    assert_non_null(rules.matcher);
    assert_int_equal(reply_set_load(&none, true, &sink, &rules.set), 0);
    return rules;
}

static void close_shipped(const struct shipped *rules)
{
    reply_matcher_free(rules->matcher);
    reply_set_free(rules->set);
}

static void replies_of_the_world_get_their_class(void **state)
{
    static const char *const names[] = {"replies", "texts of reports", "replies in reports"};
    static const unsigned least[] = {600, 300, 500};
    struct shipped rules = open_shipped();
    struct score scores[WAY_COUNT] = {{0}};
    char *line = NULL;
    size_t room = 0;
    FILE *in = fopen(CORPUS, "re");
    assert_non_null(in);
    while (getline(&line, &room, in) >= 0) {
        struct example e;
        if (read_example(line, &e)) {
            judge(rules.set, rules.matcher, &e, &scores[e.way]);
            judge_quoted(rules.set, rules.matcher, &e, &scores[QUOTED]);
        }
    }
    for (int way = 0; way < WAY_COUNT; way++) {
        const struct score *s = &scores[way];
        print_message("%s: %u of %u right, %u taken for a missing recipient\n", names[way],
                      s->right, s->count, s->killed);
    }
    for (int way = 0; way < WAY_COUNT; way++) {
        assert_true(scores[way].count >= least[way]);
        assert_int_equal(scores[way].killed, 0);
        assert_true(scores[way].right * 100 >= scores[way].count * PERCENT);
    }
    free(line);
    (void)fclose(in); /* it was only read */
    close_shipped(&rules);
}

/* Words of a missing recipient that speak of somebody else. */
static void others_are_no_missing_recipients(void **state)
{
    static const char *const rows[] = {
        "550 Your account has been suspended for sending spam",
        "550 5.1.0 <a@example.org>: Sender address rejected: User unknown in virtual mailbox table",
        "550 sender address does not exist",
        "550 5.7.1 sender user unknown",
        "550 Unknown sender",
        "550 Invalid sender address",
        "550 Return-Path user does not exist: callback said no such user",
        "550 5.1.1 Your IP address is listed, see https://example.com",
        "550 Mailbox for a@example.org (the sender) is not valid",
        "550 5.7.1 recipient not authorized, your IP has been found on a block list",
        "554 5.7.1 Message rejected: unknown user agent",
        "550 bad HELO name: address not found",
        "550 Client host [192.0.2.1] unknown",
        "550 account limit exceeded: your IP sent too many invalid recipients",
        "550 Too many invalid recipients",
        "550 5.7.1 too many unknown users from 192.0.2.1",
        "550 user has blocked you",
        "550 Message contains invalid address in header To",
        "550 The address you sent from is not valid",
        "550 your account has been discontinued",
        "550 Your account is not yet activated for sending",
        "550 5.7.1 Your IP address is not activated for sending",
        "550 The IP address 192.0.2.1 is not yet activated on this relay",
        "550 5.7.1 IP address 192.0.2.1 has been suspended",
        "550 5.7.1 E-mail from your network is no longer accepted here",
        "550 5.7.1 E-mail over TLS 1.0 has been discontinued, upgrade your server",
        "550 5.7.1 Outbound e-mail has been discontinued for abuse from your IP",
        "550 5.7.1 sending account a@example.org is not activated",
        "554 5.7.1 User a@example.org not activated for SMTP relay",
        "550 5.2.0 message refused",
        "550 5.2.0 <a@example.org> From: Domain is invalid. Please provide a valid From:",
        "554 Recipient server unavailable or busy",
        "554 no valid recipients were found: unknown host",
        "554 \"|exec /usr/bin/procmail -f- #user\"... Service unavailable",
        "550 maildir delivery failed: create maildir file /home/user/Maildir/tmp/1: Permission "
        "denied",
        "553 http://www.spamhaus.org/query/bl?ip=192.0.2.222",
        "550 has sent to too many recipients this hour",
        "550-Postmaster verification failed 550-Response: 550 <postmaster@example.org>: User "
        "unknown",
        "550 no",
        "553 no",
    };
    struct shipped rules = open_shipped();
    struct reply reply;
    struct reply_verdict v;
    for (size_t i = 0; i < 3 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice line = slice_of(rows[i / 3]);
        if (i % 3 == 2) {
            reply_read_dsn(SLICE(""), line, &reply);
        } else {
            reply_read(line, &reply);
            reply.stage = i % 3 == 0 ? REPLY_AT_RCPT : REPLY_AT_NOTHING;
        }
        reply_set_classify(rules.set, rules.matcher, &reply, &v);
        if (v.class == REPLY_MAILBOX) {
            fail_msg("%s: %s", rows[i / 3],
                     v.rule == REPLY_NO_RULE ? v.why : reply_set_rule(rules.set, v.rule)->name);
        }
    }
    close_shipped(&rules);
}

/* Words that also stand in replies about hosts that are not there, of a host that is and does not want us. */
static void who_is_unwanted_is_not_elsewhere(void **state)
{
    static const struct {
        enum reply_class class;
        enum reply_stage stage;
        const char *text;
    } rows[] = {
        {REPLY_BLOCKED, REPLY_AT_RCPT,
         "550 5.7.1 <user@example.com>... Service unavailable; your IP is blacklisted"},
        {REPLY_BLOCKED, REPLY_AT_RCPT,
         "550 5.1.1 <user@example.com>... Service unavailable; Client host [192.0.2.1] blocked"},
        {REPLY_BLOCKED, REPLY_AT_RCPT,
         "554 5.7.1 <unknown[192.0.2.1]>: Client host rejected: unknown host, access denied"},
        {REPLY_POLICY, REPLY_AT_RCPT, "550 5.7.1 unknown host 192.0.2.1 not permitted to connect"},
        {REPLY_THROTTLED, REPLY_AT_MAIL,
         "454 4.7.1 You are not permitted to send more than 100 messages per hour to this domain"},
        {REPLY_THROTTLED, REPLY_AT_MAIL, "452 4.3.1 Sender not allowed to send more mail today"},
        {REPLY_THROTTLED, REPLY_AT_MAIL, "421 4.3.2 mail server temporarily unavailable"},
        {REPLY_POLICY, REPLY_AT_MAIL, "550 Access denied - unknown domain in HELO"},
        {REPLY_POLICY, REPLY_AT_MAIL, "550 5.7.1 Mail from unknown domain refused"},
        {REPLY_POLICY, REPLY_AT_RCPT,
         "553 5.7.1 mail from 192.0.2.1 rejected: exceeds our limit of messages"},
        {REPLY_OTHER, REPLY_AT_RCPT, "550 5.5.3 Too many recipients for this message today"},
    };
    struct shipped rules = open_shipped();
    struct reply reply;
    struct reply_verdict v;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reply_read(slice_of(rows[i].text), &reply);
        reply.stage = rows[i].stage;
        reply_set_classify(rules.set, rules.matcher, &reply, &v);
        if (v.class != rows[i].class) {
            fail_msg("%s, by %s: %s", reply_class_text(v.class),
                     v.rule == REPLY_NO_RULE ? v.why : reply_set_rule(rules.set, v.rule)->name,
                     rows[i].text);
        }
    }
    close_shipped(&rules);
}

/* No host's reply is in the report, and no rule knows its words: then nobody refused by a policy. */
static void own_words_of_reports_are_no_refusals(void **state)
{
    static const struct {
        const char *status, *text;
        enum reply_class class;
    } rows[] = {
        {"", "Delivery failed 20 attempts: user@example.com", REPLY_OTHER},
        {"5.5.0", "Delivery failed 20 attempts: user@example.com", REPLY_OTHER},
        {"4.0.0", "Delivery failed 20 attempts: user@example.com", REPLY_UNAVAILABLE},
        {"5.2.0", "Delivery failed 20 attempts: user@example.com", REPLY_OTHER},
        {"5.4.0", "Delivery failed 20 attempts: user@example.com", REPLY_UNAVAILABLE},
        {"5.2.1", "Delivery failed 20 attempts: user@example.com", REPLY_MAILBOX},
        {"", "smtp; 554 Delivery failed 20 attempts: user@example.com", REPLY_POLICY},
    };
    struct shipped rules = open_shipped();
    struct reply reply;
    struct reply_verdict v;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reply_read_dsn(slice_of(rows[i].status), slice_of(rows[i].text), &reply);
        reply_set_classify(rules.set, rules.matcher, &reply, &v);
        assert_int_equal(v.class, rows[i].class);
    }
    close_shipped(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_of_the_world_get_their_class),
        cmocka_unit_test(others_are_no_missing_recipients),
        cmocka_unit_test(who_is_unwanted_is_not_elsewhere),
        cmocka_unit_test(own_words_of_reports_are_no_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
