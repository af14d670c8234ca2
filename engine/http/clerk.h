/* A clerk: a thread that runs the handlers of the operators' interface which read the spool or walk
 * through what schedulers publish, so that the http thread never waits. There are two: one for
 * routes that answer soon, one for those that walk far (api.h, api_place).
 *
 * Concurrency: a call travels to a clerk by LETTER_CALL and back to the http thread by
 * LETTER_ANSWER, and belongs to who has it. A clerk is online for RCU while a handler runs; a long
 * walk calls clerk_quiesce between pages. The reader sees one moment of the spool from clerk_begin
 * to clerk_end, and keeps pages alive so long: end it between pages as well. */
#ifndef ENGINE_CLERK_H
#define ENGINE_CLERK_H

#include "base/attr.h"
#include "base/post.h"
#include "engine/config/label.h"
#include "engine/http/api.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct census_memo;
struct engine;
struct spool_reader;

struct clerk {
    /* set at creation */
    struct engine *engine;
    struct spool_reader *reader; /* NULL on the http thread */
    struct post post;
    const char *name;
    /* Before the thread starts; NULL: nothing. What it does on its thread beside calls, online for
     * RCU; returns when it wants to be asked again, monotonic. */
    usec_t (*between_calls)(struct clerk *k);

    /* clerk thread only */
    struct outbox *to_http, *to_other, *to_activator; /* of the post */
    struct outbox *to_scheds;                         /* [engine->sched_count] */
    struct api_call *call;                            /* being served; NULL between calls */
    bool has_passed_on; /* the call it was serving is the other clerk's now */
    uint64_t *active;   /* ids that schedulers hold, sorted; for one call */
    size_t active_count;
    struct census_memo *census;                 /* the last counts; NULL: none yet */
    void (*free_census)(struct census_memo *m); /* set with the first of them */
};

/* errors: -ENOMEM, -errno of the spool reader */
MUST_USE int clerk_new(struct engine *engine, const char *name, struct clerk **ret);
/* The http thread exists already. */
MUST_USE int clerk_start(struct clerk *k);
/* Ends the thread behind the calls that it has; calls sent from now on stay in its mailbox. */
void clerk_stop(struct clerk *k);
void clerk_free(struct clerk *k); /* accepts NULL */
struct mailbox *clerk_box(struct clerk *k);

/* --- for handlers ----------------------------------------------------------------------------- */

/* The tenant that whoever asks is bound to, for walks and searches made for the call that is being
 * served: they find nothing of others. len 0: nobody is. */
struct label clerk_owner(const struct clerk *k);

/* Open a view of the spool. While the writer reopens the spool this waits two seconds at most; then
 * the call is answered with 503, and false returned. */
MUST_USE bool clerk_begin(struct clerk *k, struct api_call *c);
/* Answer with 503 and, to operators, with what keeps the writer from opening the spool again: as long as
 * storage fails nobody can read it. */
void clerk_spool_error(const struct clerk *k, struct api_call *c);
void clerk_end(struct clerk *k);
/* Between pages of a long walk, without an open view: nothing found under RCU is kept over it. */
void clerk_quiesce(struct clerk *k);
/* Which messages schedulers hold, asked anew. */
void clerk_read_active(struct clerk *k);
MUST_USE bool clerk_is_active(const struct clerk *k, uint64_t id);
/* After each call, and after what between_calls asked for. */
void clerk_forget_active(struct clerk *k);
/* The daemon stops: a walk ends where it is. */
MUST_USE bool clerk_must_end(const struct clerk *k);
/* Somebody waits for this clerk. */
MUST_USE bool clerk_has_calls(const struct clerk *k);
/* Hand the call to the other clerk, which goes on with `next`; the handler must not use it again.
 * For calls that walk through the spool and also change orders, as only the slow clerk walks and
 * only the fast one changes orders.
 *
 * kept     what clerk_kept gives to `next`; takes the reference; may be NULL */
void clerk_pass_on(struct clerk *k, struct api_call *c, api_handler *next, json_t *kept);
/* Owned by the call. */
json_t *clerk_kept(const struct api_call *c);

#endif
