/* Owns the rules between options and what follows from the system (host name, cores, paths below
 * the spool). Called once by config_load.c; a rule about one option alone belongs in the table. */
#include "base/error.h"
#include "dns/dns_wire.h"
#include "dns/nexthop.h"
#include "engine/config/config_load.h"
#include "engine/config/config_section.h"
#include "engine/config/config_value.h"
#include "engine/config/label.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONTROL_PATH_MAX_BYTES 107 /* sun_path, with its NUL */

/* --- what follows from other options ---------------------------------------------------------- */

static int set_default_path(char **field, const char *folder, const char *name)
{
    if (*field == NULL && asprintf(field, "%s/%s", folder, name) < 0) {
        *field = NULL;
        return -ENOMEM;
    }
    return 0;
}

static int complete_hostname(struct config_loader *l, struct config *c)
{
    char name[256] = "";
    struct nexthop parsed;
    if (c->hostname == NULL) {
        if (gethostname(name, sizeof(name) - 1) < 0 || name[0] == '\0') {
            memcpy(name, "localhost", sizeof("localhost"));
        }
        c->hostname = strdup(name);
        if (c->hostname == NULL) {
            return -ENOMEM;
        }
    }
    if (nexthop_parse(slice_of(c->hostname), 0, &parsed) < 0 || !parsed.wants_mx ||
        parsed.port != 0) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_GLOBAL, 0, "hostname"), "hostname",
                        "\"%s\" is not a host name; write a fully qualified name, such as "
                        "mail.example.com",
                        c->hostname);
    }
    return 0;
}

static int complete_global(struct config_loader *l, struct config *c)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1) {
        cores = 1;
    }
    cores = cores > 64 ? 64 : cores;
    c->workers = c->workers > 0 ? c->workers : (int)cores;
    c->scheduler_threads = c->scheduler_threads > 0 ? c->scheduler_threads : (int)(4 * cores);
    c->dkim_threads = c->dkim_threads > 0 ? c->dkim_threads : (int)cores;
    int err = complete_hostname(l, c);
    err = err < 0 ? err : set_default_path(&c->event_log_path, c->spool.path, "events.jsonl");
    err = err < 0 ? err : set_default_path(&c->control_path, c->spool.path, "control");
    if (err == 0 && strlen(c->control_path) > CONTROL_PATH_MAX_BYTES) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_CONTROL, 0, "path"), "path",
                        "the control socket's path \"%s\" has more than %d bytes; write a shorter "
                        "one in control { path = }",
                        c->control_path, CONTROL_PATH_MAX_BYTES);
    }
    return err;
}

static struct config_place global_place(const struct config_loader *l, const char *name)
{
    return config_place_of(l, CONFIG_SECTION_GLOBAL, 0, name);
}

static void check_limits(struct config_loader *l, struct config *c)
{
    if (c->message_recipient_limit < c->message_active_limit) {
        config_warn(l, global_place(l, "message_recipient_limit"), "message_recipient_limit",
                    "%d is less than message_active_limit; %d is used instead",
                    c->message_recipient_limit, c->message_active_limit);
        c->message_recipient_limit = c->message_active_limit;
    }
    if (c->bounce_queue_lifetime > c->maximal_queue_lifetime) {
        config_warn(l, global_place(l, "bounce_queue_lifetime"), "bounce_queue_lifetime",
                    "it is longer than maximal_queue_lifetime; that one is used instead");
        c->bounce_queue_lifetime = c->maximal_queue_lifetime;
    }
    if (c->minimal_backoff_time > c->maximal_backoff_time) {
        config_warn(l, global_place(l, "minimal_backoff_time"), "minimal_backoff_time",
                    "it is longer than maximal_backoff_time; every delay will be "
                    "minimal_backoff_time");
    }
    if (c->spool.journal > 0 && c->spool.journal < 1 << 20) {
        config_complain(l, global_place(l, "spool_journal"), "spool_journal",
                        "it is too small to be of use; write 0 for none, or 1M to 256M");
    }
    if (c->spool.reserve >= c->spool.map_size) {
        config_complain(l, global_place(l, "spool_reserve"), "spool_reserve",
                        "it leaves nothing of map_size; write less than %llu",
                        (unsigned long long)c->spool.map_size);
    }
}

