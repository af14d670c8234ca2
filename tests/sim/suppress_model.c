/* The model's lists; see suppress_model.h. */
#include "tests/sim/suppress_model.h"

#include "base/error.h"
#include "engine/spool/spool_suppress.h"

#include <stdio.h>
#include <string.h>

enum { PER_LIST = SUPPRESS_MODEL_ENTRIES / 2, RUN_MAX = 12, STRIKES = 3 };

static const usec_t some_time = INT64_C(1800000000) * USEC_PER_SEC;

struct entry_text {
    char address[160], source[32];
};

/* Number `index` in the order of tables; addresses are long, so that they need several pages. */
static void make_entry(uint32_t index, uint32_t version, struct entry_text *text,
                       struct spool_suppression *ret)
{
    char filler[100] = "";
    memset(filler, 'x', index % 4 * 30);
    int len = snprintf(text->address, sizeof(text->address), "u%03u%s@d%u.example",
                       index % PER_LIST, filler, index % 7);
    int source = snprintf(text->source, sizeof(text->source), "version %u", version);
    *ret = (struct spool_suppression){
        .tenant = index < PER_LIST ? SLICE("") : SLICE("acme"),
        .address = slice_of_printed(text->address, sizeof(text->address), len),
        .reason = (enum spool_suppress_reason)(version % SPOOL_SUPPRESS_REASON_COUNT),
        .added = some_time + (usec_t)version * USEC_PER_SEC,
        .expires = version % 3 == 0 ? 2 * some_time : 0,
        .source = slice_of_printed(text->source, sizeof(text->source), source)};
}

static int put_run(struct suppress_model *m, struct spool_txn *t, uint32_t first, uint32_t count)
{
    int err = 0;
    for (uint32_t i = first; err == 0 && i < first + count && i < SUPPRESS_MODEL_ENTRIES; i++) {
        struct entry_text text;
        struct spool_suppression s;
        m->versions[i] = ++m->next_version;
        make_entry(i, m->versions[i], &text, &s);
        err = t == NULL ? 0 : spool_suppress_put(t, &s, NULL);
    }
    return err;
}

static int remove_one(struct suppress_model *m, struct spool_txn *t, uint32_t index)
{
    struct entry_text text;
    struct spool_suppression s;
    bool was_there = m->versions[index] != 0;
    m->versions[index] = 0;
    make_entry(index, 0, &text, &s);
    int err = t == NULL ? 0 : spool_suppress_remove(t, s.tenant, s.address);
    if (t != NULL && !was_there && (err == 0 || err == ERR_MISSING)) {
        return err == 0 ? ERR_CORRUPT : 0;
    }
    return err;
}

/* returns an error; ret_count: what the spool has counted */
static int strike(struct spool_txn *t, uint32_t index, uint32_t message, uint32_t *ret_count)
{
    struct entry_text text;
    struct spool_suppression s;
    make_entry(index, 0, &text, &s);
    const struct spool_strike one = {.kind = 4,
                                     .tenant = s.tenant,
                                     .address = s.address,
                                     .message_id = message,
                                     .now = some_time,
                                     .span = USEC_PER_SEC,
                                     .most = STRIKES};
    return spool_suppress_strike(t, &one, ret_count);
}

static int strike_one(struct suppress_model *m, struct spool_txn *t, uint32_t index)
{
    uint32_t count = ++m->strikes[index], counted = count;
    m->strikes[index] = count % STRIKES;
    int err = t == NULL ? 0 : strike(t, index, ++m->next_version, &counted);
    if (t == NULL) {
        m->next_version++;
    }
    return err == 0 && counted != count ? ERR_CORRUPT : err;
}

int suppress_model_step(struct suppress_model *m, struct spool_txn *t, uint64_t chance)
{
    uint32_t index = (uint32_t)(chance / 64 % SUPPRESS_MODEL_ENTRIES);
    switch (chance % 4) {
    case 0:
        return strike_one(m, t, index % SUPPRESS_MODEL_STRIKES);
    case 1:
        return remove_one(m, t, index);
    default:
        return put_run(m, t, index, 1 + (uint32_t)(chance / 4 % RUN_MAX));
    }
}

int suppress_model_check_strikes(const struct suppress_model *m, struct spool_txn *t)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < SUPPRESS_MODEL_STRIKES; i++) {
        uint32_t counted = 0;
        err = strike(t, i, UINT32_MAX, &counted);
        err = err == 0 && counted != m->strikes[i] + 1 ? ERR_CORRUPT : err;
    }
    return err;
}

/* --- texts ------------------------------------------------------------------------------------ */

static void text_entry(struct buf *out, const struct spool_suppression *s)
{
    buf_printf(out, "suppressed \"" SLICE_FMT "\" " SLICE_FMT " %s %lld %lld " SLICE_FMT "%s\n",
               SLICE_ARG(s->tenant), SLICE_ARG(s->address), spool_suppress_reason_text(s->reason),
               (long long)s->added, (long long)s->expires, SLICE_ARG(s->source),
               s->is_damaged ? " damaged" : "");
}

void suppress_model_text(const struct suppress_model *m, struct buf *out)
{
    for (uint32_t i = 0; i < SUPPRESS_MODEL_ENTRIES; i++) {
        struct entry_text text;
        struct spool_suppression s;
        if (m->versions[i] != 0) {
            make_entry(i, m->versions[i], &text, &s);
            text_entry(out, &s);
        }
    }
}

static void text_list(struct spool_reader *r, struct slice list, struct buf *out)
{
    struct spool_suppression s = {.address = SLICE("")}, found;
    int err;
    while ((err = spool_suppress_next(r, list, s.address, s.address.len > 0, &s)) == 0) {
        text_entry(out, &s);
        err = spool_suppress_find(r, list, s.address, some_time, &found);
        if (err != 0 || found.tenant.len != list.len || found.added != s.added) {
            buf_printf(out, "  looked up: %s\n", err_str(err));
        }
    }
    if (err != ERR_MISSING) {
        buf_printf(out, "  entries: %s\n", err_str(err));
    }
}

void suppress_text(struct spool_reader *r, struct buf *out)
{
    struct slice list = {NULL, 0};
    int err;
    while ((err = spool_suppress_next_list(r, list, &list)) == 0) {
        text_list(r, list, out);
    }
    if (err != ERR_MISSING) {
        buf_printf(out, "lists: %s\n", err_str(err));
    }
}
