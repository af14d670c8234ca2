/* What sluice-sink was asked to do; filled from the command line, then immutable. */
#ifndef BENCH_SINK_OPTIONS_H
#define BENCH_SINK_OPTIONS_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/sink/behaviour.h"
#include "bench/sink/behaviour_file.h"
#include "bench/tool/endpoint.h"

#include <stdbool.h>
#include <stdint.h>

#define SINK_THREADS_MAX 64

struct sink_options {
    struct endpoint_list listen;
    const char *hostname;
    int threads;
    struct behaviour behaviour; /* of every address and domain, as far as no file says more */
    struct behaviour_file file; /* who behaves how; without a file it holds `behaviour` for
                                 * everybody */
    const char *behaviour_path;
    const char *profiles_dir;
    bool does_list;  /* list the profiles, and do nothing else */
    usec_t timeline; /* the interval of the timeline; 0 = no timeline */
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
