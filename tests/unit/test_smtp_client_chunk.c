/* Transactions by BDAT as transcripts: streams without waiting, faults at the head and behind it,
 * bodies queued and written in parts. */
#include "tests/unit/smtp_script.h"
#include "tests/unit/unit.h"

#define RUN(script, ...) smtp_script_run(script, (const char *const[]){__VA_ARGS__, NULL})

#define CHUNKED                                                                                    \
    "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250-PIPELINING\r\n250 CHUNKING\r\n", "!READY"
#define MAIL    "MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 4 LAST\r\n"
#define ONE(n)  "=start 1 size=4", "!" n " WANT_BODY chunk", ">" MAIL
#define NEXT(n) "=start 1 size=4", "!" n " WANT_BODY chunk", ">RSET\r\n" MAIL
/* the first is sent whole, then the next */
#define FIRST  ONE("0"), "=body hi\r\n"
#define SECOND NEXT("1"), "=body hi\r\n"
#define THIRD  NEXT("2"), "=body hi\r\n"
/* BDAT waits for the replies to its envelope */
#define WAITED "MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\n"
#define COLD                                                                                       \
    "=start 1 size=4", ">" WAITED, "<250 ok\r\n250 ok\r\n", "!0 WANT_BODY chunk",                  \
        ">BDAT 4 LAST\r\n", "=body hi\r\n"
#define OK3 "<250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n"
#define OK4 "<250 reset\r\n250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n"

static void script_init(struct smtp_script *s, uint16_t depth)
{
    smtp_script_init(s);
    s->is_numbered = true;
    s->depth = depth;
    s->is_warm = depth > 1;
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 1);
    RUN(&s, CHUNKED, COLD, "=full", "<250 2.6.0 queued\r\n", "!0 REST ok 2.6.0 250 DOT",
        "!0 DONE reuse", "!READY",
        /* once, to know its answer */
        NEXT("1"), "=body hi\r\n", OK4, "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY",
        /* what was answered well needs no RSET */
        ONE("2"), "=body hi\r\n", OK3, "!2 REST ok 2.6.0 250 DOT", "!2 DONE reuse", "!READY",
        "=quit", "!CLOSED flush", ">QUIT\r\n");
    s.config.use_chunking = false;
    RUN(&s, CHUNKED, "=start 1 size=4", ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nDATA\r\n", "=eof",
        "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost", "!CLOSED");
    /* BDAT without PIPELINING is not worth it */
    s.config.use_chunking = true;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 CHUNKING\r\n", "!READY",
        "=start 1 size=4", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<250 ok\r\n", ">DATA\r\n", "=eof", "!0 REST soft 4.4.2 0 DATA site", "!0 DONE lost",
        "!CLOSED");
}

static void test_stream(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, FIRST, SECOND, THIRD, "=full", OK3, "!0 REST ok 2.6.0 250 DOT",
        "!0 DONE reuse", "!READY", OK4, "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY",
        NEXT("3"), "=body hi\r\n", OK4, "!2 REST ok 2.6.0 250 DOT", "!2 DONE reuse", "!READY", OK4,
        "!3 REST ok 2.6.0 250 DOT", "!3 DONE reuse", "!READY");
    /* several replies in one segment, some recipients refused */
    RUN(&s, CHUNKED, "=start 2 size=4", "!0 WANT_BODY chunk",
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nRCPT TO:<r1@b>\r\nBDAT 4 LAST\r\n", "=body hi\r\n",
        SECOND,
        "<250 ok\r\n550 5.1.1 no\r\n250 ok\r\n250 2.6.0 queued\r\n250 reset\r\n250 ok\r\n250 "
        "ok\r\n451 "
        "no\r\n",
        "!0 RECIPIENT 0 hard 5.1.1 550 RCPT", "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        "!1 REST soft 4.0.0 451 DOT", ">RSET\r\n", "<250 reset\r\n", "!1 DONE reuse", "!READY");
}

