/* The wire format of sluice-zone's answers. Called with one datagram at a time; input comes from
 * strangers and is only believed as far as it is checked. */
#include "bench/zone/zone_answer.h"

#include <arpa/inet.h>
#include <string.h>

#define HEADER_BYTES  12
#define CHAIN_MAX     8 /* CNAMEs followed */
#define OWNER_POINTER 0xc000
#define TYPE_SOA      6
#define TYPE_ANY      255
#define CLASS_IN      1

enum rcode { RCODE_OK = 0, RCODE_SERVFAIL = 2, RCODE_NXDOMAIN = 3, RCODE_REFUSED = 5 };

struct writer {
    uint8_t *data;
    size_t len;
    bool failed;
    uint32_t ttl;
    uint16_t answers;
};

static void put_wire(struct writer *w, const void *data, size_t len)
{
    if (w->failed || len > ZONE_ANSWER_MAX - w->len) {
        w->failed = true;
        return;
    }
    if (len > 0) {
        memcpy(w->data + w->len, data, len);
    }
    w->len += len;
}

static void put16(struct writer *w, unsigned value)
{
    const uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};
    put_wire(w, bytes, 2);
}

static void put_name(struct writer *w, struct slice name)
{
    while (name.len > 0) {
        size_t len = slice_find(name, '.');
        const uint8_t length = (uint8_t)len;
        if (len == 0 || len > 63) {
            w->failed = true;
            return;
        }
        put_wire(w, &length, 1);
        put_wire(w, name.data, len);
        name = slice_from(name, len < name.len ? len + 1 : len);
    }
    put_wire(w, "", 1);
}

/* Owner, type, class, TTL; returns where the length of the data goes. */
static size_t begin_record(struct writer *w, unsigned owner, unsigned type)
{
    put16(w, OWNER_POINTER | owner);
    put16(w, type);
    put16(w, CLASS_IN);
    put16(w, w->ttl >> 16);
    put16(w, w->ttl & 0xffff);
    size_t at = w->len;
    put16(w, 0);
    return at;
}

static void end_record(struct writer *w, size_t at)
{
    if (!w->failed) {
        size_t len = w->len - at - 2;
        w->data[at] = (uint8_t)(len >> 8);
        w->data[at + 1] = (uint8_t)len;
        w->answers++;
    }
}

/* returns: where the record's data begins, for a later pointer to the name in it */
static unsigned put_record(struct writer *w, unsigned owner, const struct zone_rule *rule,
                           const char *value)
{
    uint8_t address[16];
    size_t at = begin_record(w, owner, (unsigned)rule->type);
    unsigned data = (unsigned)w->len;
    if (rule->type == ZONE_A || rule->type == ZONE_AAAA) {
        bool is_v4 = rule->type == ZONE_A;
        if (inet_pton(is_v4 ? AF_INET : AF_INET6, value, address) != 1) {
            w->failed = true; /* the digits made it none */
        }
        put_wire(w, address, is_v4 ? 4 : 16);
    } else if (rule->type == ZONE_TXT) {
        const uint8_t length = (uint8_t)strlen(value);
        put_wire(w, &length, 1);
        put_wire(w, value, length);
    } else {
        if (rule->type == ZONE_MX) {
            put16(w, rule->preference);
        }
        put_name(w, slice_of(value));
    }
    end_record(w, at);
    return data;
}

/* Read the question's name. returns: bytes it takes, 0 when it is malformed */
static size_t read_name(struct slice query, char ret[ZONE_NAME_MAX + 1])
{
    size_t at = HEADER_BYTES;
    size_t len = 0;
    for (;;) {
        if (at >= query.len) {
            return 0;
        }
        uint8_t label = (uint8_t)query.data[at++];
        if (label == 0) {
            break;
        }
        if (label > 63 || at + label > query.len || len + label + 1 > ZONE_NAME_MAX) {
            return 0;
        }
        if (len > 0) {
            ret[len++] = '.';
        }
        for (size_t i = 0; i < label; i++) {
            char c = query.data[at + i];
            if (c >= 'A' && c <= 'Z') {
                c = (char)(c | 0x20);
            }
            ret[len++] = c;
        }
        at += label;
    }
    ret[len] = '\0';
    return at - HEADER_BYTES;
}

struct lookup {
    enum rcode rcode;
    bool is_dropped;
    bool has_name; /* some rule matches, whatever its type */
    bool is_truncated;
    uint32_t delay;                 /* ms */
    char target[ZONE_NAME_MAX + 1]; /* of a CNAME; "" = none */
    unsigned target_at;             /* where in the answer the target was written */
};

/* Does a rule without '*' match the name? Then wildcards do not (RFC 4592). */
static bool is_known(const struct zone *zone, struct slice name)
{
    struct slice digits;
    for (size_t i = 0; i < zone->count; i++) {
        if (!zone_rule_is_wildcard(&zone->rules[i]) &&
            zone_rule_matches(&zone->rules[i], name, &digits)) {
            return true;
        }
    }
    return false;
}

