/* Checks of what comes back: `verp` of transports and tenants and where their mail says to unsubscribe,
 * `receives` of listeners. Called by config_check.c. Must not know tokens. */
#include "engine/config/config.h"
#include "engine/config/config_load.h"
#include "engine/config/label.h"
#include "net/smtp_address.h"

#include <string.h>

/* Whether return addresses can be made of it: with a plus sign and a token behind the local part,
 * which has 64 bytes (RFC 5321 4.5.3.1.1). */
static void check_token_address(struct config_loader *l, struct config_place place,
                                const char *option, char *text)
{
    struct smtp_address address;
    if (smtp_address_parse(slice_of(text), 0, &address) != 0 || address.local.len == 0 ||
        address.domain.data[0] == '[' ||
        memchr(address.local.data, '+', address.local.len) != NULL ||
        address.local.data[0] == '"') {
        config_complain(
            l, place, option,
            "\"%.80s\" is not LOCAL@DOMAIN without a plus sign; write an address such as "
            "bounces@bounces.example.com",
            text);
    } else if (address.local.len > CONFIG_VERP_LOCAL_MAX) {
        config_complain(l, place, option,
                        "\"%.60s\" has %zu bytes in front of its @, and %d are left beside a token",
                        text, address.local.len, CONFIG_VERP_LOCAL_MAX);
    } else if (address.len > CONFIG_VERP_MAX) {
        config_complain(
            l, place, option,
            "\"%.60s...\" has %zu bytes, and %d are left beside a token in the sender of "
            "a message",
            text, address.len, CONFIG_VERP_MAX);
    } else {
        memcpy(text, address.text, address.len); /* the domain in lower case; never longer */
        text[address.len] = '\0';
    }
}

/* Mail comes to it for months, whatever the configuration says then: it has to say itself what it is. */
static void check_unsubscribe(struct config_loader *l, struct config_place place, char *text)
{
    struct slice local = slice_to(slice_of(text), slice_find(slice_of(text), '@'));
    if (!label_is_unsubscribe(local)) {
        config_complain(l, place, "list_unsubscribe",
                        "nobody would know \"%.80s\" for what it is; begin it with unsubscribe, "
                        "unsub, optout, opt-out or leave",
                        text);
    } else {
        check_token_address(l, place, "list_unsubscribe", text);
    }
}

static size_t variable_at(const char *text)
{
    static const char *const names[] = {"{token}", "{recipient}", "{tenant}", "{campaign}"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(text, names[i], strlen(names[i])) == 0) {
            return strlen(names[i]);
        }
    }
    return 0;
}

static void check_unsubscribe_url(struct config_loader *l, struct config_place place,
                                  const char *text)
{
    static const char option[] = "list_unsubscribe_url";
    if (strncmp(text, "https://", 8) != 0 || text[8] == '\0' || strstr(text, "{token}") == NULL) {
        config_complain(l, place, option,
                        "\"%.80s\" is no https URL with {token} in it; write one such as "
                        "https://lists.example.com/unsubscribe/{token}",
                        text);
        return;
    }
    for (const char *at = text; *at != '\0';) {
        size_t len = variable_at(at);
        if (len == 0 && (*at <= ' ' || *at > '~' || strchr("<>{},\"", *at) != NULL)) {
            config_complain(l, place, option,
                            "\"%.40s\" cannot stand in it; write printable ASCII without spaces, "
                            "commas and brackets, and {token}, {recipient}, {tenant} and {campaign}",
                            at);
            return;
        }
        at += len > 0 ? len : 1;
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

/* What one section says of them: three texts, each may be NULL. */
static void check_returns(struct config_loader *l, struct config *c, enum config_section section,
                          size_t index, char *const texts[3])
{
    if (texts[0] != NULL) {
        check_token_address(l, config_place_of(l, section, index, "verp"), "verp", texts[0]);
    }
    if (texts[1] != NULL) {
        check_unsubscribe(l, config_place_of(l, section, index, "list_unsubscribe"), texts[1]);
    }
    if (texts[2] != NULL) {
        check_unsubscribe_url(l, config_place_of(l, section, index, "list_unsubscribe_url"),
                              texts[2]);
    }
    if ((texts[1] != NULL || texts[2] != NULL) && c->dkim_count == 0) {
        const char *option = texts[1] != NULL ? "list_unsubscribe" : "list_unsubscribe_url";
        config_warn(l, config_place_of(l, section, index, option), option,
                    "nothing signs mail, and only signed mail gets the field; write a dkim section");
    }
    c->has_return_tokens |= texts[0] != NULL || texts[1] != NULL || texts[2] != NULL;
}

void config_check_heard(struct config_loader *l, struct config *c)
{
    for (size_t i = 0; i < c->transport_count; i++) {
        const struct config_transport *t = &c->transports[i];
        char *const texts[3] = {t->verp, t->list_unsubscribe, t->list_unsubscribe_url};
        check_returns(l, c, CONFIG_SECTION_TRANSPORT, i, texts);
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        const struct config_tenant *t = &c->tenants[i];
        char *const texts[3] = {t->verp, t->list_unsubscribe, t->list_unsubscribe_url};
        check_returns(l, c, CONFIG_SECTION_TENANT, i, texts);
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

struct config_unsubscribe config_unsubscribe(const struct config *c, size_t transport,
                                             struct slice tenant)
{
    const struct config_tenant *t = config_tenant_find(c, tenant);
    struct config_unsubscribe u = {.address = NULL};
    if (transport < c->transport_count) {
        u.address = c->transports[transport].list_unsubscribe;
        u.url = c->transports[transport].list_unsubscribe_url;
    }
    if (t != NULL) {
        u.address = t->list_unsubscribe != NULL ? t->list_unsubscribe : u.address;
        u.url = t->list_unsubscribe_url != NULL ? t->list_unsubscribe_url : u.url;
    }
    return u;
}

static bool is_at(const char *address, struct slice domain)
{
    const char *at = address == NULL ? NULL : strrchr(address, '@');
    return at != NULL && slice_ieq(slice_of(at + 1), domain);
}

bool config_is_return_domain(const struct config *c, struct slice domain)
{
    for (size_t i = 0; i < c->transport_count; i++) {
        if (is_at(c->transports[i].verp, domain) ||
            is_at(c->transports[i].list_unsubscribe, domain)) {
            return true;
        }
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        if (is_at(c->tenants[i].verp, domain) || is_at(c->tenants[i].list_unsubscribe, domain)) {
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
