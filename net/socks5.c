/* One SOCKS dialogue. Called by the shell of a connection through a proxy; decides nothing about
 * what a failure means for the mail. */
#include "net/socks5.h"

#include <assert.h>
#include <string.h>

enum {
    SOCKS_VERSION = 5,
    LOGIN_VERSION = 1,
    METHOD_NONE = 0,
    METHOD_LOGIN = 2,
    METHOD_NOT_ACCEPTABLE = 0xff,
    COMMAND_CONNECT = 1,
    ADDRESS_IPV4 = 1,
    ADDRESS_NAME = 3,
    ADDRESS_IPV6 = 4,
    REPLY_HEAD = 4, /* version, reply, reserved, kind of address */
};

static void say_socks(struct socks5 *s, const uint8_t *bytes, size_t len)
{
    memcpy(s->out, bytes, len);
    s->out_len = len;
    s->out_done = 0;
}

static void await(struct socks5 *s, enum socks5_state state)
{
    s->state = state;
    s->in_len = 0;
}

static void fail_socks(struct socks5 *s, enum socks5_state state, const char *error)
{
    s->state = state;
    s->error = error;
}

void socks5_init(struct socks5 *s, const struct socks5_login *login, int family,
                 const uint8_t *address, uint16_t port)
{
    assert(family == 4 || family == 6);
    assert(login->user.len <= SOCKS5_LOGIN_MAX && login->password.len <= SOCKS5_LOGIN_MAX);
    size_t address_len = family == 4 ? 4 : 16;
    memset(s, 0, sizeof(*s));
    s->login = *login;
    const uint8_t head[REPLY_HEAD] = {SOCKS_VERSION, COMMAND_CONNECT, 0,
                                      family == 4 ? ADDRESS_IPV4 : ADDRESS_IPV6};
    memcpy(s->request, head, sizeof(head));
    memcpy(s->request + REPLY_HEAD, address, address_len);
    s->request[REPLY_HEAD + address_len] = (uint8_t)(port >> 8);
    s->request[REPLY_HEAD + address_len + 1] = (uint8_t)port;
    s->request_len = REPLY_HEAD + address_len + 2;
    uint8_t count = login->user.len > 0 ? 2 : 1;
    const uint8_t methods[4] = {SOCKS_VERSION, count, METHOD_NONE, METHOD_LOGIN};
    say_socks(s, methods, 2U + count);
    await(s, SOCKS5_METHOD);
}

void socks5_fini(struct socks5 *s)
{
    explicit_bzero(s, sizeof(*s));
}

struct slice socks5_out(const struct socks5 *s)
{
    return slice_make((const char *)s->out + s->out_done, s->out_len - s->out_done);
}

void socks5_written(struct socks5 *s, size_t len)
{
    assert(len <= s->out_len - s->out_done);
    s->out_done += len;
}

/* --- answers ---------------------------------------------------------------------------------- */

static void say_login(struct socks5 *s)
{
    uint8_t *at = s->out;
    *at++ = LOGIN_VERSION;
    *at++ = (uint8_t)s->login.user.len;
    memcpy(at, s->login.user.data, s->login.user.len);
    at += s->login.user.len;
    *at++ = (uint8_t)s->login.password.len;
    memcpy(at, s->login.password.data, s->login.password.len);
    at += s->login.password.len;
    s->out_len = (size_t)(at - s->out);
    s->out_done = 0;
}

static void take_method(struct socks5 *s)
{
    if (s->in[0] != SOCKS_VERSION) {
        fail_socks(s, SOCKS5_FAILED_PROXY, "it does not speak SOCKS version 5");
    } else if (s->in[1] == METHOD_NONE) {
        say_socks(s, s->request, s->request_len);
        await(s, SOCKS5_REPLY);
    } else if (s->in[1] == METHOD_LOGIN && s->login.user.len > 0) {
        say_login(s);
        await(s, SOCKS5_LOGIN);
    } else if (s->in[1] == METHOD_NOT_ACCEPTABLE) {
        fail_socks(s, SOCKS5_FAILED_PROXY, "it accepts none of the offered ways to authenticate");
    } else {
        fail_socks(s, SOCKS5_FAILED_PROXY, "it wants a way to authenticate that was not offered");
    }
}

