/* The dialogue x fault matrix of reliability-security 3.2 with several transactions in flight: what
 * becomes of the one that is hit, of one before it that is answered, and of those behind it. */
#include "net/smtp_client.h"
#include "tests/unit/smtp_warm.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

enum point { RESET, MAIL, RCPT, DATA, END, POINT_COUNT };

enum fault {
    SILENT,
    RST,
    FIN,
    FIN_IN_REPLY,
    GARBAGE,
    WRONG_CLASS,
    LONG_LINE,
    ENDLESS_LINES,
    MIXED,
    SAYS_4YZ,
    SAYS_5YZ,
    SAYS_421, /* and leaves */
    SAYS_421_AND_ON,
    SAYS_421_AND_RESETS,
    SAYS_421_AND_WAITS,
    UNCLEAN,
    FAULT_COUNT
};

/* What became of each, in the order of starts:
 *   S  success     B  bounced     D  deferred, nothing of it was taken
 *   A  ambiguous   a  ambiguous, and neutral     R  returned     -  goes on
 *   d  deferred, and its end says that this is doubtful */
#define FLIGHT 3

struct bed {
    struct smtp_client_config config;
    struct smtp_client client;
    struct slice recipient;
    char fates[FLIGHT + 1];
    bool is_over[FLIGHT];
    bool is_closed;
    size_t cut; /* bytes a read */
    usec_t now;
};

static char fate_of(const struct smtp_client_event *e)
{
    if (e->verdict->is_ambiguous) {
        return e->is_neutral ? 'a' : 'A';
    }
    assert_false(e->is_neutral);
    return "SDB"[e->verdict->class];
}

static void pull(struct bed *b)
{
    struct smtp_client_event e;
    while (smtp_client_next_event(&b->client, &e)) {
        if (e.kind == SMTP_CLIENT_REST || e.kind == SMTP_CLIENT_RECIPIENT) {
            assert_int_equal(b->fates[e.transaction], '-');
            b->fates[e.transaction] = fate_of(&e);
        } else if (e.kind == SMTP_CLIENT_RETURNED) {
            assert_int_equal(b->fates[e.transaction], '-');
            b->fates[e.transaction] = 'R';
        }
        if (e.kind == SMTP_CLIENT_RETURNED || e.kind == SMTP_CLIENT_DONE) {
            assert_false(b->is_over[e.transaction]);
            b->is_over[e.transaction] = true;
            if (e.is_doubtful && b->fates[e.transaction] == 'D') {
                b->fates[e.transaction] = 'd';
            }
        }
        b->is_closed = b->is_closed || e.kind == SMTP_CLIENT_CLOSED;
    }
}

static void say(struct bed *b, struct slice text)
{
    while (text.len > 0) {
        size_t len = text.len < b->cut ? text.len : b->cut;
        struct slice in = slice_to(text, len);
        while (in.len > 0) {
            smtp_client_input(&b->client, &in, b->now);
            pull(b);
        }
        text = slice_from(text, len);
    }
}

static void flush(struct bed *b)
{
    smtp_client_consume(&b->client, b->client.out.len);
}

static void start(struct bed *b)
{
    struct smtp_transaction t = {
        .sender = SLICE("s@a"),
        .recipients = &b->recipient,
        .recipient_count = 1,
        .size_bytes = 4,
    };
    assert_int_equal(smtp_client_start(&b->client, &t, b->now), 0);
    pull(b);
    flush(b);
}

static void write_body(struct bed *b, size_t bytes)
{
    smtp_client_body_progress(&b->client, bytes, b->now);
    if (bytes == 4) {
        smtp_client_body_sent(&b->client, b->now);
    }
    pull(b);
    flush(b);
}

static void begin(struct bed *b, struct slice features)
{
    static const struct smtp_client_peer peer = {
        .host = SLICE("mx"), .address = SLICE("192.0.2.1"), .nexthop = SLICE("b"), .port = 25};
    *b = (struct bed){.fates = "---", .cut = SIZE_MAX, .now = USEC_PER_SEC};
    b->recipient = SLICE("r@b");
    smtp_client_config_defaults(&b->config);
    smtp_client_init(&b->client, &b->config, &peer, b->now);
    say(b, SLICE("220 mx\r\n"));
    flush(b);
    say(b, features);
    b->client.pace.depth = 16;
    smtp_warm(&b->client, SMTP_WARM_WORDS);
}

static void say_long(struct bed *b, bool is_one_line)
{
    struct buf text = {.limit = 0};
    while (text.len < 200000) {
        buf_append_str(&text, !is_one_line ? "250-x\r\n" : text.len == 0 ? "250-" : "xxxxxxxxxx");
    }
    say(b, buf_slice(&text));
    buf_fini(&text);
}

