/* Event lines and the file that they go to. The lines are made where the event happens, the file
 * belongs to one thread; nothing here decides what is logged. */
#include "engine/event_log.h"

#include "engine/json_line.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODE  0640
#define ZEROS_MAX (64 * 1024) /* the largest block of a file system */

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

void event_format_delay(struct buf *out, usec_t delay, unsigned resolution)
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
    char digits[24];
    size_t at = sizeof(digits);
    for (unsigned i = 0; i < decimals; i++) {
        digits[--at] = (char)('0' + rounded % 10);
        rounded /= 10;
    }
    json_line_unsigned(out, (uint64_t)rounded);
    if (decimals > 0) {
        buf_append_char(out, '.');
        buf_append(out, digits + at, sizeof(digits) - at);
    }
}

/* --- one line ----------------------------------------------------------------------------------
 */

static void put_digits(char *at, unsigned value, int count)
{
    while (count-- > 0) {
        at[count] = (char)('0' + value % 10);
        value /= 10;
    }
}

/* "2026-11-21T09:49:49.123456Z" (RFC 3339). The C library's gmtime costs more than the rest of the
 * line; this is the days-to-civil rule of the proleptic Gregorian calendar, years from March. */
static void append_time(struct buf *out, usec_t wall)
{
    char text[] = "\"0000-00-00T00:00:00.000000Z\"";
    uint64_t usec = wall < 0 ? 0 : (uint64_t)wall;
    uint64_t second_of_day = usec / USEC_PER_SEC % 86400;
    uint64_t days = usec / USEC_PER_SEC / 86400 + 719468; /* since 0000-03-01 */
    uint64_t era = days / 146097;
    unsigned day_of_era = (unsigned)(days % 146097);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month = (5 * day_of_year + 2) / 153; /* 0: March */
    unsigned year = (unsigned)(era * 400) + year_of_era + (month >= 10);
    put_digits(text + 1, year, 4);
    put_digits(text + 6, month < 10 ? month + 3 : month - 9, 2);
    put_digits(text + 9, day_of_year - (153 * month + 2) / 5 + 1, 2);
    put_digits(text + 12, (unsigned)(second_of_day / 3600), 2);
    put_digits(text + 15, (unsigned)(second_of_day / 60 % 60), 2);
    put_digits(text + 18, (unsigned)(second_of_day % 60), 2);
    put_digits(text + 21, (unsigned)(usec % USEC_PER_SEC), 6);
    buf_append(out, text, sizeof(text) - 1);
}

/* key: with its quotes and colon, and the comma before it */
static void put_string(struct buf *out, const char *key, struct slice value)
{
    if (value.len > 0) {
        buf_append_str(out, key);
        json_line_string(out, value);
    }
}

static void put_unsigned(struct buf *out, const char *key, uint64_t value)
{
    buf_append_str(out, key);
    json_line_unsigned(out, value);
}

static void put_response(struct buf *out, const struct event *event)
{
    if (event->response.code == 0 && event->response.class_ == 0 &&
        event->response.content.len == 0) {
        return;
    }
    put_unsigned(out, ",\"response\":{\"code\":", event->response.code);
    if (event->response.class_ != 0) {
        put_unsigned(out, ",\"enhanced_code\":{\"class\":", event->response.class_);
        put_unsigned(out, ",\"subject\":", event->response.subject);
        put_unsigned(out, ",\"detail\":", event->response.detail);
        buf_append_char(out, '}');
    }
    buf_append_str(out, ",\"content\":");
    json_line_string(out, event->response.content);
    put_string(out, ",\"command\":", event->response.command);
    buf_append_char(out, '}');
}

static void put_peer(struct buf *out, const struct event *event)
{
    if (event->peer_name.len == 0 && event->peer_address.len == 0) {
        return;
    }
    buf_append_str(out, ",\"peer_address\":{\"name\":");
    json_line_string(out, event->peer_name);
    buf_append_str(out, ",\"addr\":");
    json_line_string(out, event->peer_address);
    buf_append_char(out, '}');
}

static void put_times(struct buf *out, const struct event *event)
{
    buf_append_str(out, ",\"timestamp\":");
    json_line_signed(out, event->event_time / USEC_PER_SEC);
    buf_append_str(out, ",\"event_time\":");
    append_time(out, event->event_time);
    if (event->created == 0) {
        return;
    }
    buf_append_str(out, ",\"created\":");
    json_line_signed(out, event->created / USEC_PER_SEC);
    buf_append_str(out, ",\"created_time\":");
    append_time(out, event->created);
}

