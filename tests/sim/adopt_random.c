/* Nodes that take each other's mail over, at random: they accept, deliver, die, lose their disks,
 * stand still, are stopped in order, cannot commit what their log has, and return; takers fence logs of
 * nodes that are gone, and sometimes of some that are not, race for them, and die or are taken over
 * themselves in the middle. Each tells its log anew what it has, dies in that after any frame, and goes on
 * with it; servers lose the end of a log, or all of it, while its writer has his disk. The rules are those
 * of adoption.h and replica.h; frames are stored one by one, so that any batch can be cut short.
 * tests/sim/log_random has what is below: which frames count.
 *
 *   adopt_random [SEED [RUNS]]
 *
 * What must hold at the end of each run, when one node is left to take all over: each message that was
 * accepted was delivered, and no more deliveries were repeated than were without a durable result
 * when a node died or stepped down. The same runs must find each of the rules broken that are switched
 * off one by one. */
#include "engine/cluster/adoption.h"
#include "tests/chance.h"
#include "tests/sim/require.h"

#include <string.h>

enum { NODES = 4, LOGS = 60, FRAMES = 4000, MESSAGES = 64, CREDITS = 3, STEPS = 3000 };

enum fault {
    SOUND,
    ADOPTS_FROM_START, /* who goes on does not look at his mark */
    BELIEVES_ALL,      /* messages count without a mark behind them */
    CARRIES_NO_MARKS,  /* the source's own marks are forgotten */
    BELIEVES_CARRIED,  /* such marks count without the one behind them */
    TAKES_ANY,         /* a log is taken from its holder before the holder's own log was adopted */
    TRUSTS_OLD_SPOOL,  /* who returns does not ask whether it was taken over */
    CLAIMS_BLINDLY,    /* the key is set without comparing it */
    GIVES_BACK_IN_DOUBT, /* also while the own log may say what the spool does not */
    FORGETS_DOUBT,       /* a log that began in this process is held for sure also after a doubt */
    GIVES_BACK_BARE,     /* a log is given back without the mark */
    CLAIM_DROPS_MARK,    /* who takes it takes the mark out of the key */
    CLAIMS_WHEN_CLAIMED, /* who was taken over himself, and does not know it yet, takes others over */
    NOTES_AHEAD,         /* how far a retelling is, is noted before the log has it */
    PURGES_DEAD_TELLING, /* who goes on with a retelling purges what was in front of where he goes on */
    GOES_ON_BLINDLY,     /* ... does not look whether the log has what it was told */
    GOES_ON_SURE,        /* ... takes the log for sure at its end */
    FAULT_COUNT
};

static const char *const fault_names[FAULT_COUNT] = {
    "sound",
    "adopting from the start again",
    "believing what no mark covers",
    "carrying no marks over",
    "believing marks that were being carried over",
    "taking a log before its holder's",
    "going on with a spool that was taken over",
    "setting the key without comparing",
    "giving a log back while the own log is in doubt",
    "giving a log back after a doubt, as the own log began in this process",
    "giving a log back without the mark",
    "taking the mark of one that was given back out of its key",
    "taking over without a look at the own key",
    "noting how far a retelling is before the log has it",
    "going on with a retelling and purging its beginning",
    "going on with a retelling that the log has lost",
    "being sure of the log after a retelling that went on",
};

typedef uint64_t set; /* of messages; the number of one is its id */

/* What a frame says; more than one of these may be set. */
struct frame {
    uint64_t epoch;
    bool is_fence;
    bool is_told; /* of a retelling */
    set add, done;
    uint16_t source; /* log that `add` was adopted from; 0: none */
    uint16_t marked; /* log that was adopted up to `mark`; 0: none */
    uint64_t mark;
    uint16_t carried; /* log whose own mark this is, which counts with its ADOPTION_DONE; 0: none */
};

