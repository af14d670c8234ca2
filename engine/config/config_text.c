/* Owns the way back from a typed value to text. Called by who explains a configuration. */
#include "engine/config/config_text.h"

#include "engine/config/config.h"
#include "sched/limit/rate_text.h"

#include <assert.h>
#include <netdb.h>
#include <string.h>
#include <time.h>

static void put_span(usec_t value, struct buf *out)
{
    long long seconds = (long long)(value / USEC_PER_SEC);
    long long msec = (long long)(value % USEC_PER_SEC / USEC_PER_MSEC);
    if (msec > 0 && seconds > 0) {
        buf_printf(out, "%llds%lldms", seconds, msec);
    } else if (msec > 0) {
        buf_printf(out, "%lldms", msec);
    } else if (seconds > 0 && seconds % 86400 == 0) {
        buf_printf(out, "%lldd", seconds / 86400);
    } else if (seconds > 0 && seconds % 3600 == 0) {
        buf_printf(out, "%lldh", seconds / 3600);
    } else {
        buf_printf(out, "%llds", seconds);
    }
}

static void put_size(uint64_t value, struct buf *out)
{
    static const char units[] = "KMGT";
    char unit[2] = "";
    for (size_t i = 0; i < sizeof(units) - 1 && value > 0 && value % 1024 == 0; i++) {
        unit[0] = units[i];
        value /= 1024;
    }
    buf_printf(out, "%llu%s", (unsigned long long)value, unit);
}

static void put_address(const struct config_address *a, struct buf *out)
{
    struct ip ip;
    uint16_t port;
    char text[IP_TEXT_MAX];
    if (a->len > 0 && ip_from_sockaddr(&a->address, &ip, &port) == 0) {
        buf_printf(out, ip.family == 6 ? "[%s]:%u" : "%s:%u", ip_text(&ip, text), (unsigned)port);
    }
}

static void put_network(const struct config_network *n, struct buf *out)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    bool is_v4 = n->bits >= 96 && memcmp(n->address, mapped, sizeof(mapped)) == 0;
    struct ip ip = {.family = is_v4 ? 4 : 6};
    char text[IP_TEXT_MAX];
    memcpy(ip.bytes, n->address + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
    buf_printf(out, "%s/%d", ip_text(&ip, text), n->bits - (is_v4 ? 96 : 0));
}

static void put_rate(const struct rate_rule *rule, struct buf *out)
{
    char text[RATE_TEXT_BYTES];
    rate_print(rule, text);
    buf_append_str(out, text);
}

static void put_date(int64_t days, struct buf *out)
{
    struct tm day;
    time_t seconds = days * 86400;
    if (days != 0 && gmtime_r(&seconds, &day) != NULL) {
        buf_printf(out, "%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
    }
}

static size_t list_count(const struct config_option *o, const void *field)
{
    if (o->type == CONFIG_TYPE_TEXTS || o->type == CONFIG_TYPE_PATTERNS) {
        return ((const struct config_texts *)field)->count;
    }
    if (o->type == CONFIG_TYPE_NUMBERS) {
        return ((const struct config_numbers *)field)->count;
    }
    if (o->type == CONFIG_TYPE_QUOTAS) {
        return ((const struct config_quotas *)field)->count;
    }
    if (o->type == CONFIG_TYPE_NETWORKS) {
        return ((const struct config_networks *)field)->count;
    }
    return ((const struct config_addresses *)field)->count;
}

static void put_list(const struct config_option *o, const void *field, struct buf *out)
{
    size_t count = list_count(o, field);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(out, i == 0 ? "" : ", ");
        if (o->type == CONFIG_TYPE_TEXTS || o->type == CONFIG_TYPE_PATTERNS) {
            buf_append_str(out, ((const struct config_texts *)field)->items[i]);
        } else if (o->type == CONFIG_TYPE_NUMBERS) {
            buf_printf(out, "%d", ((const struct config_numbers *)field)->items[i]);
        } else if (o->type == CONFIG_TYPE_QUOTAS) {
            put_rate(&((const struct config_quotas *)field)->items[i], out);
        } else if (o->type == CONFIG_TYPE_NETWORKS) {
            put_network(&((const struct config_networks *)field)->items[i], out);
        } else {
            put_address(&((const struct config_addresses *)field)->items[i], out);
        }
    }
}

void config_text_value(const struct config_option *o, const void *field, struct buf *out)
{
    char text[IP_TEXT_MAX];
    switch (o->type) {
    case CONFIG_TYPE_INT:
        buf_printf(out, "%d", *(const int *)field);
        break;
    case CONFIG_TYPE_BOOL:
        buf_append_str(out, *(const bool *)field ? "yes" : "no");
        break;
    case CONFIG_TYPE_TIME:
        put_span(*(const usec_t *)field, out);
        break;
    case CONFIG_TYPE_SIZE:
        put_size(*(const uint64_t *)field, out);
        break;
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_FEEDBACK:
        buf_append_str(out, *(char *const *)field == NULL ? "" : *(char *const *)field);
        break;
    case CONFIG_TYPE_CHOICE:
        buf_append_str(out, o->choices[*(const unsigned *)field]);
        break;
    case CONFIG_TYPE_IP:
        if (((const struct ip *)field)->family != 0) {
            buf_append_str(out, ip_text(field, text));
        }
        break;
    case CONFIG_TYPE_ADDRESS:
        put_address(field, out);
        break;
    case CONFIG_TYPE_RATE:
    case CONFIG_TYPE_QUOTA:
        put_rate(field, out);
        break;
    case CONFIG_TYPE_DATE:
        put_date(*(const int64_t *)field, out);
        break;
    case CONFIG_TYPE_TEXTS:
    case CONFIG_TYPE_PATTERNS:
    case CONFIG_TYPE_QUOTAS:
    case CONFIG_TYPE_NUMBERS:
    case CONFIG_TYPE_NETWORKS:
    case CONFIG_TYPE_ADDRESSES:
        put_list(o, field, out);
        break;
    case CONFIG_TYPE_COUNT:
    default:
        assert(false && "no type");
    }
}
