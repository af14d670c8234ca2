/* Owns positions in the event log and the reading from them on. Called by the feed and by whoever
 * answers questions about events; must not write, nor know who wants the lines. */
#include "engine/event/event_cursor.h"

#include "base/error.h"
#include "engine/event/event_line.h"
#include "engine/event/event_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK = 128 << 10,
    LINE_MAX_BYTES = 4 << 20 /* longer than any event; more without a newline is garbage */
};

/* --- positions -------------------------------------------------------------------------------- */

void event_position_format(struct event_position at, char ret[static EVENT_POSITION_TEXT])
{
    (void)snprintf(ret, EVENT_POSITION_TEXT, "%llu:%llu", (unsigned long long)at.segment,
                   (unsigned long long)at.offset); /* 20 digits each */
}

static bool parse_position_number(struct slice s, uint64_t *ret)
{
    uint64_t value = 0;
    if (s.len == 0 || s.len > 18) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(s.data[i] - '0');
    }
    *ret = value;
    return true;
}

int event_position_parse(struct slice text, struct event_position *ret)
{
    struct event_position at;
    size_t colon = slice_find(text, ':');
    if (colon == text.len || !parse_position_number(slice_to(text, colon), &at.segment) ||
        !parse_position_number(slice_from(text, colon + 1), &at.offset)) {
        return ERR_SYNTAX;
    }
    *ret = at;
    return 0;
}

/* A scan of which event_segments_from says rightly what the first segment at or after `number` is. A folder
 * that is read while files in it are renamed may hide some that are there. Those before a segment that was
 * seen had got their names for good when it began, so a second look finds them. errors: -errno */
static int scan_for(const char *path, uint64_t number, struct event_segments *ret)
{
    int err = event_segments_scan(path, ret);
    const struct event_segment *first = err == 0 ? event_segments_from(ret, number) : NULL;
    if (first != NULL && first->number != number) {
        event_segments_free(ret);
        err = event_segments_scan(path, ret);
    }
    return err;
}

/* returns: offset behind the last newline before `size`; 0: there is none */
static uint64_t line_end(int fd, uint64_t size)
{
    char chunk[4096];
    while (size > 0) {
        size_t len = size < sizeof(chunk) ? (size_t)size : sizeof(chunk);
        ssize_t n = pread(fd, chunk, len, (off_t)(size - len));
        const char *newline = n == (ssize_t)len ? memrchr(chunk, '\n', len) : NULL;
        if (newline != NULL) {
            return size - len + (size_t)(newline - chunk) + 1;
        }
        size -= len;
    }
    return 0;
}

int event_position_end(const char *path, struct event_position *ret)
{
    struct event_segments s;
    struct event_position at = {0, 0};
    int err = event_segments_scan(path, &s);
    for (size_t i = s.count; err == 0 && i > 0; i--) {
        const struct event_segment *item = &s.items[i - 1];
        if (item->size > 0) {
            int fd = open(item->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
            err = fd < 0 ? -errno : 0;
            at.segment = item->number;
            at.offset = fd < 0 ? 0 : line_end(fd, item->size);
            if (fd >= 0) {
                (void)close(fd); /* only read */
            }
            break;
        }
    }
    if (err == 0) {
        event_segments_free(&s);
        *ret = at;
    }
    return err;
}

int event_position_start(const char *path, struct event_position *ret)
{
    struct event_segments s;
    int err = scan_for(path, 0, &s);
    if (err != 0) {
        return err;
    }
    const struct event_segment *first = event_segments_from(&s, 0);
    *ret = (struct event_position){first == NULL ? 0 : first->number, 0};
    event_segments_free(&s);
    return 0;
}

int event_position_behind(const char *path, struct event_position at, uint64_t *ret_bytes)
{
    struct event_segments s;
    uint64_t sum = 0;
    int err = event_segments_scan(path, &s);
    if (err != 0) {
        return err;
    }
    for (size_t i = 0; i < s.count; i++) {
        const struct event_segment *item = &s.items[i];
        if (item->number > at.segment) {
            sum += item->size;
        } else if (item->number == at.segment && item->size > at.offset) {
            sum += item->size - at.offset;
        }
    }
    event_segments_free(&s);
    *ret_bytes = sum;
    return 0;
}

/* --- segments --------------------------------------------------------------------------------- */

int event_cursor_init(struct event_cursor *c, const char *path, struct event_position at)
{
    *c = (struct event_cursor){.position = at, .fd = -1, .path = strdup(path)};
    return c->path == NULL ? -ENOMEM : 0;
}

static void leave_segment(struct event_cursor *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd); /* only read */
    }
    c->fd = -1;
    c->begin = c->end = c->searched = 0;
}

