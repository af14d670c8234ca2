/* Verdicts into results and feedback: scheduler-semantics 3.2, rules (a) to (e). Pure. */
#include "net/outcome.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct outcome_text {
    struct outcome_text *next;
    size_t len;
    char bytes[]; /* len bytes and a NUL */
};

static const char *const stage_texts[] = {
    [OUTCOME_STAGE_RESOLVE] = "looking up the host",
    [OUTCOME_STAGE_CONNECT] = "connecting",
    [OUTCOME_STAGE_GREETING] = "receiving the initial server greeting",
    [OUTCOME_STAGE_EHLO] = "performing the EHLO handshake",
    [OUTCOME_STAGE_HELO] = "performing the HELO handshake",
    [OUTCOME_STAGE_STARTTLS] = "sending STARTTLS command",
    [OUTCOME_STAGE_TLS] = "performing the TLS handshake",
    [OUTCOME_STAGE_AUTH] = "performing SASL authentication",
    [OUTCOME_STAGE_MAIL] = "sending MAIL FROM",
    [OUTCOME_STAGE_RCPT] = "sending RCPT TO",
    [OUTCOME_STAGE_DATA] = "sending DATA command",
    [OUTCOME_STAGE_BODY] = "sending message body",
    [OUTCOME_STAGE_DOT] = "sending end of data -- message may be sent more than once",
    [OUTCOME_STAGE_RSET] = "sending RSET",
    [OUTCOME_STAGE_QUIT] = "sending QUIT command",
    [OUTCOME_STAGE_IDLE] = "between transactions",
    [OUTCOME_STAGE_LOCAL] = "reading the message",
};

static const char *const stage_commands[OUTCOME_STAGE_COUNT] = {
    [OUTCOME_STAGE_GREETING] = "initial greeting",
    [OUTCOME_STAGE_EHLO] = "EHLO",
    [OUTCOME_STAGE_HELO] = "HELO",
    [OUTCOME_STAGE_STARTTLS] = "STARTTLS",
    [OUTCOME_STAGE_AUTH] = "AUTH",
    [OUTCOME_STAGE_MAIL] = "MAIL FROM",
    [OUTCOME_STAGE_RCPT] = "RCPT TO",
    [OUTCOME_STAGE_DATA] = "DATA",
    [OUTCOME_STAGE_BODY] = "end of DATA", /* an early reply stands for the one to end of data */
    [OUTCOME_STAGE_DOT] = "end of DATA",
    [OUTCOME_STAGE_RSET] = "RSET",
    [OUTCOME_STAGE_QUIT] = "QUIT",
};

const char *outcome_stage_text(enum outcome_stage stage)
{
    return stage_texts[stage];
}

const char *outcome_stage_command(enum outcome_stage stage)
{
    return stage_commands[stage] != NULL ? stage_commands[stage] : "";
}

struct outcome_status outcome_status_of(const char *text)
{
    struct outcome_status status = {{0}};
    assert(strlen(text) < sizeof(status.text));
    memcpy(status.text, text, strlen(text));
    return status;
}

struct outcome_status outcome_status_class(struct outcome_status status, char digit)
{
    status.text[0] = digit;
    return status;
}

int outcome_init(struct outcome *o, uint32_t recipient_count)
{
    *o = (struct outcome){.recipient_count = 0};
    o->recipients = calloc(recipient_count > 0 ? recipient_count : 1, sizeof(*o->recipients));
    if (o->recipients == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < recipient_count; i++) {
        o->recipients[i].text = "";
    }
    o->recipient_count = recipient_count;
    o->undecided = recipient_count;
    return 0;
}

void outcome_fini(struct outcome *o)
{
    while (o->texts != NULL) {
        struct outcome_text *text = o->texts;
        o->texts = text->next;
        free(text);
    }
    free(o->recipients);
    *o = (struct outcome){.recipient_count = 0};
}

void outcome_session_begin(struct outcome *o, bool final)
{
    o->is_final_server = final;
    for (uint32_t i = 0; i < o->recipient_count; i++) {
        o->recipients[i].is_taken = false;
        o->recipients[i].is_kept = false;
    }
    o->taken = 0;
}

