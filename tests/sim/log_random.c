/* A node's log under random take-overs: writers that keep frames under way, a stream with compare by
 * last sequence, requests and answers that are lost, doubled, late and out of order, writers that
 * stand still, and takers that fence them. The rules are the real ones (log_prefix.c).
 *
 *   log_random [SEED [RUNS]]
 *
 * What must hold in each run: what a writer acknowledged counts for every reader, also for one who
 * begins where the log was purged; frames of a writer count in their order, each once; every writer
 * but the last learns that it was fenced, unless it has nothing under way; and once nothing is lost
 * any more the last one gets all through. The same runs must find two faults that are put in:
 * acknowledging what the server says of a single frame, and reading every frame of a node as one
 * that counts. */
#include "engine/cluster/log_prefix.h"
#include "tests/chance.h"
#include "tests/sim/require.h"

#include <string.h>

enum { WRITERS = 5, FRAMES = 60, PLACES = 1024, REQUESTS = 128 };

enum request_kind { WRITE, LOOK };

/* Under way to the server, or back. */
struct request {
    enum request_kind kind;
    unsigned writer;
    bool is_answer, is_fine; /* stored, or something lies there */
    uint64_t place, last;
    struct log_frame_id id; /* WRITE: what is written; LOOK: what was found */
};

struct writer {
    bool is_begun, is_still;
    struct log_prefix prefix;
    bool is_acknowledged[FRAMES + 1]; /* by its own word, to those who wait */
    uint64_t purged;
};

struct world {
    uint64_t chance;
    bool acknowledges_alone; /* the fault: the server's word for one frame is enough */
    bool loses;              /* messages, now */
    uint64_t last, purged;   /* sequences of the stream; what is purged stays to be judged */
    struct log_frame_id stream[PLACES];
    unsigned writers; /* begun */
    struct writer writer[WRITERS];
    unsigned requests;
    struct request request[REQUESTS];
};

static struct {
    uint64_t runs, frames, refused, lost, fences, voids, acknowledged;
} totals;

static unsigned draw(struct world *w, unsigned below)
{
    return (unsigned)(chance_next(&w->chance) % below);
}

static void put(struct world *w, const struct request *r)
{
    if (w->requests < REQUESTS) {
        w->request[w->requests++] = *r;
    } /* else: lost */
}

/* Appends, as the server does it. */
static bool store(struct world *w, uint64_t place, const struct log_frame_id *id)
{
    if (place != w->last + 1 || place >= PLACES) {
        return false;
    }
    w->stream[++w->last] = *id;
    return true;
}

static void send_frame(struct world *w, unsigned number, uint64_t serial)
{
    const struct log_prefix *p = &w->writer[number].prefix;
    put(w, &(struct request){.kind = WRITE,
                             .writer = number,
                             .place = log_prefix_place(p, serial),
                             .id = {.epoch = p->epoch, .serial = serial}});
}

static void send_all(struct world *w, unsigned number)
{
    const struct log_prefix *p = &w->writer[number].prefix;
    for (uint64_t serial = p->acknowledged + 1; serial <= p->sent; serial++) {
        send_frame(w, number, serial);
    }
}

static void look(struct world *w, unsigned number)
{
    const struct log_prefix *p = &w->writer[number].prefix;
    put(w, &(struct request){.kind = LOOK, .writer = number, .place = p->prefix + 1});
}

/* The next writer reads to the end and fences whoever has the log; when that fails it tries later. */
static void take_over(struct world *w)
{
    struct log_frame_id fence = {.epoch = w->writers + 1};
    if (w->writers < WRITERS && store(w, w->last + 1, &fence)) {
        struct writer *next = &w->writer[w->writers++];
        next->is_begun = true;
        log_prefix_init(&next->prefix, fence.epoch, w->last);
        totals.fences++;
    }
}

static void acknowledge(struct writer *writer, uint64_t serial)
{
    if (!writer->is_acknowledged[serial]) {
        writer->is_acknowledged[serial] = true;
        totals.acknowledged++;
    }
}