/* --- listeners -------------------------------------------------------------------------------- */

static bool is_same_address(const struct config_address *a, const struct config_address *b)
{
    return a->len == b->len && memcmp(&a->address, &b->address, a->len) == 0;
}

static void check_listener_tls(struct config_loader *l, const struct config_listener *listener,
                               size_t index)
{
    bool has_tls = listener->tls_certificate != NULL && listener->tls_key != NULL;
    if (!has_tls && (listener->tls_certificate != NULL || listener->tls_key != NULL)) {
        bool has_key = listener->tls_key != NULL;
        const char *is = has_key ? "tls_key" : "tls_certificate";
        config_complain(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, is), is,
                        "it needs %s beside it; write both, or none",
                        has_key ? "tls_certificate" : "tls_key");
    }
    if (!has_tls && listener->users != NULL) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, "users"), "users",
                        "AUTH is offered over TLS only; add tls_certificate and tls_key");
    }
    if (!has_tls && listener->require_tls) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, "require_tls"),
                        "require_tls", "there is no TLS; add tls_certificate and tls_key");
    }
}

static void check_labels(struct config_loader *l, const struct config_listener *listener,
                         size_t index)
{
    const struct {
        const char *key, *value;
    } fields[] = {{"tenant_header", listener->tenant_header},
                  {"campaign_header", listener->campaign_header},
                  {"class_header", listener->class_header}};
    if (listener->tenant != NULL && !label_is_valid(slice_of(listener->tenant))) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, "tenant"), "tenant",
                        "\"%s\" is no tenant's name; write printable ASCII without spaces",
                        listener->tenant);
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].value != NULL && !label_is_field_name(slice_of(fields[i].value))) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, fields[i].key),
                            fields[i].key,
                            "\"%s\" is not the name of a header field; write it without colon and "
                            "spaces, such as X-Tenant",
                            fields[i].value);
        }
    }
}

static void check_listener(struct config_loader *l, struct config *c, size_t index)
{
    struct config_listener *listener = &c->listeners[index];
    struct config_place place = config_place_of(l, CONFIG_SECTION_LISTENER, index, NULL);
    check_listener_tls(l, listener, index);
    check_labels(l, listener, index);
    if (config_address_parse(slice_of(listener->name), 0, &listener->bind) < 0) {
        config_complain(l, place, "listener",
                        "\"%.80s\" is not a numeric address with port; write ADDR:PORT, such as "
                        "127.0.0.1:2525 or [::1]:2525",
                        listener->name);
        return;
    }
    for (size_t i = 0; i < index; i++) {
        if (is_same_address(&c->listeners[i].bind, &listener->bind)) {
            config_complain(l, place, "listener",
                            "\"%s\" is the address of listener \"%s\" already; keep one of them",
                            listener->name, c->listeners[i].name);
        }
    }
    for (size_t i = 0; i < listener->relay_from.count; i++) {
        if (listener->relay_from.items[i].bits == 0 ||
            (listener->relay_from.items[i].bits == 96 &&
             listener->relay_from.items[i].address[10])) {
            config_warn(l, config_place_of(l, CONFIG_SECTION_LISTENER, index, "relay_from"),
                        "relay_from", "it trusts every host: this is an open relay");
        }
    }
}

/* --- transports ------------------------------------------------------------------------------- */

void config_check_name(struct config_loader *l, enum config_section section, size_t index,
                       const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > 64 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != len) {
        config_complain(l, config_place_of(l, section, index, NULL), config_sections[section].name,
                        "\"%.80s\" is not a usable name; write 1 to 64 letters, digits, - _ .",
                        name);
    }
}

static void check_feedback(struct config_loader *l, size_t index, const char *option,
                           const char *text, enum sched_feedback_rule rule,
                           struct sched_feedback *ret)
{
    if (sched_feedback_parse(text, rule, ret) < 0) {
        config_complain(
            l, config_place_of(l, CONFIG_SECTION_TRANSPORT, index, option), option,
            "\"%.60s\" is not a feedback of 0 to 1; write NUMBER, NUMBER/NUMBER%s", text,
            rule == SCHED_RULE_README ? ", NUMBER/concurrency or NUMBER/sqrt_concurrency"
                                      : " or NUMBER/concurrency");
    }
}

