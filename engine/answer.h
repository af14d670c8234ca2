/* What goes back over the control socket: JSON objects, one a line, and the end object or the error
 * (control_client.h). Used by the reports, on the control thread, which is online for RCU. */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct answer {
    int fd; /* blocking, with a send timeout */
    struct buf out;
    uint64_t count;  /* objects so far */
    bool has_failed; /* the client went away or does not read, or memory ran out: no end line */
};

void answer_init(struct answer *a, int fd);
void answer_fini(struct answer *a);
/* Append an object, which is taken. NULL: out of memory. */
void answer_put(struct answer *a, json_t *object);
/* Send what there is. A client may read as slowly as it likes: no spool reader is open here,
 * nothing found under RCU is kept over the call, and the thread is offline. */
void answer_flush(struct answer *a);
/* So much has come together that it is worth a flush. */
bool answer_is_long(const struct answer *a);
/* The last line: everything was said, or an error instead. Both flush. */
void answer_end(struct answer *a, bool has_more);
void answer_error(struct answer *a, const char *code, const char *text);

/* A string that may hold anything: what is no UTF-8 is shown as '?'. NULL: out of memory. */
json_t *answer_text(struct slice s);
/* A member of an object; out of memory leaves it out. */
void answer_set_text(json_t *o, const char *key, struct slice s);
void answer_set_number(json_t *o, const char *key, uint64_t n);
void answer_set_time(json_t *o, const char *key, usec_t t);

#endif
