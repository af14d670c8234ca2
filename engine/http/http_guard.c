/* Owns nothing: the rules that keep other people's pages out. Called by the http thread. */
#include "engine/http/http_guard.h"

#include "dns/ip.h"

static bool is_port(struct slice s)
{
    bool is_good = s.len >= 1 && s.len <= 5;
    for (size_t i = 0; i < s.len; i++) {
        is_good = is_good && s.data[i] >= '0' && s.data[i] <= '9';
    }
    return is_good;
}

/* The host of HOST, HOST:PORT, [V6] or [V6]:PORT; "" when it is none of them. */
static struct slice host_part(struct slice s, bool *ret_is_literal)
{
    bool is_literal = s.len > 0 && s.data[0] == '[';
    size_t end = slice_find(s, is_literal ? ']' : ':');
    struct slice rest = slice_from(s, is_literal && end < s.len ? end + 1 : end);
    *ret_is_literal = is_literal;
    if ((is_literal && end == s.len) ||
        (rest.len > 0 && (rest.data[0] != ':' || !is_port(slice_from(rest, 1))))) {
        return SLICE("");
    }
    return is_literal ? slice_make(s.data + 1, end - 1) : slice_to(s, end);
}

bool http_guard_host(struct slice host, const char *hostname)
{
    bool is_literal;
    struct ip ip;
    struct slice name = host_part(host, &is_literal);
    if (ip_parse(name, &ip) == 0) {
        return (ip.family == 6) == is_literal;
    }
    if (name.len > 1 && name.data[name.len - 1] == '.') {
        name = slice_to(name, name.len - 1);
    }
    return !is_literal &&
           (slice_ieq(name, SLICE("localhost")) || slice_ieq(name, slice_of(hostname)));
}

bool http_guard_origin(struct slice origin, struct slice host)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct slice scheme = slice_of(schemes[i]);
        if (origin.len > scheme.len && slice_ieq(slice_to(origin, scheme.len), scheme)) {
            return slice_ieq(slice_from(origin, scheme.len), host);
        }
    }
    return false;
}
