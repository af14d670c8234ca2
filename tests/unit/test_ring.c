#include "base/ring.h"
#include "base/thread.h"
#include "tests/unit/unit.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCERS    4
#define PER_PRODUCER STRESS_ROUNDS(100000)

struct record {
    uint64_t producer;
    uint64_t number;
    uint64_t check;
};

static uint64_t check_of(const struct record *record)
{
    return (record->producer * 31 + record->number) ^ UINT64_C(0x5bd1e9955bd1e995);
}

static void first_in_first_out_over_many_laps(void **state)
{
    struct ring *r = ring_new(8, sizeof(uint64_t));
    assert_non_null(r);
    uint64_t in = 0;
    uint64_t out = 0;
    uint64_t got = 0;
    assert_false(ring_pop(r, &got));
    for (int lap = 0; lap < 100; lap++) {
        for (int i = 0; i < 1 + lap % 8; i++) {
            ring_push(r, &in);
            in++;
        }
        assert_int_equal(ring_count(r), 1 + lap % 8);
        while (ring_pop(r, &got)) {
            assert_int_equal(got, out);
            out++;
        }
        assert_int_equal(in, out);
        assert_int_equal(ring_count(r), 0);
    }
    ring_free(r);
}

static void full_is_exactly_the_capacity(void **state)
{
    const size_t asked[] = {1, 2, 3, 5, 16, 17};
    const size_t given[] = {2, 2, 4, 8, 16, 32};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct ring *r = ring_new(asked[i], 1);
        assert_non_null(r);
        unsigned char byte = 0;
        size_t pushed = 0;
        while (ring_try_push(r, &byte)) {
            byte++;
            pushed++;
        }
        assert_int_equal(pushed, given[i]);
        assert_int_equal(ring_count(r), given[i]);
        assert_true(ring_pop(r, &byte));
        assert_int_equal(byte, 0);
        assert_true(ring_try_push(r, &byte));
        assert_false(ring_try_push(r, &byte));
        ring_free(r);
    }
    ring_free(NULL);
    assert_null(ring_new(SIZE_MAX, 8));
}

static void every_record_size_keeps_its_bytes(void **state)
{
    for (size_t bytes = 1; bytes <= 64; bytes++) {
        struct ring *r = ring_new(4, bytes);
        assert_non_null(r);
        unsigned char record[65];
        unsigned char got[65];
        for (int n = 0; n < 12; n++) {
            for (int i = 0; i < 3; i++) {
                memset(record, n * 3 + i, sizeof(record));
                ring_push(r, record);
            }
            for (int i = 0; i < 3; i++) {
                memset(record, n * 3 + i, sizeof(record));
                memset(got, 0xee, sizeof(got));
                assert_true(ring_pop(r, got));
                assert_memory_equal(got, record, bytes);
                assert_int_equal(got[bytes], 0xee);
            }
        }
        ring_free(r);
    }
}

struct stress {
    struct ring *ring;
    _Atomic long credits; /* records that may still be in flight; never fewer than 0 */
    bool with_credits;
};

struct producer {
    struct thread thread;
    struct stress *stress;
    uint64_t number;
};

static void take_credit(struct stress *stress)
{
    for (;;) {
        long have = atomic_load_explicit(&stress->credits, memory_order_relaxed);
        /* Partner: the consumer's release when it gives a credit back after a pop. */
        if (have > 0 &&
            atomic_compare_exchange_weak_explicit(&stress->credits, &have, have - 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return;
        }
        (void)sched_yield();
    }
}

static void produce(void *arg)
{
    struct producer *self = arg;
    for (uint64_t i = 0; i < PER_PRODUCER; i++) {
        struct record record = {.producer = self->number, .number = i};
        record.check = check_of(&record);
        if (self->stress->with_credits) {
            take_credit(self->stress);
            ring_push(self->stress->ring, &record);
        } else {
            while (!ring_try_push(self->stress->ring, &record)) {
                (void)sched_yield();
            }
        }
    }
}

/* Nothing lost, nothing doubled, nothing torn, each producer's records in its order. */
static void run_stress(size_t capacity, bool with_credits)
{
    struct stress stress = {.ring = ring_new(capacity, sizeof(struct record)),
                            .with_credits = with_credits};
    assert_non_null(stress.ring);
    atomic_init(&stress.credits, (long)capacity);
    struct producer producers[PRODUCERS];
    for (uint64_t i = 0; i < PRODUCERS; i++) {
        producers[i].stress = &stress;
        producers[i].number = i;
        assert_int_equal(thread_start(&producers[i].thread, "producer", produce, &producers[i]), 0);
    }
    uint64_t expected[PRODUCERS] = {0};
    for (uint64_t total = 0; total < (uint64_t)PRODUCERS * PER_PRODUCER;) {
        struct record record;
        if (!ring_pop(stress.ring, &record)) {
            (void)sched_yield();
            continue;
        }
        if (with_credits) {
            atomic_fetch_add_explicit(&stress.credits, 1, memory_order_release);
        }
        assert_true(record.check == check_of(&record));
        assert_true(record.producer < PRODUCERS);
        assert_int_equal(record.number, expected[record.producer]);
        expected[record.producer]++;
        total++;
        assert_true(ring_count(stress.ring) <= capacity);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        thread_join(&producers[i].thread);
    }
    struct record none;
    assert_false(ring_pop(stress.ring, &none));
    ring_free(stress.ring);
}

static void many_producers_on_a_tiny_ring(void **state)
{
    run_stress(2, false);
}

static void many_producers_with_credits(void **state)
{
    run_stress(64, true);
}

static void many_producers_on_a_roomy_ring(void **state)
{
    run_stress(1024, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_in_first_out_over_many_laps),
        cmocka_unit_test(full_is_exactly_the_capacity),
        cmocka_unit_test(every_record_size_keeps_its_bytes),
        cmocka_unit_test(many_producers_on_a_tiny_ring),
        cmocka_unit_test(many_producers_with_credits),
        cmocka_unit_test(many_producers_on_a_roomy_ring),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
