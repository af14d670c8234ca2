/* One answer made of several nodes': whose rows, in which order, who is missing, and what is no answer;
 * and what nodes say to each other as text. */
#include "base/error.h"
#include "engine/gather/answer_rows.h"
#include "engine/gather/node_question.h"
#include "engine/http/api_private.h"
#include "tests/unit/unit.h"

#include <string.h>

static void no_handler(struct clerk *k, struct api_call *c)
{
    (void)k;
    (void)c;
}

static const char *const params[] = {"limit", "after", "node", "nodes", NULL};
static const struct api_route routes[] = {
    {.method = "GET",
     .path = "/v1/things",
     .run = no_handler,
     .params = params,
     .reach = API_BY_ID},
    {.method = "GET", .path = "/v1/here", .run = no_handler, .params = params},
};

static struct api_call *call(const char *target)
{
    struct api_call *c = api_call_new(target);
    assert_non_null(c);
    api_call_route(c, "GET", routes, sizeof(routes) / sizeof(routes[0]));
    assert_int_equal(c->status, 0);
    return c;
}

static struct node_answer answer(const char *node, int status, const char *bytes)
{
    return (struct node_answer){
        .node = node, .is_self = node[0] == 'a', .status = status, .bytes = slice_of(bytes)};
}

static struct node_answer silent(const char *node)
{
    return (struct node_answer){.node = node, .bytes = SLICE(""), .error = "silent"};
}

static void gives(const char *target, const struct node_answer *answers, size_t count, bool by_id,
                  int status, const char *wanted)
{
    struct api_call *c = call(target);
    answer_rows_all(c, answers, count, by_id);
    struct slice out = buf_slice(&c->out);
    if (c->status != status || !slice_eq(out, slice_of(wanted))) {
        fail_msg("%d " SLICE_FMT, c->status, SLICE_ARG(out));
    }
    api_call_free(c);
}

static void rows_in_turn(void **state)
{
    (void)state;
    const struct node_answer answers[] = {
        answer("a", 200, "{\"x\":1}\n{}\n{\"end\":true,\"count\":2,\"more\":false,\"n\":3}\n"),
        answer("b", 200, "{\"end\":true,\"count\":0,\"more\":true,\"n\":4,\"t\":0.5}\n"),
        silent("c\""),
        answer("d", 404, "{\"error\":\"none\"}\n"),
        answer("e", 200, "{\"x\":[{\"end\":true}]}\n"),
    };
    gives("/v1/things", answers, 5, false, 200,
          "{\"node\":\"a\",\"x\":1}\n{\"node\":\"a\"}\n{\"node\":\"e\",\"x\":[{\"end\":true}]}\n"
          "{\"end\":true,\"count\":3,\"more\":true,\"n\":7,\"nodes\":["
          "{\"count\":2,\"more\":false,\"n\":3,\"node\":\"a\",\"status\":200},"
          "{\"count\":0,\"more\":true,\"n\":4,\"t\":0.5,\"node\":\"b\",\"status\":200},"
          "{\"node\":\"c\\\"\",\"count\":0,\"error\":\"silent\",\"more\":false},"
          "{\"node\":\"d\",\"count\":0,\"status\":404,\"error\":\"none\",\"more\":false},"
          "{\"node\":\"e\",\"count\":1,\"status\":200,\"more\":false}],\"absent\":[\"c\\\"\"]}\n");
}

/* A receiver's NUL is no reason to leave out all that a node says, and no sum is put for what is none. */
static void odd_rows(void **state)
{
    (void)state;
    const struct node_answer answers[] = {
        answer("a", 200, "{\"said\":\"\\u0000\"}\n{\"end\":true,\"count\":1,\"more\":7}\n")};
    gives("/v1/things", answers, 1, false, 200,
          "{\"node\":\"a\",\"said\":\"\\u0000\"}\n{\"end\":true,\"count\":1,\"more\":false,\"nodes\":["
          "{\"count\":1,\"more\":false,\"node\":\"a\",\"status\":200}],\"absent\":[]}\n");
}

