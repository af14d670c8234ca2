#include "base/ring.h"
#include "base/thread.h"
#include "base/waker.h"
#include "tests/unit/unit.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRODUCERS    3
#define PER_PRODUCER STRESS_ROUNDS(60000)
#define RALLIES      STRESS_ROUNDS(10000)

static bool is_readable(const struct waker *w)
{
    struct pollfd event = {.fd = w->fd, .events = POLLIN};
    return poll(&event, 1, 0) == 1;
}

static void writes_only_to_a_sleeper(void **state)
{
    struct waker w;
    assert_int_equal(waker_init_polled(&w), 0);
    waker_kick(&w);
    assert_false(is_readable(&w));
    waker_prepare(&w);
    assert_false(is_readable(&w));
    waker_kick(&w);
    waker_kick(&w);
    assert_true(is_readable(&w));
    waker_finish(&w);
    waker_clear(&w);
    assert_false(is_readable(&w));
    waker_clear(&w);  /* harmless when nobody wrote */
    waker_finish(&w); /* harmless when awake */
    waker_kick(&w);
    assert_false(is_readable(&w));
    waker_fini(&w);
    waker_fini(&w);
}

/* What a worker relies on: it never reads the eventfd. */
static void every_write_is_an_event_of_an_edge(void **state)
{
    struct waker w;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(waker_init_polled(&w), 0);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, w.fd, &event), 0);
    for (int i = 0; i < 3; i++) {
        waker_prepare(&w);
        assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
        waker_kick(&w);
        assert_int_equal(epoll_wait(epoll, &event, 1, -1), 1);
        waker_finish(&w);
    }
    (void)close(epoll);
    waker_fini(&w);
}

static void a_deadline_ends_the_wait(void **state)
{
    struct waker w;
    waker_init(&w);
    waker_prepare(&w);
    usec_t deadline = clock_mono() + 2 * USEC_PER_MSEC;
    waker_wait(&w, deadline);
    assert_true(clock_mono() >= deadline);
    waker_finish(&w);
    waker_prepare(&w);
    waker_wait(&w, 0); /* long past */
    waker_finish(&w);
    waker_prepare(&w);
    waker_doze(&w, clock_mono());
    waker_finish(&w);
    waker_fini(&w);
}

static void a_kick_before_the_wait_ends_it(void **state)
{
    struct waker w;
    waker_init(&w);
    waker_prepare(&w);
    waker_kick(&w);
    waker_wait(&w, USEC_NEVER);
    waker_finish(&w);
    waker_prepare(&w);
    waker_nudge(&w); /* not dozing yet */
    waker_wait(&w, USEC_NEVER);
    waker_finish(&w);
    waker_prepare(&w);
    waker_nudge(&w);
    waker_doze(&w, clock_mono() + 60 * USEC_PER_SEC);
    waker_finish(&w);
    waker_fini(&w);
}

static uint32_t state_of(struct waker *w)
{
    return atomic_load(&w->state);
}

static void await_state(struct waker *w, uint32_t state)
{
    while (state_of(w) != state) {
        (void)sched_yield();
    }
}

static void doze_long(void *arg)
{
    struct waker *w = arg;
    waker_prepare(w);
    waker_doze(w, clock_mono() + 60 * USEC_PER_SEC);
    waker_finish(w);
}

static void a_nudge_lets_doze_and_a_kick_does_not(void **state)
{
    static struct waker w;
    struct thread thread;
    waker_init(&w);
    assert_int_equal(thread_start(&thread, "dozer", doze_long, &w), 0);
    await_state(&w, WAKER_DOZING);
    waker_nudge(&w);
    assert_int_equal(state_of(&w), WAKER_DOZING);
    waker_kick(&w);
    thread_join(&thread);
    waker_fini(&w);
}

static void sleep_long(void *arg)
{
    struct waker *w = arg;
    waker_prepare(w);
    waker_wait(w, USEC_NEVER);
    waker_finish(w);
}

static void a_nudge_wakes_a_sleeper(void **state)
{
    static struct waker w;
    struct thread thread;
    waker_init(&w);
    assert_int_equal(thread_start(&thread, "sleeper", sleep_long, &w), 0);
    await_state(&w, WAKER_ASLEEP);
    waker_nudge(&w);
    thread_join(&thread);
    waker_fini(&w);
}

/* A producer that took the state of an earlier sleep may be suspended before it calls the kernel:
 * its wake then comes to another sleep, which goes on. */
