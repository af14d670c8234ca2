/* The configuration: an immutable snapshot of everything the file says, fully parsed.
 *
 * config_load builds it, main owns it, everybody else reads it without a lock: no field changes
 * after config_load returned. A reload builds a second snapshot; whoever swaps them frees the old
 * one after a grace period. Strings and arrays belong to the snapshot.
 *
 * The options, their defaults, limits and documentation are one table (config_option.c). */
#ifndef ENGINE_CONFIG_H
#define ENGINE_CONFIG_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/mail_class.h"
#include "base/slice.h"
#include "dns/ip.h"
#include "engine/spool/spool_suppress.h"
#include "sched/limit/quota.h"
#include "sched/limit/rate.h"
#include "sched/sched.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#define CONFIG_DEFAULT_PATH  "/etc/sluice/sluice.conf"
#define CONFIG_PATH_VARIABLE "SLUICE_CONFIG" /* of the environment, for commands without -c */

enum config_protocols { CONFIG_PROTOCOLS_ALL, CONFIG_PROTOCOLS_IPV4, CONFIG_PROTOCOLS_IPV6 };
/* The Received field of this hop on mail that comes in over SMTP. */
enum config_received {
    CONFIG_RECEIVED_YES,
    CONFIG_RECEIVED_NO,
    CONFIG_RECEIVED_ANONYMOUS, /* without the client's name and address */
};

enum config_tls_level {
    CONFIG_TLS_NONE,
    CONFIG_TLS_MAY,
    CONFIG_TLS_ENCRYPT,
    CONFIG_TLS_VERIFY,
    CONFIG_TLS_DANE,
    CONFIG_TLS_MTA_STS,
    CONFIG_TLS_OF_TRANSPORT, /* a route's only: it says nothing */
};

/* An address prefix; IPv4 is kept as IPv4-mapped IPv6, bits count from the start of 128. */
struct config_network {
    uint8_t address[16];
    int bits; /* 0..128; IPv4 /8 is 104 */
};

struct config_networks {
    struct config_network *items;
    size_t count;
};

struct config_texts {
    char **items;
    size_t count;
};

struct config_numbers {
    int *items;
    size_t count;
};

struct config_address {
    struct sockaddr_storage address;
    socklen_t len;
};

struct config_addresses {
    struct config_address *items;
    size_t count;
};

struct config_spool {
    char *path;        /* directory */
    uint64_t map_size; /* bytes */
    uint64_t reserve;  /* bytes of map and disk that intake leaves free */
    uint64_t ballast;  /* bytes of the file given up when others fill the disk */
    uint64_t journal;  /* bytes of the file that receptions go to first; 0: none */
};

struct config_tls_report {
    char *from, *contact, *organization, *ca_file; /* each may be NULL; without `from` no reports */
    usec_t spread;
};

enum config_thread_policy { CONFIG_THREAD_OTHER, CONFIG_THREAD_BATCH };
enum config_takeover { CONFIG_TAKEOVER_AUTOMATIC, CONFIG_TAKEOVER_MANUAL };

/* `cluster {}`. Without `node` there is none. */
struct config_cluster {
    char *node, *credentials, *tls_ca_file, *tls_certificate, *tls_key, *module; /* or NULL */
    struct config_texts servers, monitors;
    int replicas;
    bool has_log;
    enum config_takeover takeover;
    uint64_t max_bytes; /* of the log */
};

/* Quotas of a day each. */
struct config_quotas {
    struct rate_rule *items;
    size_t count;
};

/* What one receiver gets of us: of a lane (a source and a site) but for site_. A rule whose count
 * is 0 is no limit. */
struct config_limits {
    struct rate_rule max_message_rate, max_recipient_rate, max_connection_rate;
    struct rate_rule max_message_quota;
    struct rate_rule site_message_rate; /* all lanes of a site together */
    usec_t block_pause, block_grace;
};

