/* What a `listener` section says to a session, without the listener's sockets: the SMTP core's
 * settings, the TLS context, the users. Part of the settings, immutable; a session goes by those it
 * began with. */
#ifndef ENGINE_LISTENER_RULES_H
#define ENGINE_LISTENER_RULES_H

#include "base/attr.h"
#include "net/smtp_server.h"

struct config;
struct config_listener;
struct tls_server;
struct users;

#define LISTENER_RULES_TEXT_MAX 256

struct listener_rules {
    const struct config_listener *config; /* NULL: sessions over the control socket */
    struct smtp_server_config smtp;
    struct tls_server *tls; /* NULL: no STARTTLS */
    struct users *users;    /* NULL: no AUTH */
};

/* Read the files that the section names.
 *
 * section   of `config`; NULL: for local sessions
 * ret_text  what failed, with the name of the file
 * errors    -errno, ERR_TLS, ERR_SYNTAX; listener_rules_fini is right after them too */
MUST_USE int listener_rules_init(struct listener_rules *r, const struct config *config,
                                 const struct config_listener *section,
                                 char ret_text[static LISTENER_RULES_TEXT_MAX]);
void listener_rules_fini(struct listener_rules *r); /* accepts a zeroed one */

#endif
