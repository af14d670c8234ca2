/* Templates of replies: what varies is a star, what tells reasons apart stays. */
#include "engine/tally/response_text.h"
#include "tests/unit/unit.h"

static void check(const char *text, const char *expected)
{
    char out[RESPONSE_TEXT_MAX];
    size_t len = response_text_template(slice_of(text), out);
    if (!slice_eq(slice_make(out, len), slice_of(expected))) {
        print_error("%s\n  gave     %.*s\n  expected %s\n", text, (int)len, out, expected);
        fail();
    }
}

static void plain_words_stay(void **state)
{
    check("", "");
    check("Mailbox full", "Mailbox full");
    check("Try again later. Can't connect.", "Try again later. Can't connect.");
    check("  a\r\n\tb\x01  ", "a b");
    check("ung\xc3\xbcltig", "ung\xc3\xbcltig");
    check("see https://support.example.com/mail/answer/81126",
          "see https://support.example.com/mail/answer/*");
}

static void numbers_are_stars(void **state)
{
    check("1.2.3 too many (300) in 12:34:56", "* too many (*) in *");
    check("wait 35 seconds.", "wait * seconds.");
    check("2026-11-22T10:15:00Z", "*");
    check("limit=35/70", "limit=*");
}

static void addresses_are_stars(void **state)
{
    check("<ann.b+c@example.com>: user unknown", "<*>: user unknown");
    check("user ann@example.com. Unknown", "user *. Unknown");
    check("bounce+a=b.org@example.com refused", "* refused");
    check("[192.0.2.1] is listed", "[*] is listed");
    check("client 2001:db8::1: blocked", "client *: blocked");
    check("from ::1 now", "from * now");
    check("mx7.example.com said", "* said");
    check("dead:beef it is not", "dead:beef it is not");
}

static void tokens_are_stars(void **state)
{
    check("queued as 4cT2bN1x0fRz", "queued as *");
    check("e9-20020a05620a0f8900b006bb - gsmtp", "* - gsmtp");
    check("id 5f3a9c1e-abcd-4aaa-bcde-0123456789ab", "id *");
    check("key QWxhZGRpbjpvcGVuIHNlc2FtZQ== bad", "key *== bad");
    check("AbCdEfGhIjKlMnOpQrStUvWxYz end", "* end");
}

static void who_said_it_is_left_out(void **state)
{
    check("host mx.example.com[192.0.2.1] said: 450 4.2.2 Mailbox full (in reply to RCPT TO "
          "command)",
          "Mailbox full (in reply to RCPT TO command)");
    check("550 5.1.1 no such user", "no such user");
    check("550 no such user", "no such user");
    check("host is said to be down", "host is said to be down");
    check("connect to mx.example.com[2001:db8::1]:25: Connection refused",
          "connect to *[*]:*: Connection refused");
    check("lost connection with mx.example.com[192.0.2.1] while sending",
          "lost connection with *[*] while sending");
    check("421", "*");
    check("300 messages is too much", "messages is too much");
}

static void codes_stay(void **state)
{
    check("[TSS04] Messages deferred", "[TSS04] Messages deferred");
    check("part of their network (S3150)", "part of their network (S3150)");
    check("TSS040001 is none", "* is none");
    check("RP-001 and OU-002", "RP-001 and OU-002");
    check("RP-00001 is none", "* is none");
    check("ABCDEFG-001 is none", "* is none");
    check("OFR004_104, ofr_506, LPN105_411", "OFR004_104, ofr_506, LPN105_411");
    check("mx-001 mx_00001 4_104", "* * *");
    check("AUP#1260 AUP#In-1190 AUP#I-1010", "AUP#1260 AUP#In-1190 AUP#I-1010");
    check("AUP#123456 case #12345 1#12", "AUP#* case #* *");
    check("AS(1430) AS(201806281) PID(1430) AS(x1)", "AS(1430) AS(201806281) PID(*) AS(*)");
    check("use IPv6 and TLSv1.2, not TLSv1.23", "use IPv6 and TLSv1.2, not *");
    check("?p=UnsolicitedRateLimitError", "?p=UnsolicitedRateLimitError");
}

static void status_codes_stay(void **state)
{
    check("deferred\n4.7.28 again", "deferred 4.7.28 again");
    check("(#5.7.1) 5.7.606-649. 421-4.7.28", "(#5.7.1) 5.7.606-649. 421-4.7.28");
    check("smtp;550 5.1.1 unknown, 550 unknown", "smtp;550 5.1.1 unknown, * unknown");
    check("3.7.1 4.7 4.7.1.2 4.7.1234 14.7.1 5.7.1-x 5.7.1-1234 4..1", "* * * * * * * *");
}

/* What large receivers answer (their postmaster pages, and mail that was sent to them), with other
 * addresses and ids; each twice, so that what varies is seen to be one template. */