static void inject(struct bed *b, enum point point, enum fault fault)
{
    static const struct slice texts[FAULT_COUNT] = {
        [FIN_IN_REPLY] = SLICE("250-half\r\n250"),
        [GARBAGE] = SLICE("\x16\x03\x01 what is this\r\n"),
        [WRONG_CLASS] = SLICE("354 ok\r\n"),
        [MIXED] = SLICE("250-ok\r\n450 no\r\n"),
        [SAYS_4YZ] = SLICE("450 4.2.0 later\r\n"),
        [SAYS_5YZ] = SLICE("550 5.7.1 never\r\n"),
        [SAYS_421] = SLICE("421 4.3.2 bye\r\n"),
        [SAYS_421_AND_ON] = SLICE("421 4.3.2 bye\r\n250 2.6.0 queued\r\n"),
        [SAYS_421_AND_RESETS] = SLICE("421 4.3.2 bye\r\n"),
        [SAYS_421_AND_WAITS] = SLICE("421 4.3.2 bye\r\n"),
        [UNCLEAN] = SLICE("250 2.6.0 a\x1b[31m\xff\r\n"),
    };
    if (fault == SILENT) {
        b->now = smtp_client_deadline(&b->client);
        smtp_client_timeout(&b->client, b->now);
    } else if (fault == RST) {
        smtp_client_io_error(&b->client, ECONNRESET, b->now);
    } else if (fault == LONG_LINE || fault == ENDLESS_LINES) {
        say_long(b, fault == LONG_LINE);
    } else if (point == DATA && fault == WRONG_CLASS) {
        say(b, SLICE("250 ok\r\n"));
    } else if (point == DATA && fault == UNCLEAN) {
        say(b, SLICE("354 a\x1b[31m\xff\r\n"));
    } else {
        say(b, texts[fault]);
    }
    pull(b);
    if (fault == FIN || fault == FIN_IN_REPLY || (fault == SAYS_421 && b->client.is_parting)) {
        smtp_client_eof(&b->client, b->now);
    } else if (fault == SAYS_421_AND_RESETS && b->client.is_parting) {
        smtp_client_io_error(&b->client, ECONNRESET, b->now);
    } else if (fault == SAYS_421_AND_WAITS && b->client.is_parting) {
        b->now = smtp_client_deadline(&b->client);
        smtp_client_timeout(&b->client, b->now);
    }
    pull(b);
}

static void check(struct bed *b, enum point point, enum fault fault, const char *fates)
{
    if (strcmp(b->fates, fates) != 0) {
        fail_msg("point %d fault %d cut %zu: got %s, wanted %s", (int)point, (int)fault, b->cut,
                 b->fates, fates);
    }
    /* what goes on does so on a connection, and the rest is over */
    bool goes_on = strchr(fates, '-') != NULL;
    assert_int_equal(b->is_closed, !goes_on);
    for (unsigned i = 0; i < FLIGHT && b->is_closed; i++) {
        assert_true(b->is_over[i]);
    }
    bool is_odd = (fault >= GARBAGE && fault <= MIXED) || fault == SAYS_421_AND_ON;
    bool is_unforgotten = point == RESET && (fault == SAYS_4YZ || fault == SAYS_5YZ);
    assert_int_equal(b->client.is_out_of_step, is_odd || is_unforgotten);
    smtp_client_fini(&b->client);
}

/* --- by BDAT: two wholly sent, of the third half a body --------------------------------------- */

/* At the first, which is the connection's first; at the second, with the first answered. */
static const char *const chunk_fates[POINT_COUNT][FAULT_COUNT][2] = {
    [RESET] = {[SILENT... MIXED] = {NULL, "SAR"},
               [SAYS_4YZ... SAYS_5YZ] = {NULL, "SAR"},
               [SAYS_421] = {NULL, "SRR"},
               [SAYS_421_AND_ON... SAYS_421_AND_WAITS] = {NULL, "SAR"},
               [UNCLEAN] = {NULL, "S--"}},
    [MAIL] = {[SILENT... MIXED] = {"AaR", "SAR"},
              [SAYS_4YZ] = {"D--", "SD-"},
              [SAYS_5YZ] = {"B--", "SB-"},
              [SAYS_421] = {"DRR", "SRR"},
              [SAYS_421_AND_ON... SAYS_421_AND_WAITS] = {"dAR", "SAR"},
              [UNCLEAN] = {"---", "S--"}},
    [RCPT] = {[SILENT... MIXED] = {"AaR", "SAR"},
              [SAYS_4YZ] = {"D--", "SD-"},
              [SAYS_5YZ] = {"B--", "SB-"},
              [SAYS_421] = {"DRR", "SDR"},
              [SAYS_421_AND_ON... SAYS_421_AND_WAITS] = {"dAR", "SdR"},
              [UNCLEAN] = {"---", "S--"}},
    [END] = {[SILENT... MIXED] = {"AaR", "SAR"},
             [SAYS_4YZ] = {"D--", "SD-"},
             [SAYS_5YZ] = {"B--", "SB-"},
             [SAYS_421] = {"DRR", "SDR"},
             [SAYS_421_AND_ON... SAYS_421_AND_WAITS] = {"dAR", "SdR"},
             [UNCLEAN] = {"S--", "SS-"}},
};

