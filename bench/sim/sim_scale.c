/* How fast the core works with a given number of queued jobs, and what a job costs in memory. Each
 * recipient goes to a destination at random; a message that is finished is followed by a new one,
 * so the number of jobs stays. Recipients that do not fit into the core are read when it asks.
 *
 * With sites it is measured beside a core that has the same hosts and no sites; when asked to,
 * beside one with another number of jobs. Both take turns: what else the machine does slows both. */
#include "bench/sim/sluice_sim.h"
#include "sched/sched.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_BYTES     32      /* half a cache line */
#define MOST           5000    /* recipients read at once */
#define ROUNDS_A_SLICE 1000    /* selections between two looks at the clock */
#define SLICES_A_TURN  50      /* beside other jobs: a turn finds the cache as the other left it */
#define DISTINCT_MAX   1000000 /* the largest size when all differ */
/* What is weighed to tell a recipient from its job: so many recipients that all are in memory, at a
 * destination each, of so few that these do not count. */
#define WEIGHED_JOBS         100000
#define WEIGHED_RECIPIENTS   10
#define WEIGHED_DESTINATIONS 64

/* A message of the benchmark; the handle of its job. */
struct message {
    uint64_t id;
    uint32_t size, read; /* recipients */
};

struct scale {
    long jobs, destinations, in_flight, rounds, fixed_size;
    long beside;   /* jobs of the core beside it; 0: none, or as many */
    long sites;    /* 0: each destination is one of its own, and no hosts are asked for */
    bool is_apart; /* sites give their hosts, but each destination is on its own */
    bool is_json, are_sizes_distinct;
    bool is_round_robin; /* recipients go to one destination after another, not to any */
    size_t allocated;    /* bytes asked of the host and not given back */
    uint64_t random, next_id;
    char (*names)[NAME_BYTES];
    char (*site_names)[NAME_BYTES];
    struct message *messages;  /* jobs */
    struct message **finished; /* those of `messages` that are not in the core */
    long finished_count;
    struct sched_entry **busy;
    struct sched_recipient *recipients; /* MOST */
    struct sched *sched;
    long selections, reads, submits;
    double selecting, submitting; /* seconds */
    long position, filled;        /* in `busy` */
    usec_t now;
};

/* What is printed. */
struct result {
    double operations_per_second; /* selections and reports, the reading between them included */
    double submits_per_second;
    double bytes_per_queued_job; /* of a queue of this length, its destinations included */
    double recipients_in_core;   /* a job */
    double reads;                /* a selection */
    double part;                 /* operations a second, of those of the core beside it; 0: none */
};

/* The size in front of each object; 16 bytes keep the alignment. */
static void *allocate_scale_memory(void *ctx, size_t size)
{
    struct scale *s = ctx;
    size_t *block = malloc(size + 16);
    if (block == NULL) {
        return NULL;
    }
    *block = size;
    s->allocated += size;
    return (char *)block + 16;
}

static void release_scale_memory(void *ctx, void *obj)
{
    struct scale *s = ctx;
    size_t *block = (size_t *)(void *)((char *)obj - 16);
    s->allocated -= *block;
    free(block);
}

static void release_scale_hosts(void *ctx, void *hosts)
{
}

static uint64_t next_random(struct scale *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* Processor time, so that other work on the machine does not count. */
static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t next_size(struct scale *s)
{
    if (s->fixed_size > 0) {
        return (uint32_t)s->fixed_size;
    }
    if (s->are_sizes_distinct) {
        return (uint32_t)(1 + s->next_id % DISTINCT_MAX);
    }
    double unit = (double)(next_random(s) >> 11) / (double)(UINT64_C(1) << 53);
    return (uint32_t)exp(unit * log(1000.999));
}

/* The message's next recipients, at most `limit`. */
static struct sched_message next_scale_part(struct scale *s, struct message *m, uint32_t limit)
{
    uint32_t left = m->size - m->read;
    uint32_t count = left < limit ? left : limit;
    count = count < MOST ? count : MOST;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t which = s->is_round_robin ? m->id + i : next_random(s);
        const char *name = s->names[which % (uint64_t)s->destinations];
        s->recipients[i] =
            (struct sched_recipient){slice_of(name), slice_of(name + 2), m->read + i, 0};
    }
    return (struct sched_message){.id = m->id,
                                  .handle = m,
                                  .recipients = s->recipients,
                                  .recipient_count = count,
                                  .unread_count = left - count,
                                  .more = left > count};
}

