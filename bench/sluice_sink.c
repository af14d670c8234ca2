/* sluice-sink: the receiver's main thread: start, signals, reports, stop. */
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "bench/sink/sink_report.h"
#include "bench/sink/sink_worker.h"
#include "bench/tool/report.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#define DESCRIPTORS   (1UL << 20) /* the usual fs.nr_open */
#define REPORT_PERIOD USEC_PER_SEC
#define REPORT_SHARE  50 /* a report may take one part in so many of a core */

struct program {
    struct sink_options options;
    struct sink sink;
    struct sink_worker workers[SINK_THREADS_MAX];
    int worker_count;
    int signal_fd;
};

/* Destinations that no listening address has: a slip of the pen, or a file for more addresses. */
static void warn_of_unused(const struct sink *sink, const bool *is_used)
{
    const struct behaviour_file *file = &sink->options->file;
    for (size_t i = 0; i < file->destination_count; i++) {
        if (!is_used[i]) {
            log_warning("%s:%u: destination \"%s\": no listening address is left for it",
                        sink->options->behaviour_path, file->destinations[i].line,
                        file->destinations[i].title);
        }
    }
}

/* One table of clients for each destination of the file, and one for all other addresses. */
static int open_receivers(struct sink *sink)
{
    size_t count = sink->options->file.destination_count + 1;
    int err = 0;
    sink->receivers = calloc(count, sizeof(*sink->receivers));
    if (sink->receivers == NULL) {
        return -ENOMEM;
    }
    while (sink->receiver_count < count && err == 0) {
        err = sink_clients_init(&sink->receivers[sink->receiver_count++], sink->started,
                                sink->options->timeline);
    }
    return err;
}

static int open_listeners(struct sink *sink)
{
    const struct endpoint_list *list = &sink->options->listen;
    const struct behaviour_file *file = &sink->options->file;
    struct rlimit limit = {0, 0};
    int err = 0;
    sink->listeners = calloc(list->count, sizeof(*sink->listeners));
    bool *is_used = calloc(file->destination_count + 1, sizeof(*is_used));
    if (sink->listeners == NULL || is_used == NULL) {
        free(is_used);
        return -ENOMEM;
    }
    for (size_t i = 0; i < list->count && err == 0; i++) {
        struct sink_listener *l = &sink->listeners[i];
        sink->listener_count++;
        err = sink_listener_open(l, &list->items[i], sink->options, sink->started);
        if (err == -EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
            log_error("%s: %s: a limit of %llu descriptors is too low for %zu addresses and their "
                      "connections; raise it (ulimit -n)",
                      l->name, err_str(err), (unsigned long long)limit.rlim_cur, list->count);
        } else if (err != 0) {
            log_error("%s: %s", l->name, err_str(err));
        } else {
            is_used[l->destination] = true;
        }
    }
    if (err == 0) {
        warn_of_unused(sink, is_used);
    }
    free(is_used);
    return err;
}

static int open_tls(struct sink *sink)
{
    const struct tls_server_config config = {.certificate_file = sink->options->tls_certificate,
                                             .key_file = sink->options->tls_key};
    struct tls_error error;
    if (config.certificate_file == NULL) {
        return 0;
    }
    int err = tls_server_new(&config, &sink->tls, &error);
    if (err != 0) {
        log_error("%s", err == ERR_TLS ? error.text : err_str(err));
    }
    return err;
}

/* As many connections as the system grants: who may raise the hard limit gets DESCRIPTORS. */
static void raise_descriptor_limit(void)
{
    static const struct rlimit wanted = {DESCRIPTORS, DESCRIPTORS};
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < DESCRIPTORS) {
        (void)setrlimit(RLIMIT_NOFILE, &wanted); /* not granted: the hard limit holds */
    }
    process_raise_descriptors();
}

static int start_sink(struct program *p)
{
    struct sink *sink = &p->sink;
    sink->options = &p->options;
    sink->started = clock_wall();
    atomic_init(&sink->is_holding, true);
    sink->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (sink->done_fd < 0) {
        return -errno;
    }
    int err = ledger_open(&sink->ledger, p->options.ledger_path, p->options.does_ledger_sync);
    if (err != 0) {
        log_error("%s: %s", p->options.ledger_path, err_str(err));
        return err;
    }
    err = open_tls(sink);
    if (err == 0) {
        err = sink_rules_init(&sink->domains, &p->options.file, sink->started,
                              sink->options->timeline);
    }
    if (err == 0) {
        err = sink_courses_init(&sink->courses, sink->started, sink->options->timeline);
    }
    if (err == 0) {
        err = open_receivers(sink);
    }
    if (err == 0) {
        err = open_listeners(sink);
    }
    for (int i = 0; i < p->options.threads && err == 0; i++) {
        err = sink_worker_start(&p->workers[i], sink, i);
        p->worker_count += err == 0 ? 1 : 0;
    }
    return err;
}

