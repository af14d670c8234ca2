/* Tokens of return addresses, sealed and read.
 * Called by deliveries, by sessions at RCPT, and by who reads reports. Must not say why a token is
 * not taken: a forger would learn from it. */
#include "engine/heard/return_token.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

enum {
    BITS_BYTES = 22, /* in front of the MAC */
    MAC_BYTES = 8,
    TOKEN_BYTES = BITS_BYTES + MAC_BYTES,
    DIGEST_BYTES = 32,
    ADDRESS_MAX = 1024, /* bytes of an address that is hashed; no address is longer */
};
_Static_assert(TOKEN_BYTES * 8 == RETURN_TOKEN_LEN * 5, "a token is so many characters of base32");

/* --- base32 ----------------------------------------------------------------------------------- */

static int base32_value(char c)
{
    if (c >= 'a' && c <= 'z') {
        return c - 'a';
    }
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    return c >= '2' && c <= '7' ? c - '2' + 26 : -1;
}

static void base32_encode(const uint8_t bytes[static TOKEN_BYTES],
                          char ret[static RETURN_TOKEN_LEN])
{
    const char *digits = "abcdefghijklmnopqrstuvwxyz234567";
    for (size_t i = 0; i < RETURN_TOKEN_LEN; i++) {
        unsigned at = (unsigned)i * 5;
        unsigned pair = (unsigned)bytes[at / 8] << 8;
        pair |= at / 8 + 1 < TOKEN_BYTES ? bytes[at / 8 + 1] : 0U;
        ret[i] = digits[pair >> (11 - at % 8) & 31];
    }
}

static bool base32_decode(struct slice text, uint8_t ret[static TOKEN_BYTES])
{
    unsigned held = 0, bits = 0;
    size_t done = 0;
    for (size_t i = 0; i < text.len; i++) {
        int value = base32_value(text.data[i]);
        if (value < 0) {
            return false;
        }
        held = (held << 5 | (unsigned)value) & 0xfff;
        bits += 5;
        if (bits >= 8) {
            bits -= 8;
            ret[done++] = (uint8_t)(held >> bits);
        }
    }
    return true;
}

/* --- cryptography ----------------------------------------------------------------------------- */

/* What is hashed begins with a byte that says what it is, so that no text is both an address and a
 * token. errors: -ENOMEM */
static int digest(const struct return_key *key, const uint8_t *bytes, size_t len,
                  uint8_t ret[static DIGEST_BYTES])
{
    unsigned ret_len = 0;
    return HMAC(EVP_sha256(), key->secret, RETURN_KEY_BYTES, bytes, len, ret, &ret_len) != NULL
               ? 0
               : -ENOMEM;
}

static int hash_address(const struct return_key *key, struct slice address, uint32_t *ret)
{
    uint8_t text[1 + ADDRESS_MAX] = {'r'}, hash[DIGEST_BYTES];
    if (address.len > ADDRESS_MAX) {
        address.len = ADDRESS_MAX;
    }
    slice_lower(address, (char *)text + 1);
    int err = digest(key, text, 1 + address.len, hash);
    if (err == 0) {
        *ret = (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
    }
    return err;
}

static int mac(const struct return_key *key, const uint8_t bits[static BITS_BYTES],
               uint8_t ret[static MAC_BYTES])
{
    uint8_t text[1 + BITS_BYTES] = {'t'}, hash[DIGEST_BYTES];
    memcpy(text + 1, bits, BITS_BYTES);
    int err = digest(key, text, sizeof(text), hash);
    if (err == 0) {
        memcpy(ret, hash, MAC_BYTES);
    }
    return err;
}

/* --- bits ------------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i > 0; i--) {
        *at++ = (uint8_t)(value >> (i - 1) * 8);
    }
    return at;
}

static const uint8_t *take(const uint8_t *at, unsigned bytes, uint64_t *ret)
{
    *ret = 0;
    for (unsigned i = 0; i < bytes; i++) {
        *ret = *ret << 8 | *at++;
    }
    return at;
}

static uint32_t within(uint32_t number)
{
    return number <= RETURN_TOKEN_NUMBER_MAX ? number : RETURN_TOKEN_NUMBER_MAX;
}

int return_token_write(const struct return_token *token, const struct return_key *key,
                       struct slice recipient, char ret[static RETURN_TOKEN_LEN])
{
    uint8_t bytes[TOKEN_BYTES], *at = bytes;
    uint32_t hash;
    int err = hash_address(key, recipient, &hash);
    if (err != 0) {
        return err;
    }
    at = put(at, key->number, 1);
    at = put(at, token->message, 8);
    at = put(at, within(token->recipient), 3);
    at = put(at, within(token->tenant), 3);
    at = put(at, within(token->campaign), 3);
    at = put(at, hash, 4);
    assert(at == bytes + BITS_BYTES);
    err = mac(key, bytes, at);
    if (err == 0) {
        base32_encode(bytes, ret);
    }
    return err;
}

int return_token_read(struct slice text, const struct return_keys *keys, int64_t now,
                      struct return_token *ret)
{
    uint8_t bytes[TOKEN_BYTES], expected[MAC_BYTES];
    uint64_t number, recipient, tenant, campaign, hash;
    if (text.len != RETURN_TOKEN_LEN || !base32_decode(text, bytes)) {
        return ERR_SYNTAX;
    }
    const struct return_key *key = return_keys_find(keys, bytes[0], now);
    if (key == NULL) {
        return ERR_SYNTAX;
    }
    int err = mac(key, bytes, expected);
    if (err != 0) {
        return err;
    }
    if (CRYPTO_memcmp(expected, bytes + BITS_BYTES, MAC_BYTES) != 0) {
        return ERR_SYNTAX;
    }
    const uint8_t *at = take(bytes, 1, &number);
    at = take(at, 8, &ret->message);
    at = take(at, 3, &recipient);
    at = take(at, 3, &tenant);
    at = take(at, 3, &campaign);
    (void)take(at, 4, &hash); /* the MAC follows */
    ret->key = (uint8_t)number;
    ret->recipient = (uint32_t)recipient;
    ret->tenant = (uint32_t)tenant;
    ret->campaign = (uint32_t)campaign;
    ret->hash = (uint32_t)hash;
    return 0;
}

bool return_token_is_for(const struct return_token *token, const struct return_keys *keys,
                         struct slice recipient)
{
    uint32_t hash;
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].number == token->key) {
            return hash_address(&keys->keys[i], recipient, &hash) == 0 && hash == token->hash;
        }
    }
    return false;
}

bool return_token_find(struct slice *in, struct slice *ret)
{
    for (;;) {
        size_t at = slice_find(*in, '+');
        if (at == in->len) {
            *in = slice_from(*in, at);
            return false;
        }
        *in = slice_from(*in, at + 1);
        size_t len = 0;
        while (len < in->len && base32_value(in->data[len]) >= 0) {
            len++;
        }
        if (len == RETURN_TOKEN_LEN) {
            *ret = slice_to(*in, len);
            *in = slice_from(*in, len);
            return true;
        }
    }
}
