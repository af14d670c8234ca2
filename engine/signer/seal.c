/* Owns the way from a stored message to its signature fields. Called by signer.c.
 *
 * The spool's pages and the content in memory are looked at first: the header is copied, and the body
 * hashed where its hash is not known (after a crash, or of a small message that waited in the tables).
 * Only then the pass is given up and keys sign, which takes most of a millisecond each; they need
 * nothing but the copy and the settings, to which there is a reference. */
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
}

void seal_fini(struct seal *s)
{
    buf_fini(&s->front);
    buf_fini(&s->header);
    buf_fini(&s->out);
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

/* Each key signs the header with the fields that are written for it. errors: of dkim_sign */
static int sign_by_all(struct seal *s, const struct key_choice *choice, const struct signing *g,
                       usec_t now)
{
    size_t written = s->front.len;
    int err = written == 0 ? 0 : put_front(s);
    buf_clear(&s->out);
    for (size_t i = 0; i < choice->count && err == 0; i++) {
        const struct ring_key *k = choice->keys[i];
        struct dkim_terms terms = k->terms;
        terms.signed_at = (uint64_t)(now / USEC_PER_SEC);
        terms.expires_at =
            k->section->expire == 0 ? 0 : (uint64_t)((now + k->section->expire) / USEC_PER_SEC);
        err = dkim_sign(k->key, &terms, &s->fields, g->hashes[terms.body], &s->out);
    }
    if (err == 0) {
        buf_append_slice(&s->out, slice_to(buf_slice(&s->front), written));
        err = s->out.failed ? ERR_LIMIT : 0;
    }
    return err;
}

/* Keys sign while the thread is in no pass. errors: -ENOMEM */
static int make_fields(struct seal *s, const struct key_choice *choice, struct signing *g,
                       usec_t now, enum seal_result *ret)
{
    rcu_sleep();
    int err = sign_by_all(s, choice, g, now);
    rcu_awake();
    if (err == ERR_LIMIT || err == ERR_MISSING) {
        *ret = SEAL_SHAPE;
        return 0;
    }
    char *fields = err == 0 ? slice_dup(buf_slice(&s->out)) : NULL;
    if (fields == NULL) {
        return -ENOMEM;
    }
    g->fields = fields;
    g->fields_len = s->out.len;
    g->mark = key_choice_mark(choice);
    g->signed_at = now;
    g->expires = expiry_of(choice, now);
    g->is_stored = false;
    *ret = SEAL_SIGNED;
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

/* All that needs the content. ret says whether there is something to sign, or why not.
 *
 * errors: -ENOMEM; of the spool; ERR_LIMIT: the header is too large */
static int prepare(struct seal *s, const struct seal_job *job, struct key_choice *choice,
                   enum seal_result *ret)
{
    struct from_domains from;
    struct message *m = job->message;
    int err = recall_signing(s, m);
    err = err != 0 ? err : copy_header(s, m);
    err = err != 0 ? err : dkim_header_parse(buf_slice(&s->header), &s->fields);
    if (err != 0) {
        return err;
    }
    struct signing *g = m->signing;
    choose(job->settings, m, &s->fields, choice, &from, ret);
    if (*ret == SEAL_SIGNED && s->fields.has_stray) {
        /* RFC 6376 section 3.8: only what is a valid message is to be signed. Verifiers read a line that
         * is no field in different ways, and one at the top that begins with white space would go on
         * the field in front of it. */
        *ret = SEAL_SHAPE;
    }
    if (*ret == SEAL_SIGNED && is_good_still(g, key_choice_mark(choice), job->now)) {
        *ret = SEAL_KEPT;
    }
    unsigned missing = forms_of_choice(choice) & ~(unsigned)g->forms;
    if (*ret == SEAL_SIGNED) {
        const struct seal_fields_of of = {job->settings->config, m, &s->fields, s->book,
                                          job->transport};
        seal_field_put_all(&of, &s->front);
        err = missing == 0 ? 0 : hash_body(s, m, missing, g);
    }
    return err;
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

/* As seal_message; s->fields may be left behind. */
static int seal_one(struct seal *s, const struct seal_job *job, enum seal_result *ret,
                    uint32_t *ret_count)
{
    struct key_choice choice = {.count = 0};
    struct message *m = job->message;
    *ret_count = 0;
    if (!message_body(m, &s->body)) {
        s->body = SLICE("");
        if (spool_reader_begin(s->reader) != 0) {
            return ERR_AGAIN;
        }
    }
    int err = prepare(s, job, &choice, ret);
    if (s->body.len == 0 && spool_reader_is_active(s->reader)) {
        spool_reader_end(s->reader);
    }
    if (err == -ENOMEM || err == ERR_AGAIN) {
        return err;
    }
    if (err != 0) {
        *ret = err == ERR_LIMIT ? SEAL_SHAPE : SEAL_UNREADABLE;
    }
    if (*ret != SEAL_KEPT && m->signing != NULL) {
        forget_fields(m->signing);
    }
    if (*ret == SEAL_SIGNED) {
        err = make_fields(s, &choice, m->signing, job->now, ret);
        if (err != 0) {
            return err;
        }
        *ret_count = *ret == SEAL_SIGNED ? (uint32_t)choice.count : 0;
    }
    if (m->signing != NULL) {
        tell_seal(m->signing, *ret, &choice);
        m->signing->result = (uint8_t)*ret;
        m->signing->is_done = true;
    }
    return 0;
}

int seal_message(struct seal *s, const struct seal_job *job, enum seal_result *ret,
                 uint32_t *ret_count)
{
    int err = seal_one(s, job, ret, ret_count);
    dkim_header_fini(&s->fields);
    return err;
}
