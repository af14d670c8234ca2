/* What a server says to which command, so that a reply out of its place is seen. Replies are
 * matched to commands by their order alone; one reply too many or too few shifts all behind it, and
 * in a stream of BDAT no class of code stops that as 354 does in a stream of DATA. So each
 * connection learns how its server answers RSET, MAIL, RCPT and the end of a message: code,
 * enhanced code and the words, without those that vary. It learns from a message that is carried
 * alone, whose end is sent behind the replies to its envelope.
 *
 *   - Until that is known nothing is sent behind the end of a message, and no BDAT in front of the
 *     replies to its envelope. The end's reply is then the only one that is owed, and any reply too
 *     many that came before is seen as one that nothing asked for. This costs one round trip once a
 *     connection; for a server that says the same to everything it stays so.
 *   - Then a reply that is another command's is a protocol error at once, and success at the end of
 *     a message is only what this server says to no other command.
 *   - Where the replies to envelopes vary and are not told from the end's, or MAIL and RCPT have the
 *     same code of addresses, DATA is used: its 354 shows that no reply was too many.
 *
 * What cannot be known: a server that answers the end as it answers ends, but did not take the
 * message; and a shift at an end that is sent alone while the misplaced reply is still on its way,
 * as long as nothing tells the replies apart.
 *
 * A shift that is seen late: success is certain when it is given (by the words, or by being the
 * only reply owed) and stays. A refusal cannot be told from another, so a transaction that was
 * wholly handed over, whose verdicts were refusals, is marked by its DONE (is_doubtful) when the
 * order of replies breaks before that; one with DONE has had all its replies, and the first reply
 * behind it, in order. Pure. */
#include "net/smtp_client_internal.h"

#define WORDS_MAX 8 /* words looked at */

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_lower(char byte)
{
    return byte >= 'a' && byte <= 'z';
}

static uint32_t mix(uint32_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * 16777619U; /* FNV-1a, 32 bits */
}

#define HASH_START 2166136261U

/* Fold a word without punctuation at its end into *hash, whatever its case; false when it is one
 * that varies: not of letters only, or with a capital behind a small letter, as in an id. */
static bool fold_word(struct slice word, uint32_t *hash)
{
    uint32_t folded = *hash;
    while (word.len > 0 && memchr(".,:;!", word.data[word.len - 1], 5) != NULL) {
        word.len--;
    }
    for (size_t i = 0; i < word.len; i++) {
        char byte = word.data[i];
        bool is_odd_capital = i > 0 && !is_lower(byte) && is_lower(word.data[i - 1]);
        if (!is_letter(byte) || is_odd_capital) {
            return false;
        }
        folded = mix(folded, (char)(byte | 0x20));
    }
    *hash = mix(folded, ' ');
    return true;
}

/* Code and words of "250 2.1.5 Ok: queued as 4F1". Those that vary count as one each run. */
static uint32_t words_of(const struct smtp_reply *r)
{
    struct slice text = smtp_reply_text(r);
    uint32_t hash = mix(mix(HASH_START, (char)r->code), (char)(r->code >> 8));
    bool has_varied = true; /* the code itself, and an enhanced status behind it */
    for (unsigned count = 0; text.len > 0 && count < WORDS_MAX; count++) {
        size_t len = slice_find(text, ' ');
        bool varies = !fold_word(slice_to(text, len), &hash);
        if (varies && !has_varied) {
            hash = mix(hash, '#');
        }
        has_varied = varies;
        text = slice_from(text, len < text.len ? len + 1 : len);
    }
    return hash;
}

static uint32_t status_of(const struct smtp_reply *r)
{
    uint32_t hash = HASH_START;
    for (const char *p = r->status.text; *p != '\0'; p++) {
        hash = mix(hash, *p);
    }
    return hash;
}

static struct smtp_client_saying saying_of(const struct smtp_reply *r)
{
    return (struct smtp_client_saying){.status = status_of(r), .words = words_of(r)};
}

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    uint64_t mixed = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return mixed ^ mixed >> 29;
}

/* All of the reply, for most servers say the same to a command byte for byte: then nothing has to
 * be taken apart. Never 0. */
static uint64_t bytes_of(const struct smtp_reply *r)
{
    struct slice text = smtp_reply_text(r);
    uint64_t hash = text.len;
    uint64_t word = 0;
    if (text.len < sizeof(word)) {
        memcpy(&word, text.data, text.len);
        return hash_word(hash, word) | 1;
    }
    for (size_t at = 0; at + sizeof(word) < text.len; at += sizeof(word)) {
        memcpy(&word, text.data + at, sizeof(word));
        hash = hash_word(hash, word);
    }
    memcpy(&word, text.data + text.len - sizeof(word), sizeof(word));
    return hash_word(hash, word) | 1;
}