static void finish_message(struct scale *s, const struct sched_action *a)
{
    s->finished[s->finished_count++] = a->handle;
}

/* "dNUMBER.example" */
static long number_of(const struct sched_destination *d)
{
    struct slice name = sched_destination_nexthop(d);
    long number = 0;
    for (size_t i = 1; i < name.len && name.data[i] != '.'; i++) {
        number = 10 * number + (name.data[i] - '0');
    }
    return number;
}

/* The site of a destination goes by its number; each site has two hosts. */
static void resolve_destination(struct scale *s, const struct sched_action *a)
{
    uint32_t key = (uint32_t)(number_of(a->destination) % s->sites);
    struct sched_server servers[2];
    for (int i = 0; i < 2; i++) {
        servers[i] = (struct sched_server){.key_len = sizeof(key) + 1, .preference = 10};
        memcpy(servers[i].key, &key, sizeof(key));
        servers[i].key[sizeof(key)] = (uint8_t)i;
    }
    const struct sched_hosts_result r = {.destination = a->destination,
                                         .resolution = SCHED_RESOLVED,
                                         .hosts = s,
                                         .expires = USEC_NEVER,
                                         .servers = servers,
                                         .server_count = 2,
                                         .site = slice_of(s->is_apart ? "" : s->site_names[key])};
    sched_resolved(s->sched, &r, s->now);
}

/* With sites, destinations ask for their hosts as soon as they have mail. */
static void answer_questions(struct scale *s)
{
    struct sched_action a;
    while (s->sites > 0 && sched_pull_pending(s->sched, &a, s->now)) {
        if (a.kind == SCHED_RESOLVE) {
            resolve_destination(s, &a);
        } else if (a.kind == SCHED_FINISHED) {
            finish_message(s, &a);
        }
    }
}

static void submit_messages(struct scale *s)
{
    struct message *m = s->finished[--s->finished_count];
    *m = (struct message){.id = s->next_id++, .size = next_size(s)};
    struct sched_message part = next_scale_part(s, m, sched_read_limit(s->sched));
    m->read = part.recipient_count;
    if (sched_submit(s->sched, &part, s->now) != 0) {
        abort();
    }
    answer_questions(s);
}

static void read_more_of_scale(struct scale *s, const struct sched_action *a)
{
    struct message *m = a->handle;
    struct sched_message part = next_scale_part(s, m, a->wanted);
    m->read += part.recipient_count;
    s->reads++;
    if (sched_submit_more(s->sched, &part, s->now) != 0) {
        abort();
    }
}

/* Pull until an entry comes. */
static struct sched_entry *pull_entry(struct scale *s)
{
    struct sched_action a;
    while (sched_pull(s->sched, &a, s->now)) {
        if (a.kind == SCHED_DELIVER) {
            s->selections++;
            return a.entry;
        }
        if (a.kind == SCHED_READ) {
            read_more_of_scale(s, &a);
        } else if (a.kind == SCHED_FINISHED) {
            finish_message(s, &a);
        } else if (a.kind == SCHED_RESOLVE) {
            resolve_destination(s, &a);
        }
    }
    return NULL;
}

static void report_entry(struct scale *s, struct sched_entry *e)
{
    struct sched_outcome o = {.entry = e, .feedback = SCHED_POSITIVE, .connection_open = true};
    sched_report(s->sched, &o, s->now);
}

static bool parse_scale_options(struct scale *s, int argc, char **argv)
{
    const struct {
        const char *name;
        long *value;
    } numbers[] = {{"--jobs", &s->jobs},           {"--destinations", &s->destinations},
                   {"--in-flight", &s->in_flight}, {"--rounds", &s->rounds},
                   {"--size", &s->fixed_size},     {"--sites", &s->sites},
                   {"--beside", &s->beside}};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--apart") == 0) {
            s->is_json |= strcmp(argv[i], "--json") == 0;
            s->is_apart |= strcmp(argv[i], "--apart") == 0;
            continue;
        }
        long *target = NULL;
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
            target = strcmp(argv[i], numbers[k].name) == 0 ? numbers[k].value : target;
        }
        if (target == NULL || i + 1 >= argc || (*target = atol(argv[++i])) < 1) {
            return false;
        }
    }
    return s->in_flight <= 65535 && s->fixed_size <= DISTINCT_MAX;
}

