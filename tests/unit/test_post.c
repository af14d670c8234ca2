#include "base/post.h"
#include "base/rcu.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 8, SENDERS = 2, LETTERS = STRESS_ROUNDS(40000), STOPS = STRESS_ROUNDS(200) };

/* --- a reader and its senders ----------------------------------------------------------------- */

struct reader {
    struct post post;
    uint64_t next[SENDERS]; /* what each sender's next letter must say */
    uint64_t taken;
    bool is_in_order;
    bool is_offline; /* for RCU, also between naps */
};

static void reader_take(struct reader *r)
{
    struct letter letter;
    post_assert_owner(&r->post);
    while ((post_has_first(&r->post) && post_take_first(&r->post, &letter)) ||
           post_take(&r->post, &letter)) {
        r->is_in_order = r->is_in_order && letter.number == r->next[letter.kind];
        r->next[letter.kind] = letter.number + 1;
        r->taken++;
    }
}

/* Sleeps without a deadline, so a lost wake-up is a test that does not end. */
static void run_reader(void *arg)
{
    struct reader *r = arg;
    bool must_end;
    post_assert_owner(&r->post);
    if (r->is_offline) {
        rcu_sleep();
    }
    do {
        must_end = post_must_end(&r->post);
        reader_take(r);
        if (!must_end) {
            post_nap(&r->post, USEC_NEVER);
        }
        assert(rcu_is_online() != r->is_offline);
    } while (!must_end);
    if (r->is_offline) {
        rcu_awake();
    }
}

struct sender {
    struct post post;
    struct outbox *to_reader;
    uint32_t number;
    uint32_t letters;
};

static void run_sender(void *arg)
{
    struct sender *s = arg;
    post_assert_owner(&s->post);
    for (uint32_t i = 0; i < s->letters; i++) {
        outbox_put(s->to_reader, s->number, NULL, i);
        if (i % 7 == 6) {
            (void)post_flush(&s->post); /* what does not fit goes below */
        }
    }
    while (!post_flush(&s->post)) {
        (void)sched_yield();
    }
}

static void sender_start(struct sender *s, uint32_t number, uint32_t letters, struct mailbox *to)
{
    *s = (struct sender){.number = number, .letters = letters};
    assert_int_equal(post_open(&s->post, 1), 0);
    s->to_reader = post_write_to(&s->post, to);
    assert_int_equal(post_start(&s->post, "sender", run_sender, s), 0);
}

static void letters_arrive_in_each_senders_order(void **state)
{
    struct reader r = {.is_in_order = true};
    struct sender senders[SENDERS];
    assert_int_equal(post_init(&r.post, ROOM), 0);
    assert_int_equal(post_init_first(&r.post, ROOM), 0);
    assert_int_equal(post_start(&r.post, "reader", run_reader, &r), 0);
    for (uint32_t i = 0; i < SENDERS; i++) {
        sender_start(&senders[i], i, LETTERS, i % 2 == 0 ? &r.post.box : &r.post.first);
    }
    for (uint32_t i = 0; i < SENDERS; i++) {
        thread_join(&senders[i].post.thread); /* it ends by itself */
        post_fini(&senders[i].post);
    }
    post_stop(&r.post);
    assert_true(r.is_in_order);
    assert_int_equal(r.taken, SENDERS * LETTERS);
    post_fini(&r.post);
}

/* What senders that have ended have sent is there for a thread that sees that it must end. */
static void who_is_told_to_end_finds_every_letter_before(void **state)
{
    for (int i = 0; i < STOPS; i++) {
        struct reader r = {.is_in_order = true, .is_offline = i % 2 == 1};
        struct sender s;
        assert_int_equal(post_init(&r.post, 1024), 0);
        assert_int_equal(post_start(&r.post, "reader", run_reader, &r), 0);
        sender_start(&s, 0, 20, &r.post.box);
        thread_join(&s.post.thread);
        post_stop(&r.post);
        assert_int_equal(r.taken, 20);
        post_fini(&s.post);
        post_fini(&r.post);
    }
}

