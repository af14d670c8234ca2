/* The first domains to appear, each with a timeline. Called by the sessions of all workers; the
 * report reads under the lock. */
#include "bench/sink/sink_course.h"

#include <string.h>

int sink_courses_init(struct sink_courses *c, usec_t start, usec_t interval)
{
    *c = (struct sink_courses){.start = start, .interval = interval};
    return -pthread_mutex_init(&c->lock, NULL);
}

void sink_courses_fini(struct sink_courses *c)
{
    for (size_t i = 0; i < c->count; i++) {
        timeline_fini(&c->items[i].timeline);
    }
    c->count = 0;
    (void)pthread_mutex_destroy(&c->lock);
}

/* NULL: too many came before it */
static struct sink_course *course_of(struct sink_courses *c, struct slice name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (slice_eq(name, slice_make(c->items[i].name, c->items[i].name_len))) {
            return &c->items[i];
        }
    }
    if (c->count == SINK_COURSES_MAX) {
        return NULL;
    }
    struct sink_course *course = &c->items[c->count++];
    course->name_len = name.len;
    memcpy(course->name, name.data, name.len);
    timeline_init(&course->timeline, c->start, c->interval);
    return course;
}

void sink_courses_message(struct sink_courses *c, struct slice address, usec_t wall, usec_t latency)
{
    char lower[SINK_DOMAIN_NAME_MAX];
    struct slice name = sink_domain_name(address, lower);
    pthread_mutex_lock(&c->lock);
    struct sink_course *course = course_of(c, name);
    if (course != NULL) {
        timeline_message(&course->timeline, wall, latency);
    }
    pthread_mutex_unlock(&c->lock);
}
