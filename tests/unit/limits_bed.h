/* Limits that several transports share, in time that a test sets. */
#ifndef TESTS_UNIT_LIMITS_BED_H
#define TESTS_UNIT_LIMITS_BED_H

#include "engine/limit/limits.h"
#include "engine/limit/limits_report.h"
#include "tests/unit/unit.h"

#define SECOND   USEC_PER_SEC
#define MINUTE   (60 * SECOND)
#define HOUR     (60 * MINUTE)
#define DAY      (24 * HOUR)
#define MIDNIGHT (20788 * DAY) /* 2026-12-01 */

struct bed {
    struct limits *limits;
    struct limits_borrower *borrowers[3];
    usec_t now, wall;
    int wakes;
};

void set_up(struct bed *b, const struct limits_config *config);
void make_bed(struct bed *b); /* lanes are remembered for an hour */
void end_bed(struct bed *b);
void pass(struct bed *b, usec_t span);
struct limit_key key_of(const char *source, const char *site);
/* rules: NULL: none */
struct limits_hold *hold(struct bed *b, unsigned borrower, const char *source, const char *site,
                         const struct limit_rules *rules);
struct limit_grant lend(struct bed *b, struct limits_hold *h, uint32_t messages);
void accept_one(struct bed *b, struct limits_hold *h, usec_t sent_at);
struct limit_refusal throttled(const struct bed *b, enum reply_scope scope);
/* A 550 at RCPT of another message; our address is 192.0.2.2. */
struct limit_refusal blocked(const struct bed *b, const char *destination, uint64_t tenant);
struct limit_verdict refuse(struct bed *b, struct limits_hold *h, const struct limit_refusal *r);
/* The last of all changes; false: there was none. */
bool last_change(struct bed *b, unsigned borrower, struct limit_change *ret);
struct rate_rule per(uint32_t count, usec_t span);

#endif
