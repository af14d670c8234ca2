/* Keys from files: those that sign, and those that are refused with file and line. */
#include "base/error.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/key_files.h"

#include <openssl/ec.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_rsa(const struct key_files *f, const char *name, unsigned bits, unsigned mode)
{
    struct buf pem;
    buf_init(&pem, 0);
    dkim_keys_put_rsa(bits, &pem);
    key_files_put(f, name, buf_slice(&pem), mode);
    buf_fini(&pem);
}

static void put_ed25519(const struct key_files *f, const char *name)
{
    struct buf pem;
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    key_files_put(f, name, buf_slice(&pem), 0600);
    buf_fini(&pem);
}

static void a_section_becomes_a_key(void **state)
{
    struct key_files f;
    key_files_init(&f);
    put_ed25519(&f, "e");
    assert_int_equal(
        key_files_load(&f,
                       "dkim \"S1._domainkey.Example.COM\" {\n"
                       " key = \"@/e\"\n headers = {\"List-Id\"}\n"
                       " canonicalization = \"simple/relaxed\"\n}\n"
                       "dkim \"s2.y._domainkey.example.com\" {\n key = \"@/e\"\n"
                       " oversign = {\"none\"}\n canonicalization = \"relaxed/simple\"\n}\n",
                       NULL),
        0);
    assert_int_equal(f.ring->count, 2);
    const struct ring_key *k = &f.ring->keys[0];
    assert_true(slice_eq(k->terms.selector, SLICE("s1")));
    assert_true(slice_eq(k->terms.domain, SLICE("example.com")));
    assert_int_equal(k->terms.header, DKIM_SIMPLE);
    assert_int_equal(k->terms.body, DKIM_RELAXED);
    assert_int_equal(k->terms.name_count, 1);
    assert_true(slice_eq(k->terms.names[0], SLICE("List-Id")));
    assert_int_equal(k->terms.oversigned_count, dkim_default_oversigned_count);
    const struct ring_key *second = &f.ring->keys[1];
    assert_true(slice_eq(second->terms.selector, SLICE("s2.y")));
    assert_int_equal(second->terms.oversigned_count, 0);
    assert_int_equal(second->terms.name_count, dkim_default_name_count);
    assert_ptr_equal(k->key, second->key); /* one parsed form of one key */
    assert_int_not_equal(k->mark, second->mark);
    assert_int_equal(f.ring->forms, 3);
    key_files_unload(&f);
    key_files_fini(&f);
}

