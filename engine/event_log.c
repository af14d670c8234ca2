/* Event lines and the file that they go to. The lines are made where the event happens, the file
 * belongs to one thread; nothing here decides what is logged. */
#include "engine/event_log.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/date.h"
#include "engine/event_line.h"
#include "engine/event_segment.h"
#include "engine/json_line.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODE  0640
#define ZEROS_MAX (64 * 1024) /* the largest block of a file system */

#define DELAY_MAX  (JSON_LINE_NUMBER_MAX + 7) /* a point and six decimals */
#define LINE_FIXED 1536 /* names, numbers, times and delays of a line, which never vary much */

#define HEAD_TEXT(type) "{\"type\":\"" type "\",\"id\":"
#define HEAD(type)      HEAD_TEXT(type), sizeof(HEAD_TEXT(type)) - 1

/* --- delays ------------------------------------------------------------------------------------
 */

static usec_t between(usec_t from, usec_t to)
{
    return to > from ? to - from : 0;
}

void event_delays(const struct event_stamps *stamps, struct event_delays *ret)
{
    *ret = (struct event_delays){0};
    if (stamps->arrival == 0) {
        return;
    }
    usec_t active = stamps->active != 0 ? stamps->active : stamps->done;
    usec_t agent = stamps->agent != 0 ? stamps->agent : stamps->done;
    usec_t connected = stamps->connected != 0 ? stamps->connected : stamps->done;
    ret->total = between(stamps->arrival, stamps->done);
    ret->a = between(stamps->arrival, active);
    ret->b = between(active, agent);
    ret->c = between(agent, connected);
    ret->d = between(connected, stamps->done);
}

/* At most DELAY_MAX bytes. */
static char *put_delay(char *at, usec_t delay, unsigned resolution)
{
    usec_t unit = USEC_PER_SEC;
    unsigned decimals = 0;
    assert(resolution <= 6);
    if (delay < 0) {
        delay = 0;
    }
    /* One decimal more for each place by which the value stays below ten. */
    for (usec_t bound = 10 * USEC_PER_SEC; decimals < resolution && delay < bound; bound /= 10) {
        decimals++;
        unit /= 10;
    }
    usec_t rounded = (delay + unit / 2) / unit;
    while (decimals > 0 && rounded % 10 == 0) {
        rounded /= 10;
        decimals--;
    }
    usec_t whole = rounded;
    for (unsigned i = 0; i < decimals; i++) {
        whole /= 10;
    }
    at = json_line_unsigned(at, (uint64_t)whole);
    if (decimals > 0) {
        *at = '.';
        for (unsigned i = decimals; i > 0; i--) {
            at[i] = (char)('0' + rounded % 10);
            rounded /= 10;
        }
        at += 1 + decimals;
    }
    return at;
}

void event_format_delay(struct buf *out, usec_t delay, unsigned resolution)
{
    char text[DELAY_MAX];
    buf_append(out, text, (size_t)(put_delay(text, delay, resolution) - text));
}

/* --- one line ----------------------------------------------------------------------------------
 *
 * A line is written behind a cursor into room that was made for the longest that it can become.
 */

/* A constant text: copied without a call. */
static inline char *put(char *at, struct slice text)
{
    memcpy(at, text.data, text.len);
    return at + text.len;
}

/* "2026-11-21T09:49:49.123456Z" (RFC 3339) */
static char *put_time(char *at, usec_t wall)
{
    static const char form[] = "\"0000-00-00T00:00:00.000000Z\"";
    struct date d;
    date_split(wall, &d);
    memcpy(at, form, sizeof(form) - 1);
    date_digits(at + 1, d.year, 4);
    date_digits(at + 6, d.month, 2);
    date_digits(at + 9, d.day, 2);
    date_digits(at + 12, d.hour, 2);
    date_digits(at + 15, d.minute, 2);
    date_digits(at + 18, d.second, 2);
    date_digits(at + 21, wall < 0 ? 0 : (unsigned)(wall % USEC_PER_SEC), 6);
    return at + sizeof(form) - 1;
}

/* key: with its quotes and colon, and the comma before it */
static inline char *put_string(char *at, struct slice key, struct slice value)
{
    return value.len == 0 ? at : json_line_string(put(at, key), value);
}

static inline char *put_unsigned(char *at, struct slice key, uint64_t value)
{
    return json_line_unsigned(put(at, key), value);
}

