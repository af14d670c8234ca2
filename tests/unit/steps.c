/* The processor's trap flag: after each instruction it raises SIGTRAP in the thread itself, so nothing
 * else has to run in between. */
#include "tests/unit/steps.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(SLUICE_SANITIZED)

#include <ucontext.h>

#define TRAP_FLAG 0x100

static volatile long steps, most_steps;
static volatile bool is_over;
static int result[2]; /* pipe */

static void tell(void)
{
    long found = steps;
    ssize_t written = write(result[1], &found, sizeof(found));
    _exit(written == (ssize_t)sizeof(found) ? 0 : 1);
}

static void take_step(int signal, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    steps++;
    if (steps > most_steps) {
        tell();
    }
    if (is_over) {
        c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    }
}

/* Not inlined: the flag is pushed below what the function keeps on its stack. */
static __attribute__((noinline)) void begin_steps(void)
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\t"
                     "lea 128(%%rsp), %%rsp"
                     :
                     : "i"(TRAP_FLAG)
                     : "memory", "cc");
}

static _Noreturn void run_child(void (*run)(void *ctx), void *ctx)
{
    struct sigaction action = {.sa_sigaction = take_step, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, NULL) != 0) {
        _exit(1);
    }
    begin_steps();
    run(ctx);
    is_over = true;
    tell();
    _exit(1);
}

long steps_of(void (*run)(void *ctx), void *ctx, long most)
{
    long found = -1;
    most_steps = most;
    if (pipe(result) != 0) {
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        run_child(run, ctx);
    }
    (void)close(result[1]);
    if (child > 0 && read(result[0], &found, sizeof(found)) != (ssize_t)sizeof(found)) {
        found = -1;
    }
    (void)close(result[0]);
    if (child > 0) {
        (void)waitpid(child, NULL, 0);
    }
    return found;
}

#else

long steps_of(void (*run)(void *ctx), void *ctx, long most)
{
    return -1;
}

#endif