static bool is_known_saying(struct smtp_client_saying s)
{
    return s.words != 0;
}

static bool is_same_saying(struct smtp_client_saying a, struct smtp_client_saying b)
{
    return a.words == b.words && a.status == b.status;
}

/* Whether this is one of several things that were said to such a command. */
static bool is_heard(const struct smtp_client *c, struct smtp_client_saying s,
                     enum smtp_client_asked asked)
{
    if (!c->has_also) {
        return false;
    }
    const struct smtp_client_saying *also = c->said_also[asked];
    bool is_one = is_same_saying(s, c->said[asked]);
    bool are_several = false;
    for (unsigned i = 0; i < 2; i++) {
        is_one = is_one || is_same_saying(s, also[i]);
        are_several =
            are_several || (is_known_saying(also[i]) && !is_same_saying(also[i], c->said[asked]));
    }
    return is_one && are_several;
}

/* To be known as said to such a command. Of several the last is kept: there a shift begins. */
static void hear(struct smtp_client *c, struct smtp_client_saying s, enum smtp_client_asked asked)
{
    struct smtp_client_saying *also = c->said_also[asked];
    if (is_known_saying(s) && !is_same_saying(s, also[0]) && !is_same_saying(s, also[1])) {
        c->has_also = true;
        also[is_known_saying(also[0]) ? 1 : 0] = s;
    }
}

/* Whether what was said to the end of a message cannot be an answer to the other command. */
static bool tells_from(const struct smtp_client *c, struct smtp_client_saying end,
                       enum smtp_client_asked other)
{
    const struct smtp_client_saying *said = c->said;
    if (is_heard(c, end, other)) {
        return false;
    }
    if (end.status != said[other].status || !is_known_saying(said[other])) {
        return true;
    }
    /* Where words vary beyond what is taken out, only those that are known to be of an end count.
     */
    return end.words != said[other].words &&
           (!c->has_varied || is_same_saying(end, said[SMTP_CLIENT_ASKED_END]));
}

static bool tells_from_envelope(const struct smtp_client *c, struct smtp_client_saying end)
{
    return tells_from(c, end, SMTP_CLIENT_ASKED_MAIL) && tells_from(c, end, SMTP_CLIENT_ASKED_RCPT);
}

static void judge_idiom(struct smtp_client *c)
{
    const struct smtp_client_saying *end = &c->said[SMTP_CLIENT_ASKED_END];
    bool has_all = is_known_saying(*end) && is_known_saying(c->said[SMTP_CLIENT_ASKED_MAIL]) &&
                   is_known_saying(c->said[SMTP_CLIENT_ASKED_RCPT]);
    bool is_uniform = c->has_varied && (end->status == c->said[SMTP_CLIENT_ASKED_MAIL].status ||
                                        end->status == c->said[SMTP_CLIENT_ASKED_RCPT].status);
    c->is_told = has_all && !is_uniform && tells_from_envelope(c, *end);
    bool is_reset_same = !tells_from(c, *end, SMTP_CLIENT_ASKED_RESET) ||
                         (c->has_varied && end->status == c->said[SMTP_CLIENT_ASKED_RESET].status);
    c->is_reset_told = c->is_told && is_known_saying(c->said[SMTP_CLIENT_ASKED_RESET]) &&
                       !is_reset_same && !c->is_reset_odd;
}

bool smtp_client_knows_reset(const struct smtp_client *c)
{
    return is_known_saying(c->said[SMTP_CLIENT_ASKED_RESET]);
}

/* x.1.z is about an address (RFC 3463 3.2): a server that says it of a message, or to RSET, says it
 * of recipients as well. */
static bool is_of_address(const struct smtp_client *c)
{
    return strncmp(c->reply.status.text, "2.1.", 4) == 0;
}