static char *put_response(char *at, const struct event *event)
{
    if (event->response.code == 0 && event->response.class_ == 0 &&
        event->response.content.len == 0) {
        return at;
    }
    at = put_unsigned(at, SLICE(",\"response\":{\"code\":"), event->response.code);
    if (event->response.class_ != 0) {
        at = put_unsigned(at, SLICE(",\"enhanced_code\":{\"class\":"), event->response.class_);
        at = put_unsigned(at, SLICE(",\"subject\":"), event->response.subject);
        at = put_unsigned(at, SLICE(",\"detail\":"), event->response.detail);
        *at++ = '}';
    }
    at = json_line_string(put(at, SLICE(",\"content\":")), event->response.content);
    at = put_string(at, SLICE(",\"command\":"), event->response.command);
    *at++ = '}';
    return at;
}

static char *put_peer(char *at, const struct event *event)
{
    if (event->peer_name.len == 0 && event->peer_address.len == 0) {
        return at;
    }
    at = json_line_string(put(at, SLICE(",\"peer_address\":{\"name\":")), event->peer_name);
    at = json_line_string(put(at, SLICE(",\"addr\":")), event->peer_address);
    *at++ = '}';
    return at;
}

static char *put_times(char *at, const struct event *event)
{
    at = json_line_signed(put(at, SLICE(",\"timestamp\":")), event->event_time / USEC_PER_SEC);
    at = put_time(put(at, SLICE(",\"event_time\":")), event->event_time);
    if (event->created == 0) {
        return at;
    }
    at = json_line_signed(put(at, SLICE(",\"created\":")), event->created / USEC_PER_SEC);
    return put_time(put(at, SLICE(",\"created_time\":")), event->created);
}

static char *put_delays(char *at, const struct event *event)
{
    struct event_delays delays;
    if (event->stamps == NULL) {
        return at;
    }
    event_delays(event->stamps, &delays);
    at = put_delay(put(at, SLICE(",\"delay\":")), delays.total, event->delay_resolution);
    at = put(at, SLICE(",\"delays\":["));
    const usec_t parts[4] = {delays.a, delays.b, delays.c, delays.d};
    for (int i = 0; i < 4; i++) {
        at = put_delay(at, parts[i], event->delay_resolution);
        *at++ = i < 3 ? ',' : ']';
    }
    return at;
}

/* More than the line can take: LINE_FIXED and each string. */
static size_t line_room(const struct event *event)
{
    const struct slice *strings[] = {
        &event->id,
        &event->sender,
        &event->recipient,
        &event->queue,
        &event->transport,
        &event->site,
        &event->response.content,
        &event->response.command,
        &event->peer_name,
        &event->peer_address,
        &event->egress_source,
        &event->delivery_protocol,
        &event->reception_protocol,
        &event->source_transport,
        &event->tenant,
        &event->campaign,
        &event->nodeid,
        &event->session_id,
        &event->tls_cipher,
        &event->tls_protocol_version,
        &event->tls_verdict,
    };
    size_t room = LINE_FIXED;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        room += json_line_string_max(strings[i]->len);
    }
    return room;
}

