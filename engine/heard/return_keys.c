/* The ring of keys as text and as values.
 * Called by whoever keeps the file of keys, and by return_token.c. Must not log a secret. */
#include "engine/heard/return_keys.h"

#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- text ------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

static bool read_secret(struct slice text, uint8_t ret[static RETURN_KEY_BYTES])
{
    if (text.len != (size_t)2 * RETURN_KEY_BYTES) {
        return false;
    }
    for (size_t i = 0; i < RETURN_KEY_BYTES; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* The word in front of the first blank; *line is moved behind it. */
static struct slice take_word(struct slice *line)
{
    size_t len = slice_find(*line, ' ');
    struct slice word = slice_to(*line, len);
    *line = slice_from(*line, len < line->len ? len + 1 : len);
    return word;
}

static bool read_number(struct slice word, int64_t max, int64_t *ret)
{
    char text[24], *end;
    if (word.len == 0 || word.len >= sizeof(text) || word.data[0] < '0' || word.data[0] > '9') {
        return false;
    }
    memcpy(text, word.data, word.len);
    text[word.len] = '\0';
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *ret = value;
    return errno == 0 && *end == '\0' && value <= max;
}

static bool read_line(struct slice line, struct return_key *ret)
{
    int64_t number;
    if (!read_number(take_word(&line), UINT8_MAX, &number) ||
        !read_number(take_word(&line), INT64_MAX, &ret->begin)) {
        return false;
    }
    ret->number = (uint8_t)number;
    return read_secret(line, ret->secret);
}

static const struct return_key *with_number(const struct return_keys *keys, uint8_t number)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].number == number) {
            return &keys->keys[i];
        }
    }
    return NULL;
}

int return_keys_parse(struct slice text, struct return_keys *ret)
{
    memset(ret, 0, sizeof(*ret));
    while (text.len > 0) {
        size_t len = slice_find(text, '\n');
        struct return_key key;
        if (len == text.len || ret->count == RETURN_KEYS_MAX ||
            !read_line(slice_to(text, len), &key) || with_number(ret, key.number) != NULL ||
            (ret->count > 0 && key.begin < ret->keys[ret->count - 1].begin)) {
            return ERR_SYNTAX;
        }
        ret->keys[ret->count++] = key;
        text = slice_from(text, len + 1);
    }
    return 0;
}

void return_keys_format(const struct return_keys *keys, struct buf *out)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct return_key *key = &keys->keys[i];
        buf_printf(out, "%u %lld ", key->number, (long long)key->begin);
        for (size_t at = 0; at < RETURN_KEY_BYTES; at++) {
            buf_printf(out, "%02x", key->secret[at]);
        }
        buf_append_char(out, '\n');
    }
}

/* --- rotation --------------------------------------------------------------------------------- */

int64_t return_keys_kept_until(const struct return_keys *keys, size_t at)
{
    return at + 1 < keys->count ? keys->keys[at + 1].begin + RETURN_KEY_KEPT : INT64_MAX;
}

/* It was made by a clock that was ahead. */
static bool is_of_the_future(const struct return_key *key, int64_t now)
{
    return key->begin > now + RETURN_KEY_DAY;
}

bool return_keys_is_due(const struct return_keys *keys, int64_t now)
{
    if (keys->count == 0) {
        return true;
    }
    const struct return_key *newest = &keys->keys[keys->count - 1];
    return now - newest->begin >= RETURN_KEY_PERIOD || is_of_the_future(newest, now) ||
           (keys->count > RETURN_KEYS_SPARE && now >= return_keys_kept_until(keys, 0));
}

/* Those that stay, in their order. */
static void keep_keys(const struct return_keys *keys, int64_t now, struct return_keys *ret)
{
    bool is_ahead = keys->count > 0 && is_of_the_future(&keys->keys[keys->count - 1], now);
    ret->count = 0;
    for (size_t i = 0; i < keys->count; i++) {
        bool is_spare = keys->count - i < RETURN_KEYS_SPARE; /* beside a new one */
        if (is_spare || now < return_keys_kept_until(keys, i)) {
            struct return_key *key = &ret->keys[ret->count++];
            *key = keys->keys[i];
            key->begin = is_ahead && key->begin > now ? now : key->begin;
        }
    }
}

int return_keys_rotate(const struct return_keys *keys, int64_t now, bool is_asked,
                       struct return_keys *ret)
{
    keep_keys(keys, now, ret);
    const struct return_key *newest = ret->count > 0 ? &ret->keys[ret->count - 1] : NULL;
    bool is_time = newest == NULL || now - newest->begin >= RETURN_KEY_PERIOD;
    if (!is_time && !is_asked) {
        return 0;
    }
    if (ret->count >= (is_time ? RETURN_KEYS_MAX : RETURN_KEYS_ASKED_MAX)) {
        return ERR_LIMIT;
    }
    struct return_key *key = &ret->keys[ret->count];
    memset(key, 0, sizeof(*key));
    if (RAND_bytes(key->secret, sizeof(key->secret)) != 1) {
        return -EIO;
    }
    if (newest != NULL) {
        key->number = newest->number;
        do {
            key->number++;
        } while (with_number(ret, key->number) != NULL);
    }
    key->begin = newest != NULL && newest->begin > now ? newest->begin : now;
    ret->count++;
    return 0;
}

const struct return_key *return_keys_for(const struct return_keys *keys, int64_t begun)
{
    for (size_t i = keys->count; i > 0; i--) {
        if (keys->keys[i - 1].begin <= begun) {
            return &keys->keys[i - 1];
        }
    }
    return keys->count > 0 ? &keys->keys[0] : NULL;
}

const struct return_key *return_keys_find(const struct return_keys *keys, uint8_t number,
                                          int64_t now)
{
    const struct return_key *key = with_number(keys, number);
    return key != NULL && now < return_keys_kept_until(keys, (size_t)(key - keys->keys)) ? key
                                                                                         : NULL;
}