/* Whatever refuses the first, its rest is read, and RSET keeps the second from being hit. */
static void test_refused(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, FIRST, SECOND, "<550 5.7.1 you\r\n503 a\r\n503 b\r\n",
        "!0 REST hard 5.7.1 550 MAIL", "!0 DONE reuse", "!READY", OK4, "!1 REST ok 2.6.0 250 DOT",
        "!1 DONE reuse", "!READY");
    RUN(&s, CHUNKED, FIRST, SECOND, "<250 ok\r\n550 5.1.1 no\r\n503 b\r\n",
        "!0 RECIPIENT 0 hard 5.1.1 550 RCPT", "!0 DONE reuse", "!READY", OK4,
        "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY");
    RUN(&s, CHUNKED, FIRST, SECOND, "<250 ok\r\n250 ok\r\n554 5.6.0 no\r\n",
        "!0 REST hard 5.6.0 554 DOT", "!0 DONE reuse", "!READY", OK4, "!1 REST ok 2.6.0 250 DOT",
        "!1 DONE reuse", "!READY");
    /* alone, it is reset at once; the next may stand behind that */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n554 5.6.0 no\r\n", "!0 REST hard 5.6.0 554 DOT",
        ">RSET\r\n", ONE("1"), "=body hi\r\n", "<250 reset\r\n", "!0 DONE reuse", "!READY", OK3,
        "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY");
    /* nobody was accepted, but BDAT: the refusal was an answer to something else */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n550 5.1.1 no\r\n250 what\r\n",
        "!0 RECIPIENT 0 hard 5.1.1 550 RCPT", "!0 DONE close doubtful", "!CLOSED");
    /* a server that cannot forget: what was sent behind may or may not have been taken */
    RUN(&s, CHUNKED, FIRST, SECOND, "<250 ok\r\n250 ok\r\n554 5.6.0 no\r\n502 RSET?\r\n",
        "!0 REST hard 5.6.0 554 DOT", "!0 DONE reuse", "!READY",
        "!1 REST soft 4.5.0 502 DOT site amb proto", "!1 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n554 5.6.0 no\r\n", "!0 REST hard 5.6.0 554 DOT",
        ">RSET\r\n", ONE("1"), "<502 RSET?\r\n", "!0 DONE close doubtful", "!1 STOP_BODY",
        "!1 RETURNED soft 4.4.2 0 MAIL site", "!CLOSED");
}

/* Two wholly sent, the third not. */
static void test_lost(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
#define THREE FIRST, SECOND, NEXT("2")
    RUN(&s, CHUNKED, THREE, "=partbody hi", "=eof", "!0 REST soft 4.4.2 0 DOT site amb",
        "!0 DONE lost", "!1 REST soft 4.4.2 0 DOT site amb neutral", "!1 DONE lost", "!2 STOP_BODY",
        "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    RUN(&s, CHUNKED, THREE, "<250 ok\r\n", "=reset", "!0 REST soft 4.4.2 0 DOT site amb",
        "!0 DONE lost", "!1 REST soft 4.4.2 0 DOT site amb neutral", "!1 DONE lost", "!2 STOP_BODY",
        "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    RUN(&s, CHUNKED, THREE, "=timeout", "!0 REST soft 4.4.2 0 DOT site amb", "!0 DONE lost",
        "!1 REST soft 4.4.2 0 DOT site amb neutral", "!1 DONE lost", "!2 STOP_BODY",
        "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    /* the head is answered: the second is the first that the loss hits */
    RUN(&s, CHUNKED, THREE, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY", "=eof",
        "!1 REST soft 4.4.2 0 DOT site amb", "!1 DONE lost", "!2 STOP_BODY",
        "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    /* the second is answered as well: the third is the head of a connection that worked */
    RUN(&s, CHUNKED, THREE, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY", OK4,
        "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY", "=partbody h", "=eof",
        "!2 STOP_BODY", "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    RUN(&s, CHUNKED, THREE, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY", OK4,
        "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY", "<250 reset\r\n250 ok\r\n", "=eof",
        "!2 STOP_BODY", "!2 REST soft 4.4.2 0 RCPT site", "!2 DONE lost", "!CLOSED");
    /* started, but nothing of it is written: the body before it is under way */
    RUN(&s, CHUNKED, ONE("0"), "=start 1 size=4", "=eof", "!0 STOP_BODY",
        "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost", "!1 RETURNED soft 4.4.2 0 MAIL site",
        "!CLOSED");
}

/* 421, then the end of file and nothing else: what was not answered was not taken. */
static void test_said_421(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, FIRST, SECOND, THIRD, "<250 ok\r\n250 ok\r\n421 4.3.2 down\r\n",
        "!0 REST soft 4.3.2 421 DOT", "=full", "=eof", "!0 DONE close",
        "!1 RETURNED soft 4.4.2 0 RSET site", "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, SECOND, THIRD, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse",
        "!READY", "<250 reset\r\n421 4.3.2 down\r\n", "=eof", "!1 RETURNED soft 4.3.2 421 MAIL",
        "!2 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, SECOND, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        "<421 4.3.2 down\r\n", "=eof", "!1 RETURNED soft 4.3.2 421 RSET", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, SECOND, "<421 4.3.2 down\r\n", "!0 REST soft 4.3.2 421 MAIL", "=eof",
        "!0 DONE close", "!1 RETURNED soft 4.4.2 0 RSET site", "!CLOSED");
    /* alone there is time for QUIT, and its answer is one to nothing else */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n421 4.3.2 down\r\n", "!0 REST soft 4.3.2 421 DOT",
        "=timeout", ">QUIT\r\n", "<221 bye\r\n", "!0 DONE close", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n421 4.3.2 down\r\n", "!0 REST soft 4.3.2 421 DOT",
        "=eof", "!0 DONE close", "!CLOSED");
    /* too many for one is not the end of the connection: what is behind it may be taken */
    RUN(&s, CHUNKED, FIRST, SECOND, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        "<250 reset\r\n452 4.5.3 many\r\n", "!1 REST soft 4.5.3 452 MAIL",
        "<503 none\r\n503 none\r\n", "!1 DONE close", "!CLOSED flush", ">QUIT\r\n");
}