struct log {
    bool is_there; /* the stream */
    unsigned made; /* how often it was made */
    unsigned first, last;
    uint64_t epoch; /* the key; 0: there is none */
    uint16_t holder;
    uint64_t given; /* mark of who gave it back last */
    bool is_adopted, is_given;
};

/* How far a retelling is: messages below `from` are told behind `start`. */
struct retold {
    unsigned made; /* the stream; 0: none is under way */
    unsigned start;
    unsigned place; /* of the frame that was the last one when this was noted ... */
    uint64_t epoch; /* ... and that frame's */
    uint64_t from;
};

struct spool {
    uint16_t number; /* 0: none yet */
    set queue;
    uint64_t marks[LOGS]; /* messages below are adopted; ADOPTION_DONE */
    struct retold retold;
};

enum stage { IDLE, CLAIM, FENCE, READ, TAKE, END, REMOVE };

enum lack {
    WHOLE,
    LOST_TELLING, /* until a retelling is through */
    LOST_CHANGES, /* until one is that was begun since */
};

struct node {
    bool is_dead, is_still;
    enum lack lack;     /* what its log has lost, so that only its disk has it */
    struct spool spool; /* on its disk */
    /* in memory */
    bool is_open;
    bool is_new; /* the log began in this process */
    uint64_t epoch;
    set sent;      /* delivered, without a durable result */
    bool has_lost; /* this process saw the log lose what it had */
    bool is_retelling, is_doubted;
    unsigned start;  /* of the retelling */
    unsigned retold; /* log whose mark is to be told next; LOGS: messages; above: all is told */
    uint64_t told;   /* message that is to be told next */
    enum stage stage;
    uint16_t source;
    uint64_t claim; /* epoch */
    unsigned fence;
    struct spool read;
    uint64_t at, given; /* given: as the key said when it was claimed */
};

static struct world {
    uint64_t chance;
    enum fault fault;
    struct log logs[LOGS];
    uint16_t numbers; /* given */
    unsigned ids;     /* given */
    set accepted;
    unsigned delivered[MESSAGES], allowed;
    struct node nodes[NODES];
    bool is_end;
} w;

static struct frame frames[LOGS][FRAMES];

static struct {
    uint64_t runs, adoptions, interrupted, given, returns, refused, repeats, allowed, dropped;
    uint64_t retellings, gone_on, lost_ends;
} totals;

static unsigned draw(unsigned below)
{
    return (unsigned)(chance_next(&w.chance) % below);
}

static set bit(uint64_t id)
{
    return (set)1 << id;
}

/* Those of a set from this message on. */
static set from(set s, uint64_t id)
{
    return id >= MESSAGES ? 0 : s & ~(bit(id) - 1);
}

static unsigned first_of(set s)
{
    return (unsigned)__builtin_ctzll(s);
}

/* What becomes of a node's memory: deliveries without a result may be repeated. */
static void forget(struct node *n)
{
    w.allowed += (unsigned)__builtin_popcountll(n->sent);
    n->sent = 0;
    n->is_open = n->is_new = false;
    totals.interrupted += n->stage != IDLE;
    n->stage = IDLE;
    n->is_retelling = n->has_lost = false;
    n->retold = 0;
}

/* The spool is void: another one, empty, takes its place. */
static void set_aside(struct node *n)
{
    forget(n);
    n->spool = (struct spool){.number = 0};
}

static struct frame *append(uint16_t log, const struct frame *f)
{
    struct log *l = &w.logs[log];
    REQUIRE(l->is_there && l->last + 1 < FRAMES);
    frames[log][++l->last] = *f;
    return &frames[log][l->last];
}

/* One frame of the node's own log. false: somebody else has it, and the node steps down */
static bool ship(struct node *n, struct frame f)
{
    struct log *l = &w.logs[n->spool.number];
    f.epoch = n->epoch;
    uint64_t newest = 0;
    for (unsigned i = l->first; i <= l->last; i++) {
        uint64_t epoch = frames[n->spool.number][i].epoch;
        newest = epoch > newest ? epoch : newest;
    }
    if (!l->is_there || newest > n->epoch) {
        totals.refused++;
        set_aside(n);
        return false;
    }
    (void)append(n->spool.number, &f);
    return true;
}

