/* Liveness, leases, and that no node is taken over while it holds itself for alive, as long as no
 * clock runs a third faster than another. */
#include "engine/cluster/member.h"
#include "tests/chance.h"
#include "tests/unit/unit.h"

#define SECOND USEC_PER_SEC

static void silence_has_steps(void **state)
{
    static const struct {
        usec_t heard;
        enum member_state is;
    } steps[] = {{0, MEMBER_ALIVE},  {109, MEMBER_ALIVE},  {110, MEMBER_LATE},
                 {144, MEMBER_LATE}, {145, MEMBER_LAPSED}, {159, MEMBER_LAPSED},
                 {160, MEMBER_GONE}, {9999, MEMBER_GONE}};
    struct member m;
    member_init(&m, 7, 100 * SECOND);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(member_look(&m, steps[i].heard * SECOND), steps[i].is);
    }
    member_seen(&m, 7, 160 * SECOND); /* delivered again */
    member_seen(&m, 6, 160 * SECOND);
    assert_int_equal(member_look(&m, 160 * SECOND), MEMBER_GONE);
    member_seen(&m, 8, 160 * SECOND);
    assert_int_equal(member_look(&m, 169 * SECOND), MEMBER_ALIVE);
    assert_int_equal(member_look(&m, 170 * SECOND), MEMBER_LATE);
}

/* Of revisions 1 to 9 of three keys, of which a bucket keeps the last: what was put behind a gap may have
 * replaced what is missing, and is told later. */
static void silence_is_what_could_have_been_heard(void **state)
{
    struct member_ear ear = {.heard = 0};
    member_ear_told(&ear, 1, 10 * SECOND);
    member_ear_own(&ear, 9 * SECOND);
    assert_int_equal(ear.heard, 9 * SECOND);
    member_ear_told(&ear, 2, 11 * SECOND);
    assert_int_equal(ear.heard, 9 * SECOND); /* others say nothing of what else is said */
    member_ear_told(&ear, 3, 15 * SECOND);
    member_ear_own(&ear, 14 * SECOND);
    assert_int_equal(ear.heard, 14 * SECOND);
    member_ear_told(&ear, 6, 30 * SECOND); /* 4 and 5 were replaced, by 7 and 8 it may be */
    member_ear_own(&ear, 29 * SECOND);
    assert_int_equal(ear.heard, 14 * SECOND);
    member_ear_told(&ear, 7, 30 * SECOND);
    member_ear_told(&ear, 8, 30 * SECOND);
    member_ear_told(&ear, 9, 32 * SECOND);
    member_ear_own(&ear, 31 * SECOND);
    assert_int_equal(ear.heard, 31 * SECOND);
    member_ear_told(&ear, 1, 40 * SECOND); /* of servers that lost all that they had */
    member_ear_own(&ear, 39 * SECOND);
    assert_int_equal(ear.heard, 31 * SECOND);
}

static void a_lease_runs_out_and_must_begin_anew(void **state)
{
    struct member_lease l = {.epoch = 0};
    assert_int_equal(member_lease_right(&l, 0), MEMBER_RIGHT_NO_DELIVERIES);
    assert_false(member_lease_renew(&l, 0, 0));
    member_lease_begin(&l, 3, 100 * SECOND);
    assert_int_equal(member_lease_right(&l, 107 * SECOND), MEMBER_RIGHT_ALL);
    assert_int_equal(member_lease_next(&l, 107 * SECOND), 100 * SECOND + MEMBER_SHARES_FOR);
    assert_int_equal(member_lease_right(&l, 108 * SECOND), MEMBER_RIGHT_NO_SHARES);
    assert_int_equal(member_lease_next(&l, 108 * SECOND), 145 * SECOND);
    assert_true(member_lease_renew(&l, 105 * SECOND, 109 * SECOND));
    assert_true(member_lease_renew(&l, 104 * SECOND, 110 * SECOND)); /* answered late */
    assert_int_equal(member_lease_right(&l, 112 * SECOND), MEMBER_RIGHT_ALL);
    assert_int_equal(member_lease_right(&l, 149 * SECOND), MEMBER_RIGHT_NO_SHARES);
    assert_int_equal(l.lapses, 4); /* before it began, at its begin, at 108 s, and at 149 s */
    /* The process stood still; the answer to what it sent before is the first thing it meets. */
    assert_false(member_lease_renew(&l, 149 * SECOND, 150 * SECOND));
    assert_int_equal(member_lease_right(&l, 150 * SECOND), MEMBER_RIGHT_NO_DELIVERIES);
    assert_int_equal(member_lease_next(&l, 150 * SECOND), USEC_NEVER);
    member_lease_begin(&l, 3, 151 * SECOND);
    assert_int_equal(member_lease_right(&l, 152 * SECOND), MEMBER_RIGHT_ALL);
}

