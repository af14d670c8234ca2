/* Dialogues of the SMTP client core with a hostile peer (smtp_hostile.h says how), held against
 * what the peer took: nothing is reported delivered that it did not take, nothing that it took is
 * sent again unmarked, every transaction has its verdicts exactly once, and nothing stalls.
 *
 * Usage: smtp_random [DIALOGUES [SEED]]; a failure prints the seed of its dialogue. */
#include "net/smtp_client.h"
#include "tests/sim/require.h"
#include "tests/sim/smtp_hostile.h"
#include "tests/sim/smtp_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BODIES 64
#define BODY   4 /* bytes */

struct fate {
    enum outcome_class class[HOSTILE_RECIPIENTS];
    bool is_decided[HOSTILE_RECIPIENTS];
    bool is_marked, is_returned, is_over;
    struct view_moment told[HOSTILE_RECIPIENTS], done; /* when its verdict came, and when its end */
    uint32_t count;
};

struct queued_body {
    uint64_t position;
    unsigned left, number;
    bool is_chunk, is_sent;
};

struct world {
    struct smtp_client_config config;
    struct smtp_client client;
    struct hostile peer;
    struct view view;
    struct fate fates[HOSTILE_MESSAGES];
    struct slice recipients[HOSTILE_RECIPIENTS];
    char senders[HOSTILE_MESSAGES][8];
    struct queued_body bodies[BODIES];
    unsigned body_first, body_count, wanted, delivered;
    unsigned
        stalled_at; /* delivered by then: the depth is what the client makes of it until the next */
    uint64_t taken; /* bytes of out */
    struct view_moment read;
    bool is_closed;
    usec_t now;
};

static unsigned long losses, repeats, open_count;

static void decide(struct world *w, uint32_t number, uint32_t i, const struct outcome_verdict *v)
{
    struct fate *f = &w->fates[number];
    REQUIRE(i < f->count && !f->is_decided[i] && !f->is_over);
    f->is_decided[i] = true;
    f->class[i] = v->class;
    f->is_marked = f->is_marked || v->is_ambiguous;
    f->told[i] = w->read;
}

static void on_event(struct world *w, const struct smtp_client_event *e)
{
    struct fate *f = &w->fates[e->transaction < HOSTILE_MESSAGES ? e->transaction : 0];
    struct queued_body *last = &w->bodies[(w->body_first + w->body_count - 1) % BODIES];
    REQUIRE(!w->is_closed);
    switch (e->kind) {
    case SMTP_CLIENT_WANT_BODY:
        REQUIRE(w->body_count < BODIES);
        w->bodies[(w->body_first + w->body_count++) % BODIES] =
            (struct queued_body){.position = w->taken + w->client.out.len,
                                 .left = BODY,
                                 .number = e->transaction,
                                 .is_chunk = e->is_chunk};
        break;
    case SMTP_CLIENT_STOP_BODY:
        REQUIRE(w->body_count > 0 && last->number == e->transaction);
        w->body_count--;
        break;
    case SMTP_CLIENT_RECIPIENT:
        decide(w, e->transaction, e->index, e->verdict);
        break;
    case SMTP_CLIENT_REST:
        for (uint32_t i = 0; i < f->count; i++) {
            if (!f->is_decided[i]) {
                decide(w, e->transaction, i, e->verdict);
            }
        }
        w->delivered += e->verdict->class == OUTCOME_SUCCESS ? 1 : 0;
        break;
    case SMTP_CLIENT_DONE:
    case SMTP_CLIENT_RETURNED:
        REQUIRE(!f->is_over);
        f->is_over = true;
        f->done = w->read;
        f->is_returned = e->kind == SMTP_CLIENT_RETURNED;
        f->is_marked = f->is_marked || e->is_doubtful;
        for (uint32_t i = 0; i < f->count; i++) {
            REQUIRE(f->is_decided[i] != f->is_returned);
        }
        break;
    case SMTP_CLIENT_CLOSED:
        w->is_closed = true;
        break;
    case SMTP_CLIENT_NONE:
    case SMTP_CLIENT_WANT_TLS:
    case SMTP_CLIENT_READY:
    case SMTP_CLIENT_FAILED:
    case SMTP_CLIENT_EVENT_COUNT:
        break;
    }
}

static void pull(struct world *w)
{
    struct smtp_client_event e;
    while (smtp_client_next_event(&w->client, &e)) {
        on_event(w, &e);
    }
}

