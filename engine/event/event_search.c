/* Reads the files of the event log in blocks from their ends. Called by reports about mail that has
 * left the queue; must not allocate by what it finds. */
#include "engine/event/event_search.h"

#include "engine/event/event_line.h"
#include "engine/event/event_segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 }; /* no line is nearly as long */

static bool has_text(struct slice line, struct slice text)
{
    return text.len == 0 || memmem(line.data, line.len, text.data, text.len) != NULL;
}

/* Whether the line fits, beside the first text, which it has. */
static bool fits_search(const struct event_search *s, struct slice line)
{
    return event_line_is_whole(line) && has_text(line, s->texts[1]) &&
           (s->types == 0 || (s->types & event_line_type_bit(event_line_type(line))) != 0);
}

/* The newest lines of a block that fit. */
struct found {
    struct slice lines[EVENT_SEARCH_LINES_MAX];
    uint64_t count; /* found so far; the last ones are kept */
};

/* Whole lines; memmem over all of them is much faster than a look at each. */
static void search_lines(struct event_search *s, const char *data, size_t len, struct found *f)
{
    const char *at = data, *end = data + len;
    f->count = 0;
    while (at < end &&
           (at = memmem(at, (size_t)(end - at), s->texts[0].data, s->texts[0].len)) != NULL) {
        const char *begin = memrchr(data, '\n', (size_t)(at - data));
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        begin = begin == NULL ? data : begin + 1;
        stop = stop == NULL ? end : stop;
        struct slice line = slice_make(begin, (size_t)(stop - begin));
        if (fits_search(s, line)) {
            f->lines[f->count++ % s->lines_max] = line;
        }
        at = stop;
    }
    for (uint64_t i = f->count; i > 0 && f->count - i < s->lines_max && s->lines < s->lines_max;
         i--) {
        s->lines++;
        s->take(s->ctx, f->lines[(i - 1) % s->lines_max]);
    }
}

static void note_oldest(struct event_search *s, const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);
    usec_t time = event_line_time(slice_make(data, end == NULL ? len : (size_t)(end - data)));
    s->oldest = time != 0 ? time : s->oldest;
}

/* false: it ends here */
static bool may_go_on(const struct event_search *s)
{
    return s->lines < s->lines_max && s->bytes < s->bytes_max &&
           (s->between == NULL || s->between(s->ctx));
}

/* Search one file, beginning at its end. returns false when a part of it was not looked at */
static bool search_file(struct event_search *s, int fd, uint64_t size, char *block)
{
    struct found found;
    uint64_t end = size;
    while (end > 0) {
        if (!may_go_on(s)) {
            return false;
        }
        size_t len = end < BLOCK ? (size_t)end : BLOCK;
        uint64_t from = end - len;
        if (pread(fd, block, len, (off_t)from) != (ssize_t)len) {
            return false; /* the file was cut off meanwhile, or the disk fails */
        }
        /* What begins before the block comes with the next one. */
        const char *first = from == 0 ? block : memchr(block, '\n', len);
        size_t skipped = first == NULL ? 0 : (size_t)(first - block) + (from > 0);
        search_lines(s, block + skipped, len - skipped, &found);
        note_oldest(s, block + skipped, len - skipped);
        s->bytes += len - skipped;
        end = from + (skipped < len ? skipped : 0);
    }
    return true;
}

int event_search(struct event_search *s, const char *path)
{
    struct event_segments segments;
    assert(s->lines_max > 0 && s->lines_max <= EVENT_SEARCH_LINES_MAX && s->texts[0].len > 0);
    s->lines = 0;
    s->bytes = 0;
    s->oldest = 0;
    s->is_complete = false;
    char *block = malloc(BLOCK);
    if (block == NULL) {
        return -ENOMEM;
    }
    int err = event_segments_scan(path, &segments);
    if (err != 0) {
        free(block);
        return err;
    }
    bool is_complete = true;
    for (size_t i = segments.count; i > 0 && s->lines < s->lines_max; i--) {
        const struct event_segment *item = &segments.items[i - 1];
        int fd = open(item->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        is_complete = fd >= 0 && search_file(s, fd, item->size, block) && is_complete;
        if (fd >= 0) {
            (void)close(fd); /* only read */
        }
        if (!may_go_on(s)) {
            is_complete = is_complete && i == 1;
            break;
        }
    }
    s->is_complete = is_complete && s->lines < s->lines_max;
    event_segments_free(&segments);
    free(block);
    return 0;
}
