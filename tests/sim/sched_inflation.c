/* How much later preemption may make a job finish, over random parameters and arrivals. No window
 * binds, so that no job is ever a blocker, and all recipients are read.
 *
 * usage: sched_inflation [SEED [RUNS]]
 *
 * A job of n entries, slot cost k. It earns a slot with each of its selections; a job of m entries
 * that goes in front of it takes m x k (scheduler-semantics 5.6). After s selections of its own,
 * and M entries of the jobs that went in front of it until then, it has s - kM slots. So:
 *
 * 1. Another job of m entries is a candidate only while m <= (n - s + s - kM) / k (5.5), which is
 *    k(M + m) <= n whatever s is. So all that ever go in front of it have at most n/k entries.
 * 2. With no job in front of these the job is finished n + n/k selections after it was first
 *    current, its own included. Each of these jobs may be preempted by the same rule: h levels of
 *    preemption take at most B(h, n) = n + B(h - 1, n/k), with B(0, n) = n and n/k rounded down
 *    (B(h, a) + B(h, b) <= B(h, a + b)), and B(h, n) <= n x k / (k - 1) for any h.
 * 3. A job goes in front only when s - kM > 0, that is when what went before is paid for, and only
 *    when (s - kM) / k + loan >= m x (1 - discount) (5.6). So at each moment M, the last job in
 *    front included, is at most s/k + loan + discount x m: loan and discount move a preemption to
 *    an earlier selection, and are no part of the bound at the end.
 *
 * Checked here from the order of selections alone, for every job and every preemption. */
#include "sched/sched.h"
#include "tests/chance.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SLUICE_SANITIZED
#define RUNS 1000
#else
#define RUNS 6000
#endif
#define MESSAGES    60
#define DOMAINS     100
#define RECIPIENTS  (3 * DOMAINS)
#define CONNECTIONS 20
#define NAME_BYTES  16

struct message {
    uint32_t entries, selected;
    uint32_t charged;        /* entries of the jobs that went in front of it */
    uint32_t since_first;    /* selections of all jobs from its first one on */
    int height;              /* levels of preemption on top of it */
    struct message *covered; /* the job that it preempted */
};

struct inflation {
    uint64_t random;
    struct sched_config config;
    struct sched *sched;
    usec_t now;
    struct message messages[MESSAGES];
    unsigned submitted, finished, most;
    unsigned largest;    /* domains of a message */
    struct message *top; /* current; in front of those that it preempted */
    struct sched_entry *busy[CONNECTIONS];
    unsigned busy_count;
};

/* What the runs came across; each must have happened. */
struct seen {
    unsigned long preemptions, lent, at_bound, nested;
};

static char names[DOMAINS][NAME_BYTES];

static unsigned take(struct inflation *t, unsigned below)
{
    return (unsigned)((chance_next(&t->random) >> 16) % below);
}

static void *allocate(void *ctx, size_t size)
{
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    free(obj);
}

static void release_hosts(void *ctx, void *hosts)
{
}

static void configure(struct inflation *t)
{
    struct sched_config *c = &t->config;
    sched_config_defaults(c);
    c->initial_destination_concurrency = MESSAGES * RECIPIENTS; /* never full */
    c->destination_concurrency_limit = 0;
    c->destination_recipient_limit = (int)take(t, 4);
    c->recipient_limit = c->message_recipient_limit = MESSAGES * RECIPIENTS;
    c->process_limit = 1 + (int)take(t, CONNECTIONS);
    c->delivery_slot_cost = (int)take(t, 8);
    c->delivery_slot_loan = (int)take(t, 5);
    c->delivery_slot_discount = (int)take(t, 5) * 25;
    c->minimum_delivery_slots = (int)take(t, 4);
    t->most = 2 + take(t, MESSAGES - 1);
    t->largest = 1 + take(t, DOMAINS);
}

/* Mostly small ones, the first ones of any size. */
static unsigned next_domains(struct inflation *t)
{
    return 1 + take(t, take(t, 3) == 0 || t->submitted < 2 ? t->largest : 1 + t->largest / 8);
}

static void submit(struct inflation *t)
{
    struct sched_recipient recipients[RECIPIENTS];
    unsigned domains = next_domains(t), each = 1 + take(t, 3), first = take(t, DOMAINS);
    struct sched_message m = {.id = t->submitted, .handle = &t->messages[t->submitted]};
    for (unsigned i = 0; i < domains * each; i++) {
        const char *name = names[(first + i % domains) % DOMAINS];
        recipients[m.recipient_count++] =
            (struct sched_recipient){slice_of(name), slice_of(name + 2), i, 0};
    }
    m.recipients = recipients;
    unsigned limit = (unsigned)t->config.destination_recipient_limit;
    unsigned entries = limit == 0 ? 1 : (each + limit - 1) / limit;
    t->messages[t->submitted++].entries = domains * entries;
    int err = sched_submit(t->sched, &m, t->now);
    assert(err == 0);
}

