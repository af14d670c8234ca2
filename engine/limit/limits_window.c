/* Windows of lanes, from one run to the next: what a core found that a receiver takes at a time is not found
 * anew because the daemon was restarted. A window is one core's; the core's name tells it from those of
 * other transports at the same lane. Called by scheduler threads when a core ends, and when it meets a lane
 * first; must not judge a window: the core takes no more of it than its options allow. */
#include "engine/limit/limits_private.h"

#include <stdlib.h>
#include <string.h>

static struct limits_window *find_window(const struct limits_learned *learned, struct slice core)
{
    list_foreach(w, &learned->windows, struct limits_window, in_lane)
    {
        if (slice_eq(slice_make(w->core, w->core_len), core)) {
            return w;
        }
    }
    return NULL;
}

void limits_window_set(struct limits *l, struct limits_lane *lane, struct slice core,
                       uint32_t window)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    struct limits_window *w = learned == NULL ? NULL : find_window(learned, core);
    if (w == NULL && learned != NULL) {
        w = malloc(sizeof(*w) + core.len);
        if (w != NULL) {
            w->core_len = core.len;
            memcpy(w->core, core.data, core.len);
            list_init(&w->in_lane);
            list_push_back(&learned->windows, &w->in_lane);
        }
    }
    if (w != NULL) { /* without memory it is found anew */
        w->window = window;
        l->changes++;
    }
}

static void drop_window(struct limits_window *w)
{
    list_remove(&w->in_lane);
    free(w);
}

void limits_windows_drop(struct limits_learned *learned)
{
    list_foreach_safe(w, &learned->windows, struct limits_window, in_lane)
    {
        drop_window(w);
    }
}

void limits_note_window(struct limits_hold *h, struct slice core, uint32_t window)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    limits_window_set(l, h->lane, core, window);
    limits_leave_lock(l);
}

uint32_t limits_take_window(struct limits_hold *h, struct slice core)
{
    struct limits *l = h->borrower->limits;
    uint32_t window = 0;
    limits_enter(l);
    struct limits_window *w = h->lane->learned == NULL ? NULL : find_window(h->lane->learned, core);
    if (w != NULL) {
        window = w->window;
        drop_window(w);
        l->changes++;
    }
    limits_leave_lock(l);
    return window;
}