static bool prepare_scale(struct scale *s)
{
    s->names = calloc((size_t)s->destinations, sizeof(*s->names));
    s->busy = calloc((size_t)s->in_flight, sizeof(struct sched_entry *));
    s->recipients = calloc(MOST, sizeof(*s->recipients));
    s->messages = calloc((size_t)s->jobs, sizeof(*s->messages));
    s->finished = calloc((size_t)s->jobs, sizeof(*s->finished));
    s->site_names = calloc((size_t)s->sites + 1, sizeof(*s->site_names));
    if (s->site_names == NULL || s->names == NULL || s->busy == NULL || s->recipients == NULL ||
        s->messages == NULL || s->finished == NULL) {
        return false;
    }
    for (long i = s->jobs; i > 0; i--) {
        s->finished[s->finished_count++] = &s->messages[i - 1];
    }
    for (long i = 0; i < s->destinations; i++) {
        (void)snprintf(s->names[i], NAME_BYTES, "u@d%ld.example", i);
    }
    for (long i = 0; i < s->sites; i++) {
        (void)snprintf(s->site_names[i], NAME_BYTES, "site%ld", i);
    }
    struct sched_config c;
    sched_config_defaults(&c);
    c.process_limit = (int)s->in_flight;
    c.must_resolve = s->sites > 0;
    const struct sched_host host = {allocate_scale_memory, release_scale_memory,
                                    release_scale_memory, s};
    s->sched = sched_new(&c, &host, release_scale_hosts, 0);
    return s->sched != NULL;
}

static void begin_rounds(struct scale *s)
{
    while (s->filled < s->in_flight && (s->busy[s->filled] = pull_entry(s)) != NULL) {
        s->filled++;
    }
    s->selections = s->reads = 0;
}

/* A slice, so that the clock is read seldom: what ended in it is submitted after it. */
static bool run_slice(struct scale *s)
{
    double t0 = seconds();
    for (long i = 0; i < ROUNDS_A_SLICE; i++) {
        s->now++;
        report_entry(s, s->busy[s->position]);
        s->busy[s->position] = pull_entry(s);
        if (s->busy[s->position] == NULL) {
            return false;
        }
        s->position = (s->position + 1) % s->filled;
    }
    double t1 = seconds();
    for (; s->finished_count > 0; s->submits++) {
        submit_messages(s);
    }
    s->selecting += t1 - t0;
    s->submitting += seconds() - t1;
    return true;
}

static double operations_per_second(const struct scale *s)
{
    return 2.0 * (double)s->selections / s->selecting;
}

static bool run_turn(struct scale *s)
{
    for (long i = 0; i < (s->beside > 0 ? SLICES_A_TURN : 1); i++) {
        if (!run_slice(s)) {
            return false;
        }
    }
    return true;
}

/* Gives back all that is under way; a scheduler that has too few jobs has no entry in some places. */
static void report_all(struct scale *s)
{
    for (long i = 0; i < s->filled; i++) {
        if (s->busy[i] != NULL) {
            report_entry(s, s->busy[i]);
        }
    }
}

/* beside    its turns alternate with those of s; NULL: none */
static bool run_scale(struct scale *s, struct scale *beside, struct result *ret)
{
    begin_rounds(s);
    if (beside != NULL) {
        begin_rounds(beside);
    }
    bool is_fine = s->filled > 0;
    while (is_fine && s->selections < s->rounds) {
        is_fine = run_turn(s) && (beside == NULL || run_turn(beside));
    }
    ret->operations_per_second = operations_per_second(s);
    ret->submits_per_second = (double)s->submits / s->submitting;
    ret->reads = (double)s->reads / (double)s->selections;
    ret->part = beside == NULL ? 0 : ret->operations_per_second / operations_per_second(beside);
    report_all(s);
    if (beside != NULL) {
        report_all(beside);
    }
    return is_fine;
}

static void finish_scale(struct scale *s)
{
    sched_free(s->sched);
    free(s->names);
    free(s->site_names);
    free(s->busy);
    free(s->recipients);
    free(s->messages);
    free(s->finished);
}

/* The queue, which came in within ten seconds; the bytes that a job takes. */
static double fill_scheduler(struct scale *s)
{
    size_t before = s->allocated;
    for (long i = 0; i < s->jobs; i++) {
        s->now = i * 10 * USEC_PER_SEC / s->jobs;
        submit_messages(s);
    }
    return (double)(s->allocated - before) / (double)s->jobs;
}