/* Dies between two frames, or between frames and commit. */
static bool dies(struct node *n)
{
    if (w.is_end || draw(12) != 0) {
        return false;
    }
    n->is_dead = true;
    forget(n);
    if (draw(3) == 0 && n->lack == WHOLE) {
        n->spool = (struct spool){.number = 0};
    }
    return true;
}

/* The frames of a batch are there, but it could not be committed; the process goes on, and tells all anew,
 * at once or, for want of room, when the retelling under way is through. */
static bool is_in_doubt(struct node *n)
{
    if (w.is_end || draw(12) != 0) {
        return false;
    }
    n->is_doubted = true;
    if (!n->is_retelling || draw(2) == 0) {
        n->is_retelling = false;
        n->retold = 0;
    }
    n->is_new = n->is_new && w.fault == FORGETS_DOUBT;
    return true;
}

/* Before the fence: whether the log has what the noted retelling had told. */
static bool may_go_on(const struct node *n)
{
    const struct log *l = &w.logs[n->spool.number];
    const struct retold *r = &n->spool.retold;
    if (r->made == 0 || n->has_lost || w.fault == GOES_ON_BLINDLY) {
        return r->made != 0 && !n->has_lost;
    }
    return l->is_there && l->made == r->made && l->first <= r->start && r->place <= l->last &&
           frames[n->spool.number][r->place].epoch == r->epoch;
}

static void open_log(struct node *n)
{
    if (n->spool.number == 0) {
        if (w.numbers + 1 >= LOGS) {
            return;
        }
        n->spool.number = ++w.numbers;
        n->is_new = true;
    }
    struct log *l = &w.logs[n->spool.number];
    if (l->epoch != 0 && l->holder != n->spool.number && w.fault != TRUSTS_OLD_SPOOL) {
        totals.returns++;
        set_aside(n);
        return;
    }
    bool goes_on = may_go_on(n);
    l->holder = n->spool.number;
    n->epoch = ++l->epoch;
    if (!l->is_there) {
        l->is_there = true;
        l->made++;
        l->first = 1;
        l->last = 0;
    }
    (void)append(n->spool.number, &(struct frame){.epoch = n->epoch, .is_fence = true});
    n->is_open = true;
    n->has_lost = false;
    n->is_retelling = goes_on;
    n->is_doubted = w.fault != GOES_ON_SURE;
    n->start = w.fault == PURGES_DEAD_TELLING ? l->last : n->spool.retold.start;
    n->told = n->spool.retold.from;
    n->retold = 0;
    totals.gone_on += goes_on;
}

/* A commit that notes how far the retelling is. */
static void note(struct node *n, uint64_t from)
{
    const struct log *l = &w.logs[n->spool.number];
    n->spool.retold = (struct retold){.made = l->made,
                                      .start = n->start,
                                      .place = l->last,
                                      .epoch = frames[n->spool.number][l->last].epoch,
                                      .from = from};
}

static void end_retelling(struct node *n)
{
    struct log *l = &w.logs[n->spool.number];
    unsigned start = n->start < l->last ? n->start : l->last; /* nobody purges his own last frame */
    l->first = start > l->first ? start : l->first;
    n->lack = n->is_doubted && n->lack == LOST_CHANGES ? LOST_CHANGES : WHOLE;
    n->is_retelling = false;
    n->retold = n->is_doubted ? 0 : LOGS + 1; /* after a doubt all is told once more */
    if (draw(2) == 0) {
        n->spool.retold.made = 0;
    } /* else: it dies before that commit, or the next retelling comes first */
    totals.retellings++;
}