/* 421, and then anything but the end of file. */
static void test_said_421_and_on(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
#define MARKED                                                                                     \
    "!0 DONE close doubtful", "!1 REST soft 4.4.2 0 DOT site amb", "!1 DONE lost",                 \
        "!2 REST soft 4.4.2 0 DOT site amb neutral", "!2 DONE lost", "!CLOSED"
#define SAID_AT_END FIRST, SECOND, THIRD, "<250 ok\r\n250 ok\r\n421 4.3.2 down\r\n"
    RUN(&s, CHUNKED, SAID_AT_END, "!0 REST soft 4.3.2 421 DOT", "<250 2.6.0 queued\r\n", MARKED);
    RUN(&s, CHUNKED, SAID_AT_END, "!0 REST soft 4.3.2 421 DOT", "<2", "=eof", MARKED);
    RUN(&s, CHUNKED, SAID_AT_END, "!0 REST soft 4.3.2 421 DOT", "=reset", MARKED);
    RUN(&s, CHUNKED, SAID_AT_END, "!0 REST soft 4.3.2 421 DOT", "=timeout", MARKED);
    RUN(&s, CHUNKED, FIRST, SECOND, THIRD, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse",
        "!READY", "<421 4.3.2 down\r\n", "<250 ok\r\n", "!1 REST soft 4.5.0 0 DOT site amb proto",
        "!1 DONE lost", "!2 REST soft 4.4.2 0 DOT site amb neutral", "!2 DONE lost", "!CLOSED");
    /* alone: it was no answer to the message */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n421 4.3.2 down\r\n", "!0 REST soft 4.3.2 421 DOT",
        "<250 2.6.0 queued\r\n", "!0 DONE close doubtful", "!CLOSED");
}

