/* Request targets out of arbitrary bytes: a call is answered with an error, or it has a route, an
 * argument without slash and parameters that the route knows, each once and without control
 * characters. The first byte chooses the method. */
#include "engine/http/api_private.h"
#include "engine/http/http_guard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const params[] = {"limit", "after", "match", NULL};
static const struct api_route routes[] = {
    {.method = "GET", .path = "/v1", .params = NULL},
    {.method = "GET", .path = "/v1/messages", .params = params},
    {.method = "GET", .path = "/v1/messages/:id", .params = params},
    {.method = "DELETE", .path = "/v1/orders/:id", .params = params},
    {.method = "POST", .path = "/v1/flush", .params = params},
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void require_clean(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        require((unsigned char)text.data[i] >= 0x20 && text.data[i] != 0x7f);
    }
}

static void check_params(const struct api_call *c)
{
    require(c->pair_count <= API_PARAMS_MAX);
    for (size_t i = 0; i < c->pair_count; i++) {
        struct slice value;
        require(strcmp(c->pairs[i].name, "limit") == 0 || strcmp(c->pairs[i].name, "after") == 0 ||
                strcmp(c->pairs[i].name, "match") == 0);
        require(api_param(c, c->pairs[i].name, &value) && slice_eq(value, c->pairs[i].value));
        require_clean(value);
    }
}

static void check_call(struct api_call *c, const char *method)
{
    uint64_t number = 0;
    usec_t span = 0;
    require(api_is_answered(c) == (c->status == 400));
    if (!api_is_answered(c)) {
        api_call_route(c, method, routes, sizeof(routes) / sizeof(routes[0]));
    }
    if (api_is_answered(c)) {
        require(c->status == 400 || c->status == 404 || c->status == 405 || c->status == 204);
        require(c->status == 204 || c->out.len > 0);
        return;
    }
    require(c->route != NULL);
    require(memchr(api_argument(c).data, '/', api_argument(c).len) == NULL);
    require_clean(api_argument(c));
    check_params(c);
    require(api_param_number(c, "limit", 1, 10, 5, &number) ? number >= 1 && number <= 10
                                                            : c->status == 400);
    if (!api_is_answered(c)) {
        require(api_param_span(c, "after", 7, &span) ? span >= 0 : c->status == 400);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE", "OPTIONS", "BREW"};
    if (size == 0) {
        return 0;
    }
    struct slice text = slice_make((const char *)data + 1, size - 1);
    char *target = calloc(1, size); /* the method's byte is the NUL's */
    if (target != NULL) {
        memcpy(target, text.data, text.len);
    }
    struct api_call *c = target == NULL ? NULL : api_call_new(target);
    if (c != NULL) {
        check_call(c, methods[data[0] % (sizeof(methods) / sizeof(methods[0]))]);
        api_call_free(c);
    }
    free(target);
    require(!http_guard_host(text, "relay.test") || memchr(text.data, '/', text.len) == NULL);
    require(!http_guard_origin(SLICE("http://"), text)); /* without a host it is nobody's */
    return 0;
}
