/* Owns the digests of tokens. Loaded by main when settings are made, asked by the http thread; must
 * not log or keep a token itself. */
#include "engine/state/tokens.h"

#include "base/error.h"
#include "base/slice.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DIGEST = 32, TOKENS_MAX = 1000, LINE_BYTES = 600 };

struct token {
    struct token_grant grant;
    unsigned char digest[DIGEST];
};

struct tokens {
    struct token *list;
    size_t count;
};

static bool digest_of(struct slice text, unsigned char ret[DIGEST])
{
    return EVP_Digest(text.data, text.len, ret, NULL, EVP_sha256(), NULL) == 1;
}

static bool from_hex(struct slice text, unsigned char ret[DIGEST])
{
    static const char digits[] = "0123456789abcdefABCDEF";
    if (text.len != 2 * DIGEST) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        const char *at = memchr(digits, text.data[i], sizeof(digits) - 1);
        if (at == NULL) {
            return false;
        }
        size_t value = (size_t)(at - digits);
        value -= value > 15 ? 6 : 0;
        ret[i / 2] = (unsigned char)(i % 2 == 0 ? value << 4 : ret[i / 2] | value);
    }
    return true;
}

static bool is_token_name(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '-' || c == '_')) {
            return false;
        }
    }
    return s.len > 0 && s.len <= TOKEN_NAME_MAX;
}

static bool is_visible(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] <= ' ' || s.data[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Whether the name is one that api_who gives to clients without a token: no token may have it. */
static bool is_reserved(struct slice name)
{
    return slice_ieq(name, SLICE("local")) || slice_ieq(name, SLICE("loopback"));
}

/* Up to white space. */
static struct slice first_word(struct slice line)
{
    size_t len = 0;
    while (len < line.len && line.data[len] != ' ' && line.data[len] != '\t') {
        len++;
    }
    return slice_to(line, len);
}

/* The first word and the white space behind it are cut off, unless a colon or nothing follows: then
 * the word is the name. */
static bool cut_word(struct slice *line, struct slice word)
{
    struct slice rest = slice_trim(slice_from(*line, word.len));
    if (rest.len == 0 || rest.data[0] == ':') {
        return false;
    }
    *line = rest;
    return true;
}

/* full, read or inject, where one of them stands in front. */
static unsigned take_rights(struct slice *line)
{
    static const struct {
        struct slice word;
        unsigned rights;
    } kinds[] = {
        {{"full", 4}, TOKEN_ALL},
        {{"read", 4}, TOKEN_LOOK},
        {{"inject", 6}, TOKEN_INJECT},
    };
    struct slice word = first_word(*line);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (slice_eq(word, kinds[i].word)) {
            return cut_word(line, word) ? kinds[i].rights : TOKEN_ALL;
        }
    }
    return TOKEN_ALL;
}

/* tenant=T, where it stands in front. returns what is wrong with it, or NULL */
static const char *take_tenant(struct slice *line, struct label *ret)
{
    const struct slice head = SLICE("tenant=");
    struct slice word = first_word(*line);
    if (word.len < head.len || !slice_eq(slice_to(word, head.len), head) || !cut_word(line, word)) {
        return NULL;
    }
    struct slice tenant = slice_from(word, head.len);
    if (!label_is_valid(tenant) || slice_find(tenant, '*') < tenant.len) {
        return "tenant= needs a name of 1 to 64 visible ASCII characters without *";
    }
    label_set(ret, tenant);
    return NULL;
}