/* The peer is out of step. */
static void test_protocol_errors(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, FIRST, SECOND, "<huh\r\n", "!0 REST soft 4.5.0 0 DOT site amb proto",
        "!0 DONE lost", "!1 REST soft 4.4.2 0 DOT site amb neutral", "!1 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, SECOND, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        "<354 go\r\n", "!1 REST soft 4.5.0 354 DOT site amb proto", "!1 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n250-a\r\n450 b\r\n",
        "!0 REST soft 4.5.0 0 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    /* An end's reply to the last RSET, which is not even written: the refusal was not the end's. */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n450 4.2.0 later\r\n",
        "!0 REST soft 4.2.0 450 DOT", "<250 2.6.0 queued\r\n", "!0 DONE close doubtful", "!CLOSED");
    s.is_whole_only = true;
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n250 2.6.0 ok\r\n250 more\r\n",
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE close", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n250 ok\r\n250 more\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n550 no\r\n250 more\r\n",
        "!0 REST hard 5.0.0 550 DOT", "!0 DONE close doubtful", "!CLOSED flush", ">QUIT\r\n");
    /* a line end without CR: what is under way goes on, nothing new begins */
    s.is_whole_only = false;
    RUN(&s, CHUNKED, FIRST, SECOND, "<250 ok\n250 ok\r\n250 2.6.0 ok\r\n",
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE close", "=full", OK4, "!1 REST ok 2.6.0 250 DOT",
        "!1 DONE close", "!CLOSED flush", ">QUIT\r\n");
}

/* One reply too many on a new connection: no message is delivered by the answer to its recipient,
 * whatever the server says to which command. */
static void test_first_shifted(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 1);
#define FIRST_WAITS "=start 1 size=4", ">" WAITED
    RUN(&s, CHUNKED, FIRST_WAITS, "<250 stray\r\n250 2.1.0 ok\r\n", "!0 WANT_BODY chunk",
        ">BDAT 4 LAST\r\n", "=partbody hi", "<250 2.1.5 ok\r\n", "!0 STOP_BODY",
        "!0 REST soft 4.5.0 250 BODY site amb proto", "!0 DONE lost", "!CLOSED");
    /* the answer to the recipient is late: its code gives it away */
    RUN(&s, CHUNKED, FIRST_WAITS, "<250 stray\r\n250 2.1.0 ok\r\n", "!0 WANT_BODY chunk",
        ">BDAT 4 LAST\r\n", "=body hi\r\n", "<250 2.1.5 ok\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    s.is_whole_only = true;
    RUN(&s, CHUNKED, FIRST_WAITS, "<250 stray\r\n250 ok\r\n250 ok\r\n554 5.6.0 no\r\n",
        "!0 REST soft 4.5.0 0 RCPT site proto", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST_WAITS, "<250 stray\r\n250 2.1.0 ok\r\n", "!0 WANT_BODY chunk",
        ">BDAT 4 LAST\r\n", "=body hi\r\n", "<250 2.1.5 ok\r\n450 4.2.0 later\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST_WAITS, "<250 2.0.0 ok\r\n250 2.0.0 ok\r\n", "!0 WANT_BODY chunk",
        ">BDAT 4 LAST\r\n", "=body hi\r\n", "<250 2.0.0 ok\r\n554 5.6.0 no\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost", "!CLOSED");
}

/* Replies that no server that behaves would give: what they leave uncertain is never a success, and
 * never sent again without a mark. */
static void test_impossible(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    /* 421 to a recipient, and on: it may have been taken with the others */
#define TWO_OF_ONE                                                                                 \
    "=start 2 size=4", "!0 WANT_BODY chunk",                                                       \
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nRCPT TO:<r1@b>\r\nBDAT 4 LAST\r\n",
    RUN(&s, CHUNKED, TWO_OF_ONE "<250 ok\r\n421 4.3.2 bye\r\n",
        "!0 RECIPIENT 0 soft 4.3.2 421 RCPT", "<250 ok\r\n", "=body hi\r\n",
        "<250 2.6.0 queued\r\n", "!0 REST ok 2.6.0 250 DOT", "!0 DONE close doubtful",
        "!CLOSED flush", ">QUIT\r\n");
    /* a recipient is accepted of a sender that was not */
    RUN(&s, CHUNKED, FIRST, "<450 4.2.0 later\r\n", "!0 REST soft 4.2.0 450 MAIL", "<250 ok\r\n",
        "!0 DONE close doubtful", "!CLOSED");
    /* all were refused, and the end is never answered: a reply before may be missing */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n550 5.1.1 no\r\n", "!0 RECIPIENT 0 hard 5.1.1 550 RCPT",
        "=eof", "!0 DONE close doubtful", "!CLOSED");
    /* RSET behind the refused message is refused, too */
    RUN(&s, CHUNKED, FIRST, SECOND, "<250 ok\r\n250 ok\r\n450 4.2.0 later\r\n",
        "!0 REST soft 4.2.0 450 DOT", "<450 4.2.0 later\r\n", "!0 DONE reuse doubtful", "!READY",
        "!1 REST soft 4.5.0 450 DOT site amb proto", "!1 DONE lost", "!CLOSED");
    /* it began before the last byte of the message left */
    s.is_whole_only = true;
    RUN(&s, CHUNKED, ONE("0"), "<250 ok\r\n250 ok\r\n2", "=body hi\r\n", "<50 2.6.0 queued\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    /* which of the two is the end's? But a server may go whenever it likes. */
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n250 what\r\n450 4.2.0 later\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, "<250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n421 4.3.2 bye\r\n",
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE close", "!CLOSED flush", ">QUIT\r\n");
}

