/* The http thread from inside: http.c (loop), http_door.c (sockets), http_change.c (doors of a
 * reload), http_exchange.c (requests). */
#ifndef ENGINE_HTTP_PRIVATE_H
#define ENGINE_HTTP_PRIVATE_H

#include "base/list.h"
#include "base/post.h"
#include "engine/http/clerk.h"
#include "engine/http/http.h"
#include "net/poller.h"

#include <microhttpd.h>
#include <stdatomic.h>

struct config_http;

enum { HTTP_CLERKS = 2 }; /* fast, slow */

/* Where connections come in. Immutable but for its socket: one with other options, or another
 * certificate, is another door, which takes over the socket. */
struct http_door {
    /* set at creation */
    struct list link; /* in http.doors */
    struct http *http;
    const char *name;  /* of its socket; the start's configuration has it */
    size_t number;     /* of its section in that configuration, as in settings.doors */
    bool is_control;   /* trusted, and may turn to SMTP */
    unsigned capacity; /* connections */
    uint64_t body_max; /* bytes of a request's body */
    usec_t timeout;    /* see config_http */
    struct MHD_Daemon *daemon;
    char *certificate, *key; /* PEM; NULL: no TLS */

    /* http thread only; before it starts, main */
    int fd;                              /* listening; -1: another door has it now */
    bool is_leaving;                     /* it ends with its last connection */
    struct poller_watch listening, busy; /* the socket; the daemon's epoll set */
    bool is_due;                         /* something has happened that the daemon must look at */
};

struct http {
    /* set at creation */
    struct engine *engine;
    struct post post;
    const struct api_route *routes; /* [route_count] */
    size_t route_count;
    struct http_injector injector;
    struct http_suppressor suppressor;
    struct http_gatherer gatherer; /* take NULL: there is no cluster */

    /* main only */
    struct http_door **newest; /* [config->http_door_count]: the last one of each section */

    /* main puts, the http thread takes */
    _Atomic(struct http_change *) change;

    /* http thread only; before it starts, main */
    struct list doors; /* struct http_door */
    bool has_leaving;  /* one of them has to be looked at again */
    struct clerk self; /* what inline handlers read with: the engine and nothing else */
    struct poller poller;
    struct poller_watch box_watch;
    struct outbox *to_workers; /* [engine->worker_count], of the post */
    uint32_t next_worker;
    struct outbox *to_clerks;                 /* [HTTP_CLERKS], of the post */
    struct outbox *to_writer, *to_receptions; /* of the post; the latter: what is injected */
    struct list running;                      /* struct api_call, suspended */
    struct list connections;                  /* struct http_connection */
    uint64_t held_bytes;                      /* of bodies and long answers, all together */
    struct list arrivals;                     /* struct arrival (http_door.c), oldest first */
    uint32_t arrival_count;
    usec_t now;
    usec_t look_at;   /* when deadlines of connections are looked at next */
    usec_t accept_at; /* doors rest until then; USEC_NEVER: they do not */
};

/* --- doors ------------------------------------------------------------------------------------ */

MUST_USE int http_door_open_control(struct http *h, struct http_door **ret);
/* A door without a socket, of a section and the files that it names as they are now.
 *
 * number    of the door in the start's configuration
 * ret_text  what is wrong with which file
 * errors    -ENOMEM; ERR_SYNTAX: a file cannot be read, or the certificate is not one of the key */
#define HTTP_DOOR_TEXT_MAX 600
MUST_USE int http_door_new(struct http *h, const struct config_http *config, size_t number,
                           struct http_door **ret, char ret_text[static HTTP_DOOR_TEXT_MAX]);
/* errors: as http_new, logged */
MUST_USE int http_door_open(struct http *h, const struct config_http *config, size_t number,
                            struct http_door **ret);
/* One that never had a socket. Any thread. Accepts NULL. */
void http_door_discard(struct http_door *d);
/* The socket of the one becomes that of the other, which is watched from now on. Thread: http.
 * errors: -errno, all is as before */
MUST_USE int http_door_take_over(struct http_door *d, struct http_door *from);
/* Watch the socket and the daemon. Thread: http */
MUST_USE int http_door_watch(struct http_door *d);
/* No more connections, and all that there are end; it is freed. */
void http_door_close(struct http_door *d);
/* Take what main has put there. Thread: http */
void http_change_take(struct http *h);
/* Close those that leave and have no connection any more. true: there are others that leave */
bool http_door_end_leaving(struct http *h);
/* Connections that take too long; doors that rested. */
void http_door_expire(struct http *h) ON_ROLE(h->post);
/* When the next of them is due, or USEC_NEVER. */
usec_t http_door_wake_at(const struct http *h);

/* --- exchanges -------------------------------------------------------------------------------- */

/* A connection that libmicrohttpd has. */
struct http_connection {
    struct list link;
    struct http_door *door;
    int fd;
    usec_t deadline;       /* of what it is doing; USEC_NEVER: it waits for us */
    struct api_call *call; /* its request; NULL: none has begun */
};

MUST_USE int http_exchange_open(struct http_door *d);
/* Disconnect those whose deadline passed. */
void http_exchange_expire(struct http *h) ON_ROLE(h->post);
/* Its connection goes on with the answer, or who made it inside is told. */
void http_exchange_resume(struct api_call *c);
/* A call from inside comes (LETTER_INNER). */
void http_exchange_begin_inner(struct http *h, struct api_call *c) ON_ROLE(h->post);
/* Its answer is there: whoever made it is told, and it is freed. */
void http_exchange_end_inner(struct api_call *c);
/* The request is complete: have its handler run, here or on a clerk. true: it is answered already
 */
MUST_USE bool http_exchange_run(struct http *h, struct api_call *c) ON_ROLE(h->post);

#endif
