/* A scheduler core on a test bed: messages by letter, actions as text, every call followed by
 * sched_check, every allocation and hosts reference accounted for. */
#ifndef TESTS_UNIT_SCHED_BED_H
#define TESTS_UNIT_SCHED_BED_H

#include "sched/sched.h"
#include "tests/unit/unit.h"

#define BED_DELIVERIES 4096
#define BED_LETTERS    26
#define BED_TEXT       4096

struct bed_message {
    char *text;
    struct sched_recipient *recipients;
    uint32_t count, read;
    bool is_active;
};

struct bed_delivery {
    struct sched_entry *entry; /* NULL once reported */
    char letter;
    uint32_t connection;
    bool is_new;
    bool is_last_server;
    char server; /* letter of the host the connection goes to; '-' without a name */
    uint32_t server_notes;
    void *hosts;
};

struct bed {
    struct sched_config config; /* change before bed_open */
    struct sched *sched;
    usec_t now;
    struct bed_message messages[BED_LETTERS];
    struct bed_delivery deliveries[BED_DELIVERIES]; /* number 1 is at [1] */
    unsigned delivered;
    char server_at[1000];                /* of each connection */
    struct sched_destination *asked[16]; /* of RESOLVE, in order */
    unsigned asked_count;
    const char *named[16]; /* hosts given by bed_servers */
    unsigned named_count;
    char log[BED_TEXT];  /* every other action since bed_log, separated by "; " */
    char text[BED_TEXT]; /* what the last call returned */
    long objects;        /* allocated and not freed */
    long fail_after;     /* allocations until one fails; < 0: never */
    long hosts;          /* references given to the core and not released */
};

void bed_init(struct bed *b); /* defaults; rule postfix3, process_limit 1000 */
void bed_open(struct bed *b);
void bed_close(struct bed *b); /* reports what is in flight, frees all, asserts nothing leaked */
/* A message named by a letter; addresses separated by blanks. */
void bed_message(struct bed *b, char letter, const char *addresses);
/* count recipients u0.. of it, each at a destination of its own. */
void bed_spread(struct bed *b, char letter, int count);
/* The same message's next part; false when the core had no memory. */
bool bed_try_message(struct bed *b, char letter, const char *addresses);
/* "A dest a@dest,b@dest" or "none"; deliveries[delivered] tells the rest. */
const char *bed_select(struct bed *b);
enum bed_outcome { BED_OK, BED_DEFER, BED_FAIL, BED_NEUTRAL };
void bed_report(struct bed *b, unsigned number, enum bed_outcome outcome);
void bed_report_open(struct bed *b, unsigned number); /* positive, the connection stays open */
void bed_resolved(struct bed *b, unsigned asked, enum sched_resolution resolution, void *hosts,
                  usec_t expires);
/* Resolved: hosts by letter with their preferences, "x10 y10 z20"; the text stays valid. */
void bed_servers(struct bed *b, unsigned asked, const char *servers);
/* Any report; the entry is filled in. With `again` the number is used up: it comes back with
 * another one, by a further delivery or as "exhausted LETTER" in the log. */
void bed_outcome(struct bed *b, unsigned number, struct sched_outcome o);
/* Where the next entry goes: "x0+" is a new connection 0 to host x, "x0" the same used again. */
const char *bed_place(struct bed *b);
/* "retry 2 0 5": state, connections, entries, failures of a host; "-" when it is not known. */
const char *bed_host(struct bed *b, char server);
void bed_advance(struct bed *b, usec_t seconds);
/* What the core did beside deliveries since the last call of this function. */
const char *bed_log(struct bed *b);
/* "window busy todo" of a destination; window may be "dead", "suspended", "resolving"; "-" when it
 * does not exist. */
const char *bed_queue(struct bed *b, const char *name);
/* Select and report as OK, again and again: "A x5 B A x9". */
const char *bed_order(struct bed *b, unsigned count);

#endif