static const struct {
    const char *first, *second, *expected;
} receivers[] = {
    {"421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or "
     "user complaints - 4.16.55.1; see https://postmaster.yahooinc.com/error-codes",
     "421 4.7.0 [TSS04] Messages from 198.51.100.77 temporarily deferred due to unexpected volume "
     "or user complaints - 4.16.55.1; see https://postmaster.yahooinc.com/error-codes",
     "[TSS04] Messages from * temporarily deferred due to unexpected volume or user complaints - "
     "*; see https://postmaster.yahooinc.com/error-codes"},
    {"553 5.7.2 [TSS09] All messages from 2001:db8::5 will be permanently deferred; Retrying will "
     "NOT succeed.",
     "553 5.7.2 [TSS09] All messages from 192.0.2.1 will be permanently deferred; Retrying will "
     "NOT succeed.",
     "[TSS09] All messages from * will be permanently deferred; Retrying will NOT succeed."},
    {"553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in "
     "Spamhaus's list; see https://postmaster.yahooinc.com/550-bl23",
     "553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.200, because the ip is in "
     "Spamhaus's list; see https://postmaster.yahooinc.com/550-bl23",
     "[BL21] Connections will not be accepted from *, because the ip is in Spamhaus's list; see "
     "https://postmaster.yahooinc.com/*"},
    {"421 RP-001 (BAY004-MC1F12) Unfortunately, some messages from 192.0.2.1 weren't sent.",
     "421 RP-001 (COL004-MC6F7) Unfortunately, some messages from 192.0.2.9 weren't sent.",
     "RP-001 (*) Unfortunately, some messages from * weren't sent."},
    {"550 SC-001 (SNT004-MC3F4) Unfortunately, messages from 192.0.2.1 weren't sent.",
     "550 SC-001 (BAY004-MC1F12) Unfortunately, messages from 192.0.2.2 weren't sent.",
     "SC-001 (*) Unfortunately, messages from * weren't sent."},
    {"550 OU-002 (DUB004-MC2F9) Unfortunately, messages from 192.0.2.1 weren't sent.",
     "550 OU-002 (BAY004-MC1F12) Unfortunately, messages from 192.0.2.2 weren't sent.",
     "OU-002 (*) Unfortunately, messages from * weren't sent."},
    {"550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your "
     "Internet "
     "service provider since part of their network is on our block list (S3150).",
     "550 5.7.1 Unfortunately, messages from [192.0.2.2] weren't sent. Please contact your "
     "Internet "
     "service provider since part of their network is on our block list (S3150).",
     "Unfortunately, messages from [*] weren't sent. Please contact your Internet service provider "
     "since part of their network is on our block list (S3150)."},
    {"451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (S77719) "
     "[BN8NAM11FT064.eop-nam11.prod.protection.outlook.com 2023-11-20T09:15:42.511Z "
     "08DBE7C6A8F5D2E1]",
     "451 4.7.500 Server busy. Please try again later from [192.0.2.2]. (S77719) "
     "[DM6NAM10FT039.eop-nam10.prod.protection.outlook.com 2024-01-02T10:00:00.000Z "
     "08DBE8000000AAAA]",
     "Server busy. Please try again later from [*]. (S77719) [* * *]"},
    {"451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP "
     "reputation. For e-mail delivery information, see https://postmaster.live.com (S775)",
     "451 4.7.650 The mail server [192.0.2.2] has been temporarily rate limited due to IP "
     "reputation. For e-mail delivery information, see https://postmaster.live.com (S775)",
     "The mail server [*] has been temporarily rate limited due to IP reputation. For e-mail "
     "delivery information, see https://postmaster.live.com (S775)"},
    {"550 5.4.1 Recipient address rejected: Access denied. AS(201806281) "
     "[DB5EUR03FT041.eop-EUR03.prod.protection.outlook.com]",
     "550 5.4.1 Recipient address rejected: Access denied. AS(201806281) "
     "[AM7EUR06FT012.eop-eur06.prod.protection.outlook.com]",
     "Recipient address rejected: Access denied. AS(201806281) [*]"},
    {"421 4.7.28 Gmail has detected an unusual rate of unsolicited mail.\n4.7.28 To protect our "
     "users, see\n4.7.28 https://support.google.com/mail/?p=UnsolicitedRateLimitError "
     "e9-20020a05620a0f8900b006bb12f4-1si - gsmtp",
     "421 4.7.28 Gmail has detected an unusual rate of unsolicited mail.\n4.7.28 To protect our "
     "users, see\n4.7.28 https://support.google.com/mail/?p=UnsolicitedRateLimitError "
     "x18-20020a170902ec9200b001d0abcdef12si - gsmtp",
     "Gmail has detected an unusual rate of unsolicited mail. 4.7.28 To protect our users, see "
     "4.7.28 https://support.google.com/mail/?p=UnsolicitedRateLimitError * - gsmtp"},
    {"550 5.7.26 This mail is unauthenticated.\n5.7.26 SPF with ip: [192.0.2.1] = did not pass "
     "ffacd0b85a97d-33312345678si123 - gsmtp",
     "550 5.7.26 This mail is unauthenticated.\n5.7.26 SPF with ip: [2001:db8::7] = did not pass "
     "5b1f17b1804b1-40a1abcdef0si77 - gsmtp",
     "This mail is unauthenticated. 5.7.26 SPF with ip: [*] = did not pass * - gsmtp"},
    {"554 5.7.1 [CS01] Message rejected due to local policy. Please visit "
     "https://support.apple.com/en-us/HT204137",
     "554 5.7.1 [CS01] Message rejected due to local policy. Please visit "
     "https://support.apple.com/en-us/HT204137",
     "[CS01] Message rejected due to local policy. Please visit "
     "https://support.apple.com/en-us/HT204137"},
    {"450 4.7.1 [TS01] Service unavailable for <ann@example.com>",
     "450 4.7.1 [TS01] Service unavailable for <bob@example.org>",
     "[TS01] Service unavailable for <*>"},
    {"554 5.4.0 PH01 192.0.2.1 found on one or more DNSBLs",
     "554 5.4.0 PH01 192.0.2.2 found on one or more DNSBLs", "PH01 * found on one or more DNSBLs"},
    {"421 4.1.0 192.0.2.1 Throttled - try again later. Please see "
     "https://spa.xfinity.com/help RL000003",
     "421 4.1.0 192.0.2.2 Throttled - try again later. Please see "
     "https://spa.xfinity.com/help RL000003",
     "* Throttled - try again later. Please see https://spa.xfinity.com/help RL000003"},
    {"550 5.7.1 192.0.2.1 blocked AUP#1260 (mx12.example.net)",
     "550 5.7.1 192.0.2.2 blocked AUP#1260 (mx3.example.net)", "* blocked AUP#1260 (*)"},
    {"421 4.0.0 Trop de connexions. Too many connections, slow down. OFR004_104 [104]",
     "421 4.0.0 Trop de connexions. Too many connections, slow down. OFR004_104 [104]",
     "Trop de connexions. Too many connections, slow down. OFR004_104 [*]"},
    {"554 5.7.1 (RTR:BL) [DYN:T1] rejected 192.0.2.1",
     "554 5.7.1 (RTR:BL) [DYN:T1] rejected 192.0.2.2", "(RTR:BL) [DYN:T1] rejected *"},
    {"550 5.1.1 mimecast: see https://community.mimecast.com/docs/DOC-1369#550 "
     "[zKmGqQ5yMJ6aVbH7nM8H2Q.us391]",
     "550 5.1.1 mimecast: see https://community.mimecast.com/docs/DOC-1369#550 "
     "[Kx3sPq0wN1mUu7cA2bT9Zg.uk12]",
     "mimecast: see https://community.mimecast.com/docs/DOC-1369#550 [*]"},
    {"451 4.3.0 4F2A61C0D3: queued for ann@example.com at 10:15:00",
     "451 4.3.0 9B01AAEF27: queued for b@example.com at 23:59:59", "*: queued for * at *"},
    {"450 4.2.0 message id <20261122101500.4711@mx.example> seen",
     "450 4.2.0 message id <c0ffee-77@other.example> seen", "message id <*> seen"},
};

