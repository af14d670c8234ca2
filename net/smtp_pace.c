/* The arithmetic of smtp_pace.h. Pure. */
#include "net/smtp_pace.h"

#define SMOOTHING 4    /* a new sample counts one part in so many */
#define DEPTH_MAX 1000 /* the largest pipeline_depth */

static const usec_t fast_interval = 1 * USEC_PER_MSEC;

void smtp_pace_init(struct smtp_pace *p)
{
    *p = (struct smtp_pace){.round_trip = USEC_NEVER, .depth = 1};
}

void smtp_pace_reply(struct smtp_pace *p, usec_t took)
{
    took = took > 0 ? took : 0;
    p->round_trip = took < p->round_trip ? took : p->round_trip;
}

bool smtp_pace_is_fast(const struct smtp_pace *p)
{
    return p->has_interval && p->interval < fast_interval;
}

usec_t smtp_pace_patience(const struct smtp_pace *p)
{
    enum { INTERVALS = 20 };
    bool is_near = p->round_trip < fast_interval;
    return is_near && smtp_pace_is_fast(p) ? INTERVALS * fast_interval : USEC_NEVER;
}

void smtp_pace_stall(struct smtp_pace *p)
{
    p->depth = 1;
}

/* ceil(round trip / interval - 0.1) + 1, in integers; 2 where that is 1 and the server is fast */
static uint16_t useful_depth(const struct smtp_pace *p)
{
    usec_t trip = p->round_trip == USEC_NEVER ? 0 : p->round_trip;
    if (p->interval <= 0 || p->interval <= trip / DEPTH_MAX) {
        return DEPTH_MAX;
    }
    usec_t tenths = trip * 10 - p->interval;
    usec_t ahead = tenths <= 0 ? 0 : (tenths + p->interval * 10 - 1) / (p->interval * 10);
    if (ahead == 0 && smtp_pace_is_fast(p)) {
        ahead = 1;
    }
    return ahead >= DEPTH_MAX ? DEPTH_MAX : (uint16_t)(ahead + 1);
}

void smtp_pace_end(struct smtp_pace *p, usec_t sent_at, usec_t now)
{
    usec_t trip = p->round_trip == USEC_NEVER ? 0 : p->round_trip;
    usec_t begun = sent_at + trip;
    if (p->has_interval && p->last_end > begun) {
        begun = p->last_end;
    }
    usec_t sample = now > begun ? now - begun : 0;
    p->interval = p->has_interval ? p->interval + (sample - p->interval) / SMOOTHING : sample;
    p->has_interval = true;
    p->last_end = now;
    /* One message may have been answered fast by chance, or because it was refused. Each answer is
     * one more measurement, so each may double what is risked on it; the largest usual depth is
     * reached after four of them. Downwards nothing waits. */
    uint16_t useful = useful_depth(p);
    uint16_t doubled = (uint16_t)(p->depth * 2);
    p->depth = useful < doubled ? useful : doubled;
}

uint16_t smtp_pace_depth(const struct smtp_pace *p, uint16_t allowed)
{
    return p->depth < allowed ? p->depth : allowed;
}