/* All that the spool has is told to the log anew: a mark at a time, then a message at a time; what was in
 * front of that is purged. */
static void retell(struct node *n)
{
    if (!n->is_retelling) {
        n->is_retelling = true;
        n->is_doubted = false;
        n->start = w.logs[n->spool.number].last + 1;
        n->told = 0;
    }
    for (; n->retold < LOGS; n->retold++) {
        uint64_t mark = n->spool.marks[n->retold];
        if (mark != 0) {
            struct frame f = {.is_told = true, .marked = (uint16_t)n->retold, .mark = mark};
            n->retold += ship(n, f) && !dies(n) ? 1 : 0;
            return;
        }
    }
    set left = from(n->spool.queue, n->told);
    if (left == 0) {
        if (ship(n, (struct frame){.is_told = true})) { /* else it may be another's by now */
            end_retelling(n);
        }
        return;
    }
    unsigned id = first_of(left);
    bool is_noted = draw(3) == 0;
    if (is_noted && w.fault == NOTES_AHEAD) {
        note(n, id + 1);
    }
    if (dies(n) || !ship(n, (struct frame){.is_told = true, .add = bit(id)}) || dies(n)) {
        return;
    }
    n->told = id + 1;
    if (is_noted) {
        note(n, n->told);
    }
}

/* The servers lose the end of a log, or all of it, while only its writer has to do with it. */
static void lose_end(struct node *n)
{
    uint16_t number = n->spool.number;
    struct log *l = &w.logs[number];
    bool is_free = number != 0 && l->is_there && l->holder == number && !l->is_adopted;
    for (unsigned i = 0; i < NODES; i++) {
        is_free = is_free && (w.nodes[i].stage == IDLE || w.nodes[i].source != number);
    }
    if (!is_free) {
        return;
    }
    for (unsigned lost = draw(l->last - l->first + 2); lost > 0; lost--) {
        const struct frame *f = &frames[number][l->last--];
        enum lack lack = f->is_told || f->is_fence ? LOST_TELLING : LOST_CHANGES;
        n->lack = lack > n->lack ? lack : n->lack;
    }
    l->is_there = l->last >= l->first; /* false: the stream itself */
    n->is_open = n->is_retelling = n->is_new = false;
    n->has_lost = !n->is_dead;
    totals.lost_ends++;
}

static void accept_one(struct node *n)
{
    if (w.ids >= MESSAGES || w.is_end) {
        return;
    }
    set one = bit(w.ids++);
    if (ship(n, (struct frame){.add = one}) && !dies(n) && !is_in_doubt(n)) {
        n->spool.queue |= one;
        w.accepted |= one;
    }
}

static void deliver(struct node *n)
{
    set waits = n->spool.queue & ~n->sent;
    if (waits != 0 && __builtin_popcountll(n->sent) < CREDITS) {
        unsigned id = first_of(waits);
        w.delivered[id]++;
        n->sent |= bit(id);
    }
}

static void store_results(struct node *n)
{
    set sent = n->sent;
    if (sent != 0 && ship(n, (struct frame){.done = sent}) && !dies(n) && !is_in_doubt(n)) {
        n->spool.queue &= ~sent;
        n->sent = 0;
    }
}

/* --- taking over ------------------------------------------------------------------------------ */

static bool is_run(uint16_t number)
{
    for (unsigned i = 0; i < NODES; i++) {
        const struct node *n = &w.nodes[i];
        if (n->spool.number == number && !n->is_dead && !n->is_still) {
            return true;
        }
    }
    return false;
}

/* What its log has lost is nowhere but on its disk, so nothing can be promised until it has told it. */
static bool is_bare(uint16_t number)
{
    bool is_any = false;
    for (unsigned i = 0; i < NODES; i++) {
        is_any = is_any || (w.nodes[i].spool.number == number && w.nodes[i].lack != WHOLE);
    }
    return is_any;
}