static void reasons_of_receivers_stay(void **state)
{
    for (size_t i = 0; i < sizeof(receivers) / sizeof(receivers[0]); i++) {
        check(receivers[i].first, receivers[i].expected);
        check(receivers[i].second, receivers[i].expected);
    }
}

static void quoted_is_a_star(void **state)
{
    check("user \"ann b\" unknown", "user \"*\" unknown");
    check("user 'ann b' unknown", "user '*' unknown");
    check("an \"open end", "an \"open end");
}

static void the_end_is_cut(void **state)
{
    char text[5000], out[RESPONSE_TEXT_MAX];
    memset(text, 'a', sizeof(text));
    assert_int_equal(response_text_template(slice_make(text, sizeof(text)), out),
                     RESPONSE_TEXT_MAX);
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = "1/"[i % 2];
    }
    assert_int_equal(response_text_template(slice_make(text, sizeof(text)), out), 2);
    for (int c = 0; c < 256; c++) {
        memset(text, c, sizeof(text));
        assert_true(response_text_template(slice_make(text, sizeof(text)), out) <=
                    RESPONSE_TEXT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_words_stay),        cmocka_unit_test(numbers_are_stars),
        cmocka_unit_test(addresses_are_stars),     cmocka_unit_test(tokens_are_stars),
        cmocka_unit_test(who_said_it_is_left_out), cmocka_unit_test(codes_stay),
        cmocka_unit_test(status_codes_stay),       cmocka_unit_test(reasons_of_receivers_stay),
        cmocka_unit_test(quoted_is_a_star),        cmocka_unit_test(the_end_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
