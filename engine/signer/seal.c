/* Owns the way from stored messages to their signature fields. Called by signer.c.
 *
 * The spool's pages and the content in memory are looked at first: the header is copied, and the body
 * hashed where its hash is not known (after a crash, or of a small message that waited in the tables).
 * Only then the pass is given up and keys sign, which takes most of a millisecond each; they need
 * nothing but the drafts and the settings, to which there is a reference. */
#include "engine/signer/seal.h"

#include "base/error.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/key/body_tap.h"
#include "engine/key/from_domain.h"
#include "engine/key/key_choice.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "engine/signer/seal_field.h"
#include "engine/state/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void seal_init(struct seal *s, struct spool_reader *reader, const struct return_book *book)
{
    s->reader = reader;
    s->book = book;
    s->fields = (struct dkim_header){0};
    buf_init(&s->front, 0);
    buf_init(&s->header, SEAL_HEADER_MAX);
    buf_init(&s->out, SPOOL_SIGNING_FIELDS_MAX);
    for (size_t i = 0; i < SEAL_JOBS_MAX; i++) {
        buf_init(&s->drafts[i].text, SPOOL_SIGNING_FIELDS_MAX);
    }
}

void seal_fini(struct seal *s)
{
    buf_fini(&s->front);
    buf_fini(&s->header);
    buf_fini(&s->out);
    for (size_t i = 0; i < SEAL_JOBS_MAX; i++) {
        buf_fini(&s->drafts[i].text);
    }
}

/* --- content ---------------------------------------------------------------------------------- */

/* The content of a message, piece by piece. */
struct pieces {
    const struct seal *seal;
    uint64_t id; /* of the message */
    uint32_t next, count;
};

static struct pieces pieces_of(const struct seal *s, const struct message *m)
{
    const uint32_t chunks = m->envelope.chunk_count;
    return (struct pieces){s, m->envelope.id, 0, chunks == 0 || s->body.len > 0 ? 1 : chunks};
}

/* The next piece; valid until the next call. ret: empty at the end. errors: of the spool */
static int next_piece(struct pieces *p, struct slice *ret)
{
    struct spool_reader *reader = p->seal->reader;
    *ret = p->seal->body;
    if (p->next == p->count || p->seal->body.len > 0) {
        *ret = p->next == p->count ? SLICE("") : *ret;
        p->next = p->count;
        return 0;
    }
    if (p->next > 0 && p->next % 16 == 0) {
        spool_reader_end(reader); /* a large body must not pin what is freed meanwhile */
        int err = spool_reader_begin(reader);
        if (err != 0) {
            return err;
        }
    }
    return spool_read_chunk(reader, p->id, p->next++, ret);
}

/* Copies the header with the empty line behind it, if it has one.
 *
 * errors  ERR_LIMIT: it is too large; -ENOMEM; of the spool */
static int copy_header(struct seal *s, const struct message *m)
{
    struct pieces pieces = pieces_of(s, m);
    struct slice piece;
    buf_clear(&s->header);
    int err = next_piece(&pieces, &piece);
    while (err == 0 && piece.len > 0) {
        /* The empty line may lie across pieces: what was copied is looked at again from there. */
        size_t len = s->header.len, from = len < 3 ? 0 : len - 3;
        size_t room = SEAL_HEADER_MAX - len;
        size_t part = len == 0 ? body_tap_find(piece) : piece.len; /* a small body is not copied */
        buf_append_slice(&s->header, slice_to(piece, part < room ? part : room));
        if (s->header.failed) {
            return -ENOMEM;
        }
        bool is_found = len == 0 && part < piece.len && part <= room;
        size_t end = is_found ? part : 0;
        struct slice seen = slice_from(buf_slice(&s->header), from);
        if (from == 0 && seen.len >= 2 && memcmp(seen.data, "\r\n", 2) == 0) {
            end = 2;
        } else if (end == 0) {
            const char *found = memmem(seen.data, seen.len, "\r\n\r\n", 4);
            end = found == NULL ? 0 : (size_t)(found - seen.data) + 4;
        }
        if (end > 0) { /* at the end of a piece as well: what follows is the body */
            s->header.len = from + end;
            return 0;
        }
        if (part > room) {
            return ERR_LIMIT;
        }
        err = next_piece(&pieces, &piece);
    }
    return err;
}

