/* The groups of a count: a hash table from the chosen facts to numbers. Called for the counts of
 * the queue and the dry runs of orders; does not know who asks. */
#include "engine/census/census.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/census/census_class.h"
#include "engine/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 18 }; /* more than twice CENSUS_ROWS_MAX, a power of two */

/* Longest key: each value is cut to what its length field tells. */
#define KEY_BYTES (CENSUS_WORD_COUNT * (2 + 1024))

struct tally {
    struct census_result *result;
    size_t capacity; /* of result->rows */
    size_t key_bytes;
    uint64_t seed;
    uint32_t *slots; /* [SLOTS] row + 1, 0: free */
    struct census_class class;
};

const char *census_word_text(enum census_word word)
{
    if (word == CENSUS_STATE) {
        return "state";
    }
    if (word == CENSUS_CLASS) {
        return "class";
    }
    if (word == CENSUS_MAIL_CLASS) {
        return "mail_class";
    }
    return word == CENSUS_AGE ? "age" : selector_word_text((enum selector_word)word);
}

enum census_word census_word_find(struct slice name)
{
    for (unsigned word = 0; word < CENSUS_WORD_COUNT; word++) {
        if (slice_eq(name, slice_of(census_word_text(word)))) {
            return word;
        }
    }
    return CENSUS_WORD_COUNT;
}

const char *census_age_text(usec_t age)
{
    static const struct {
        usec_t below;
        const char *text;
    } steps[] = {
        {60 * USEC_PER_SEC, "<1m"},       {300 * USEC_PER_SEC, "1m-5m"},
        {900 * USEC_PER_SEC, "5m-15m"},   {3600 * USEC_PER_SEC, "15m-1h"},
        {14400 * USEC_PER_SEC, "1h-4h"},  {86400 * USEC_PER_SEC, "4h-1d"},
        {259200 * USEC_PER_SEC, "1d-3d"},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (age < steps[i].below) {
            return steps[i].text;
        }
    }
    return ">3d";
}

/* --- rows ------------------------------------------------------------------------------------- */

static size_t add_value(char *key, size_t at, struct slice value)
{
    uint16_t len = value.len > 1024 ? 1024 : (uint16_t)value.len;
    memcpy(key + at, &len, sizeof(len));
    if (len > 0) {
        memcpy(key + at + sizeof(len), value.data, len);
    }
    return at + sizeof(len) + len;
}

static size_t make_key(struct tally *t, const struct queue_walk *w, char key[KEY_BYTES])
{
    uint32_t by = t->result->by;
    size_t len = 0;
    for (unsigned word = 0; word < SELECTOR_COUNT; word++) {
        if ((by & 1u << word) != 0) {
            len = add_value(key, len, w->recipient.facts[word]);
        }
    }
    if ((by & 1u << CENSUS_STATE) != 0) {
        len = add_value(key, len, slice_of(queue_state_text(w->recipient.state)));
    }
    if ((by & 1u << CENSUS_AGE) != 0) {
        usec_t age = w->now - w->message.envelope.created;
        len = add_value(key, len, slice_of(census_age_text(age)));
    }
    if ((by & 1u << CENSUS_CLASS) != 0) {
        len = add_value(key, len, census_class_text(&t->class, w));
    }
    if ((by & 1u << CENSUS_MAIL_CLASS) != 0) {
        enum mail_class class = spool_mail_class(w->message.envelope.flags);
        len = add_value(key, len, slice_of(mail_class_text(class)));
    }
    return len;
}

struct slice census_row_value(const struct census_result *c, const struct census_row *row,
                              enum census_word word)
{
    size_t at = 0;
    for (unsigned i = 0; i <= (unsigned)word && row->key != NULL; i++) {
        uint16_t len;
        if ((c->by & 1u << i) == 0) {
            continue;
        }
        memcpy(&len, row->key + at, sizeof(len));
        if (i == (unsigned)word) {
            return slice_make(row->key + at + sizeof(len), len);
        }
        at += sizeof(len) + len;
    }
    return SLICE("");
}

