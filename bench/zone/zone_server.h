/* The sockets of sluice-zone: questions over UDP and TCP on one port, and answers that wait for
 * their time. One thread; prints nothing. */
#ifndef BENCH_ZONE_SERVER_H
#define BENCH_ZONE_SERVER_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "bench/tool/endpoint.h"
#include "bench/zone/zone_rule.h"
#include "net/poller.h"

struct zone_server {
    /* set at creation */
    const struct zone *zone;
    uint32_t ttl;
    struct poller poller;
    struct poller_watch udp, tcp;
    struct list late;        /* answers, the next one first */
    struct list connections; /* over TCP */
    uint64_t answered;
};

/* errors: -errno, -ENOMEM; nothing is open then */
MUST_USE int zone_server_open(struct zone_server *s, const struct zone *zone, uint32_t ttl,
                              const struct endpoint *where);
/* Answer until the descriptor is readable. errors: -errno */
MUST_USE int zone_server_run(struct zone_server *s, int until);
void zone_server_close(struct zone_server *s);

#endif