static void acknowledge_prefix(struct world *w, struct writer *writer)
{
    for (uint64_t serial = 1; serial <= writer->prefix.acknowledged; serial++) {
        acknowledge(writer, serial);
    }
    writer->purged = log_prefix_purge(&writer->prefix, 0);
    if (writer->prefix.mode != LOG_FENCED && writer->purged > w->purged && draw(w, 10) == 0) {
        w->purged = writer->purged;
    }
}

static void serve(struct world *w, struct request *r)
{
    r->is_answer = true;
    if (r->kind == WRITE) {
        r->is_fine = store(w, r->place, &r->id);
        totals.refused += !r->is_fine;
    } else {
        r->is_fine = r->place <= w->last && r->place > w->purged;
        r->last = w->last;
        r->id = r->is_fine ? w->stream[r->place] : r->id;
    }
}

static void answer(struct world *w, const struct request *r)
{
    struct writer *writer = &w->writer[r->writer];
    struct log_prefix *p = &writer->prefix;
    enum log_mode before = p->mode;
    if (r->kind == WRITE && r->is_fine) {
        log_prefix_stored(p, r->id.serial, r->place);
        if (w->acknowledges_alone && before != LOG_FENCED) {
            acknowledge(writer, r->id.serial);
        }
    } else if (r->kind == WRITE) {
        log_prefix_refused(p, r->id.serial, r->place);
    } else if (r->is_fine) {
        log_prefix_found(p, r->place, &r->id);
    } else {
        log_prefix_nothing(p, r->place, r->last);
        if (before == LOG_LOOKING && p->mode == LOG_WRITING) {
            send_all(w, r->writer);
        }
    }
    acknowledge_prefix(w, writer);
}

/* One message arrives: any of them, mostly one of the oldest. It may be lost, or come once more. */
static void deliver(struct world *w)
{
    unsigned at = draw(w, draw(w, 3) == 0 ? w->requests : (w->requests + 3) / 4);
    struct request r = w->request[at];
    if (r.is_answer && w->writer[r.writer].is_still) {
        return;
    }
    if (!w->loses || draw(w, 30) > 0) {
        memmove(&w->request[at], &w->request[at + 1],
                (--w->requests - at) * sizeof(struct request));
    }
    if (w->loses && draw(w, 12) == 0) {
        totals.lost++;
        return;
    }
    if (r.is_answer) {
        answer(w, &r);
    } else {
        serve(w, &r);
        put(w, &r);
    }
}

static void act(struct world *w, unsigned number)
{
    struct writer *writer = &w->writer[number];
    struct log_prefix *p = &writer->prefix;
    uint64_t serial;
    if (!writer->is_begun || writer->is_still) {
        return;
    }
    if (p->mode == LOG_LOOKING) {
        look(w, number);
    } else if (p->sent < FRAMES && log_prefix_next(p, &serial)) {
        totals.frames++;
        send_frame(w, number, serial);
    } else if (draw(w, 8) == 0) {
        log_prefix_doubt(p); /* its patience is over */
    }
}

static void step(struct world *w)
{
    unsigned what = draw(w, 100);
    unsigned number = draw(w, w->writers);
    if (what < 1) {
        w->writer[number].is_still = !w->writer[number].is_still;
    } else if (what < 2) {
        take_over(w);
    } else if (what < 40) {
        act(w, number);
    } else if (w->requests > 0) {
        deliver(w);
    }
}

/* Nothing is lost any more, and nobody stands still: everybody gets to know what is. */
static void settle(struct world *w)
{
    w->loses = false;
    for (unsigned i = 0; i < w->writers; i++) {
        w->writer[i].is_still = false;
    }
    for (int i = 0; i < 40000; i++) {
        act(w, draw(w, w->writers));
        if (w->requests > 0) {
            deliver(w);
        }
    }
}