const char *config_check_meant(const struct config *c, enum config_section section,
                               const char *name, char ret[static CONFIG_NEAR_TEXT])
{
    struct config_near near;
    config_near_begin(&near, name);
    for (size_t i = 0; i < config_section_count(c, section); i++) {
        config_near_offer(&near, config_section_title(c, section, i));
    }
    return config_near_text(&near, ret);
}

static void check_source_pool(struct config_loader *l, struct config *c, size_t index)
{
    char near[CONFIG_NEAR_TEXT];
    struct config_transport *t = &c->transports[index];
    for (size_t i = 0; i < c->egress_pool_count && t->source_pool != NULL; i++) {
        if (strcmp(c->egress_pools[i].name, t->source_pool) == 0) {
            t->pool = &c->egress_pools[i];
        }
    }
    if (t->source_pool != NULL && t->pool == NULL) {
        config_complain(
            l, config_place_of(l, CONFIG_SECTION_TRANSPORT, index, "source_pool"), "source_pool",
            "there is no pool \"%.64s\"; name one that this file defines%s", t->source_pool,
            config_check_meant(c, CONFIG_SECTION_POOL, t->source_pool, near));
    }
}

static void check_credentials(struct config_loader *l, const struct config_transport *t,
                              size_t index)
{
    bool has_user = t->smtp.smtp_auth_user != NULL;
    const char *is = has_user ? "smtp_auth_user" : "smtp_auth_password_file";
    if (has_user != (t->smtp.smtp_auth_password_file != NULL)) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_TRANSPORT, index, is), is,
                        "it needs %s beside it; write both, or none",
                        has_user ? "smtp_auth_password_file" : "smtp_auth_user");
    }
}

static int check_transport(struct config_loader *l, struct config *c, size_t index)
{
    struct config_transport *t = &c->transports[index];
    struct sched_config *s = &t->sched;
    config_check_name(l, CONFIG_SECTION_TRANSPORT, index, t->name);
    check_source_pool(l, c, index);
    check_feedback(l, index, "destination_concurrency_positive_feedback", t->positive_feedback,
                   s->concurrency_feedback_rule, &s->destination_concurrency_positive_feedback);
    check_feedback(l, index, "destination_concurrency_negative_feedback", t->negative_feedback,
                   s->concurrency_feedback_rule, &s->destination_concurrency_negative_feedback);
    s->message_recipient_limit = c->message_recipient_limit;
    s->message_recipient_minimum = c->message_recipient_minimum;
    s->class_floor = c->class_floor;
    s->minimal_backoff_time = c->minimal_backoff_time;
    s->feedback_debug = c->destination_concurrency_feedback_debug;
    s->connection_idle_limit = t->smtp.smtp_connection_cache_time_limit;
    s->connection_age_limit = t->smtp.smtp_connection_reuse_time_limit;
    s->connection_reuse_limit = t->smtp.smtp_connection_reuse_count_limit;
    s->must_resolve = true;
    if (t->smtp.smtp_tls_key_file != NULL && t->smtp.smtp_tls_cert_file == NULL) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_TRANSPORT, index, "smtp_tls_key_file"),
                        "smtp_tls_key_file",
                        "it is the key of no certificate; add smtp_tls_cert_file");
    }
    check_credentials(l, t, index);
    if (t->smtp.smtp_helo_name == NULL) {
        t->smtp.smtp_helo_name = strdup(c->hostname);
    }
    return t->smtp.smtp_helo_name == NULL ? -ENOMEM : 0;
}

static void check_defer_transports(struct config_loader *l, struct config *c)
{
    char near[CONFIG_NEAR_TEXT];
    for (size_t i = 0; i < c->defer_transports.count; i++) {
        const char *name = c->defer_transports.items[i];
        size_t index = config_transport_find(c, slice_of(name));
        if (index < c->transport_count) {
            c->transports[index].sched.hold = true;
            config_origins_set(c->origins, CONFIG_SECTION_TRANSPORT, index,
                               config_option_find(CONFIG_SECTION_TRANSPORT, "hold"),
                               global_place(l, "defer_transports"));
        } else {
            config_complain(l, global_place(l, "defer_transports"), "defer_transports",
                            "there is no transport \"%.64s\"; name a transport of this file%s",
                            name, config_check_meant(c, CONFIG_SECTION_TRANSPORT, name, near));
        }
    }
}

