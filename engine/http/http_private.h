/* The http thread from inside: http.c (loop), http_door.c (sockets), http_exchange.c (requests). */
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

/* Where connections come in. */
struct http_door {
    /* set at creation */
    struct http *http;
    const char *name;  /* of its socket */
    bool is_control;   /* trusted, and may turn to SMTP */
    unsigned capacity; /* connections */
    uint64_t body_max; /* bytes of a request's body */
    usec_t timeout;    /* see config_http */
    int fd;            /* listening */
    struct MHD_Daemon *daemon;
    char *certificate, *key; /* PEM; NULL: no TLS */

    /* http thread only */
    struct poller_watch listening, busy; /* the socket; the daemon's epoll set */
    bool is_due;                         /* something has happened that the daemon must look at */
};

struct http {
    /* set at creation */
    struct engine *engine;
    struct post post;
    struct http_door *doors;
    size_t door_count;
    const struct api_route *routes; /* [route_count] */
    size_t route_count;
    struct http_injector injector;

    /* http thread only */
    struct clerk self; /* what inline handlers read with: the engine and nothing else */
    struct poller poller;
    struct poller_watch box_watch;
    struct outbox *to_workers; /* [engine->worker_count], of the post */
    uint32_t next_worker;
    struct outbox *to_clerks; /* [HTTP_CLERKS], of the post */
    struct outbox *to_writer; /* of the post: what is injected */
    struct list running;      /* struct api_call, suspended */
    struct list connections;  /* struct http_connection */
    uint64_t held_bytes;      /* of bodies and long answers, all together */
    struct list arrivals;     /* struct arrival (http_door.c), oldest first */
    uint32_t arrival_count;
    usec_t now;
    usec_t look_at;   /* when deadlines of connections are looked at next */
    usec_t accept_at; /* doors rest until then; USEC_NEVER: they do not */
};

/* --- doors ------------------------------------------------------------------------------------ */

MUST_USE int http_door_open_control(struct http *h, struct http_door *ret);
/* errors: as http_new, logged */
MUST_USE int http_door_open(struct http *h, const struct config_http *config,
                            struct http_door *ret);
/* Watch the socket and the daemon. Thread: http */
MUST_USE int http_door_watch(struct http_door *d);
/* No more connections, and all that there are end. */
void http_door_close(struct http_door *d);
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
