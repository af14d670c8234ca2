/* sluice-source: the loop of the load, its reports and its end. */
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "bench/source/source_load.h"
#include "bench/source/source_report.h"
#include "bench/tool/report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

struct program {
    struct source_options options;
    struct source_load load;
    struct poller_watch signal_watch;
    struct timeout report_timer;
    int signal_fd;
};

static struct program program; /* there is one in a process */

static void write_report(const char *path)
{
    struct buf text;
    buf_init(&text, 0);
    source_report_json(&program.load, &text);
    int err = text.failed ? -ENOMEM : report_replace(path, buf_slice(&text));
    if (err != 0) {
        log_error("%s: %s", path, err_str(err));
    }
    buf_fini(&text);
}

static void report_due(struct timeout *t, usec_t now)
{
    write_report(program.options.json_path);
    timeout_set(&program.load.timeouts, t, now + USEC_PER_SEC);
}

static void signal_ready(struct poller_watch *watch, unsigned events)
{
    struct signalfd_siginfo info;
    (void)events; /* only input was asked for */
    if (read(watch->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        source_load_stop(&program.load);
    }
}

static int block_signals(void)
{
    sigset_t set;
    if (sigemptyset(&set) != 0 || sigaddset(&set, SIGTERM) != 0 || sigaddset(&set, SIGINT) != 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return -errno;
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int start_source(struct program *p)
{
    struct source_load *l = &p->load;
    p->signal_fd = block_signals();
    if (p->signal_fd < 0) {
        return p->signal_fd;
    }
    int err = source_load_init(l, &p->options);
    if (err == 0) {
        err = poller_watch(&l->poller, &p->signal_watch, p->signal_fd, POLLER_READ, signal_ready);
    }
    if (err == 0) {
        err = timeout_add(&l->timeouts, &p->report_timer, report_due);
    }
    if (err == 0 && p->options.json_path != NULL) {
        timeout_set(&l->timeouts, &p->report_timer, clock_mono());
    }
    if (err == 0) {
        err = source_load_start(l);
    }
    return err;
}

static usec_t wait_time(usec_t next, usec_t now)
{
    if (next == USEC_NEVER) {
        return USEC_NEVER;
    }
    return next > now ? next - now : 0;
}

static int run_source(struct source_load *l)
{
    while (!source_load_is_done(l)) {
        usec_t next = timeout_queue_next(&l->timeouts);
        usec_t now = l->now; /* lacks only the time that the last timers took */
        int err = poller_wait_exact(&l->poller, wait_time(next, now));
        if (err < 0) {
            return err;
        }
        l->now = clock_mono();
        (void)poller_dispatch(&l->poller);
        l->now = clock_mono();
        (void)timeout_queue_run(&l->timeouts, l->now);
    }
    return 0;
}

/* returns: true when everything that was wanted was accepted */
static bool print_summary(const struct source_load *l)
{
    struct buf text;
    buf_init(&text, 0);
    source_report_json(l, &text);
    (void)fwrite(text.data, 1, text.len, stdout); /* fflush tells */
    bool is_written = !text.failed && fflush(stdout) == 0;
    buf_clear(&text);
    source_report_line(l, &text);
    (void)fprintf(stderr, "sluice-source: " SLICE_FMT "\n", SLICE_ARG(text));
    buf_fini(&text);
    bool is_complete = source_report_is_complete(l);
    if (!is_complete && l->last_problem[0] != '\0') {
        (void)fprintf(stderr, "sluice-source: last problem: %s\n", l->last_problem);
    }
    return is_written && is_complete;
}

static void clean_up(struct program *p)
{
    poller_remove(&p->load.poller, &p->signal_watch);
    timeout_remove(&p->load.timeouts, &p->report_timer);
    source_load_fini(&p->load);
    source_options_fini(&p->options);
    (void)close(p->signal_fd);
}

int main(int argc, char **argv)
{
    struct program *p = &program;
    int status = EX_OK;
    if (source_options_parse(argc, argv, &p->options, &status) != 0) {
        source_options_fini(&p->options);
        return status;
    }
    process_raise_descriptors();
    thread_set_batch(true); /* what is measured is not interrupted for it */
    int err = start_source(p);
    if (err == 0) {
        err = run_source(&p->load);
    }
    if (err != 0) {
        log_error("%s", err_str(err));
        status = EX_OSERR;
    } else {
        status = print_summary(&p->load) ? EX_OK : EX_TEMPFAIL;
        if (p->options.json_path != NULL) {
            write_report(p->options.json_path);
        }
    }
    clean_up(p);
    return status;
}
