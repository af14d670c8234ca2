/* The receiver. A BDAT that it refuses leaves its transaction open, as RFC 3030 lets it. */
#include "tests/unit/smtp_receiver.h"

#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

/* splitmix64 */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

enum smtp_receiver_fate smtp_receiver_fate(const struct smtp_receiver *r, unsigned message)
{
    uint64_t chance = mixed(r->seed * 1000 + message);
    return chance % 3 == 0 ? (enum smtp_receiver_fate)(chance / 3 % SMTP_RECEIVER_FATE_COUNT)
                           : SMTP_RECEIVER_TAKES;
}

static void say(struct smtp_receiver *r, const char *text)
{
    buf_append_str(&r->out, text);
    buf_append_str(&r->out, "\r\n");
}

static void leave(struct smtp_receiver *r)
{
    r->has_left = true;
    buf_clear(&r->in);
}

void smtp_receiver_connect(struct smtp_receiver *r)
{
    buf_clear(&r->in);
    buf_clear(&r->out);
    r->has_left = r->is_open = r->is_content = r->is_chunk = false;
    r->chunk_left = 0;
    say(r, "220 mx");
}

void smtp_receiver_fini(struct smtp_receiver *r)
{
    buf_fini(&r->in);
    buf_fini(&r->out);
}

static void on_mail(struct smtp_receiver *r, const char *line)
{
    assert_false(r->is_open); /* nobody may be hurt by what was before */
    r->message = (unsigned)strtoul(line + strlen("MAIL FROM:<s"), NULL, 10);
    assert_in_range(r->message, 0, SMTP_RECEIVER_MESSAGES - 1);
    r->recipients = r->accepted = 0;
    switch ((int)smtp_receiver_fate(r, r->message)) {
    case SMTP_RECEIVER_REFUSES_MAIL:
        say(r, r->message % 2 == 0 ? "550 5.7.1 not you" : "451 4.7.1 later");
        return;
    case SMTP_RECEIVER_LEAVES_AT_MAIL:
        leave(r);
        return;
    case SMTP_RECEIVER_SAYS_421_AT_MAIL:
        say(r, "421 4.3.2 enough");
        leave(r);
        return;
    default:
        r->is_open = true;
        say(r, "250 2.1.0 ok");
    }
}

static void on_rcpt(struct smtp_receiver *r)
{
    if (!r->is_open) {
        say(r, "503 5.5.1 MAIL first");
        return;
    }
    unsigned index = r->recipients++;
    enum smtp_receiver_fate fate = smtp_receiver_fate(r, r->message);
    if (fate == SMTP_RECEIVER_LEAVES_AT_RCPT) {
        leave(r);
    } else if (fate == SMTP_RECEIVER_BABBLES_AT_RCPT) {
        say(r, "and then?");
        leave(r);
    } else if (fate == SMTP_RECEIVER_REFUSES_RCPT || fate == SMTP_RECEIVER_WANTS_NOTHING ||
               (fate == SMTP_RECEIVER_REFUSES_ONE && index == 0)) {
        say(r, index % 2 == 0 ? "550 5.1.1 nobody" : "450 4.2.1 busy");
    } else {
        r->accepted++;
        say(r, "250 2.1.5 ok");
    }
}

static void on_data(struct smtp_receiver *r)
{
    enum smtp_receiver_fate fate = smtp_receiver_fate(r, r->message);
    if (!r->is_open || (r->accepted == 0 && fate != SMTP_RECEIVER_WANTS_NOTHING)) {
        say(r, "503 5.5.1 RCPT first");
    } else if (fate == SMTP_RECEIVER_REFUSES_DATA) {
        say(r, "554 5.3.0 no");
    } else {
        r->is_content = true;
        say(r, "354 go");
    }
}

/* The content is complete. */
static void on_end(struct smtp_receiver *r)
{
    enum smtp_receiver_fate fate = smtp_receiver_fate(r, r->message);
    bool is_refused = fate == SMTP_RECEIVER_REFUSES_END || fate == SMTP_RECEIVER_REFUSES_DATA;
    bool is_possible = r->is_open && (r->accepted > 0 || fate == SMTP_RECEIVER_WANTS_NOTHING);
    if (!is_possible) {
        say(r, "503 5.5.1 RCPT first"); /* only BDAT comes so far */
        return;
    }
    r->is_open = r->is_chunk && is_refused;
    if (fate == SMTP_RECEIVER_LEAVES_AT_END) {
        leave(r);
    } else if (fate == SMTP_RECEIVER_SAYS_421_AT_END) {
        say(r, "421 4.3.2 enough");
        leave(r);
    } else if (is_refused) {
        say(r, r->message % 2 == 0 ? "554 5.6.0 content" : "452 4.3.1 full");
    } else {
        r->taken[r->message] += r->accepted > 0 ? 1 : 0;
        if (fate == SMTP_RECEIVER_BABBLES_AT_END) {
            say(r, "thanks");
        }
        if (fate == SMTP_RECEIVER_BABBLES_AT_END || fate == SMTP_RECEIVER_LEAVES_WITH_IT) {
            leave(r);
        } else {
            say(r, "250 2.0.0 taken");
        }
    }
}

static void on_command(struct smtp_receiver *r, const char *line)
{
    if (strncmp(line, "EHLO", 4) == 0) {
        buf_append_str(&r->out, r->features);
    } else if (strncmp(line, "MAIL", 4) == 0) {
        on_mail(r, line);
    } else if (strncmp(line, "RCPT", 4) == 0) {
        on_rcpt(r);
    } else if (strcmp(line, "DATA") == 0) {
        r->is_chunk = false;
        on_data(r);
    } else if (strncmp(line, "BDAT ", 5) == 0) {
        r->is_chunk = r->is_content = true;
        r->chunk_left = strtoul(line + 5, NULL, 10);
    } else if (strcmp(line, "RSET") == 0) {
        r->is_open = false;
        say(r, "250 2.0.0 reset");
    } else if (strcmp(line, "QUIT") == 0) {
        say(r, "221 bye");
        leave(r);
    } else {
        fail_msg("the client said \"%s\"", line);
    }
}

static bool read_line(struct smtp_receiver *r)
{
    size_t lf = slice_find(buf_slice(&r->in), '\n');
    if (lf == r->in.len) {
        return false;
    }
    char line[1100];
    assert_in_range(lf, 1, sizeof(line) - 1);
    assert_int_equal(r->in.data[lf - 1], '\r');
    memcpy(line, r->in.data, lf);
    line[lf - 1] = '\0';
    buf_consume(&r->in, lf + 1);
    if (!r->is_content) {
        on_command(r, line);
    } else if (strcmp(line, ".") == 0) {
        r->is_content = false;
        on_end(r);
    } else {
        assert_int_equal(line[0] == '\0' ? 'x' : line[0], 'x'); /* nothing but the body */
    }
    return true;
}

static bool read_chunk(struct smtp_receiver *r)
{
    size_t n = r->in.len < r->chunk_left ? r->in.len : (size_t)r->chunk_left;
    if (n == 0 && r->chunk_left > 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        assert_non_null(strchr("x\r\n", r->in.data[i]));
    }
    buf_consume(&r->in, n);
    r->chunk_left -= n;
    if (r->chunk_left == 0) {
        r->is_content = false;
        on_end(r);
    }
    return true;
}

bool smtp_receiver_step(struct smtp_receiver *r)
{
    if (r->has_left) {
        return false;
    }
    return r->is_content && r->is_chunk ? read_chunk(r) : read_line(r);
}