/* What was said to a recipient of the message before, which was refused, is no end's reply. */
static void test_shifted_behind_refusal(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 1);
    s.is_whole_only = true;
    RUN(&s, CHUNKED, "=start 1 size=4", ">" WAITED, "<250 OK\r\n250 Accepted\r\n",
        "!0 WANT_BODY chunk", ">BDAT 4 LAST\r\n", "=body hi\r\n", "<450 later\r\n",
        "!0 REST soft 4.0.0 450 DOT", ">RSET\r\n", "<250 Reset OK\r\n", "!0 DONE reuse", "!READY",
        "=start 1 size=4", ">" WAITED, "<250 OK\r\n250 OK\r\n", ">DATA\r\n", "<250 Accepted\r\n",
        "!1 REST soft 4.5.0 250 DATA site proto", "!1 DONE lost", "!CLOSED");
    /* where the replies to an envelope vary, the 354 to DATA tells that none is too many */
    RUN(&s, CHUNKED, "=start 2 size=4", ">" WAITED "RCPT TO:<r1@b>\r\n",
        "<250 ok\r\n250 Accepted\r\n250 ok\r\n", ">DATA\r\n", "<354 go\r\n", "!0 WANT_BODY",
        "=body hi\r\n", ">.\r\n", "<250 ok\r\n", "!0 REST ok 2.0.0 250 DOT", "!0 DONE reuse",
        "!READY");
    /* likewise where one code of addresses is said to all: it ends a message behind DATA alone */
    RUN(&s, CHUNKED, "=start 1 size=4", ">" WAITED, "<250 2.1.5 OK\r\n250 2.1.5 OK\r\n",
        ">DATA\r\n", "<354 go\r\n", "!0 WANT_BODY", "=body hi\r\n", ">.\r\n", "<250 2.1.5 OK\r\n",
        "!0 REST ok 2.1.5 250 DOT", "!0 DONE reuse", "!READY", "=start 1 size=4",
        ">" WAITED "DATA\r\n", "<250 2.1.5 OK\r\n250 2.1.5 OK\r\n354 go\r\n", "!1 WANT_BODY",
        "=body hi\r\n", ">.\r\n", "<250 2.1.5 OK\r\n", "!1 REST ok 2.1.5 250 DOT", "!1 DONE reuse",
        "!READY");
}

