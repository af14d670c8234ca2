/* Owns the look at the folder of the event log. Called by the log when a file begins and by cursors
 * when one ends, never for each line; changes nothing there. */
#include "engine/event/event_segment.h"

#include "engine/event/event_line.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number in ".DIGITS" at the end of a name; 0: there is none. */
static uint64_t number_of_name(const char *ending)
{
    size_t len = strlen(ending);
    if (len < 2 || len > 19 || ending[0] != '.' || strspn(ending + 1, "0123456789") != len - 1) {
        return 0;
    }
    return strtoull(ending + 1, NULL, 10);
}

/* returns false when the file is none that can be read */
static bool look_at(const char *path, struct event_segment *ret, bool *ret_has_head)
{
    char start[EVENT_LINE_HEAD_MAX];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    ssize_t n =
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? pread(fd, start, sizeof(start), 0) : -1;
    (void)close(fd); /* only read */
    if (n < 0) {
        return false;
    }
    ret->size = (uint64_t)st.st_size;
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    *ret_has_head = event_line_head_number(slice_make(start, (size_t)n), &ret->number);
    return true;
}

static int add_segment(struct event_segments *s, const struct event_segment *item)
{
    struct event_segment *grown = realloc(s->items, (s->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    s->items = grown;
    s->items[s->count++] = *item;
    return 0;
}

/* ending: of the name, behind that of PATH. errors: -ENOMEM */
static int take_file(struct event_segments *s, const char *path, const char *ending)
{
    struct event_segment item = {.is_live = ending[0] == '\0'};
    bool has_head = false;
    if (asprintf(&item.path, "%s%s", path, ending) < 0) {
        return -ENOMEM;
    }
    uint64_t named = number_of_name(ending);
    item.is_numbered = named != 0;
    s->greatest = named > s->greatest ? named : s->greatest;
    bool is_known = look_at(item.path, &item, &has_head);
    if (!has_head) {
        item.number = named; /* 0 for the live segment, which follows all others */
    }
    s->greatest = is_known && item.number > s->greatest ? item.number : s->greatest;
    bool is_wanted = is_known && (item.is_live || (item.number != 0 && item.size > 0));
    int err = is_wanted ? add_segment(s, &item) : 0;
    if (!is_wanted || err != 0) {
        free(item.path);
    }
    return err;
}

static int rank(const struct event_segment *s)
{
    if (s->is_live) {
        return 0;
    }
    return s->is_numbered ? 1 : 2;
}

static int compare_segments(const void *a, const void *b)
{
    const struct event_segment *x = a;
    const struct event_segment *y = b;
    if (x->number != y->number) {
        return x->number < y->number ? -1 : 1;
    }
    return rank(x) - rank(y);
}

/* Somebody's copy of a segment is not another one. */
static void drop_copies(struct event_segments *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (kept > 0 && s->items[kept - 1].number == s->items[i].number) {
            free(s->items[i].path);
        } else {
            s->items[kept++] = s->items[i];
        }
    }
    s->count = kept;
}

static int scan_folder(DIR *folder, const char *path, const char *base, struct event_segments *s)
{
    size_t len = strlen(base);
    const struct dirent *entry;
    int err = 0;
    while (err == 0 && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, base, len) == 0 && strchr(".-", entry->d_name[len]) != NULL) {
            err = take_file(s, path, entry->d_name + len); /* strchr finds the NUL, too */
        }
    }
    return err;
}

int event_segments_scan(const char *path, struct event_segments *ret)
{
    struct event_segments s = {NULL, 0, 0};
    const char *slash = strrchr(path, '/');
    char *folder_path = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    if (folder_path == NULL) {
        return -ENOMEM;
    }
    DIR *folder = opendir(folder_path);
    int err = folder == NULL ? -errno : 0;
    free(folder_path);
    if (err != 0) {
        return err;
    }
    err = scan_folder(folder, path, slash == NULL ? path : slash + 1, &s);
    (void)closedir(folder); /* only read */
    for (size_t i = 0; i < s.count; i++) {
        if (s.items[i].number == 0) {
            s.items[i].number = s.greatest + 1;
        }
    }
    if (err != 0) {
        event_segments_free(&s);
        return err;
    }
    if (s.count > 1) {
        qsort(s.items, s.count, sizeof(*s.items), compare_segments);
        drop_copies(&s);
    }
    *ret = s;
    return 0;
}

void event_segments_free(struct event_segments *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].path);
    }
    free(s->items);
    *s = (struct event_segments){NULL, 0, 0};
}

const struct event_segment *event_segments_live(const struct event_segments *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].is_live) {
            return &s->items[i];
        }
    }
    return NULL;
}

const struct event_segment *event_segments_from(const struct event_segments *s, uint64_t number)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].number >= number && s->items[i].size > 0) {
            return &s->items[i];
        }
    }
    return NULL;
}
