#include "tests/sim/smtp_hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned long hostile_seed, hostile_deviations;

enum how {
    NONE,
    EXTRA,
    EXTRA_REFUSAL,
    DOUBLE,
    MISSING,
    MERGED,
    SWAPPED,
    WRONG_CODE,
    SAYS_421_AND_ON,
    IS_421_AND_ON,
    IS_421_AND_FIN,
    RESETS,
    HOW_COUNT
};

#define VOCABULARIES 6
/* Telling and not: codes and words, codes alone, words alone, the same code, nothing at all. */
static const char *const vocabularies[VOCABULARIES][HOSTILE_KIND_COUNT] = {
    {[HOSTILE_RESET] = "250 2.0.0 Ok",
     [HOSTILE_MAIL] = "250 2.1.0 Ok",
     [HOSTILE_RCPT] = "250 2.1.5 Ok",
     [HOSTILE_END] = "250 2.0.0 Ok: queued as 4F1"},
    {[HOSTILE_RESET] = "250 2.0.0 ok",
     [HOSTILE_MAIL] = "250 2.1.0 ok",
     [HOSTILE_RCPT] = "250 2.1.5 ok",
     [HOSTILE_END] = "250 2.6.0 ok"},
    {[HOSTILE_RESET] = "250 Reset OK",
     [HOSTILE_MAIL] = "250 OK",
     [HOSTILE_RCPT] = "250 Accepted",
     [HOSTILE_END] = "250 OK id=1tX-1"},
    {[HOSTILE_RESET] = "250 2.0.0 ok",
     [HOSTILE_MAIL] = "250 2.0.0 ok",
     [HOSTILE_RCPT] = "250 2.0.0 ok",
     [HOSTILE_END] = "250 2.0.0 ok"},
    {[HOSTILE_RESET] = "250 ok",
     [HOSTILE_MAIL] = "250 ok",
     [HOSTILE_RCPT] = "250 ok",
     [HOSTILE_END] = "250 ok"},
    {[HOSTILE_RESET] = "250 2.0.0 ok",
     [HOSTILE_MAIL] = "250 2.1.0 ok",
     [HOSTILE_RCPT] = "250 2.1.5 ok",
     [HOSTILE_END] = "250 2.0.0 ok"},
};

unsigned hostile_draw(struct hostile *p, unsigned below)
{
    p->random = p->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(p->random >> 33) % below;
}

static const char *text_of(const struct hostile *p, enum hostile_kind kind)
{
    switch ((int)kind) {
    case HOSTILE_GREETING:
        return "220 mx";
    case HOSTILE_EHLO:
        return p->is_chunking ? "250-mx\r\n250-PIPELINING\r\n250 CHUNKING"
                              : "250-mx\r\n250 PIPELINING";
    case HOSTILE_DATA:
        return "354 go";
    case HOSTILE_REFUSAL:
        return "450 4.2.0 later";
    case HOSTILE_QUIT:
        return "221 bye";
    default:
        return vocabularies[p->words][kind];
    }
}

static void emit(struct hostile *p, const char *text, enum hostile_kind words,
                 enum hostile_kind command, bool is_lie)
{
    buf_append_str(&p->out, text);
    if (p->is_merging) {
        /* one reply made of this and the next */
        char *line = p->out.data + p->out.len - strlen(text);
        line[3] = '-';
        p->is_merging = false;
        buf_append_str(&p->out, "\r\n");
        return;
    }
    buf_append_str(&p->out, "\r\n");
    if (p->reply_count == HOSTILE_REPLIES) {
        abort();
    }
    p->replies[p->reply_count++] =
        (struct hostile_reply){p->out.len, words, command, p->message, is_lie};
}

