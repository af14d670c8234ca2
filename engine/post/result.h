/* What became of the recipients of one delivery attempt, or of recipients that were given up
 * without one. Made by a worker or a scheduler thread, owned by the spool writer once sent. */
#ifndef ENGINE_RESULT_H
#define ENGINE_RESULT_H

#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct message;
struct outbox;

#define RESULT_NO_TRANSPORT UINT16_MAX /* nothing routes to the recipients */

enum result_kind {
    RESULT_DELIVERED,
    RESULT_DEFERRED,
    RESULT_FAILED,
    RESULT_PARKED,     /* not tried: an order suspends it until park_until, or is_paced */
    RESULT_DROPPED,    /* an order ends it, and nobody is told */
    RESULT_SUPPRESSED, /* the recipient is on a list of suppressed ones: likewise */
    RESULT_KIND_COUNT
};

struct result_recipient {
    uint32_t index; /* its number in the message */
    uint8_t kind;   /* enum result_kind */
    uint8_t class;  /* enum reply_class: what the receiver's refusal means; NONE: it said nothing */
    uint16_t code;  /* SMTP reply code; 0 when none */
    char status[12];   /* enhanced status code */
    uint16_t rule;     /* with a class: its number in the rules, or REPLY_NO_RULE */
    uint8_t scope;     /* with a class: enum reply_scope */
    struct slice text; /* in the result's text */
};

struct result {
    struct result *next;      /* owner only */
    struct message *message;  /* kept alive by the writer's account */
    struct slice destination; /* scheduler's name of the queue; in `text` */
    struct slice host_name;   /* MX, "" without a session; in `text` */
    struct slice host_address;
    struct slice tls_protocol, tls_cipher, tls_verdict; /* static */
    struct slice source; /* name of the egress source, or ""; in `text` */
    bool is_tls_resumed;
    uint16_t transport; /* index in the configuration, or RESULT_NO_TRANSPORT */
    uint16_t port;
    uint32_t connection_use;            /* 1 on a fresh connection */
    usec_t dispatched, connected, done; /* wall; 0 = did not happen */
    bool is_ambiguous;  /* the receiver may have taken it: the retry may be a duplicate */
    bool has_dispatch;  /* counted in the engine's duplicate bound */
    uint64_t rules;     /* serial of the settings by whose rules replies were classified */
    uint64_t order;     /* the standing order that decided; 0: none */
    usec_t park_until;  /* PARKED: when the order ends, or is_paced; wall */
    bool is_paced;      /* PARKED: its receiver lets so little through that its turn is then */
    uint64_t paced_by;  /* is_paced: serial of the settings by which the turn was reckoned */
    usec_t defer_until; /* DEFERRED: a rule says that it is due then, not by the schedule; 0: not */
    usec_t blocked;     /* wall: a receiver did not want our address, the first time; 0: it did */
    bool leaves_source; /* the source that its message keeps to cannot be used any more */

    /* spool writer only */
    bool is_counted, is_logged;

    uint32_t count, capacity;
    struct result_recipient *recipients;
    struct result_block *blocks; /* of text, newest block first */
    size_t text_bytes;           /* kept so far */
};

/* A part of a result's text: blocks never move, so slices into them stay valid. */
struct result_block {
    struct result_block *next;
    uint32_t len, capacity;
    char bytes[];
};

/* Room for `capacity` recipients, of no transport yet. NULL when out of memory. */
struct result *result_new(struct message *message, uint32_t capacity);
void result_free(struct result *r);        /* accepts NULL */
void result_free_all(struct result *list); /* linked by next */
/* Copies s into the result's text. Out of memory: the text is cut short, never lost mail. */
struct slice result_keep(struct result *r, struct slice s);
void result_add(struct result *r, uint32_t index, enum result_kind kind, uint16_t code,
                const char *status, struct slice text);
struct slice result_text(const struct result *r, const struct result_recipient *recipient);
enum result_share {
    RESULT_WAS_LOADED = 1,     /* counted as in memory: in_core.h */
    RESULT_WAS_DISPATCHED = 2, /* counted in the engine's duplicate bound */
    RESULT_GIVES_WAY = 4,      /* its message gives its place back: nothing of it is written */
};

/* Hand a result to the spool writer. r NULL: there is none, as memory was short or the recipients
 * were never loaded. The writer then learns only that `count` recipients of m have no result; they
 * are tried again later. Needs no memory itself.
 *
 * shares  set of enum result_share: which accounts count the recipients, when r is NULL */
void result_send(struct outbox *to_writer, struct result *r, struct message *m, uint32_t count,
                 unsigned shares);

#endif
