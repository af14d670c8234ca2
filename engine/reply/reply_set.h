/* All rules in force, compiled: a reply and what is known around it in, a verdict out.
 *
 * A set is immutable once loaded and may be read by any thread at once, but for its counters of
 * failures, which are atomic. What a comparison writes to is in the matcher, one for each thread.
 * The first rule that matches wins: those of the operator's files in their order, then the shipped
 * ones; what no rule is about is judged by reply_default. */
#ifndef ENGINE_REPLY_SET_H
#define ENGINE_REPLY_SET_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/reply/reply.h"
#include "engine/reply/reply_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reply_matcher;
struct reply_set;

#define REPLY_NO_RULE UINT16_MAX

struct reply_verdict {
    enum reply_class class;
    enum reply_scope scope;
    uint16_t rule;   /* its number in the set; REPLY_NO_RULE: the default table decided */
    const char *why; /* then: by what of the reply, static; else NULL */
};

/* Read and compile the operator's files and the shipped one.
 *
 * files        paths; a file that cannot be read is a mistake
 * has_shipped  the rules that the program brings stand behind them
 * sink         hears every mistake
 * errors       ERR_SYNTAX: there were mistakes, and *ret is unchanged; -ENOMEM */
MUST_USE int reply_set_load(const struct config_texts *files, bool has_shipped,
                            const struct config_sink *sink, struct reply_set **ret);
/* The same of one text; `name` stands for FILE. */
MUST_USE int reply_set_load_text(struct slice text, const char *name,
                                 const struct config_sink *sink, struct reply_set **ret);
void reply_set_free(struct reply_set *s); /* accepts NULL */

size_t reply_set_count(const struct reply_set *s);
/* number: below the count; lives as long as the set */
const struct reply_rule *reply_set_rule(const struct reply_set *s, size_t number);
/* How often a rule was passed over as its expression needed too many steps. Any thread. */
uint64_t reply_set_failures(const struct reply_set *s, size_t number);

/* What one thread needs to classify. errors: NULL when out of memory */
MUST_USE struct reply_matcher *reply_matcher_new(void);
void reply_matcher_free(struct reply_matcher *m); /* accepts NULL */

/* What the reply means; a code below 400 other than 0 means REPLY_CLASS_NONE. m: this thread's */
void reply_set_classify(const struct reply_set *s, struct reply_matcher *m,
                        const struct reply *reply, struct reply_verdict *ret);

/* The text that rules see: without the enhanced status, wherever it stands in the reply, without the
 * code in front of further lines, and with one space for several; at most REPLY_TEXT_MAX bytes. Valid until the matcher's next use. */
struct slice reply_matcher_text(struct reply_matcher *m, const struct reply *reply);

#endif