/* The hashes of the body in these forms, from the content. errors: -ENOMEM; of the spool */
static int hash_body(const struct seal *s, const struct message *m, unsigned forms,
                     struct signing *to)
{
    struct pieces pieces = pieces_of(s, m);
    struct body_tap *tap = body_tap_new();
    struct slice piece;
    int err = tap == NULL ? -ENOMEM : next_piece(&pieces, &piece);
    if (err == 0) {
        body_tap_want(tap, forms);
    }
    while (err == 0 && piece.len > 0) {
        body_tap_feed(tap, NULL, piece);
        err = next_piece(&pieces, &piece);
    }
    if (err == 0) {
        uint8_t hashes[SPOOL_SIGNING_FORMS][SPOOL_SIGNING_HASH_BYTES];
        unsigned made = body_tap_finish(tap, hashes);
        for (unsigned form = 0; form < SPOOL_SIGNING_FORMS; form++) {
            if ((made >> form & 1) != 0) {
                memcpy(to->hashes[form], hashes[form], sizeof(hashes[form]));
                to->forms |= (uint8_t)(1U << form);
            }
        }
        err = (to->forms & forms) == forms ? 0 : -ENOMEM;
    }
    body_tap_free(tap);
    return err;
}

/* --- what is known ---------------------------------------------------------------------------- */

/* What the spool has kept of an earlier attempt, or from the reception of a large message. A message
 * whose content is in memory has nothing there.
 *
 * errors: -ENOMEM, ERR_AGAIN */
static int recall_signing(const struct seal *s, struct message *m)
{
    struct spool_signing record;
    if (m->signing != NULL) {
        return 0;
    }
    struct signing *signing = signing_new();
    if (signing == NULL) {
        return -ENOMEM;
    }
    int err =
        s->body.len > 0 ? ERR_MISSING : spool_read_signing(s->reader, m->envelope.id, &record);
    if (err == 0) {
        err = signing_restore(signing, &record);
    }
    if (err == -ENOMEM || err == ERR_AGAIN) {
        signing_free(signing);
        return err;
    }
    m->signing = signing; /* what is missing or damaged is made again */
    return 0;
}

static void forget_fields(struct signing *g)
{
    free(g->fields);
    g->fields = NULL;
    g->is_stored = g->is_stored && g->mark == 0;
    g->fields_len = 0;
    g->mark = 0;
}

/* When the first of the signatures of these keys expires; 0: never. */
static usec_t expiry_of(const struct key_choice *choice, usec_t now)
{
    usec_t first = 0;
    for (size_t i = 0; i < choice->count; i++) {
        usec_t span = choice->keys[i]->section->expire;
        if (span > 0 && (first == 0 || now + span < first)) {
            first = now + span;
        }
    }
    return first;
}

/* Whether the fields may be sent again: made by these keys, not in the future, and a quarter of their
 * time is left. */
static bool is_good_still(const struct signing *g, uint64_t mark, usec_t now)
{
    usec_t span = g->expires - g->signed_at;
    return g->fields != NULL && g->mark == mark &&
           (g->expires == 0 || (now >= g->signed_at && g->expires - now > span / 4));
}

/* --- signatures ------------------------------------------------------------------------------- */

/* Puts the fields that are written for it into the header, in front of it. errors: of dkim_header_parse */
static int put_front(struct seal *s)
{
    dkim_header_fini(&s->fields);
    buf_append_slice(&s->front, buf_slice(&s->header));
    return s->front.failed ? -ENOMEM : dkim_header_parse(buf_slice(&s->front), &s->fields);
}

/* What the keys are to sign: the header with the fields that are written for it. errors: of dkim_draft */
static int draft_all(struct seal *s, const struct signing *g, usec_t now, struct seal_draft *to)
{
    size_t written = s->front.len;
    int err = written == 0 ? 0 : put_front(s);
    for (size_t i = 0; i < to->choice.count && err == 0; i++) {
        const struct ring_key *k = to->choice.keys[i];
        struct dkim_terms terms = k->terms;
        terms.signed_at = (uint64_t)(now / USEC_PER_SEC);
        terms.expires_at =
            k->section->expire == 0 ? 0 : (uint64_t)((now + k->section->expire) / USEC_PER_SEC);
        err = dkim_draft(k->key, &terms, &s->fields, g->hashes[terms.body], &to->text,
                         to->keys[i].hash);
        to->keys[i].end = to->text.len;
    }
    if (err == 0) {
        buf_append_slice(&to->text, slice_to(buf_slice(&s->front), written));
        err = to->text.failed ? ERR_LIMIT : 0;
    }
    return err;
}