static void choose(struct node *n)
{
    uint16_t log = (uint16_t)(1 + draw(w.numbers));
    struct log *l = &w.logs[log];
    const struct adoption_case c = {
        .log = log,
        .holder = l->holder,
        .is_adopted = l->is_adopted,
        .is_given = l->is_given,
        .is_gone = !is_run(l->holder) || (!w.is_end && draw(20) == 0),
        .has_adopted_holder = n->spool.marks[l->holder] == ADOPTION_DONE ||
                              (w.fault == TAKES_ANY && !is_run(l->holder)),
    };
    if (l->epoch == 0 || is_bare(l->holder) || !adoption_may_take(&c, n->spool.number)) {
        return;
    }
    n->source = log;
    n->claim = l->epoch + 1;
    n->stage = CLAIM;
}

/* The own key is looked at, and the other one, as it was seen a while ago, compared and set. */
static void claim(struct node *n)
{
    struct log *l = &w.logs[n->source];
    if (w.logs[n->spool.number].holder != n->spool.number && w.fault != CLAIMS_WHEN_CLAIMED) {
        set_aside(n);
        return;
    }
    if (l->epoch + 1 != n->claim && w.fault != CLAIMS_BLINDLY) {
        n->stage = IDLE;
        return;
    }
    l->epoch = n->claim > l->epoch ? n->claim : l->epoch;
    l->holder = n->spool.number;
    l->is_given = false;
    n->given = l->given;
    l->given = w.fault == CLAIM_DROPS_MARK ? 0 : l->given;
    n->stage = FENCE;
    (void)dies(n);
}

static void fence(struct node *n)
{
    struct log *l = &w.logs[n->source];
    if (l->is_there) {
        (void)append(n->source, &(struct frame){.epoch = n->claim, .is_fence = true});
    }
    n->fence = l->last;
    n->stage = READ;
}

static void learn(struct spool *s, uint16_t log, uint64_t mark)
{
    s->marks[log] = mark > s->marks[log] ? mark : s->marks[log];
}

/* Receptions less results, and marks. */
static void read_log(struct node *n)
{
    struct log *l = &w.logs[n->source];
    struct spool *s = &n->read;
    uint64_t epoch = 0;
    set unsure[LOGS] = {0};
    static uint64_t carried[LOGS][LOGS];
    memset(carried, 0, sizeof(carried));
    *s = (struct spool){.number = n->source};
    for (unsigned i = l->first; l->is_there && i <= n->fence; i++) {
        const struct frame *f = &frames[n->source][i];
        epoch = f->is_fence && f->epoch > epoch ? f->epoch : epoch;
        epoch = epoch == 0 ? f->epoch : epoch;
        if (f->epoch != epoch || f->is_fence) {
            continue;
        }
        unsure[f->source] |= f->add & ~s->queue;
        s->queue |= f->add;
        if (f->source == 0) {
            for (unsigned k = 0; k < LOGS; k++) {
                unsure[k] &= ~f->add;
            }
        }
        if (f->marked != 0 && (f->carried == 0 || w.fault == BELIEVES_CARRIED)) {
            learn(s, f->marked, f->mark);
            unsure[f->marked] = from(unsure[f->marked], f->mark);
        } else if (f->marked != 0) {
            carried[f->carried][f->marked] = f->mark;
        }
        for (uint16_t k = 1; f->marked != 0 && f->mark == ADOPTION_DONE && k < LOGS; k++) {
            learn(s, k, f->carried == 0 ? carried[f->marked][k] : 0);
        }
        s->queue &= ~f->done;
    }
    for (unsigned k = 1; k < LOGS && w.fault != BELIEVES_ALL; k++) {
        totals.dropped += (unsigned)__builtin_popcountll(s->queue & unsure[k]);
        s->queue &= ~unsure[k];
    }
    n->at = w.fault == ADOPTS_FROM_START ? 0 : n->spool.marks[n->source];
    n->at = n->given > n->at ? n->given : n->at;
    n->stage = TAKE;
}