static void start(struct world *w)
{
    uint32_t number = w->client.transactions;
    if (w->is_closed || number >= w->wanted || !smtp_client_can_start(&w->client)) {
        return;
    }
    w->fates[number].count = hostile_recipients(&w->peer, number);
    const struct smtp_transaction t = {.sender = slice_of(w->senders[number]),
                                       .recipients = w->recipients,
                                       .recipient_count = w->fates[number].count,
                                       .size_bytes = BODY};
    REQUIRE(smtp_client_start(&w->client, &t, w->now) == 0);
    pull(w);
}

/* Somebody lost patience with the peer: nothing more is started until it has answered. */
static void stall(struct world *w)
{
    bool has_message = smtp_client_in_flight(&w->client) > 0;
    REQUIRE(has_message || smtp_client_stalls_at(&w->client) == USEC_NEVER);
    if (!w->is_closed && has_message && smtp_client_stalls_at(&w->client) != USEC_NEVER) {
        smtp_client_stall(&w->client);
        REQUIRE(!smtp_client_can_start(&w->client));
        w->stalled_at = w->delivered;
    }
}

static void send_body(struct world *w)
{
    struct queued_body *b = &w->bodies[(w->body_first + w->body_count - 1) % BODIES];
    if (!w->is_closed && w->body_count > 0 && !b->is_sent) {
        b->is_sent = true;
        smtp_client_body_sent(&w->client, w->now);
        pull(w);
    }
}

static void hand_over(struct world *w, size_t max)
{
    if (w->is_closed) {
        return;
    }
    struct queued_body *b = w->body_count > 0 ? &w->bodies[w->body_first % BODIES] : NULL;
    uint64_t until = b != NULL ? b->position : w->taken + w->client.out.len;
    if (w->taken < until) {
        size_t n = until - w->taken < max ? (size_t)(until - w->taken) : max;
        hostile_hear(&w->peer, slice_make(w->client.out.data, n));
        view_hand_over(&w->view, slice_make(w->client.out.data, n));
        smtp_client_consume(&w->client, n);
        w->taken += n;
    } else if (b != NULL) {
        /* The client is told that a body is complete before its last byte leaves. */
        unsigned left = b->left - (b->is_sent ? 0 : 1);
        unsigned n = left < max ? left : (unsigned)max;
        hostile_hear(&w->peer, slice_make(&"ab\r\n"[BODY - b->left], n));
        b->left -= n;
        smtp_client_body_progress(&w->client, n, w->now);
        if (b->left == 0 && b->is_sent) {
            if (b->is_chunk) {
                view_end_chunk(&w->view);
            }
            w->body_first = (w->body_first + 1) % BODIES;
            w->body_count--;
        }
    }
}

/* The client reads at most max bytes, then the end of the stream or a reset when that is next. */
static void read_replies(struct world *w, size_t max)
{
    struct slice all = hostile_says(&w->peer);
    size_t n = all.len < max ? all.len : max;
    struct slice in = slice_to(all, n);
    w->read.seen = w->peer.read + n;
    view_read(&w->view, &w->peer, w->read.seen);
    while (in.len > 0 && !w->is_closed) {
        smtp_client_input(&w->client, &in, w->now);
        w->read.taken = w->peer.read + (n - in.len);
        pull(w);
    }
    w->peer.read += n;
    if (!w->is_closed && n == all.len && w->peer.has_left) {
        w->view.has_fin = !w->peer.is_reset;
        if (w->peer.is_reset) {
            smtp_client_io_error(&w->client, ECONNRESET, w->now);
        } else {
            smtp_client_eof(&w->client, w->now);
        }
        pull(w);
    }
}

static void begin(struct world *w, uint64_t seed)
{
    static const uint16_t depths[] = {1, 2, 3, 5, 16};
    static const struct smtp_client_peer peer = {
        .host = SLICE("mx"), .address = SLICE("::1"), .nexthop = SLICE("b"), .port = 25};
    hostile_init(&w->peer, seed);
    smtp_client_config_defaults(&w->config);
    w->config.pipeline_depth = depths[hostile_draw(&w->peer, 5)];
    w->config.chunk_wait = hostile_draw(&w->peer, 8) == 0 ? 1 : 1000;
    w->wanted = 1 + hostile_draw(&w->peer, HOSTILE_MESSAGES);
    w->now = USEC_PER_SEC;
    for (unsigned i = 0; i < HOSTILE_RECIPIENTS; i++) {
        w->recipients[i] = SLICE("r@b");
    }
    for (unsigned i = 0; i < HOSTILE_MESSAGES; i++) {
        (void)snprintf(w->senders[i], sizeof(w->senders[i]), "s%u@a", i);
    }
    smtp_client_init(&w->client, &w->config, &peer, w->now);
}

