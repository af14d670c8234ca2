/* The http thread: the doors of the operators' interface (api.h) and every connection to them. The
 * control socket is one door: whoever may open it is trusted. A connection there whose first bytes
 * are "SMTP" is a mail session instead, and goes to a worker. Each `http` section is another: there
 * tokens decide, and what a browser says of the page that asks (http_guard.h).
 *
 * It runs one libmicrohttpd daemon a door on its own epoll loop, none of their threads; handlers of
 * inline routes on itself, and sends other calls to the clerks (clerk.h). It never waits for disk,
 * clerk or client. */
#ifndef ENGINE_HTTP_H
#define ENGINE_HTTP_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

struct api_call;
struct api_route;
struct engine;
struct http;
struct intake;
struct mailbox;
struct outbox;
struct settings;
struct suppress_batch;

/* Bind the sockets of the http sections and read their tokens, certificates and keys, as whoever
 * started the daemon.
 *
 * routes   what is served, route_count of them; they outlive the thread
 * errors   -errno, ERR_SYNTAX (a file); logged */
MUST_USE int http_new(struct engine *engine, const struct api_route *routes, size_t route_count,
                      struct http **ret);
/* What a reload changes at the doors: their certificates and limits. All of it is made before any of
 * it is in force. Main.
 *
 * settings  those that come into force
 * ret       NULL: nothing changes
 * ret_text  why it cannot be
 * errors    -ENOMEM, ERR_SYNTAX (a file) */
struct http_change;
#define HTTP_CHANGE_TEXT_MAX 600
MUST_USE int http_change_new(struct http *h, const struct settings *settings,
                             struct http_change **ret, char ret_text[static HTTP_CHANGE_TEXT_MAX]);
void http_change_free(struct http_change *c); /* accepts NULL */
/* It is the http thread's from now on. A connection that is open ends by what it began with, after
 * the answer to its next request. Main, when the settings are published. change: NULL: none */
void http_change_apply(struct http *h, struct http_change *change);

/* Bind the control socket, as the user that the daemon is from now on. errors: -errno, logged */
MUST_USE int http_open_control(struct http *h);
/* Who injects mail on the http thread: hears of LETTER_STAGED and LETTER_STORED. */
struct http_injector {
    void (*take_stored)(void *ctx, struct intake *in);
    void *ctx;
};
/* Who changes lists of suppressed recipients on the http thread: hears of LETTER_SUPPRESSED; drop: the
 * thread has ended. */
struct http_suppressor {
    void (*take)(struct suppress_batch *b);
    void (*drop)(struct suppress_batch *b);
};
void http_set_suppressor(struct http *h, const struct http_suppressor *suppressor);
/* Who asks other nodes of the cluster: takes calls that are for them (api_is_for_nodes), on the http
 * thread and without waiting. It gives each back by LETTER_ANSWER, if not, the http thread answers it when
 * it ends. false: it is answered already. */
struct http_gatherer {
    bool (*take)(void *ctx, struct api_call *c);
    void *ctx;
};
/* Before http_start; without one there is no cluster. */
void http_set_gatherer(struct http *h, const struct http_gatherer *gatherer);
/* Before http_start. */
void http_set_injector(struct http *h, const struct http_injector *injector);
/* Workers and clerks exist. */
MUST_USE int http_start(struct http *h);
/* The clerks have ended. Calls without an answer get 503. */
void http_stop(struct http *h);
void http_free(struct http *h); /* accepts NULL; removes the socket */

/* LETTER_ANSWER and LETTER_INNER (struct api_call), LETTER_STAGED and LETTER_STORED (struct
 * intake). Any thread sends. */
struct mailbox *http_box(struct http *h);
/* What the http thread sends the spool writer, and what it sends it of receptions (LETTER_STAGE,
 * LETTER_STORE); flushed once a pass. Thread: http */
struct outbox *http_to_writer(struct http *h);
struct outbox *http_to_receptions(struct http *h);
/* The routes as given to http_new. Any thread. */
const struct api_route *http_routes(const struct http *h, size_t *ret_count);
/* A call that an inline handler kept (api_keep) is answered now. Thread: http */
void http_answer(struct http *h, struct api_call *c);

#endif
