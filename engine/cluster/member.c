/* Liveness of nodes and the own lease: spans of one's own clock, and the rules about them.
 * Called by the thread that talks to the cluster and by models. It must not read a clock. */
#include "engine/cluster/member.h"

#include <assert.h>

void member_ear_told(struct member_ear *ear, uint64_t revision, usec_t now)
{
    if (revision != ear->revision + 1) {
        ear->gap = now;
    }
    ear->revision = revision;
}

void member_ear_own(struct member_ear *ear, usec_t sent)
{
    if (sent > ear->gap && sent > ear->heard) {
        ear->heard = sent;
    }
}

void member_init(struct member *m, uint64_t revision, usec_t now)
{
    *m = (struct member){.revision = revision, .seen = now};
}

void member_seen(struct member *m, uint64_t revision, usec_t now)
{
    if (revision > m->revision) {
        member_init(m, revision, now);
    }
}

static enum member_state state_after(usec_t unseen)
{
    if (unseen >= MEMBER_GONE_AFTER) {
        return MEMBER_GONE;
    }
    if (unseen >= MEMBER_LAPSED_AFTER) {
        return MEMBER_LAPSED;
    }
    return unseen >= MEMBER_LATE_AFTER ? MEMBER_LATE : MEMBER_ALIVE;
}

enum member_state member_look(const struct member *m, usec_t heard)
{
    return state_after(heard > m->seen ? heard - m->seen : 0);
}

const char *member_state_text(enum member_state state)
{
    static const char *const texts[MEMBER_STATE_COUNT] = {[MEMBER_ALIVE] = "alive",
                                                          [MEMBER_LATE] = "late",
                                                          [MEMBER_LAPSED] = "lapsed",
                                                          [MEMBER_GONE] = "gone"};
    assert(state < MEMBER_STATE_COUNT);
    return texts[state];
}

void member_lease_begin(struct member_lease *l, uint64_t epoch, usec_t sent)
{
    assert(epoch > 0);
    *l = (struct member_lease){.epoch = epoch, .begun = sent, .lapses = l->lapses + 1};
}

enum member_right member_lease_right(struct member_lease *l, usec_t now)
{
    usec_t age = now - l->begun;
    l->is_over |= l->epoch == 0 || age >= MEMBER_DELIVERIES_FOR;
    bool is_lapsed = l->is_over || age >= MEMBER_SHARES_FOR;
    l->lapses += is_lapsed && !l->is_lapsed;
    l->is_lapsed = is_lapsed;
    if (l->is_over) {
        return MEMBER_RIGHT_NO_DELIVERIES;
    }
    return age >= MEMBER_SHARES_FOR ? MEMBER_RIGHT_NO_SHARES : MEMBER_RIGHT_ALL;
}

bool member_lease_renew(struct member_lease *l, usec_t sent, usec_t now)
{
    if (member_lease_right(l, now) == MEMBER_RIGHT_NO_DELIVERIES) {
        return false;
    }
    l->begun = sent > l->begun ? sent : l->begun;
    return true;
}

usec_t member_lease_next(const struct member_lease *l, usec_t now)
{
    if (l->epoch == 0 || l->is_over) {
        return USEC_NEVER;
    }
    usec_t shares = l->begun + MEMBER_SHARES_FOR;
    return now < shares ? shares : l->begun + MEMBER_DELIVERIES_FOR;
}

struct member_owner member_owner_claim(const struct member_owner *seen, uint16_t by)
{
    return (struct member_owner){.epoch = seen->epoch + 1, .holder = by};
}

bool member_owner_is(const struct member_owner *seen, uint16_t node, uint64_t epoch)
{
    return seen->holder == node && seen->epoch == epoch;
}