/* --- naps ------------------------------------------------------------------------------------- */

static void reasons_to_stay_awake(void **state)
{
    struct post p = {0}, sender = {0};
    struct letter letter;
    rcu_join();
    post_assert_owner(&p);
    post_assert_owner(&sender);
    assert_int_equal(post_init(&p, ROOM), 0);
    assert_int_equal(post_open(&sender, 1), 0);
    struct outbox *o = post_write_to(&sender, &p.box);

    assert_true(post_nap_prepare(&p));
    mailbox_wake(&p.box);
    post_nap_sleep(&p, USEC_NEVER); /* ended by the wake before it */
    post_nap_finish(&p);

    outbox_put(o, 1, NULL, 0);
    assert_true(post_flush(&sender));
    assert_false(post_nap_prepare(&p));
    post_nap_finish(&p);
    post_nap(&p, USEC_NEVER);
    assert_true(post_take(&p, &letter));

    assert_true(post_nap_prepare(&p));
    outbox_put_patient(o, 1, NULL, 0);
    assert_true(post_flush(&sender)); /* as nobody dozes, this is a letter like others */
    post_nap_sleep(&p, USEC_NEVER);
    post_nap_finish(&p);
    assert_true(post_take(&p, &letter));

    post_nap(&p, clock_mono() - 1);
    assert_false(post_must_end(&p));
    atomic_store(&p.is_stopping, true);
    assert_false(post_nap_prepare(&p));
    post_nap_finish(&p);
    assert_true(post_must_end(&p));
    post_fini(&sender);
    post_fini(&p);
    rcu_leave();
}

static void letters_that_go_first(void **state)
{
    struct post p = {0}, sender = {0};
    struct letter letter;
    post_assert_owner(&p);
    post_assert_owner(&sender);
    assert_int_equal(post_init(&p, ROOM), 0);
    assert_false(post_has_first(&p));
    assert_int_equal(post_init_first(&p, ROOM), 0);
    assert_int_equal(post_open(&sender, 2), 0);
    struct outbox *to_box = post_write_to(&sender, &p.box);
    struct outbox *to_first = post_write_to(&sender, &p.first);
    for (uint32_t i = 0; i < ROOM + 1; i++) {
        outbox_put(to_box, 0, NULL, i);
    }
    outbox_put(to_first, 1, NULL, 7);
    assert_false(post_flush(&sender)); /* the box is full, and holds nothing up */
    assert_true(post_take_first(&p, &letter));
    assert_int_equal(letter.number, 7);
    assert_false(post_take_first(&p, &letter));
    for (uint32_t i = 0; i < ROOM + 1; i++) {
        assert_true(post_take(&p, &letter));
        assert_true(post_flush(&sender));
    }
    assert_true(post_nap_prepare(&p));
    outbox_put(to_first, 1, NULL, 8);
    assert_true(post_flush(&sender));
    post_nap_sleep(&p, USEC_NEVER); /* ended by a letter of the second ring */
    post_nap_finish(&p);
    assert_false(post_nap_prepare(&p));
    post_nap_finish(&p);
    assert_true(post_take_left(&p, &letter));
    assert_int_equal(letter.number, 8);
    post_fini(&sender);
    post_fini(&p);
}

static void a_polled_post_is_readable_by_its_level(void **state)
{
    struct post p = {0};
    post_assert_owner(&p);
    assert_int_equal(post_init_polled(&p, ROOM), 0);
    struct pollfd event = {.fd = post_fd(&p), .events = POLLIN};
    assert_true(post_nap_prepare(&p));
    assert_int_equal(poll(&event, 1, 0), 0);
    mailbox_wake(&p.box);
    assert_int_equal(poll(&event, 1, 0), 1);
    post_nap_finish(&p);
    post_clear(&p);
    assert_int_equal(poll(&event, 1, 0), 0);
    post_fini(&p);
}

/* --- outboxes --------------------------------------------------------------------------------- */

static bool take_one(struct post *p, struct letter *ret)
{
    post_assert_owner(p);
    return post_take(p, ret);
}

