/* Who may log in to a listener: a users file of [tenant=T] NAME:CRYPT-HASH lines with '#' comments.
 * Immutable once loaded, for any thread. */
#ifndef ENGINE_USERS_H
#define ENGINE_USERS_H

#include "base/attr.h"
#include "engine/config/label.h"

#include <stdbool.h>

struct users;

/* errors: -errno, ERR_SYNTAX; ret_text names the file and line */
MUST_USE int users_load(const char *path, struct users **ret, char ret_text[256]);
void users_free(struct users *users); /* accepts NULL */
/* true when the password is the user's. Takes as long for an unknown user. Thread: any, slow.
 *
 * ret_tenant  the one that the user is bound to; len 0: to none */
MUST_USE bool users_check(const struct users *users, const char *name, const char *password,
                          struct label *ret_tenant);

#endif
