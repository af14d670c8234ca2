/* Calls: how a request line is read, which route it leads to, and what answers look like. */
#include "engine/http/api_private.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void no_handler(struct clerk *k, struct api_call *c)
{
    (void)k;
    (void)c;
}

static const char *const params[] = {"limit", "match", "for", NULL};
static const struct api_route routes[] = {
    {.method = "GET", .path = "/v1/things", .run = no_handler, .params = params},
    {.method = "POST", .path = "/v1/things", .run = no_handler},
    {.method = "GET", .path = "/v1/things/:id", .run = no_handler},
    {.method = "DELETE", .path = "/v1/things/:id", .run = no_handler},
    {.method = "POST", .path = "/v1/mail", .run = no_handler, .takes_message = true},
};

static struct api_call *call(const char *method, const char *target)
{
    struct api_call *c = api_call_new(target);
    assert_non_null(c);
    if (!api_is_answered(c)) {
        api_call_route(c, method, routes, sizeof(routes) / sizeof(routes[0]));
    }
    return c;
}

static void answers(const char *method, const char *target, int status, const char *text)
{
    struct api_call *c = call(method, target);
    struct slice out = c->out.len == 0 ? SLICE("") : buf_slice(&c->out);
    if (c->status != status || memmem(out.data, out.len, text, strlen(text)) == NULL) {
        fail_msg("%s %s: %d " SLICE_FMT, method, target, c->status, SLICE_ARG(out));
    }
    api_call_free(c);
}

static void targets(void **state)
{
    (void)state;
    struct slice value;
    struct api_call *c = call("GET", "/v1/things?match=a%20b%2B+%c3%A9&limit=5&for=");
    assert_int_equal(c->status, 0);
    assert_ptr_equal(c->route, &routes[0]);
    assert_true(api_param(c, "match", &value));
    assert_true(slice_eq(value, SLICE("a b+ \xc3\xa9")));
    assert_true(api_param(c, "for", &value) && value.len == 0);
    assert_false(api_param(c, "other", &value));
    api_call_free(c);
    c = call("DELETE", "/v1/things/a%2fb%3F");
    assert_int_equal(c->status, 404); /* a slash is a slash */
    api_call_free(c);
    c = call("DELETE", "/v1/things/a%3Fb?&&");
    assert_ptr_equal(c->route, &routes[3]);
    assert_true(slice_eq(api_argument(c), SLICE("a?b")));
    api_call_free(c);
    c = call("HEAD", "/v1/things");
    assert_ptr_equal(c->route, &routes[0]);
    assert_true(slice_eq(api_argument(c), SLICE("")));
    api_call_free(c);
}

static void bad_targets(void **state)
{
    (void)state;
    char many[2000] = "/v1/things?", pair[16];
    for (int i = 0; i < API_PARAMS_MAX + 1; i++) {
        (void)snprintf(pair, sizeof(pair), "p%d=1&", i);
        (void)strcat(many, pair);
    }
    answers("GET", "/v1/things?%", 400, "bad escape");
    answers("GET", "/v1/things?match=%2", 400, "bad escape");
    answers("GET", "/v1/things?match=%zz", 400, "bad escape");
    answers("GET", "/v1/things?match=%00", 400, "control characters");
    answers("GET", "/v1/things?match=a%0Ab", 400, "control characters");
    answers("GET", "/v1/things%0", 400, "bad escape");
    answers("GET", "/v1/things%7f", 400, "control characters");
    answers("GET", "/v1/things?limit=1&limit=2", 400, "limit: given twice");
    answers("GET", "/v1/things?more=1", 400, "more: no such query parameter of /v1/things");
    answers("GET", "/v1/things/5?limit=1", 400, "limit: no such");
    answers("GET", many, 400, "too many");
    answers("GET", "", 404, "\"missing\"");
    answers("GET", "/", 404, "\"missing\"");
    answers("GET", "/v1/things/", 404, "\"missing\"");
    answers("GET", "/v1/things/a/b", 404, "\"missing\"");
    answers("GET", "http://x/v1/things", 404, "\"missing\"");
    answers("PUT", "/v1/things", 405, "\"method\"");
    answers("GET", "/v1/mail", 405, "this path takes OPTIONS, POST");
}

