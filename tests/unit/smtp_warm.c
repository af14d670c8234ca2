#include "tests/unit/smtp_warm.h"

#include <stdlib.h>

static void pull(struct smtp_client *c)
{
    struct smtp_client_event event;
    while (smtp_client_next_event(c, &event)) {
        /* nobody asks for them here */
    }
}

static void say(struct smtp_client *c, const char *text)
{
    struct slice in = slice_of(text);
    smtp_client_consume(c, c->out.len);
    while (in.len > 0) {
        smtp_client_input(c, &in, c->now);
        pull(c);
    }
}

static void carry(struct smtp_client *c, const struct smtp_warm_words *words, bool has_reset)
{
    const struct slice recipient = SLICE("r@b");
    const struct smtp_transaction t = {
        .sender = SLICE("s@a"),
        .recipients = &recipient,
        .recipient_count = 1,
        .size_bytes = 4,
    };
    if (!smtp_client_can_start(c) || smtp_client_start(c, &t, c->now) != 0) {
        abort();
    }
    pull(c);
    say(c, has_reset ? words->reset : "");
    say(c, words->mail);
    say(c, words->rcpt);
    smtp_client_consume(c, c->out.len);
    smtp_client_body_progress(c, 4, c->now);
    smtp_client_body_sent(c, c->now);
    pull(c);
    say(c, words->end);
}

void smtp_warm(struct smtp_client *c, const struct smtp_warm_words *words)
{
    struct smtp_client_config config;
    smtp_client_config_defaults(&config);
    const struct smtp_client_peer peer = {
        .host = SLICE("mx"), .address = SLICE("192.0.2.1"), .nexthop = SLICE("b"), .port = 25};
    struct smtp_client other;
    smtp_client_init(&other, &config, &peer, 0);
    other.pace.depth = 16;
    say(&other, "220 mx\r\n");
    say(&other, "250-mx\r\n250-PIPELINING\r\n250 CHUNKING\r\n");
    carry(&other, words, false);
    other.pace.depth = 16;
    carry(&other, words, true);
    memcpy(c->said, other.said, sizeof(c->said));
    c->is_told = other.is_told;
    c->is_reset_told = other.is_reset_told;
    smtp_client_fini(&other);
}
