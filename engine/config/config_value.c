/* Owns the syntax of option values. Called by the loader; must not know files or other options. */
#include "engine/config/config_value.h"

#include "base/error.h"
#include "engine/config/name_pattern.h"
#include "sched/limit/rate_text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

PRINTF_LIKE(2, 3) static int refuse(char why[CONFIG_WHY_BYTES], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, CONFIG_WHY_BYTES, fmt, ap); /* cut where it is too long */
    va_end(ap);
    return ERR_SYNTAX;
}

/* Decimal digits, saturating: an overflow is larger than every limit. Returns where they end. */
static const char *read_span_digits(const char *text, int64_t *ret)
{
    int64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *text - '0', &value)) {
            value = INT64_MAX;
        }
    }
    *ret = value;
    return text;
}

static int parse_int(const struct config_option *o, const char *text, int64_t *ret, char *why)
{
    bool is_negative = text[0] == '-';
    const char *digits = text + is_negative;
    int64_t value = 0;
    const char *end = read_span_digits(digits, &value);
    if (end == digits || *end != '\0') {
        return refuse(why, "\"%.40s\" is not a whole number; write digits only, such as %s", text,
                      o->initial != NULL ? o->initial : "10");
    }
    value = is_negative ? -value : value;
    if (value < o->min || value > o->max) {
        if (o->max >= INT_MAX) {
            return refuse(why, "%.40s is out of range; write %lld or more, less than 2^31", text,
                          (long long)o->min);
        }
        return refuse(why, "%.40s is out of range; write a number from %lld to %lld", text,
                      (long long)o->min, (long long)o->max);
    }
    *ret = value;
    return 0;
}

static int64_t time_unit_seconds(char unit)
{
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    case 'w':
        return 7 * 86400;
    default:
        return 0;
    }
}

/* One number and its unit, in milliseconds, saturating. Returns where it ends, NULL: it is none.
 * unit: for a number without one, only taken alone */
static const char *read_part(const char *text, char unit, int64_t *ret_msec, int64_t *ret_unit)
{
    const char *end = read_span_digits(text, ret_msec);
    bool is_msec = end[0] == 'm' && end[1] == 's';
    char named = *end == '\0' ? unit : *end;
    *ret_unit = is_msec ? 1 : 1000 * time_unit_seconds(named);
    if (end == text || *ret_unit == 0) {
        return NULL;
    }
    if (__builtin_mul_overflow(*ret_msec, *ret_unit, ret_msec)) {
        *ret_msec = INT64_MAX;
    }
    return end + (*end != '\0') + is_msec;
}

/* "90", "90s", and as times are printed: "2h30m", "500ms", the largest unit first. */
static bool read_time(const char *text, char unit, int64_t *ret_msec)
{
    int64_t last = INT64_MAX, sum = 0, part, each;
    do {
        bool is_first = text[0] != '\0' && last == INT64_MAX;
        text = read_part(text, is_first ? unit : '\0', &part, &each);
        if (text == NULL || each >= last) {
            return false;
        }
        last = each;
        if (__builtin_add_overflow(sum, part, &sum)) {
            sum = INT64_MAX;
        }
    } while (*text != '\0');
    *ret_msec = sum;
    return true;
}

/* "100/m", what somebody who thinks of a rate writes for the pause between two: never a shorter
 * one.
 */
static bool read_rate(const char *text, int64_t *ret_msec)
{
    int64_t count = 0;
    const char *end = read_span_digits(text, &count);
    if (end == text || count == 0 || end[0] != '/' || end[1] == '\0' || end[2] != '\0' ||
        time_unit_seconds(end[1]) == 0) {
        return false;
    }
    int64_t unit = 1000 * time_unit_seconds(end[1]);
    *ret_msec = unit / count + (unit % count != 0);
    return true;
}

static bool is_rate_delay(const struct config_option *o)
{
    static const char tail[] = "_rate_delay";
    size_t len = strlen(o->name);
    return len >= sizeof(tail) && strcmp(o->name + len - (sizeof(tail) - 1), tail) == 0;
}

static int parse_time(const struct config_option *o, const char *text, int64_t *ret, char *why)
{
    int64_t value = 0;
    if (!read_time(text, o->unit, &value) && !(is_rate_delay(o) && read_rate(text, &value))) {
        return refuse(why,
                      "\"%.40s\" is not a time; write a whole number and s, m, h, d or w, "
                      "such as %s%s",
                      text, o->initial != NULL ? o->initial : "10s",
                      is_rate_delay(o) ? ", or a rate, such as 100/m" : "");
    }
    if (value < o->min * 1000 || value > o->max * 1000) {
        if (o->max >= INT32_MAX) {
            return refuse(why, "%.40s is out of range; write %llds or more, less than 68 years",
                          text, (long long)o->min);
        }
        return refuse(why, "%.40s is out of range; write a time from %llds to %llds", text,
                      (long long)o->min, (long long)o->max);
    }
    *ret = value * (USEC_PER_SEC / 1000);
    return 0;
}