static void take_login(struct socks5 *s)
{
    /* The version is not looked at: some proxies put 5 there. */
    if (s->in[1] == 0) {
        say_socks(s, s->request, s->request_len);
        await(s, SOCKS5_REPLY);
    } else {
        fail_socks(s, SOCKS5_FAILED_PROXY, "it refused user and password");
    }
}

/* RFC 1928 section 6. Which of them speak of the target is their wording's choice, not ours. */
static void take_refusal(struct socks5 *s, uint8_t reply)
{
    static const char *const texts[] = {
        [1] = "general SOCKS server failure", [2] = "connection not allowed by ruleset",
        [3] = "Network unreachable",          [4] = "Host unreachable",
        [5] = "Connection refused",           [6] = "TTL expired",
        [7] = "Command not supported",        [8] = "Address type not supported",
    };
    bool is_known = reply < sizeof(texts) / sizeof(texts[0]);
    bool is_of_target = reply >= 3 && reply <= 6;
    fail_socks(s, is_of_target ? SOCKS5_FAILED_TARGET : SOCKS5_FAILED_PROXY,
               is_known ? texts[reply] : "it gave an unknown reply");
}

/* Length of the reply that begins so, as far as that can be told: more once that much is there. */
static size_t reply_len(const struct socks5 *s)
{
    if (s->in_len < REPLY_HEAD) {
        return REPLY_HEAD;
    }
    switch (s->in[3]) {
    case ADDRESS_IPV4:
        return REPLY_HEAD + 4 + 2;
    case ADDRESS_IPV6:
        return REPLY_HEAD + 16 + 2;
    default:
        return s->in_len == REPLY_HEAD ? REPLY_HEAD + 1 : REPLY_HEAD + 1U + s->in[4] + 2U;
    }
}

static void take_reply(struct socks5 *s)
{
    if (s->in[0] != SOCKS_VERSION) {
        fail_socks(s, SOCKS5_FAILED_PROXY, "it does not speak SOCKS version 5");
    } else if (s->in_len >= 2 && s->in[1] != 0) {
        take_refusal(s, s->in[1]); /* some proxies close without the rest */
    } else if (s->in_len >= REPLY_HEAD && s->in[3] != ADDRESS_IPV4 && s->in[3] != ADDRESS_IPV6 &&
               s->in[3] != ADDRESS_NAME) {
        fail_socks(s, SOCKS5_FAILED_PROXY, "its reply has an address of unknown kind");
    } else if (s->in_len == reply_len(s)) {
        s->state = SOCKS5_DONE;
    }
}

size_t socks5_want(const struct socks5 *s)
{
    if (s->out_done < s->out_len) {
        return 0;
    }
    switch (s->state) {
    case SOCKS5_METHOD:
    case SOCKS5_LOGIN:
        return 2 - s->in_len;
    case SOCKS5_REPLY:
        return reply_len(s) - s->in_len;
    case SOCKS5_DONE:
    case SOCKS5_FAILED_PROXY:
    case SOCKS5_FAILED_TARGET:
    default:
        return 0;
    }
}

void socks5_input(struct socks5 *s, const void *data, size_t len)
{
    assert(len > 0 && len <= socks5_want(s));
    memcpy(s->in + s->in_len, data, len);
    s->in_len += len;
    if (s->state == SOCKS5_REPLY) {
        take_reply(s);
    } else if (s->in_len == 2 && s->state == SOCKS5_METHOD) {
        take_method(s);
    } else if (s->in_len == 2) {
        take_login(s);
    }
}

enum socks5_state socks5_state(const struct socks5 *s)
{
    return s->state;
}

const char *socks5_error(const struct socks5 *s)
{
    return s->error;
}