static void a_late_wake_does_not_end_a_later_sleep(void **state)
{
    static struct waker w;
    struct thread thread;
    waker_init(&w);
    assert_int_equal(thread_start(&thread, "sleeper", sleep_long, &w), 0);
    await_state(&w, WAKER_ASLEEP);
    /* Woken means that the kernel had it queued, so that this has tested something. */
    while (syscall(SYS_futex, &w.state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0) {
        (void)sched_yield();
    }
    assert_int_equal(state_of(&w), WAKER_ASLEEP);
    waker_kick(&w);
    thread_join(&thread);
    waker_fini(&w);
}

struct stress {
    struct ring *ring;
    struct waker waker;
};

struct producer {
    struct thread thread;
    struct stress *stress;
    uint64_t batch;
};

static void produce(void *arg)
{
    struct producer *self = arg;
    for (uint64_t i = 1; i <= PER_PRODUCER; i++) {
        while (!ring_try_push(self->stress->ring, &i)) {
            waker_kick(&self->stress->waker); /* never wait with an unannounced batch */
            (void)sched_yield();
        }
        if (i % self->batch == 0) {
            waker_kick(&self->stress->waker);
        }
    }
    waker_kick(&self->stress->waker);
}

/* A lost wake-up hangs here for good: nobody else wakes the consumer. */
static void no_wake_up_is_lost(void **state)
{
    struct stress stress = {.ring = ring_new(256, sizeof(uint64_t))};
    assert_non_null(stress.ring);
    waker_init(&stress.waker);
    struct producer producers[PRODUCERS];
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i].stress = &stress;
        producers[i].batch = (uint64_t)1 << (2 * i);
        assert_int_equal(thread_start(&producers[i].thread, "producer", produce, &producers[i]), 0);
    }
    uint64_t total = 0;
    uint64_t sum = 0;
    uint64_t number;
    while (total < (uint64_t)PRODUCERS * PER_PRODUCER) {
        waker_prepare(&stress.waker);
        uint64_t before = total;
        while (ring_pop(stress.ring, &number)) {
            sum += number;
            total++;
        }
        if (total == before) {
            waker_wait(&stress.waker, USEC_NEVER);
        }
        waker_finish(&stress.waker);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        thread_join(&producers[i].thread);
    }
    assert_int_equal(sum, (uint64_t)PRODUCERS * PER_PRODUCER * (PER_PRODUCER + 1) / 2);
    waker_fini(&stress.waker);
    ring_free(stress.ring);
}

struct side {
    _Alignas(CACHE_LINE) _Atomic uint64_t ball; /* round that was served to this side; release */
    struct waker waker;
};

struct match {
    struct side sides[2];
};

static void serve(struct side *to, uint64_t round)
{
    atomic_store_explicit(&to->ball, round, memory_order_release);
    waker_kick(&to->waker);
}

static void await_ball(struct side *self, uint64_t round)
{
    while (atomic_load_explicit(&self->ball, memory_order_acquire) != round) {
        waker_prepare(&self->waker);
        if (atomic_load_explicit(&self->ball, memory_order_acquire) != round) {
            waker_wait(&self->waker, USEC_NEVER);
        }
        waker_finish(&self->waker);
    }
}

static void play_back(void *arg)
{
    struct match *match = arg;
    for (uint64_t round = 1; round <= RALLIES; round++) {
        await_ball(&match->sides[1], round);
        serve(&match->sides[0], round);
    }
}

/* One record in flight: each side goes to sleep just when the other serves, and a single wake-up
 * that is lost stops both for good. */
static void a_rally_never_stops(void **state)
{
    static struct match match;
    for (int i = 0; i < 2; i++) {
        atomic_init(&match.sides[i].ball, 0);
        waker_init(&match.sides[i].waker);
    }
    struct thread player;
    assert_int_equal(thread_start(&player, "player", play_back, &match), 0);
    for (uint64_t round = 1; round <= RALLIES; round++) {
        serve(&match.sides[1], round);
        await_ball(&match.sides[0], round);
    }
    thread_join(&player);
    for (int i = 0; i < 2; i++) {
        waker_fini(&match.sides[i].waker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_only_to_a_sleeper),
        cmocka_unit_test(every_write_is_an_event_of_an_edge),
        cmocka_unit_test(a_deadline_ends_the_wait),
        cmocka_unit_test(a_kick_before_the_wait_ends_it),
        cmocka_unit_test(a_nudge_lets_doze_and_a_kick_does_not),
        cmocka_unit_test(a_nudge_wakes_a_sleeper),
        cmocka_unit_test(a_late_wake_does_not_end_a_later_sleep),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_rally_never_stops),
    };
    return cmocka_run_group_tests_name("waker", tests, NULL, NULL);
}