/* What is learnt of the replies: the first message alone, the second with RSET, then a stream. */
static void test_learnt(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.is_numbered = true;
    s.depth = 3;
#define LEARN                                                                                      \
    COLD, "=full", "<250 2.6.0 queued\r\n", "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY"
    RUN(&s, CHUNKED, LEARN, NEXT("1"), "=body hi\r\n", "=start 1 size=4", "<250 reset\r\n",
        "!2 WANT_BODY chunk", ">RSET\r\n" MAIL, "=body hi\r\n",
        "<250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n", "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse",
        "!READY", OK4, "!2 REST ok 2.6.0 250 DOT", "!2 DONE reuse", "!READY");
    /* words are enough, and ids in them are no words */
    RUN(&s, CHUNKED, "=start 1 size=4", ">" WAITED, "<250 OK\r\n250 Accepted\r\n",
        "!0 WANT_BODY chunk", ">BDAT 4 LAST\r\n", "=body hi\r\n", "<250 OK id=1tX-0\r\n",
        "!0 REST ok 2.0.0 250 DOT", "!0 DONE reuse", "!READY", NEXT("1"), "=body hi\r\n",
        "<250 Reset OK\r\n", NEXT("2"), "=body hi\r\n",
        "<250 OK\r\n250 Accepted\r\n250 OK id=2\r\n", "!1 REST ok 2.0.0 250 DOT", "!1 DONE reuse",
        "!READY");
    /* a server that says the same everywhere gets one message at a time */
    RUN(&s, CHUNKED, "=start 1 size=4", ">" WAITED, "<250 2.0.0 a\r\n250 2.0.0 a\r\n",
        "!0 WANT_BODY chunk", ">BDAT 4 LAST\r\n", "=body hi\r\n", "<250 2.0.0 a\r\n",
        "!0 REST ok 2.0.0 250 DOT", "!0 DONE reuse", "!READY", "=start 1 size=4", "=full",
        ">" WAITED, "<250 2.0.0 a\r\n250 2.0.0 a\r\n", "!1 WANT_BODY chunk", ">BDAT 4 LAST\r\n",
        "=body hi\r\n", "<250 2.0.0 a\r\n", "!1 REST ok 2.0.0 250 DOT", "!1 DONE reuse", "!READY");
    /* one that answers RSET as it answers a message has nothing behind a message */
    RUN(&s, CHUNKED, LEARN, NEXT("1"), "=body hi\r\n", "=start 1 size=4", "<250 2.6.0 queued\r\n",
        "<250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n", "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse",
        "!2 WANT_BODY chunk", "!READY", ">" MAIL, "=body hi\r\n", OK3, "!2 REST ok 2.6.0 250 DOT",
        "!2 DONE reuse", "!READY");
}

/* One reply too many, or too few, in a stream. */
static void test_shifted(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
#define STREAM FIRST, SECOND, THIRD
#define BOTH_MARKED                                                                                \
    "!1 REST soft 4.5.0 250 DOT site amb proto", "!1 DONE lost",                                   \
        "!2 REST soft 4.4.2 0 DOT site amb neutral", "!2 DONE lost", "!CLOSED"
#define FIRST_OK OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY"
    /* the answer to a message twice */
    RUN(&s, CHUNKED, STREAM, FIRST_OK, "<250 2.6.0 queued\r\n", BOTH_MARKED);
    /* a recipient's twice */
    RUN(&s, CHUNKED, STREAM, FIRST_OK, "<250 reset\r\n250 ok\r\n250 ok\r\n250 ok\r\n", BOTH_MARKED);
    /* the message's answer is missing: RSET's is none */
    RUN(&s, CHUNKED, STREAM, "<250 ok\r\n250 ok\r\n250 reset\r\n",
        "!0 REST soft 4.5.0 250 DOT site amb proto", "!0 DONE lost",
        "!1 REST soft 4.4.2 0 DOT site amb neutral", "!1 DONE lost",
        "!2 REST soft 4.4.2 0 DOT site amb neutral", "!2 DONE lost", "!CLOSED");
    /* a refusal for now, and the message's own answer behind it */
    RUN(&s, CHUNKED, STREAM, "<250 ok\r\n250 ok\r\n450 stray\r\n", "!0 REST soft 4.0.0 450 DOT",
        "<250 2.6.0 queued\r\n", "!0 DONE close doubtful", "!1 REST soft 4.4.2 0 DOT site amb",
        "!1 DONE lost", "!2 REST soft 4.4.2 0 DOT site amb neutral", "!2 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, SECOND, "<250 ok\r\n250 ok\r\n450 later\r\n",
        "!0 REST soft 4.0.0 450 DOT", "<250 reset\r\n", "!0 DONE reuse", "!READY",
        "<250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n", "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse",
        "!READY");
    /* a server that varies what it says of a message is not suspected */
    RUN(&s, CHUNKED, FIRST, SECOND, OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        "<250 reset\r\n250 ok\r\n250 ok\r\n250 2.3.0 other\r\n", "!1 REST ok 2.3.0 250 DOT",
        "!1 DONE reuse", "!READY");
}