/* --- routes ----------------------------------------------------------------------------------- */

static void lower_text(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text >= 'A' && *text <= 'Z') {
            *text = (char)(*text - 'A' + 'a');
        }
    }
}

static bool is_any(const struct sockaddr_storage *address)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    memcpy(&v6, address, sizeof(v6));
    memcpy(&v4, address, sizeof(v4));
    return address->ss_family == AF_INET ? v4.sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) != 0;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    memcpy(&v6, address, sizeof(v6));
    memcpy(&v4, address, sizeof(v4));
    return address->ss_family == AF_INET ? (ntohl(v4.sin_addr.s_addr) >> 24) == 127
                                         : IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

static in_port_t port_of(const struct sockaddr_storage *address)
{
    struct sockaddr_in v4; /* the port lies at the same place in both families */
    memcpy(&v4, address, sizeof(v4));
    return v4.sin_port;
}

/* The listener that a literal nexthop leads back to, or NULL. */
static const struct config_listener *find_loop(const struct config *c, const struct nexthop *n,
                                               int default_port)
{
    struct config_address target;
    if (n->ip.family == 0) {
        return NULL;
    }
    uint16_t port = n->port != 0 ? n->port : (uint16_t)default_port;
    target.len = ip_to_sockaddr(&n->ip, port, &target.address);
    for (size_t i = 0; i < c->listener_count; i++) {
        const struct config_address *bind = &c->listeners[i].bind;
        bool is_behind_any = is_any(&bind->address) && is_loopback(&target.address) &&
                             port_of(&bind->address) == port_of(&target.address);
        if (bind->len > 0 && (is_same_address(bind, &target) || is_behind_any)) {
            return &c->listeners[i];
        }
    }
    return NULL;
}

static void check_nexthop(struct config_loader *l, const struct config *c, size_t index)
{
    const struct config_route *r = &c->routes[index];
    struct config_place place = config_place_of(l, CONFIG_SECTION_ROUTE, index, "nexthop");
    struct nexthop n;
    if (r->nexthop[0] == '\0') {
        return;
    }
    struct ip bare; /* an address without brackets would be looked up as a name */
    if (nexthop_parse(slice_of(r->nexthop), 0, &n) < 0 ||
        (n.wants_mx && ip_parse(slice_of(n.name.text), &bare) == 0)) {
        config_complain(l, place, "nexthop",
                        "\"%.80s\" is not a nexthop; write HOST, HOST:PORT, [HOST]:PORT or "
                        "[ADDRESS]:PORT",
                        r->nexthop);
        return;
    }
    if (r->transport < c->transport_count) {
        int port = c->transports[r->transport].smtp.smtp_tcp_port;
        const struct config_listener *loop = find_loop(c, &n, port);
        if (loop != NULL) {
            config_complain(l, place, "nexthop",
                            "\"%s\" leads back to listener \"%s\", which is a mail loop; name "
                            "another host or port",
                            r->nexthop, loop->name);
        }
    }
}

/* Who gets the password of the route's transport, and how safely. */
static void check_password_path(struct config_loader *l, const struct config *c, size_t index)
{
    static const char *const option = "smtp_tls_security_level";
    const struct config_route *r = &c->routes[index];
    const struct config_transport *t =
        r->transport < c->transport_count ? &c->transports[r->transport] : NULL;
    if (t == NULL || t->smtp.smtp_auth_user == NULL) {
        return;
    }
    if (r->nexthop[0] == '\0') {
        config_complain(l, config_place_of(l, CONFIG_SECTION_ROUTE, index, "nexthop"), "nexthop",
                        "transport \"%s\" has a smtp_auth_user, whose password would go to every "
                        "domain's hosts; name the smart host",
                        t->name);
    }
    enum config_tls_level level = config_route_tls_level(c, r);
    struct config_place place = config_place_of(l, CONFIG_SECTION_ROUTE, index, option);
    if (t->smtp.smtp_auth_requires_tls && level == CONFIG_TLS_NONE) {
        config_complain(l, place, option,
                        "without TLS the password of transport \"%s\" is never sent, so nothing "
                        "is delivered; write verify, or smtp_auth_requires_tls = no",
                        t->name);
    } else if (!t->smtp.smtp_auth_requires_tls &&
               (level == CONFIG_TLS_NONE || level == CONFIG_TLS_MAY)) {
        config_warn(l, place, option,
                    "the password of transport \"%s\" may be sent in clear; write verify", t->name);
    } else if (level != CONFIG_TLS_VERIFY && level != CONFIG_TLS_DANE) {
        config_warn(l, place, option,
                    "whoever pretends to be \"%.80s\" gets the password of transport \"%s\", as "
                    "no certificate is verified; write verify",
                    r->nexthop, t->name);
    }
}

