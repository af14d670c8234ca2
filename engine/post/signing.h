/* What is known of the signatures of one message, from the hash of its body to the fields that it goes
 * out with.
 *
 * Owner: whoever has the message before it is active (who receives it, then the spool writer, then
 * the activator); the signer from the activator's letter until its own letter to a scheduler; from
 * then on it is constant, and any thread that holds the message reads it. Later submissions of the
 * message come by the same signer, which finds it signed and only reads. Freed with the message. */
#ifndef ENGINE_SIGNING_H
#define ENGINE_SIGNING_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/spool/spool_signing.h"

#include <stdbool.h>
#include <stdint.h>

struct signing {
    uint8_t forms; /* bits of enum dkim_canon: of which `hashes` has the body's hash */
    uint8_t hashes[SPOOL_SIGNING_FORMS][SPOOL_SIGNING_HASH_BYTES];
    bool is_done;   /* the signer has looked at it, whatever came of it */
    uint8_t result; /* then: enum seal_result */
    bool is_stored; /* the tables have it as it is */
    uint64_t mark;  /* as in struct spool_signing, as the following ones */
    usec_t signed_at, expires;
    char *wanted; /* heap; NULL: the request names no keys */
    char *fields; /* heap; NULL: it goes out without */
    size_t fields_len;

    /* What is said of its signatures once it is_done; one block of heap. NULL: memory was short */
    char *told;
    uint32_t event_len; /* members of its events, as struct event has them; then */
    uint32_t note_len;  /* the same in words, for traces */
};

/* NULL: out of memory */
struct signing *signing_new(void);
void signing_free(struct signing *s); /* accepts NULL */

/* The fields in front of its content; s may be NULL. */
static inline struct slice signing_fields(const struct signing *s)
{
    return s == NULL || s->fields == NULL ? SLICE("") : slice_make(s->fields, s->fields_len);
}

/* What is said of it in events and in traces; empty when nothing is. s may be NULL. */
static inline struct slice signing_event(const struct signing *s)
{
    return s == NULL || s->told == NULL ? SLICE("") : slice_make(s->told, s->event_len);
}

static inline struct slice signing_note(const struct signing *s)
{
    return s == NULL || s->told == NULL ? SLICE("") : slice_make(s->told + s->event_len, s->note_len);
}

/* Say what became of its signatures. Replaces what was said before.
 *
 * result  a word, such as seal_result_text's
 * keys    names in the DNS, of those that sign it: they need no escapes */
void signing_tell(struct signing *s, struct slice result, const struct slice *keys, size_t count);

/* As the spool keeps it; views of s. */
struct spool_signing signing_record(const struct signing *s);
/* Take over what the spool has. errors: -ENOMEM */
MUST_USE int signing_restore(struct signing *s, const struct spool_signing *record);

#endif