static void say(struct hostile *p, enum hostile_kind command, enum hostile_kind words)
{
    enum how how = NONE;
    for (unsigned i = 0; i < p->deviations; i++) {
        how = p->at[i] == p->said ? (enum how)p->how[i] : how;
    }
    hostile_deviations += how != NONE ? 1 : 0;
    p->met += how != NONE ? 1 : 0;
    p->said++;
    const char *text = text_of(p, words);
    bool was_swapped = p->swapped.len > 0;
    if (how == EXTRA || how == EXTRA_REFUSAL || how == SAYS_421_AND_ON) {
        enum hostile_kind stray = HOSTILE_RESET + hostile_draw(p, 5);
        stray = how == EXTRA ? stray : HOSTILE_REFUSAL;
        emit(p, how == SAYS_421_AND_ON ? "421 4.3.2 bye" : text_of(p, stray), stray, command, true);
    }
    if (how == MISSING) {
        /* nothing */
    } else if (how == SWAPPED && !was_swapped) {
        buf_append_str(&p->swapped, text);
        buf_append_char(&p->swapped, '\0');
        p->swapped_reply = (struct hostile_reply){0, words, command, p->message, false};
    } else if (how == IS_421_AND_ON || how == IS_421_AND_FIN) {
        emit(p, "421 4.3.2 bye", HOSTILE_REFUSAL, command, how == IS_421_AND_ON);
        p->has_left = how == IS_421_AND_FIN;
    } else if (how == WRONG_CODE && command != HOSTILE_DATA) {
        enum hostile_kind wrong = words == HOSTILE_REFUSAL ? command : HOSTILE_REFUSAL;
        emit(p, text_of(p, wrong), wrong, command, true);
    } else {
        p->is_merging = how == MERGED && strstr(text, "\r\n") == NULL;
        emit(p, text, words, command, false);
        if (how == DOUBLE) {
            emit(p, text, words, command, true);
        }
    }
    if (was_swapped) {
        emit(p, p->swapped.data, p->swapped_reply.words, p->swapped_reply.command, false);
        buf_clear(&p->swapped);
    }
    if (how == RESETS) {
        p->has_left = p->is_reset = true;
    }
}

void hostile_init(struct hostile *p, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->random = seed * 0x9e3779b97f4a7c15U;
    (void)hostile_draw(p, 2);
    p->words = hostile_draw(p, VOCABULARIES);
    p->is_chunking = hostile_draw(p, 3) > 0;
    p->deviations = hostile_draw(p, 4);
    unsigned range = hostile_draw(p, 2) == 0 ? 8 : 60;
    for (unsigned i = 0; i < 3; i++) {
        p->at[i] = hostile_draw(p, range);
        p->how[i] = 1 + hostile_draw(p, HOW_COUNT - 1);
    }
    say(p, HOSTILE_GREETING, HOSTILE_GREETING);
}

void hostile_fini(struct hostile *p)
{
    buf_fini(&p->in);
    buf_fini(&p->out);
    buf_fini(&p->swapped);
}

unsigned hostile_recipients(const struct hostile *p, unsigned message)
{
    return 1 + (message + p->words) % HOSTILE_RECIPIENTS;
}

void hostile_hear(struct hostile *p, struct slice bytes)
{
    buf_append_slice(&p->in, bytes);
}

static void end_message(struct hostile *p)
{
    bool is_taken = p->accepted > 0 && hostile_draw(p, 3) > 0;
    unsigned accepted = p->accepted;
    p->is_open = is_taken ? false : p->is_chunk;
    unsigned before = p->said;
    say(p, HOSTILE_END, is_taken ? HOSTILE_END : HOSTILE_REFUSAL);
    bool is_refused = false; /* it says 421 and goes: then it takes nothing */
    for (unsigned i = 0; i < p->deviations; i++) {
        is_refused = is_refused || (p->at[i] == before && p->how[i] == IS_421_AND_FIN);
    }
    /* Without a byte of content it took something, but not this message. */
    p->taken[p->message] |= is_taken && !is_refused && p->has_content ? accepted : 0;
    p->has_content = false;
    p->accepted = p->recipients = 0;
}