/* k > 1; k times what a job has in slots is counted, as in the core. */
static void preempted(const struct inflation *t, struct message *m, const struct message *by,
                      struct seen *seen)
{
    const struct sched_config *c = &t->config;
    assert(c->delivery_slot_cost > 1);
    unsigned cost = (unsigned)c->delivery_slot_cost;
    assert(m->entries >= (unsigned)c->minimum_delivery_slots * cost);
    assert(m->selected > cost * m->charged);
    unsigned in_hand = (m->selected - cost * m->charged) / cost + (unsigned)c->delivery_slot_loan;
    assert(100 * in_hand >= by->entries * (unsigned)(100 - c->delivery_slot_discount));
    m->charged += by->entries;
    assert(cost * m->charged <= m->entries);
    seen->preemptions++;
    seen->lent += cost * m->charged > m->selected;
}

static uint32_t bound(uint32_t entries, uint32_t cost, int height)
{
    return height == 0 ? entries : entries + bound(entries / cost, cost, height - 1);
}

static void complete(struct inflation *t, struct message *m, struct seen *seen)
{
    uint32_t cost = (uint32_t)t->config.delivery_slot_cost;
    uint32_t most = bound(m->entries, cost, m->height);
    assert(m->since_first <= most);
    assert(m->height == 0 || (uint64_t)m->since_first * (cost - 1) <= (uint64_t)m->entries * cost);
    seen->at_bound += m->height == 1 && m->since_first == most;
    seen->nested += m->height > 1;
    t->top = m->covered;
    if (t->top != NULL && t->top->height <= m->height) {
        t->top->height = m->height + 1;
    }
    t->finished++;
}

static void selected(struct inflation *t, struct message *m, struct seen *seen)
{
    if (m->selected == 0) {
        if (t->top != NULL) {
            preempted(t, t->top, m, seen);
        }
        m->covered = t->top;
        t->top = m;
    }
    /* What preempts a job is delivered completely before the job goes on. */
    assert(t->top == m && m->selected < m->entries);
    m->selected++;
    for (struct message *at = m; at != NULL; at = at->covered) {
        at->since_first++;
    }
    if (m->selected == m->entries) {
        complete(t, m, seen);
    }
}

static void pull(struct inflation *t, struct seen *seen)
{
    struct sched_action a;
    while (sched_pull(t->sched, &a, t->now)) {
        assert(a.kind != SCHED_READ && a.kind != SCHED_DEFER && a.kind != SCHED_BOUNCE);
        if (a.kind == SCHED_DELIVER) {
            selected(t, a.handle, seen);
            t->busy[t->busy_count++] = a.entry;
            return;
        }
    }
    /* Work waits only for a connection. */
    assert(t->finished == t->submitted || t->busy_count == (unsigned)t->config.process_limit);
}

static void report(struct inflation *t)
{
    if (t->busy_count == 0) {
        return;
    }
    unsigned which = take(t, t->busy_count);
    struct sched_outcome o = {.entry = t->busy[which],
                              .feedback = take(t, 2) == 0 ? SCHED_NEUTRAL : SCHED_POSITIVE,
                              .connection_open = take(t, 2) == 0};
    t->busy[which] = t->busy[--t->busy_count];
    sched_report(t->sched, &o, t->now);
}

/* Bursts and pauses: how often a message arrives changes on the way. */
static void run(uint64_t seed, struct seen *seen)
{
    struct inflation t = {.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
    const struct sched_host host = {allocate, release, release, NULL};
    configure(&t);
    t.sched = sched_new(&t.config, &host, release_hosts, 0);
    assert(t.sched != NULL);
    unsigned pause = 1;
    while (t.submitted < t.most || t.finished < t.submitted || t.busy_count > 0) {
        if (t.submitted < t.most && take(&t, pause) == 0) {
            submit(&t);
        }
        if (take(&t, 20) == 0) {
            pause = 1 + take(&t, 60);
            t.now += take(&t, 40) * USEC_PER_SEC / 4;
        }
        if (take(&t, 3) == 0) {
            report(&t);
        }
        pull(&t, seen);
    }
    sched_free(t.sched);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : RUNS;
    struct seen seen = {0};
    for (unsigned i = 0; i < DOMAINS; i++) {
        (void)snprintf(names[i], NAME_BYTES, "u@d%u", i);
    }
    for (uint64_t i = 0; i < runs; i++) {
        run(seed + i, &seen);
    }
    (void)printf(
        "%lu preemptions, %lu of them on loan; %lu jobs at their bound, %lu with more than "
        "one level\n",
        seen.preemptions, seen.lent, seen.at_bound, seen.nested);
    assert(seen.lent > 0 && seen.lent < seen.preemptions);
    assert(seen.at_bound > 0 && seen.nested > 0);
    return 0;
}
