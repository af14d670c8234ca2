/* The poller: edges, levels, slots that are recycled while their events are under way. */
#include "net/poller.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct probe {
    struct poller_watch watch;
    int pair[2]; /* [0] is watched */
    int calls;
    unsigned events;
    struct poller *poller;
    struct probe *victim; /* removed by this probe's callback */
    struct probe *heir;   /* then added */
};

static void probe_ready(struct poller_watch *watch, unsigned events)
{
    struct probe *p = container_of(watch, struct probe, watch);
    p->calls++;
    p->events = events;
    if (p->victim != NULL && poller_has(&p->victim->watch)) {
        poller_remove(p->poller, &p->victim->watch);
        if (p->heir != NULL) {
            assert_int_equal(poller_add(p->poller, &p->heir->watch, p->heir->pair[0], probe_ready),
                             0);
        }
    }
}

static void probe_open(struct probe *p, struct poller *poller)
{
    memset(p, 0, sizeof(*p));
    p->poller = poller;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->pair), 0);
}

static void probe_close(struct probe *p)
{
    poller_remove(p->poller, &p->watch);
    close(p->pair[0]);
    close(p->pair[1]);
}

static int pass(struct poller *p)
{
    assert_true(poller_wait(p, 0) >= 0);
    return poller_dispatch(p);
}

static void edges_come_once(void **state)
{
    struct poller p;
    struct probe a;
    char buf[8];
    assert_int_equal(poller_init(&p, 16), 0);
    probe_open(&a, &p);
    assert_false(poller_has(&a.watch));
    assert_int_equal(poller_add(&p, &a.watch, a.pair[0], probe_ready), 0);
    assert_true(poller_has(&a.watch));
    assert_int_equal(pass(&p), 1);
    assert_int_equal(a.events, POLLER_WRITE);
    assert_int_equal(pass(&p), 0);

    assert_int_equal(write(a.pair[1], "x", 1), 1);
    assert_int_equal(pass(&p), 1);
    assert_true((a.events & POLLER_READ) != 0);
    assert_int_equal(pass(&p), 0);
    assert_int_equal(write(a.pair[1], "y", 1), 1);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(read(a.pair[0], buf, sizeof(buf)), 2);

    assert_int_equal(shutdown(a.pair[1], SHUT_WR), 0);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(a.events & (POLLER_READ | POLLER_HANGUP), POLLER_READ | POLLER_HANGUP);
    probe_close(&a);
    assert_int_equal(p.used, 0);
    poller_fini(&p);
}

