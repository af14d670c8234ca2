/* Reading and printing addresses of the load tools; numeric only, nothing is looked up. */
#include "bench/endpoint.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int append(struct endpoint_list *list, const struct endpoint *e)
{
    if (list->count >= ENDPOINT_LIST_MAX) {
        return ERR_LIMIT;
    }
    struct endpoint *items = realloc(list->items, (list->count + 1) * sizeof(*items));
    if (items == NULL) {
        return -ENOMEM;
    }
    list->items = items;
    items[list->count++] = *e;
    return 0;
}

static int add_ipv4_range(struct endpoint_list *list, const char *host, uint16_t port)
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
    int err = 0;
    for (uint64_t a = ntohl(first.s_addr); a <= ntohl(last.s_addr) && err == 0; a++) {
        struct endpoint e = {.len = sizeof(struct sockaddr_in)};
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        in.sin_addr.s_addr = htonl((uint32_t)a);
        memcpy(&e.address, &in, sizeof(in));
        err = append(list, &e);
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
    return append(list, &e);
}

/* `item` is cut in place. */
static int add_item(struct endpoint_list *list, char *item)
{
    char *colon = strrchr(item, ':');
    if (colon == NULL || colon == item) {
        return ERR_SYNTAX;
    }
    char *end;
    errno = 0;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || errno != 0 || port > UINT16_MAX) {
        return ERR_SYNTAX;
    }
    *colon = '\0';
    if (item[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        return add_ipv6(list, item + 1, (uint16_t)port);
    }
    return add_ipv4_range(list, strcmp(item, "localhost") == 0 ? "127.0.0.1" : item,
                          (uint16_t)port);
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
