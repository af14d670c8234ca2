/* How fast the core selects and reports, with a given number of queued jobs: every job has one
 * recipient, and for each entry reported a new message comes in, so the number stays. */
#include "base/clock.h"
#include "bench/sluice_sim.h"
#include "sched/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 40

struct scale {
    long jobs, destinations, in_flight, rounds;
    bool is_json;
    size_t allocated; /* bytes asked of the host and not given back */
    char (*names)[NAME_BYTES];
    struct sched_entry **busy;
    uint64_t next_id;
    struct sched *sched;
};

/* The size in front of each object; 16 bytes keep the alignment. */
static void *allocate(void *ctx, size_t size)
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

static void release(void *ctx, void *obj)
{
    struct scale *s = ctx;
    size_t *block = (size_t *)(void *)((char *)obj - 16);
    s->allocated -= *block;
    free(block);
}

static void release_hosts(void *ctx, void *hosts)
{
}

static void submit(struct scale *s, usec_t now)
{
    uint64_t id = s->next_id++;
    const char *name = s->names[id % (uint64_t)s->destinations];
    struct sched_recipient recipient = {slice_of(name), slice_of(strchr(name, '@') + 1), 0};
    struct sched_message m = {.id = id, .recipients = &recipient, .recipient_count = 1};
    if (sched_submit(s->sched, &m, now) != 0) {
        abort();
    }
}

/* Pull until an entry comes; anything else is drained on the way. */
static struct sched_entry *pull(struct scale *s, usec_t now)
{
    struct sched_action a;
    while (sched_pull(s->sched, &a, now)) {
        if (a.kind == SCHED_DELIVER) {
            return a.entry;
        }
    }
    return NULL;
}

static void report(struct scale *s, struct sched_entry *e, usec_t now)
{
    struct sched_outcome o = {.entry = e, .feedback = SCHED_POSITIVE, .connection_open = true};
    sched_report(s->sched, &o, now);
}

static bool parse(struct scale *s, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        long *target = NULL;
        if (strcmp(argv[i], "--json") == 0) {
            s->is_json = true;
            continue;
        }
        if (strcmp(argv[i], "--jobs") == 0) {
            target = &s->jobs;
        } else if (strcmp(argv[i], "--destinations") == 0) {
            target = &s->destinations;
        } else if (strcmp(argv[i], "--in-flight") == 0) {
            target = &s->in_flight;
        } else if (strcmp(argv[i], "--rounds") == 0) {
            target = &s->rounds;
        }
        if (target == NULL || i + 1 >= argc) {
            return false;
        }
        *target = atol(argv[++i]);
        if (*target < 1) {
            return false;
        }
    }
    return s->in_flight <= 65535;
}

static bool prepare(struct scale *s)
{
    s->names = calloc((size_t)s->destinations, sizeof(*s->names));
    s->busy = calloc((size_t)s->in_flight, sizeof(struct sched_entry *));
    if (s->names == NULL || s->busy == NULL) {
        return false;
    }
    for (long i = 0; i < s->destinations; i++) {
        (void)snprintf(s->names[i], NAME_BYTES, "u@d%ld.example", i);
    }
    struct sched_config c;
    sched_config_defaults(&c);
    c.process_limit = (int)s->in_flight;
    const struct sched_host host = {allocate, release, release, s};
    s->sched = sched_new(&c, &host, release_hosts, 0);
    return s->sched != NULL;
}

static void print(const struct scale *s, double seconds, double intake_seconds, long bytes)
{
    double pairs = (double)s->rounds / seconds;
    if (s->is_json) {
        (void)printf("{\"jobs\": %ld, \"destinations\": %ld, \"in_flight\": %ld, "
                     "\"select_report_per_second\": %.0f, \"submit_per_second\": %.0f, "
                     "\"bytes_per_job\": %ld}\n",
                     s->jobs, s->destinations, s->in_flight, pairs,
                     (double)s->rounds / intake_seconds, bytes);
        return;
    }
    (void)printf("%ld jobs, %ld destinations, %ld in flight: %.0f select+report/s, %.0f submit/s, "
                 "%ld bytes a job\n",
                 s->jobs, s->destinations, s->in_flight, pairs, (double)s->rounds / intake_seconds,
                 bytes);
}

int sim_scale(int argc, char **argv)
{
    struct scale s = {.jobs = 1000, .destinations = 100, .in_flight = 100, .rounds = 2000000};
    if (!parse(&s, argc, argv) || !prepare(&s)) {
        (void)fputs("sluice-sim scale: bad arguments, or out of memory\n", stderr);
        return 2;
    }
    size_t before = s.allocated;
    for (long i = 0; i < s.jobs; i++) {
        submit(&s, 0);
    }
    long bytes = (long)(s.allocated - before) / s.jobs;
    long busy = 0;
    while (busy < s.in_flight && (s.busy[busy] = pull(&s, 0)) != NULL) {
        busy++;
    }
    if (busy == 0) {
        return 1;
    }
    /* A slice of reports and selections, then a slice of submissions, so that the clock is read
     * seldom and the number of jobs stays about the same. */
    const long slice = 256;
    usec_t selecting = 0, submitting = 0;
    long position = 0;
    for (long done = 0; done < s.rounds; done += slice) {
        usec_t now = done; /* simulated: a microsecond a pair */
        usec_t t0 = clock_mono();
        for (long i = 0; i < slice; i++) {
            report(&s, s.busy[position], now);
            s.busy[position] = pull(&s, now);
            if (s.busy[position] == NULL) {
                (void)fputs("sluice-sim scale: nothing to select\n", stderr);
                return 1;
            }
            position = (position + 1) % busy;
        }
        usec_t t1 = clock_mono();
        for (long i = 0; i < slice; i++) {
            submit(&s, now);
        }
        usec_t t2 = clock_mono();
        selecting += t1 - t0;
        submitting += t2 - t1;
    }
    print(&s, (double)selecting / USEC_PER_SEC, (double)submitting / USEC_PER_SEC, bytes);
    for (long i = 0; i < busy; i++) {
        report(&s, s.busy[i], s.rounds);
    }
    sched_free(s.sched);
    free(s.names);
    free(s.busy);
    return 0;
}