static void options(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"/v1/things", "OPTIONS, GET, HEAD, POST"},
                                           {"/v1/things/1", "OPTIONS, GET, HEAD, DELETE"},
                                           {"*", "OPTIONS, GET, HEAD, POST, DELETE"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_call *c = call("OPTIONS", cases[i][0]);
        assert_int_equal(c->status, 204);
        assert_string_equal(c->allow, cases[i][1]);
        assert_int_equal(c->out.len, 0);
        api_call_free(c);
    }
    answers("OPTIONS", "/v2", 404, "missing");
}

static void numbers_and_spans(void **state)
{
    (void)state;
    static const char *const bad_numbers[] = {
        "0", "11", "-1", "+1", "1x", "", "1e1", "0x1", "99999999999999999999"};
    char target[100];
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof(bad_numbers) / sizeof(bad_numbers[0]); i++) {
        (void)snprintf(target, sizeof(target), "/v1/things?limit=%s", bad_numbers[i]);
        struct api_call *c = call("GET", target);
        assert_false(api_param_number(c, "limit", 1, 10, 3, &n));
        assert_int_equal(c->status, 400);
        api_call_free(c);
    }
    struct api_call *c = call("GET", "/v1/things?limit=10");
    assert_true(api_param_number(c, "limit", 1, 10, 3, &n) && n == 10);
    assert_true(api_param_number(c, "match", 1, 10, 3, &n) && n == 3);
    assert_true(api_param_limit(c, &n) && n == 10);
    api_call_free(c);
    usec_t span = 0;
    c = call("GET", "/v1/things?for=soon");
    assert_true(api_param_span(c, "match", 5, &span) && span == 5);
    assert_false(api_param_span(c, "for", 5, &span));
    assert_int_equal(c->status, 400);
    api_call_free(c);
}

static struct api_call *posted(const char *target, const char *type, const char *body)
{
    struct api_call *c = call("POST", target);
    (void)snprintf(c->type, sizeof(c->type), "%s", type);
    buf_append_str(&c->in, body);
    api_call_take_body(c);
    return c;
}

static void bodies(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{", "[]", "5", "\"x\"", "{} {}", "nothing", "{\"a\":1,\"a\":2}", "{\"a\":\xff}", "\0"};
    struct api_call *c = posted("/v1/things", "application/json", "{\"a\": 5}");
    assert_int_equal(c->status, 0);
    assert_int_equal(json_integer_value(json_object_get(api_body(c), "a")), 5);
    assert_true(slice_eq(api_bytes(c), SLICE("{\"a\": 5}")));
    api_call_free(c);
    c = posted("/v1/things", "", "");
    assert_int_equal(c->status, 0);
    assert_null(api_body(c));
    api_call_free(c);
    c = posted("/v1/mail", "message/rfc822", "{Subject: x");
    assert_int_equal(c->status, 0);
    assert_null(api_body(c));
    assert_string_equal(api_content_type(c), "message/rfc822");
    api_call_free(c);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) - 1; i++) {
        c = posted("/v1/things", "application/json", bad[i]);
        if (c->status != 400) {
            fail_msg("%s", bad[i]);
        }
        api_call_free(c);
    }
}

/* {"a":[X,X,...]} with so many X and a comma behind each; the status of the call. */
static int unfolded(const char *item, size_t count)
{
    struct buf text;
    buf_init(&text, 0);
    buf_append_str(&text, "{\"a\":[");
    for (size_t i = 0; i < count; i++) {
        buf_append_str(&text, item);
        buf_append_char(&text, ',');
    }
    buf_append_str(&text, "0]}");
    buf_append_char(&text, '\0');
    assert_false(text.failed);
    struct api_call *c = posted("/v1/mail", "application/json", text.data);
    int status = c->status;
    api_call_forget_body(c);
    assert_null(api_body(c));
    api_call_free(c);
    buf_fini(&text);
    return status;
}

