/* Reports of mailers that there are, in tests/fuzz/corpus/heard: what is read of each. */
#include "base/buf.h"
#include "engine/heard/heard.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "aeatcmqucmmfdbqhaeatcmqucmmfdbqhaeatcmqucmmfdbqh"

static struct heard heard;

static int setup(void **state)
{
    (void)state;
    heard_setup();
    return 0;
}

static void read_text(const char *text)
{
    heard_read(slice_of(text), SLICE("x@fbl.example.com"), &heard);
}

static void read_sample(const char *name)
{
    char path[512];
    static char text[512 * 1024];
    (void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/heard/%s", SOURCE_FOLDER, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    heard_read(slice_make(text, len), SLICE("x@fbl.example.com"), &heard);
}

static bool has_address(const char *address)
{
    for (size_t i = 0; i < heard.address_count; i++) {
        if (strcmp(heard.addresses[i], address) == 0) {
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name, *shape, *status, *diagnostic;
    enum heard_action action;
    bool has_returned_token;
} bounces[] = {
    {"postfix", "RFC 3464", "5.1.1",
     "550 5.1.1 <jane@example.net>: Recipient address rejected: User unknown", HEARD_FAILED, true},
    {"postfix_delay", "RFC 3464", "4.4.1",
     "connect to in.example.net[192.0.2.1]:25: Connection timed out", HEARD_DELAYED, true},
    {"exchange_online", "RFC 3464", "5.1.10", "550 5.1.10 RESOLVER.ADR.RecipientNotFound",
     HEARD_FAILED, true},
    {"exchange_prose", "Exchange", "5.2.2", "550 5.2.2 RESOLVER.QuotaExceeded", HEARD_FAILED, true},
    {"exchange_55", "Exchange", "", "on Mon, 23 Nov 2026 10:00:01 -0000 The recipient name is not",
     HEARD_FAILED, true},
    {"qmail", "qmail", "5.1.1", "550 5.1.1 <jane@example.net>... User unknown", HEARD_FAILED, true},
    {"srs", "qmail", "5.1.1", "550 5.1.1 <jane@example.net>... User unknown", HEARD_FAILED, true},
    {"exim", "Exim", "5.7.1", "550 5.7.1 Message rejected due to content", HEARD_FAILED, true},
    {"exim_delay", "Exim", "", "No action is required", HEARD_DELAYED, false},
    {"sendmail", "RFC 3464", "5.1.1", "550 5.1.1 <jane@example.net>... User unknown", HEARD_FAILED,
     true},
    {"sendmail_8", "sendmail", "5.1.1", "550 5.1.1 <jane@example.net>... User unknown",
     HEARD_FAILED, true},
    {"gmail", "RFC 3464", "5.1.1", "550-5.1.1 The email account that you tried", HEARD_FAILED,
     true},
    {"gmail_2010", "Gmail", "5.2.2", "552 552 5.2.2 Mailbox full", HEARD_FAILED, true},
    {"yahoo", "Yahoo", "", "554: delivery error: dd This user doesn't have", HEARD_FAILED, true},
    {"domino", "RFC 3464", "5.1.1", "User jane (jane@example.net) not listed in Domin",
     HEARD_FAILED, true},
    {"imail", "IMail", "", "User mailbox exceeds allowed size: jane@example.net", HEARD_FAILED,
     true},
    {"groupwise", "GroupWise", "", "(user not found)", HEARD_FAILED, true},
    {"hmailserver", "Exchange", "5.7.1", "554 5.7.1 Service unavailable; client host blocked",
     HEARD_FAILED, false},
    {"mdaemon", "MDaemon", "5.1.1", "550 5.1.1 <jane@example.net>, Recipient unknown", HEARD_FAILED,
     false},
    {"courier", "RFC 3464", "5.1.1", "550 5.1.1 User unknown.", HEARD_FAILED, true},
};

static void bounces_of_twenty_shapes(void **state)
{
    for (size_t i = 0; i < sizeof(bounces) / sizeof(bounces[0]); i++) {
        read_sample(bounces[i].name);
        print_message("%s: %s %s [%s] %s\n", bounces[i].name, heard_kind_text(heard.kind),
                      heard.shape, heard.recipients[0].status, heard.recipients[0].diagnostic);
        assert_int_equal(heard.kind, HEARD_BOUNCE);
        assert_string_equal(heard.shape, bounces[i].shape);
        assert_true(heard.recipient_count >= 1);
        const struct heard_recipient *first = &heard.recipients[0];
        assert_string_equal(first->address, "jane@example.net");
        assert_string_equal(first->status, bounces[i].status);
        assert_int_equal(first->action, bounces[i].action);
        assert_memory_equal(first->diagnostic, bounces[i].diagnostic,
                            strlen(bounces[i].diagnostic));
        assert_int_equal(heard.returned_token_count, bounces[i].has_returned_token);
        assert_true(has_address("jane@example.net"));
        if (bounces[i].has_returned_token) {
            assert_memory_not_equal(heard.returned_tokens[0], "", 1);
            assert_string_equal(heard.original_message_id, "<n1@example.com>");
        }
        assert_false(heard.is_cut);
    }
}

static void further_recipients(void **state)
{
    read_sample("qmail");
    assert_int_equal(heard.recipient_count, 2);
    assert_string_equal(heard.recipients[1].address, "joe@example.net");
    assert_string_equal(heard.recipients[1].status, "5.2.2");
    read_sample("multiple");
    assert_int_equal(heard.recipient_count, 3);
    assert_int_equal(heard.recipients[1].action, HEARD_DELIVERED);
    assert_int_equal(heard.recipients[2].action, HEARD_EXPANDED);
    assert_string_equal(heard.recipients[2].original, "list@example.net");
    assert_true(has_address("list@example.net"));
    read_sample("eai");
    assert_int_equal(heard.kind, HEARD_BOUNCE);
    assert_string_equal(heard.recipients[0].address, "j\xc3\xa4ne@example.net");
    assert_int_equal(heard.returned_token_count, 1);
}

static void fields_of_a_status(void **state)
{
    read_sample("postfix");
    assert_string_equal(heard.reporting_mta, "mx.example.net");
    assert_string_equal(heard.recipients[0].remote_mta, "in.example.net");
    assert_string_equal(heard.arrival_date, "Mon, 23 Nov 2026 10:00:00 +0000 (UTC)");
    assert_string_equal(heard.from, "MAILER-DAEMON@mx.example.net");
    assert_memory_equal(heard.returned_tokens[0], TOKEN, RETURN_TOKEN_LEN);
    assert_int_equal(heard.token_count, 1); /* in To, and as X-Postfix-Sender */
}

static void complaints(void **state)
{
    read_sample("arf");
    assert_int_equal(heard.kind, HEARD_COMPLAINT);
    assert_string_equal(heard.shape, "RFC 5965");
    assert_string_equal(heard.feedback_type, "abuse");
    assert_string_equal(heard.user_agent, "SomeGenerator/1.0");
    assert_string_equal(heard.source_ip, "192.0.2.7");
    assert_string_equal(heard.reported_domain, "example.com");
    assert_string_equal(heard.original_mail_from, "bounces+" TOKEN "@b.example.com");
    assert_int_equal(heard.incidents, 3);
    assert_int_equal(heard.returned_token_count, 1);
    assert_true(has_address("jane@example.net"));

    read_sample("arf_yahoo");
    assert_int_equal(heard.kind, HEARD_COMPLAINT);
    assert_true(has_address("jane@example.net"));
    assert_int_equal(heard.returned_token_count, 1);
    assert_int_equal(heard.token_count, 0);

    read_sample("jmrp");
    assert_int_equal(heard.kind, HEARD_COMPLAINT);
    assert_string_equal(heard.shape, "JMRP");
    assert_string_equal(heard.feedback_type, "abuse");
    assert_true(has_address("jane@example.net"));
    assert_int_equal(heard.returned_token_count, 1);

    read_sample("arf_not_spam");
    assert_int_equal(heard.kind, HEARD_COMPLAINT);
    assert_string_equal(heard.feedback_type, "not-spam");
}

static void unsubscribes(void **state)
{
    read_sample("arf_opt_out");
    assert_int_equal(heard.kind, HEARD_UNSUBSCRIBE);
    assert_true(has_address("jane@example.net"));
    read_sample("unsubscribe");
    assert_int_equal(heard.kind, HEARD_UNSUBSCRIBE);
    assert_true(has_address("jane@example.net"));
    assert_int_equal(heard.token_count, 1);
    heard_read(SLICE("From: jane@example.net\n\n"), SLICE("Unsubscribe+x@fbl.example.com"), &heard);
    assert_int_equal(heard.kind, HEARD_UNSUBSCRIBE);
    assert_false(has_address("joe@a.test"));
    /* Our links name the recipient, who may write from elsewhere. */
    heard_read(SLICE("From: jane@example.net\nSubject: unsubscribe joe@a.test\n\n"),
               SLICE("unsub-acme+x@fbl.example.com"), &heard);
    assert_int_equal(heard.kind, HEARD_UNSUBSCRIBE);
    assert_true(has_address("joe@a.test") && has_address("jane@example.net"));
    heard_read(SLICE("From: jane@example.net\n\n"), SLICE("unsubscribed@fbl.example.com"), &heard);
    assert_int_equal(heard.kind, HEARD_UNKNOWN);
}

/* What a subject says beside the wish is somebody else's subject. */
static void no_unsubscribes(void **state)
{
    static const char *const wishes[] = {"From: a@b.test\nSubject: Unsubscribe\n\n",
                                         "From: a@b.test\nSubject: Re: OPT-OUT.\n\n",
                                         "From: a@b.test\nSubject: Please remove me!\n\n"};
    static const char *const others[] = {
        "From: a@b.test\nSubject: Re: Unsubscribe from our old list is now easier\n\n",
        "From: a@b.test\nSubject: Re: Unsubscribe rates in Q3: webinar\n\nThank you!\n",
        "From: a@b.test\nSubject: RE: Opt-out deadline for health plan\n\n",
        "From: a@b.test\nSubject: unsubscribed\n\n"};
    static const char *const programs[] = {
        "From: a@b.test\nSubject: Re: Unsubscribe\nAuto-Submitted: auto-replied (vacation)\n\n",
        "From: a@b.test\nSubject: RE: Opt-out deadline for health plan\nPrecedence: auto_reply\n\n",
        "From: a@b.test\nSubject: Unsubscribe\nX-Autoreply: yes\n\n"};
    for (size_t i = 0; i < 3; i++) {
        read_text(wishes[i]);
        assert_int_equal(heard.kind, HEARD_UNSUBSCRIBE);
        read_text(programs[i]);
        assert_int_equal(heard.kind, HEARD_AUTO_REPLY);
    }
    for (size_t i = 0; i < 4; i++) {
        read_text(others[i]);
        assert_int_equal(heard.kind, HEARD_UNKNOWN);
    }
    (void)state;
}

/* A search in text would not find them; a typed field has nothing else. */
static void odd_addresses(void **state)
{
    static const char *const addresses[] = {"\"a b\"@a.test", "\"a\\\"b+c\"@a.test", "\"@\"@a.test",
                                            "a@[192.0.2.7]"};
    static const char *const others[] = {"\"a b@a.test", "\"a\" b@a.test",   "\"a\"@", "@[x]", "\"",
                                         "\"a\\",        "a b@[192.0.2.7] x"};
    char text[300];
    for (size_t i = 0; i < 8; i++) {
        const char *one = addresses[i / 2];
        (void)snprintf(text, sizeof(text),
                       "Content-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\n"
                       "Final-Recipient: rfc822; %s%s%s\nAction: failed\nStatus: 5.1.1\n",
                       i % 2 == 0 ? "" : "<", one, i % 2 == 0 ? "" : ">");
        read_text(text);
        assert_int_equal(heard.kind, HEARD_BOUNCE);
        assert_string_equal(heard.recipients[0].address, one);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)snprintf(text, sizeof(text),
                       "Content-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\n"
                       "Final-Recipient: rfc822; %s\nAction: failed\nStatus: 5.1.1\n",
                       others[i]);
        read_text(text);
        assert_true(heard.recipient_count == 0 ||
                    strcmp(heard.recipients[0].address, others[i]) != 0);
    }
    (void)state;
}

/* A person asks what it was that came back. */
static void quoted_bounces(void **state)
{
#define QMAIL(mark)                                                                                \
    mark "Hi. This is the qmail-send program at mx.example.net.\n" mark "\n" mark                  \
         "<jane@example.net>:\n" mark "550 5.1.1 no such user\n"
    static const char *const persons[] = {
        "From: jo@b.test\nSubject: Re: failure notice\n\nWhat is this?\n\n" QMAIL("> "),
        "From: jo@b.test\nSubject: RE: failure notice\n\nWhat is this?\n\n" QMAIL(""),
        "From: jo@b.test\nSubject: Fwd: failure notice\n\n" QMAIL(""),
        "From: jo@b.test\nSubject: a failure notice came\n\n" QMAIL(">")};
    for (size_t i = 0; i < sizeof(persons) / sizeof(persons[0]); i++) {
        read_text(persons[i]);
        assert_int_equal(heard.kind, HEARD_UNKNOWN);
        assert_int_equal(heard.recipient_count, 0);
    }
    read_text("From: jo@b.test\nSubject: failure notice\n\n" QMAIL(""));
    assert_int_equal(heard.kind, HEARD_BOUNCE);
    (void)state;
#undef QMAIL
}

/* What costs the parser more than its bytes is not given to it, and said. */
static void borders_are_bounded(void **state)
{
    static const char *const borders[] = {"--b\n\n", "-- \n",
                                          "Content-Type: multipart/mixed; boundary=b\n"};
    static const size_t most[] = {HEARD_BORDERS_MAX, HEARD_BORDERS_MAX, HEARD_PARTS_MAX - 1};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (size_t more = 0; more < 2; more++) {
            struct buf text;
            buf_init(&text, 0);
            buf_append_str(&text, "From: a@b.test\nSubject: x\n\n");
            for (size_t n = 0; n < most[i] + more + (i == 2); n++) {
                buf_append_str(&text, borders[i]);
            }
            buf_append_str(&text, "bounces+" TOKEN "@b.test\n");
            heard_read(buf_slice(&text), SLICE("x@b.test"), &heard);
            assert_int_equal(heard.is_cut, more == 1);
            assert_int_equal(heard.token_count, 1 - more);
            buf_fini(&text);
        }
    }
}

static void auto_replies(void **state)
{
    static const char *const names[] = {"auto_reply", "auto_reply_outlook", "read_receipt"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        read_sample(names[i]);
        assert_int_equal(heard.kind, HEARD_AUTO_REPLY);
        assert_true(has_address("jane@example.net"));
        assert_int_equal(heard.recipient_count, 0);
    }
}

static void what_is_none_of_these(void **state)
{
    static const char *const names[] = {"person",    "newsletter",   "empty",
                                        "no_header", "charset_bomb", "boundaries"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        read_sample(names[i]);
        assert_int_equal(heard.kind, HEARD_UNKNOWN);
        assert_int_equal(heard.recipient_count, 0);
    }
}

/* --- hostile ---------------------------------------------------------------------------------- */

static void repeat(struct buf *out, const char *text, size_t bytes)
{
    while (out->len < bytes) {
        buf_append_str(out, text);
    }
    buf_append_char(out, '\0');
    assert_false(out->failed);
}

static void bounds_that_are_met_are_said(void **state)
{
    static const struct {
        const char *head, *repeated;
        enum heard_kind kind;
    } samples[] = {
        {"Content-Type: multipart/mixed; boundary=b\n\n", "--b\n\nx\n", HEARD_UNKNOWN},
        {"Content-Type: multipart/mixed; boundary=b\n",
         "\n--b\nContent-Type: multipart/mixed; "
         "boundary=b\n",
         HEARD_UNKNOWN},
        {"", "Content-Type: message/rfc822\n\n", HEARD_UNKNOWN},
        {"", "A: b\n", HEARD_UNKNOWN},
        {"Content-Type: message/delivery-status\n\n",
         "Final-Recipient: rfc822; a@example.net\n\nFinal-Recipient: rfc822; b@example.net\n\n",
         HEARD_BOUNCE},
        {"From: mailer-daemon@example.net\nSubject: failure notice\n\n",
         "<a@example.net>: 550 5.1.1 none\n", HEARD_BOUNCE},
        {"Content-Type: text/plain; charset=utf-7\n\n", "+//8-", HEARD_UNKNOWN},
        {"Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 a\n",
         "M86%A86%A86%A86%A86%A86%A86%A86%A86%A86%A86%A86%A86%A86%A86%A\n", HEARD_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct buf text;
        buf_init(&text, 0);
        buf_append_str(&text, samples[i].head);
        repeat(&text, samples[i].repeated, HEARD_BYTES_MAX + 100);
        read_text(text.data);
        assert_int_equal(heard.kind, samples[i].kind);
        assert_true(heard.is_cut);
        buf_fini(&text);
    }
}

static void lists_that_are_full(void **state)
{
    struct buf text;
    buf_init(&text, 0);
    buf_append_str(&text, "Content-Type: message/delivery-status\n\n");
    for (int i = 0; i < 100; i++) {
        buf_printf(&text, "Final-Recipient: rfc822; r%d@example.net\nX: +%048d\n\n", i, i);
    }
    buf_append_char(&text, '\0');
    read_text(text.data);
    assert_int_equal(heard.kind, HEARD_BOUNCE);
    assert_true(heard.is_cut);
    assert_int_equal(heard.recipient_count, HEARD_RECIPIENT_MAX);
    assert_true(heard.address_count <= HEARD_ADDRESS_MAX);
    buf_fini(&text);
}

/* A list of addresses with groups in groups: what parses it must not go as deep as a stranger wants. */
static void groups_in_groups(void **state)
{
    static const char *const heads[] = {
        "To: ", "X: y\nCc: ", "Content-Type: text/rfc822-headers\n\nFrom: ",
        "Content-Type: message/rfc822\n\nReply-To: "};
    (void)state;
    for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++) {
        struct buf text;
        buf_init(&text, 0);
        buf_append_str(&text, heads[h]);
        for (int i = 0; i < 60000; i++) {
            buf_append_str(&text, i % 100 == 99 ? "a:\n " : "a:");
        }
        buf_append_str(&text, "\n\nx\n");
        buf_append_char(&text, '\0');
        read_text(text.data);
        assert_int_equal(heard.kind, HEARD_UNKNOWN);
        buf_fini(&text);
    }
}

static void texts_are_printable(void **state)
{
    read_text("Content-Type: message/delivery-status\n\nFinal-Recipient: rfc822; a@example.net\n"
              "Diagnostic-Code: smtp; 550 \x01 a\t \x7f b\r\n  c\n\n");
    assert_string_equal(heard.recipients[0].diagnostic, "550 a b c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounces_of_twenty_shapes),
        cmocka_unit_test(further_recipients),
        cmocka_unit_test(fields_of_a_status),
        cmocka_unit_test(complaints),
        cmocka_unit_test(unsubscribes),
        cmocka_unit_test(no_unsubscribes),
        cmocka_unit_test(quoted_bounces),
        cmocka_unit_test(odd_addresses),
        cmocka_unit_test(borders_are_bounded),
        cmocka_unit_test(auto_replies),
        cmocka_unit_test(what_is_none_of_these),
        cmocka_unit_test(bounds_that_are_met_are_said),
        cmocka_unit_test(lists_that_are_full),
        cmocka_unit_test(groups_in_groups),
        cmocka_unit_test(texts_are_printable),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
