/* A steady load of POST /v1/inject over connections that stay: which request is due when, and what
 * became of each. One thread owns it with its connections. */
#ifndef BENCH_HTTP_LOAD_H
#define BENCH_HTTP_LOAD_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/slice.h"
#include "bench/tool/endpoint.h"
#include "net/poller.h"

#include <stdbool.h>
#include <stdint.h>

#define HTTP_LOAD_PROBLEM_BYTES 200

struct http_load_options {
    struct endpoint to;
    const char *host;   /* of the Host field */
    const char *domain; /* of the recipient */
    const char *sender;
    uint64_t rate, seconds, connections, size; /* messages a second; bytes of a message */
    uint64_t batch;                            /* messages of a request */
};

struct http_session {
    struct http_load *load;
    struct poller_watch watch;
    int fd; /* -1: none */
    bool is_busy;
    usec_t due;  /* of the request under way; monotonic */
    size_t sent; /* of its bytes */
    struct buf in;
};

struct http_load {
    /* set at creation */
    const struct http_load_options *options;
    struct poller poller;
    struct http_session *sessions; /* heap */
    struct buf request;            /* the same for all */
    usec_t started;

    /* requests, by what became of them; failed: no answer */
    uint64_t offered, accepted, refused, failed; /* failed: no answer */
    uint64_t connects;
    usec_t first_offer, last_answer; /* wall; 0: none */
    struct histogram answer;         /* of 202: usec from when it was due */
    char last_problem[HTTP_LOAD_PROBLEM_BYTES];
};

/* errors: -errno, -ENOMEM */
MUST_USE int http_load_init(struct http_load *l, const struct http_load_options *options);
void http_load_fini(struct http_load *l);
/* Until everything has its answer, or none came for ten seconds. errors: -errno */
MUST_USE int http_load_run(struct http_load *l);
/* Every request was answered with 202. */
MUST_USE bool http_load_is_complete(const struct http_load *l);
/* The numbers as one JSON object, in messages. */
void http_load_report(const struct http_load *l, struct buf *out);

#endif