/* One `listener "ADDR:PORT" {}`. Limits of 0 mean none where the reference says so. */
struct config_listener {
    char *name; /* the title as written */
    struct config_address bind;
    struct config_networks relay_from; /* use config_listener_trusts */
    char *tls_certificate, *tls_key;   /* files; NULL: no STARTTLS */
    struct config_texts receives; /* domains, lower case, whose mail is heard and not relayed */
    char *users;                  /* file of NAME:CRYPT-HASH lines; NULL: no AUTH */
    bool require_tls;             /* MAIL only after STARTTLS */
    uint64_t message_size_limit;  /* bytes; 0 = none */
    int smtpd_recipient_limit;    /* recipients a message; 0 = none */
    usec_t smtpd_timeout;         /* silence of the client */
    int smtpd_hard_error_limit;
    int smtpd_junk_command_limit;
    int smtpd_connection_limit;              /* of this listener, all clients together */
    int smtpd_client_connection_count_limit; /* of one client address; 0 = none */
    int line_length_limit;                   /* bytes of a command line */
    char *tenant;                            /* of all its mail; NULL: none */
    char *tenant_header, *campaign_header;   /* header fields that name tenant and campaign;
                                              * NULL: none */
    char *class_header;                      /* likewise, of the class */
    enum mail_class class;                   /* of mail about which nothing else says it */
    bool mt_priority;                        /* clients may say it by RFC 6710 */
    bool keep_control_headers;               /* these three fields stay in the message */
    enum config_received received_header;
    bool notices; /* senders of this listener's mail are told what becomes of it */
};

/* One `tenant "NAME" {}`. */
struct config_tenant {
    char *name;      /* as written; "*": all tenants without a section */
    char *verp;      /* LOCAL@DOMAIN of its return addresses; NULL: the transport's */
    char *list_unsubscribe, *list_unsubscribe_url; /* as of a transport; NULL: the transport's */
    bool notices;    /* a notice is sent only when listener and tenant both say so */
    char *pool_name; /* NULL: the transport's */
    const struct config_egress_pool *pool; /* of that name, in the same snapshot */
    char *transport_name;                  /* NULL: the route's */
    size_t transport;                      /* of that name; index into transports */
    usec_t maximal_queue_lifetime;         /* 0 = one attempt */
    bool has_lifetime;                     /* the section says so, not the global option */
    enum mail_class class;                 /* MAIL_CLASS_COUNT: the listener's */
    struct config_texts classes;           /* words, as written; see allowed_classes */
    unsigned allowed_classes;              /* bits, by mail_class_bit */
    int weight;                            /* 1..1000: its share among tenants of its class */
    int queue_limit;                       /* messages; 0: none */
    bool inject;                           /* its mail is accepted */
    /* Over all that the tenant sends; of "*" each tenant has its own. */
    struct rate_rule max_message_rate, max_recipient_rate, max_message_quota;
    struct config_texts from_domains; /* lower case: of From, signed for such tenants alone */
    struct config_texts dkim;         /* titles of keys, lower case; none: those of From's domain */
    char *feedback_id;                /* template of the field Feedback-ID; NULL: none */
};

/* Bits: the form of the header, and that of the body. */
enum config_canonicalization {
    CONFIG_CANON_RELAXED_RELAXED,
    CONFIG_CANON_RELAXED_SIMPLE,
    CONFIG_CANON_SIMPLE_RELAXED,
    CONFIG_CANON_SIMPLE_SIMPLE,
};

/* One `dkim "SELECTOR._domainkey.DOMAIN" {}`. */
struct config_dkim {
    char *name;            /* lower case */
    struct slice selector; /* views of it */
    struct slice domain;
    char *key;                             /* file */
    struct config_texts headers, oversign; /* names of fields; none: the usual ones; "none" alone:
                                            * no field */
    enum config_canonicalization canonicalization;
    usec_t expire;                    /* 0: never */
    struct config_texts also;         /* domains, lower case: all their keys sign too */
    struct config_texts from_domains; /* lower case, or "*"; none: the key's own */
};

enum config_suppressed { CONFIG_SUPPRESSED_REFUSE, CONFIG_SUPPRESSED_DROP };

/* So many within that span; count 0: never. span 0: ever (count is 1 then). */
struct config_strikes {
    uint32_t count;
    usec_t span;
};

/* One `suppression "TENANT" {}`. */
struct config_suppression {
    char *name; /* as written; "*": of all tenants without a section, and of nobody */
    char *hard_bounce, *complaint, *unsubscribe, *mailbox_full; /* as written; see rules */
    struct config_strikes rules[SPOOL_SUPPRESS_REASON_COUNT];
    usec_t expire; /* of what the rules add; 0: never */
    enum config_suppressed at_intake;
};

/* One `http "ADDR:PORT" {}`. */
struct config_http {
    char *name; /* the title as written */
    struct config_address bind;
    char *tokens_file;               /* NULL: no token is asked for */
    bool trust_loopback;             /* without tokens: may do all, not only look and inject */
    char *tls_certificate, *tls_key; /* files; both or neither NULL: no TLS */
    int connection_limit;
    uint64_t request_size_limit; /* bytes of a body */
    usec_t timeout;              /* silence of the client, and the head of a request */
};

