/* libsluice: the engine inside a program of your own.
 *
 * It is the daemon without its command line: the same configuration file, spool, scheduler and
 * delivery. A program starts it, submits mail, is told what becomes of it, asks and orders whatever
 * the operators' interface knows (docs/openapi.yaml), and stops it. One engine a process.
 *
 * Threads: every function may be called on any thread, several at a time, between sluice_start and
 * sluice_stop. Callbacks run on threads of the engine and must not block nor call sluice_stop. All
 * signals are blocked on the engine's threads, and no handler is touched; SIGUSR1 and SIGUSR2 pass
 * between them, so the program leaves these two alone.
 *
 * Link with pkg-config's `sluice`. A complete example: tests/embed/embed.c. */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sluice;

#define SLUICE_ID_BYTES 17 /* of a message: 16 hexadecimal digits and a NUL */

/* How something ended. */
enum sluice_result {
    SLUICE_OK = 0,
    SLUICE_WRONG = 1,       /* the configuration, the message or the call is wrong: see the text */
    SLUICE_BUSY = 2,        /* too much at a time: again later */
    SLUICE_UNAVAILABLE = 3, /* no space, a broken or foreign spool, stopping: see the text */
    SLUICE_NO_MEMORY = 4,
};

/* What became of a recipient, or of a message that came in. Texts are valid during the call; they
 * are never NULL, and "" when unknown. */
struct sluice_event {
    const char *type;   /* "Reception", "Delivery", "TransientFailure", "Bounce", "Expiration",
                         * "AdminBounce", "AdminDrop" */
    const char *id;     /* of the message */
    const char *sender; /* "" is the null sender as well */
    const char *recipient;
    const char *tenant, *campaign;
    const char *destination; /* the scheduler's name: nexthop */
    int code;                /* SMTP reply; 0: none */
    const char *status;      /* enhanced status code, "5.1.1" */
    const char *text;        /* what the receiver said */
    const char *json;        /* all that the event log has of it: one object */
    size_t json_bytes;
};

struct sluice_settings {
    const char *config_path; /* a configuration file */
    /* What goes wrong at the start and what the engine has to say afterwards: lines without
     * newline. NULL: lines of the start are lost, later ones go to standard error. */
    void (*log)(void *ctx, const char *line);
    /* Every event of mail, in order, at least once: the place is kept in the spool under this name,
     * and a program that was killed gets some of the last ones again. Returns 0 when done with it;
     * otherwise the same comes again after a pause. NULL: none are wanted. */
    int (*event)(void *ctx, const struct sluice_event *event);
    const char *event_name; /* letters, digits, - _ . ; NULL: "program" */
    void *ctx;              /* of both */
};

/* Returns when mail can be submitted.
 *
 * text      why not, or NULL; ended by NUL
 * returns   SLUICE_WRONG: the configuration; SLUICE_UNAVAILABLE: spool, sockets, threads, or an
 *           engine that runs already; *ret is set on SLUICE_OK only */
int sluice_start(const struct sluice_settings *settings, struct sluice **ret, char *text,
                 size_t text_bytes);
/* Ends deliveries (replies in flight are awaited for shutdown_timeout), and frees it. What was not
 * delivered stays in the spool. No other call may be under way. Accepts NULL. */
void sluice_stop(struct sluice *s);

struct sluice_message {
    const char *sender;            /* envelope; "" or NULL: the null sender */
    const char *const *recipients; /* addresses */
    size_t recipient_count;
    const void *content; /* RFC 5322: header and body; bare LF counts as CRLF */
    size_t content_bytes;
    const char *tenant, *campaign; /* NULL: none */
    int64_t not_before, expires;   /* seconds since 1970; 0: at once, as configured */
    const char *mail_class;        /* "urgent", "normal", "bulk"; NULL: its tenant's */
};

/* Accept a message; it is copied.
 *
 * done      called once, on a thread of the engine, when it is durable or refused: id is "" and
 *           text says why unless result is SLUICE_OK; recipients who are suppressed are left out
 * returns   SLUICE_NO_MEMORY: done will not be called */
int sluice_submit(struct sluice *s, const struct sluice_message *message,
                  void (*done)(void *ctx, int result, const char *id, const char *text), void *ctx);
/* The same, and waits until it is durable. id, text: may be NULL */
int sluice_send(struct sluice *s, const struct sluice_message *message, char id[SLUICE_ID_BYTES],
                char *text, size_t text_bytes);

/* Any verb of the operators' interface, as docs/openapi.yaml describes it; waits for the answer.
 *
 * target     path and query, percent-encoded: "/v1/counts?by=tenant"
 * body       a JSON object, or NULL
 * ret_body   malloc'ed and NUL-terminated, the caller frees it
 * returns    the HTTP status of the answer; 0 when out of memory */
int sluice_call(struct sluice *s, const char *method, const char *target, const char *body,
                char **ret_body);

#ifdef __cplusplus
}
#endif

#endif
