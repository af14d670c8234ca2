/* A scheduler core on a test bed: messages by letter, actions as text, every call followed by
 * sched_check, every allocation and hosts reference accounted for. */
#ifndef TESTS_UNIT_SCHED_BED_H
#define TESTS_UNIT_SCHED_BED_H

#include "sched/sched.h"
#include "tests/unit/unit.h"

#define BED_DELIVERIES 4096
#define BED_LETTERS    26
#define BED_TEXT       4096

#define BED_TEN "m0@aa m1@aa m2@aa m3@aa m4@aa m5@aa m6@aa m7@aa m8@aa m9@aa" /* entries for aa */

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
    bool end_is_awaited; /* of the last CLOSE */
    char log[BED_TEXT];  /* every other action since bed_log, separated by "; " */
    char text[BED_TEXT]; /* what the last call returned */
    long objects;        /* allocated and not freed */
    long fail_after;     /* allocations until one fails; < 0: never */
    long hosts;          /* references given to the core and not released */
};

void bed_init(struct bed *b); /* defaults; rule postfix3, process_limit 1000 */
/* The same for the rules of the delivery essay: one recipient an entry, no preemption, windows of
 * four connections; destinations aa, bb .. ask for servers. */
void bed_init_essay(struct bed *b, int pipeline_depth);
/* As many connections as the window has from the beginning, and never more; before bed_open. */
void bed_fix_window(struct bed *b, int connections);
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
/* A message for one destination that is not known yet, and its servers. */
void bed_ask(struct bed *b, char letter, const char *addresses, const char *servers);
/* bed_open, and a message of thirty entries for aa, whose servers are these. */
void bed_start(struct bed *b, const char *servers);
/* Any report; the entry is filled in. With `again` the number is used up: it comes back with
 * another one, by a further delivery or as "exhausted LETTER" in the log. */
void bed_outcome(struct bed *b, unsigned number, struct sched_outcome o);
extern const struct sched_outcome bed_done; /* delivered, and the connection stays open */
extern const struct sched_outcome bed_gone; /* delivered, and the connection is closed */
/* bed_done, and the connection may carry so many entries. */
void bed_report_depth(struct bed *b, unsigned number, uint16_t depth);
/* Where the next entry goes: "x0+" is a new connection 0 to host x, "x0" the same used again. */
const char *bed_place(struct bed *b);
/* The next `count` of them: "x0+ x0 none". */
const char *bed_places(struct bed *b, unsigned count);
/* "retry 2 0 5": state, connections, entries, failures of a host; "-" when it is not known. */
const char *bed_host(struct bed *b, char server);
void bed_advance(struct bed *b, usec_t seconds);
/* What the core did beside deliveries since the last call of this function. */
const char *bed_log(struct bed *b);
/* "window busy todo" of a destination; window may be "dead", "suspended", "resolving"; "-" when it
 * does not exist. */
const char *bed_queue(struct bed *b, const char *name);
/* A destination that exists. */
struct sched_destination_view bed_view(const struct bed *b, const char *name);
/* Select and report as OK, again and again: "A x5 B A x9". */
const char *bed_order(struct bed *b, unsigned count);

#endif
