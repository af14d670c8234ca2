/* What an inbound session is receiving: gathers envelope and content into a struct intake, cut into
 * parts that the spool takes one by one. Owned by the session, on its worker; while a part is with
 * the spool writer, only the buffers here are touched. */
#ifndef ENGINE_RECEPTION_H
#define ENGINE_RECEPTION_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mail_class.h"
#include "engine/compose/header_filter.h"
#include "engine/config/label.h"
#include "engine/post/intake.h"

#include <stdbool.h>
#include <stdint.h>

struct body_tap;
struct config;
struct config_listener;
struct key_ring;
struct smtp_body_facts;
struct smtp_server;

struct reception {
    struct buf body;  /* decoded content not yet in the intake; the core appends to it */
    struct buf spill; /* recipients of the next batch while one is being staged */
    uint32_t spill_count;
    struct intake *intake; /* NULL: no transaction, or a failed one whose content is dropped */

    /* set at creation */
    const struct config_listener *config; /* whose mail it is; NULL: local sessions */

    struct label bound; /* of the user who logged in: mail of this tenant alone; len 0: of any */

    /* of the transaction, from its header */
    struct label tenant, campaign;
    enum mail_class class; /* MAIL_CLASS_COUNT: it says none */
    uint32_t odd_labels;   /* values that were ignored */
    bool is_tls_optional;  /* the header says `TLS-Required: No` */
    bool are_labels_read;
    struct header_filter filter; /* of what is in `body` */
    struct body_tap *tap;        /* NULL: the body is not hashed */
};

void reception_init(struct reception *r, const struct config_listener *config);
/* The intake must be gone (reception_drop) or with the spool writer. */
void reception_fini(struct reception *r);

/* A transaction begins. connection: handed back with the parts. is_hashed: there are keys that may sign
 * it. errors: -ENOMEM */
MUST_USE int reception_open(struct reception *r, uint64_t id, uint16_t worker, void *connection,
                            bool is_hashed);
/* It ends without a message, or its message is done with.
 *
 * returns  the id whose parts in the spool have to be discarded; 0: none were staged */
uint64_t reception_drop(struct reception *r);

/* Take over the core's batch of recipients; the first one begins the content with the Received
 * field. *ret_full: a batch is complete and must be staged before more are taken.
 * errors: -ENOMEM */
MUST_USE int reception_add_recipients(struct reception *r, const struct smtp_server *core,
                                      bool *ret_full);
/* The body buffer is full: what it holds becomes the next part, to be staged.
 * keys: those in force, or NULL
 * returns  false when so much of it was removed that there is room for more: go on receiving */
MUST_USE bool reception_cut(struct reception *r, const struct smtp_body_facts *facts,
                            const struct key_ring *keys);
/* The content is complete: the intake is the whole envelope and the last part of both.
 * config  in force now: what tenants may, and when a delay is told; likewise keys, or NULL
 * errors  -ENOMEM; -EACCES: the header names another tenant than the user's */
MUST_USE int reception_complete(struct reception *r, const struct smtp_server *core,
                                const struct config *config, const struct key_ring *keys);
/* A part was staged: makes room for the next. */
void reception_staged(struct reception *r);

#endif
