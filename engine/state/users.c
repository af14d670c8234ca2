/* Owns the names and password hashes of one users file. Loaded by main when settings are made,
 * asked on the auth thread; must not keep nor log a password. */
#include "engine/state/users.h"

#include "base/error.h"
#include "base/slice.h"

#include <crypt.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct user {
    char *name;
    char *hash;
    struct label tenant; /* len 0: bound to none */
};

struct users {
    struct user *list;
    size_t count, capacity;
};

static int add_user(struct users *users, struct slice name, struct slice hash,
                    const struct label *tenant)
{
    if (users->count == users->capacity) {
        size_t capacity = users->capacity == 0 ? 16 : users->capacity * 2;
        struct user *grown = realloc(users->list, capacity * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        users->list = grown;
        users->capacity = capacity;
    }
    struct user *u = &users->list[users->count];
    u->name = slice_dup(name);
    u->hash = slice_dup(hash);
    u->tenant = *tenant;
    users->count++;
    return u->name == NULL || u->hash == NULL ? -ENOMEM : 0;
}

/* tenant=T and the white space behind it, where they stand in front of a name. false: T is none */
static bool take_tenant(struct slice *line, struct label *ret)
{
    const struct slice head = SLICE("tenant=");
    size_t end = 0;
    ret->len = 0;
    while (end < line->len && strchr(" \t:", line->data[end]) == NULL) {
        end++;
    }
    struct slice rest = slice_trim(slice_from(*line, end));
    if (end < head.len || !slice_eq(slice_to(*line, head.len), head) || rest.len == 0 ||
        rest.data[0] == ':') {
        return true;
    }
    struct slice tenant = slice_from(slice_to(*line, end), head.len);
    label_set(ret, tenant);
    *line = rest;
    return label_is_valid(tenant) && slice_find(tenant, '*') == tenant.len;
}

static int parse_users(FILE *in, const char *path, struct users *users, char ret_text[256])
{
    char line[1024];
    int number = 0;
    while (fgets(line, sizeof(line), in) != NULL) {
        struct slice text = slice_trim(slice_of(line));
        number++;
        if (text.len == 0 || text.data[0] == '#') {
            continue;
        }
        struct label tenant;
        bool is_bound_well = take_tenant(&text, &tenant);
        size_t colon = slice_find(text, ':');
        struct slice name = slice_to(text, colon);
        struct slice hash = colon < text.len ? slice_from(text, colon + 1) : SLICE("");
        /* A crypt(3) hash begins with '$' and an empty one would let anybody in. */
        if (!is_bound_well || name.len == 0 || name.len > 255 || hash.len < 13 ||
            hash.data[0] != '$') {
            (void)snprintf(
                ret_text, 256,
                "%.160s:%d: users: not [tenant=T] NAME:HASH; make HASH with `openssl passwd "
                "-6`",
                path, number);
            return ERR_SYNTAX;
        }
        int err = add_user(users, name, hash, &tenant);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

int users_load(const char *path, struct users **ret, char ret_text[256])
{
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        int err = -errno;
        (void)snprintf(ret_text, 256, "%.180s: users: cannot read: %s", path, err_str(err));
        return err;
    }
    struct users *users = calloc(1, sizeof(*users));
    int err = users == NULL ? -ENOMEM : parse_users(in, path, users, ret_text);
    (void)fclose(in); /* only read */
    if (err != 0) {
        users_free(users);
        return err;
    }
    *ret = users;
    return 0;
}

void users_free(struct users *users)
{
    if (users == NULL) {
        return;
    }
    for (size_t i = 0; i < users->count; i++) {
        free(users->list[i].name);
        free(users->list[i].hash);
    }
    free(users->list);
    free(users);
}

static bool equal_constant_time(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned char differs = len != strlen(b);
    for (size_t i = 0; i < len && !differs; i++) {
        differs |= (unsigned char)(a[i] ^ b[i]);
    }
    return !differs;
}

bool users_check(const struct users *users, const char *name, const char *password,
                 struct label *ret_tenant)
{
    /* An unknown user costs the same: a hash that no password has, of the first user's kind. */
    const char *hash = users->count > 0 ? users->list[0].hash : "$6$saltsalt$";
    bool is_known = false;
    ret_tenant->len = 0;
    for (size_t i = 0; i < users->count; i++) {
        if (strcmp(users->list[i].name, name) == 0) {
            hash = users->list[i].hash;
            *ret_tenant = users->list[i].tenant;
            is_known = true;
        }
    }
    struct crypt_data *data = calloc(1, sizeof(*data));
    if (data == NULL) {
        return false;
    }
    const char *computed = crypt_r(password, hash, data);
    bool is_good =
        is_known && computed != NULL && computed[0] == '$' && equal_constant_time(computed, hash);
    explicit_bzero(data, sizeof(*data));
    free(data);
    return is_good;
}