static void one_form_needs_a_key_for_all_mail(void **state)
{
    static const struct {
        const char *text;
        bool is_one_form;
    } rows[] = {
        {"dkim \"a._domainkey.x.test\" {\n key = \"@/a\" }\n", false},
        {"dkim \"a._domainkey.x.test\" {\n key = \"@/a\" from_domains = {\"*\"} }\n", true},
        {"dkim \"a._domainkey.x.test\" {\n key = \"@/a\" from_domains = {\"*\"} }\n"
         "dkim \"b._domainkey.x.test\" {\n key = \"@/a\" }\n",
         true},
        {"dkim \"a._domainkey.x.test\" {\n key = \"@/a\" from_domains = {\"*\"} }\n"
         "dkim \"b._domainkey.x.test\" {\n key = \"@/a\" canonicalization = \"relaxed/simple\" }\n",
         false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct key_files f;
        key_files_init(&f);
        put_ed25519(&f, "a");
        assert_int_equal(key_files_load(&f, rows[i].text, NULL), 0);
        assert_int_equal(f.ring->is_one_form, rows[i].is_one_form);
        key_files_unload(&f);
        key_files_fini(&f);
    }
}

static void without_sections_there_is_no_ring(void **state)
{
    struct key_files f;
    key_files_init(&f);
    assert_int_equal(key_files_load(&f, "workers = 1\n", NULL), 0);
    assert_null(f.ring);
    key_files_unload(&f);
    key_files_fini(&f);
}

static void parsed_keys_outlive_a_reload(void **state)
{
    static const char text[] = "dkim \"a._domainkey.x.test\" {\n key = \"@/a\" }\n"
                               "dkim \"b._domainkey.x.test\" {\n key = \"@/b\" }\n";
    struct key_files f;
    key_files_init(&f);
    put_rsa(&f, "a", 1024, 0600);
    put_ed25519(&f, "b");
    assert_int_equal(key_files_load(&f, text, NULL), 0);
    assert_int_equal(f.sample.warnings, 1);
    assert_non_null(strstr(f.sample.said, "f:2: key: warning: "));
    assert_non_null(strstr(f.sample.said, "1024 bits is weak"));
    struct key_files before = f;
    put_rsa(&f, "b", 2048, 0400);
    assert_int_equal(key_files_load(&f, text, before.ring), 0);
    assert_ptr_equal(f.ring->keys[0].key, before.ring->keys[0].key);
    assert_ptr_not_equal(f.ring->keys[1].key, before.ring->keys[1].key);
    assert_int_equal(f.ring->keys[0].mark, before.ring->keys[0].mark);
    assert_int_not_equal(f.ring->keys[1].mark, before.ring->keys[1].mark);
    key_files_unload(&before);
    assert_int_equal(dkim_key_bits(f.ring->keys[0].key), 1024);
    key_files_unload(&f);
    key_files_fini(&f);
}

static void each_bad_key_is_named(void **state)
{
    static const char *const wanted[] = {
        "f:1: key: ", "/gone: No such file",
        "f:2: key: ", "/group: others than its owner can read or change it (mode 0640)",
        "f:3: key: ", "/world: others than its owner can read or change it (mode 0604)",
        "f:4: key: ", "/short: an RSA key of less than 1024 bits",
        "f:5: key: ", "/text: no private key in PEM",
        "f:6: key: ", "/folder: it is not a file",
        "f:7: key: ", "/ec: it is neither an RSA nor an Ed25519 key",
        "f:8: key: ", "/halves: its private and its public half do not belong together",
    };
    struct key_files f;
    key_files_init(&f);
    put_rsa(&f, "group", 1024, 0640);
    put_rsa(&f, "world", 1024, 0604);
    put_rsa(&f, "short", 512, 0600);
    key_files_put(&f, "text", SLICE("hello\n"), 0600);
    struct buf pem;
    buf_init(&pem, 0);
    EVP_PKEY *pkey = EVP_EC_gen("P-256");
    dkim_keys_put(pkey, NULL, &pem);
    EVP_PKEY_free(pkey);
    key_files_put(&f, "ec", buf_slice(&pem), 0600);
    buf_clear(&pem);
    dkim_keys_put_mismatched(&pem);
    key_files_put(&f, "halves", buf_slice(&pem), 0600);
    buf_fini(&pem);
    char folder[200];
    (void)snprintf(folder, sizeof(folder), "%s/folder", f.folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(key_files_load(&f,
                                    "dkim \"a._domainkey.x.test\" { key = \"@/gone\" }\n"
                                    "dkim \"b._domainkey.x.test\" { key = \"@/group\" }\n"
                                    "dkim \"c._domainkey.x.test\" { key = \"@/world\" }\n"
                                    "dkim \"d._domainkey.x.test\" { key = \"@/short\" }\n"
                                    "dkim \"e._domainkey.x.test\" { key = \"@/text\" }\n"
                                    "dkim \"f._domainkey.x.test\" { key = \"@/folder\" }\n"
                                    "dkim \"g._domainkey.x.test\" { key = \"@/ec\" }\n"
                                    "dkim \"h._domainkey.x.test\" { key = \"@/halves\" }\n",
                                    NULL),
                     ERR_SYNTAX);
    assert_null(f.ring);
    assert_int_equal(f.sample.errors, 8);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (strstr(f.sample.said, wanted[i]) == NULL) {
            print_error("%s is not in\n%s", wanted[i], f.sample.said);
        }
        assert_non_null(strstr(f.sample.said, wanted[i]));
    }
    key_files_unload(&f);
    assert_int_equal(rmdir(folder), 0);
    key_files_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_section_becomes_a_key),
        cmocka_unit_test(one_form_needs_a_key_for_all_mail),
        cmocka_unit_test(without_sections_there_is_no_ring),
        cmocka_unit_test(parsed_keys_outlive_a_reload),
        cmocka_unit_test(each_bad_key_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