static void bodies_that_unfold(void **state)
{
    (void)state;
    assert_int_equal(unfolded("[]", 249000), 0);
    assert_int_equal(unfolded("[]", 250000), 413);
    assert_int_equal(unfolded("{}", 250000), 413);
    assert_int_equal(unfolded("1", 1000000), 0);
    assert_int_equal(unfolded("1", 1000001), 413);
    assert_int_equal(unfolded("\"[[,,{{\\\",\\\\\"", 250000), 0); /* all of it is text */
    struct api_call *c = call("POST", "/v1/things");
    assert_int_equal(api_call_body_max(c, 1 << 20), 65536);
    assert_int_equal(api_call_body_max(c, 1024), 1024);
    api_call_free(c);
    c = call("POST", "/v1/mail");
    assert_int_equal(api_call_body_max(c, 1 << 20), 1 << 20);
    api_call_free(c);
}

static void said(struct api_call *c, int status, const char *type, const char *text)
{
    assert_true(api_is_answered(c));
    assert_int_equal(c->status, status);
    assert_string_equal(c->content_type, type);
    buf_append_char(&c->out, '\0');
    assert_string_equal(c->out.data, text);
    api_call_free(c);
}

static void lists_and_objects(void **state)
{
    (void)state;
    struct api_call *c = call("GET", "/v1/things");
    json_t *o = json_object();
    api_set_text(o, "text", SLICE("a\xff\"\n"));
    api_set_number(o, "n", 1ULL << 40);
    api_set_time(o, "t", 1700000000123456);
    assert_false(api_is_answered(c));
    api_put(c, o);
    api_put(c, json_object());
    assert_int_equal(api_count(c), 2);
    api_end_with(c, true, json_pack("{s:i}", "took", 1));
    said(c, 200, "application/x-ndjson",
         "{\"text\":\"a?\\\"\\n\",\"n\":1099511627776,\"t\":1700000000.123456}\n{}\n"
         "{\"end\":true,\"count\":2,\"more\":true,\"took\":1}\n");
    c = call("GET", "/v1/things");
    api_end(c, false);
    said(c, 200, "application/x-ndjson", "{\"end\":true,\"count\":0,\"more\":false}\n");
    c = call("GET", "/v1/things");
    api_object(c, 201, json_pack("{s:s}", "id", "7"));
    said(c, 201, "application/json", "{\"id\":\"7\"}\n");
    c = call("GET", "/v1/things");
    api_put(c, json_object()); /* what was put before an error is forgotten */
    api_error(c, 422, "wrong", "%s is \xff", "it");
    said(c, 422, "application/json", "{\"error\":\"it is ?\",\"code\":\"wrong\"}\n");
    c = call("GET", "/v1/things");
    api_raw(c, 200, "text/plain", SLICE("a\nb"));
    said(c, 200, "text/plain", "a\nb");
}

static void too_long(void **state)
{
    (void)state;
    struct api_call *c = call("GET", "/v1/things");
    size_t len = 1 << 20, lines = 0;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'x', len);
    while (!api_is_long(c)) {
        api_put(c, json_pack("{s:o}", "text", api_text(slice_make(text, len))));
        assert_true(++lines < 100);
    }
    api_end(c, true);
    assert_int_equal(c->status, 200);
    while (!c->out.failed) {
        api_put(c, json_pack("{s:o}", "text", api_text(slice_make(text, len))));
    }
    api_end(c, true);
    free(text);
    said(c, 503, "application/json",
         "{\"error\":\"out of memory, or the answer is too large\",\"code\":\"unavailable\"}\n");
    c = call("GET", "/v1/things");
    api_put(c, NULL);
    api_end(c, false);
    assert_int_equal(c->status, 503);
    api_call_free(c);
    api_call_free(NULL);
}

static void deserted(void **state)
{
    (void)state;
    int ends[2];
    struct api_call *c = call("GET", "/v1/things");
    assert_false(api_is_deserted(c)); /* not known */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    c->peer = ends[0];
    assert_false(api_is_deserted(c));
    assert_int_equal(write(ends[1], "G", 1), 1); /* the next request */
    assert_false(api_is_deserted(c));
    char next;
    assert_int_equal(read(ends[0], &next, 1), 1);
    (void)close(ends[1]);
    assert_true(api_is_deserted(c));
    (void)close(ends[0]);
    api_call_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets),
        cmocka_unit_test(bad_targets),
        cmocka_unit_test(options),
        cmocka_unit_test(numbers_and_spans),
        cmocka_unit_test(bodies),
        cmocka_unit_test(lists_and_objects),
        cmocka_unit_test(too_long),
        cmocka_unit_test(deserted),
        cmocka_unit_test(bodies_that_unfold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