void outcome_session_is_final(struct outcome *o)
{
    o->is_final_server = true;
}

void outcome_session_end(struct outcome *o, bool complete)
{
    o->has_complete_session = o->has_complete_session || complete;
}

/* Length of s cut to max bytes without cutting a UTF-8 character. */
static size_t cut_len(struct slice s, size_t max)
{
    if (s.len <= max) {
        return s.len;
    }
    size_t len = max;
    while (len > 0 && ((unsigned char)s.data[len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

/* A NUL-terminated copy that lives as long as the outcome; the newest one is shared when equal. */
static const char *intern(struct outcome *o, struct slice text)
{
    text.len = cut_len(text, OUTCOME_TEXT_MAX);
    if (o->texts != NULL && slice_eq(text, slice_make(o->texts->bytes, o->texts->len))) {
        return o->texts->bytes;
    }
    struct outcome_text *copy = malloc(sizeof(*copy) + text.len + 1);
    if (copy == NULL) {
        o->is_out_of_memory = true;
        return "text lost: out of memory";
    }
    copy->len = text.len;
    if (text.len > 0) {
        memcpy(copy->bytes, text.data, text.len);
    }
    copy->bytes[text.len] = '\0';
    copy->next = o->texts;
    o->texts = copy;
    return copy->bytes;
}

/* What the verdict makes of a recipient now; UNDECIDED when it waits for the next server. */
static enum outcome_kind outcome_kind_of(const struct outcome *o, const struct outcome_verdict *v)
{
    switch (v->class) {
    case OUTCOME_SUCCESS:
        return OUTCOME_DELIVERED;
    case OUTCOME_HARD:
        if (v->is_soft_unless_final && !o->is_final_server) {
            return OUTCOME_UNDECIDED;
        }
        return OUTCOME_BOUNCED;
    case OUTCOME_SOFT:
    case OUTCOME_CLASS_COUNT:
        break;
    }
    return o->is_final_server || v->is_ambiguous ? OUTCOME_DEFERRED : OUTCOME_UNDECIDED;
}

static void settle_recipient(struct outcome *o, struct outcome_recipient *r, enum outcome_kind kind,
                             const struct outcome_verdict *v, const char *text)
{
    *r = (struct outcome_recipient){
        .kind = kind,
        .stage = v->stage,
        .code = v->code,
        .is_ambiguous = v->is_ambiguous,
        .status = v->status,
        .text = text,
    };
    o->undecided--;
    o->ambiguous += v->is_ambiguous ? 1 : 0;
    o->delivered += kind == OUTCOME_DELIVERED ? 1 : 0;
    o->deferred += kind == OUTCOME_DEFERRED ? 1 : 0;
    o->bounced += kind == OUTCOME_BOUNCED ? 1 : 0;
}

static void keep_for_next(struct outcome *o, const struct outcome_verdict *v)
{
    if (v->scope == OUTCOME_SCOPE_OWN && o->has_last) {
        return;
    }
    o->last = *v;
    const char *text = intern(o, v->text);
    o->last.text = slice_of(text);
    /* A bounce that waited for another server is still only a deferral when none is left to ask
     * about it: nobody final said no. */
    if (v->class == OUTCOME_HARD) {
        o->last.class = OUTCOME_SOFT;
        o->last.status = outcome_status_class(v->status, '4');
    }
    o->has_last = true;
}

/* Rules (a), (c), (d), (e); (b) holds as recipients were disposed of. */
static void note_reason(struct outcome *o, const struct outcome_verdict *v)
{
    if (o->has_complete_session || o->has_reason) {
        return;
    }
    if (v->scope == OUTCOME_SCOPE_OWN) {
        o->is_neutral = true;
    }
    if (v->scope != OUTCOME_SCOPE_SITE) {
        return;
    }
    o->has_reason = true;
    memcpy(o->reason.status, v->status.text, sizeof(o->reason.status));
    size_t len = cut_len(v->text, OUTCOME_REASON_MAX);
    if (len > 0) {
        memcpy(o->reason.text, v->text.data, len);
    }
    o->reason.text[len] = '\0';
}

uint32_t outcome_take(struct outcome *o, uint32_t max, uint32_t *ret_indexes)
{
    o->taken = 0;
    for (uint32_t i = 0; i < o->recipient_count; i++) {
        struct outcome_recipient *r = &o->recipients[i];
        r->is_taken = r->kind == OUTCOME_UNDECIDED && !r->is_kept && (max == 0 || o->taken < max);
        if (r->is_taken) {
            ret_indexes[o->taken++] = i;
        }
    }
    return o->taken;
}

/* Give an undecided recipient its verdict: settled, or kept when kind is UNDECIDED. */
static void apply(struct outcome *o, struct outcome_recipient *r, enum outcome_kind kind,
                  const struct outcome_verdict *v, const char *text)
{
    o->taken -= r->is_taken ? 1 : 0;
    r->is_taken = false;
    if (kind == OUTCOME_UNDECIDED) {
        r->is_kept = true;
    } else {
        settle_recipient(o, r, kind, v, text);
    }
}

bool outcome_decide(struct outcome *o, uint32_t index, const struct outcome_verdict *v)
{
    if (index >= o->recipient_count || o->recipients[index].kind != OUTCOME_UNDECIDED) {
        return true;
    }
    enum outcome_kind kind = outcome_kind_of(o, v);
    apply(o, &o->recipients[index], kind, v, intern(o, v->text));
    if (kind == OUTCOME_UNDECIDED) {
        keep_for_next(o, v);
    } else if (kind == OUTCOME_DEFERRED) {
        note_reason(o, v);
    }
    return kind != OUTCOME_UNDECIDED;
}

uint32_t outcome_decide_rest(struct outcome *o, const struct outcome_verdict *v)
{
    if (v->scope == OUTCOME_SCOPE_OWN && o->is_final_server && o->has_last) {
        v = &o->last;
    }
    bool is_about_all = o->taken == 0 || v->scope == OUTCOME_SCOPE_SITE;
    enum outcome_kind kind = outcome_kind_of(o, v);
    const char *text = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->recipient_count; i++) {
        struct outcome_recipient *r = &o->recipients[i];
        if (r->kind != OUTCOME_UNDECIDED || r->is_kept || (!r->is_taken && !is_about_all)) {
            continue;
        }
        text = text == NULL ? intern(o, v->text) : text;
        apply(o, r, kind, v, text);
        count++;
    }
    if (count == 0) {
        return 0;
    }
    if (kind == OUTCOME_UNDECIDED) {
        keep_for_next(o, v);
        return 0;
    }
    if (kind == OUTCOME_DEFERRED) {
        note_reason(o, v);
    }
    return count;
}

bool outcome_is_recipient_limit(const struct outcome_verdict *v)
{
    return v->stage == OUTCOME_STAGE_RCPT && (v->code == 451 || v->code == 452 || v->code == 552) &&
           strcmp(v->status.text + 1, ".5.3") == 0;
}

void outcome_finish(struct outcome *o)
{
    struct outcome_verdict none = {
        .class = OUTCOME_SOFT,
        .scope = OUTCOME_SCOPE_MESSAGE,
        .stage = OUTCOME_STAGE_CONNECT,
        .status = outcome_status_of("4.3.0"),
        .text = SLICE("server unavailable or unable to receive mail"),
    };
    struct outcome_verdict v = o->has_last ? o->last : none;
    outcome_session_begin(o, true);   /* nobody is kept any more */
    (void)outcome_decide_rest(o, &v); /* decides all: the server is final */
}

void outcome_set_neutral(struct outcome *o)
{
    o->is_neutral = true;
}

enum outcome_feedback outcome_feedback(const struct outcome *o, struct outcome_reason *ret)
{
    if (o->is_neutral) {
        return OUTCOME_NEUTRAL;
    }
    if (!o->has_reason) {
        return OUTCOME_POSITIVE;
    }
    *ret = o->reason;
    return OUTCOME_NEGATIVE;
}
