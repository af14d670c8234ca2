#include "engine/http/json_tree.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that is taken, as what libjansson makes of it. */
static void is_same(struct slice text)
{
    json_error_t error;
    json_t *tree = json_tree_read(text);
    json_t *same = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (tree == NULL || same == NULL) {
        fail_msg("%.*s: taken: %d; libjansson: %s", (int)text.len, text.data, tree != NULL,
                 same != NULL ? "taken" : error.text);
    }
    /* Both in order: of equal trees the texts differ where the members' order does. */
    char *written = json_dumps(tree, JSON_COMPACT), *also = json_dumps(same, JSON_COMPACT);
    assert_string_equal(written, also);
    free(written);
    free(also);
    json_decref(tree);
    json_decref(same);
}

static void is_left(struct slice text)
{
    json_t *tree = json_tree_read(text);
    if (tree != NULL) {
        fail_msg("%.*s: taken", (int)text.len, text.data);
    }
}

static void text_of_all_kinds_is_read_as_libjansson_reads_it(void **state)
{
    static const char *const texts[] = {
        "{}",
        " \r\n\t{ } \n",
        "{\"a\":{},\"b\":[],\"c\":[[],{}],\"\":[{\"x\":[]}]}",
        "{\"z\":1,\"a\":-0,\"m\":1.5e3,\"t\":true,\"f\":false,\"n\":null}",
        "{ \"a\" : [ 1 , 2 , \"3\" ] , \"b\" : \"\" }",
        "{\"a\":\"short\",\"b\":\"of eight\",\"c\":\"more than eight bytes\"}",
        "{\"a\":\"quote \\\" back \\\\ slash \\/ \\b\\f\\n\\r\\t end\"}",
        "{\"a\":\"\\n\",\"b\":\"line\\nline\\n\",\"c\":\"\\n at its start\"}",
        "{\"a\":\"\\u00e4\\u20AC\\ud83d\\ude00\\uDBFF\\uDFFF\\u0001\\uffff\"}",
        "{\"a\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 and \\n\xc3\xa4\"}",
        "{\"a\":\"del \x7f is text\"}",
        "{\"a\":[[[[[[[[[[[[[[1]]]]]]]]]]]]]]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        is_same(slice_of(texts[i]));
    }
}

static void what_is_wrong_or_uncertain_is_left(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "[]",
        "\"a\"",
        "1",
        "null",
        "{",
        "}",
        "{}}",
        "{} x",
        "{]",
        "[}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\":[1,]}",
        "{\"a\":[,1]}",
        "{\"a\":[1 2]}",
        "{\"a\":[1}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":0x10}",
        "{\"a\":1e999}",
        "{\"a\":99999999999999999999}",
        "{\"a\":tru}",
        "{\"a\":truefalse}",
        "{\"a\":True}",
        "{\"a\":NaN}",
        "{\"a\":\"",
        "{\"a\":\"x",
        "{\"a\":\"x\\",
        "{\"a\":\"x\\\"",
        "{\"a\":\"x\\q\"}",
        "{\"a\":\"x\\u\"}",
        "{\"a\":\"x\\u12\"}",
        "{\"a\":\"x\\u12g4\"}",
        "{\"a\":\"x\\u0000\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\ud800x\"}",
        "{\"a\":\"\\ud800\\n\"}",
        "{\"a\":\"\\ud800\\ud800\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud83d\\u",
        "{\"a\":\"tab \t\"}",
        "{\"a\":\"line \n\"}",
        "{\"a\":\"\x01\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc0\x80\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"\xf4\x90\x80\x80\"}",
        "{\"a\":\"cut \xe2\x82\"}",
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"b\":{\"c\":1,\"c\":{}}}",
        "{\"a\":1,\"a\":",
        "\xef\xbb\xbf{}",
        "{}/**/",
        /* right, but for libjansson alone */
        "{\"\xc3\xa4\":1}",
        "{\"a\\n\":1}",
        "{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        is_left(slice_of(texts[i]));
    }
    assert_null(json_tree_read((struct slice){NULL, 0}));
    is_left(SLICE("{\"a\":\"\0\"}"));
    is_left(SLICE("{\"a\0\":1}"));
    is_left(SLICE("{\"a\":1\0}"));
    is_left(SLICE("{}\0"));
}

/* Nothing is read behind the end: the text stands at the end of its memory, for the sanitizer. */
static void every_cut_of_a_text_is_left(void **state)
{
    static const char text[] =
        "{\"a\":[{\"b\":\"twelve bytes\\u00e4\\ud83d\\ude00\\n\"},true,-1.5]}";
    (void)state;
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *cut = malloc(len + 1);
        assert_non_null(cut);
        memcpy(cut + 1, text, len);
        is_left(slice_make(cut + 1, len));
        free(cut);
    }
    is_same(SLICE(text));
}

/* The last of 1,000 members, or one more. */
static void an_object_of_very_many_members_is_left(void **state)
{
    char text[16000];
    size_t len = 1;
    (void)state;
    text[0] = '{';
    for (int i = 1; i <= 1001; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "\"m%d\":1,", i);
        text[len - 1] = '}';
        if (i == 1000) {
            is_same(slice_make(text, len));
        }
        if (i == 1001) {
            is_left(slice_make(text, len));
        }
        text[len - 1] = ',';
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_all_kinds_is_read_as_libjansson_reads_it),
        cmocka_unit_test(what_is_wrong_or_uncertain_is_left),
        cmocka_unit_test(every_cut_of_a_text_is_left),
        cmocka_unit_test(an_object_of_very_many_members_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