/* Success needs the last byte of the chunk handed over, and only refusals may come before. */
static void test_early_reply(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, ONE("0"), "=partbody hi", OK3, "!0 STOP_BODY",
        "!0 REST soft 4.5.0 250 BODY site amb proto", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, ONE("0"), "=partbody hi", "=sent", OK3,
        "!0 REST soft 4.5.0 250 BODY site amb proto", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, ONE("0"), "=partbody hi", "=sent", "=wrote 2", OK3, "!0 REST ok 2.6.0 250 DOT",
        "!0 DONE reuse", "!READY");
    RUN(&s, CHUNKED, ONE("0"), "=start 1 size=4", "=partbody hi",
        "<250 ok\r\n250 ok\r\n552 5.3.4 big\r\n", "!0 STOP_BODY", "!0 REST hard 5.3.4 552 BODY",
        "!0 DONE close", "!1 RETURNED soft 4.4.2 0 MAIL site", "!CLOSED");
    /* handed over, though the shell did not say so yet: it may have been taken */
    RUN(&s, CHUNKED, ONE("0"), "=partbody hi\r\n", "<250 ok\r\n250 ok\r\n354 go\r\n",
        "!0 STOP_BODY", "!0 REST soft 4.5.0 354 DOT site amb proto", "!0 DONE lost", "!CLOSED");
    /* the envelope is answered while the body is written: it must be written all the same */
    RUN(&s, CHUNKED, ONE("0"), "=partbody hi", "<250 ok\r\n550 5.1.1 no\r\n",
        "!0 RECIPIENT 0 hard 5.1.1 550 RCPT", "=body \r\n", "<503 none\r\n", ">RSET\r\n",
        "<250 reset\r\n", "!0 DONE reuse", "!READY");
}

/* Commands, bodies and commands in one write; the counts tell which message is out. */
static void test_queued_bodies(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, "=start 1 size=4", "!0 WANT_BODY chunk", "=sent", "=start 1 size=4",
        "!1 WANT_BODY chunk", "=sent", ">" MAIL "RSET\r\n" MAIL, "=wrote 4",
        "<250 ok\r\n250 ok\r\n250 2.6.0 queued\r\n", "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse",
        "!READY", "<250 reset\r\n250 ok\r\n", "=eof", "!1 REST soft 4.4.2 0 RCPT site",
        "!1 DONE lost", "!CLOSED");
    /* one count for both */
    RUN(&s, CHUNKED, "=start 1 size=4", "!0 WANT_BODY chunk", "=sent", "=start 1 size=4",
        "!1 WANT_BODY chunk", "=sent", ">" MAIL "RSET\r\n" MAIL, "=wrote 8", "=eof",
        "!0 REST soft 4.4.2 0 DOT site amb", "!0 DONE lost",
        "!1 REST soft 4.4.2 0 DOT site amb neutral", "!1 DONE lost", "!CLOSED");
    /* the first write ends inside the first body */
    RUN(&s, CHUNKED, "=start 1 size=4", "!0 WANT_BODY chunk", "=sent", "=start 1 size=4",
        "!1 WANT_BODY chunk", "=sent", "=take 45", "=wrote 3", "=eof",
        "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost", "!1 RETURNED soft 4.4.2 0 RSET site",
        "!CLOSED");
    /* an empty message is out with its command */
    RUN(&s, CHUNKED, "=start 1 size=0", "!0 WANT_BODY chunk", "=sent", "=take 44", "=eof",
        "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost", "!CLOSED");
    RUN(&s, CHUNKED, "=start 1 size=0", "!0 WANT_BODY chunk", "=sent",
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 0 LAST\r\n", "=eof",
        "!0 REST soft 4.4.2 0 DOT site amb", "!0 DONE lost", "!CLOSED");
    /* no answer counts for a command that is still here */
    RUN(&s, CHUNKED, "=start 1 size=4", "!0 WANT_BODY chunk", "=take 17", "<250 ok\r\n",
        "<250 ok\r\n", "!0 STOP_BODY", "!0 REST soft 4.5.0 0 RCPT site proto", "!0 DONE lost",
        "!CLOSED");
}

