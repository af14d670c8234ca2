#include "tests/unit/steps.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void run_child(void (*run)(void *ctx), void *ctx)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(1);
    }
    (void)raise(SIGSTOP); /* from here ... */
    run(ctx);
    (void)raise(SIGSTOP); /* ... to here */
    _exit(0);
}

static bool has_stopped_by(pid_t child, int signal)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

static bool step(pid_t child)
{
    return ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0;
}

long steps_of(void (*run)(void *ctx), void *ctx, long most)
{
#ifdef SLUICE_SANITIZED
    return -1;
#endif
    pid_t child = fork();
    if (child == 0) {
        run_child(run, ctx);
    }
    long steps = -1;
    if (child > 0 && has_stopped_by(child, SIGSTOP)) {
        steps = 0;
        while (steps <= most && step(child) && has_stopped_by(child, SIGTRAP)) {
            steps++;
        }
    }
    if (child > 0) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    return steps;
}
