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

int acceptor_listen(struct worker *w)
{
    const struct config *config = w->engine->config;
    w->listeners = calloc(config->listener_count + 1, sizeof(*w->listeners));
    if (w->listeners == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < config->listener_count; i++) {
        struct listener_watch *lw = &w->listeners[i];
        lw->worker = w;
        lw->listener = w->engine->listeners[i];
        int err = poller_watch(&w->poller, &lw->watch, lw->listener->fds[w->index], POLLER_READ,
                               on_listener);
        if (err != 0) {
            return err;
        }
    }
    return 0;
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
    for (size_t i = 0; i < w->engine->config->listener_count; i++) {
        struct poller_watch *watch = &w->listeners[i].watch;
        if (poller_has(watch) && poller_change(&w->poller, watch, POLLER_READ) != 0) {
            w->accept_at = w->now + accept_rest;
        }
    }
}

void acceptor_close(struct worker *w)
{
    for (size_t i = 0; w->listeners != NULL && i < w->engine->config->listener_count; i++) {
        poller_remove(&w->poller, &w->listeners[i].watch);
    }
}
