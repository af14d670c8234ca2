/* What `sluice top` shows instead of a table when one row is looked into: why its mail is held
 * back, its last session, all that is known of it, or the help. Pure but for time; one thread. */
#ifndef ENGINE_TOP_DETAIL_H
#define ENGINE_TOP_DETAIL_H

#include "base/attr.h"
#include "engine/cli/api_client.h"
#include "engine/cli/top_model.h"

#include <stdbool.h>

struct top_detail {
    bool is_open;
    char title[300];
    char *path;      /* what to ask for, again and again; NULL: nothing */
    char *text;      /* lines; NULL: no answer yet */
    size_t first;    /* the first line in sight, as they are wrapped */
    unsigned serial; /* of what is shown: an answer to a question of another one is late */
    bool is_trace;
};

void top_detail_init(struct top_detail *d);
void top_detail_fini(struct top_detail *d);
void top_detail_close(struct top_detail *d);
/* Look into the selected row, or at the last session with its destination.
 *
 * returns  NULL, or why that cannot be: a sentence */
MUST_USE const char *top_detail_why(struct top_detail *d, const struct top_model *m);
MUST_USE const char *top_detail_trace(struct top_detail *d, const struct top_model *m);
void top_detail_help(struct top_detail *d);
/* The answer to `path`; code of api_client_call. */
void top_detail_answer(struct top_detail *d, struct api_answer *a, int code);

#endif
