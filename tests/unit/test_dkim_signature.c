/* The field that is written: its text, which fields it names, and what it refuses. That others verify
 * it is checked by tests/integration/test_dkim_verified.py. */
#include "base/error.h"
#include "net/dkim/dkim_signature.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

/* The message of RFC 8463 appendix A.3 and RFC 6376 appendix A.1. */
static const char message_header[] =
    "From: Joe SixPack <joe@football.example.com>\r\n"
    "To: Suzie Q <suzie@shopping.example.net>\r\n"
    "Subject: Is dinner ready?\r\n"
    "Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n"
    "Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n";
static const char message_body[] =
    "Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";

static struct dkim_key *ed25519, *rsa;
static uint8_t body_hash[DKIM_HASH_BYTES];

static int make_keys(void **state)
{
    struct buf pem;
    struct dkim_body body;
    enum dkim_key_problem problem;
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    int err = dkim_key_read(buf_slice(&pem), &ed25519, &problem);
    buf_clear(&pem);
    dkim_keys_put_rsa(2048, &pem);
    err = err != 0 ? err : dkim_key_read(buf_slice(&pem), &rsa, &problem);
    buf_fini(&pem);
    err = err != 0 ? err : dkim_body_init(&body, DKIM_RELAXED);
    dkim_body_update(&body, slice_of(message_body));
    err = err != 0 ? err : dkim_body_finish(&body, body_hash);
    dkim_body_fini(&body);
    return err;
}

static int free_keys(void **state)
{
    dkim_key_free(ed25519);
    dkim_key_free(rsa);
    return 0;
}

static struct dkim_terms default_terms(void)
{
    return (struct dkim_terms){
        .domain = SLICE("football.example.com"),
        .selector = SLICE("brisbane"),
        .header = DKIM_RELAXED,
        .body = DKIM_RELAXED,
        .names = dkim_default_names,
        .oversigned = dkim_default_oversigned,
        .name_count = dkim_default_name_count,
        .oversigned_count = dkim_default_oversigned_count,
        .signed_at = 1528637909,
    };
}

static int sign(const struct dkim_key *key, const struct dkim_terms *terms, struct slice header,
                struct buf *out)
{
    struct dkim_header h;
    assert_int_equal(dkim_header_parse(header, &h), 0);
    uint8_t hash[DKIM_HASH_BYTES], signature[DKIM_SIGNATURE_MAX];
    size_t len = 0;
    int err = dkim_draft(key, terms, &h, body_hash, out, hash);
    if (err == 0) {
        assert_int_equal(dkim_key_sign(key, hash, signature, &len), 0);
        dkim_put_signature(slice_make((const char *)signature, len), out);
    }
    dkim_header_fini(&h);
    return err;
}

/* Ed25519 always makes the same signature of the same bytes; python3-dkim verified this one. */
static void the_published_message_is_signed(void **state)
{
    static const char wanted[] =
        "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n"
        "\td=football.example.com; s=brisbane; t=1528637909;\r\n"
        "\th=From:From:To:To:Cc:Subject:Subject:Date:Date:Message-ID:Message-ID:\r\n"
        "\tReply-To:MIME-Version:Content-Type:Content-Transfer-Encoding;\r\n"
        "\tbh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n"
        "\tb=RZq47hjD7Ag8wG/Vaxix2fid9cvOXOQZ9lactyf12NO6hs1pwzrPuyRmhEoQG/k70e2knNsHQ\r\n"
        "\tv7I8rBqg/CLAw==\r\n";
    struct dkim_terms terms = default_terms();
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(sign(ed25519, &terms, slice_of(message_header), &out), 0);
    buf_append_char(&out, '\0');
    assert_string_equal(out.data, wanted);
    buf_fini(&out);
}

/* The value of h= without its folds. */
static void read_names(const struct buf *field, char *ret)
{
    const char *from = memmem(field->data, field->len, "h=", 2);
    assert_non_null(from);
    for (from += 2; *from != ';'; from++) {
        if (*from != '\r' && *from != '\n' && *from != '\t') {
            *ret++ = *from;
        }
    }
    *ret = '\0';
}