static int parse_size(const struct config_option *o, const char *text, int64_t *ret, char *why)
{
    static const char units[] = "KMGT";
    int64_t value = 0;
    const char *end = read_span_digits(text, &value);
    int64_t factor = 1;
    if (end != text && *end != '\0') {
        const char *unit = strchr(units, *end);
        factor = unit != NULL && end[1] == '\0' ? 1LL << (10 * (unit - units + 1)) : 0;
    }
    if (end == text || factor == 0) {
        return refuse(why,
                      "\"%.40s\" is not a size; write a whole number of bytes, or with K, M, "
                      "G or T, such as %s",
                      text, o->initial != NULL ? o->initial : "10M");
    }
    if (__builtin_mul_overflow(value, factor, &value)) {
        value = INT64_MAX;
    }
    if (value < o->min || value > o->max) {
        return refuse(why, "%.40s is out of range; write %lld to %lld bytes", text,
                      (long long)o->min, (long long)o->max);
    }
    *ret = value;
    return 0;
}

static int parse_bool(const char *text, int64_t *ret, char *why)
{
    if (strcasecmp(text, "yes") == 0 || strcasecmp(text, "true") == 0 ||
        strcasecmp(text, "on") == 0) {
        *ret = 1;
    } else if (strcasecmp(text, "no") == 0 || strcasecmp(text, "false") == 0 ||
               strcasecmp(text, "off") == 0) {
        *ret = 0;
    } else {
        return refuse(why, "\"%.40s\" is neither yes nor no; write yes or no", text);
    }
    return 0;
}

static int parse_choice(const struct config_option *o, const char *text, int64_t *ret, char *why)
{
    char all[128] = "", meant[CONFIG_NEAR_TEXT];
    struct config_near near;
    config_near_begin(&near, text);
    for (size_t i = 0; o->choices[i] != NULL; i++) {
        config_near_offer(&near, o->choices[i]);
        if (strcmp(o->choices[i], text) == 0) {
            *ret = (int64_t)i;
            return 0;
        }
        (void)strncat(all, i == 0 ? "" : ", ", sizeof(all) - strlen(all) - 1);
        (void)strncat(all, o->choices[i], sizeof(all) - strlen(all) - 1);
    }
    return refuse(why, "\"%.40s\" is not known; write one of %s%s", text, all,
                  config_near_text(&near, meant));
}

static int check_text(const struct config_option *o, const char *text, char *why)
{
    size_t len = strlen(text);
    if ((int64_t)len < o->min) {
        return refuse(why, "the value is empty; write something, or leave the option out");
    }
    if ((int64_t)len > o->max) {
        return refuse(why, "the value has %zu bytes; write %lld at most", len, (long long)o->max);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return refuse(why, "the value has a control character; write printable text");
        }
    }
    return 0;
}

int config_network_parse(struct slice text, struct config_network *ret)
{
    struct config_network n = {.address = {0}};
    char address[INET6_ADDRSTRLEN];
    size_t slash = slice_find(text, '/');
    if (slash == 0 || slash >= sizeof(address) || memchr(text.data, '\0', text.len) != NULL) {
        return ERR_SYNTAX;
    }
    memcpy(address, text.data, slash);
    address[slash] = '\0';
    int base = 0;
    if (inet_pton(AF_INET, address, n.address + 12) == 1) {
        n.address[10] = n.address[11] = 0xff;
        base = 96;
    } else if (inet_pton(AF_INET6, address, n.address) != 1) {
        return ERR_SYNTAX;
    }
    n.bits = 128;
    if (slash < text.len) {
        char digits[4] = "";
        size_t len = text.len - slash - 1;
        int64_t bits = 0;
        if (len == 0 || len >= sizeof(digits)) {
            return ERR_SYNTAX;
        }
        memcpy(digits, text.data + slash + 1, len);
        if (*read_span_digits(digits, &bits) != '\0' || bits > 128 - base) {
            return ERR_SYNTAX;
        }
        n.bits = base + (int)bits;
    }
    for (int bit = n.bits; bit < 128; bit++) {
        if ((n.address[bit / 8] & (0x80 >> (bit % 8))) != 0) {
            return ERR_SYNTAX;
        }
    }
    *ret = n;
    return 0;
}