/* Each key signs its draft. errors: of dkim_key_sign */
static int sign_by_all(struct seal_draft *d)
{
    int err = 0;
    for (size_t i = 0; i < d->choice.count && err == 0; i++) {
        err = dkim_key_sign(d->choice.keys[i]->key, d->keys[i].hash, d->keys[i].signature,
                            &d->keys[i].signature_len);
    }
    return err;
}

/* errors: -ENOMEM */
static int make_fields(struct seal *s, const struct seal_draft *d, struct signing *g, usec_t now,
                       enum seal_result *ret)
{
    struct slice text = buf_slice(&d->text);
    size_t begin = 0;
    buf_clear(&s->out);
    for (size_t i = 0; i < d->choice.count; i++) {
        buf_append(&s->out, text.data + begin, d->keys[i].end - begin);
        dkim_put_signature(slice_make((const char *)d->keys[i].signature, d->keys[i].signature_len),
                           &s->out);
        begin = d->keys[i].end;
    }
    buf_append_slice(&s->out, slice_from(text, begin));
    if (s->out.failed) {
        *ret = SEAL_SHAPE;
        return 0;
    }
    char *fields = slice_dup(buf_slice(&s->out));
    if (fields == NULL) {
        return -ENOMEM;
    }
    g->fields = fields;
    g->fields_len = s->out.len;
    g->mark = key_choice_mark(&d->choice);
    g->signed_at = now;
    g->expires = expiry_of(&d->choice, now);
    g->is_stored = false;
    return 0;
}

/* --- one message ------------------------------------------------------------------------------ */

/* Whose mail it is by its header, and so which keys sign it. choice->count 0: none */
static void choose(const struct settings *settings, const struct message *m,
                   const struct dkim_header *header, struct key_choice *choice,
                   struct from_domains *from, enum seal_result *ret)
{
    static const enum seal_result results[KEY_VERDICT_COUNT] = {[KEY_CHOSEN] = SEAL_SIGNED,
                                                                [KEY_NONE] = SEAL_NO_KEY,
                                                                [KEY_FOREIGN] = SEAL_FOREIGN,
                                                                [KEY_UNKNOWN] = SEAL_UNKNOWN};
    const char *wanted = m->signing->wanted;
    choice->count = 0;
    if (from_domains_read(header, from) != 0) {
        *ret = SEAL_FROM;
        return;
    }
    const struct key_question question = {
        .from = from->names,
        .from_count = from->count,
        .tenant = m->envelope.tenant,
        .wanted = slice_of(wanted == NULL ? "" : wanted),
    };
    key_choose(settings->keys, &question, choice);
    *ret = results[choice->verdict];
}

static unsigned forms_of_choice(const struct key_choice *choice)
{
    unsigned forms = 0;
    for (size_t i = 0; i < choice->count; i++) {
        forms |= 1U << choice->keys[i]->terms.body;
    }
    return forms;
}

/* All that needs the content. job->result says whether there is something to sign, or why not.
 *
 * errors: -ENOMEM; of the spool; ERR_LIMIT: the header is too large */
static int read_message(struct seal *s, const struct settings *settings, usec_t now,
                        struct seal_job *job, struct seal_draft *to)
{
    struct from_domains from;
    struct message *m = job->message;
    enum seal_result *ret = &job->result;
    int err = recall_signing(s, m);
    err = err != 0 ? err : copy_header(s, m);
    err = err != 0 ? err : dkim_header_parse(buf_slice(&s->header), &s->fields);
    if (err != 0) {
        return err;
    }
    struct signing *g = m->signing;
    choose(settings, m, &s->fields, &to->choice, &from, ret);
    if (*ret == SEAL_SIGNED && s->fields.has_stray) {
        /* RFC 6376 section 3.8: only what is a valid message is to be signed. Verifiers read a line that
         * is no field in different ways, and one at the top that begins with white space would go on
         * the field in front of it. */
        *ret = SEAL_SHAPE;
    }
    if (*ret == SEAL_SIGNED && is_good_still(g, key_choice_mark(&to->choice), now)) {
        *ret = SEAL_KEPT;
    }
    if (*ret != SEAL_SIGNED) {
        return 0;
    }
    unsigned missing = forms_of_choice(&to->choice) & ~(unsigned)g->forms;
    const struct seal_fields_of of = {settings->config, m, &s->fields, s->book, job->transport};
    seal_field_put_all(&of, &s->front);
    return missing == 0 ? 0 : hash_body(s, m, missing, g);
}

