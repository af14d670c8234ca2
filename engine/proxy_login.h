/* Users and passwords towards SOCKS proxies, read once at start while the files may be read.
 * Immutable afterwards, for any thread; wiped at the end. */
#ifndef ENGINE_PROXY_LOGIN_H
#define ENGINE_PROXY_LOGIN_H

#include "base/attr.h"

#include <stddef.h>

struct config;
struct socks5_login;

#define PROXY_LOGIN_TEXT_MAX 512

/* One login for each source of the configuration; empty where the source has none.
 *
 * errors   -errno, ERR_SYNTAX, ERR_LIMIT: ret_text says which file and why */
MUST_USE int proxy_logins_load(const struct config *config, struct socks5_login **ret,
                               char ret_text[static PROXY_LOGIN_TEXT_MAX]);
void proxy_logins_free(struct socks5_login *logins, size_t count); /* accepts NULL */

#endif