/* A batch of one or two messages; the mark is in the last frame. */
static void take(struct node *n)
{
    set left = from(n->read.queue, n->at), batch = 0;
    uint64_t mark = n->at;
    for (unsigned count = 1 + draw(2); count > 0 && left != 0; count--) {
        set one = bit(first_of(left));
        mark = first_of(left) + 1;
        left &= ~one;
        batch |= one;
        bool is_last = count == 1 || left == 0;
        struct frame f = {.add = one, .source = n->source};
        f.marked = is_last ? n->source : 0;
        f.mark = is_last ? mark : 0;
        if (!ship(n, f) || dies(n)) {
            return;
        }
    }
    if (batch == 0) {
        n->stage = END;
        return;
    }
    if (is_in_doubt(n)) {
        return;
    }
    n->spool.queue |= batch;
    n->spool.marks[n->source] = n->at = mark;
}

/* The source's own marks, and that it is done: frames one by one, one commit. */
static void end(struct node *n)
{
    struct spool next = n->spool;
    for (unsigned k = 1; k < LOGS && w.fault != CARRIES_NO_MARKS; k++) {
        if (n->read.marks[k] > next.marks[k]) {
            next.marks[k] = n->read.marks[k];
            const struct frame f = {
                .marked = (uint16_t)k, .mark = next.marks[k], .carried = n->source};
            if (!ship(n, f) || dies(n)) {
                return;
            }
        }
    }
    next.marks[n->source] = ADOPTION_DONE;
    if (ship(n, (struct frame){.marked = n->source, .mark = ADOPTION_DONE}) && !dies(n) &&
        !is_in_doubt(n)) {
        n->spool = next;
        n->stage = REMOVE;
        totals.adoptions++;
    }
}

static void remove_log(struct node *n)
{
    struct log *l = &w.logs[n->source];
    n->stage = IDLE;
    if (l->epoch == n->claim && l->holder == n->spool.number) {
        l->is_there = false;
        if (!dies(n)) {
            l->is_adopted = true;
        }
    }
}

static void work(struct node *n)
{
    switch (n->stage) {
    case IDLE:
        choose(n);
        break;
    case CLAIM:
        claim(n);
        break;
    case FENCE:
        fence(n);
        break;
    case READ:
        read_log(n);
        break;
    case TAKE:
        take(n);
        break;
    case END:
        end(n);
        break;
    case REMOVE:
        remove_log(n);
        break;
    }
}

/* Stopped in order: nothing is without a result, and logs that are not adopted to the end are given
 * back; a process that dies meanwhile has not done all of that. */
