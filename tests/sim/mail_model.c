#include "tests/sim/mail_model.h"

#include "tests/sim/require.h"

#define DOMAINS 6
#define WIDE    24 /* addresses of a message to everyone */

struct mail_message *mail_of(struct mail_model *m, uint64_t id)
{
    return &m->messages[id % MESSAGES];
}

bool mail_write(struct mail_model *m, struct choices *from)
{
    static const struct {
        const char *address, *nexthop;
    } to[WIDE] = {
        {"u@d0", "d0"},         {"Ab@d1", "d1"},        {"u@d2", "d2"},   {"v@d3", "d3"},
        {"w@d4", "d4"},         {"x@d5", "d5"},         {"nobody", "d0"}, {"u@D0", "d0"},
        {"u@d0.e", "d0"},       {"b@e1", "d1"},         {"u@d6", "d6"},   {"u@d7", "d7"},
        {"u@far.d8", "far.d8"}, {"u@far.d9", "far.d9"}, {"u@d10", "d10"}, {"u@d11", "d11"},
        {"u@d12", "d12"},       {"u@d13", "d13"},       {"u@d14", "d14"}, {"u@d15", "d15"},
        {"u@d16", "d16"},       {"u@d17", "d17"},       {"u@d18", "d18"}, {"u@d19", "d19"},
    };
    struct mail_message *message = mail_of(m, m->next_id);
    if (message->is_active) {
        return false;
    }
    *message = (struct mail_message){.count = choices_take(from, RECIPIENTS)};
    unsigned number = choices_take(from, 256);
    unsigned domains = number < 252 ? 1 + number % DOMAINS : WIDE;
    unsigned pools = number % 3 == 0 ? POOLS + 1 : 1;
    for (uint32_t i = 0; i < message->count; i++) {
        unsigned which = number == UINT8_MAX ? i % WIDE : choices_take(from, domains);
        uint16_t pool = (uint16_t)(pools == 1 ? 0 : choices_take(from, pools));
        message->recipients[i] = (struct sched_recipient){slice_of(to[which].address),
                                                          slice_of(to[which].nexthop), i, pool};
    }
    return true;
}

struct sched_message mail_next_part(struct mail_model *m, uint64_t id, uint32_t limit)
{
    struct mail_message *message = mail_of(m, id);
    uint32_t left = message->count - message->read;
    uint32_t count = left < limit ? left : limit;
    struct sched_message part = {
        .id = id,
        .handle = message,
        .recipients = message->recipients + message->read,
        .recipient_count = count,
        .unread_count = left - count,
        .more = count == limit,
    };
    return part;
}

void mail_accepted(struct mail_message *message, const struct sched_message *part)
{
    for (uint32_t i = 0; i < part->recipient_count; i++) {
        REQUIRE(message->states[message->read] == UNREAD);
        message->states[message->read++] = WAITING;
    }
}

void mail_move(struct mail_message *message, const uint32_t *indexes, uint32_t count,
               enum recipient_state from, enum recipient_state to)
{
    REQUIRE(message->is_active && count > 0);
    for (uint32_t i = 0; i < count; i++) {
        REQUIRE(indexes[i] < message->count && message->states[indexes[i]] == from);
        message->states[indexes[i]] = to;
    }
}

void mail_finish(struct mail_message *message)
{
    REQUIRE(message->is_active && !message->is_reading && message->read == message->count);
    for (uint32_t i = 0; i < message->count; i++) {
        REQUIRE(message->states[i] == SETTLED);
    }
    message->is_active = false;
}

bool mail_is_finished(const struct mail_model *m)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (m->messages[i].is_active) {
            return false;
        }
    }
    return true;
}