static void command(struct hostile *p, struct slice line)
{
    char verb[5] = "";
    memcpy(verb, line.data, line.len < 4 ? line.len : 4);
    if (strcmp(verb, "EHLO") == 0 || strcmp(verb, "HELO") == 0) {
        say(p, HOSTILE_EHLO, HOSTILE_EHLO);
    } else if (strcmp(verb, "RSET") == 0) {
        p->is_open = false;
        p->accepted = p->recipients = 0;
        say(p, HOSTILE_RESET, HOSTILE_RESET);
    } else if (strcmp(verb, "MAIL") == 0) {
        bool is_good = !p->is_open && hostile_draw(p, 8) > 0;
        p->message =
            is_good || !p->is_open ? (unsigned)strtoul(line.data + 12, NULL, 10) : p->message;
        p->is_open = p->is_open || is_good;
        p->accepted = p->recipients = is_good ? 0 : p->recipients;
        say(p, HOSTILE_MAIL, is_good ? HOSTILE_MAIL : HOSTILE_REFUSAL);
    } else if (strcmp(verb, "RCPT") == 0) {
        bool is_good = p->is_open && hostile_draw(p, 4) > 0;
        p->accepted |= is_good ? 1U << p->recipients : 0;
        p->recipients++;
        say(p, HOSTILE_RCPT, is_good ? HOSTILE_RCPT : HOSTILE_REFUSAL);
    } else if (strcmp(verb, "DATA") == 0) {
        p->is_content = p->accepted > 0;
        say(p, HOSTILE_DATA, p->is_content ? HOSTILE_DATA : HOSTILE_REFUSAL);
    } else if (strcmp(verb, "QUIT") == 0) {
        say(p, HOSTILE_QUIT, HOSTILE_QUIT);
        p->has_left = true;
    } else {
        say(p, HOSTILE_DATA, HOSTILE_REFUSAL);
    }
}

void hostile_step(struct hostile *p)
{
    if (p->has_left) {
        return;
    }
    if (p->chunk_left > 0) {
        size_t n = p->in.len < p->chunk_left ? p->in.len : (size_t)p->chunk_left;
        buf_consume(&p->in, n);
        p->chunk_left -= n;
        p->has_content = p->has_content || n > 0;
        if (n > 0 && p->chunk_left == 0) {
            p->is_chunk = true;
            end_message(p);
        }
        return;
    }
    size_t lf = slice_find(buf_slice(&p->in), '\n');
    if (lf == p->in.len) {
        return;
    }
    char line[200] = "";
    size_t len = lf < sizeof(line) - 1 ? lf : sizeof(line) - 1;
    memcpy(line, p->in.data, len);
    buf_consume(&p->in, lf + 1);
    if (p->is_content) {
        if (line[0] == '.' && line[1] == '\r') {
            p->is_content = p->is_chunk = false;
            end_message(p);
        } else {
            p->has_content = true;
        }
    } else if (memcmp(line, "BDAT", 4) == 0) {
        p->chunk_left = strtoul(line + 5, NULL, 10);
    } else {
        command(p, slice_make(line, len));
    }
}

void hostile_finish(struct hostile *p)
{
    size_t before;
    do {
        before = p->in.len;
        hostile_step(p);
    } while (p->in.len < before);
}

struct slice hostile_says(const struct hostile *p)
{
    return slice_from(buf_slice(&p->out), (size_t)p->read);
}

uint64_t hostile_reply_begin(const struct hostile *p, unsigned i)
{
    return i == 0 ? 0 : p->replies[i - 1].position;
}

struct slice hostile_reply_text(const struct hostile *p, unsigned i)
{
    uint64_t begin = hostile_reply_begin(p, i);
    return slice_make(p->out.data + begin, (size_t)(p->replies[i].position - begin));
}