static void fields_are_named_as_often_as_they_are_signed(void **state)
{
    static const struct slice one[] = {SLICE("Received"), SLICE("x-a"), SLICE("From"), SLICE("X-A"),
                                       SLICE("Subject")};
    static const struct slice more[] = {SLICE("To"), SLICE("Subject"), SLICE("to")};
    static const char header[] = "X-A: 1\r\nFrom: a@b\r\nx-a: 2\r\nSubject: s\r\nX-B: 3\r\n";
    static const struct {
        size_t name_count, oversigned_count;
        const char *wanted;
    } rows[] = {
        {0, 0, "From"},
        {2, 0, "From:x-a:x-a"},
        {5, 0, "x-a:x-a:From:Subject"},
        {5, 3, "To:Subject:Subject:x-a:x-a:From"},
        {0, 2, "From:To:Subject:Subject"},
    };
    struct dkim_terms terms = default_terms();
    terms.names = one;
    terms.oversigned = more;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out;
        char names[200];
        buf_init(&out, 0);
        terms.name_count = rows[i].name_count;
        terms.oversigned_count = rows[i].oversigned_count;
        assert_int_equal(sign(ed25519, &terms, slice_of(header), &out), 0);
        read_names(&out, names);
        assert_string_equal(names, rows[i].wanted);
        buf_fini(&out);
    }
}

/* No line is longer than RFC 5322 asks for, whatever is in it but a domain that is longer itself. */
static void lines_are_short(void **state)
{
    struct dkim_terms terms = default_terms();
    char domain[64];
    terms.expires_at = terms.signed_at + 1;
    for (size_t len = 1; len < sizeof(domain); len++) {
        memset(domain, 'd', len);
        terms.domain = terms.selector = slice_make(domain, len);
        struct buf out;
        buf_init(&out, 0);
        assert_int_equal(sign(rsa, &terms, slice_of(message_header), &out), 0);
        struct slice rest = buf_slice(&out);
        while (rest.len > 0) {
            size_t end = slice_find(rest, '\n');
            assert_true(end < rest.len && end <= 79 && rest.data[end - 1] == '\r');
            rest = slice_from(rest, end + 1);
            assert_true(rest.len == 0 || rest.data[0] == '\t');
        }
        assert_non_null(memmem(out.data, out.len, "x=1528637910;", 13));
        buf_fini(&out);
    }
}

static void what_cannot_be_signed_is_refused_whole(void **state)
{
    struct dkim_terms terms = default_terms();
    struct buf out, many;
    buf_init(&out, 0);
    buf_append_str(&out, "before");
    assert_int_equal(sign(rsa, &terms, SLICE("To: a@b\r\nX-From: a@b\r\n"), &out), ERR_MISSING);
    buf_init(&many, 0);
    buf_append_str(&many, "From: a@b\r\n");
    for (unsigned i = 0; i < DKIM_INSTANCES_MAX; i++) {
        buf_append_str(&many, "Subject: again\r\n");
    }
    assert_int_equal(sign(rsa, &terms, buf_slice(&many), &out), ERR_LIMIT);
    assert_true(slice_eq(buf_slice(&out), SLICE("before")));
    buf_fini(&many);
    buf_fini(&out);
    buf_init(&out, 100); /* a buffer that refuses to grow */
    assert_int_equal(sign(rsa, &terms, slice_of(message_header), &out), -ENOMEM);
    buf_fini(&out);
}

static void what_signed_is_read(void **state)
{
    struct dkim_terms terms = default_terms();
    struct dkim_signer s;
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(sign(rsa, &terms, slice_of(message_header), &out), 0);
    buf_append_str(&out, "Feedback-ID: d=not; s=this\r\n");
    assert_int_equal(sign(ed25519, &terms, slice_of(message_header), &out), 0);
    struct slice rest = buf_slice(&out);
    for (int i = 0; i < 2; i++) {
        assert_true(dkim_signature_next(&rest, &s));
        assert_true(slice_eq(s.domain, terms.domain) && slice_eq(s.selector, terms.selector));
        assert_true(slice_eq(s.algorithm, i == 0 ? SLICE("rsa-sha256") : SLICE("ed25519-sha256")));
    }
    assert_false(dkim_signature_next(&rest, &s));
    for (size_t cut = 0; cut <= out.len; cut++) { /* whatever there is of them: no read beyond */
        char *part = test_malloc(cut + 1);
        memcpy(part, out.data, cut);
        rest = slice_make(part, cut);
        while (dkim_signature_next(&rest, &s)) {
            assert_true(s.domain.len <= cut && s.selector.len <= cut);
        }
        test_free(part);
    }
    rest = SLICE("dkim-signature :a=x;\r\n\t d = d.test ;\r\n s=\r\nTo: x");
    assert_true(dkim_signature_next(&rest, &s));
    assert_true(slice_eq(s.domain, SLICE("d.test")) && s.selector.len == 0);
    assert_true(slice_eq(s.algorithm, SLICE("x")));
    assert_false(dkim_signature_next(&rest, &s));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_signed_is_read),
        cmocka_unit_test(the_published_message_is_signed),
        cmocka_unit_test(fields_are_named_as_often_as_they_are_signed),
        cmocka_unit_test(lines_are_short),
        cmocka_unit_test(what_cannot_be_signed_is_refused_whole),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
