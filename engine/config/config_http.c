/* Owns the rules about http sections: who may ask, and whether the world can listen in. Called by
 * config_check.c after the listeners. */
#include "dns/ip.h"
#include "engine/config/config_load.h"
#include "engine/config/config_value.h"

#include <string.h>

static struct config_place place_of(const struct config_loader *l, size_t index, const char *name)
{
    return config_place_of(l, CONFIG_SECTION_HTTP, index, name);
}

static bool is_same_address(const struct config_address *a, const struct config_address *b)
{
    return a->len == b->len && memcmp(&a->address, &b->address, a->len) == 0;
}

static void check_twice(struct config_loader *l, const struct config *c, size_t index)
{
    const struct config_http *h = &c->http_doors[index];
    for (size_t i = 0; i < c->listener_count; i++) {
        if (is_same_address(&c->listeners[i].bind, &h->bind)) {
            config_complain(l, place_of(l, index, NULL), "http",
                            "\"%s\" is the address of listener \"%s\" already; write another port",
                            h->name, c->listeners[i].name);
        }
    }
    for (size_t i = 0; i < index; i++) {
        if (is_same_address(&c->http_doors[i].bind, &h->bind)) {
            config_complain(l, place_of(l, index, NULL), "http",
                            "\"%s\" is the address of http \"%s\" already; keep one of them",
                            h->name, c->http_doors[i].name);
        }
    }
}

static void check_tls(struct config_loader *l, const struct config_http *h, size_t index)
{
    if ((h->tls_certificate == NULL) != (h->tls_key == NULL)) {
        bool has_key = h->tls_key != NULL;
        const char *is = has_key ? "tls_key" : "tls_certificate";
        config_complain(l, place_of(l, index, is), is, "it needs %s beside it; write both, or none",
                        has_key ? "tls_certificate" : "tls_key");
    }
}

/* Beyond this machine nobody is known by where they come from. */
static void check_strangers(struct config_loader *l, const struct config_http *h, size_t index)
{
    struct ip ip;
    uint16_t port;
    if (ip_from_sockaddr(&h->bind.address, &ip, &port) != 0 || ip_scope(&ip) == IP_LOOPBACK) {
        return;
    }
    if (h->tokens_file == NULL) {
        config_complain(l, place_of(l, index, NULL), "tokens_file",
                        "http \"%s\" can be reached from elsewhere and would ask nobody for a "
                        "token; write tokens_file, or a loopback address",
                        h->name);
    }
    if (h->tls_certificate == NULL) {
        config_warn(l, place_of(l, index, NULL), "tls_certificate",
                    "tokens and answers of http \"%s\" travel in clear; write tls_certificate and "
                    "tls_key",
                    h->name);
    }
}

void config_check_http(struct config_loader *l, struct config *c)
{
    for (size_t i = 0; i < c->http_door_count; i++) {
        struct config_http *h = &c->http_doors[i];
        check_tls(l, h, i);
        if (config_address_parse(slice_of(h->name), 0, &h->bind) < 0) {
            config_complain(l, place_of(l, i, NULL), "http",
                            "\"%.80s\" is not a numeric address with port; write ADDR:PORT, such "
                            "as 127.0.0.1:8025 or [::1]:8025",
                            h->name);
            continue;
        }
        check_twice(l, c, i);
        check_strangers(l, h, i);
    }
}