/* Split at the port; host without brackets goes to ret_host. */
static int split_port(struct slice text, int default_port, char ret_host[INET6_ADDRSTRLEN],
                      int64_t *ret_port)
{
    struct slice host = text;
    struct slice port = slice_make("", 0);
    bool has_port = false;
    if (text.len > 0 && text.data[0] == '[') {
        size_t end = slice_find(text, ']');
        if (end == text.len || (end + 1 < text.len && text.data[end + 1] != ':')) {
            return ERR_SYNTAX;
        }
        host = slice_make(text.data + 1, end - 1);
        has_port = end + 1 < text.len;
        port = has_port ? slice_from(text, end + 2) : port;
    } else {
        size_t colon = slice_find(text, ':');
        bool is_bare_v6 =
            colon < text.len && memchr(text.data + colon + 1, ':', text.len - colon - 1) != NULL;
        has_port = colon < text.len && !is_bare_v6;
        if (has_port) {
            host = slice_to(text, colon);
            port = slice_from(text, colon + 1);
        }
    }
    char digits[6] = "";
    if (host.len == 0 || host.len >= INET6_ADDRSTRLEN || port.len >= sizeof(digits) ||
        has_port != (port.len > 0) || (!has_port && default_port == 0)) {
        return ERR_SYNTAX;
    }
    memcpy(digits, port.data, port.len);
    *ret_port = default_port;
    if (has_port &&
        (*read_span_digits(digits, ret_port) != '\0' || *ret_port < 1 || *ret_port > 65535)) {
        return ERR_SYNTAX;
    }
    memcpy(ret_host, host.data, host.len);
    ret_host[host.len] = '\0';
    return 0;
}

int config_address_parse(struct slice text, int default_port, struct config_address *ret)
{
    char host[INET6_ADDRSTRLEN];
    int64_t port = 0;
    if (memchr(text.data, '\0', text.len) != NULL ||
        split_port(text, default_port, host, &port) < 0) {
        return ERR_SYNTAX;
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct config_address a = {.len = 0};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&a.address, &v4, sizeof(v4));
        a.len = sizeof(v4);
    } else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(&a.address, &v6, sizeof(v6));
        a.len = sizeof(v6);
    } else {
        return ERR_SYNTAX;
    }
    *ret = a;
    return 0;
}

static_assert(CONFIG_WHY_BYTES >= RATE_WHY_BYTES && CONFIG_WHY_BYTES >= QUOTA_WHY_BYTES,
              "what is wrong with a rate is said where a value is refused");

/* A rate, a quota, or a day's quota of a list. */
static int parse_rate(const struct config_option *o, const char *text, struct rate_rule *ret,
                      char *why)
{
    if (o->type == CONFIG_TYPE_RATE) {
        return rate_parse(slice_of(text), ret, why);
    }
    int err = rate_parse_quota(slice_of(text), ret, why);
    if (err == 0 && o->type == CONFIG_TYPE_QUOTAS && ret->count > 0 &&
        ret->span != 86400 * USEC_PER_SEC) {
        return refuse(why, "\"%.40s\" is no quota of a day; write it with /d, such as 500/d", text);
    }
    return err;
}

