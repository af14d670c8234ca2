/* What the files of the module heard share. */
#ifndef ENGINE_HEARD_PRIVATE_H
#define ENGINE_HEARD_PRIVATE_H

#include "base/buf.h"
#include "engine/heard/heard.h"

/* What is gathered of the MIME tree before its kind is decided. */
struct heard_parts {
    struct heard *report;
    struct buf prose; /* text parts that are not of the returned message */
    struct buf plain; /* the same, of text/html, without its tags */
    bool has_status;  /* a delivery status */
    bool has_feedback;
    bool has_disposition;   /* a disposition notification: somebody's program read or deleted it */
    bool has_returned;      /* a message, or the header of one */
    bool is_jmrp;           /* a field of Microsoft's junk mail reporting names a recipient */
    bool has_failed_field;  /* X-Failed-Recipients */
    bool is_auto_submitted; /* some field says that no person wrote it */
    bool is_auto_replied;   /* some field says that a program answers for its person */
    bool is_from_daemon;
    bool has_list_field; /* of a mailing list or newsletter */
};

/* Texts (heard_text.c). `size` is that of the array with its NUL: what is longer is cut, bytes that
 * are no text are left out, and white space between words becomes one blank. */
void heard_set(char *text, size_t size, struct slice from);
/* Append a message without the colons that GMime would go too deep for: it calls itself for each group in
 * a list of addresses, "a:b:c:", and there is no end to a field. */
void heard_flatten(struct slice text, struct buf *out);
/* The first address in *in, which is moved behind it; false: there is none. */
MUST_USE bool heard_find_address(struct slice *in, struct slice *ret);
/* Note an address among those that the report names; one that is there is not noted twice. */
void heard_note_address(struct heard *r, struct slice address);
/* Note every address, or every text of the shape of a token, in a text. */
void heard_note_addresses(struct heard *r, struct slice text);
void heard_note_tokens(struct heard *r, struct slice text, bool is_returned);
/* The recipient of this address, made when there is room; NULL: no room. */
struct heard_recipient *heard_recipient_of(struct heard *r, struct slice address);
/* Where word stands in text, in any case of ASCII; text.len: nowhere. */
size_t heard_find_word(struct slice text, const char *word);
/* Whether it begins with a word, in any case of ASCII. */
bool heard_begins(struct slice text, const char *word);
bool heard_has_any(struct slice text, const char *const *words);
/* The first enhanced status of class 2, 4 or 5 in a text. */
MUST_USE bool heard_find_status(struct slice text, struct slice *ret);
/* Where the first reply code of class 4 or 5 stands; text.len: there is none. */
size_t heard_find_code(struct slice text);

/* MIME (heard_mime.c): fills the report's fields and lists, and what is said above.
 * prose and plain are made by it; heard_parts_fini frees them. */
void heard_parts_read(struct slice message, struct heard *r, struct heard_parts *ret);
void heard_parts_fini(struct heard_parts *parts);
/* The header of a returned message that stands in a text. */
void heard_returned_header(struct heard_parts *parts, struct slice text);

/* Prose (heard_prose.c): a bounce that programs did not mean to be read by programs.
 * returns  the shape that was recognised; NULL: the text is no bounce. Recipients are added. */
const char *heard_prose_read(struct heard_parts *parts, struct slice text);

#endif