static void check_chunk(enum point point, enum fault fault, unsigned hit, size_t cut)
{
    struct bed b;
    begin(&b, SLICE("250-mx\r\n250-PIPELINING\r\n250 CHUNKING\r\n"));
    start(&b);
    write_body(&b, 4);
    start(&b);
    write_body(&b, 4);
    start(&b);
    write_body(&b, 2);
    if (hit == 1) {
        say(&b, SLICE("250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n"));
    }
    for (enum point p = hit == 0 ? MAIL : RESET; p < point; p++) {
        say(&b, p == DATA ? SLICE("") : p == RESET ? SLICE("250 reset\r\n") : SLICE("250 ok\r\n"));
    }
    b.cut = cut;
    inject(&b, point, fault);
    const char *fates = chunk_fates[point][fault][hit];
    check(&b, point, fault, fates == NULL ? "(none)" : fates);
}

static void test_chunks(void **state)
{
    (void)state;
    unsigned cells = 0;
    for (enum point point = 0; point < POINT_COUNT; point++) {
        for (enum fault fault = 0; fault < FAULT_COUNT; fault++) {
            for (unsigned hit = 0; hit < 2; hit++) {
                if (chunk_fates[point][fault][hit] != NULL) {
                    check_chunk(point, fault, hit, SIZE_MAX);
                    check_chunk(point, fault, hit, 1);
                    cells++;
                }
            }
        }
    }
    assert_int_equal(cells, FAULT_COUNT * 7);
}

/* --- by DATA: the dot of the first and the envelope of the second ----------------------------- */

/* At END of the first; elsewhere at the second, with the first answered. */
static const char *const data_fates[POINT_COUNT][FAULT_COUNT] = {
    [END] = {[SILENT... MIXED] = "AR",
             [SAYS_4YZ] = "D-",
             [SAYS_5YZ] = "B-",
             [SAYS_421] = "DR",
             [SAYS_421_AND_ON... SAYS_421_AND_WAITS] = "dR",
             [UNCLEAN] = "S-"},
    [MAIL] = {[SILENT... MIXED] = "SR",
              [SAYS_4YZ] = "SD",
              [SAYS_5YZ] = "SB",
              [SAYS_421... SAYS_421_AND_WAITS] = "SR",
              [UNCLEAN] = "S-"},
    [RCPT] = {[SILENT... MIXED] = "SD",
              [SAYS_4YZ] = "SD",
              [SAYS_5YZ] = "SB",
              [SAYS_421... SAYS_421_AND_WAITS] = "SD",
              [UNCLEAN] = "S-"},
    [DATA] = {[SILENT... MIXED] = "SD",
              [SAYS_4YZ] = "SD",
              [SAYS_5YZ] = "SB",
              [SAYS_421... SAYS_421_AND_WAITS] = "SD",
              [UNCLEAN] = "S-"},
};

static void check_data(enum point point, enum fault fault, size_t cut)
{
    struct bed b;
    begin(&b, SLICE("250-mx\r\n250 PIPELINING\r\n"));
    b.fates[2] = '\0';
    start(&b);
    say(&b, SLICE("250 ok\r\n250 ok\r\n354 go\r\n"));
    start(&b);
    write_body(&b, 4);
    if (point != END) {
        say(&b, SLICE("250 2.6.0 queued\r\n"));
    }
    for (enum point p = MAIL; p < point && point != END; p++) {
        say(&b, SLICE("250 ok\r\n"));
    }
    b.cut = cut;
    inject(&b, point, fault);
    const char *fates = data_fates[point][fault];
    if (strcmp(b.fates, fates) != 0) {
        fail_msg("point %d fault %d cut %zu: got %s, wanted %s", (int)point, (int)fault, cut,
                 b.fates, fates);
    }
    bool is_421 = fault >= SAYS_421 && fault <= SAYS_421_AND_WAITS;
    bool is_loss = fault <= MIXED || fault == SAYS_421_AND_ON || (is_421 && point != RCPT);
    assert_int_equal(b.is_closed, is_loss);
    smtp_client_fini(&b.client);
}

static void test_data(void **state)
{
    (void)state;
    unsigned cells = 0;
    for (enum point point = 0; point < POINT_COUNT; point++) {
        for (enum fault fault = 0; fault < FAULT_COUNT; fault++) {
            if (data_fates[point][fault] != NULL) {
                check_data(point, fault, SIZE_MAX);
                check_data(point, fault, 1);
                cells++;
            }
        }
    }
    assert_int_equal(cells, FAULT_COUNT * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
