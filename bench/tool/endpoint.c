/* Reading and printing addresses of the load tools; numeric only, nothing is looked up. */
#include "bench/tool/endpoint.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int append_endpoint(struct endpoint_list *list, const struct endpoint *e)
{
    if (list->count >= ENDPOINT_LIST_MAX) {
        return ERR_LIMIT;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        struct endpoint *items = realloc(list->items, capacity * sizeof(*items));
        if (items == NULL) {
            return -ENOMEM;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *e;
    return 0;
}

/* "1.2.3.4" or "1.2.3.4-1.2.3.9", in host byte order. */
static int read_ipv4_range(const char *host, uint32_t *ret_first, uint32_t *ret_last)
{
    char first_text[INET_ADDRSTRLEN];
    const char *dash = strchr(host, '-');
    size_t len = dash != NULL ? (size_t)(dash - host) : strlen(host);
    struct in_addr first;
    struct in_addr last;
    if (len >= sizeof(first_text)) {
        return ERR_SYNTAX;
    }
    memcpy(first_text, host, len);
    first_text[len] = '\0';
    if (inet_pton(AF_INET, first_text, &first) != 1 ||
        inet_pton(AF_INET, dash != NULL ? dash + 1 : first_text, &last) != 1 ||
        ntohl(last.s_addr) < ntohl(first.s_addr)) {
        return ERR_SYNTAX;
    }
    *ret_first = ntohl(first.s_addr);
    *ret_last = ntohl(last.s_addr);
    return 0;
}

static int add_ipv4_range(struct endpoint_list *list, const char *host, uint16_t port)
{
    uint32_t first = 0;
    uint32_t last = 0;
    int err = read_ipv4_range(host, &first, &last);
    for (uint64_t a = first; err == 0 && a <= last; a++) {
        struct endpoint e = {.len = sizeof(struct sockaddr_in)};
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        in.sin_addr.s_addr = htonl((uint32_t)a);
        memcpy(&e.address, &in, sizeof(in));
        err = append_endpoint(list, &e);
    }
    return err;
}

static int add_ipv6(struct endpoint_list *list, const char *host, uint16_t port)
{
    struct endpoint e = {.len = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1) {
        return ERR_SYNTAX;
    }
    memcpy(&e.address, &in, sizeof(in));
    return append_endpoint(list, &e);
}

static int read_port(const char *text, uint16_t *ret)
{
    char *end;
    errno = 0;
    unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || port > UINT16_MAX) {
        return ERR_SYNTAX;
    }
    *ret = (uint16_t)port;
    return 0;
}

/* `item` is cut in place. */
static int add_item(struct endpoint_list *list, char *item)
{
    char *colon = strrchr(item, ':');
    if (colon == NULL || colon == item) {
        return ERR_SYNTAX;
    }
    uint16_t port;
    if (read_port(colon + 1, &port) != 0) {
        return ERR_SYNTAX;
    }
    *colon = '\0';
    if (item[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        return add_ipv6(list, item + 1, port);
    }
    return add_ipv4_range(list, strcmp(item, "localhost") == 0 ? "127.0.0.1" : item, port);
}

int endpoint_list_add(struct endpoint_list *list, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL) {
        return -ENOMEM;
    }
    char *rest = NULL;
    int err = ERR_SYNTAX;
    for (char *item = strtok_r(copy, ", ", &rest); item != NULL;
         item = strtok_r(NULL, ", ", &rest)) {
        err = add_item(list, item);
        if (err != 0) {
            break;
        }
    }
    free(copy);
    return err;
}

void endpoint_list_fini(struct endpoint_list *list)
{
    free(list->items);
    *list = (struct endpoint_list){0};
}

static void ipv4_key(uint32_t address, uint8_t ret[16])
{
    uint32_t wire = htonl(address);
    memset(ret, 0, 16);
    memcpy(ret + 12, &wire, sizeof(wire));
}

void endpoint_key(const struct sockaddr_storage *address, uint8_t ret[16])
{
    if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof(in));
        memcpy(ret, &in.sin6_addr, 16);
    } else {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        ipv4_key(ntohl(in.sin_addr.s_addr), ret);
    }
}

int endpoint_range_read(const char *text, struct endpoint_range *ret)
{
    char host[2 * INET6_ADDRSTRLEN];
    struct endpoint_range r = {.port = 0};
    if (strlen(text) >= sizeof(host)) {
        return ERR_SYNTAX;
    }
    memcpy(host, text, strlen(text) + 1);
    /* the colons of an IPv6 address begin no port */
    bool is_ipv6 = inet_pton(AF_INET6, host, r.first) == 1;
    char *colon = is_ipv6 ? NULL : strrchr(host, ':');
    char *end = colon;
    if (colon != NULL && (read_port(colon + 1, &r.port) != 0 || r.port == 0)) {
        return ERR_SYNTAX;
    }
    if (colon != NULL) {
        *colon = '\0';
    }
    if (!is_ipv6 && host[0] == '[' && end != NULL && end[-1] == ']') {
        end[-1] = '\0';
        is_ipv6 = inet_pton(AF_INET6, host + 1, r.first) == 1;
    }
    if (is_ipv6) {
        memcpy(r.last, r.first, sizeof(r.last));
    } else {
        uint32_t first;
        uint32_t last;
        if (read_ipv4_range(host, &first, &last) != 0) {
            return ERR_SYNTAX;
        }
        ipv4_key(first, r.first);
        ipv4_key(last, r.last);
    }
    *ret = r;
    return 0;
}

bool endpoint_range_has(const struct endpoint_range *r, const struct sockaddr_storage *address)
{
    uint8_t key[16];
    in_port_t port; /* at the same place in both families */
    static_assert(offsetof(struct sockaddr_in, sin_port) ==
                      offsetof(struct sockaddr_in6, sin6_port),
                  "one port");
    memcpy(&port, (const char *)address + offsetof(struct sockaddr_in, sin_port), sizeof(port));
    endpoint_key(address, key);
    return (r->port == 0 || r->port == ntohs(port)) && memcmp(key, r->first, sizeof(key)) >= 0 &&
           memcmp(key, r->last, sizeof(key)) <= 0;
}

void endpoint_text(const struct sockaddr_storage *address, char ret[ENDPOINT_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof(in));
        (void)inet_ntop(AF_INET6, &in.sin6_addr, host, sizeof(host));
        (void)snprintf(ret, ENDPOINT_TEXT_BYTES, "[%s]:%u", host, ntohs(in.sin6_port));
        return;
    }
    struct sockaddr_in in;
    memcpy(&in, address, sizeof(in));
    (void)inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
    (void)snprintf(ret, ENDPOINT_TEXT_BYTES, "%s:%u", host, ntohs(in.sin_port));
}