static void stop(struct node *n)
{
    for (unsigned k = 1; k <= w.numbers; k++) {
        struct log *l = &w.logs[k];
        bool is_unsure = !n->is_new && n->retold <= LOGS && w.fault != GIVES_BACK_IN_DOUBT;
        uint64_t mark = w.fault == GIVES_BACK_BARE ? 0 : n->spool.marks[k];
        bool is_held = !l->is_given &&
                       (l->holder == n->spool.number || n->spool.marks[l->holder] == ADOPTION_DONE);
        if (is_unsure || k == n->spool.number || l->is_adopted ||
            n->spool.marks[k] == ADOPTION_DONE || !is_held) {
            continue;
        }
        if (dies(n)) {
            return;
        }
        l->epoch++;
        l->is_given = true;
        l->given = mark > l->given ? mark : l->given;
        totals.given++;
    }
    n->is_dead = true;
    forget(n);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void act(struct node *n)
{
    unsigned what = draw(10);
    if (!n->is_open) {
        open_log(n);
    } else if (n->retold <= LOGS && draw(2) == 0) {
        retell(n);
    } else if (what < 2) {
        accept_one(n);
    } else if (what < 4) {
        deliver(n);
    } else if (what < 5) {
        store_results(n);
    } else {
        work(n);
    }
}

static void step(void)
{
    struct node *n = &w.nodes[draw(NODES)];
    unsigned what = draw(200);
    if (n->is_dead || n->is_still) {
        if (what < 20) {
            n->is_dead = n->is_still = false;
        } else if (what < 21) {
            lose_end(n);
        }
    } else if (what < 1) {
        n->is_still = true;
    } else if (what < 2) {
        (void)dies(n);
    } else if (what < 4 && n->is_open && n->sent == 0) {
        stop(n);
    } else if (what < 5) {
        lose_end(n);
    } else {
        act(n);
    }
}

static bool is_all_done(const struct node *n)
{
    for (unsigned k = 1; k <= w.numbers; k++) {
        if (w.logs[k].epoch != 0 && !w.logs[k].is_adopted && k != n->spool.number) {
            return false;
        }
    }
    return n->spool.queue == 0 && n->sent == 0;
}

static bool run(uint64_t seed, enum fault fault)
{
    w = (struct world){.chance = seed * 0x9e3779b97f4a7c15U + 1, .fault = fault};
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    /* One is left, and has all the time that it needs. */
    w.is_end = true;
    for (unsigned i = 1; i < NODES; i++) {
        struct node *n = &w.nodes[i];
        for (unsigned k = 0; k < 4 * (LOGS + MESSAGES) && n->lack != WHOLE; k++) {
            if (n->is_open) {
                retell(n);
            } else {
                open_log(n);
            }
        }
        n->is_dead = true;
        forget(n);
    }
    w.nodes[0].is_dead = w.nodes[0].is_still = false;
    for (unsigned i = 0; i < 60000 && !is_all_done(&w.nodes[0]); i++) {
        act(&w.nodes[0]);
    }
    unsigned repeats = 0;
    bool is_sound = true;
    for (unsigned id = 0; id < w.ids; id++) {
        is_sound = is_sound && ((w.accepted & bit(id)) == 0 || w.delivered[id] > 0);
        repeats += w.delivered[id] > 1 ? w.delivered[id] - 1 : 0;
    }
    if (fault == SOUND) {
        REQUIRE(is_all_done(&w.nodes[0]));
        totals.runs++;
        totals.repeats += repeats;
        totals.allowed += w.allowed;
    }
    return is_sound && repeats <= w.allowed && is_all_done(&w.nodes[0]);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    bool is_found = true;
    for (uint64_t i = 0; i < runs; i++) {
        if (!run(seed + i, SOUND)) {
            (void)fprintf(stderr, "adopt_random %llu 1: mail was lost, or delivered too often\n",
                          (unsigned long long)(seed + i));
            return 1;
        }
    }
    const struct {
        uint64_t number;
        const char *what;
    } lines[] = {
        {totals.runs, "runs"},
        {totals.adoptions, "logs adopted"},
        {totals.interrupted, "adoptions interrupted"},
        {totals.given, "logs given back"},
        {totals.returns, "spools set aside"},
        {totals.refused, "frames refused"},
        {totals.dropped, "messages dropped for want of a mark"},
        {totals.retellings, "retellings"},
        {totals.gone_on, "of them gone on with"},
        {totals.lost_ends, "ends of logs lost"},
        {totals.repeats, "deliveries repeated"},
        {totals.allowed, "allowed"},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        (void)printf("%llu %s, ", (unsigned long long)lines[i].number, lines[i].what);
    }
    (void)printf("sound\n");
    for (enum fault f = SOUND + 1; f < FAULT_COUNT; f++) {
        uint64_t unsound = 0;
        for (uint64_t i = 0; i < runs; i++) {
            unsound += !run(seed + i, f);
        }
        (void)printf("%s: unsound in %llu of %llu\n", fault_names[f], (unsigned long long)unsound,
                     (unsigned long long)runs);
        is_found = is_found && unsound > 0;
    }
    return is_found ? 0 : 1;
}