static void a_lapse_is_seen_behind_a_renewal(void **state)
{
    struct member_lease l = {.epoch = 0};
    member_lease_begin(&l, 1, 0);
    assert_int_equal(l.lapses, 1);
    assert_true(member_lease_renew(&l, 29 * SECOND, 30 * SECOND)); /* stood still; nobody asked */
    assert_int_equal(member_lease_right(&l, 30 * SECOND), MEMBER_RIGHT_ALL);
    assert_int_equal(l.lapses, 2);
    assert_true(member_lease_renew(&l, 34 * SECOND, 35 * SECOND));
    assert_int_equal(l.lapses, 2);
}

static void an_owner_is_followed_by_the_next_epoch(void **state)
{
    struct member_owner mine = {.epoch = 4, .holder = 2};
    assert_true(member_owner_is(&mine, 2, 4));
    struct member_owner taken = member_owner_claim(&mine, 9);
    assert_false(member_owner_is(&taken, 2, 4));
    assert_true(member_owner_is(&taken, 9, 5));
    struct member_owner again = member_owner_claim(&taken, 2);
    assert_true(member_owner_is(&again, 2, 6));
}

static uint64_t chance = 88172645463325252U;

static usec_t draw(usec_t below)
{
    return (usec_t)(chance_next(&chance) % (uint64_t)below);
}

/* One of two keys of a bucket that keeps the last value of each. */
struct key {
    uint64_t revision;
    usec_t arrives; /* what was put last: real time; USEC_NEVER: it is there */
    usec_t sent;    /* the same, by the clock of whoever put it */
};

static void arrive(struct key *k, uint64_t *last, usec_t real)
{
    if (real >= k->arrives) {
        k->revision = ++*last;
        k->arrives = USEC_NEVER;
    }
}

/* All that is there and was not told yet, in the order of revisions. keys: the observer's own one, the node's */
static void listen(struct member_ear *ear, struct member *m, const struct key keys[2], usec_t now)
{
    const struct key *first = &keys[keys[0].revision < keys[1].revision ? 0 : 1];
    const struct key *order[] = {first, first == keys ? &keys[1] : keys};
    for (unsigned i = 0; i < 2; i++) {
        if (order[i]->revision > ear->revision) {
            member_ear_told(ear, order[i]->revision, now);
            if (order[i] == keys && order[i]->arrives == USEC_NEVER) {
                member_ear_own(ear, keys[0].sent);
            } else if (order[i] != keys) {
                member_seen(m, order[i]->revision, now);
            }
        }
    }
}

/* A node whose puts take time and stop; an observer that puts likewise and looks late, hears nothing at times, or
 * not at all; each with a clock of its own that runs at `rates` thousandths. A node whose clock stands still is
 * one of rate 0 for a while.
 *
 * is_sound  else the observer holds for silence what it did not hear
 * returns  true when the node was held for gone, or its shares for void, while it used them */