static bool is_pattern(const char *pattern)
{
    struct nexthop n;
    const char *domain = pattern[0] == '.' ? pattern + 1 : pattern;
    if (strcmp(pattern, "*") == 0) {
        return true;
    }
    return nexthop_parse(slice_of(domain), 0, &n) == 0 && n.port == 0 &&
           (n.wants_mx || (n.ip.family != 0 && domain == pattern));
}

static int check_route(struct config_loader *l, struct config *c, size_t index)
{
    char near[CONFIG_NEAR_TEXT];
    struct config_route *r = &c->routes[index];
    struct config_place place = config_place_of(l, CONFIG_SECTION_ROUTE, index, NULL);
    lower_text(r->pattern);
    if (r->nexthop == NULL && (r->nexthop = strdup("")) == NULL) {
        return -ENOMEM;
    }
    lower_text(r->nexthop);
    size_t len = strlen(r->pattern);
    if (len > 1 && r->pattern[len - 1] == '.' && r->pattern[0] != '*') {
        r->pattern[len - 1] = '\0'; /* a fully qualified name is the same domain */
    }
    if (!is_pattern(r->pattern)) {
        config_complain(l, place, "route",
                        "\"%.80s\" is not a pattern; write a domain, .DOMAIN for its subdomains, "
                        "or *",
                        r->pattern);
    }
    r->transport = c->transport_count;
    if (r->transport_name == NULL) {
        config_complain(l, place, "transport",
                        "route \"%.80s\" names no transport; write transport = \"NAME\"",
                        r->pattern);
    } else {
        r->transport = config_transport_find(c, slice_of(r->transport_name));
        if (r->transport == c->transport_count) {
            config_complain(
                l, config_place_of(l, CONFIG_SECTION_ROUTE, index, "transport"), "transport",
                "there is no transport \"%.64s\"; name one that this file defines%s",
                r->transport_name,
                config_check_meant(c, CONFIG_SECTION_TRANSPORT, r->transport_name, near));
        }
    }
    check_nexthop(l, c, index);
    check_password_path(l, c, index);
    return 0;
}

static int compare_patterns(const void *a, const void *b)
{
    const struct config_route *const *x = a;
    const struct config_route *const *y = b;
    int order = strcmp((*x)->pattern, (*y)->pattern);
    if (order != 0) {
        return order;
    }
    return *x < *y ? -1 : 1;
}

/* Titles that differ in case, or by a last dot, are the same pattern. */
static int check_duplicate_routes(struct config_loader *l, const struct config *c)
{
    if (c->route_count < 2) {
        return 0;
    }
    const struct config_route **sorted = calloc(c->route_count, sizeof(struct config_route *));
    if (sorted == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->route_count; i++) {
        sorted[i] = &c->routes[i];
    }
    qsort(sorted, c->route_count, sizeof(struct config_route *), compare_patterns);
    for (size_t i = 1; i < c->route_count; i++) {
        if (strcmp(sorted[i - 1]->pattern, sorted[i]->pattern) == 0) {
            size_t index = (size_t)(sorted[i] - c->routes);
            config_complain(l, config_place_of(l, CONFIG_SECTION_ROUTE, index, NULL), "route",
                            "there is a route \"%.80s\" already; keep one of them",
                            sorted[i]->pattern);
        }
    }
    free(sorted);
    return 0;
}

static int compare_nexthops(const void *a, const void *b)
{
    const struct config_route *const *x = a;
    const struct config_route *const *y = b;
    int order = strcmp((*x)->nexthop, (*y)->nexthop);
    if (order != 0) {
        return order;
    }
    if ((*x)->transport != (*y)->transport) {
        return (*x)->transport < (*y)->transport ? -1 : 1;
    }
    return *x < *y ? -1 : 1;
}

