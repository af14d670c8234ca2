/* Owns the TLS contexts of outbound sessions. Called when settings are made and freed. */
#include "engine/state/tls_clients.h"

#include "engine/config/config.h"
#include "net/tls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_same_file(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The first transport with the same files. */
static size_t model_of(const struct config *c, size_t transport)
{
    const struct config_smtp *s = &c->transports[transport].smtp;
    for (size_t i = 0; i < transport; i++) {
        const struct config_smtp *other = &c->transports[i].smtp;
        if (!c->transports[i].is_gone && is_same_file(other->smtp_tls_CAfile, s->smtp_tls_CAfile) &&
            is_same_file(other->smtp_tls_cert_file, s->smtp_tls_cert_file) &&
            is_same_file(other->smtp_tls_key_file, s->smtp_tls_key_file)) {
            return i;
        }
    }
    return transport;
}

int tls_clients_open(const struct config *c, struct tls_client ***ret,
                     char ret_text[static TLS_CLIENTS_TEXT_MAX])
{
    struct tls_client **clients = calloc(c->transport_count + 1, sizeof(struct tls_client *));
    int err = clients == NULL ? -ENOMEM : 0;
    (void)snprintf(ret_text, TLS_CLIENTS_TEXT_MAX, "out of memory");
    for (size_t i = 0; err == 0 && i < c->transport_count; i++) {
        const struct config_smtp *smtp = &c->transports[i].smtp;
        const struct tls_client_config config = {.ca_file = smtp->smtp_tls_CAfile,
                                                 .certificate_file = smtp->smtp_tls_cert_file,
                                                 .key_file = smtp->smtp_tls_key_file};
        struct tls_error why = {"out of memory"};
        if (c->transports[i].is_gone) {
            continue; /* nothing connects by these settings */
        }
        size_t model = model_of(c, i);
        if (model < i) {
            clients[i] = clients[model];
            continue;
        }
        err = tls_client_new(&config, &clients[i], &why);
        if (err != 0) {
            (void)snprintf(ret_text, TLS_CLIENTS_TEXT_MAX, "transport %.64s: TLS: %.230s",
                           c->transports[i].name, why.text);
        }
    }
    if (err != 0) {
        tls_clients_close(c, clients);
        return err;
    }
    *ret = clients;
    return 0;
}

void tls_clients_close(const struct config *c, struct tls_client **clients)
{
    for (size_t i = 0; clients != NULL && i < c->transport_count; i++) {
        if (!c->transports[i].is_gone && model_of(c, i) == i) {
            tls_client_free(clients[i]);
        }
    }
    free(clients);
}