static int print_report(struct program *p, bool is_end, FILE *out, const char *path)
{
    struct buf text;
    buf_init(&text, 0);
    int err = sink_report(&p->sink, p->workers, p->worker_count, is_end, &text);
    if (err == 0 && out != NULL) {
        (void)fwrite(text.data, 1, text.len, out); /* fflush tells */
        err = fflush(out) != 0 ? -errno : 0;
    }
    if (err == 0 && path != NULL) {
        err = report_replace(path, buf_slice(&text));
    }
    if (err != 0) {
        log_error("report: %s", err_str(err));
    }
    buf_fini(&text);
    return err;
}

/* Greet those who wait, and from now on everybody at once. */
static void release_program(struct program *p)
{
    /* Pairs with the acquire in the sessions. */
    atomic_store_explicit(&p->sink.is_holding, false, memory_order_release);
    for (int i = 0; i < p->worker_count; i++) {
        sink_worker_wake(&p->workers[i]);
    }
}

/* returns: false when the signal ends the program */
static bool take_signal(struct program *p)
{
    struct signalfd_siginfo info;
    if (read(p->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return true;
    }
    if (info.ssi_signo == SIGUSR1) {
        (void)print_report(p, false, stderr, NULL); /* a failure was logged */
    } else if (info.ssi_signo == SIGUSR2) {
        release_program(p);
    }
    return info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2;
}

/* Until a signal or the wanted number of messages ends the program. */
static void serve_sink(struct program *p)
{
    const char *path = p->options.json_path;
    usec_t next = clock_mono();
    for (;;) {
        struct pollfd fds[2] = {{.fd = p->signal_fd, .events = POLLIN},
                                {.fd = p->sink.done_fd, .events = POLLIN}};
        int wait = -1;
        if (path != NULL) {
            usec_t now = clock_mono();
            if (now >= next) {
                /* a failure was logged; the next report may work */
                (void)print_report(p, false, NULL, path);
                usec_t cost = REPORT_SHARE * (clock_mono() - now);
                next = now + (cost > REPORT_PERIOD ? cost : REPORT_PERIOD);
            }
            wait = (int)((next - now) / USEC_PER_MSEC) + 1;
        }
        if (poll(fds, 2, wait) < 0 && errno != EINTR) {
            log_error("poll: %s", err_str(-errno));
            return;
        }
        if ((fds[0].revents & POLLIN) != 0 && !take_signal(p)) {
            return;
        }
        if ((fds[1].revents & POLLIN) != 0) {
            return;
        }
    }
}

static void stop(struct program *p)
{
    /* Pairs with the acquire in the workers' loop. */
    atomic_store_explicit(&p->sink.is_stopping, true, memory_order_release);
    for (int i = 0; i < p->worker_count; i++) {
        sink_worker_stop(&p->workers[i]);
    }
    for (int i = 0; i < p->worker_count; i++) {
        sink_worker_close(&p->workers[i]);
    }
}

static void clean_up(struct program *p)
{
    for (int i = 0; i < p->worker_count; i++) {
        sink_worker_fini(&p->workers[i]);
    }
    for (size_t i = 0; i < p->sink.listener_count; i++) {
        sink_listener_fini(&p->sink.listeners[i]);
    }
    free(p->sink.listeners);
    for (size_t i = 0; i < p->sink.receiver_count; i++) {
        sink_clients_fini(&p->sink.receivers[i]);
    }
    free(p->sink.receivers);
    sink_courses_fini(&p->sink.courses);
    sink_rules_fini(&p->sink.domains);
    tls_server_free(p->sink.tls);
    ledger_close(&p->sink.ledger);
    sink_options_fini(&p->options);
    (void)close(p->sink.done_fd);
    (void)close(p->signal_fd);
}

static int block_signals(void)
{
    sigset_t set;
    if (sigemptyset(&set) != 0 || sigaddset(&set, SIGTERM) != 0 || sigaddset(&set, SIGINT) != 0 ||
        sigaddset(&set, SIGUSR1) != 0 || sigaddset(&set, SIGUSR2) != 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return -errno;
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int main(int argc, char **argv)
{
    static struct program p;
    int status = EX_OK;
    if (sink_options_parse(argc, argv, &p.options, &status) != 0) {
        sink_options_fini(&p.options);
        return status;
    }
    raise_descriptor_limit();
    thread_set_batch(true); /* what is measured is not interrupted for it */
    p.signal_fd = block_signals();
    int err = p.signal_fd < 0 ? p.signal_fd : start_sink(&p);
    if (err != 0) {
        log_error("cannot start: %s", err_str(err));
        stop(&p);
        clean_up(&p);
        return EX_UNAVAILABLE;
    }
    log_info("listening on %s%s", p.sink.listeners[0].name,
             p.sink.listener_count > 1 ? " and more" : "");
    serve_sink(&p);
    stop(&p);
    if (print_report(&p, true, stdout, p.options.json_path) != 0) {
        status = EX_IOERR;
    }
    clean_up(&p);
    return status;
}