static char *put_line(char *at, const struct event *event)
{
    static const struct slice heads[EVENT_TYPE_COUNT] = {
        [EVENT_RECEPTION] = {HEAD("Reception")},
        [EVENT_DELIVERY] = {HEAD("Delivery")},
        [EVENT_TRANSIENT_FAILURE] = {HEAD("TransientFailure")},
        [EVENT_BOUNCE] = {HEAD("Bounce")},
        [EVENT_EXPIRATION] = {HEAD("Expiration")},
        [EVENT_ADMIN_BOUNCE] = {HEAD("AdminBounce")},
        [EVENT_ADMIN_DROP] = {HEAD("AdminDrop")},
    };
    at = json_line_string(put(at, heads[event->type]), event->id);
    at = json_line_string(put(at, SLICE(",\"sender\":")), event->sender);
    at = put_string(at, SLICE(",\"recipient\":"), event->recipient);
    if (event->recipient_count != 0) {
        at = put_unsigned(at, SLICE(",\"recipient_count\":"), event->recipient_count);
    }
    at = put_string(at, SLICE(",\"queue\":"), event->queue);
    at = put_string(at, SLICE(",\"transport\":"), event->transport);
    at = put_string(at, SLICE(",\"site\":"), event->site);
    at = put_unsigned(at, SLICE(",\"size\":"), event->size);
    at = put_response(at, event);
    at = put_peer(at, event);
    at = put_times(at, event);
    if (event->type != EVENT_RECEPTION) {
        at = put_unsigned(at, SLICE(",\"num_attempts\":"), event->num_attempts);
    }
    at = put_string(at, SLICE(",\"egress_source\":"), event->egress_source);
    at = put_string(at, SLICE(",\"delivery_protocol\":"), event->delivery_protocol);
    at = put_string(at, SLICE(",\"reception_protocol\":"), event->reception_protocol);
    at = put_string(at, SLICE(",\"source_transport\":"), event->source_transport);
    at = put_string(at, SLICE(",\"tenant\":"), event->tenant);
    at = put_string(at, SLICE(",\"campaign\":"), event->campaign);
    at = put_string(at, SLICE(",\"nodeid\":"), event->nodeid);
    at = put_string(at, SLICE(",\"session_id\":"), event->session_id);
    at = put_string(at, SLICE(",\"tls_cipher\":"), event->tls_cipher);
    at = put_string(at, SLICE(",\"tls_protocol_version\":"), event->tls_protocol_version);
    at = put_string(at, SLICE(",\"tls_verdict\":"), event->tls_verdict);
    if (event->is_tls_resumed) {
        at = put(at, SLICE(",\"is_tls_resumed\":true"));
    }
    if (event->is_ambiguous) {
        at = put(at, SLICE(",\"is_ambiguous\":true"));
    }
    return put(put_delays(at, event), SLICE("}\n"));
}

void event_format(struct buf *out, const struct event *event)
{
    size_t room = line_room(event);
    char *line = buf_reserve(out, room);
    if (line != NULL) {
        size_t len = (size_t)(put_line(line, event) - line);
        assert(len <= room);
        out->len += len;
    }
}

/* --- the file ----------------------------------------------------------------------------------
 */

static bool is_regular(int fd, off_t *ret_size)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    *ret_size = st.st_size;
    return true;
}

/* Power loss may leave a file its length without its last bytes, as zeros: on ext4 in a block that
 * was there before. No event has a zero byte. returns: the size without them */
static off_t size_without_zeros(int reader, off_t size)
{
    char chunk[512];
    off_t least = size > ZEROS_MAX ? size - ZEROS_MAX : 0;
    while (size > least) {
        size_t len = size - least < (off_t)sizeof(chunk) ? (size_t)(size - least) : sizeof(chunk);
        off_t begin = size - (off_t)len;
        if (pread(reader, chunk, len, begin) != (ssize_t)len) {
            break;
        }
        while (len > 0 && chunk[len - 1] == '\0') {
            len--;
        }
        size = begin + (off_t)len;
        if (len > 0) {
            break;
        }
    }
    return size;
}

/* Whether a crash left the last line without its end, once zeros behind it are cut off. A log that
 * may not be read is taken as is. */
static bool ends_torn(const char *path, int fd)
{
    off_t size = 0;
    char last = '\n';
    if (!is_regular(fd, &size) || size == 0) {
        return false;
    }
    int reader = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (reader < 0) {
        return false;
    }
    off_t kept = size_without_zeros(reader, size);
    if (kept < size && ftruncate(fd, kept) == 0) {
        size = kept;
    }
    ssize_t n = size > 0 ? pread(reader, &last, 1, size - 1) : 0;
    (void)close(reader);
    return n == 1 && last != '\n';
}

/* returns: descriptor or -errno */
static int open_file(const char *path)
{
    /* A named pipe without a reader is an error here, not a standstill. */
    int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, LOG_MODE);
    if (fd < 0) {
        return -errno;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        int err = -errno;
        (void)close(fd);
        return err;
    }
    return fd;
}

/* --- segments ----------------------------------------------------------------------------------
 */