int config_value_check(const struct config_option *o, const char *text,
                       char ret_why[CONFIG_WHY_BYTES])
{
    int64_t number;
    struct config_network network;
    struct config_address address;
    struct rate_rule rate;
    struct ip ip;
    switch (o->type) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_NUMBERS:
        return parse_int(o, text, &number, ret_why);
    case CONFIG_TYPE_BOOL:
        return parse_bool(text, &number, ret_why);
    case CONFIG_TYPE_TIME:
        return parse_time(o, text, &number, ret_why);
    case CONFIG_TYPE_SIZE:
        return parse_size(o, text, &number, ret_why);
    case CONFIG_TYPE_CHOICE:
        return parse_choice(o, text, &number, ret_why);
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_FEEDBACK:
        return check_text(o, text, ret_why);
    case CONFIG_TYPE_IP:
        if (ip_parse(slice_of(text), &ip) < 0 || ip.family != o->min) {
            return refuse(ret_why, "\"%.60s\" is not an IPv%d address; write one, such as %s", text,
                          (int)o->min, o->min == 4 ? "192.0.2.1" : "2001:db8::1");
        }
        return 0;
    case CONFIG_TYPE_ADDRESS:
        if (config_address_parse(slice_of(text), 0, &address) < 0) {
            return refuse(ret_why,
                          "\"%.60s\" is not a numeric address with port; write ADDR:PORT, such as "
                          "192.0.2.1:1080 or [2001:db8::1]:1080",
                          text);
        }
        return 0;
    case CONFIG_TYPE_RATE:
    case CONFIG_TYPE_QUOTA:
    case CONFIG_TYPE_QUOTAS:
        return parse_rate(o, text, &rate, ret_why);
    case CONFIG_TYPE_DATE:
        return quota_parse_date(slice_of(text), &number, ret_why);
    case CONFIG_TYPE_PATTERNS:
        if (!name_pattern_is_valid(slice_of(text))) {
            return refuse(ret_why,
                          "\"%.60s\" is not a pattern of names; write a name, with *. in front of "
                          "it for each label that may be any, such as *.example.com",
                          text);
        }
        return 0;
    case CONFIG_TYPE_TEXTS:
        return text[0] != '\0' ? 0 : refuse(ret_why, "an item is empty; write a name");
    case CONFIG_TYPE_NETWORKS:
        if (config_network_parse(slice_of(text), &network) < 0) {
            return refuse(ret_why,
                          "\"%.60s\" is not a network; write an address or a prefix "
                          "without host bits, such as 192.0.2.0/24 or 2001:db8::/32",
                          text);
        }
        return 0;
    case CONFIG_TYPE_ADDRESSES:
        if (config_address_parse(slice_of(text), 53, &address) < 0) {
            return refuse(ret_why,
                          "\"%.60s\" is not a numeric address; write ADDR or ADDR:PORT, "
                          "such as 192.0.2.1:53 or [2001:db8::1]:53",
                          text);
        }
        return 0;
    case CONFIG_TYPE_COUNT:
        break;
    }
    abort();
}

static size_t item_bytes(enum config_type type)
{
    switch ((int)type) {
    case CONFIG_TYPE_QUOTAS:
        return sizeof(struct rate_rule);
    case CONFIG_TYPE_TEXTS:
    case CONFIG_TYPE_PATTERNS:
        return sizeof(char *);
    case CONFIG_TYPE_NUMBERS:
        return sizeof(int);
    case CONFIG_TYPE_NETWORKS:
        return sizeof(struct config_network);
    default:
        return sizeof(struct config_address);
    }
}

static int set_item(const struct config_option *o, const char *text, void *item)
{
    char why[CONFIG_WHY_BYTES];
    int64_t number = 0;
    int err;
    switch ((int)o->type) {
    case CONFIG_TYPE_QUOTAS:
        return parse_rate(o, text, item, why);
    case CONFIG_TYPE_TEXTS:
    case CONFIG_TYPE_PATTERNS:
        *(char **)item = strdup(text);
        return *(char **)item == NULL ? -ENOMEM : 0;
    case CONFIG_TYPE_NUMBERS:
        err = parse_int(o, text, &number, why);
        *(int *)item = (int)number;
        return err;
    case CONFIG_TYPE_NETWORKS:
        return config_network_parse(slice_of(text), item);
    default:
        return config_address_parse(slice_of(text), 53, item);
    }
}

/* All lists begin alike: the items, then their number. */
struct any_list {
    void *items;
    size_t count;
};
static_assert(sizeof(struct any_list) == sizeof(struct config_texts) &&
                  offsetof(struct any_list, count) == offsetof(struct config_texts, count) &&
                  offsetof(struct any_list, count) == offsetof(struct config_numbers, count) &&
                  offsetof(struct any_list, count) == offsetof(struct config_quotas, count) &&
                  offsetof(struct any_list, count) == offsetof(struct config_networks, count) &&
                  offsetof(struct any_list, count) == offsetof(struct config_addresses, count),
              "set_list and config_value_clear write any list");

static int set_list(const struct config_option *o, const char *const *items, size_t count,
                    void *field)
{
    size_t bytes = item_bytes(o->type);
    struct any_list list = {.items = count == 0 ? NULL : calloc(count, bytes)};
    int err = count > 0 && list.items == NULL ? -ENOMEM : 0;
    for (; list.count < count && err == 0; list.count++) {
        err = set_item(o, items[list.count], (char *)list.items + list.count * bytes);
    }
    memcpy(field, &list, sizeof(list));
    return err;
}

