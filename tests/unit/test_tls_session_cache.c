/* The session cache: newest first, single use, expiry, the bound. */
#include "base/slice.h"
#include "net/tls_session_cache.h"
#include "tests/unit/unit.h"

#include <openssl/ssl.h>
#include <stdio.h>

#define NOW 1000000

static SSL_SESSION *session(int version, unsigned char id)
{
    SSL_SESSION *s = SSL_SESSION_new();
    assert_non_null(s);
    assert_int_equal(SSL_SESSION_set1_id(s, &id, 1), 1);
    assert_int_equal(SSL_SESSION_set_protocol_version(s, version), 1);
    (void)SSL_SESSION_set_time(s, NOW);
    (void)SSL_SESSION_set_timeout(s, 300);
    return s;
}

/* The id of the session taken for key; -1: none. */
static int take(struct tls_session_cache *cache, struct slice key, int64_t now)
{
    unsigned len = 0;
    SSL_SESSION *s = tls_session_cache_take(cache, key, now);
    if (s == NULL) {
        return -1;
    }
    int id = SSL_SESSION_get_id(s, &len)[0];
    assert_int_equal(len, 1);
    SSL_SESSION_free(s);
    return id;
}

static void tickets_are_used_once_newest_first(void **state)
{
    struct tls_session_cache *cache = tls_session_cache_new(100, 1);
    struct slice key = SLICE("a");
    assert_int_equal(take(cache, key, NOW), -1);
    for (unsigned char id = 1; id <= TLS_SESSIONS_PER_KEY + 1; id++) {
        tls_session_cache_put(cache, key, session(TLS1_3_VERSION, id));
    }
    assert_int_equal(tls_session_cache_count(cache), TLS_SESSIONS_PER_KEY);
    assert_int_equal(take(cache, SLICE("b"), NOW), -1);
    for (int id = TLS_SESSIONS_PER_KEY + 1; id > 1; id--) {
        assert_int_equal(take(cache, key, NOW), id);
    }
    assert_int_equal(take(cache, key, NOW), -1);
    assert_int_equal(tls_session_cache_count(cache), 0);
    tls_session_cache_free(cache);
}

static void a_key_keeps_two_where_places_are_scarce(void **state)
{
    struct tls_session_cache *cache = tls_session_cache_new(40, 1);
    char key[16];
    for (unsigned char id = 1; id <= TLS_SESSIONS_PER_KEY; id++) {
        tls_session_cache_put(cache, SLICE("many"), session(TLS1_3_VERSION, id));
    }
    for (int i = 0; i < 10; i++) {
        int len = snprintf(key, sizeof(key), "key %d", i);
        for (unsigned char id = 1; id <= 3; id++) {
            tls_session_cache_put(cache, slice_make(key, (size_t)len), session(TLS1_3_VERSION, id));
        }
    }
    assert_true(tls_session_cache_count(cache) <= 40);
    for (int id = 3; id > 1; id--) {
        assert_int_equal(take(cache, SLICE("key 9"), NOW), id);
    }
    assert_int_equal(take(cache, SLICE("key 9"), NOW), -1);
    tls_session_cache_put(cache, SLICE("many"), session(TLS1_3_VERSION, 99));
    assert_int_equal(take(cache, SLICE("many"), NOW), 99);
    assert_int_equal(take(cache, SLICE("many"), NOW), TLS_SESSIONS_PER_KEY);
    assert_int_equal(take(cache, SLICE("many"), NOW), -1);
    tls_session_cache_free(cache);
}

static void older_sessions_stay(void **state)
{
    struct tls_session_cache *cache = tls_session_cache_new(100, 1);
    struct slice key = SLICE("a");
    tls_session_cache_put(cache, key, session(TLS1_2_VERSION, 7));
    assert_int_equal(take(cache, key, NOW), 7);
    assert_int_equal(take(cache, key, NOW + 299), 7);
    assert_int_equal(take(cache, key, NOW + 300), -1);
    assert_int_equal(tls_session_cache_count(cache), 0);
    tls_session_cache_free(cache);
}

static void the_least_recently_used_key_makes_room(void **state)
{
    struct tls_session_cache *cache = tls_session_cache_new(200, 1);
    char key[16];
    for (int i = 0; i < 1000; i++) {
        int len = snprintf(key, sizeof(key), "key %d", i);
        tls_session_cache_put(cache, slice_make(key, (size_t)len),
                              session(TLS1_2_VERSION, (unsigned char)i));
        assert_true(tls_session_cache_count(cache) <= 200);
        assert_int_equal(take(cache, SLICE("key 0"), NOW), 0);
    }
    assert_int_equal(tls_session_cache_count(cache), 200);
    assert_int_equal(take(cache, SLICE("key 1"), NOW), -1);
    assert_int_equal(take(cache, SLICE("key 800"), NOW), -1);
    assert_int_equal(take(cache, SLICE("key 801"), NOW), 801 & 255);
    assert_int_equal(take(cache, SLICE("key 999"), NOW), 999 & 255);
    tls_session_cache_free(cache);

    cache = tls_session_cache_new(1, 1);
    tls_session_cache_put(cache, SLICE("a"), session(TLS1_3_VERSION, 1));
    tls_session_cache_put(cache, SLICE("a"), session(TLS1_3_VERSION, 2));
    assert_int_equal(tls_session_cache_count(cache), 1);
    assert_int_equal(take(cache, SLICE("a"), NOW), 2);
    tls_session_cache_free(cache);
}

static void long_keys_are_not_kept(void **state)
{
    static const char key[TLS_SESSION_KEY_MAX + 1];
    struct tls_session_cache *cache = tls_session_cache_new(10, 1);
    tls_session_cache_put(cache, slice_make(key, sizeof(key)), session(TLS1_3_VERSION, 1));
    assert_int_equal(tls_session_cache_count(cache), 0);
    tls_session_cache_put(cache, slice_make(key, sizeof(key) - 1), session(TLS1_3_VERSION, 1));
    assert_int_equal(tls_session_cache_count(cache), 1);
    tls_session_cache_free(cache);
    tls_session_cache_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tickets_are_used_once_newest_first),
        cmocka_unit_test(a_key_keeps_two_where_places_are_scarce),
        cmocka_unit_test(older_sessions_stay),
        cmocka_unit_test(the_least_recently_used_key_makes_room),
        cmocka_unit_test(long_keys_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