/* A head that a crash cut off is all there is of the file. */
static void drop_torn_head(struct event_log *log)
{
    char start[EVENT_LINE_HEAD_MAX];
    off_t size = 0;
    int reader = log->is_torn && is_regular(log->fd, &size) && size < (off_t)sizeof(start)
                     ? open(log->path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
                     : -1;
    if (reader < 0) {
        return;
    }
    ssize_t n = pread(reader, start, sizeof(start), 0);
    size_t len = n < (ssize_t)sizeof(EVENT_LINE_HEAD) - 1 ? (size_t)(n < 0 ? 0 : n)
                                                          : sizeof(EVENT_LINE_HEAD) - 1;
    if (n > 0 && memchr(start, '\n', (size_t)n) == NULL &&
        memcmp(start, EVENT_LINE_HEAD, len) == 0 && ftruncate(log->fd, 0) == 0) {
        log->is_torn = false;
    }
    (void)close(reader); /* only read */
}

/* The file just opened is, or becomes, a segment: what its head says, else the next number.
 * least    number that a new one has at least */
static int begin_segment(struct event_log *log, uint64_t least)
{
    struct event_segments s;
    off_t size = 0;
    if (!is_regular(log->fd, &size)) {
        log->number = 0;
        log->needs_head = false;
        return 0;
    }
    drop_torn_head(log);
    int err = event_segments_scan(log->path, &s);
    if (err != 0) {
        /* Without a look at the folder the number is still one that no earlier one had. */
        log->number = least;
    } else {
        const struct event_segment *live = event_segments_live(&s);
        log->number = live != NULL ? live->number : s.greatest + 1;
        event_segments_free(&s);
    }
    (void)is_regular(log->fd, &size); /* as before, or 0 now */
    log->size = (uint64_t)size;
    log->needs_head = size == 0;
    log->number = log->needs_head && log->number < least ? least : log->number;
    log->rotate_at = log->rotate_size;
    log->must_sync_folder = true;
    return err;
}

int event_log_segment(struct event_log *log, uint64_t rotate_size, unsigned rotate_keep)
{
    log->rotate_size = rotate_size;
    log->rotate_keep = rotate_keep;
    atomic_store(&log->needed, UINT64_MAX);
    int err = begin_segment(log, 1);
    if (err != 0 || log->number == 0) {
        log->rotate_size = 0;
        log->number = 0;
        log->needs_head = false;
    }
    return err;
}

/* Closed segments beyond the number to keep, the oldest first. */
static void prune(struct event_log *log)
{
    struct event_segments s;
    uint64_t needed = atomic_load(&log->needed);
    size_t closed = 0;
    if (log->rotate_keep == 0 || event_segments_scan(log->path, &s) != 0) {
        return;
    }
    for (size_t i = 0; i < s.count; i++) {
        closed += s.items[i].is_numbered;
    }
    for (size_t i = 0; i < s.count && closed > log->rotate_keep; i++) {
        const struct event_segment *item = &s.items[i];
        bool is_spared = item->number >= needed && closed <= 2 * (size_t)log->rotate_keep;
        if (item->is_numbered && !is_spared) {
            if (unlink(item->path) != 0) {
                log_warning("event log: cannot remove %s: %s", item->path, strerror(errno));
                break;
            }
            closed--;
        }
    }
    event_segments_free(&s);
}

/* PATH becomes PATH.NUMBER, and a new one begins. A crash between leaves no PATH, as at the first
 * start. errors: -errno; all is as before */
static int move_away(struct event_log *log)
{
    char *name = NULL;
    struct stat ours, theirs;
    if (fstat(log->fd, &ours) != 0 || stat(log->path, &theirs) != 0 ||
        ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) {
        return event_log_reopen(log); /* somebody else has moved it away */
    }
    if (asprintf(&name, "%s.%llu", log->path, (unsigned long long)log->number) < 0) {
        return -ENOMEM;
    }
    int err = renameat2(AT_FDCWD, log->path, AT_FDCWD, name, RENAME_NOREPLACE) != 0 ? -errno : 0;
    int fd = err == 0 ? open_file(log->path) : -1;
    if (err == 0 && fd < 0) {
        err = fd;
        if (rename(name, log->path) != 0) {
            log_error("event log: cannot name %s as before: %s", name, strerror(errno));
        }
    }
    free(name);
    if (err == 0) {
        (void)close(fd); /* opened again below; it was only to be sure that it can be */
        err = event_log_reopen(log);
    }
    return err;
}

static void rotate(struct event_log *log)
{
    uint64_t number = log->number;
    int err = move_away(log);
    if (err != 0) {
        log_error("event log: segment %llu: %s", (unsigned long long)number, err_str(err));
    }
    if (log->number != number) {
        prune(log);
    } else {
        log->rotate_at = log->size + log->rotate_size / 8 + 1;
    }
}

int event_log_open(struct event_log *log, const char *path)
{
    *log = (struct event_log){.fd = -1};
    char *copy = strdup(path);
    if (copy == NULL) {
        return -ENOMEM;
    }
    int fd = open_file(path);
    if (fd < 0) {
        free(copy);
        return fd;
    }
    log->fd = fd;
    log->path = copy;
    log->is_torn = ends_torn(path, fd);
    return 0;
}

/* returns: bytes written; *ret_err is set when that is less than data.len */
static size_t write_all(int fd, struct slice data, int *ret_err)
{
    size_t done = 0;
    *ret_err = 0;
    while (done < data.len) {
        ssize_t n = write(fd, data.data + done, data.len - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            *ret_err = n < 0 ? -errno : -EIO;
            break;
        }
        done += (size_t)n;
    }
    return done;
}

/* Nobody else writes here, so a part that was written is the end of the file. */
static bool take_part_back(const struct event_log *log, size_t part)
{
    off_t size;
    return is_regular(log->fd, &size) && size >= (off_t)part &&
           ftruncate(log->fd, size - (off_t)part) == 0;
}

static void count_bytes(struct event_log *log, size_t bytes)
{
    log->bytes += bytes;
    log->size += bytes;
    log->has_unsynced |= bytes > 0;
    /* Release: who sees the count (event_consumer_next) finds the bytes in the file. */
    atomic_fetch_add_explicit(&log->written, bytes, memory_order_release);
}

/* What stands before the batch: the head of a new segment, or the end of a torn line. */
static int write_start(struct event_log *log)
{
    char head[EVENT_LINE_HEAD_MAX];
    int err = 0;
    struct slice start = SLICE("\n");
    if (log->needs_head) {
        start = slice_make(head, event_line_head(log->number, clock_wall(), head));
    } else if (!log->is_torn) {
        return 0;
    }
    size_t done = write_all(log->fd, start, &err);
    if (err != 0 && done > 0 && take_part_back(log, done)) {
        return err;
    }
    log->needs_head = log->needs_head && done == 0;
    log->is_torn = err != 0 && (log->is_torn || done > 0);
    count_bytes(log, done);
    return err;
}

int event_log_append(struct event_log *log, struct slice data)
{
    int err;
    if (log->fd < 0) {
        return -EBADF;
    }
    if (log->rotate_size > 0 && log->size >= log->rotate_at) {
        rotate(log);
    }
    err = write_start(log);
    if (err != 0) {
        return err;
    }
    size_t done = write_all(log->fd, data, &err);
    if (err != 0 && done > 0) {
        log->has_unsynced = true;
        if (take_part_back(log, done)) {
            return err;
        }
        log->is_torn = data.data[done - 1] != '\n';
    }
    count_bytes(log, done);
    return err;
}

/* New names last as long as what is in the files. */
static void sync_folder(struct event_log *log)
{
    const char *slash = strrchr(log->path, '/');
    char *path = slash == NULL ? strdup(".") : strndup(log->path, (size_t)(slash - log->path) + 1);
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* a folder that cannot be synced has what it has */
        (void)close(fd);
    }
    free(path);
    log->must_sync_folder = false;
}