#define ID(n)        "{\"id\":\"000000000000000" n "\"}\n"
#define OUT(name, n) "{\"node\":\"" name "\",\"id\":\"000000000000000" n "\"}\n"
#define END(more)    "{\"end\":true,\"count\":9,\"more\":" more "}\n"

/* The rows alone. */
static void pages(const char *target, const struct node_answer *answers, size_t count,
                  const char *wanted, bool has_more)
{
    struct api_call *c = call(target);
    answer_rows_all(c, answers, count, true);
    struct slice out = buf_slice(&c->out);
    const char *more = has_more ? "\"more\":true,\"nodes\"" : "\"more\":false,\"nodes\"";
    if (out.len < strlen(wanted) || memcmp(out.data, wanted, strlen(wanted)) != 0 ||
        memmem(out.data, out.len, more, strlen(more)) == NULL ||
        slice_find(slice_from(out, strlen(wanted)), '\n') != out.len - strlen(wanted) - 1) {
        fail_msg("%d " SLICE_FMT, c->status, SLICE_ARG(out));
    }
    api_call_free(c);
}

static void rows_by_id(void **state)
{
    (void)state;
    const struct node_answer answers[] = {
        answer("a", 200, ID("1") ID("4") ID("7") END("false")),
        answer("b", 200, ID("2") ID("4") ID("5") END("true")),
    };
    pages("/v1/things", answers, 1, OUT("a", "1") OUT("a", "4") OUT("a", "7"), false);
    /* What b has behind 5 it did not say: 7 may not be given before it. */
    pages("/v1/things", answers, 2,
          OUT("a", "1") OUT("b", "2") OUT("a", "4") OUT("b", "4") OUT("b", "5"), true);
    pages("/v1/things?limit=2", answers, 2, OUT("a", "1") OUT("b", "2"), true);
    /* Rows with one id stay together. */
    pages("/v1/things?limit=3", answers, 2, OUT("a", "1") OUT("b", "2") OUT("a", "4") OUT("b", "4"),
          true);
    const struct node_answer odd[] = {
        answer("a", 200, ID("1") END("false")),
        answer("b", 200, ID("2") ID("2") END("false")),
        answer("c", 200, "{\"id\":7}\n" END("false")),
    };
    pages("/v1/things", odd, 3, OUT("a", "1") OUT("b", "2"), false);
}

static void refusals(void **state)
{
    (void)state;
    const struct node_answer missing[] = {answer("a", 404, "{\"error\":\"none here\"}\n"),
                                          answer("b", 404, "{\"error\":\"x\"}\n"), silent("c")};
    gives("/v1/things", missing, 2, false, 404, "{\"error\":\"none here\",\"code\":\"missing\"}\n");
    gives("/v1/things", missing, 3, false, 503,
          "{\"error\":\"none here; node c did not say: silent\",\"code\":\"unavailable\"}\n");
    const struct node_answer wrong[] = {answer("a", 400, "{\"error\":\"odd\"}\n"), silent("b")};
    gives("/v1/things", wrong, 2, false, 400, "{\"error\":\"odd\",\"code\":\"usage\"}\n");
    const struct node_answer none[] = {answer("a", 200, "[]\n")};
    gives("/v1/things", none, 1, false, 503,
          "{\"error\":\"its answer is not understood\",\"code\":\"unavailable\"}\n");
}