static int set_number_field(const struct config_option *o, const char *text, void *field)
{
    char why[CONFIG_WHY_BYTES];
    int64_t number = 0;
    int err;
    switch ((int)o->type) {
    case CONFIG_TYPE_INT:
        err = parse_int(o, text, &number, why);
        *(int *)field = (int)number;
        return err;
    case CONFIG_TYPE_BOOL:
        err = parse_bool(text, &number, why);
        *(bool *)field = number != 0;
        return err;
    case CONFIG_TYPE_TIME:
        err = parse_time(o, text, &number, why);
        *(usec_t *)field = number;
        return err;
    case CONFIG_TYPE_SIZE:
        err = parse_size(o, text, &number, why);
        *(uint64_t *)field = (uint64_t)number;
        return err;
    default:
        err = parse_choice(o, text, &number, why);
        *(unsigned *)field = (unsigned)number; /* enums without negative values are unsigned */
        return err;
    }
}

int config_value_set(const struct config_option *o, const char *const *items, size_t count,
                     void *field)
{
    char why[CONFIG_WHY_BYTES];
    config_value_clear(o, field);
    if (config_option_is_list(o)) {
        return set_list(o, items, count, field);
    }
    if (o->type == CONFIG_TYPE_TEXT || o->type == CONFIG_TYPE_FEEDBACK) {
        *(char **)field = strdup(items[0]);
        return *(char **)field == NULL ? -ENOMEM : 0;
    }
    if (o->type == CONFIG_TYPE_IP) {
        return ip_parse(slice_of(items[0]), field);
    }
    if (o->type == CONFIG_TYPE_ADDRESS) {
        return config_address_parse(slice_of(items[0]), 0, field);
    }
    if (o->type == CONFIG_TYPE_RATE || o->type == CONFIG_TYPE_QUOTA) {
        return parse_rate(o, items[0], field, why);
    }
    if (o->type == CONFIG_TYPE_DATE) {
        return quota_parse_date(slice_of(items[0]), field, why);
    }
    return set_number_field(o, items[0], field);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Texts by what they say, everything else byte by byte: it is written from zeroed memory. */
static bool is_same_list(const struct config_option *o, const void *a, const void *b)
{
    struct any_list x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    if (x.count != y.count) {
        return false;
    }
    bool has_texts = o->type == CONFIG_TYPE_TEXTS || o->type == CONFIG_TYPE_PATTERNS;
    for (size_t i = 0; i < x.count && has_texts; i++) {
        if (strcmp(((char **)x.items)[i], ((char **)y.items)[i]) != 0) {
            return false;
        }
    }
    return has_texts || x.count == 0 ||
           memcmp(x.items, y.items, x.count * item_bytes(o->type)) == 0;
}

bool config_value_equal(const struct config_option *o, const void *a, const void *b)
{
    switch (o->type) {
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_FEEDBACK:
        return is_same_text(*(char *const *)a, *(char *const *)b);
    case CONFIG_TYPE_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_CHOICE:
        return memcmp(a, b, sizeof(int)) == 0;
    case CONFIG_TYPE_TIME:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_DATE:
        return memcmp(a, b, sizeof(uint64_t)) == 0;
    case CONFIG_TYPE_IP:
        return ip_eq(a, b);
    case CONFIG_TYPE_ADDRESS:
        return ((const struct config_address *)a)->len == ((const struct config_address *)b)->len &&
               memcmp(a, b, ((const struct config_address *)a)->len) == 0;
    case CONFIG_TYPE_RATE:
    case CONFIG_TYPE_QUOTA:
        return memcmp(a, b, sizeof(struct rate_rule)) == 0;
    case CONFIG_TYPE_TEXTS:
    case CONFIG_TYPE_PATTERNS:
    case CONFIG_TYPE_NUMBERS:
    case CONFIG_TYPE_QUOTAS:
    case CONFIG_TYPE_NETWORKS:
    case CONFIG_TYPE_ADDRESSES:
    case CONFIG_TYPE_COUNT:
    default:
        return is_same_list(o, a, b);
    }
}

void config_value_clear(const struct config_option *o, void *field)
{
    struct any_list list;
    if (o->type == CONFIG_TYPE_TEXT || o->type == CONFIG_TYPE_FEEDBACK) {
        free(*(char **)field);
        *(char **)field = NULL;
    } else if (config_option_is_list(o)) {
        memcpy(&list, field, sizeof(list));
        bool has_texts = o->type == CONFIG_TYPE_TEXTS || o->type == CONFIG_TYPE_PATTERNS;
        for (size_t i = 0; i < list.count && has_texts; i++) {
            free(((char **)list.items)[i]);
        }
        free(list.items);
        memset(field, 0, sizeof(list));
    }
}