static void check(struct world *w)
{
    for (uint32_t m = 0; m < w->client.transactions; m++) {
        const struct fate *f = &w->fates[m];
        REQUIRE(f->is_over);
        for (uint32_t i = 0; i < f->count; i++) {
            bool is_taken = (w->peer.taken[m] >> i & 1) != 0;
            bool is_delivered = !f->is_returned && f->class[i] == OUTCOME_SUCCESS;
            bool is_again = f->is_returned || f->class[i] == OUTCOME_SOFT;
            bool is_wrong = is_taken ? is_again && !f->is_marked : is_delivered;
            if (!is_wrong) {
                continue;
            }
            struct view_moment when = is_taken ? f->done : f->told[i];
            unsigned long *count = is_taken ? &repeats : &losses;
            if (view_explains(&w->view, &w->peer, when, m, i, is_delivered)) {
                (*count)++;
            } else {
                open_count++;
                (void)fprintf(stderr, "seed %lu: recipient %u of message %u, %s; at %lu of %lu\n",
                              hostile_seed, i, m,
                              is_taken ? "taken, and sent again unmarked"
                                       : "delivered, but not taken",
                              when.taken, when.seen);
                view_print(&w->view, &w->peer);
            }
        }
    }
}

static void dialogue(uint64_t seed)
{
    static struct world w;
    memset(&w, 0, sizeof(w));
    begin(&w, seed);
    bool is_slow = hostile_draw(&w.peer, 2) == 0;
    for (unsigned step = 0; !w.is_closed; step++) {
        unsigned action = hostile_draw(&w.peer, 10);
        size_t max = is_slow ? 1 + hostile_draw(&w.peer, 60) : 100000;
        if (action == 0) {
            start(&w);
        } else if (action < 3) {
            send_body(&w);
        } else if (action < 6) {
            hand_over(&w, max);
        } else if (action < 8) {
            hostile_step(&w.peer);
        } else {
            read_replies(&w, max);
        }
        if (seed % 4 == 0 && step % 16 == seed / 4 % 16) {
            stall(&w);
        }
        if (w.client.pace.depth < 16 && w.delivered > w.stalled_at) {
            w.client.pace.depth = 16; /* as far away as can be */
        }
        bool is_idle = w.client.state == SMTP_CLIENT_STATE_IDLE;
        if (!w.is_closed && is_idle && w.client.transactions == w.wanted &&
            hostile_draw(&w.peer, 4) == 0) {
            smtp_client_quit(&w.client, w.now);
            pull(&w);
        } else if (!w.is_closed && step > 3000 + 40000 * (is_slow ? 1 : 0)) {
            /* Nothing moves: something is awaited, and its time runs out. */
            usec_t deadline = smtp_client_deadline(&w.client);
            REQUIRE(deadline != USEC_NEVER || is_idle);
            w.now = deadline != USEC_NEVER ? deadline : w.now;
            if (is_idle) {
                smtp_client_eof(&w.client, w.now);
            } else {
                smtp_client_timeout(&w.client, w.now);
            }
            pull(&w);
            REQUIRE(step < 200000);
        }
    }
    hostile_finish(&w.peer);
    check(&w);
    smtp_client_fini(&w.client);
    hostile_fini(&w.peer);
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : getenv("SLUICE_DIALOGUES");
    unsigned long count = wanted != NULL ? strtoul(wanted, NULL, 10) : 20000;
    unsigned long first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    for (unsigned long seed = first; seed < first + count; seed++) {
        hostile_seed = seed;
        dialogue(seed);
    }
    (void)printf("%lu dialogues, %lu deviations; wrong where no client could know: %lu losses, %lu "
                 "repeats; open: %lu\n",
                 count, hostile_deviations, losses, repeats, open_count);
    (void)fflush(stdout);
    REQUIRE(open_count == 0);
    return 0;
}
