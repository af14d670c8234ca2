#include "tests/unit/limits_bed.h"

static void count_wake(void *ctx)
{
    ((struct bed *)ctx)->wakes++;
}

void set_up(struct bed *b, const struct limits_config *config)
{
    *b = (struct bed){.now = 1000 * SECOND, .wall = MIDNIGHT + 12 * HOUR};
    struct limits_config seeded = *config;
    seeded.seed = 1; /* the same each time */
    b->limits = limits_new(&seeded);
    assert_non_null(b->limits);
    for (unsigned i = 0; i < 3; i++) {
        const struct limits_borrower_config of = {.number = i, .wake = count_wake, .ctx = b};
        b->borrowers[i] = limits_borrower_new(b->limits, &of);
        assert_non_null(b->borrowers[i]);
    }
}

void make_bed(struct bed *b)
{
    set_up(b, &(struct limits_config){.lane_memory = HOUR});
}

void end_bed(struct bed *b)
{
    for (unsigned i = 0; i < 3; i++) {
        limits_borrower_free(b->borrowers[i]);
    }
    limits_free(b->limits);
}

void pass(struct bed *b, usec_t span)
{
    b->now += span;
    b->wall += span;
}

struct limit_key key_of(const char *source, const char *site)
{
    return (struct limit_key){slice_of(source), slice_of(site), SLICE("")};
}

struct limits_hold *hold(struct bed *b, unsigned borrower, const char *source, const char *site,
                         const struct limit_rules *rules)
{
    static const struct limit_rules none;
    struct limits_hold *h;
    struct limit_key key = key_of(source, site);
    assert_int_equal(
        limits_hold(b->borrowers[borrower], &key, rules != NULL ? rules : &none, b, b->now, &h), 0);
    return h;
}

struct limit_grant lend(struct bed *b, struct limits_hold *h, uint32_t messages)
{
    struct limit_grant g;
    const struct limit_ask ask = {.messages = messages, .has_connection = true};
    limits_lend(h, &ask, b->now, b->wall, &g);
    return g;
}

void accept_one(struct bed *b, struct limits_hold *h, usec_t sent_at)
{
    const struct limit_accepted a = {.messages = 1,
                                     .recipients = 1,
                                     .session_messages = 1,
                                     .destination = SLICE("a.example"),
                                     .sent_at = sent_at};
    limits_accepted(h, &a, b->now);
}

struct limit_refusal throttled(const struct bed *b, enum reply_scope scope)
{
    return (struct limit_refusal){.class = REPLY_THROTTLED,
                                  .scope = scope,
                                  .stage = REPLY_AT_MAIL,
                                  .code = 421,
                                  .text = SLICE("4.7.28 slow down"),
                                  .destination = SLICE("a.example"),
                                  .sent_at = b->now};
}

struct limit_refusal blocked(const struct bed *b, const char *destination, uint64_t tenant)
{
    static uint64_t message;
    return (struct limit_refusal){.class = REPLY_BLOCKED,
                                  .scope = REPLY_LANE,
                                  .stage = REPLY_AT_RCPT,
                                  .code = 550,
                                  .text = SLICE("5.7.1 blocked using a list"),
                                  .address = SLICE("192.0.2.2"),
                                  .destination = slice_of(destination),
                                  .tenant = tenant,
                                  .message = ++message,
                                  .sent_at = b->now};
}

struct limit_verdict refuse(struct bed *b, struct limits_hold *h, const struct limit_refusal *r)
{
    struct limit_verdict v;
    limits_refused(h, r, b->now, b->wall, &v);
    return v;
}

/* The lane's state after all changes; false: there was none. */
bool last_change(struct bed *b, unsigned borrower, struct limit_change *ret)
{
    struct limit_change change;
    bool is_any = false;
    *ret = (struct limit_change){0};
    while (limits_next_change(b->borrowers[borrower], &change, b->now)) {
        *ret = change;
        is_any = true;
    }
    assert_false(limits_has_changes(b->borrowers[borrower]));
    return is_any;
}

struct rate_rule per(uint32_t count, usec_t span)
{
    return (struct rate_rule){.count = count, .span = span};
}
