/* A model of the mail of one scheduler core: which messages it has, and what became of each of
 * their recipients. The driver tells it of each submission and action; it aborts on the first
 * contradiction. */
#ifndef TESTS_SIM_MAIL_MODEL_H
#define TESTS_SIM_MAIL_MODEL_H

#include "sched/sched.h"
#include "tests/sim/choices.h"

#define MESSAGES   64
#define RECIPIENTS 24
#define POOLS      3 /* of sources; there are recipients of one more */

enum recipient_state { UNREAD, WAITING, BUSY, SETTLED };

struct mail_message {
    bool is_active, is_reading;
    uint32_t count, read;
    struct sched_recipient recipients[RECIPIENTS];
    enum recipient_state states[RECIPIENTS];
};

struct mail_model {
    uint64_t next_id;
    struct mail_message messages[MESSAGES]; /* of id at id % MESSAGES */
};

struct mail_message *mail_of(struct mail_model *m, uint64_t id);
/* The next message: its recipients are chosen. false: the one in its place is active still. */
bool mail_write(struct mail_model *m, struct choices *from);
/* What the core can be given of a message next, at most so many recipients. */
struct sched_message mail_next_part(struct mail_model *m, uint64_t id, uint32_t limit);
void mail_accepted(struct mail_message *message, const struct sched_message *part);
void mail_move(struct mail_message *message, const uint32_t *indexes, uint32_t count,
               enum recipient_state from, enum recipient_state to);
void mail_finish(struct mail_message *message);
bool mail_is_finished(const struct mail_model *m); /* no message is active */

#endif