static void put_delays(struct buf *out, const struct event *event)
{
    struct event_delays delays;
    if (event->stamps == NULL) {
        return;
    }
    event_delays(event->stamps, &delays);
    buf_append_str(out, ",\"delay\":");
    event_format_delay(out, delays.total, event->delay_resolution);
    const usec_t parts[4] = {delays.a, delays.b, delays.c, delays.d};
    for (int i = 0; i < 4; i++) {
        buf_append_str(out, i == 0 ? ",\"delays\":[" : ",");
        event_format_delay(out, parts[i], event->delay_resolution);
    }
    buf_append_char(out, ']');
}

void event_format(struct buf *out, const struct event *event)
{
    static const char *const heads[EVENT_TYPE_COUNT] = {
        [EVENT_RECEPTION] = "{\"type\":\"Reception\",\"id\":",
        [EVENT_DELIVERY] = "{\"type\":\"Delivery\",\"id\":",
        [EVENT_TRANSIENT_FAILURE] = "{\"type\":\"TransientFailure\",\"id\":",
        [EVENT_BOUNCE] = "{\"type\":\"Bounce\",\"id\":",
        [EVENT_EXPIRATION] = "{\"type\":\"Expiration\",\"id\":",
    };
    buf_append_str(out, heads[event->type]);
    json_line_string(out, event->id);
    buf_append_str(out, ",\"sender\":");
    json_line_string(out, event->sender);
    put_string(out, ",\"recipient\":", event->recipient);
    if (event->recipient_count != 0) {
        put_unsigned(out, ",\"recipient_count\":", event->recipient_count);
    }
    put_string(out, ",\"queue\":", event->queue);
    put_string(out, ",\"transport\":", event->transport);
    put_string(out, ",\"site\":", event->site);
    put_unsigned(out, ",\"size\":", event->size);
    put_response(out, event);
    put_peer(out, event);
    put_times(out, event);
    if (event->type != EVENT_RECEPTION) {
        put_unsigned(out, ",\"num_attempts\":", event->num_attempts);
    }
    put_string(out, ",\"egress_source\":", event->egress_source);
    put_string(out, ",\"delivery_protocol\":", event->delivery_protocol);
    put_string(out, ",\"reception_protocol\":", event->reception_protocol);
    put_string(out, ",\"nodeid\":", event->nodeid);
    put_string(out, ",\"session_id\":", event->session_id);
    put_string(out, ",\"tls_cipher\":", event->tls_cipher);
    put_string(out, ",\"tls_protocol_version\":", event->tls_protocol_version);
    put_string(out, ",\"tls_verdict\":", event->tls_verdict);
    if (event->is_tls_resumed) {
        buf_append_str(out, ",\"is_tls_resumed\":true");
    }
    if (event->is_ambiguous) {
        buf_append_str(out, ",\"is_ambiguous\":true");
    }
    put_delays(out, event);
    buf_append_str(out, "}\n");
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

int event_log_append(struct event_log *log, struct slice data)
{
    int err;
    off_t size;
    if (log->fd < 0) {
        return -EBADF;
    }
    if (log->is_torn) {
        if (write_all(log->fd, SLICE("\n"), &err) == 0) {
            return err;
        }
        log->is_torn = false;
    }
    size_t done = write_all(log->fd, data, &err);
    log->has_unsynced |= done > 0;
    if (err != 0 && done > 0) {
        /* Nobody else writes here, so the part is the end of the file. */
        if (is_regular(log->fd, &size) && size >= (off_t)done &&
            ftruncate(log->fd, size - (off_t)done) == 0) {
            return err;
        }
        log->is_torn = data.data[done - 1] != '\n';
    }
    log->bytes += done;
    return err;
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

int event_log_reopen(struct event_log *log)
{
    assert(log->path != NULL);
    int fd = open_file(log->path);
    if (fd < 0) {
        return fd;
    }
    int err = log->fd < 0 ? 0 : close_file(log);
    log->fd = fd;
    log->bytes = 0;
    log->has_unsynced = false;
    log->is_torn = ends_torn(log->path, fd);
    return err;
}

int event_log_close(struct event_log *log)
{
    int err = log->fd < 0 ? 0 : close_file(log);
    free(log->path);
    *log = (struct event_log){.fd = -1};
    return err;
}