static void a_full_receiver_does_not_hold_up_the_others(void **state)
{
    struct post readers[3] = {0}, sender = {0};
    struct mailbox *boxes[] = {&readers[0].box, &readers[1].box, &readers[2].box};
    struct letter letter;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(post_init(&readers[i], ROOM), 0);
    }
    assert_int_equal(post_open(&sender, 3), 0);
    post_assert_owner(&sender);
    struct outbox *to_first = post_write_to(&sender, boxes[0]);
    struct outbox *to_others = post_write_to_each(&sender, &boxes[1], 2);
    assert_null(post_write_to_each(&sender, boxes, 0));
    for (uint64_t i = 0; i < ROOM + 1; i++) {
        outbox_put(to_first, 0, NULL, i);
    }
    outbox_put(&to_others[0], 0, NULL, 1);
    outbox_put(&to_others[1], 0, NULL, 2);
    assert_false(post_flush(&sender));
    assert_int_equal(mailbox_count(boxes[0]), ROOM);
    for (int i = 1; i < 3; i++) {
        assert_true(take_one(&readers[i], &letter));
        assert_int_equal(letter.number, i);
    }
    for (uint64_t i = 0; i < ROOM + 1; i++) {
        assert_true(take_one(&readers[0], &letter));
        assert_int_equal(letter.number, i);
        assert_true(post_flush(&sender));
    }
    post_fini(&sender);
    for (int i = 0; i < 3; i++) {
        post_fini(&readers[i]);
    }
}

static void what_nobody_takes_can_be_freed(void **state)
{
    struct post p = {0}, sender = {0};
    struct letter letter;
    assert_false(post_take_left(&p, &letter));
    post_fini(&p);
    assert_int_equal(post_init(&p, ROOM), 0);
    assert_int_equal(post_open(&sender, 1), 0);
    outbox_put(post_write_to(&sender, &p.box), 3, NULL, 4);
    assert_true(post_take_left(&p, &letter));
    assert_int_equal(letter.kind, 3);
    assert_false(post_take_left(&p, &letter));
    post_fini(&sender);
    post_fini(&p);
    post_fini(&p);
}

/* --- owners ----------------------------------------------------------------------------------- */

#ifdef SLUICE_OWNER_DEBUG
static void call(struct reader *r)
{
    post_assert_owner(&r->post);
    (void)post_flush(&r->post);
}

static void put(struct reader *r)
{
    outbox_put(r->post.outboxes, 0, NULL, 0);
}

/* Of this process, while a thread of it owns the post. */
static void is_noticed(void (*stranger)(struct reader *r))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0};
        struct reader r = {.is_in_order = true};
        (void)setrlimit(RLIMIT_CORE, &none); /* a core is only in the way */
        (void)close(STDERR_FILENO);
        if (post_init(&r.post, ROOM) == 0 && post_open(&r.post, 1) == 0 &&
            post_write_to(&r.post, &r.post.box) != NULL &&
            post_start(&r.post, "reader", run_reader, &r) == 0) {
            while (true) {
                stranger(&r); /* aborts once the thread runs */
                (void)usleep(1000);
            }
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

static void a_strangers_call_is_noticed(void **state)
{
    is_noticed(call);
}

static void a_strangers_letter_is_noticed(void **state)
{
    is_noticed(put);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_arrive_in_each_senders_order),
        cmocka_unit_test(who_is_told_to_end_finds_every_letter_before),
        cmocka_unit_test(reasons_to_stay_awake),
        cmocka_unit_test(letters_that_go_first),
        cmocka_unit_test(a_polled_post_is_readable_by_its_level),
        cmocka_unit_test(a_full_receiver_does_not_hold_up_the_others),
        cmocka_unit_test(what_nobody_takes_can_be_freed),
#ifdef SLUICE_OWNER_DEBUG
        cmocka_unit_test(a_strangers_call_is_noticed),
        cmocka_unit_test(a_strangers_letter_is_noticed),
#endif
    };
    return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
