/* Takes the header fields that control us (tenant_header, campaign_header, class_header) out of a
 * message while
 * it comes in, so that receivers do not see whose mail it is. In place, over a buffer that grows
 * and is cut anywhere; what is not such a field stays byte for byte. Pure.
 *
 * The header ends with the first empty line, as for label_find: what is read as a label is removed,
 * with all its repetitions and folded lines. */
#ifndef ENGINE_HEADER_FILTER_H
#define ENGINE_HEADER_FILTER_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;

#define HEADER_FILTER_NAMES_MAX 3

enum header_filter_state {
    HEADER_FILTER_LINE_START,
    HEADER_FILTER_KEPT,    /* within a line that stays */
    HEADER_FILTER_REMOVED, /* within a line that is taken out */
    HEADER_FILTER_DONE,    /* behind the header */
};

struct header_filter {
    struct slice names[HEADER_FILTER_NAMES_MAX];
    size_t name_count;
    enum header_filter_state state;
    bool is_removing; /* the last field went: its folded lines go with it */
    size_t at;        /* bytes at the start of the buffer that stay */
};

/* For a message whose content begins at `at` of the buffer. The names must outlive it; NULL and
 * names of fields that receivers need (header_filter_spares) are left out. */
void header_filter_init(struct header_filter *f, const char *const *names, size_t count, size_t at);
/* Look at what was appended to the buffer since the last call, and take out what must go.
 *
 * returns  bytes that stay, at the start of the buffer; a few behind them may be the beginning of a
 *          field that goes: they must remain in front of what is appended next. At the end of the
 *          message, which is the end of a line, all stays */
size_t header_filter_run(struct header_filter *f, struct buf *b);
/* The bytes that stay were taken out of the buffer. */
void header_filter_cut(struct header_filter *f);

/* Fields that make mail what it is (From, Subject, List-Id, Feedback-ID, DKIM-Signature, ..): they
 * may name a tenant or campaign, and are never removed. */
MUST_USE bool header_filter_spares(struct slice name);

#endif