void event_cursor_seek(struct event_cursor *c, struct event_position at)
{
    leave_segment(c);
    c->position = at;
}

void event_cursor_fini(struct event_cursor *c)
{
    if (c->path != NULL) {
        leave_segment(c);
    }
    free(c->data);
    free(c->path);
    *c = (struct event_cursor){.fd = -1};
}

/* Open the file of position.segment. errors: -errno; ERR_AGAIN: it is being renamed */
static int enter(struct event_cursor *c, const struct event_segment *item)
{
    struct stat st;
    int fd = open(item->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int err = fd < 0 || fstat(fd, &st) != 0 ? -errno : 0;
    if (err == 0 && (st.st_ino != item->ino || st.st_dev != item->dev)) {
        err = ERR_AGAIN;
    }
    if (err != 0) {
        if (fd >= 0) {
            (void)close(fd); /* only looked at */
        }
        return err == -ENOENT ? ERR_AGAIN : err;
    }
    c->fd = fd;
    c->dev = st.st_dev;
    c->ino = st.st_ino;
    /* Only what was cut off behind a power cut leaves us inside or behind the end: what came
     * since is read, the line around the place once more. */
    uint64_t at = c->position.offset;
    char before = '\n';
    if (at > (uint64_t)st.st_size ||
        (at > 0 && (pread(fd, &before, 1, (off_t)at - 1) != 1 || before != '\n'))) {
        uint64_t size = (uint64_t)st.st_size;
        c->position.offset = line_end(fd, at < size ? at : size);
    }
    return 0;
}

/* From which of the segments position goes on. returns ERR_MISSING: not from its own */
static int choose(struct event_cursor *c, const struct event_segments *s,
                  const struct event_segment **ret)
{
    const struct event_segment *live = event_segments_live(s);
    const struct event_segment *item = event_segments_from(s, c->position.segment);
    if (item == NULL && live != NULL && live->size > 0 && live->number < c->position.segment) {
        item = event_segments_from(s, 0); /* the numbers began anew */
    }
    if (item == NULL) {
        return ERR_AGAIN;
    }
    *ret = item;
    bool is_start = c->position.segment == 0 && c->position.offset == 0;
    if (item->number == c->position.segment) {
        return 0;
    }
    c->position = (struct event_position){item->number, 0};
    return is_start ? 0 : ERR_MISSING;
}

/* errors: as event_cursor_next */
static int attach(struct event_cursor *c)
{
    struct event_segments s;
    const struct event_segment *item = NULL;
    int err = scan_for(c->path, c->position.segment, &s);
    if (err != 0) {
        return err;
    }
    int verdict = choose(c, &s, &item);
    err = item == NULL ? verdict : enter(c, item);
    event_segments_free(&s);
    return verdict == ERR_MISSING ? verdict : err;
}

/* The next segment that has begun, 0: none. errors: -errno */
static int find_next(const struct event_cursor *c, uint64_t *ret)
{
    struct event_segments s;
    struct stat st;
    *ret = 0;
    if (stat(c->path, &st) == 0 && st.st_ino == c->ino && st.st_dev == c->dev) {
        return 0; /* the cursor reads the live segment, which has none behind it */
    }
    int err = scan_for(c->path, c->position.segment + 1, &s);
    if (err != 0) {
        return err;
    }
    const struct event_segment *next = event_segments_from(&s, c->position.segment + 1);
    *ret = next == NULL ? 0 : next->number;
    event_segments_free(&s);
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Room for a block behind what is there. errors: -ENOMEM */
static int make_buffer_room(struct event_cursor *c)
{
    if (c->begin > 0) {
        memmove(c->data, c->data + c->begin, c->end - c->begin);
        c->end -= c->begin;
        c->begin = 0;
    }
    if (c->capacity - c->end >= BLOCK / 2) {
        return 0;
    }
    size_t capacity = c->capacity == 0 ? BLOCK : 2 * c->capacity;
    char *grown = realloc(c->data, capacity);
    if (grown == NULL) {
        return -ENOMEM;
    }
    c->data = grown;
    c->capacity = capacity;
    return 0;
}

/* returns: bytes more than before; 0: the end of the file as it is now; -errno */
static ssize_t fill_buffer(struct event_cursor *c)
{
    int err = make_buffer_room(c);
    if (err != 0) {
        return err;
    }
    off_t at = (off_t)(c->position.offset + (c->end - c->begin));
    ssize_t n = pread(c->fd, c->data + c->end, c->capacity - c->end, at);
    if (n < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    c->end += (size_t)n;
    return n;
}

/* Nothing more is in the file: wait, or go on to the next. errors: as event_cursor_next; 0: look
 * again */
static int at_end(struct event_cursor *c)
{
    uint64_t next = 0;
    struct stat st;
    if (fstat(c->fd, &st) == 0 && (uint64_t)st.st_size < c->position.offset + (c->end - c->begin)) {
        /* A part that could not be written was taken back; it will be written again. */
        uint64_t size = (uint64_t)st.st_size;
        uint64_t at = c->position.offset < size ? c->position.offset : line_end(c->fd, size);
        event_cursor_seek(c, (struct event_position){c->position.segment, at});
        return ERR_AGAIN;
    }
    int err = find_next(c, &next);
    if (err != 0 || next == 0) {
        return err != 0 ? err : ERR_AGAIN;
    }
    ssize_t n = fill_buffer(c); /* the writer wrote here until it began the next */
    if (n != 0) {
        return n < 0 ? (int)n : 0;
    }
    c->skipped += c->end > c->begin;
    bool is_gap = next != c->position.segment + 1;
    leave_segment(c);
    c->position = (struct event_position){next, 0};
    return is_gap ? ERR_MISSING : 0;
}

/* A line that is in the buffer. returns false: there is none, or none that counts */
static bool take_event_line(struct event_cursor *c, struct slice *ret)
{
    const char *from = c->data + c->begin;
    size_t len = c->end - c->begin;
    const char *newline =
        len == c->searched ? NULL : memchr(from + c->searched, '\n', len - c->searched);
    if (newline == NULL) {
        c->searched = len;
        return false;
    }
    struct slice line = slice_make(from, (size_t)(newline - from));
    uint64_t number;
    bool is_head = c->position.offset == 0 && event_line_head_number(line, &number);
    bool is_whole = event_line_is_whole(line);
    c->begin += line.len + 1;
    c->position.offset += line.len + 1;
    c->searched = 0;
    c->skipped += !is_whole;
    *ret = line;
    return is_whole && !is_head;
}

/* What has no newline in so many bytes is no line. */
static void drop_garbage(struct event_cursor *c)
{
    if (c->end - c->begin >= LINE_MAX_BYTES) {
        c->position.offset += c->end - c->begin;
        c->begin = c->end = c->searched = 0;
        c->skipped++;
    }
}

int event_cursor_next(struct event_cursor *c, struct slice *ret)
{
    for (;;) {
        int err = c->fd < 0 ? attach(c) : 0;
        if (err != 0) {
            return err;
        }
        while (c->end - c->begin > c->searched) {
            if (take_event_line(c, ret)) {
                return 0;
            }
        }
        drop_garbage(c);
        ssize_t n = fill_buffer(c);
        if (n > 0) {
            continue;
        }
        err = n < 0 ? (int)n : at_end(c);
        if (err != 0) {
            return err;
        }
    }
}