int event_log_sync(struct event_log *log)
{
    if (log->fd < 0 || !log->has_unsynced) {
        return 0;
    }
    if (fdatasync(log->fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
        return -errno;
    }
    log->has_unsynced = false;
    if (log->must_sync_folder) {
        sync_folder(log);
    }
    return 0;
}

/* Sync and close the descriptor only. */
static int close_file(struct event_log *log)
{
    int err = event_log_sync(log);
    if (close(log->fd) != 0 && err == 0) {
        err = -errno;
    }
    log->fd = -1;
    return err;
}

static bool is_same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int event_log_reopen(struct event_log *log)
{
    assert(log->path != NULL);
    int fd = open_file(log->path);
    if (fd < 0) {
        return fd;
    }
    if (log->fd >= 0 && is_same_file(fd, log->fd)) {
        int kept = event_log_sync(log);
        (void)close(fd); /* nothing was written through it */
        return kept;
    }
    int err = log->fd < 0 ? 0 : close_file(log);
    log->fd = fd;
    log->bytes = 0;
    log->has_unsynced = false;
    log->is_torn = ends_torn(log->path, fd);
    if (log->number != 0) {
        int segment_err = begin_segment(log, log->number + 1);
        err = err == 0 ? segment_err : err;
    }
    return err;
}

int event_log_close(struct event_log *log)
{
    int err = log->fd < 0 ? 0 : close_file(log);
    free(log->path);
    *log = (struct event_log){.fd = -1};
    return err;
}
