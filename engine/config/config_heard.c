/* Checks of what comes back: `verp` of transports and tenants, `receives` of listeners.
 * Called by config_check.c. Must not know tokens. */
#include "engine/config/config.h"
#include "engine/config/config_load.h"
#include "net/smtp_address.h"

#include <string.h>

/* Whether return addresses can be made of it: with a plus sign and a token behind the local part,
 * which has 64 bytes (RFC 5321 4.5.3.1.1). */
static void check_verp(struct config_loader *l, struct config_place place, char *verp)
{
    struct smtp_address address;
    if (smtp_address_parse(slice_of(verp), 0, &address) != 0 || address.local.len == 0 ||
        address.domain.data[0] == '[' ||
        memchr(address.local.data, '+', address.local.len) != NULL ||
        address.local.data[0] == '"') {
        config_complain(
            l, place, "verp",
            "\"%.80s\" is not LOCAL@DOMAIN without a plus sign; write an address such as "
            "bounces@bounces.example.com",
            verp);
    } else if (address.local.len > CONFIG_VERP_LOCAL_MAX) {
        config_complain(l, place, "verp",
                        "\"%.60s\" has %zu bytes in front of its @, and %d are left beside a token",
                        verp, address.local.len, CONFIG_VERP_LOCAL_MAX);
    } else if (address.len > CONFIG_VERP_MAX) {
        config_complain(
            l, place, "verp",
            "\"%.60s...\" has %zu bytes, and %d are left beside a token in the sender of "
            "a message",
            verp, address.len, CONFIG_VERP_MAX);
    } else {
        memcpy(verp, address.text, address.len); /* the domain in lower case; never longer */
        verp[address.len] = '\0';
    }
}

static void check_receives(struct config_loader *l, struct config *c, size_t index)
{
    struct config_listener *listener = &c->listeners[index];
    for (size_t i = 0; i < listener->receives.count; i++) {
        char *domain = listener->receives.items[i];
        char text[300] = "x@";
        struct smtp_address address;
        size_t len = strlen(domain);
        bool is_one = len < sizeof(text) - 3;
        if (is_one) {
            memcpy(text + 2, domain, len + 1);
            is_one = smtp_address_parse(slice_of(text), 0, &address) == 0 && domain[0] != '[' &&
                     address.domain.len <= len;
        }
        if (!is_one) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, "receives"),
                            "receives",
                            "\"%.80s\" is no domain; write one such as "
                            "bounces.example.com",
                            domain);
            return;
        }
        memcpy(domain, address.domain.data, address.domain.len);
        domain[address.domain.len] = '\0';
    }
}

void config_check_heard(struct config_loader *l, struct config *c)
{
    for (size_t i = 0; i < c->transport_count; i++) {
        if (c->transports[i].verp != NULL) {
            c->has_verp = true;
            check_verp(l, config_place_of(l, CONFIG_SECTION_TRANSPORT, i, "verp"),
                       c->transports[i].verp);
        }
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        if (c->tenants[i].verp != NULL) {
            c->has_verp = true;
            check_verp(l, config_place_of(l, CONFIG_SECTION_TENANT, i, "verp"), c->tenants[i].verp);
        }
    }
    for (size_t i = 0; i < c->listener_count; i++) {
        check_receives(l, c, i);
    }
}

/* --- questions -------------------------------------------------------------------------------- */

const char *config_verp(const struct config *c, size_t transport, struct slice tenant)
{
    const struct config_tenant *t = config_tenant_find(c, tenant);
    if (t != NULL && t->verp != NULL) {
        return t->verp;
    }
    return transport < c->transport_count ? c->transports[transport].verp : NULL;
}

bool config_is_return_domain(const struct config *c, struct slice domain)
{
    for (size_t i = 0; i < c->transport_count + c->tenant_count; i++) {
        const char *verp = i < c->transport_count ? c->transports[i].verp
                                                  : c->tenants[i - c->transport_count].verp;
        const char *at = verp == NULL ? NULL : strrchr(verp, '@');
        if (at != NULL && slice_ieq(slice_of(at + 1), domain)) {
            return true;
        }
    }
    return false;
}

bool config_listener_receives(const struct config_listener *l, struct slice domain)
{
    for (size_t i = 0; i < l->receives.count; i++) {
        if (slice_ieq(slice_of(l->receives.items[i]), domain)) {
            return true;
        }
    }
    return false;
}