struct config_dns {
    struct config_addresses servers; /* none: resolv.conf */
    usec_t timeout;                  /* a try */
    int tries;
    int cache_size; /* names */
    usec_t cache_max_ttl;
    usec_t cache_negative_ttl; /* where the zone names none */
    bool trust_ad;             /* of servers that are not on loopback */
};

/* Client side of SMTP, scheduler-semantics 9.1; names are Postfix's. */
struct config_smtp {
    usec_t smtp_connect_timeout; /* 0 = the system's */
    usec_t smtp_helo_timeout;    /* greeting, EHLO, HELO */
    usec_t smtp_starttls_timeout;
    usec_t smtp_mail_timeout;
    usec_t smtp_rcpt_timeout;
    usec_t smtp_data_init_timeout;
    usec_t smtp_data_xfer_timeout;
    usec_t smtp_data_done_timeout;
    usec_t smtp_rset_timeout;
    usec_t smtp_quit_timeout;
    int smtp_tcp_port;
    int smtp_mx_address_limit;               /* 0 = none */
    int smtp_mx_session_limit;               /* 0 = none */
    usec_t smtp_connection_cache_time_limit; /* idle; also sched.connection_idle_limit */
    usec_t smtp_connection_reuse_time_limit; /* age */
    int smtp_connection_reuse_count_limit;   /* messages; 0 = none */
    bool smtp_skip_5xx_greeting;
    bool smtp_always_send_ehlo;
    enum config_tls_level smtp_tls_security_level;
    char *smtp_tls_CAfile; /* NULL: the system's store */
    char *smtp_tls_cert_file,
        *smtp_tls_key_file; /* NULL: none; the key in the certificate's file */
    char *smtp_helo_name;   /* never NULL: hostname when not set */
    char *smtp_auth_user, *smtp_auth_password_file; /* both or neither NULL: no AUTH */
    bool smtp_auth_requires_tls;
    enum config_protocols inet_protocols;
};

/* One `source "NAME" {}`: the address from which receivers see us. */
struct config_egress_source {
    char *name;
    struct ip address, address6;           /* family 0: none; through haproxy: the proxy's */
    char *helo_name;                       /* NULL: the transport's */
    struct config_address haproxy, socks5; /* len 0: none; at most one of them */
    char *socks5_user;                     /* NULL: none */
    char *socks5_password_file;            /* NULL: none; set when socks5_user is */
    /* Over all lanes of the source. */
    struct rate_rule max_message_rate, max_recipient_rate, max_connection_rate, max_message_quota;
    struct config_quotas warmup_steps; /* a day each */
    int64_t warmup_since;              /* days since 1970; 0: not set */
    struct quota_warmup *warmup;       /* of both; NULL: none */
};

/* One `pool "NAME" {}`. */
struct config_egress_pool {
    char *name;
    struct config_texts source_names;
    struct config_numbers weights;               /* one for each source, and not all of them 0 */
    const struct config_egress_source **sources; /* [source_names.count], of these names */
    char *list;                                  /* the names, "a,b" */
};

struct config_transport {
    char *name;
    bool is_gone;      /* it has no section any more: a copy of its last one; see config_change.h */
    bool site_rollup;  /* destinations of one receiver are one site */
    char *source_pool; /* NULL: the system chooses the address */
    char *verp;        /* LOCAL@DOMAIN of its return addresses; NULL: senders stay */
    char *list_unsubscribe;     /* LOCAL@DOMAIN of where to unsubscribe by mail; NULL: nowhere */
    char *list_unsubscribe_url; /* template, by one click; NULL: nowhere */
    const struct config_egress_pool *pool; /* of that name, in the same snapshot */
    struct sched_config sched;             /* complete, except hash_seed (0): the engine's choice */
    struct config_smtp smtp;
    char *positive_feedback, *negative_feedback; /* as written; parsed in sched */
    struct config_limits limits;
};

/* One `provider "NAME" {}` or `domain "NAME" {}`: what counts instead of the transport's options for
 * a site or a destination. policy.h puts them together. */
struct config_receiver {
    /* Its name, and of the options those that the section sets; nothing else means anything. First,
     * as the rows of the table count from here. */
    struct config_transport options;
    uint64_t set;                    /* bits, by config_option_receiver_bit */
    struct config_texts mx, domains; /* a provider's patterns */
};

struct config_route {
    char *pattern; /* lower case: "example.com", ".example.com" or "*" */
    char *transport_name;
    size_t transport; /* index into transports */
    char *nexthop;    /* lower case, valid for nexthop_parse; "" = the recipient's domain */
    enum config_tls_level smtp_tls_security_level; /* overrides the transport's */
};