/* A large body is announced when somebody wants it. */
static void test_chunk_wait(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    s.config.chunk_wait = 3;
    RUN(&s, CHUNKED, "=start 2 size=4", ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nRCPT TO:<r1@b>\r\n",
        "=start 1 size=3", "<250 ok\r\n550 5.1.1 no\r\n", "!0 RECIPIENT 0 hard 5.1.1 550 RCPT",
        "<250 ok\r\n", "!0 WANT_BODY chunk", ">BDAT 4 LAST\r\n", "=body hi\r\n",
        "!1 WANT_BODY chunk", ">RSET\r\nMAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 3 LAST\r\n",
        "=body a\r\n", "<250 2.6.0 ok\r\n", "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        OK4, "!1 REST ok 2.6.0 250 DOT", "!1 DONE reuse", "!READY");
    RUN(&s, CHUNKED, "=start 1 size=4", ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\n", "=start 1 size=3",
        "<250 ok\r\n550 5.1.1 no\r\n", "!0 RECIPIENT 0 hard 5.1.1 550 RCPT", "!1 WANT_BODY chunk",
        ">RSET\r\nMAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 3 LAST\r\n", "=body a\r\n",
        "<250 reset\r\n", "!0 DONE reuse", "!READY", OK3, "!1 REST ok 2.6.0 250 DOT",
        "!1 DONE reuse", "!READY");
    /* on a connection that was idle the first answer is waited for: it may be dead */
    RUN(&s, CHUNKED, "=start 1 size=3", "!0 WANT_BODY chunk",
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 3 LAST\r\n", "=body a\r\n", OK3,
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY", "=wait 1001", "=start 1 size=3",
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\n", "=eof", "!1 RETURNED soft 4.4.2 0 MAIL site",
        "!CLOSED");
    RUN(&s, CHUNKED, "=start 1 size=3", "!0 WANT_BODY chunk",
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 3 LAST\r\n", "=body a\r\n", OK3,
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY", "=wait 1000", "=start 1 size=3",
        "!1 WANT_BODY chunk", ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nBDAT 3 LAST\r\n",
        "=body a\r\n", "=eof", "!1 REST soft 4.4.2 0 DOT site amb", "!1 DONE lost", "!CLOSED");
}

/* A body that cannot be read ends the connection, but not before the messages in front of it. */
static void test_body_failed(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 3);
    RUN(&s, CHUNKED, ONE("0"), "=start 1 size=4", "=bodyfail", "!0 STOP_BODY",
        "!0 REST soft 4.3.0 0 LOCAL site", "!0 DONE lost", "!1 RETURNED soft 4.4.2 0 MAIL site",
        "!CLOSED");
    RUN(&s, CHUNKED, FIRST, NEXT("1"), "=partbody h", "=bodybad", "!1 STOP_BODY",
        "!1 REST hard 5.6.0 0 LOCAL", "=full", OK3, "!0 REST ok 2.6.0 250 DOT", "!0 DONE close",
        "!1 DONE close", "!CLOSED");
    RUN(&s, CHUNKED, FIRST, NEXT("1"), "=bodyfail", "!1 STOP_BODY",
        "!1 REST soft 4.3.0 0 LOCAL site", "=eof", "!0 REST soft 4.4.2 0 DOT site amb",
        "!0 DONE lost", "!1 DONE lost", "!CLOSED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_lost),
        cmocka_unit_test(test_said_421),      cmocka_unit_test(test_protocol_errors),
        cmocka_unit_test(test_shifted),       cmocka_unit_test(test_first_shifted),
        cmocka_unit_test(test_impossible),    cmocka_unit_test(test_shifted_behind_refusal),
        cmocka_unit_test(test_learnt),        cmocka_unit_test(test_said_421_and_on),
        cmocka_unit_test(test_early_reply),   cmocka_unit_test(test_queued_bodies),
        cmocka_unit_test(test_chunk_wait),    cmocka_unit_test(test_body_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
