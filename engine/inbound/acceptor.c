#include "engine/inbound/acceptor.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/inbound/inbound.h"
#include "engine/inbound/listener.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/worker/worker.h"
#include "net/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* How long a worker does not watch its listeners after no descriptor was left. */
static const usec_t accept_rest = 500 * USEC_PER_MSEC;

/* A worker's watch on one listener's socket. */
struct listener_watch {
    struct poller_watch watch;
    struct worker *worker;
    struct listener *listener;
};

static void on_listener(struct poller_watch *watch, unsigned events)
{
    enum { ACCEPTS_PER_PASS = 64 };
    struct listener_watch *lw = container_of(watch, struct listener_watch, watch);
    struct worker *w = lw->worker;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_PASS; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = listen_accept(watch->fd, &peer, &len);
        if (fd == ERR_AGAIN) {
            return;
        }
        if (fd < 0) {
            /* Out of descriptors. The watch is level-triggered and would call again at once, so it
             * is switched off for a while: nothing tells when a descriptor becomes free. */
            if (w->accept_at == USEC_NEVER) {
                log_warning("listener \"%s\": cannot accept: %s", lw->listener->config->name,
                            err_str(fd));
            }
            w->accept_at = w->now + accept_rest;
            if (poller_change(&w->poller, watch, 0) != 0) {
                log_debug("listener: cannot rest, tries again in the next pass");
            }
            return;
        }
        const struct listener_rules *rules =
            settings_listener(settings_of(w->engine), lw->listener->index);
        bool is_trusted = config_listener_trusts(rules->config, (const struct sockaddr *)&peer);
        inbound_begin(w, lw->listener, fd, &peer, is_trusted);
    }
}

static int watch_socket(struct worker *w, struct listener *l, int fd)
{
    struct listener_watch *lw = &w->listeners[w->listener_watches++];
    lw->worker = w;
    lw->listener = l;
    return poller_watch(&w->poller, &lw->watch, fd, POLLER_READ, on_listener);
}

int acceptor_listen(struct worker *w)
{
    const struct engine *e = w->engine;
    size_t most = 0;
    int err = 0;
    for (size_t i = 0; i < e->config->listener_count; i++) {
        most += e->listeners[i]->fd_count / e->worker_count + 1;
    }
    w->listeners = calloc(most + 1, sizeof(*w->listeners));
    if (w->listeners == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; err == 0 && i < e->config->listener_count; i++) {
        struct listener *l = e->listeners[i];
        uint32_t first = w->index % l->fd_count; /* another worker may have it, too */
        for (uint32_t n = first; err == 0 && n < l->fd_count; n += e->worker_count) {
            err = watch_socket(w, l, l->fds[n]);
        }
    }
    return err;
}

void acceptor_adopt(struct worker *w, int fd)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNIX};
    if (engine_gate(w->engine) & ENGINE_GATE_STOPPING) {
        (void)close(fd); /* nothing was said */
        return;
    }
    inbound_begin(w, w->engine->local_listener, fd, &peer, true);
}

void acceptor_resume(struct worker *w)
{
    if (w->now < w->accept_at) {
        return;
    }
    w->accept_at = USEC_NEVER;
    for (size_t i = 0; i < w->listener_watches; i++) {
        struct poller_watch *watch = &w->listeners[i].watch;
        if (poller_has(watch) && poller_change(&w->poller, watch, POLLER_READ) != 0) {
            w->accept_at = w->now + accept_rest;
        }
    }
}

void acceptor_close(struct worker *w)
{
    for (size_t i = 0; i < w->listener_watches; i++) {
        poller_remove(&w->poller, &w->listeners[i].watch);
    }
}
