/* Reads the hosts of each scheduler's view under RCU; changes nothing. */
#include "engine/report/host_report.h"

#include "dns/ip.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/post/delivery.h"
#include "engine/schedule/dispatch.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <stdio.h>
#include <string.h>

struct host {
    const char *transport;
    char address[IP_TEXT_MAX];
    uint16_t port;
};

static bool fits_host(const struct host *h, struct slice filter)
{
    char text[64 + IP_TEXT_MAX + 16]; /* config_check_name limits a transport's name to 64 */
    int len = snprintf(text, sizeof(text), "%s [%s]:%u", h->transport, h->address, h->port);
    return len > 0 && memmem(text, (size_t)len, filter.data, filter.len) != NULL;
}

static json_t *notes_of(const struct sched_host_view *v)
{
    json_t *notes = json_array();
    if ((v->notes & DELIVERY_NOTE_BROKEN_TLS) != 0 && clock_mono() < v->notes_until) {
        /* out of memory leaves it out */
        (void)json_array_append_new(notes, json_string("TLS is broken"));
    }
    if ((v->notes & DELIVERY_NOTE_DATA) != 0 && clock_mono() < v->notes_until) {
        /* out of memory leaves it out */
        (void)json_array_append_new(notes, json_string("DATA instead of BDAT"));
    }
    if (v->is_out_of_step) {
        /* out of memory leaves it out */
        (void)json_array_append_new(notes, json_string("one delivery at a time"));
    }
    return notes;
}

static json_t *host_object(const struct host *h, const struct sched_host_view *v)
{
    static const char *const states[SCHED_HOST_STATE_COUNT] = {"unused", "closed", "idle", "active",
                                                               "retry"};
    json_t *o = json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:o}", "transport", h->transport,
                          "address", h->address, "port", (int)h->port, "state", states[v->state],
                          "connections", v->connections, "in_flight", v->in_flight, "failures",
                          v->failures, "notes", notes_of(v));
    if (o != NULL && v->state == SCHED_HOST_RETRY) {
        api_set_time(o, "until", clock_wall() + (v->retry_until - clock_mono()));
    }
    return o;
}

static void put_hosts(const struct engine *e, struct api_call *c, uint32_t transport,
                      struct slice filter)
{
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    struct host h = {.transport = settings_of(e)->config->transports[transport].name};
    struct sched_host_view v;
    uint64_t cursor = 0;
    while (!api_is_long(c) && sched_view_hosts(s, &cursor, &v)) {
        struct ip ip;
        dispatch_read_server(v.key, v.key_len, &ip, &h.port);
        (void)ip_text(&ip, h.address);
        if (v.state != SCHED_HOST_UNUSED && fits_host(&h, filter)) {
            api_put(c, host_object(&h, &v));
        }
    }
}

void host_report_list(struct clerk *k, struct api_call *c)
{
    const struct engine *e = k->engine;
    struct slice filter = SLICE("");
    (void)api_param(c, "match", &filter); /* none: all */
    for (uint32_t t = 0; t < settings_of(e)->transport_count; t++) {
        put_hosts(e, c, t, filter);
        clerk_quiesce(k);
    }
    api_end(c, api_is_long(c));
}
