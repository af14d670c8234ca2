/* Owns the form of a day's file. Its name is the day's number, counted in UTC since 1970. Must not
 * know which day it is. */
#include "engine/tls_report/tls_day.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/tls_report/tls_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 32, FORMAT = 1 };

#define FILE_BYTES_MAX ((off_t)1 << 30)

static void name_of_day(int64_t day, char ret[NAME_BYTES])
{
    (void)snprintf(ret, NAME_BYTES, "%" PRId64, day);
}

/* Takes the object. errors: -ENOMEM */
static int add_line(struct buf *out, json_t *line)
{
    char *text = line == NULL ? NULL : json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (text == NULL) {
        return -ENOMEM;
    }
    buf_append_str(out, text);
    buf_append_char(out, '\n');
    free(text);
    return out->failed ? -ENOMEM : 0;
}

int tls_day_save(int folder, struct tls_tally *t)
{
    char name[NAME_BYTES];
    struct buf out;
    buf_init(&out, 0);
    int err = add_line(&out, json_pack("{s:i, s:I, s:I}", "format", FORMAT, "day",
                                       (json_int_t)tls_tally_day(t), "left_out",
                                       (json_int_t)tls_tally_left_out(t)));
    list_foreach(d, tls_tally_domains(t), struct tls_domain_tally, link)
    {
        if (err == 0) {
            err = add_line(&out, json_pack("{s:s, s:I, s:o*}", "domain", d->name, "done",
                                           (json_int_t)d->ways_done, "policies",
                                           tls_report_policies(d, true)));
        }
    }
    name_of_day(tls_tally_day(t), name);
    err = err != 0 ? err : file_replace_at(folder, name, ".new", buf_slice(&out));
    buf_fini(&out);
    return err;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* errors: -errno; -ENOMEM */
static int read_all(int folder, const char *name, struct buf *ret)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    int err = fstat(fd, &st) != 0 ? -errno : 0;
    if (err == 0 && st.st_size > FILE_BYTES_MAX) {
        err = -EFBIG;
    }
    size_t size = err == 0 ? (size_t)st.st_size : 0;
    char *at = err == 0 ? buf_reserve(ret, size + 1) : NULL;
    err = err == 0 && at == NULL ? -ENOMEM : err;
    while (err == 0 && ret->len < size) {
        ssize_t n = read(fd, ret->data + ret->len, size - ret->len);
        err = n < 0 && errno != EINTR ? -errno : 0;
        if (n == 0) {
            break;
        }
        ret->len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    return err;
}

static void mark_done(struct tls_tally *t, const char *domain, uint32_t ways)
{
    struct list *domains = tls_tally_domains(t);
    if (list_is_empty(domains)) {
        return;
    }
    struct tls_domain_tally *last = list_last(domains, struct tls_domain_tally, link);
    if (strcmp(last->name, domain) == 0) { /* it was the last to be added */
        last->ways_done = ways;
    }
}

static int read_line(struct tls_tally *t, const json_t *line)
{
    const char *domain = json_string_value(json_object_get(line, "domain"));
    if (domain == NULL) {
        return ERR_SYNTAX;
    }
    int err = tls_report_read_policies(t, domain, json_object_get(line, "policies"));
    mark_done(t, domain, (uint32_t)json_integer_value(json_object_get(line, "done")));
    return err;
}

/* The first line. NULL: it is no such file, or there is no memory */
static struct tls_tally *begin_day(const json_t *line, int64_t day)
{
    bool is_one = json_integer_value(json_object_get(line, "format")) == FORMAT &&
                  json_integer_value(json_object_get(line, "day")) == day;
    struct tls_tally *t = is_one ? tls_tally_new(day) : NULL;
    json_int_t left_out = json_integer_value(json_object_get(line, "left_out"));
    if (t != NULL && left_out > 0) {
        tls_tally_leave_out(t, (uint64_t)left_out);
    }
    return t;
}

int tls_day_load(int folder, int64_t day, struct tls_tally **ret)
{
    char name[NAME_BYTES];
    struct buf text;
    struct tls_tally *t = NULL;
    buf_init(&text, 0);
    name_of_day(day, name);
    int err = read_all(folder, name, &text);
    struct slice rest = buf_slice(&text);
    for (bool is_first = true; err == 0 && rest.len > 0; is_first = false) {
        size_t end = slice_find(rest, '\n');
        json_t *line = json_loadb(rest.data, end, 0, NULL);
        rest = slice_from(rest, end < rest.len ? end + 1 : end);
        if (is_first) {
            t = begin_day(line, day);
            err = t == NULL ? ERR_SYNTAX : 0;
        } else if (read_line(t, line) != 0) {
            err = ERR_SYNTAX;
        }
        json_decref(line);
    }
    err = err == 0 && t == NULL ? ERR_SYNTAX : err;
    buf_fini(&text);
    *ret = t;
    return err;
}

void tls_day_remove(int folder, int64_t day)
{
    char name[NAME_BYTES];
    name_of_day(day, name);
    (void)unlinkat(folder, name, 0); /* what stays is sent again after a restart */
}

static int compare_days(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

size_t tls_day_list(int folder, int64_t *ret_days, size_t most)
{
    size_t count = 0;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    if (dir == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    while (count < most && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);
        if (len > 0 && len < 10 && strspn(entry->d_name, "0123456789") == len) {
            ret_days[count++] = strtoll(entry->d_name, NULL, 10);
        }
    }
    (void)closedir(dir);
    qsort(ret_days, count, sizeof(*ret_days), compare_days);
    return count;
}