bool smtp_client_notice(struct smtp_client *c, enum smtp_client_asked asked)
{
    uint64_t bytes = bytes_of(&c->reply);
    struct smtp_client_saying *known = &c->said[asked];
    if (!is_known_saying(c->said[SMTP_CLIENT_ASKED_END]) && asked == SMTP_CLIENT_ASKED_MAIL) {
        /* The message before was refused in the end: what was seen of it is no measure. */
        hear(c, c->said[SMTP_CLIENT_ASKED_MAIL], SMTP_CLIENT_ASKED_MAIL);
        hear(c, c->said[SMTP_CLIENT_ASKED_RCPT], SMTP_CLIENT_ASKED_RCPT);
        c->said[SMTP_CLIENT_ASKED_RCPT] = *known = (struct smtp_client_saying){0};
        c->has_varied = false;
    }
    if (known->bytes == bytes) {
        return true;
    }
    struct smtp_client_saying now = saying_of(&c->reply);
    now.bytes = bytes;
    if (is_same_saying(now, *known)) {
        known->bytes = bytes;
        return true;
    }
    const struct smtp_client_saying before = c->said_also[asked][0];
    if (!is_known_saying(*known)) {
        c->has_varied = c->has_varied || (is_known_saying(before) && !is_same_saying(before, now));
        /* Of several RCPT the first one's is kept: there a shift puts the reply to MAIL. */
        *known = now;
        c->is_reset_odd = c->is_reset_odd || (asked == SMTP_CLIENT_ASKED_RESET && is_of_address(c));
        c->is_all_address =
            asked == SMTP_CLIENT_ASKED_RCPT
                ? is_of_address(c) && now.status == c->said[SMTP_CLIENT_ASKED_MAIL].status
                : c->is_all_address;
        judge_idiom(c);
        return true;
    }
    for (unsigned i = 0; c->is_told && i < SMTP_CLIENT_ASKED_COUNT; i++) {
        if (is_same_saying(now, c->said[i])) {
            return false;
        }
    }
    c->has_varied = true;
    c->is_suspect = c->is_suspect || is_same_saying(now, c->said[SMTP_CLIENT_ASKED_END]);
    hear(c, now, asked);
    judge_idiom(c);
    return true;
}

/* The first message of a connection, or one of a server that says the same to everything: its end
 * was the only command without reply. */
static bool is_certain_alone(const struct smtp_client *c, struct smtp_client_saying end,
                             bool has_more)
{
    const struct smtp_client_saying *mail = &c->said[SMTP_CLIENT_ASKED_MAIL];
    const struct smtp_client_saying *rcpt = &c->said[SMTP_CLIENT_ASKED_RCPT];
    bool is_chunk = smtp_client_at(c, 0)->is_chunk;
    if ((is_chunk || has_more) &&
        (is_heard(c, end, SMTP_CLIENT_ASKED_MAIL) || is_heard(c, end, SMTP_CLIENT_ASKED_RCPT))) {
        return false;
    }
    if (has_more) {
        /* One of the two is too many. */
        return !is_of_address(c) && end.status != mail->status && end.status != rcpt->status;
    }
    /* Behind BDAT it may be a recipient's that is late; in front of DATA's 354 there is none. */
    return !is_of_address(c) || (end.status == rcpt->status && !is_chunk);
}

/* The enhanced code alone tells the reply just read from those to the other commands. */
static bool is_told_by_status(const struct smtp_client *c, bool can_be_reset)
{
    uint32_t status = status_of(&c->reply);
    const struct smtp_client_saying *mail = c->said_also[SMTP_CLIENT_ASKED_MAIL];
    const struct smtp_client_saying *rcpt = c->said_also[SMTP_CLIENT_ASKED_RCPT];
    if (c->has_also && (status == mail[0].status || status == mail[1].status ||
                        status == rcpt[0].status || status == rcpt[1].status)) {
        return false;
    }
    return status != c->said[SMTP_CLIENT_ASKED_MAIL].status &&
           status != c->said[SMTP_CLIENT_ASKED_RCPT].status &&
           (!can_be_reset || status != c->said[SMTP_CLIENT_ASKED_RESET].status);
}

bool smtp_client_is_certain_end(struct smtp_client *c, bool has_more)
{
    bool is_next_begun = c->flight_count > 1 && smtp_client_at(c, 1)->is_begun;
    bool can_be_reset = c->is_reset_told || (is_next_begun && smtp_client_at(c, 1)->has_reset);
    if (c->is_told && !c->is_reset_odd && is_told_by_status(c, can_be_reset)) {
        return true;
    }
    struct smtp_client_saying end = saying_of(&c->reply);
    struct smtp_client_saying *known = &c->said[SMTP_CLIENT_ASKED_END];
    if (c->is_told && c->is_reset_odd && can_be_reset) {
        return is_same_saying(end, *known); /* what it says to RSET is perhaps not known */
    }
    if (c->is_told && is_of_address(c) && end.status != known->status) {
        return false;
    }
    if (!c->is_told && !smtp_client_at(c, 0)->is_streamed && !is_next_begun) {
        bool is_certain = is_certain_alone(c, end, has_more);
        if (is_certain) {
            *known = end;
            judge_idiom(c);
        }
        return is_certain;
    }
    if (has_more && !is_same_saying(end, *known)) {
        return false;
    }
    return tells_from_envelope(c, end) &&
           (!can_be_reset || tells_from(c, end, SMTP_CLIENT_ASKED_RESET));
}