struct config_origins;

enum config_webhook_format { CONFIG_WEBHOOK_NDJSON, CONFIG_WEBHOOK_ARRAY };

/* One `webhook "URL" {}`. */
struct config_webhook {
    char *url;
    struct config_texts types; /* of events; none: all */
    enum config_webhook_format format;
    int batch_size;              /* lines */
    usec_t batch_wait;           /* of the first line of a batch for others */
    struct config_texts headers; /* "NAME: VALUE" */
    char *secret_file;           /* NULL: no signature */
    usec_t timeout;              /* of one request */
    char *tls_ca_file;           /* NULL: the system's store */
};

/* One `csv "PATH" {}`. */
struct config_csv {
    char *path;
    struct config_texts types;   /* of events; none: all */
    struct config_texts columns; /* names that account_column_find knows; none: all */
    uint64_t rotate_size;        /* bytes; 0: never */
    int rotate_keep;             /* files; 0: all */
};

struct config {
    char *path;                     /* the file it came from */
    struct config_origins *origins; /* config_origin.h */

    int workers;           /* never 0: the number of cores when not set */
    int scheduler_threads; /* never 0: 4 x cores when not set */
    int dkim_threads;      /* never 0: the number of cores when not set */
    enum config_thread_policy thread_policy;
    char *user;            /* NULL: stay who we are */
    char *hostname;        /* myhostname */
    bool allow_loopback;
    usec_t shutdown_timeout;
    uint64_t trace_memory;      /* bytes; 0: nothing is recorded */
    uint64_t intake_memory;     /* bytes received and not yet committed */
    int hopcount_limit;         /* Received headers */
    uint64_t inject_size_limit; /* bytes of an injected message; 0 = none */

    int message_active_limit; /* messages in memory, all transports */
    int message_recipient_limit;
    usec_t queue_run_delay;
    usec_t minimal_backoff_time;
    usec_t maximal_backoff_time;
    usec_t maximal_queue_lifetime; /* 0 = one attempt */
    usec_t bounce_queue_lifetime;
    usec_t delay_warning_time; /* 0 = off */
    bool confirm_delay_cleared;
    bool destination_concurrency_feedback_debug; /* copied into each transport's sched */
    int message_recipient_minimum;               /* copied into each transport's sched */
    int class_floor;                             /* percent; likewise */
    uint64_t bounce_size_limit; /* bytes of the original returned; 0 = headers only */

    struct config_spool spool;
    struct config_dns dns;
    char *event_log_path;                 /* never NULL; "none": no event log */
    uint64_t event_log_rotate_size;       /* bytes; 0: never */
    int event_log_rotate_keep;            /* closed segments; 0: all */
    char *control_path;                   /* never NULL */
    struct config_texts reply_files;      /* rules for replies, the operator's */
    bool has_shipped_replies;             /* and those that the program brings */
    struct config_texts defer_transports; /* `hold` of these transports is set already */

    struct config_tls_report tls_report;
    struct config_cluster cluster;

    struct config_webhook *webhooks;
    size_t webhook_count;
    struct config_csv *csvs;
    size_t csv_count;
    struct config_listener *listeners;
    size_t listener_count;
    struct config_http *http_doors;
    size_t http_door_count;
    struct config_tenant *tenants;
    size_t tenant_count;
    struct config_dkim *dkims;
    size_t dkim_count;
    const struct config_tenant **tenant_order; /* [tenant_count], sorted for config_tenant_find */
    const struct config_tenant *other_tenants; /* of "*"; NULL: no section */
    bool has_queue_limits;                     /* some of them */
    bool has_return_tokens; /* some transport or tenant has `verp`, or one to unsubscribe with */
    bool has_weights;                          /* some of them weigh other than 1 */
    struct config_suppression *suppressions;
    size_t suppression_count;
    const struct config_suppression **suppression_order; /* [suppression_count], by name */
    const struct config_suppression *other_suppressions; /* of "*"; NULL: no section */
    usec_t strike_span;                                  /* the longest of their rules */
    struct config_egress_source *egress_sources;
    size_t egress_source_count;
    struct config_egress_pool *egress_pools;
    size_t egress_pool_count;
    struct config_transport *transports;
    size_t transport_count;
    struct config_receiver *providers; /* in the order of the file: the first that matches */
    size_t provider_count;
    struct config_receiver *domains; /* names in lower case */
    size_t domain_count;
    struct config_route *routes;
    size_t route_count;
};

/* Receives each complaint as one line without newline: "FILE:LINE: key: what is wrong; what would
 * be right". Warnings do not make the load fail. The text is valid during the call. */
