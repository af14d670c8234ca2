/* The hash that is made while content arrives: the same however the content is cut, and only for mail
 * that a key may sign. */
#include "engine/key/body_tap.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/key_files.h"

static struct key_files files;

static int load_ring(void **state)
{
    struct buf pem;
    key_files_init(&files);
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    key_files_put(&files, "e", buf_slice(&pem), 0600);
    buf_fini(&pem);
    return key_files_load(&files,
                          "dkim \"a._domainkey.a.test\" { key = \"@/e\" }\n"
                          "dkim \"s._domainkey.b.test\" { key = \"@/e\"\n"
                          " canonicalization = \"simple/simple\" }\n",
                          NULL);
}

static int unload_ring(void **state)
{
    key_files_unload(&files);
    key_files_fini(&files);
    return 0;
}

static unsigned hash_pieces(struct slice content, size_t piece, unsigned wanted,
                            uint8_t ret[2][DKIM_HASH_BYTES])
{
    struct body_tap *t = body_tap_new();
    assert_non_null(t);
    if (wanted != 0) {
        body_tap_want(t, wanted);
    }
    while (content.len > 0) {
        size_t len = content.len < piece ? content.len : piece;
        body_tap_feed(t, files.ring, slice_to(content, len));
        content = slice_from(content, len);
    }
    unsigned forms = body_tap_finish(t, ret);
    body_tap_free(t);
    return forms;
}

static void hash_whole(struct slice body, enum dkim_canon canon, uint8_t ret[DKIM_HASH_BYTES])
{
    struct dkim_body b;
    assert_int_equal(dkim_body_init(&b, canon), 0);
    dkim_body_update(&b, body);
    assert_int_equal(dkim_body_finish(&b, ret), 0);
    dkim_body_fini(&b);
}

static void any_pieces_give_the_same_hash(void **state)
{
    static const struct {
        const char *header, *body;
    } rows[] = {
        {"From: a@a.test\r\n\r\n", "Hello  you \r\n.\r\n\r\n"},
        {"From: a@a.test\r\n\r\n", ""},
        {"From: a@a.test\r\n", ""},
        {"From: a@a.test", ""},
        {"\r\n", "no header\r\n"},
        {"\r\n", "\r\n"},
        {"From: a@a.test\r\n\r\n", "\r\n\r\nFrom: b\r\n\r\nno end"},
        {"X: \r\r\n\n\r\n\r\n", "odd\r\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        (void)snprintf(text, sizeof(text), "%s%s", rows[i].header, rows[i].body);
        struct slice content = slice_of(text);
        assert_int_equal(body_tap_find(content), strlen(rows[i].header));
        /* A header without a field cannot be signed, and is seen only in one piece. */
        for (size_t piece = i == 4 || i == 5 ? 2 : 1; piece <= content.len; piece++) {
            uint8_t made[2][DKIM_HASH_BYTES], wanted[DKIM_HASH_BYTES];
            assert_int_equal(hash_pieces(content, piece, 3, made), 3);
            for (unsigned form = DKIM_SIMPLE; form <= DKIM_RELAXED; form++) {
                hash_whole(slice_of(rows[i].body), (enum dkim_canon)form, wanted);
                assert_memory_equal(made[form], wanted, DKIM_HASH_BYTES);
            }
        }
    }
}

static void from_says_which_forms(void **state)
{
    static const struct {
        const char *content;
        unsigned forms;
    } rows[] = {
        {"From: a@a.test\r\n\r\nx\r\n", 1U << DKIM_RELAXED},
        {"From: a@sub.b.test\r\n\r\nx\r\n", 1U << DKIM_SIMPLE},
        {"From: a@b.test, a@a.test\r\n\r\nx\r\n", 3},
        {"From: a@c.test\r\n\r\nx\r\n", 0},
        {"From: a@a.test@a.test\r\n\r\nx\r\n", 0},
        {"Subject: x\r\n\r\nFrom: a@a.test\r\n", 0},
        {"\r\nFrom: a@a.test\r\n", 0},
    };
    uint8_t made[2][DKIM_HASH_BYTES];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice content = slice_of(rows[i].content);
        assert_int_equal(hash_pieces(content, content.len, 0, made), rows[i].forms);
        /* What is not known in time is hashed in every form that there is. */
        assert_int_equal(hash_pieces(content, 1, 0, made), 3);
    }
    struct body_tap *t = body_tap_new();
    body_tap_feed(t, NULL, SLICE("From: a@a.test\r\n\r\nx"));
    assert_int_equal(body_tap_finish(t, made), 0);
    body_tap_free(t);
    t = body_tap_new();
    assert_int_equal(body_tap_finish(t, made), 0);
    body_tap_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_pieces_give_the_same_hash),
        cmocka_unit_test(from_says_which_forms),
    };
    return cmocka_run_group_tests(tests, load_ring, unload_ring);
}