/* returns what is wrong with the line, or NULL */
static const char *parse_token(struct slice line, struct token *ret)
{
    ret->grant.rights = take_rights(&line);
    const char *wrong = take_tenant(&line, &ret->grant.tenant);
    if (wrong != NULL) {
        return wrong;
    }
    size_t colon = slice_find(line, ':');
    struct slice name = slice_trim(slice_to(line, colon));
    struct slice secret = colon < line.len ? slice_trim(slice_from(line, colon + 1)) : SLICE("");
    if (!is_token_name(name) || secret.len == 0) {
        return "not [full|read|inject] [tenant=T] NAME:TOKEN; a name has 1 to 64 letters, digits, "
               "- _ .";
    }
    if (is_reserved(name)) {
        return "local and loopback are the names of those without a token; write another";
    }
    if (!from_hex(secret, ret->digest)) {
        if (secret.len < TOKEN_MIN || !is_visible(secret)) {
            return "the token is no SHA-256, and as a token it has less than 16 bytes or others "
                   "than visible ASCII";
        }
        if (!digest_of(secret, ret->digest)) {
            return "SHA-256 does not work";
        }
    }
    memcpy(ret->grant.name, name.data, name.len);
    ret->grant.name[name.len] = '\0';
    return NULL;
}

static int add_token(struct tokens *t, const struct token *token)
{
    struct token *grown = realloc(t->list, (t->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    t->list = grown;
    t->list[t->count++] = *token;
    return 0;
}

static int read_tokens(FILE *in, const char *path, struct tokens *t, char ret_text[512])
{
    char line[LINE_BYTES];
    int number = 0, err = 0;
    while (err == 0 && fgets(line, sizeof(line), in) != NULL) {
        struct slice text = slice_of(line);
        struct token token = {.grant.name = ""};
        number++;
        const char *why = NULL;
        bool is_whole = text.len + 1 < sizeof(line) || text.data[text.len - 1] == '\n';
        text = slice_trim(slice_to(text, slice_find(text, '\n')));
        if (!is_whole || t->count == TOKENS_MAX) {
            why = is_whole ? "there are too many tokens" : "the line is too long";
        } else if (text.len > 0 && text.data[0] != '#') {
            why = parse_token(text, &token);
            err = why == NULL ? add_token(t, &token) : 0;
        }
        if (why != NULL) {
            (void)snprintf(ret_text, 512, "%.300s:%d: tokens_file: %s", path, number, why);
            err = ERR_SYNTAX;
        }
        explicit_bzero(&token, sizeof(token));
    }
    explicit_bzero(line, sizeof(line));
    if (err == 0 && t->count == 0) {
        (void)snprintf(ret_text, 512, "%.300s: tokens_file: it holds no token", path);
        err = ERR_SYNTAX;
    }
    return err;
}

int tokens_load(const char *path, struct tokens **ret, char ret_text[512])
{
    struct stat found;
    FILE *in = fopen(path, "re");
    int err = in == NULL || fstat(fileno(in), &found) != 0 ? -errno : 0;
    struct tokens *t = err == 0 ? calloc(1, sizeof(*t)) : NULL;
    if (err == 0 && t == NULL) {
        err = -ENOMEM;
    }
    if (err != 0) {
        (void)snprintf(ret_text, 512, "%.300s: tokens_file: cannot read: %s", path, err_str(err));
    } else if ((found.st_mode & 077) != 0) {
        (void)snprintf(ret_text, 512, "%.300s: tokens_file: others may read it; chmod 600", path);
        err = ERR_SYNTAX;
    } else {
        (void)snprintf(ret_text, 512, "%.300s: tokens_file: out of memory", path);
        err = read_tokens(in, path, t, ret_text);
    }
    if (in != NULL) {
        (void)fclose(in); /* only read */
    }
    if (err != 0) {
        tokens_free(t);
        return err;
    }
    *ret = t;
    return 0;
}

void tokens_free(struct tokens *t)
{
    if (t != NULL) {
        if (t->list != NULL) {
            explicit_bzero(t->list, t->count * sizeof(*t->list));
        }
        free(t->list);
        free(t);
    }
}

const struct token_grant *tokens_check(const struct tokens *t, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    unsigned char digest[DIGEST];
    const struct token_grant *found = NULL;
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0 ||
        !digest_of(slice_trim(slice_of(authorization + sizeof(scheme) - 1)), digest)) {
        return NULL;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (CRYPTO_memcmp(digest, t->list[i].digest, DIGEST) == 0) {
            found = &t->list[i].grant; /* the others are compared all the same */
        }
    }
    explicit_bzero(digest, sizeof(digest));
    return found;
}
