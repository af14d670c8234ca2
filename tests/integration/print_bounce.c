/* Prints a notice for test_bounce_format.py: print_bounce KIND, with odd and ordinary facts. */
#include "engine/writer/bounce.h"

#include <stdio.h>
#include <string.h>

#define WHEN (1795253382LL * USEC_PER_SEC) /* Sat, 21 Nov 2026 09:29:42 UTC */

static const struct slice original[] = {
    SLICE("From: Ann <a@x.example>\r\nTo: b@y.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"),
    SLICE("Message-Id: <1@x.example>\r\nMIME-Version: 1.0\r\n"
          "Content-Type: multipart/mixed; boundary=\"inner\"\r\n\r\n"),
    SLICE("--inner\r\n\r\nfirst part\r\n--inner\r\n\r\nsecond part\r\n--inner--\r\n"),
};

static const struct slice international[] = {
    SLICE("From: \xc3\xa4@x.example\r\nSubject: Gr\xc3\xbc\xc3\x9f"
          "e\r\n\r\nbody \xe2\x82\xac\r\n"),
};

static const struct bounce_recipient recipients[] = {
    {.address = SLICE("b@y.example"),
     .original = SLICE("rfc822;alias@y.example"),
     .status = SLICE("5.1.1"),
     .diagnostic = SLICE("550 5.1.1 <b@y.example>: Recipient address rejected: User unknown in "
                         "local recipient table; please check the address and try once more"),
     .remote_mta = SLICE("mx.y.example"),
     .is_reply = true},
    {.address = SLICE("\"odd \\\" one\"@z.example"),
     .status = SLICE("4.4.1"),
     .diagnostic = SLICE("connect to mx.z.example[192.0.2.1]:25: Connection timed out\r\n\r\n--x"),
     .is_expired = true},
};

static const struct bounce_recipient umlaut = {.address = SLICE("j\xc3\xbcrgen+a@y.example"),
                                               .status = SLICE("5.1.1"),
                                               .diagnostic = SLICE("550 gr\xc3\xbc\xc3\x9f"),
                                               .is_reply = true};

int main(int argc, char **argv)
{
    struct bounce_config config = {.hostname = SLICE("relay.example"),
                                   .size_limit = 50000,
                                   .now = WHEN + 60 * USEC_PER_SEC,
                                   .retry_until = WHEN + 432000 * USEC_PER_SEC,
                                   .unique = 77};
    struct bounce_message message = {.id = SLICE("0A1B"),
                                     .sender = SLICE("a@x.example"),
                                     .envid = SLICE("QQ314159"),
                                     .arrival = WHEN,
                                     .parts = original,
                                     .part_count = sizeof(original) / sizeof(original[0])};
    const struct bounce_recipient *list = recipients;
    size_t count = 2;
    enum bounce_kind kind = BOUNCE_FAILURE;
    bool is_utf8 = false;
    struct buf out;
    if (argc != 2) {
        return 64;
    }
    if (strcmp(argv[1], "delay") == 0) {
        kind = BOUNCE_DELAY;
    } else if (strcmp(argv[1], "header") == 0) {
        config.size_limit = 10;
    } else if (strcmp(argv[1], "international") == 0) {
        message.is_smtputf8 = true;
        message.sender = SLICE("\xc3\xa4@x.example");
        message.parts = international;
        message.part_count = 1;
        list = &umlaut;
        count = 1;
    } else if (strcmp(argv[1], "failure") != 0) {
        return 64;
    }
    const struct bounce_news news = {kind, list, count};
    buf_init(&out, 0);
    if (bounce_format(&out, &config, &message, &news, &is_utf8) != 0 ||
        fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
        return 70;
    }
    buf_fini(&out);
    return is_utf8 ? 1 : 0;
}