static void of_one(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *bytes;
        int wanted;
        const char *text;
    } cases[] = {
        {200, "{\"x\":1}\n", 200, "{\"x\":1,\"node\":\"b\"}\n"},
        {200, "{\"x\":1}\n{\"end\":true,\"count\":1,\"more\":true,\"cursor\":\"c\"}\n", 200,
         "{\"node\":\"b\",\"x\":1}\n{\"end\":true,\"count\":1,\"more\":true,\"cursor\":\"c\","
         "\"node\":\"b\"}\n"},
        {404, "{\"error\":\"none\"}\n", 404, "{\"error\":\"node b: none\",\"code\":\"missing\"}\n"},
        {200, "{\"x\":1}\n{\"x\n{\"end\":true}\n", 503,
         "{\"error\":\"node b: its answer is not understood\",\"code\":\"unavailable\"}\n"},
        {200, "{\"x\":1}\n{\"x\":1}\n", 503,
         "{\"error\":\"node b: its answer was cut off\",\"code\":\"unavailable\"}\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_call *c = call("/v1/things");
        const struct node_answer a = answer("b", cases[i].status, cases[i].bytes);
        answer_rows_one(c, &a);
        if (c->status != cases[i].wanted ||
            !slice_eq(buf_slice(&c->out), slice_of(cases[i].text))) {
            fail_msg("%zu: %d " SLICE_FMT, i, c->status, SLICE_ARG(buf_slice(&c->out)));
        }
        api_call_free(c);
    }
}

static void targets(void **state)
{
    (void)state;
    struct buf b;
    struct api_call *c = call("/v1/things?nodes=all&after=a%26%3d%C3%a9+b&limit=3&node=x");
    buf_init(&b, 0);
    assert_true(api_is_for_nodes(c));
    api_put_target(c, &b);
    assert_true(slice_eq(buf_slice(&b), SLICE("/v1/things?after=a%26%3D%C3%A9%20b&limit=3")));
    api_call_free(c);
    c = call("/v1/here?node=x"); /* whoever names such a parameter for something else */
    assert_false(api_is_for_nodes(c));
    api_call_free(c);
    buf_fini(&b);
}

static void questions(void **state)
{
    (void)state;
    struct buf b;
    struct node_question q;
    buf_init(&b, 0);
    assert_true(node_question_write(SLICE("/v1/x?a=%22"), SLICE("acme"), &b));
    assert_int_equal(node_question_read(buf_slice(&b), &q), 0);
    assert_string_equal(q.target, "/v1/x?a=%22");
    assert_true(slice_eq(label_slice(&q.tenant), SLICE("acme")));
    buf_clear(&b);
    assert_true(node_question_write(SLICE("/v1"), SLICE(""), &b));
    assert_int_equal(node_question_read(buf_slice(&b), &q), 0);
    assert_int_equal(q.tenant.len, 0);
    /* No bound is not what a tenant that is none becomes. */
    assert_int_equal(
        node_question_read(SLICE("{\"format\":1,\"target\":\"/\",\"tenant\":null}"), &q),
        ERR_SYNTAX);
    assert_int_equal(node_question_read(SLICE("{\"format\":2,\"target\":\"/\"}"), &q), ERR_CORRUPT);
    buf_fini(&b);
}

static void parts(void **state)
{
    (void)state;
    struct buf b;
    struct answer_part p = {
        .number = 3, .state = ANSWER_PART_END, .status = 404, .bytes = SLICE("a\nb")};
    struct answer_part read;
    buf_init(&b, 0);
    assert_true(answer_part_write(&p, &b));
    assert_int_equal(answer_part_read(buf_slice(&b), &read), 0);
    assert_true(read.number == 3 && read.state == ANSWER_PART_END && read.status == 404);
    assert_true(slice_eq(read.bytes, p.bytes));
    for (size_t len = 0; len + p.bytes.len < b.len; len++) { /* cut in its first line */
        assert_int_not_equal(answer_part_read(slice_to(buf_slice(&b), len), &read), 0);
    }
    p.status = 100; /* which a client would wait behind */
    buf_clear(&b);
    assert_true(answer_part_write(&p, &b));
    assert_int_not_equal(answer_part_read(buf_slice(&b), &read), 0);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_turn), cmocka_unit_test(odd_rows), cmocka_unit_test(rows_by_id),
        cmocka_unit_test(refusals),     cmocka_unit_test(of_one),   cmocka_unit_test(targets),
        cmocka_unit_test(questions),    cmocka_unit_test(parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
