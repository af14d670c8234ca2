/* Owns the rules of the section `cluster`. Called by config_check.c; must not ask a server, which
 * engine/nodes/ does. */
#include "engine/config/config_load.h"

#include <string.h>

static struct config_place place_of(const struct config_loader *l, const char *name)
{
    return config_place_of(l, CONFIG_SECTION_CLUSTER, 0, name);
}

/* It becomes a part of keys and subjects on the servers, where dots, stars and spaces mean something. */
static bool is_node_name(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
           strlen(name);
}

/* ADDRESS behind one of the schemes, with something behind it that can be a host. */
static bool has_scheme(const char *address, const char *const *schemes)
{
    for (; *schemes != NULL; schemes++) {
        size_t len = strlen(*schemes);
        if (strncmp(address, *schemes, len) == 0) {
            return address[len] != '\0' && address[len] != '/' && address[len] != ':' &&
                   strpbrk(address, " \t,\"") == NULL;
        }
    }
    return false;
}

static void check_addresses(struct config_loader *l, const char *option,
                            const struct config_texts *texts, const char *const *schemes,
                            const char *example)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (!has_scheme(texts->items[i], schemes)) {
            config_complain(l, place_of(l, option), option,
                            "\"%.80s\" is no address of a server; write one such as \"%s\"",
                            texts->items[i], example);
        }
    }
}

/* Something of the section is set although there is no node. */
static const char *stray_option(const struct config_cluster *k)
{
    const struct {
        const char *name;
        bool is_set;
    } options[] = {
        {"servers", k->servers.count > 0},
        {"monitors", k->monitors.count > 0},
        {"credentials", k->credentials != NULL},
        {"tls_ca_file", k->tls_ca_file != NULL},
        {"tls_certificate", k->tls_certificate != NULL},
        {"tls_key", k->tls_key != NULL},
        {"log", k->has_log},
        {"takeover", k->takeover != CONFIG_TAKEOVER_AUTOMATIC},
        {"module", k->module != NULL},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].is_set) {
            return options[i].name;
        }
    }
    return NULL;
}

static void check_node(struct config_loader *l, const struct config_cluster *k)
{
    if (!is_node_name(k->node)) {
        config_complain(l, place_of(l, "node"), "node",
                        "\"%.40s\" is no name of a node; write letters, digits, - and _ only",
                        k->node);
    }
    if (k->servers.count == 0) {
        config_complain(l, place_of(l, "node"), "servers",
                        "there are none; write servers = {\"nats://HOST:4222\", ...}");
    }
    if ((k->tls_certificate == NULL) != (k->tls_key == NULL)) {
        const char *is = k->tls_key != NULL ? "tls_key" : "tls_certificate";
        config_complain(l, place_of(l, is), is, "it needs %s beside it; write both, or none",
                        k->tls_key != NULL ? "tls_certificate" : "tls_key");
    }
    if (k->takeover != CONFIG_TAKEOVER_AUTOMATIC && !k->has_log) {
        config_complain(
            l, place_of(l, "takeover"), "takeover",
            "without log there is nothing to take over; write log = yes, or leave it out");
    }
    if (k->replicas % 2 == 0) {
        config_complain(l, place_of(l, "replicas"), "replicas",
                        "%d have no majority that one more would not have; write 1, 3 or 5",
                        k->replicas);
    }
}

void config_check_cluster(struct config_loader *l, const struct config *c)
{
    static const char *const of_servers[] = {"nats://", "tls://", NULL};
    static const char *const of_monitors[] = {"http://", "https://", NULL};
    const struct config_cluster *k = &c->cluster;
    check_addresses(l, "servers", &k->servers, of_servers, "nats://192.0.2.1:4222");
    check_addresses(l, "monitors", &k->monitors, of_monitors, "http://192.0.2.1:8222");
    if (k->node != NULL) {
        check_node(l, k);
        return;
    }
    const char *stray = stray_option(k);
    if (stray != NULL) {
        config_complain(l, place_of(l, stray), stray,
                        "the section says of no node that it is one; write node = \"NAME\"");
    }
}
