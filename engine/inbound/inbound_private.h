/* What the files of a session with a client share with each other; nobody else includes it.
 * inbound.c has the session and its bytes, inbound_transaction.c what the client gives in it.
 * Everything is the worker's alone. */
#ifndef ENGINE_INBOUND_PRIVATE_H
#define ENGINE_INBOUND_PRIVATE_H

#include "engine/inbound/inbound.h"
#include "engine/inbound/listener.h"
#include "engine/inbound/reception.h"
#include "engine/worker/worker.h"
#include "net/poller.h"
#include "net/smtp_server.h"
#include "net/stream.h"
#include "net/timeout.h"

#include <sys/socket.h>

struct hearing;

struct inbound {
    struct worker_ready ready;
    struct list all;
    struct list paused;
    struct worker *worker;
    struct listener *listener;
    struct settings *settings; /* own reference: rules are of them */
    const struct listener_rules *rules;
    struct poller_watch watch;
    struct timeout timer;
    struct stream stream;
    struct smtp_server smtp;
    struct sockaddr_storage peer;
    struct reception reception;
    struct hearing *hearing; /* in place of a reception; NULL: it is mail to be relayed */
    struct list in_hearing;  /* worker.hearing, while its content comes in */
    usec_t hearing_since;
    struct buf input; /* received and not yet consumed */
    bool is_counted;  /* in the listener's limits */
    bool is_away;
    bool is_handshaking;
    bool is_closing; /* replies flushed, then close */
    bool is_dead;    /* closed, and freed when the answer that is away has come */
};

/* --- inbound_transaction.c -------------------------------------------------------------------- */

extern const char inbound_drain_text[]; /* the answer while the system is being drained */

/* Does what the core's event asks for. */
void inbound_take_event(struct inbound *c, enum smtp_server_event event);
/* Forgets the transaction; what of it is in the spool is discarded. */
void inbound_drop_reception(struct inbound *c);
/* Whether the recipient is on a list of suppressed ones, and is to be refused for that. By its tenant's
 * list only where the tenant is known by now; before an attempt it is asked again. */
bool inbound_refuses_recipient(void *ctx, struct slice address,
                               char ret[static SMTP_SERVER_REFUSAL_MAX]);
/* Whether mail to the address is for us. ctx: the session */
enum smtp_server_hearing inbound_hears_recipient(void *ctx, struct slice address);
/* The message is complete, and its tenant may not have it queued. */
void inbound_answer_refused(struct inbound *c);
/* The spool could not take it.
 *
 * is_message  the content is complete; else the transaction fails with it still to come */
void inbound_answer_error(struct inbound *c, int err, bool is_message);
void inbound_answer_stored(struct inbound *c, struct intake *in);

#endif
