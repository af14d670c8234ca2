/* What sluice-sink was asked to do; filled from the command line, then immutable. */
#ifndef BENCH_SINK_OPTIONS_H
#define BENCH_SINK_OPTIONS_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/endpoint.h"

#include <stdbool.h>
#include <stdint.h>

#define SINK_REJECTIONS_MAX 8
#define SINK_THREADS_MAX    64

struct sink_rejection {
    double share; /* of the recipients, 0..1 */
    int code;     /* 400..599 */
    char text[200];
};

enum sink_extension { /* bits */
                      SINK_PIPELINING = 1,
                      SINK_CHUNKING = 2,
                      SINK_8BITMIME = 4,
                      SINK_SMTPUTF8 = 8,
                      SINK_ENHANCEDSTATUSCODES = 16,
                      SINK_SIZE = 32,
                      SINK_EXTENSIONS_USUAL = 63 - SINK_CHUNKING,
};

enum sink_fault {
    SINK_FAULT_RESET, /* the connection */
    SINK_FAULT_STALL, /* never say anything again */
    SINK_FAULT_421,
    SINK_FAULT_CLOSE, /* without a word, behind the answer to a message */
    SINK_FAULT_COUNT,
};

struct sink_options {
    struct endpoint_list listen;
    const char *hostname;
    int threads;
    usec_t delay_banner, delay_rcpt, delay_dot; /* service times: input behind them waits */
    usec_t round_trip;                          /* replies are under way so long; input does not */
    bool does_hold;                             /* no greeting before SIGUSR2 */
    unsigned extensions;                        /* set of enum sink_extension */
    uint32_t connections_per_client;            /* of one listening address; 0 = no limit */
    struct sink_rejection rejections[SINK_REJECTIONS_MAX];
    int rejection_count;
    double fault_shares[SINK_FAULT_COUNT]; /* of the commands, but CLOSE: of the messages */
    double defer_share;                    /* of the messages, at the end of data */
    uint64_t seed;
    uint64_t messages;   /* exit after so many; 0 = never */
    uint64_t size_limit; /* bytes, announced and enforced */
    const char *tls_certificate, *tls_key;
    const char *ledger_path;
    bool does_ledger_sync;
    const char *store_path;
    const char *json_path;
};

/* returns  0: go on; otherwise the process should exit with *ret_status (usage was printed)
 * ret      its strings point into argv; free with sink_options_fini */
MUST_USE int sink_options_parse(int argc, char **argv, struct sink_options *ret, int *ret_status);
void sink_options_fini(struct sink_options *o);

#endif
