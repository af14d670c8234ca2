/* What sluice-source was asked to send; filled from the command line, then immutable. */
#ifndef BENCH_SOURCE_OPTIONS_H
#define BENCH_SOURCE_OPTIONS_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/endpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_DOMAINS_MAX     1000000
#define SOURCE_CONNECTIONS_MAX 20000
#define SOURCE_RECIPIENTS_MAX  1000000
#define SOURCE_SIZE_MAX        (256UL * 1024 * 1024)

struct source_options {
    struct endpoint_list to; /* one */
    uint64_t messages;       /* 0 = no limit (then `seconds` is one) */
    uint32_t connections;
    size_t size_bytes;   /* of a message from X-Sluice-Stamp to its last CRLF */
    uint32_t recipients; /* of one message */
    char **domains;      /* heap; recipient n goes to domains[n % domain_count] */
    size_t domain_count;
    double rate; /* messages a second, Poisson; 0 = as fast as answers come */
    bool does_pipeline;
    const char *sender; /* "" is the null sender */
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
};

/* returns  0: go on; otherwise the process should exit with *ret_status (the reason was printed)
 * ret      its strings point into argv; free with source_options_fini */
MUST_USE int source_options_parse(int argc, char **argv, struct source_options *ret,
                                  int *ret_status);
void source_options_fini(struct source_options *o);

#endif
