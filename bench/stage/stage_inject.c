/* Injection of one message: the JSON of a request to what the spool is given. Called by
 * sluice-instructions. Does what engine/http does between the socket and the intake, but for the
 * Received field and the answer. */
#include "base/packed.h"
#include "bench/stage/stage.h"
#include "engine/http/api_private.h"
#include "engine/http/inject_request.h"

#define STAGE    "inject"
#define NOW      ((usec_t)1793491200 * USEC_PER_SEC) /* 2026-11-01T00:00:00Z */
#define PER_CALL 100                                 /* messages of a batch */

/* Text without its CRs as a JSON string. */
static void append_json_text(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\n') {
            buf_append_str(out, "\\n");
        } else if (c == '"' || c == '\\') {
            buf_append_char(out, '\\');
            buf_append_char(out, c);
        } else if (c != '\r') {
            buf_append_char(out, c);
        }
    }
    buf_append_char(out, '"');
}

static void append_own_members(struct buf *out, const struct stage_message *m)
{
    buf_printf(out, "\"recipients\":[\"%s\"],\"headers\":{\"Subject\":\"An injected message\"},",
               m->recipient);
    buf_append_str(out, "\"text\":");
    append_json_text(out, buf_slice(&m->content));
}

static void write_body(struct buf *out, const struct stage_message *m, size_t count)
{
    if (count == 1) {
        buf_printf(out, "{\"from\":\"%s\",", m->sender);
        append_own_members(out, m);
        buf_append_char(out, '}');
        return;
    }
    buf_printf(out, "{\"defaults\":{\"from\":\"%s\",\"tenant\":\"acme\"},\"messages\":[",
               m->sender);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(out, i == 0 ? "{" : ",{");
        append_own_members(out, m);
        buf_append_char(out, '}');
    }
    buf_append_str(out, "]}");
}

static bool is_composed(const struct stage_message *m, const struct composition *c)
{
    struct slice rest = buf_slice(&c->packed), address;
    struct slice text = buf_slice(&m->content), content = buf_slice(&c->content);
    return c->recipient_count == 1 && packed_next(&rest, &address) &&
           slice_eq(address, slice_of(m->recipient)) && content.len > text.len &&
           slice_eq(slice_from(content, content.len - text.len), text);
}

static bool compose_each(const struct stage_message *m, struct api_call *c,
                         const struct inject_request *request)
{
    const struct compose_options options = {
        .hostname = SLICE("relay.test"), .now = NOW, .size_limit = 1 << 20, .hop_limit = 50};
    struct compose_mistakes mistakes = {.count = 0};
    bool is_good = true;
    (void)c;
    for (size_t i = 0; is_good && i < request->count; i++) {
        struct composition made;
        composition_init(&made);
        is_good = inject_request_compose(request, i, &options, i, &mistakes, &made) == 0 &&
                  mistakes.count == 0 && is_composed(m, &made);
        composition_fini(&made);
    }
    return is_good || stage_fail(STAGE, "another message came out than went in");
}

static bool post_once(const struct stage_message *m, struct slice body)
{
    static const struct api_route route = {
        .method = "POST", .path = "/v1/inject", .takes_message = true};
    struct inject_request request;
    struct api_call *c = api_call_new("/v1/inject");
    if (c == NULL) {
        return stage_fail(STAGE, "out of memory");
    }
    c->route = &route;
    buf_append_slice(&c->in, body);
    api_call_take_body(c);
    bool is_good = !api_is_answered(c) && inject_request_init(&request, c, PER_CALL);
    if (is_good) {
        is_good = compose_each(m, c, &request);
        inject_request_fini(&request);
    }
    api_call_forget_body(c);
    api_call_free(c);
    return is_good;
}

static bool inject(const struct stage_message *m, uint64_t messages, size_t per_call)
{
    struct buf body;
    buf_init(&body, 0);
    write_body(&body, m, per_call);
    bool is_good = !body.failed;
    for (uint64_t i = 0; is_good && i < messages; i += per_call) {
        is_good = post_once(m, buf_slice(&body));
    }
    buf_fini(&body);
    return is_good;
}

bool stage_inject(const struct stage_message *m, uint64_t messages)
{
    return inject(m, messages, 1);
}

bool stage_inject_batch(const struct stage_message *m, uint64_t messages)
{
    return inject(m, messages, PER_CALL);
}