static bool measure_scale(struct scale s, struct result *ret)
{
    s.random = 88172645463325252u;
    struct scale other = s;
    bool has_pair = s.beside > 0 || (s.sites > 0 && !s.is_apart);
    other.is_apart = s.is_apart || s.beside == 0;
    other.jobs = s.beside > 0 ? s.beside : s.jobs;
    if (!prepare_scale(&s) || (has_pair && !prepare_scale(&other))) {
        return false;
    }
    ret->bytes_per_queued_job = fill_scheduler(&s);
    if (has_pair) {
        (void)fill_scheduler(&other);
    }
    struct sched_counters c;
    sched_view_counters(s.sched, &c);
    ret->recipients_in_core = (double)c.recipients_in_core / (double)s.jobs;
    bool is_done = run_scale(&s, has_pair ? &other : NULL, ret);
    finish_scale(&s);
    if (has_pair) {
        finish_scale(&other);
    }
    return is_done;
}

static bool weigh(long recipients, double *ret_bytes)
{
    struct scale s = {.jobs = WEIGHED_JOBS,
                      .destinations = WEIGHED_DESTINATIONS,
                      .in_flight = 1,
                      .fixed_size = recipients,
                      .is_round_robin = true};
    if (!prepare_scale(&s)) {
        return false;
    }
    *ret_bytes = fill_scheduler(&s);
    finish_scale(&s);
    return true;
}

/* What a job takes with one recipient, and what each further one takes. */
struct weight {
    double job, recipient; /* bytes */
};

static bool weigh_both(struct weight *ret)
{
    double one, many;
    if (!weigh(1, &one) || !weigh(WEIGHED_RECIPIENTS, &many)) {
        return false;
    }
    *ret = (struct weight){one, (many - one) / (WEIGHED_RECIPIENTS - 1)};
    return true;
}

/* 0: not measured. */
static void print_part(const struct scale *s, const struct result *r, const struct result *distinct)
{
    if (r->part == 0) {
        return;
    }
    if (s->beside > 0) {
        (void)printf(s->is_json
                         ? "{\"beside\": %ld, \"part\": %.3f, \"distinct_sizes_part\": %.3f}\n"
                         : "beside %ld jobs: %.2f of the operations a second; %.2f when all sizes "
                           "differ\n",
                     s->beside, r->part, distinct->part);
        return;
    }
    (void)printf(s->is_json ? "{\"sites\": %ld, \"part\": %.3f, \"distinct_sizes_part\": %.3f}\n"
                            : "%ld sites: %.2f of the operations a second without sites, the same "
                              "hosts; %.2f when all sizes differ\n",
                 s->sites, r->part, distinct->part);
}

static void print(const struct scale *s, const struct result *r, const struct result *distinct,
                  const struct weight *w)
{
    (void)printf(s->is_json ? "{\"jobs\": %ld, \"destinations\": %ld, \"in_flight\": %ld, "
                              "\"operations_per_second\": %.0f, \"submits_per_second\": %.0f, "
                              "\"bytes_per_queued_job\": %.0f, \"recipients_per_job\": %.2f, "
                              "\"bytes_per_job\": %.0f, \"bytes_per_further_recipient\": %.0f, "
                              "\"distinct_sizes_operations_per_second\": %.0f}\n"
                            : "%ld jobs, %ld destinations, %ld in flight\n"
                              "%.0f operations a second (selections and reports)\n"
                              "%.0f messages a second taken\n"
                              "%.0f bytes a job, with destinations and %.2f recipients in memory\n"
                              "%.0f bytes a job of one recipient, %.0f each further one\n"
                              "%.0f operations a second when all sizes differ\n",
                 s->jobs, s->destinations, s->in_flight, r->operations_per_second,
                 r->submits_per_second, r->bytes_per_queued_job, r->recipients_in_core, w->job,
                 w->recipient, distinct->operations_per_second);
}

int sim_scale(int argc, char **argv)
{
    struct scale s = {.jobs = 1000, .destinations = 100000, .in_flight = 100, .rounds = 2000000};
    struct result logarithmic, distinct;
    struct weight weight;
    if (!parse_scale_options(&s, argc, argv) || !measure_scale(s, &logarithmic)) {
        (void)fputs(
            "sluice-sim scale: bad arguments, too few jobs for --in-flight, or out of memory\n",
            stderr);
        return 2;
    }
    s.are_sizes_distinct = s.fixed_size == 0;
    if (!measure_scale(s, &distinct) || !weigh_both(&weight)) {
        (void)fputs("sluice-sim scale: out of memory\n", stderr);
        return 2;
    }
    print(&s, &logarithmic, &distinct, &weight);
    print_part(&s, &logarithmic, &distinct);
    return 0;
}
