#include "base/rcu.h"
#include "base/thread.h"
#include "tests/unit/unit.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct seen {
    char name[16];
    bool is_online;
    int policy;
    bool blocks_term;
    bool blocks_user;
    bool blocks_fault;
};

static void look(void *arg)
{
    struct seen *seen = arg;
    (void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    seen->is_online = rcu_is_online();
    seen->policy = sched_getscheduler(0);
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

static int policy_of_a_thread(void)
{
    struct seen seen;
    struct thread t;
    assert_int_equal(thread_start(&t, "t", look, &seen), 0);
    thread_join(&t);
    return seen.policy;
}

/* Where the tests run under a policy that somebody chose, that one stays. */
static void a_policy_is_for_the_caller_and_its_threads(void **state)
{
    const int before = sched_getscheduler(0);
    const bool is_usual = before == SCHED_OTHER || before == SCHED_BATCH;
    thread_set_batch(true);
    assert_int_equal(sched_getscheduler(0), is_usual ? SCHED_BATCH : before);
    assert_int_equal(policy_of_a_thread(), is_usual ? SCHED_BATCH : before);
    thread_set_batch(false);
    assert_int_equal(policy_of_a_thread(), is_usual ? SCHED_OTHER : before);
    thread_set_batch(before == SCHED_BATCH);
}

/* Its own process, as a thread leaves SCHED_IDLE only with a right (sched(7)). */
static void another_policy_stays(void **state)
{
    static const struct sched_param none = {.sched_priority = 0};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_set = sched_setscheduler(0, SCHED_IDLE, &none) == 0;
        thread_set_batch(true);
        _exit(is_set && sched_getscheduler(0) == SCHED_IDLE ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_named_deaf_and_online),
        cmocka_unit_test(the_caller_keeps_its_own_mask),
        cmocka_unit_test(a_policy_is_for_the_caller_and_its_threads),
        cmocka_unit_test(another_policy_stays),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
