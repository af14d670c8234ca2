/* SMTP AUTH: the thread that computes crypt(3), which takes milliseconds on purpose and would stop
 * a worker's other connections.
 *
 * A request travels from a worker to the auth thread and back; it holds the password, which is
 * wiped before it returns. */
#ifndef ENGINE_AUTH_H
#define ENGINE_AUTH_H

#include "base/attr.h"
#include "base/mailbox.h"
#include "engine/config/label.h"

#include <stdbool.h>
#include <stdint.h>

struct auth;
struct engine;
struct settings;
struct users;

struct auth_request {
    const struct users *users;
    struct settings *settings; /* own reference: users are of them */
    void *connection;          /* the asker's; not looked into */
    uint16_t worker;
    bool is_good;        /* the answer */
    struct label tenant; /* with a good one: the user is bound to it; len 0: to none */
    char name[256];
    char password[256];
};

void auth_request_free(struct auth_request *r); /* wipes the password; accepts NULL */

MUST_USE int auth_new(struct engine *engine, struct auth **ret);
struct mailbox *auth_box(struct auth *a);
MUST_USE int auth_start(struct auth *a);
void auth_stop(struct auth *a);
void auth_free(struct auth *a); /* accepts NULL */

#endif
