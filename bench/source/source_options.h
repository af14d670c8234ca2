/* What sluice-source was asked to send; filled from the command line, then immutable. */
#ifndef BENCH_SOURCE_OPTIONS_H
#define BENCH_SOURCE_OPTIONS_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "bench/tool/amount.h"
#include "bench/tool/arrivals.h"
#include "bench/tool/choice.h"
#include "bench/tool/endpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_DOMAINS_MAX     1000000
#define SOURCE_CONNECTIONS_MAX 20000
#define SOURCE_RECIPIENTS_MAX  1000000
#define SOURCE_SIZE_MAX        (256UL * 1024 * 1024)
#define SOURCE_TENANTS_MAX     10000
#define SOURCE_IN_FLIGHT_MAX   65536
#define SOURCE_IN_FLIGHT       64 /* with --chunking, if nothing else is said */

/* What waits for what; each falls back to what the server's extensions allow. */
enum source_mode {
    SOURCE_LOCKSTEP,   /* each command for the answer to the one before */
    SOURCE_PIPELINING, /* MAIL, RCPT and DATA at once */
    SOURCE_STREAMING,  /* and the end of a message with the next MAIL, RCPT and DATA (RFC 2920) */
    SOURCE_CHUNKING,   /* MAIL, RCPT, BDAT and the next message for nothing (RFC 3030) */
    SOURCE_MODE_COUNT,
};

struct source_options {
    struct endpoint_list to; /* one */
    uint64_t messages;       /* 0 = no limit (then `seconds` is one) */
    uint32_t connections;
    struct amount size;       /* bytes of a message from X-Sluice-Stamp to its last CRLF */
    struct amount recipients; /* of one message */
    char **domains;           /* heap */
    size_t domain_count;
    struct choice popularity;  /* of the domains; count 0: recipients go round */
    uint32_t tenants;          /* 0 = none */
    const char *tenant_prefix; /* of their names; a number follows */
    struct choice tenant_popularity;
    struct buf headers;       /* further fields, each behind a CRLF */
    struct arrivals arrivals; /* rate 0: as fast as answers come */
    enum source_mode mode;
    uint32_t in_flight; /* SOURCE_CHUNKING: unanswered messages of a connection */
    const char *sender; /* "" is the null sender; has an @ where there are tenants */
    const char *helo;
    const char *id_prefix;   /* NULL: from time and process */
    uint32_t per_connection; /* messages, then a new connection; 0 = no limit */
    usec_t duration;         /* offer nothing new after it; 0 = no limit */
    usec_t timeout;          /* of each answer */
    uint64_t seed;
    bool does_retry;   /* connect again when a connection is lost */
    bool does_reoffer; /* offer a message again when its fate is unknown or 4xx */
    const char *ledger_path;
    bool does_ledger_sync;
    const char *json_path;
    bool has_histogram; /* in the numbers */
    /* the command line only, until it is complete */
    const char *zipf_text, *weights_text, *tenants_text;
    bool has_arrivals;
};

/* returns  0: go on; otherwise the process should exit with *ret_status (the reason was printed)
 * ret      its strings point into argv; free with source_options_fini */
MUST_USE int source_options_parse(int argc, char **argv, struct source_options *ret,
                                  int *ret_status);
void source_options_fini(struct source_options *o);

#endif
