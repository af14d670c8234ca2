#include "tests/sim/owner_moves.h"

#include "tests/sim/driver_state.h"
#include "tests/sim/require.h"

static struct loan_of_owner *owner_of(struct driver *d, const struct sched_action *a)
{
    struct loan_of_owner *l = a->owner_user;
    REQUIRE(l > &d->owners[0] && l < &d->owners[OWNERS] && l->owner != NULL);
    return l;
}

struct sched_owner *owner_moves_of(struct driver *d)
{
    struct loan_of_owner *l = &d->owners[d->has_owners ? take(d, OWNERS) : 0];
    if (l != &d->owners[0] && l->owner == NULL) {
        l->owner = sched_owner_new(d->sched, l);
    }
    return l->owner;
}

static bool has_left(const struct loan_of_owner *l)
{
    return l->is_held &&
           (l->messages > 0 || (l->recipients > 0 && l->recipients != SCHED_NO_BOUND));
}

static void end(struct loan_of_owner *l)
{
    if (l->is_held && l->recipients < 0) {
        l->owed += (uint32_t)-l->recipients;
    }
    l->is_held = false;
}

static void answer_one(struct driver *d, struct loan_of_owner *l)
{
    struct sched_grant g = {.messages = d->is_ending ? 1 + take(d, 3) : take(d, 5),
                            .why = SCHED_WHY_TENANT_RATE};
    g.recipients = take(d, 2) == 0 ? SCHED_NO_BOUND : 1 + take(d, 6);
    g.due = d->now + take(d, 3) * USEC_PER_SEC;
    g.from = d->now + take(d, 2) * USEC_PER_SEC;
    g.per_second = take(d, 4) * 0.05;
    g.turn = g.due + take(d, 3) * 20 * USEC_PER_SEC;
    g.until = g.from + (1 + take(d, 3)) * USEC_PER_SEC / 2;
    if (d->is_ending) {
        g.from = d->now;
        g.until = d->now + 1;
    }
    if (!sched_owner_grant(d->sched, l->owner, &g, d->now)) {
        l->is_asked = false; /* it does not ask any more */
        return;
    }
    l->is_asked = false;
    l->owed = 0;
    l->is_held = g.messages > 0;
    l->messages = g.messages;
    l->recipients = g.recipients;
    l->from = g.from;
    l->until = g.until;
}

void owner_moves_asked(struct driver *d, const struct sched_action *a)
{
    struct loan_of_owner *l = owner_of(d, a);
    REQUIRE(!l->is_asked && !has_left(l));
    end(l);
    REQUIRE(a->loan->wanted > 0 && a->loan->recipients_owed == l->owed);
    l->is_asked = true;
    if (d->is_ending || take(d, 3) != 0) {
        answer_one(d, l);
    }
}

void owner_moves_returned(struct driver *d, const struct sched_action *a)
{
    struct loan_of_owner *l = owner_of(d, a);
    bool has_bound = l->recipients != SCHED_NO_BOUND && l->recipients > 0;
    REQUIRE(l->is_held && a->loan->left.messages == l->messages);
    REQUIRE(a->loan->left.recipients == (has_bound ? (uint64_t)l->recipients : 0));
    end(l);
}

void owner_moves_used(struct driver *d, const struct sched_action *a, uint32_t recipients,
                      bool is_delayed)
{
    if (a->owner_user == NULL) {
        return;
    }
    struct loan_of_owner *l = owner_of(d, a);
    REQUIRE(l->is_held && l->messages > 0 && l->recipients > 0);
    REQUIRE(is_delayed || (d->now >= l->from && d->now < l->until));
    l->messages--;
    if (l->recipients != SCHED_NO_BOUND) {
        l->recipients -= recipients;
    }
}

void owner_moves_answer(struct driver *d)
{
    driver_pull_pending(d); /* what is over */
    for (unsigned i = 1; i < OWNERS; i++) {
        if (d->owners[i].is_asked) {
            answer_one(d, &d->owners[i]);
        }
    }
}

static void own(struct driver *d, unsigned which)
{
    driver_pull_pending(d); /* what was selected was paid by the owner before */
    if (which < d->mail.next_id) {
        sched_own(d->sched, d->mail.next_id - 1 - which, owner_moves_of(d), d->now);
    }
}

static void forget(struct driver *d, struct loan_of_owner *l)
{
    driver_pull_pending(d);
    if (l->owner != NULL && sched_owner_is_idle(l->owner)) {
        sched_owner_free(d->sched, l->owner);
        *l = (struct loan_of_owner){.owner = NULL};
    }
}

void owner_moves_step(struct driver *d)
{
    unsigned which = 1 + take(d, OWNERS - 1);
    switch (take(d, 4)) {
    case 0:
        forget(d, &d->owners[which]);
        break;
    case 1:
        if (d->owners[which].owner != NULL) {
            sched_owner_ask_again(d->sched, d->owners[which].owner, d->now);
        }
        break;
    default:
        own(d, take(d, MESSAGES));
        break;
    }
    driver_check(d);
}

void owner_moves_end(struct driver *d)
{
    d->is_ending = true;
    owner_moves_answer(d);
    for (unsigned i = 1; i < OWNERS; i++) {
        if (d->owners[i].owner != NULL) {
            sched_owner_ask_again(d->sched, d->owners[i].owner, d->now);
        }
    }
    driver_check(d);
}
