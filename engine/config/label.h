/* Names of tenants and campaigns: whose mail a message is. Chosen by strangers, shown to people,
 * written to logs and matched by orders, hence short and plain. Pure. */
#ifndef ENGINE_LABEL_H
#define ENGINE_LABEL_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>

#define LABEL_MAX       64 /* bytes */
#define LABEL_FIELD_MAX 76 /* bytes of the name of a header field that holds a label */
/* A header field may have so many bytes of white space between its name and the colon; with more of
 * them the line is no header field. */
#define LABEL_WHITE_MAX 200

struct label {
    size_t len; /* 0: none */
    char text[LABEL_MAX];
};

static inline struct slice label_slice(const struct label *label)
{
    return (struct slice){label->text, label->len};
}

/* 1 to LABEL_MAX bytes of printable ASCII without space. */
MUST_USE bool label_is_valid(struct slice text);
/* Set from a valid text; any other leaves none. */
void label_set(struct label *label, struct slice text);

/* The value of the first header field of this name, unfolded, without white space around it.
 *
 * content  the start of a message: lines with CRLF. A field that is cut off at its end is not seen.
 * returns  false: there is such a field and its value is no label (then there is none, too) */
MUST_USE bool label_find(struct slice content, struct slice name, struct label *ret);

/* Whether it can be the name of a header field. */
MUST_USE bool label_is_field_name(struct slice name);

/* Whether a local part says that mail to it unsubscribes: "unsubscribe", "unsub", "optout", "opt-out" or
 * "leave", alone or in front of a plus, minus or equals sign, in either case. */
MUST_USE bool label_is_unsubscribe(struct slice local);

/* Whether the first field of that name in the header says this word, in either case. */
MUST_USE bool label_says(struct slice content, struct slice name, struct slice word);

#endif