static void levels_come_again(void **state)
{
    struct poller p;
    struct probe a;
    assert_int_equal(poller_init(&p, 16), 0);
    memset(&a, 0, sizeof(a));
    a.poller = &p;
    int fd = eventfd(1, EFD_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(poller_watch(&p, &a.watch, fd, POLLER_READ, probe_ready), 0);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(a.events, POLLER_READ);
    assert_int_equal(poller_change(&p, &a.watch, POLLER_WRITE), 0);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(a.events, POLLER_WRITE);
    assert_int_equal(poller_change(&p, &a.watch, 0), 0);
    assert_int_equal(pass(&p), 0);
    poller_remove(&p, &a.watch);
    poller_remove(&p, &a.watch);
    assert_int_equal(pass(&p), 0);
    close(fd);
    poller_fini(&p);
}

/* Whichever of a and b is served first takes the other away and gives its slot to c, which must
 * not be told of an event that is not its own. */
static void stale_events_are_dropped(void **state)
{
    struct poller p;
    struct probe a, b, c;
    assert_int_equal(poller_init(&p, 16), 0);
    probe_open(&a, &p);
    probe_open(&b, &p);
    probe_open(&c, &p);
    a.victim = &b;
    b.victim = &a;
    a.heir = b.heir = &c;
    assert_int_equal(poller_add(&p, &a.watch, a.pair[0], probe_ready), 0);
    assert_int_equal(poller_add(&p, &b.watch, b.pair[0], probe_ready), 0);
    uint32_t slots[2] = {a.watch.slot, b.watch.slot};
    assert_int_equal(poller_wait(&p, 0), 2);
    assert_int_equal(poller_dispatch(&p), 1);
    assert_int_equal(a.calls + b.calls, 1);
    assert_int_equal(c.calls, 0);
    assert_int_equal(p.stale, 1);
    assert_true(c.watch.slot == slots[0] || c.watch.slot == slots[1]);
    assert_int_equal(poller_dispatch(&p), 0);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(c.calls, 1);
    probe_close(&a);
    probe_close(&b);
    probe_close(&c);
    poller_fini(&p);
}

#define MANY 300

struct crowd {
    struct probe first;
    struct probe others[MANY];
};

/* A watch that leaves is not called again, and its slot and number can be another's at once. */
static void closing_ends_a_watch(void **state)
{
    struct poller p;
    struct probe a, b;
    assert_int_equal(poller_init(&p, 16), 0);
    probe_open(&a, &p);
    assert_int_equal(poller_add(&p, &a.watch, a.pair[0], probe_ready), 0);
    assert_int_equal(poller_wait(&p, 0), 1);
    poller_leave(&p, &a.watch);
    poller_leave(&p, &a.watch);
    assert_int_equal(p.used, 0);
    close(a.pair[0]);
    assert_int_equal(poller_dispatch(&p), 0);
    assert_int_equal(p.stale, 1);
    probe_open(&b, &p);
    assert_int_equal(b.pair[0], a.pair[0]);
    assert_int_equal(poller_add(&p, &b.watch, b.pair[0], probe_ready), 0);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(b.calls, 1);
    assert_int_equal(a.calls, 0);
    close(a.pair[1]);
    assert_int_equal(pass(&p), 0);
    probe_close(&b);
    poller_fini(&p);
}

static void crowd_ready(struct poller_watch *watch, unsigned events)
{
    struct crowd *crowd = container_of(watch, struct crowd, first.watch);
    crowd->first.calls++;
    for (int i = 0; i < MANY; i++) {
        struct probe *o = &crowd->others[i];
        if (!poller_has(&o->watch)) {
            assert_int_equal(poller_add(o->poller, &o->watch, o->pair[0], probe_ready), 0);
        }
    }
}

static void table_grows_inside_a_callback(void **state)
{
    struct poller p;
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    assert_non_null(crowd);
    assert_int_equal(poller_init(&p, 64), 0);
    probe_open(&crowd->first, &p);
    for (int i = 0; i < MANY; i++) {
        probe_open(&crowd->others[i], &p);
    }
    assert_int_equal(poller_add(&p, &crowd->first.watch, crowd->first.pair[0], crowd_ready), 0);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(p.used, MANY + 1);
    int calls = 0;
    for (int n = pass(&p); n > 0; n = pass(&p)) {
        assert_true(n <= 64);
        calls += n;
    }
    assert_int_equal(calls, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(crowd->others[i].calls, 1);
        probe_close(&crowd->others[i]);
    }
    probe_close(&crowd->first);
    free(crowd);
    poller_fini(&p);
}

static void errors_are_told(void **state)
{
    struct poller p;
    struct poller_watch w = {0};
    assert_int_equal(poller_init(&p, 1), 0);
    assert_int_equal(poller_add(&p, &w, -1, probe_ready), -EBADF);
    assert_false(poller_has(&w));
    assert_int_equal(p.used, 0);
    /* A timeout shorter than a millisecond still sleeps, and ends. */
    assert_int_equal(poller_wait(&p, 1), 0);
    assert_int_equal(poller_wait_exact(&p, 1), 0);
    assert_int_equal(poller_wait_exact(&p, 0), 0);
    poller_fini(&p);
    struct poller zero = {0};
    poller_fini(&zero);
}

/* Who came last and is first goes before all; of the others a turn at a time, in their order. */
static void first_go_first(void **state)
{
    enum { OTHERS = 5 };
    struct poller p;
    struct probe others[OTHERS], first;
    assert_int_equal(poller_init(&p, 16), 0);
    p.turn = 2;
    for (int i = 0; i < OTHERS; i++) {
        probe_open(&others[i], &p);
        assert_int_equal(poller_add(&p, &others[i].watch, others[i].pair[0], probe_ready), 0);
    }
    probe_open(&first, &p);
    first.watch.is_first = true;
    assert_int_equal(poller_add(&p, &first.watch, first.pair[0], probe_ready), 0);
    assert_int_equal(pass(&p), 3);
    assert_int_equal(first.calls, 1);
    assert_int_equal(others[0].calls + others[1].calls, 2);
    assert_true(poller_has_events(&p));

    /* It comes again while others wait, and waits for none of them. */
    assert_int_equal(write(first.pair[1], "x", 1), 1);
    assert_int_equal(poller_wait(&p, USEC_NEVER), 1); /* does not sleep */
    poller_remove(&p, &others[2].watch);              /* its event is dropped */
    assert_int_equal(poller_dispatch(&p), 2);
    assert_int_equal(first.calls, 2);
    assert_int_equal(others[3].calls, 1);
    assert_int_equal(pass(&p), 1);
    assert_int_equal(others[4].calls, 1);
    assert_int_equal(others[2].calls, 0);
    assert_false(poller_has_events(&p));
    for (int i = 0; i < OTHERS; i++) {
        probe_close(&others[i]);
    }
    probe_close(&first);
    poller_fini(&p);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_come_once),          cmocka_unit_test(levels_come_again),
        cmocka_unit_test(stale_events_are_dropped), cmocka_unit_test(table_grows_inside_a_callback),
        cmocka_unit_test(errors_are_told),          cmocka_unit_test(closing_ends_a_watch),
        cmocka_unit_test(first_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