/* Put every record of one name. */
static void look_up(struct writer *w, const struct zone *zone, const char *name, unsigned owner,
                    unsigned type, struct lookup *ret)
{
    char value[ZONE_NAME_MAX + 1];
    struct slice digits;
    *ret = (struct lookup){.rcode = RCODE_OK};
    for (size_t i = 0; i < zone->count; i++) {
        const struct zone_rule *rule = &zone->rules[i];
        if (!zone_rule_matches(rule, slice_of(name), &digits) ||
            (zone_rule_is_wildcard(rule) && is_known(zone, slice_of(name)))) {
            continue;
        }
        ret->has_name = true;
        switch (rule->type) {
        case ZONE_DROP:
            ret->is_dropped = true;
            return;
        case ZONE_NXDOMAIN:
            ret->rcode = RCODE_NXDOMAIN;
            return;
        case ZONE_SERVFAIL:
            ret->rcode = RCODE_SERVFAIL;
            return;
        case ZONE_REFUSED:
            ret->rcode = RCODE_REFUSED;
            return;
        case ZONE_DELAY:
            ret->delay = rule->delay;
            continue;
        case ZONE_TC:
            ret->is_truncated = true;
            continue;
        case ZONE_A:
        case ZONE_AAAA:
        case ZONE_MX:
        case ZONE_TXT:
        case ZONE_CNAME:
            break;
        }
        bool is_alias = rule->type == ZONE_CNAME && type != ZONE_CNAME;
        if (((unsigned)rule->type == type || type == TYPE_ANY || is_alias) &&
            zone_rule_value(rule, digits, value)) {
            unsigned data = put_record(w, owner, rule, value);
            if (is_alias) {
                memcpy(ret->target, value, sizeof(ret->target));
                ret->target_at = data;
            }
        }
    }
}

static void put_soa(struct writer *w)
{
    uint16_t before = w->answers;
    size_t at = begin_record(w, HEADER_BYTES, TYPE_SOA);
    put_name(w, SLICE("ns.test"));
    put_name(w, SLICE("hostmaster.test"));
    static const uint8_t times[16] = {0, 0, 0, 1, 0, 0, 14, 16, 0, 0, 2, 88, 0, 1, 81, 128};
    put_wire(w, times, sizeof(times));
    put16(w, w->ttl >> 16); /* how long a negative answer holds, RFC 2308 */
    put16(w, w->ttl & 0xffff);
    end_record(w, at);
    w->answers = before; /* the SOA stands in the authority section and counts there */
}

/* The name and what its aliases lead to. ret is about the last name, but for TC and the delay,
 * which any of them may ask for. */
static void follow(struct writer *w, const struct zone *zone, char name[ZONE_NAME_MAX + 1],
                   unsigned type, struct lookup *ret)
{
    unsigned owner = HEADER_BYTES;
    bool is_truncated = false;
    uint32_t delay = 0;
    for (int chain = 0;; chain++) {
        look_up(w, zone, name, owner, type, ret);
        is_truncated = is_truncated || ret->is_truncated;
        delay = ret->delay > delay ? ret->delay : delay;
        if (ret->target[0] == '\0' || chain == CHAIN_MAX) {
            break;
        }
        memcpy(name, ret->target, sizeof(ret->target));
        owner = ret->target_at;
    }
    ret->is_truncated = is_truncated;
    ret->delay = delay;
}

size_t zone_answer(const struct zone *zone, struct slice query, uint32_t ttl,
                   uint8_t ret[ZONE_ANSWER_MAX], uint32_t *ret_delay)
{
    char name[ZONE_NAME_MAX + 1];
    struct lookup found;
    const uint8_t *head = (const uint8_t *)query.data;
    if (query.len < HEADER_BYTES || (head[2] & 0xf8) != 0 || head[4] != 0 || head[5] != 1) {
        return 0; /* not a plain query with one question */
    }
    size_t name_len = read_name(query, name);
    if (name_len == 0 || HEADER_BYTES + name_len + 4 > query.len) {
        return 0;
    }
    const uint8_t *type_at = head + HEADER_BYTES + name_len;
    unsigned type = (unsigned)type_at[0] << 8 | type_at[1];
    struct writer w = {.data = ret, .ttl = ttl};
    put_wire(&w, head, HEADER_BYTES + name_len + 4);

    follow(&w, zone, name, type, &found);
    if (found.is_dropped) {
        return 0;
    }
    if (!found.has_name) {
        found.rcode = RCODE_NXDOMAIN;
    }
    bool is_truncated = found.is_truncated && ret_delay != NULL;
    bool has_soa = w.answers == 0 && (found.rcode == RCODE_OK || found.rcode == RCODE_NXDOMAIN);
    uint16_t answers = w.answers;
    if (has_soa) {
        put_soa(&w);
    }
    if (w.failed || is_truncated) {
        found.rcode = is_truncated ? RCODE_OK : RCODE_SERVFAIL;
        w.len = HEADER_BYTES + name_len + 4;
        answers = 0;
        has_soa = false;
    }
    if (ret_delay != NULL) {
        *ret_delay = found.delay;
    }
    ret[2] = (uint8_t)(0x84 | (is_truncated ? 2 : 0) | (head[2] & 1)); /* authoritative, TC */
    ret[3] = (uint8_t)(0x80 | found.rcode);
    ret[6] = (uint8_t)(answers >> 8);
    ret[7] = (uint8_t)answers;
    ret[8] = ret[10] = ret[11] = 0;
    ret[9] = has_soa ? 1 : 0;
    return w.len;
}