static void complain_of_levels(struct config_loader *l, const struct config *c,
                               const struct config_route *a, const struct config_route *b)
{
    static const char *const option = "smtp_tls_security_level";
    struct config_place first =
        config_place_of(l, CONFIG_SECTION_ROUTE, (size_t)(a - c->routes), option);
    struct config_place second =
        config_place_of(l, CONFIG_SECTION_ROUTE, (size_t)(b - c->routes), option);
    config_complain(l, second, option,
                    "route \"%.80s\" in line %u has another level for the same transport and "
                    "nexthop \"%.80s\"; write the same in both",
                    a->pattern, first.line, a->nexthop);
}

/* A destination is a transport and a nexthop, and has one level, whichever route led to it. */
static int check_route_levels(struct config_loader *l, const struct config *c)
{
    const struct config_route **sorted = calloc(c->route_count + 1, sizeof(*sorted));
    size_t count = 0;
    if (sorted == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->route_count; i++) {
        if (c->routes[i].nexthop[0] != '\0' && c->routes[i].transport < c->transport_count) {
            sorted[count++] = &c->routes[i];
        }
    }
    qsort(sorted, count, sizeof(*sorted), compare_nexthops);
    for (size_t i = 1; i < count; i++) {
        const struct config_route *a = sorted[i - 1];
        const struct config_route *b = sorted[i];
        if (a->transport == b->transport && strcmp(a->nexthop, b->nexthop) == 0 &&
            config_route_tls_level(c, a) != config_route_tls_level(c, b)) {
            complain_of_levels(l, c, a, b);
        }
    }
    free(sorted);
    return 0;
}

/* Contact and organization are from's where nothing else is said. errors: -ENOMEM */
static int complete_tls_report(struct config_loader *l, struct config *c)
{
    struct config_tls_report *r = &c->tls_report;
    struct dns_name domain;
    const char *at = r->from == NULL ? NULL : strchr(r->from, '@');
    if (r->from == NULL) {
        return 0;
    }
    if (at == NULL || at == r->from || strpbrk(r->from, " <>,\"") != NULL ||
        dns_name_from_text(slice_of(at + 1), &domain) != 0) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_TLS_REPORT, 0, "from"), "from",
                        "\"%s\" is not an address; write one such as tls-reports@example.com",
                        r->from);
        return 0;
    }
    r->contact = r->contact != NULL ? r->contact : strdup(r->from);
    r->organization = r->organization != NULL ? r->organization : strdup(at + 1);
    return r->contact == NULL || r->organization == NULL ? -ENOMEM : 0;
}

int config_check(struct config_loader *l, struct config *c)
{
    int err = complete_global(l, c);
    check_limits(l, c);
    for (size_t i = 0; i < c->listener_count; i++) {
        check_listener(l, c, i);
    }
    config_check_http(l, c);
    if (err == 0) {
        config_check_feed(l, c);
    }
    err = err < 0 ? err : complete_tls_report(l, c);
    config_check_cluster(l, c);
    err = err < 0 ? err : config_check_egress(l, c);
    config_check_heard(l, c);
    err = err < 0 ? err : config_check_tenants(l, c);
    config_check_dkim(l, c);
    err = err < 0 ? err : config_check_suppressions(l, c);
    for (size_t i = 0; i < c->transport_count && err == 0; i++) {
        err = check_transport(l, c, i);
    }
    check_defer_transports(l, c);
    err = err < 0 ? err : config_check_source_counts(l, c);
    err = err < 0 ? err : config_check_receivers(l, c);
    for (size_t i = 0; i < c->route_count && err == 0; i++) {
        err = check_route(l, c, i);
    }
    err = err < 0 ? err : check_duplicate_routes(l, c);
    err = err < 0 ? err : check_route_levels(l, c);
    config_check_tenant_transports(l, c);
    if (err == 0 && c->route_count == 0) {
        config_warn(l, (struct config_place){0, 0}, "route",
                    "there is none, so every recipient is refused; write transport smtp {} and "
                    "route \"*\" { transport = \"smtp\" }");
    }
    return err;
}