/* errors: -ENOMEM; ret NULL: no room for another row */
static int new_row(struct tally *t, const char *key, size_t len, uint32_t hash,
                   struct census_row **ret)
{
    struct census_result *c = t->result;
    *ret = NULL;
    if (c->row_count == CENSUS_ROWS_MAX || t->key_bytes + len > CENSUS_KEY_BYTES_MAX) {
        return 0;
    }
    if (c->row_count == t->capacity) {
        size_t capacity = t->capacity == 0 ? 64 : t->capacity * 2;
        struct census_row *grown = realloc(c->rows, capacity * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        c->rows = grown;
        t->capacity = capacity;
    }
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        return -ENOMEM;
    }
    memcpy(copy, key, len);
    t->key_bytes += len;
    struct census_row *row = &c->rows[c->row_count++];
    *row = (struct census_row){
        .oldest = USEC_NEVER, .hash = hash, .key_bytes = (uint32_t)len, .key = copy};
    *ret = row;
    return 0;
}

/* The row of this key, made when it is new. errors: as new_row */
static int find_row(struct tally *t, const char *key, size_t len, struct census_row **ret)
{
    uint32_t hash = (uint32_t)hash_bytes(key, len, t->seed);
    uint32_t at = hash & (SLOTS - 1);
    for (; t->slots[at] != 0; at = (at + 1) & (SLOTS - 1)) {
        struct census_row *row = &t->result->rows[t->slots[at] - 1];
        if (row->hash == hash && row->key_bytes == len && memcmp(row->key, key, len) == 0) {
            *ret = row;
            return 0;
        }
    }
    int err = new_row(t, key, len, hash, ret);
    if (err == 0 && *ret != NULL) {
        t->slots[at] = (uint32_t)t->result->row_count;
    }
    return err;
}

static void row_add(struct census_row *row, const struct spool_envelope *e)
{
    if (row->recipients++ == 0 || row->last_message != e->id) {
        row->messages++;
        row->last_message = e->id;
    }
    if (e->created < row->oldest) {
        row->oldest = e->created;
    }
}

/* errors: -ENOMEM */
static int count_message(struct tally *t, struct queue_walk *w)
{
    char key[KEY_BYTES];
    const struct spool_envelope *e = &w->message.envelope;
    uint64_t before = t->result->recipients;
    while (queue_walk_recipient(w)) {
        struct census_row *row;
        size_t len = make_key(t, w, key);
        int err = find_row(t, key, len, &row);
        if (err != 0) {
            return err;
        }
        row_add(row == NULL ? &t->result->other : row, e);
        t->result->recipients++;
    }
    t->result->messages += t->result->recipients > before;
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b)
{
    const struct census_row *x = a, *y = b;
    if (x->recipients != y->recipients) {
        return x->recipients > y->recipients ? -1 : 1;
    }
    size_t len = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
    return memcmp(x->key, y->key, len);
}

static int count_all(struct tally *t, const struct queue_source *from,
                     const struct census_query *query)
{
    static const uint32_t routed =
        1u << SELECTOR_DESTINATION | 1u << SELECTOR_TRANSPORT | 1u << SELECTOR_SOURCE;
    struct queue_walk w;
    int err = 0;
    queue_walk_begin(&w, from, &query->filter, 0, (query->by & routed) != 0);
    while (err == 0 && queue_walk_next(&w)) {
        err = count_message(t, &w);
    }
    if (err == 0) {
        err = w.error;
    }
    t->result->as_of = w.now;
    t->result->damaged = w.damaged;
    queue_walk_end(&w);
    return err;
}

int census_take(const struct queue_source *from, const struct census_query *query,
                struct census_result **ret)
{
    usec_t began = clock_mono();
    struct tally t = {.seed = hash_random_seed(),
                      .slots = calloc(SLOTS, sizeof(*t.slots)),
                      .result = calloc(1, sizeof(*t.result))};
    int err = -ENOMEM;
    census_class_init(&t.class);
    if (t.result != NULL && t.slots != NULL) {
        t.result->by = query->by;
        t.result->other.oldest = USEC_NEVER;
        err = count_all(&t, from, query);
    }
    free(t.slots);
    census_class_fini(&t.class);
    if (err != 0) {
        census_result_free(t.result);
        return err;
    }
    if (t.result->row_count > 0) {
        qsort(t.result->rows, t.result->row_count, sizeof(*t.result->rows), compare_rows);
    }
    t.result->took = clock_mono() - began;
    *ret = t.result;
    return 0;
}

void census_result_free(struct census_result *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->row_count; i++) {
        free(c->rows[i].key);
    }
    free(c->rows);
    free(c);
}