/* How often a frame of a writer counts for one who reads from behind `purged`. */
static void read_log(const struct world *w, uint64_t purged, bool trusts_all,
                     uint8_t counted[WRITERS][FRAMES + 1])
{
    struct log_reader reader = {.epoch = 0};
    memset(counted, 0, WRITERS * (FRAMES + 1));
    for (uint64_t place = purged + 1; place <= w->last; place++) {
        const struct log_frame_id *id = &w->stream[place];
        enum log_verdict verdict = log_reader_take(&reader, id);
        if (id->serial > 0 && (verdict == LOG_COUNTS || trusts_all)) {
            counted[id->epoch - 1][id->serial]++;
        }
        totals.voids += verdict == LOG_VOID && purged == 0;
    }
}

static bool is_sound(struct world *w, bool trusts_all)
{
    static uint8_t all[WRITERS][FRAMES + 1], rest[WRITERS][FRAMES + 1];
    bool sound = true;
    read_log(w, 0, trusts_all, all);
    for (unsigned i = 0; i < w->writers; i++) {
        const struct writer *writer = &w->writer[i];
        for (uint64_t serial = 1; serial <= FRAMES; serial++) {
            sound &= all[i][serial] <= 1;
            sound &= !writer->is_acknowledged[serial] || all[i][serial] == 1;
            sound &= serial == 1 || all[i][serial] <= all[i][serial - 1];
        }
        /* One that begins where this writer would have purged reads the same. */
        read_log(w, writer->purged, trusts_all, rest);
        struct log_reader reader = {.epoch = 0};
        for (uint64_t place = 1; place <= w->last; place++) {
            const struct log_frame_id *id = &w->stream[place];
            if (log_reader_take(&reader, id) == LOG_COUNTS && place > writer->purged) {
                sound &= rest[id->epoch - 1][id->serial] == 1;
                rest[id->epoch - 1][id->serial] = 0;
            }
        }
        for (unsigned k = 0; k < WRITERS; k++) {
            for (uint64_t serial = 1; serial <= FRAMES; serial++) {
                sound &= rest[k][serial] == 0;
            }
        }
    }
    return sound;
}

static bool run(uint64_t seed, bool acknowledges_alone, bool trusts_all)
{
    static struct world w;
    w = (struct world){.chance = seed * 0x9e3779b97f4a7c15U + 1,
                       .acknowledges_alone = acknowledges_alone};
    take_over(&w);
    for (unsigned i = 0; i < 4000; i++) {
        w.loses = (i / 500) % 2 == 1;
        step(&w);
    }
    settle(&w);
    totals.runs++;
    for (unsigned i = 0; i < w.writers; i++) {
        const struct log_prefix *p = &w.writer[i].prefix;
        REQUIRE(p->mode != LOG_FENCED || i + 1 < w.writers);
        REQUIRE(p->mode == LOG_FENCED || i + 1 == w.writers || p->acknowledged == p->sent);
        REQUIRE(i + 1 < w.writers || p->acknowledged == FRAMES);
    }
    return is_sound(&w, trusts_all);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000, alone = 0, trusting = 0;
    for (uint64_t i = 0; i < runs; i++) {
        if (!run(seed + i, false, false)) {
            (void)fprintf(stderr, "log_random %llu 1: acknowledged frames do not count\n",
                          (unsigned long long)(seed + i));
            return 1;
        }
    }
    (void)printf("%llu runs: %llu frames, %llu acknowledged, %llu refused, %llu fences, "
                 "%llu messages lost, %llu void frames: sound\n",
                 (unsigned long long)totals.runs, (unsigned long long)totals.frames,
                 (unsigned long long)totals.acknowledged, (unsigned long long)totals.refused,
                 (unsigned long long)totals.fences, (unsigned long long)totals.lost,
                 (unsigned long long)totals.voids);
    for (uint64_t i = 0; i < runs; i++) {
        alone += !run(seed + i, true, false);
        trusting += !run(seed + i, false, true);
    }
    (void)printf("acknowledging by the server's word alone: unsound in %llu of %llu\n"
                 "reading every frame as one that counts: unsound in %llu of %llu\n",
                 (unsigned long long)alone, (unsigned long long)runs, (unsigned long long)trusting,
                 (unsigned long long)runs);
    return alone * 10 > runs && trusting * 10 > runs ? 0 : 1;
}
