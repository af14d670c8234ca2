/* Bodies: the examples of RFC 6376 and RFC 8463, and that pieces of any size give the same hash. */
#include "base/buf.h"
#include "net/base64.h"
#include "net/dkim/dkim_body.h"
#include "tests/unit/unit.h"

#include <openssl/evp.h>
#include <string.h>

static void hash_body(enum dkim_canon canon, struct slice body, size_t piece,
                      uint8_t ret[DKIM_HASH_BYTES])
{
    struct dkim_body b;
    assert_int_equal(dkim_body_init(&b, canon), 0);
    for (size_t at = 0; at < body.len; at += piece) {
        size_t left = body.len - at;
        dkim_body_update(&b, slice_make(body.data + at, left < piece ? left : piece));
    }
    assert_int_equal(dkim_body_finish(&b, ret), 0);
    dkim_body_fini(&b);
}

/* A body, and what is hashed of it in each form. */
static const struct {
    const char *body, *simple, *relaxed;
} rows[] = {
    /* section 3.4.5 */
    {" C \r\nD \t E\r\n\r\n\r\n", " C \r\nD \t E\r\n", " C\r\nD E\r\n"},
    /* section 3.4.3: "If there is no body or no trailing CRLF, a CRLF is added"; 3.4.4 */
    {"", "\r\n", ""},
    {"\r\n", "\r\n", ""},
    {"\r\n\r\n\r\n", "\r\n", ""},
    {"a", "a\r\n", "a\r\n"},
    {"a\r\n", "a\r\n", "a\r\n"},
    {" \t \r\n \r\n", " \t \r\n \r\n", ""},
    {" ", " \r\n", ""},
    {"a \t", "a \t\r\n", "a\r\n"},
    {"a\r\n\r\n b\r\n \r\n", "a\r\n\r\n b\r\n \r\n", "a\r\n\r\n b\r\n"},
    {"\r\n\r\na", "\r\n\r\na\r\n", "\r\n\r\na\r\n"},
    /* CR and LF alone are bytes */
    {"a\rb\r\n", "a\rb\r\n", "a\rb\r\n"},
    {"a\nb\n", "a\nb\n\r\n", "a\nb\n\r\n"},
    {"a\r", "a\r\r\n", "a\r\r\n"},
    {"a \r\r\n", "a \r\r\n", "a \r\r\n"},
    {"a\r\r\r\n\r\n", "a\r\r\r\n", "a\r\r\r\n"},
    {"\xc3\xa4 \t\xff\r\n", "\xc3\xa4 \t\xff\r\n", "\xc3\xa4 \xff\r\n"},
};

static void canonical_bodies_are_those_of_the_standard(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *wanted[] = {[DKIM_SIMPLE] = rows[i].simple, [DKIM_RELAXED] = rows[i].relaxed};
        for (enum dkim_canon canon = DKIM_SIMPLE; canon <= DKIM_RELAXED; canon++) {
            uint8_t hash[DKIM_HASH_BYTES], right[DKIM_HASH_BYTES];
            assert_int_equal(
                EVP_Digest(wanted[canon], strlen(wanted[canon]), right, NULL, EVP_sha256(), NULL),
                1);
            for (size_t piece = 1; piece <= 4; piece++) {
                hash_body(canon, slice_of(rows[i].body), piece, hash);
                if (memcmp(hash, right, sizeof(hash)) != 0) {
                    fail_msg("row %zu, form %d, pieces of %zu", i, (int)canon, piece);
                }
            }
        }
    }
}

/* RFC 8463 appendix A.3 and RFC 6376 appendix A.2 have this body, and the hash of it. */
static void the_published_hash_is_found(void **state)
{
    struct slice body = SLICE("Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n");
    uint8_t hash[DKIM_HASH_BYTES];
    char text[BASE64_ENCODED_LEN(DKIM_HASH_BYTES) + 1] = "";
    hash_body(DKIM_RELAXED, body, 7, hash);
    (void)base64_encode(slice_make((const char *)hash, sizeof(hash)), text);
    assert_string_equal(text, "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=");
}

/* Bodies larger than what is staged, whose pieces end anywhere. */
static void large_bodies_do_not_depend_on_their_pieces(void **state)
{
    struct buf body;
    buf_init(&body, 0);
    for (unsigned i = 0; i < 3000; i++) {
        buf_printf(&body, "%*s%u \t%s", (int)(i % 90), "", i, i % 7 == 0 ? "\r\n\r\n" : "x\r\n");
    }
    char *run = buf_reserve(&body, 20000);
    assert_non_null(run);
    memset(run, 'y', 20000);
    body.len += 20000;
    for (enum dkim_canon canon = DKIM_SIMPLE; canon <= DKIM_RELAXED; canon++) {
        uint8_t whole[DKIM_HASH_BYTES], hash[DKIM_HASH_BYTES];
        hash_body(canon, buf_slice(&body), body.len, whole);
        for (size_t piece = 1; piece < 9000; piece = piece * 3 + 1) {
            hash_body(canon, buf_slice(&body), piece, hash);
            assert_memory_equal(hash, whole, sizeof(hash));
        }
    }
    buf_fini(&body);
}

/* Every text of up to six of the bytes that matter: whole it may go a way that single bytes never go. */
static void short_bodies_do_not_depend_on_their_pieces(void **state)
{
    static const char bytes[] = "a \t\r\n";
    char body[6];
    unsigned count = 5;
    for (size_t len = 1; len <= sizeof(body); len++, count *= 5) {
        for (unsigned number = 0; number < count; number++) {
            for (unsigned i = 0, rest = number; i < len; i++, rest /= 5) {
                body[i] = bytes[rest % 5];
            }
            for (enum dkim_canon canon = DKIM_SIMPLE; canon <= DKIM_RELAXED; canon++) {
                uint8_t whole[DKIM_HASH_BYTES], hash[DKIM_HASH_BYTES];
                hash_body(canon, slice_make(body, len), len, whole);
                hash_body(canon, slice_make(body, len), 1, hash);
                assert_memory_equal(hash, whole, sizeof(hash));
            }
        }
    }
}

/* The same between bytes that stand for themselves, as several of these are looked at together: at each
 * place of such a group, and with bytes above ASCII and controls. */
static void white_space_among_other_bytes_does_not_depend_on_pieces(void **state)
{
    static const char alphabets[][5] = {{'a', ' ', '\t', '\r', '\n'},
                                        {'\xa0', ' ', '\x1f', '\r', '\n'}};
    char body[56];
    for (unsigned at = 0; at < 17; at++) {
        for (unsigned number = 0; number < 2 * 625; number++) {
            memset(body, at % 2 == 0 ? 'x' : '\xe4', sizeof(body));
            for (unsigned i = 0, rest = number / 2; i < 4; i++, rest /= 5) {
                body[1 + at + i] = alphabets[number % 2][rest % 5];
            }
            for (enum dkim_canon canon = DKIM_SIMPLE; canon <= DKIM_RELAXED; canon++) {
                uint8_t whole[DKIM_HASH_BYTES], hash[DKIM_HASH_BYTES];
                hash_body(canon, slice_make(body, sizeof(body)), sizeof(body), whole);
                hash_body(canon, slice_make(body, sizeof(body)), 1, hash);
                assert_memory_equal(hash, whole, sizeof(hash));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_bodies_are_those_of_the_standard),
        cmocka_unit_test(the_published_hash_is_found),
        cmocka_unit_test(large_bodies_do_not_depend_on_their_pieces),
        cmocka_unit_test(short_bodies_do_not_depend_on_their_pieces),
        cmocka_unit_test(white_space_among_other_bytes_does_not_depend_on_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
