/* Reads the memory file. Called at start, before anybody borrows; must not trust a line: what cannot
 * be of a lane changes nothing. */
#include "base/error.h"
#include "base/hash.h"
#include "engine/limit/limits_memory.h"
#include "engine/limit/limits_memory_private.h"
#include "engine/limit/limits_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPAN_MOST (366 * 86400 * USEC_PER_SEC)

/* The fields of a line that are left. */
struct line {
    struct slice rest;
    bool is_bad; /* a field was missing, or is not what it should be */
};

struct recall {
    struct limits *limits;
    struct limits_lane *lane; /* the lines are about it; NULL: it could not be made */
    usec_t now, wall;
};

/* --- fields ----------------------------------------------------------------------------------- */

static struct slice take_word(struct line *line)
{
    size_t end = slice_find(line->rest, ' ');
    struct slice word = slice_to(line->rest, end);
    line->rest = slice_from(line->rest, end < line->rest.len ? end + 1 : end);
    line->is_bad |= word.len == 0;
    return word;
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* ret: room for `most` bytes */
static struct slice take_name_of(struct line *line, char *ret, size_t most)
{
    struct slice word = take_word(line);
    size_t len = 0;
    if (slice_eq(word, SLICE("-"))) {
        return SLICE("");
    }
    for (size_t i = 0; i < word.len; i++) {
        if (len >= most) {
            line->is_bad = true;
            break;
        }
        int high = word.data[i] == '%' && i + 2 < word.len ? digit_of(word.data[i + 1]) : -1;
        int low = high >= 0 ? digit_of(word.data[i + 2]) : -1;
        ret[len++] = low >= 0 ? (char)(high * 16 + low) : word.data[i];
        i += low >= 0 ? 2 : 0;
    }
    return slice_make(ret, len);
}

/* ret: room for LIMITS_NAME_MAX */
static struct slice take_name(struct line *line, char *ret)
{
    return take_name_of(line, ret, LIMITS_NAME_MAX);
}

static int64_t take_number(struct line *line, int64_t most)
{
    struct slice word = take_word(line);
    int64_t value = 0;
    for (size_t i = 0; i < word.len; i++) {
        bool is_digit = word.data[i] >= '0' && word.data[i] <= '9';
        if (!is_digit || value > most / 10) {
            line->is_bad = true;
            return 0;
        }
        value = value * 10 + (word.data[i] - '0');
    }
    line->is_bad |= value > most;
    return value;
}

static unsigned take_choice(struct line *line, const char *const *words, unsigned count)
{
    struct slice word = take_word(line);
    for (unsigned i = 0; i < count; i++) {
        if (slice_eq(word, slice_of(words[i]))) {
            return i;
        }
    }
    line->is_bad = true;
    return 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void recall_lane(struct recall *r, struct line *line)
{
    char names[3][LIMITS_NAME_MAX];
    struct limit_key key = {.source = take_name(line, names[0])};
    key.site = take_name(line, names[1]);
    key.hosts = take_name(line, names[2]);
    r->lane = NULL;
    if (line->is_bad) {
        return;
    }
    limits_enter(r->limits);
    if (limits_lane_get(r->limits, &key, r->now, &r->lane) != 0 ||
        limits_lane_learned(r->lane) == NULL) {
        r->lane = NULL;
    }
    limits_leave_lock(r->limits);
}

static void recall_pace(struct recall *r, struct line *line)
{
    enum pace_unit unit = take_choice(line, limits_unit_words, LIMITS_UNITS);
    struct pace_memory m = {.rate = (double)take_number(line, INT64_MAX) / LIMITS_RATE_SCALE};
    m.lowest = (double)take_number(line, INT64_MAX) / LIMITS_RATE_SCALE;
    m.age = take_number(line, INT64_MAX / 2);
    m.refusal_age = take_number(line, INT64_MAX / 2);
    m.lowest = m.lowest > PACE_LEAST ? m.lowest : PACE_LEAST;
    m.rate = m.rate > m.lowest ? m.rate : m.lowest;
    if (line->is_bad) {
        return;
    }
    limits_enter(r->limits);
    struct pace *p = limits_pace_get(r->limits, r->lane, unit, r->now);
    if (p != NULL) {
        line->is_bad = pace_recall(p, &m, r->now) != 0; /* then it stays free */
    }
    limits_leave_lock(r->limits);
}

static void recall_chance(struct recall *r, struct line *line)
{
    enum pace_unit unit = take_choice(line, limits_unit_words, LIMITS_UNITS);
    double share = (double)take_number(line, INT64_MAX) / LIMITS_RATE_SCALE;
    if (line->is_bad) {
        return;
    }
    limits_enter(r->limits);
    struct pace *p = limits_pace_get(r->limits, r->lane, unit, r->now);
    if (p != NULL) {
        line->is_bad = chance_recall(&p->chance, share, r->now) != 0; /* then nothing is believed */
    }
    limits_leave_lock(r->limits);
}

static void recall_ceiling(struct recall *r, struct line *line)
{
    unsigned which = take_choice(line, limits_ceiling_words, 2);
    struct ceiling_memory m = {.limit = (uint32_t)take_number(line, UINT32_MAX)};
    m.lowest = (uint32_t)take_number(line, UINT32_MAX);
    m.age = take_number(line, INT64_MAX / 2);
    m.refusal_age = take_number(line, INT64_MAX / 2);
    struct limits_learned *learned = r->lane->learned;
    struct ceiling *c = which == LIMITS_CEILING_SESSION ? &learned->session : &learned->connections;
    if (!line->is_bad) {
        line->is_bad = ceiling_recall(c, &m, r->now) != 0; /* then it is none */
    }
}

static void recall_window(struct recall *r, struct line *line)
{
    char name[LIMITS_NAME_MAX];
    struct slice core = take_name(line, name);
    uint32_t window = (uint32_t)take_number(line, INT32_MAX);
    if (line->is_bad || window == 0) {
        return;
    }
    limits_enter(r->limits);
    limits_window_set(r->limits, r->lane, core, window);
    limits_leave_lock(r->limits);
}

static void recall_closed(struct recall *r, struct line *line)
{
    usec_t left = take_number(line, SPAN_MOST);
    usec_t pause = take_number(line, SPAN_MOST);
    bool is_ordered = take_number(line, 1) != 0;
    struct limits_learned *learned = r->lane->learned;
    if (!line->is_bad) {
        learned->is_closed = true;
        learned->is_ordered = is_ordered;
        learned->closed_until = r->now + left;
        learned->closed_pause = pause;
    }
}

static void recall_paused(struct recall *r, struct line *line)
{
    usec_t left = take_number(line, SPAN_MOST);
    if (!line->is_bad) {
        r->lane->learned->paused_until = r->now + left;
    }
}

static void recall_accepted(struct recall *r, struct line *line)
{
    usec_t age = take_number(line, SPAN_MOST);
    if (!line->is_bad) {
        usec_t time = age < r->now ? r->now - age : 1;
        atomic_store_explicit(&r->lane->last_accepted, time, memory_order_relaxed);
    }
}

static void recall_destination(struct recall *r, struct line *line)
{
    char name[LIMITS_NAME_MAX], reason[LIMITS_NAME_MAX];
    struct limits_recalled what = {.name = take_name(line, name)};
    what.left = take_number(line, SPAN_MOST);
    what.pause = take_number(line, SPAN_MOST);
    what.reason = take_name(line, reason);
    if (!line->is_bad) {
        limits_enter(r->limits);
        limits_recall_destination(r->limits, r->lane, &what, r->now);
        limits_leave_lock(r->limits);
    }
}

static void recall_fact(struct recall *r, struct line *line)
{
    char rule[LIMITS_NAME_MAX], text[LIMITS_NAME_MAX];
    unsigned kind = take_choice(line, limits_fact_words, LIMITS_FACT_COUNT);
    usec_t age = take_number(line, INT64_MAX / 2);
    uint32_t times = (uint32_t)take_number(line, UINT32_MAX);
    struct slice of_rule = take_name(line, rule);
    struct slice of_text = take_name(line, text);
    if (line->is_bad || times == 0) {
        return;
    }
    limits_fact_note(r->lane->learned, kind, of_rule, of_text, r->now - age);
    if (r->lane->learned->facts[kind] != NULL) {
        r->lane->learned->facts[kind]->times = times;
    }
}

/* --- meters ----------------------------------------------------------------------------------- */

static enum limit_owner take_owner(struct line *line)
{
    struct slice word = take_word(line);
    enum limit_owner owner = LIMIT_OF_LANE;
    while (owner < LIMIT_OWNER_COUNT && !slice_eq(word, slice_of(limit_owner_text(owner)))) {
        owner++;
    }
    line->is_bad |= owner == LIMIT_OWNER_COUNT;
    return owner;
}

static struct limits_meter *take_meter(struct recall *r, struct line *line)
{
    static const struct limit_rates none;
    char name[LIMITS_METER_NAME_MAX];
    enum limit_owner owner = take_owner(line);
    struct limits_meter_rules rules = {.key.owner = owner, .rates = &none};
    rules.key.name = take_name_of(line, name, sizeof(name));
    struct limits_meter *m = NULL;
    if (line->is_bad) {
        return NULL;
    }
    limits_enter(r->limits);
    if (limits_meter_take(r->limits, &rules, r->now, &m) == 0) {
        limits_meter_drop(r->limits, m); /* it is idle, until a lane has it */
    }
    limits_leave_lock(r->limits);
    return m;
}

static void recall_quota(struct recall *r, struct line *line)
{
    struct limits_meter *m = take_meter(r, line);
    struct quota_state state = {.span = take_number(line, SPAN_MOST)};
    state.window = take_number(line, INT64_MAX / 2);
    state.used = (uint64_t)take_number(line, INT64_MAX);
    if (m != NULL && !line->is_bad) {
        m->gone_quota = state;
    }
}

static void recall_rate(struct recall *r, struct line *line)
{
    struct limits_meter *m = take_meter(r, line);
    unsigned unit = take_choice(line, limits_unit_words, LIMITS_UNITS);
    struct rate_rule rule = {.count = (uint32_t)take_number(line, RATE_COUNT_MAX)};
    rule.burst = (uint32_t)take_number(line, RATE_BURST_MAX);
    rule.span = take_number(line, SPAN_MOST);
    usec_t ahead = take_number(line, SPAN_MOST);
    if (m != NULL && !line->is_bad && rule.count > 0 && rule.span > 0) {
        rate_init(&m->gone_rates[unit], &rule, r->now + ahead);
    }
}

/* --- the file --------------------------------------------------------------------------------- */

static void recall_line(struct recall *r, struct slice text)
{
    static const struct {
        const char *word;
        void (*recall)(struct recall *r, struct line *line);
        bool is_of_lane;
    } kinds[] = {
        {"lane", recall_lane, false},    {"pace", recall_pace, true},
        {"chance", recall_chance, true}, {"ceiling", recall_ceiling, true},
        {"window", recall_window, true}, {"closed", recall_closed, true},
        {"paused", recall_paused, true}, {"accepted", recall_accepted, true},
        {"fact", recall_fact, true},     {"destination", recall_destination, true},
        {"quota", recall_quota, false},  {"rate", recall_rate, false},
    };
    struct line line = {.rest = text};
    struct slice word = take_word(&line);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (slice_eq(word, slice_of(kinds[i].word)) && (!kinds[i].is_of_lane || r->lane != NULL)) {
            kinds[i].recall(r, &line);
        }
    }
    if (r->lane != NULL) {
        limits_enter(r->limits);
        limits_lane_changed(r->limits, r->lane, false, r->now);
        limits_leave_lock(r->limits);
    }
}

/* The lines without the first and the last one; false: it is not what was written. */
static bool find_lines(struct slice file, struct slice *ret)
{
    static const size_t end_len = sizeof(LIMITS_MEMORY_END) - 1 + 16 + 1;
    struct slice head = SLICE(LIMITS_MEMORY_HEAD);
    if (file.len < head.len + end_len || !slice_eq(slice_to(file, head.len), head)) {
        return false;
    }
    struct slice whole = slice_to(file, file.len - end_len);
    char end[sizeof(LIMITS_MEMORY_END) + 17], wanted[sizeof(end)];
    memcpy(end, file.data + whole.len, end_len);
    end[end_len] = '\0';
    (void)snprintf(wanted, sizeof(wanted), LIMITS_MEMORY_END "%016" PRIx64 "\n",
                   hash_checksum(whole.data, whole.len));
    *ret = slice_from(whole, head.len);
    return strcmp(end, wanted) == 0;
}

static int recall_file(struct recall *r, struct slice file)
{
    struct slice lines;
    if (!find_lines(file, &lines)) {
        return ERR_CORRUPT;
    }
    while (lines.len > 0) {
        size_t end = slice_find(lines, '\n');
        recall_line(r, slice_to(lines, end));
        lines = slice_from(lines, end < lines.len ? end + 1 : end);
    }
    return 0;
}

int limits_memory_load(struct limits *l, const char *path, usec_t now, usec_t wall)
{
    struct recall r = {.limits = l, .now = now, .wall = wall};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    int err = fstat(fd, &st) < 0 ? -errno : 0;
    void *bytes = MAP_FAILED;
    if (err == 0 && st.st_size > 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        err = bytes == MAP_FAILED ? -errno : 0;
    }
    limits_enter(l);
    l->wall = wall;
    limits_leave_lock(l);
    if (err == 0) {
        err =
            st.st_size == 0 ? ERR_CORRUPT : recall_file(&r, slice_make(bytes, (size_t)st.st_size));
    }
    if (bytes != MAP_FAILED) {
        (void)munmap(bytes, (size_t)st.st_size);
    }
    (void)close(fd);
    return err;
}
