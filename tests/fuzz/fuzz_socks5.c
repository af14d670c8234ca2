/* A SOCKS proxy that says arbitrary bytes: the dialogue ends or waits, takes no more than it asked
 * for, and how the bytes are cut changes nothing. The first byte: bit 0 login, bit 1 IPv6; the rest
 * of it seeds the cuts. */
#include "net/socks5.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

struct ending {
    enum socks5_state state;
    const char *error;
    size_t taken, said;
};

static struct ending run(const uint8_t *data, size_t size, unsigned kind, uint32_t seed)
{
    static const struct socks5_login logins[2] = {{{"", 0}, {"", 0}}, {{"user", 4}, {"pass", 4}}};
    static const uint8_t address[16] = {1, 2, 3, 4};
    struct socks5 s;
    struct ending end = {0};
    socks5_init(&s, &logins[kind & 1], (kind & 2) != 0 ? 6 : 4, address, 25);
    for (;;) {
        size_t out = socks5_out(&s).len;
        size_t want = socks5_want(&s);
        require(out == 0 || want == 0);
        require(want <= SOCKS5_IN_MAX && out <= SOCKS5_OUT_MAX);
        seed = seed * 1664525U + 1013904223U;
        if (out > 0) {
            size_t n = 1 + (seed >> 24) % out;
            socks5_written(&s, n);
            end.said += n;
        } else if (want > 0 && end.taken < size) {
            size_t n = 1 + (seed >> 24) % want;
            n = n < size - end.taken ? n : size - end.taken;
            char *copy = malloc(n); /* exactly as long, for the sanitizer */
            require(copy != NULL);
            memcpy(copy, data + end.taken, n);
            socks5_input(&s, copy, n);
            free(copy);
            end.taken += n;
        } else {
            require((want == 0) == (socks5_state(&s) >= SOCKS5_DONE));
            break;
        }
    }
    end.state = socks5_state(&s);
    end.error = socks5_error(&s);
    require((end.error != NULL) == (end.state > SOCKS5_DONE));
    require(end.taken <= 4 + SOCKS5_IN_MAX);
    socks5_fini(&s);
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct ending one = run(data + 1, size - 1, data[0], 1);
    struct ending two = run(data + 1, size - 1, data[0], data[0] * 2654435761U);
    require(one.state == two.state && one.error == two.error && one.said == two.said);
    /* A refusal is known before its last byte, so more of it may have been taken at once. */
    require(one.state > SOCKS5_DONE || one.taken == two.taken);
    return 0;
}
