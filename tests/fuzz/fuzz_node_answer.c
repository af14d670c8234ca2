/* What other nodes say when they are asked, out of arbitrary bytes: up to three answers, with 0x1e between
 * them, become one answer of lines that are objects, each of one of these nodes, with a last line that
 * counts them; or an error. The first byte chooses how rows are put together. The bytes are also read
 * as a question and as a part of an answer. */
#include "engine/gather/answer_rows.h"
#include "engine/gather/node_question.h"
#include "engine/http/api_private.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const params[] = {"limit", "nodes", NULL};
static const struct api_route routes[] = {
    {.method = "GET", .path = "/v1/x", .params = params, .reach = API_BY_ID},
};
static const char *const names[] = {"a", "b", "c"};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_named(const json_t *o)
{
    const char *node = json_string_value(json_object_get(o, "node"));
    return node != NULL && strlen(node) == 1 && node[0] >= 'a' && node[0] <= 'c';
}

static void check_list(struct slice out)
{
    json_int_t rows = 0;
    bool has_ended = false;
    while (out.len > 0) {
        size_t lf = slice_find(out, '\n');
        require(lf < out.len && !has_ended);
        json_t *o = json_loadb(out.data, lf, JSON_REJECT_DUPLICATES, NULL);
        require(json_is_object(o));
        has_ended = json_is_array(json_object_get(o, "nodes")) && lf + 1 == out.len;
        require(has_ended || is_named(o));
        require(!has_ended || json_integer_value(json_object_get(o, "count")) == rows);
        rows++;
        json_decref(o);
        out = slice_from(out, lf + 1);
    }
    require(has_ended);
}

static void put_together(uint8_t how, struct slice bytes)
{
    struct node_answer answers[3];
    size_t count = 0;
    for (; count < 3 && (count == 0 || bytes.len > 0); count++) {
        size_t end = slice_find(bytes, 0x1e);
        answers[count] = (struct node_answer){.node = names[count],
                                              .is_self = count == 0,
                                              .status = (how & 4) != 0 && count == 1 ? 404 : 200,
                                              .bytes = slice_to(bytes, end)};
        bytes = slice_from(bytes, end < bytes.len ? end + 1 : end);
    }
    struct api_call *c = api_call_new((how & 2) != 0 ? "/v1/x?limit=2" : "/v1/x?nodes=all");
    require(c != NULL);
    api_call_route(c, "GET", routes, 1);
    if ((how & 8) != 0) {
        answer_rows_one(c, &answers[0]);
    } else {
        answer_rows_all(c, answers, count, (how & 1) != 0);
    }
    require(c->status == 200 || c->status == 404 || c->status == 503);
    if (c->status == 200 && (how & 8) == 0) {
        check_list(buf_slice(&c->out));
    }
    api_call_free(c);
}

static void read_as_message(struct slice bytes)
{
    struct node_question *q = malloc(sizeof(*q));
    struct answer_part p;
    require(q != NULL);
    if (node_question_read(bytes, q) == 0) {
        require(q->target[0] == '/' && strlen(q->target) <= NODE_QUESTION_TARGET_MAX);
    }
    free(q);
    if (answer_part_read(bytes, &p) == 0) {
        require(p.bytes.len < bytes.len && p.state <= ANSWER_PART_END);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        struct slice bytes = slice_make((const char *)data + 1, size - 1);
        put_together(data[0], bytes);
        read_as_message(bytes);
    }
    return 0;
}
