/* The stages of a message's way through sluice, each alone with fixed input: what
 * sluice-instructions runs, so that the instructions of a message can be counted. No stage has a
 * thread, clock, file or network: the same number of messages takes the same instructions each
 * time. Each looks at all that comes out, at the least cost that notices a wrong byte. */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include "base/attr.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define STAGE_PER_CONNECTION 10 /* messages of an SMTP session, in and out */

/* The message that all stages carry, as sluice-source makes it; immutable. */
struct stage_message {
    const char *sender, *recipient, *domain;
    struct buf content; /* no line begins with a dot */
};

/* Say on standard error what came out wrong. returns false */
bool stage_fail(const char *stage, const char *what);

/* Each takes `messages` through the stage; false: something came out wrong, which was printed. */

/* Reception: lockstep SMTP sessions through net/smtp_server, the Received field included. */
MUST_USE bool stage_receive(const struct stage_message *m, uint64_t messages);
/* Injection: a request with one message, JSON to envelope and content. */
MUST_USE bool stage_inject(const struct stage_message *m, uint64_t messages);
/* The same of requests with 100 messages each, which share sender and tenant. */
MUST_USE bool stage_inject_batch(const struct stage_message *m, uint64_t messages);
/* The spool's record with its checksum: written, then read and verified. */
MUST_USE bool stage_record(const struct stage_message *m, uint64_t messages);
/* The two lines of the event log: Reception and Delivery. */
MUST_USE bool stage_log(const struct stage_message *m, uint64_t messages);
/* The counters: a reception of one of 20 tenants, and its delivery. */
MUST_USE bool stage_tally(const struct stage_message *m, uint64_t messages);
/* What its signer makes of it with two keys: the fields, but for what keys compute. */
MUST_USE bool stage_sign(const struct stage_message *m, uint64_t messages);
/* The scheduler core, all mail to one destination: submit, pull, report. */
MUST_USE bool stage_schedule(const struct stage_message *m, uint64_t messages);
/* The same with 50 destinations in turn. */
MUST_USE bool stage_schedule_many(const struct stage_message *m, uint64_t messages);
/* The 50 destinations at five sites, from one source. */
MUST_USE bool stage_schedule_site(const struct stage_message *m, uint64_t messages);
/* The same from three sources whose lanes send what is lent to them, as under a rate, and whose windows
 * are small, so that messages wait. */
MUST_USE bool stage_schedule_lanes(const struct stage_message *m, uint64_t messages);
/* One source, ten sites of one destination each, mail of 20 tenants that take turns: about each second message
 * is the first of its tenant for its destination, and each second the last. */
MUST_USE bool stage_schedule_flows(const struct stage_message *m, uint64_t messages);
/* Delivery: net/smtp_client with PIPELINING, without CHUNKING, to a scripted receiver. */
MUST_USE bool stage_deliver(const struct stage_message *m, uint64_t messages);

#endif
