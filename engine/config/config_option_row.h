/* How a row of the table of options is written. Included by config_option.c alone; must not know any
 * option. */
#ifndef ENGINE_CONFIG_OPTION_ROW_H
#define ENGINE_CONFIG_OPTION_ROW_H

#include "engine/config/config.h"
#include "engine/config/config_option.h"

#include <stdint.h>

#define DAYS(n)        ((int64_t)(n)*86400)
#define MEGA(n)        ((int64_t)(n) << 20)
#define TIME_MAX       INT32_MAX /* seconds */
#define SIZE_MAX_BYTES (1LL << 50)

#define AT_START         0x100 /* what only a restart changes */
#define AT_RECEIVER      0x200 /* what `provider` and `domain` may set as well */
#define AT_LANE          0x400 /* ... and is of a site's lanes */
#define AT_ALL           (AT_START | AT_RECEIVER | AT_LANE)
#define START(field)     CONFIG_SECTION_GLOBAL | AT_START, offsetof(struct config, field)
#define SPOOL(field)     CONFIG_SECTION_SPOOL | AT_START, offsetof(struct config, field)
#define DNS(field)       CONFIG_SECTION_DNS, offsetof(struct config_dns, field)
#define GLOBAL(field)    CONFIG_SECTION_GLOBAL, offsetof(struct config, field)
#define WEBHOOK(field)   CONFIG_SECTION_WEBHOOK, offsetof(struct config_webhook, field)
#define CSV(field)       CONFIG_SECTION_CSV, offsetof(struct config_csv, field)
#define LISTENER(field)  CONFIG_SECTION_LISTENER, offsetof(struct config_listener, field)
#define HTTP(field)      CONFIG_SECTION_HTTP, offsetof(struct config_http, field)
#define REPLIES(field)   CONFIG_SECTION_REPLIES, offsetof(struct config, field)
#define TLSRPT(field)    CONFIG_SECTION_TLS_REPORT, offsetof(struct config, tls_report.field)
#define CLUSTER(field)   CONFIG_SECTION_CLUSTER | AT_START, offsetof(struct config, cluster.field)
#define TENANT(field)    CONFIG_SECTION_TENANT, offsetof(struct config_tenant, field)
#define DKIM(field)      CONFIG_SECTION_DKIM, offsetof(struct config_dkim, field)
#define SUPPRESS(field)  CONFIG_SECTION_SUPPRESSION, offsetof(struct config_suppression, field)
#define SOURCE(field)    CONFIG_SECTION_SOURCE, offsetof(struct config_egress_source, field)
#define POOL(field)      CONFIG_SECTION_POOL, offsetof(struct config_egress_pool, field)
#define TRANSPORT(field) CONFIG_SECTION_TRANSPORT, offsetof(struct config_transport, field)
#define SCHED(field)     CONFIG_SECTION_TRANSPORT, offsetof(struct config_transport, sched.field)
#define SMTP(field)      CONFIG_SECTION_TRANSPORT, offsetof(struct config_transport, smtp.field)
#define RECEIVER(field)                                                                            \
    CONFIG_SECTION_TRANSPORT | AT_RECEIVER, offsetof(struct config_transport, field)
#define LANE(field)                                                                                \
    CONFIG_SECTION_TRANSPORT | AT_RECEIVER | AT_LANE, offsetof(struct config_transport, field)
#define PROVIDER(field) CONFIG_SECTION_PROVIDER, offsetof(struct config_receiver, field)
#define ROUTE(field)    CONFIG_SECTION_ROUTE, offsetof(struct config_route, field)

/* Each takes (name, section and offset, default, ..., documentation). */
#define ROW(...) ROW_(__VA_ARGS__)
#define ROW_(n, s, o, t, d, dd, lo, hi, u, c, text)                                                \
    {                                                                                              \
        .name = (n), .section = (enum config_section)((s) & ~AT_ALL),                              \
        .needs_restart = ((s)&AT_START) != 0, .is_receivers = ((s)&AT_RECEIVER) != 0,              \
        .is_lanes = ((s)&AT_LANE) != 0, .type = (t), .offset = (o), .initial = (d),                \
        .initial_doc = (dd), .min = (lo), .max = (hi), .unit = (u), .choices = (c), .doc = (text)  \
    }
#define INT(n, at, d, lo, hi, text)  ROW(n, at, CONFIG_TYPE_INT, d, NULL, lo, hi, 0, NULL, text)
#define BOOL(n, at, d, text)         ROW(n, at, CONFIG_TYPE_BOOL, d, NULL, 0, 1, 0, NULL, text)
#define TIME(n, at, d, lo, hi, text) ROW(n, at, CONFIG_TYPE_TIME, d, NULL, lo, hi, 's', NULL, text)
#define SIZE(n, at, d, lo, text)                                                                   \
    ROW(n, at, CONFIG_TYPE_SIZE, d, NULL, lo, SIZE_MAX_BYTES, 0, NULL, text)
#define TEXT(n, at, d, dd, hi, text) ROW(n, at, CONFIG_TYPE_TEXT, d, dd, 1, hi, 0, NULL, text)
#define CHOICE(n, at, d, c, text)    ROW(n, at, CONFIG_TYPE_CHOICE, d, NULL, 0, 0, 0, c, text)
#define LIST(n, at, t, dd, text)     ROW(n, at, t, NULL, dd, 0, 0, 0, NULL, text)
#define IP(n, at, family, dd, text)                                                                \
    ROW(n, at, CONFIG_TYPE_IP, NULL, dd, family, family, 0, NULL, text)
#define ADDRESS(n, at, text)     ROW(n, at, CONFIG_TYPE_ADDRESS, NULL, "none", 0, 0, 0, NULL, text)
#define RATE(n, at, text)        ROW(n, at, CONFIG_TYPE_RATE, NULL, "none", 0, 0, 0, NULL, text)
#define QUOTA(n, at, text)       ROW(n, at, CONFIG_TYPE_QUOTA, NULL, "none", 0, 0, 0, NULL, text)
#define FEEDBACK(n, at, d, text) ROW(n, at, CONFIG_TYPE_FEEDBACK, d, NULL, 1, 64, 0, NULL, text)

#endif