struct config_sink {
    void (*complain)(void *ctx, bool is_warning, const char *line);
    void *ctx;
};

/* Read a configuration file.
 *
 * thread   one at a time (the parser has global state); main only
 * errors   ERR_SYNTAX: the sink has heard why, as many complaints at once as the parser could find;
 *          -errno: the file cannot be read (the sink has heard it too). *ret unchanged
 * frees    the caller, with config_free */
MUST_USE int config_load(const char *path, const struct config_sink *sink, struct config **ret);

/* The same from a NUL-terminated text; `name` stands for FILE in complaints. */
MUST_USE int config_load_text(const char *text, const char *name, const struct config_sink *sink,
                              struct config **ret);
void config_free(struct config *c); /* accepts NULL */

/* true when `peer` (AF_INET, AF_INET6, IPv4-mapped; AF_UNIX is always trusted) lies in relay_from.
 * Any thread. */
MUST_USE bool config_listener_trusts(const struct config_listener *l, const struct sockaddr *peer);

/* The section that is about mail of a tenant ("" for nobody's): its own, in either case of letters,
 * or that of "*"; NULL: neither. */
const struct config_tenant *config_tenant_find(const struct config *c, struct slice name);

/* The section about suppression of a tenant's mail ("" for nobody's), or that of "*", or what counts
 * without one: no rules, and a suppressed recipient is refused. Never NULL. */
const struct config_suppression *config_suppression_find(const struct config *c,
                                                         struct slice tenant);

/* How long a tenant's mail is tried; 0: once. is_bounce: it has the null sender */
usec_t config_queue_lifetime(const struct config *c, struct slice tenant, bool is_bounce);

/* What that tenant ("": nobody) weighs among those of its class; 1..1000. */
uint16_t config_tenant_weight(const struct config *c, struct slice name);

/* Bytes of `verp`, and those in front of its @: a return address has a plus sign and 48 more, a path 256
 * with its brackets and a local part 64 (RFC 5321 4.5.3.1). */
#define CONFIG_VERP_MAX       205
#define CONFIG_VERP_LOCAL_MAX 15
/* LOCAL@DOMAIN of the return addresses of a tenant's mail by a transport; NULL: its senders stay. */
const char *config_verp(const struct config *c, size_t transport, struct slice tenant);
/* What a tenant's mail by a transport says of unsubscribing. */
struct config_unsubscribe {
    const char *address; /* LOCAL@DOMAIN, without a token; NULL: none */
    const char *url;     /* template; NULL: none */
};
struct config_unsubscribe config_unsubscribe(const struct config *c, size_t transport,
                                             struct slice tenant);
/* Whether return addresses, or those to unsubscribe at, are of this domain. */
bool config_is_return_domain(const struct config *c, struct slice domain);
/* Whether mail for the domain is heard here. */
bool config_listener_receives(const struct config_listener *l, struct slice domain);

/* The class of a message.
 *
 * said            by the request, a header field or MT-PRIORITY; MAIL_CLASS_COUNT: nothing said it
 * of_listener     MAIL_CLASS_COUNT: it came by none
 * ret_is_lowered  it would have been a higher one, which its tenant may not use */
enum mail_class config_mail_class(const struct config *c, struct slice tenant, enum mail_class said,
                                  enum mail_class of_listener, bool *ret_is_lowered);

/* How many numbers of transports (settings.h) a daemon that was started with this configuration has
 * room for. */
size_t config_transport_room(const struct config *started);
/* The longest lane_memory of the transports. */
usec_t config_lane_memory(const struct config *c);
/* Index of the transport with this name, or transport_count. */
size_t config_transport_find(const struct config *c, struct slice name);

/* The names of all sources that the transport's mail may leave from, "a,b"; "" without a pool. */
static inline struct slice config_transport_sources(const struct config_transport *t)
{
    return t->pool == NULL ? SLICE("") : slice_of(t->pool->list);
}

/* The level for destinations that a route with a valid transport leads to. */
static inline enum config_tls_level config_route_tls_level(const struct config *c,
                                                           const struct config_route *route)
{
    return route->smtp_tls_security_level != CONFIG_TLS_OF_TRANSPORT
               ? route->smtp_tls_security_level
               : c->transports[route->transport].smtp.smtp_tls_security_level;
}

/* Whether any destination may have this level, other than by a provider (which has none of those that
 * need something of the machine) or, for none, by a domain. */
bool config_has_tls_level(const struct config *c, enum config_tls_level level);

/* Print docs/configuration.md: every option with type, default, limits and meaning. */
void config_reference_print(FILE *out);

#endif
