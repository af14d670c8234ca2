#include "base/rcu.h"
#include "base/thread.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>

struct seen {
    char name[16];
    bool is_online;
    bool blocks_term;
    bool blocks_user;
    bool blocks_fault;
};

static void look(void *arg)
{
    struct seen *seen = arg;
    (void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    seen->is_online = rcu_is_online();
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->blocks_term = sigismember(&mask, SIGTERM) == 1;
    seen->blocks_user = sigismember(&mask, SIGUSR1) == 1;
    seen->blocks_fault = sigismember(&mask, SIGSEGV) == 1;
}

static void a_thread_is_named_deaf_and_online(void **state)
{
    struct seen seen = {0};
    struct thread t;
    assert_int_equal(thread_start(&t, "a-name-that-is-too-long", look, &seen), 0);
    thread_join(&t);
    assert_string_equal(seen.name, "a-name-that-is-");
    assert_true(seen.is_online);
    assert_true(seen.blocks_term);
    assert_true(seen.blocks_user);
    assert_false(seen.blocks_fault);
}

static void the_caller_keeps_its_own_mask(void **state)
{
    sigset_t before;
    sigset_t after;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    struct seen seen;
    struct thread t;
    assert_int_equal(thread_start(&t, "t", look, &seen), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    thread_join(&t);
    for (int signal = 1; signal < 32; signal++) {
        assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
    }
    assert_false(rcu_is_online()); /* registering is the new thread's own affair */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_named_deaf_and_online),
        cmocka_unit_test(the_caller_keeps_its_own_mask),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
