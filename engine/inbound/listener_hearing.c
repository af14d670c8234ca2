#include "engine/inbound/listener_hearing.h"

#include "base/clock.h"
#include "base/packed.h"
#include "engine/config/config.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_token.h"
#include "engine/post/hearing.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_role(struct slice local)
{
    return slice_ieq(local, SLICE("postmaster")) || slice_ieq(local, SLICE("abuse"));
}

/* Whether the whole local part is LOCAL+TOKEN with a token of ours that is still good. */
static bool is_return_address(const struct engine *e, struct slice local)
{
    struct slice rest = local, text;
    struct return_token token;
    const struct return_keys *keys = return_book_keys(e->returns);
    return keys != NULL && return_token_find(&rest, &text) && rest.len == 0 &&
           return_token_read(text, keys, clock_wall() / USEC_PER_SEC, &token) == 0;
}

enum smtp_server_hearing listener_hears(const struct engine *e, const struct config_listener *lc,
                                        struct slice address)
{
    const char *at = memrchr(address.data, '@', address.len);
    if (at == NULL || lc == NULL) {
        return SMTP_SERVER_NOT_HEARD;
    }
    struct slice local = slice_to(address, (size_t)(at - address.data));
    struct slice domain = slice_from(address, local.len + 1);
    if (!config_listener_receives(lc, domain)) {
        return SMTP_SERVER_NOT_HEARD;
    }
    bool is_known = !config_is_return_domain(settings_of(e)->config, domain) || is_role(local) ||
                    is_return_address(e, local);
    return is_known ? SMTP_SERVER_HEARD : SMTP_SERVER_HEARD_UNKNOWN;
}

struct hearing *listener_hearing_begin(const struct smtp_server *core,
                                       const struct listener_hearing_of *of)
{
    uint32_t count;
    struct slice packed = smtp_server_recipients(core, &count), address;
    struct hearing *h = hearing_new();
    if (h == NULL || !packed_next(&packed, &address) || address.len >= sizeof(h->recipient)) {
        hearing_free(h);
        return NULL;
    }
    memcpy(h->recipient, address.data, address.len);
    (void)snprintf(h->peer, sizeof(h->peer), "%s", core->peer);
    h->id = of->id;
    h->worker = of->worker;
    h->connection = of->connection;
    h->received = clock_wall();
    return h;
}

void listener_hearing_take(struct hearing *h, struct buf *body)
{
    size_t room = HEARD_BYTES_MAX - h->content.len;
    h->is_cut |= body->len > room;
    buf_append(&h->content, body->data, body->len < room ? body->len : room);
    buf_clear(body);
}