static void tell_seal(struct signing *g, enum seal_result result, const struct key_choice *choice)
{
    struct slice names[KEY_CHOICE_MAX];
    size_t count = result == SEAL_SIGNED || result == SEAL_KEPT ? choice->count : 0;
    for (size_t i = 0; i < count; i++) {
        names[i] = slice_of(choice->keys[i]->section->name);
    }
    signing_tell(g, slice_of(seal_result_text(result)), names, count);
}

/* From the content to what keys sign. job->err: ERR_AGAIN, -ENOMEM */
static void draft_one(struct seal *s, const struct settings *settings, usec_t now,
                      struct seal_job *job, struct seal_draft *to)
{
    to->choice.count = 0;
    buf_clear(&to->text);
    job->signatures = 0;
    job->err = 0;
    if (!message_body(job->message, &s->body)) {
        s->body = SLICE("");
        if (spool_reader_begin(s->reader) != 0) {
            job->err = ERR_AGAIN;
            return;
        }
    }
    int err = read_message(s, settings, now, job, to);
    if (s->body.len == 0 && spool_reader_is_active(s->reader)) {
        spool_reader_end(s->reader);
    }
    if (err == -ENOMEM || err == ERR_AGAIN) {
        job->err = err;
    } else if (err != 0) {
        job->result = err == ERR_LIMIT ? SEAL_SHAPE : SEAL_UNREADABLE;
    } else if (job->result == SEAL_SIGNED) {
        err = draft_all(s, job->message->signing, now, to);
        job->result = err == ERR_LIMIT || err == ERR_MISSING ? SEAL_SHAPE : SEAL_SIGNED;
        job->err = job->result == SEAL_SIGNED && err != 0 ? -ENOMEM : 0;
    }
    dkim_header_fini(&s->fields);
}

/* What it goes out with, from what keys made. job->err: -ENOMEM */
static void finish_one(struct seal *s, usec_t now, struct seal_job *job, const struct seal_draft *d)
{
    struct signing *g = job->message->signing;
    if (job->result != SEAL_KEPT && g != NULL) {
        forget_fields(g);
    }
    if (job->result == SEAL_SIGNED) {
        job->err = make_fields(s, d, g, now, &job->result);
        if (job->err != 0) {
            return;
        }
        job->signatures = job->result == SEAL_SIGNED ? (uint32_t)d->choice.count : 0;
    }
    if (g != NULL) {
        tell_seal(g, job->result, &d->choice);
        g->result = (uint8_t)job->result;
        g->is_done = true;
    }
}

/* What the next one is made of was written by other threads: it comes into this processor's cache while
 * the one before is read. */
static void fetch_ahead(const struct message *m)
{
    enum { LINES = 16 }; /* most headers are shorter */
    struct slice body;
    __builtin_prefetch(m->signing);
    if (message_body(m, &body)) {
        for (size_t at = 0; at < LINES * (size_t)CACHE_LINE && at < body.len; at += CACHE_LINE) {
            __builtin_prefetch(body.data + at);
        }
    }
}

size_t seal_messages(struct seal *s, const struct settings *settings, struct seal_job *jobs,
                     size_t count, usec_t now)
{
    const usec_t end = clock_mono() + SEAL_TIME;
    size_t drafted = 0, done = 0;
    assert(count > 0 && count <= SEAL_JOBS_MAX);
    while (drafted < count && (drafted == 0 || clock_mono() < end)) {
        if (drafted + 1 < count) {
            fetch_ahead(jobs[drafted + 1].message);
            jobs[drafted + 1].err = 0; /* if it is left out */
        }
        draft_one(s, settings, now, &jobs[drafted], &s->drafts[drafted]);
        if (jobs[drafted].err == ERR_AGAIN) {
            break;
        }
        drafted++;
    }
    rcu_sleep();
    while (done < drafted && (done == 0 || clock_mono() < end)) {
        if (jobs[done].err == 0 && jobs[done].result == SEAL_SIGNED) {
            jobs[done].err = sign_by_all(&s->drafts[done]);
        }
        done++;
    }
    rcu_awake();
    for (size_t i = 0; i < done; i++) {
        if (jobs[i].err == 0) {
            finish_one(s, now, &jobs[i], &s->drafts[i]);
        }
    }
    return done;
}
