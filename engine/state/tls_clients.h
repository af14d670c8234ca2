/* The TLS contexts of outbound sessions: one for each distinct set of TLS files of the transports.
 * Part of the settings: made with them, immutable, for any thread. */
#ifndef ENGINE_TLS_CLIENTS_H
#define ENGINE_TLS_CLIENTS_H

#include "base/attr.h"

struct config;
struct tls_client;

#define TLS_CLIENTS_TEXT_MAX 320

/* Read the files.
 *
 * ret      [config->transport_count], some are the same; for tls_clients_close
 * errors   ERR_TLS or -ENOMEM; ret_text says which transport and why */
MUST_USE int tls_clients_open(const struct config *c, struct tls_client ***ret,
                              char ret_text[static TLS_CLIENTS_TEXT_MAX]);
/* config: the same as before; clients may be NULL. */
void tls_clients_close(const struct config *c, struct tls_client **clients);

#endif