static bool overlaps(usec_t node_rate, usec_t observer_rate, usec_t stands_still, bool is_sound)
{
    const usec_t step = SECOND / 10;
    struct member m;
    struct member_ear ear = {.heard = 0};
    struct member_lease l = {.epoch = 0};
    struct key keys[2] = {{.arrives = USEC_NEVER}, {.revision = 1, .arrives = USEC_NEVER}};
    uint64_t last = 1;
    usec_t own = draw(SECOND), other = draw(SECOND), next_put = own, next_beat = other;
    usec_t cut = 60 * SECOND + draw(30 * SECOND), still_from = cut + draw(10 * SECOND);
    usec_t answers = USEC_NEVER, blind_until = 0;
    member_lease_begin(&l, 1, own);
    member_init(&m, 1, other);
    for (usec_t real = 0; real < 400 * SECOND; real += step) {
        bool is_still = real >= still_from && real < still_from + stands_still;
        own += is_still ? 0 : step * node_rate / 1000;
        other += step * observer_rate / 1000;
        if (own >= next_put && real < cut && answers == USEC_NEVER) {
            next_put = own + MEMBER_BEAT;
            keys[1].sent = own;
            keys[1].arrives = real + draw(SECOND / 2);
            answers = keys[1].arrives + draw(SECOND / 2);
        }
        if (other >= next_beat && keys[0].arrives == USEC_NEVER) {
            next_beat = other + MEMBER_BEAT;
            keys[0].sent = other;
            keys[0].arrives = real + draw(SECOND / 2);
        }
        arrive(&keys[0], &last, real);
        arrive(&keys[1], &last, real);
        if (real >= answers) {
            answers = USEC_NEVER;
            if (!member_lease_renew(&l, keys[1].sent, own)) {
                return false; /* it must ask, and hears that it was taken over */
            }
        }
        if (draw(300) == 0) {
            blind_until = real + draw(80 * SECOND);
        }
        if (draw(10) == 0 || real < blind_until) {
            continue; /* the observer looks late */
        }
        if (is_sound) {
            listen(&ear, &m, keys, other);
        }
        enum member_state seen = member_look(&m, is_sound ? ear.heard : other);
        if (!is_sound) {
            listen(&ear, &m, keys, other);
        }
        enum member_right right = member_lease_right(&l, own);
        if ((seen == MEMBER_GONE && right != MEMBER_RIGHT_NO_DELIVERIES) ||
            (seen != MEMBER_ALIVE && right == MEMBER_RIGHT_ALL)) {
            return true;
        }
    }
    return false;
}

static void nobody_is_taken_over_alive(void **state)
{
    unsigned overlapped = 0;
    for (int i = 0; i < 2000; i++) {
        usec_t node_rate = 800 + draw(400);
        usec_t most = node_rate * 4 / 3;
        assert_false(overlaps(node_rate, most - draw(most - 700), 0, true));
    }
    /* Beyond the margin, where a clock stands still, and where who hears nothing takes it for silence, it does
     * happen; so the test can fail. */
    for (int i = 0; i < 200; i++) {
        overlapped += overlaps(800, 1500, 0, true);
    }
    assert_true(overlapped > 20);
    overlapped = 0;
    for (int i = 0; i < 200; i++) {
        overlapped += overlaps(1000, 1000, 100 * SECOND, true);
    }
    assert_true(overlapped > 100);
    overlapped = 0;
    for (int i = 0; i < 200; i++) {
        overlapped += overlaps(1000, 1000, 0, false);
    }
    assert_true(overlapped > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_has_steps),
        cmocka_unit_test(silence_is_what_could_have_been_heard),
        cmocka_unit_test(a_lease_runs_out_and_must_begin_anew),
        cmocka_unit_test(a_lapse_is_seen_behind_a_renewal),
        cmocka_unit_test(an_owner_is_followed_by_the_next_epoch),
        cmocka_unit_test(nobody_is_taken_over_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
