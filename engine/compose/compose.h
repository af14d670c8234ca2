/* From one message as a JSON object to its bytes and its envelope. Pure; called by inject.c.
 *
 * The object is either parts ("headers", "text", "html", "attachments") or finished text ("raw",
 * "raw_base64"); "from", "recipients", "tenant", "campaign", "class", "require_tls", "not_before",
 * "expires" and "expires_in" say where, before what else, and when it goes. docs: POST /v1/inject. */
#ifndef ENGINE_COMPOSE_H
#define ENGINE_COMPOSE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mail_class.h"
#include "base/slice.h"
#include "engine/config/label.h"
#include "net/smtp_address.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define COMPOSE_MISTAKES_MAX   20
#define COMPOSE_WHERE_BYTES    160
#define COMPOSE_FIELDS_MAX     200 /* names in "headers" */
#define COMPOSE_SCHEDULE_AHEAD (366LL * 86400 * USEC_PER_SEC)

/* What is wrong with a request, each with its place in the JSON. */
struct compose_mistakes {
    struct compose_mistake {
        char where[COMPOSE_WHERE_BYTES]; /* "messages[2].recipients[3].address"; printable ASCII */
        char what[COMPOSE_WHERE_BYTES];
    } list[COMPOSE_MISTAKES_MAX];
    uint32_t count; /* may exceed the array: the first ones are kept */
};
/* where_format with its arguments is the place. */
void compose_mistake(struct compose_mistakes *m, const char *what, const char *where_format, ...)
    PRINTF_LIKE(3, 4);

struct compose_options {
    struct slice hostname;    /* of Message-IDs */
    usec_t now;               /* wall */
    uint64_t size_limit;      /* bytes of content; 0: none */
    uint32_t recipient_limit; /* 0: none */
    uint32_t hop_limit;       /* Received fields of finished text */
    /* Whether mail to a domain can go anywhere; NULL: always. */
    bool (*has_route)(const void *routes, struct slice domain);
    const void *routes;
};

#define COMPOSE_DKIM_MAX 4096 /* bytes of the names of keys */

struct composition {
    struct smtp_address sender; /* len 0: the null sender */
    struct buf packed;          /* recipients: base/packed.h */
    uint32_t recipient_count;
    struct buf content; /* complete, CRLF */
    struct label tenant, campaign;
    enum mail_class class; /* MAIL_CLASS_COUNT: it says none */
    bool requires_tls;     /* "require_tls" */
    bool is_tls_optional;  /* the header says `TLS-Required: No` */
    struct buf dkim;       /* names of keys with commas between them; empty: none are named */
    usec_t not_before;     /* wall; 0: at once */
    usec_t expires;        /* wall; 0: as configured */
    bool has_8bit, has_leading_dot; /* of content */
    bool needs_utf8;                /* an address is not ASCII: SMTPUTF8 */
};

void composition_init(struct composition *c);
void composition_fini(struct composition *c);

/* What one message is composed of. */
struct compose_input {
    const json_t *message; /* an object; members with value null count as missing */
    struct slice raw;      /* finished text beside it, instead of its "raw"; data NULL: none */
    const char *prefix;    /* of the places of mistakes: "", "messages[2]." */
    uint64_t id;           /* names the message in Message-ID and boundaries */
};

/* Compose one message. What content and packed hold already (a Received field) stays in front.
 *
 * mistakes  in/out; when its count grew, *ret holds nothing to use
 * errors    -ENOMEM */
MUST_USE int compose_message(const struct compose_options *options,
                             const struct compose_input *input, struct compose_mistakes *mistakes,
                             struct composition *ret);

/* A message with what the defaults say where it says nothing; of "headers" field by field. A new
 * reference; NULL when out of memory. */
MUST_USE json_t *compose_merge(const json_t *defaults, const json_t *message);

#endif
