#include "engine/outbound/proxy_dialogue.h"

#include "base/error.h"
#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/outbound/egress.h"
#include "engine/state/settings.h"
#include "net/proxy_protocol.h"
#include "net/socks5.h"
#include "net/stream.h"

#include <assert.h>
#include <stdlib.h>

struct proxy_dialogue {
    bool is_socks5;
    struct socks5 socks5;
    uint8_t header[PROXY_PROTOCOL_HEADER_MAX]; /* otherwise, and all there is to say */
    size_t header_len, header_done;
    const char *error;
};

static void init_header(struct proxy_dialogue *d, const struct config_egress_source *s,
                        const struct ip *target, uint16_t port)
{
    const struct ip *from = target->family == 4 ? &s->address : &s->address6;
    assert(from->family == target->family);
    /* The port is the proxy's to choose. */
    d->header_len =
        proxy_protocol_header(target->family, from->bytes, 0, target->bytes, port, d->header);
}

struct proxy_dialogue *proxy_dialogue_new(const struct settings *s, const struct egress *c,
                                          const struct dns_host *target)
{
    struct proxy_dialogue *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return NULL;
    }
    d->is_socks5 = c->source->socks5.len > 0;
    if (d->is_socks5) {
        const struct socks5_login login = {
            .user = slice_of(c->source->socks5_user == NULL ? "" : c->source->socks5_user),
            .password = s->passwords.sources[c->source - s->config->egress_sources],
        };
        socks5_init(&d->socks5, &login, target->ip.family, target->ip.bytes, target->port);
    } else {
        init_header(d, c->source, &target->ip, target->port);
    }
    return d;
}

void proxy_dialogue_end(struct proxy_dialogue **d)
{
    if (*d != NULL) {
        socks5_fini(&(*d)->socks5);
        free(*d);
        *d = NULL;
    }
}

static struct slice unsent(const struct proxy_dialogue *d)
{
    return d->is_socks5 ? socks5_out(&d->socks5)
                        : slice_make((const char *)d->header + d->header_done,
                                     d->header_len - d->header_done);
}

/* returns PROXY_DONE when everything is written */
static enum proxy_progress write_unsent(struct proxy_dialogue *d, struct stream *s)
{
    for (struct slice out = unsent(d); out.len > 0; out = unsent(d)) {
        ssize_t n = stream_can_write(s) ? stream_write(s, out.data, out.len, false) : ERR_AGAIN;
        if (n == ERR_AGAIN) {
            return PROXY_AGAIN;
        }
        if (n < 0) {
            d->error = "the proxy closed the connection";
            return PROXY_FAILED;
        }
        if (d->is_socks5) {
            socks5_written(&d->socks5, (size_t)n);
        } else {
            d->header_done += (size_t)n;
        }
    }
    return PROXY_DONE;
}

/* Exactly what is awaited is read: what follows is the target's greeting. */
static enum proxy_progress read_answer(struct proxy_dialogue *d, struct stream *s)
{
    char answer[SOCKS5_IN_MAX];
    size_t want = socks5_want(&d->socks5);
    ssize_t n = stream_can_read(s) ? stream_read(s, answer, want) : ERR_AGAIN;
    if (n == ERR_AGAIN) {
        return PROXY_AGAIN;
    }
    if (n <= 0) {
        d->error = "the proxy closed the connection";
        return PROXY_FAILED;
    }
    socks5_input(&d->socks5, answer, (size_t)n);
    return PROXY_DONE;
}

enum proxy_progress proxy_dialogue_run(struct proxy_dialogue *d, struct stream *s)
{
    enum proxy_progress progress = write_unsent(d, s);
    while (progress == PROXY_DONE && d->is_socks5) {
        enum socks5_state state = socks5_state(&d->socks5);
        if (state == SOCKS5_DONE) {
            return PROXY_DONE;
        }
        if (state > SOCKS5_DONE) {
            d->error = socks5_error(&d->socks5);
            return PROXY_FAILED;
        }
        progress = read_answer(d, s);
        progress = progress == PROXY_DONE ? write_unsent(d, s) : progress;
    }
    return progress;
}

const char *proxy_dialogue_error(const struct proxy_dialogue *d)
{
    return d->error;
}

bool proxy_dialogue_blames_target(const struct proxy_dialogue *d)
{
    return d->is_socks5 && socks5_state(&d->socks5) == SOCKS5_FAILED_TARGET;
}
