/* One thread with its files: tables in from workers, reports out by the spool and by HTTPS.
 *
 * Concurrency: everything is this thread's. Tables and intakes come and go by letters. Settings are
 * read under a reference, as the thread is offline for RCU while it waits.
 * Must not follow anything a stranger's record says but as tls_report_post.h allows. */
#include "engine/outbound/tls_reporter.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/packed.h"
#include "base/post.h"
#include "base/rcu.h"
#include "dns/question.h"
#include "engine/config/config.h"
#include "engine/outbound/dns_setup.h"
#include "engine/outbound/tls_report_mailing.h"
#include "engine/outbound/tls_report_post.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tls_report/tls_day.h"
#include "engine/tls_report/tls_report.h"
#include "net/mta_sts.h"
#include "net/tls_rpt.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DAYS_MAX = 4,         /* in memory: today, the one that is reported, and others after a stop */
    SAVE_PART = 20,       /* writing files takes one part in so many of the time, at most */
    ALL_WAYS = UINT16_MAX /* bits of ways_done: no more is to be done */
};

static const usec_t collect_time = 2 * USEC_PER_SEC;
static const usec_t retry_first = 300 * USEC_PER_SEC, retry_most = 14400 * USEC_PER_SEC;
/* A collector has time to take a report; strangers name them, and silent ones must not keep the others' reports
 * from leaving. A domain whose collectors took slow_time in vain waits for the next pass, and once all of a
 * pass took pass_time in vain, those behind them have short_time. */
static const usec_t post_time = 30 * USEC_PER_SEC, short_time = 3 * USEC_PER_SEC,
                    slow_time = 5 * USEC_PER_SEC, pass_time = 300 * USEC_PER_SEC;
static const usec_t settle_time =
    30 * USEC_PER_SEC; /* what workers counted before midnight comes */

#define DAY    (86400 * USEC_PER_SEC)
#define NO_DAY INT64_MIN

/* A day's table, with how far it is. */
struct reported_day {
    struct tls_tally *tally;
    bool is_changed;   /* since its file was written */
    usec_t next_pass;  /* wall: when its domains are gone through again; 0: not begun */
    usec_t retry_span; /* to the pass after that */
    size_t left;       /* domains of this pass */
    uint32_t passes;   /* that have begun */
    usec_t vain;       /* that posts of this pass took in vain */
};

struct tls_reporter {
    struct engine *engine;
    struct post post;
    struct outbox *to_workers; /* [engine->worker_count], of the post */
    struct outbox *to_writer;
    int folder;     /* descriptor of SPOOL/tls-report; -1: it cannot be had */
    int sts_folder; /* of MTA-STS policies; -1: there is none */

    /* owner thread only */
    struct reported_day days[DAYS_MAX]; /* [day_count], the oldest first */
    size_t day_count;
    int64_t reported; /* the day of which a domain is held while letters may come; NO_DAY: none */
    usec_t next_collect, next_save; /* monotonic */
    struct tls_mailing mailing;     /* a report on its way into the spool */
};

/* --- days ------------------------------------------------------------------------------------- */

static void count_unsent(struct tls_reporter *r, size_t at)
{
    atomic_fetch_add_explicit(&r->engine->tls_unsent, tls_tally_count(r->days[at].tally),
                              memory_order_relaxed);
}

static void forget_day(struct tls_reporter *r, size_t at)
{
    tls_day_remove(r->folder, tls_tally_day(r->days[at].tally));
    tls_tally_free(r->days[at].tally);
    r->day_count--;
    memmove(&r->days[at], &r->days[at + 1], (r->day_count - at) * sizeof(r->days[0]));
}

/* The place of the day's table, which is made; DAYS_MAX: no memory. */
static size_t place_of_day(struct tls_reporter *r, int64_t day)
{
    size_t at = 0;
    while (at < r->day_count && tls_tally_day(r->days[at].tally) < day) {
        at++;
    }
    if (at < r->day_count && tls_tally_day(r->days[at].tally) == day) {
        return at;
    }
    if (r->day_count == DAYS_MAX) {
        size_t oldest = tls_tally_day(r->days[0].tally) == r->reported ? 1 : 0;
        log_warning("tls-report: too many days are waiting; the oldest is dropped");
        count_unsent(r, oldest);
        forget_day(r, oldest);
        at -= at > oldest;
    }
    struct tls_tally *tally = tls_tally_new(day);
    if (tally == NULL) {
        return DAYS_MAX;
    }
    memmove(&r->days[at + 1], &r->days[at], (r->day_count - at) * sizeof(r->days[0]));
    r->days[at] = (struct reported_day){.tally = tally};
    r->day_count++;
    return at;
}

static void save_days(struct tls_reporter *r, bool at_once)
{
    usec_t now = clock_mono();
    if (!at_once && now < r->next_save) {
        return;
    }
    for (size_t i = 0; i < r->day_count; i++) {
        struct reported_day *d = &r->days[i];
        int err = d->is_changed ? tls_day_save(r->folder, d->tally) : 0;
        d->is_changed &= err != 0; /* else tried again: the disk may have room by then */
        if (err != 0) {
            log_warning("tls-report: what was counted is not kept: %s", err_str(err));
        }
    }
    r->next_save = clock_mono() + SAVE_PART * (clock_mono() - now);
}

static void load_days(struct tls_reporter *r)
{
    int64_t days[64];
    size_t count = tls_day_list(r->folder, days, sizeof(days) / sizeof(days[0]));
    for (size_t i = 0; i < count; i++) {
        struct tls_tally *tally = NULL;
        bool has_room = count - i <= DAYS_MAX - 1; /* the newest ones, and today */
        int err = has_room ? tls_day_load(r->folder, days[i], &tally) : 0;
        if (err != 0) {
            log_warning("tls-report: the file of a day: %s", err_str(err));
        }
        if (tally == NULL && (err == 0 || err == ERR_SYNTAX)) {
            tls_day_remove(r->folder, days[i]);
        } else if (tally != NULL) {
            r->days[r->day_count++] = (struct reported_day){.tally = tally};
        }
    }
}

/* The lines of a policy that was counted by its id, while the cache has it. */
static void find_policy_text(const struct tls_reporter *r, const char *domain,
                             struct tls_policy_tally *p)
{
    char file[TLS_TALLY_POLICY_MAX + 200];
    int fd = r->sts_folder < 0 || strchr(domain, '/') != NULL || domain[0] == '.'
                 ? -1
                 : openat(r->sts_folder, domain, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return;
    }
    ssize_t n = read(fd, file, sizeof(file));
    (void)close(fd);
    struct slice text = slice_make(file, n > 0 ? (size_t)n : 0);
    size_t line = slice_find(text, '\n'); /* "STSv1 FETCHED ID" */
    struct slice head = slice_to(text, line), id = slice_of(p->id);
    if (line < text.len && head.len > id.len && slice_eq(slice_from(head, head.len - id.len), id) &&
        head.data[head.len - id.len - 1] == ' ') {
        tls_tally_set_text(p, slice_from(text, line + 1));
    }
}

static void find_policy_texts(const struct tls_reporter *r, struct tls_tally *t)
{
    list_foreach(d, tls_tally_domains(t), struct tls_domain_tally, link)
    {
        list_foreach(p, &d->policies, struct tls_policy_tally, link)
        {
            if (p->basis == TLS_BASIS_STS && p->id[0] != '\0') {
                find_policy_text(r, d->name, p);
            }
        }
    }
}

/* Takes the table over. */
static void take_tally(struct tls_reporter *r, struct tls_tally *t)
{
    size_t at = place_of_day(r, tls_tally_day(t));
    if (at < DAYS_MAX) {
        struct tls_tally *sum = r->days[at].tally;
        uint64_t left_out = tls_tally_left_out(sum);
        find_policy_texts(r, t);
        tls_tally_merge(sum, t);
        atomic_fetch_add_explicit(&r->engine->tls_left_out, tls_tally_left_out(sum) - left_out,
                                  memory_order_relaxed);
        r->days[at].is_changed = true;
    }
    tls_tally_free(t);
}

/* --- one domain ------------------------------------------------------------------------------- */

static void take_letters(struct tls_reporter *r) ON_ROLE(r->post);
static void take_letters(struct tls_reporter *r)
{
    struct letter letter;
    while (post_take(&r->post, &letter)) {
        if (letter.kind == LETTER_STORED) {
            tls_mailing_end(&r->mailing, letter_take_stored(&letter));
        } else {
            take_tally(r, letter_take_tls_tally(&letter));
        }
    }
}

static void attend(struct tls_reporter *r) ON_ROLE(r->post);
/* What has to go on while a report is under way as well: workers' tables come in, and are kept. */
static void attend(struct tls_reporter *r)
{
    take_letters(r);
    if (clock_mono() >= r->next_collect) {
        for (uint32_t i = 0; i < r->engine->worker_count; i++) {
            letter_put_tls_collect(&r->to_workers[i]);
        }
        r->next_collect = clock_mono() + collect_time;
    }
    save_days(r, false);
    (void)post_flush(&r->post);
}

static bool must_end(void *ctx)
{
    struct tls_reporter *r = ctx;
    post_assert_owner(&r->post);
    rcu_awake();
    attend(r);
    rcu_sleep();
    return post_must_end(&r->post);
}

/* What it takes to report on one domain's day. */
struct report_try {
    struct tls_reporter *r;
    const struct settings *settings;
    struct tls_report_head head;
    struct tls_domain_tally *domain;
    uint32_t pass;
    usec_t vain, time; /* that posts of the pass took in vain; that each has */
    struct buf gzip;
};

/* returns  1: the domain asks, *ret is valid as long as *ret_set; 0: it does not; ERR_AGAIN: nobody
 *          knows now */
static int ask_domain(const struct report_try *t, struct dns_rrset **ret_set,
                      struct tls_rpt_record *ret)
{
    char name[sizeof(TLS_RPT_LABEL) + 256];
    (void)snprintf(name, sizeof(name), TLS_RPT_LABEL ".%s", t->domain->name);
    int err = dns_setup_question(t->settings, slice_of(name), DNS_TYPE_TXT, ret_set);
    if (err != 0) {
        return ERR_AGAIN;
    }
    const struct dns_rrset *set = *ret_set;
    if (dns_status_is_soft(set->status)) {
        return ERR_AGAIN;
    }
    if (set->status != DNS_FOUND || tls_rpt_record(set->txt, set->count, ret) != 0) {
        return 0;
    }
    return ret->count > 0 ? 1 : 0;
}

static uint32_t find_addresses(const struct report_try *t, const char *host,
                               struct ip ret[TLS_REPORT_POST_ADDRESSES])
{
    static const enum dns_type types[] = {DNS_TYPE_A, DNS_TYPE_AAAA};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct dns_rrset *set;
        if (dns_setup_question(t->settings, slice_of(host), types[i], &set) != 0) {
            continue;
        }
        for (uint32_t a = 0;
             set->status == DNS_FOUND && a < set->count && count < TLS_REPORT_POST_ADDRESSES; a++) {
            ret[count++] = set->ips[a];
        }
        dns_rrset_put(set);
    }
    return count;
}

/* returns  as below */
static int send_by_https(const struct report_try *t, struct slice uri)
{
    char host[254], why[TLS_REPORT_POST_WHY] = "";
    struct ip addresses[TLS_REPORT_POST_ADDRESSES];
    const struct config *config = t->settings->config;
    int err = tls_report_post_host(uri, host, why);
    if (err != 0) {
        log_info("tls-report: %s asks for reports to a URI that is not posted to: %s",
                 t->domain->name, why);
        return 0; /* it will not become better */
    }
    const struct tls_report_post p = {
        .uri = uri,
        .body = buf_slice(&t->gzip),
        .addresses = addresses,
        .count = find_addresses(t, host, addresses),
        .allow_loopback = config->allow_loopback,
        .ca_file = config->tls_report.ca_file,
        .time = t->time,
        .must_end = must_end,
        .ctx = t->r,
    };
    rcu_sleep();
    err = tls_report_post_send(&p, why);
    rcu_awake();
    if (err != 0) {
        log_info("tls-report: the report for %s to %s: %s", t->domain->name, host, why);
    }
    return err == 0 ? 0 : ERR_AGAIN;
}

/* returns  as below */
static int send_by_mail(const struct report_try *t, struct slice uri)
{
    struct tls_reporter *r = t->r;
    char to[TLS_RPT_MAILBOX_MAX + 1];
    post_assert_owner(&r->post);
    if (tls_rpt_mailbox(uri, to) != 0) {
        log_info("tls-report: %s asks for reports to an address that is none", t->domain->name);
        return 0;
    }
    const struct tls_mailing_request request = {&t->head, t->domain->name, to, buf_slice(&t->gzip)};
    if (tls_mailing_begin(&r->mailing, r->engine, t->settings, &request, r->to_writer) != 0) {
        return ERR_AGAIN;
    }
    while (r->mailing.is_away && !post_must_end(&r->post)) {
        struct letter letter;
        (void)post_flush(&r->post);
        post_nap(&r->post, clock_mono() + USEC_PER_SEC);
        while (post_take(&r->post, &letter)) {
            if (letter.kind == LETTER_STORED) {
                tls_mailing_end(&r->mailing, letter_take_stored(&letter));
            } else {
                take_tally(r, letter_take_tls_tally(&letter));
            }
        }
    }
    return r->mailing.is_away || r->mailing.error != 0 ? ERR_AGAIN : 0;
}

/* returns  as below */
static int send_one(struct report_try *t, const struct tls_rpt_rua *rua)
{
    if (rua->way != TLS_RPT_HTTPS) {
        return send_by_mail(t, rua->uri);
    }
    usec_t began = clock_mono();
    t->time = t->vain < pass_time ? post_time : short_time;
    int err = send_by_https(t, rua->uri);
    t->vain += err != 0 ? clock_mono() - began : 0;
    return err;
}

/* returns  0: nothing more is to be done for the domain; ERR_AGAIN: later */
static int send_to_all(struct report_try *t, const struct tls_rpt_record *record)
{
    struct tls_reporter *r = t->r;
    int result = 0;
    post_assert_owner(&r->post);
    if (tls_report_gzip(&t->head, t->domain, &t->gzip) != 0) {
        return ERR_AGAIN;
    }
    usec_t vain = t->vain;
    for (uint32_t n = 0; n < record->count && !post_must_end(&r->post); n++) {
        uint32_t i = (t->pass + n) % record->count; /* another one goes first in each pass */
        const struct tls_rpt_rua *rua = &record->rua[i];
        if ((t->domain->ways_done & (1U << i)) != 0) {
            continue;
        }
        if (rua->way == TLS_RPT_HTTPS && t->vain - vain >= slow_time) {
            result = ERR_AGAIN;
            continue;
        }
        int err = send_one(t, rua);
        if (err == 0) {
            t->domain->ways_done |= 1U << i;
        }
        result = result == 0 ? err : result;
    }
    return post_must_end(&r->post) ? ERR_AGAIN : result;
}

static int report_on(struct tls_reporter *r, const struct settings *s, struct reported_day *d,
                     struct tls_domain_tally *domain) ON_ROLE(r->post);
static int report_on(struct tls_reporter *r, const struct settings *s, struct reported_day *d,
                     struct tls_domain_tally *domain)
{
    const struct config_tls_report *c = &s->config->tls_report;
    struct tls_rpt_record record;
    struct dns_rrset *set = NULL;
    struct report_try t = {
        .r = r,
        .settings = s,
        .head = {c->organization, c->contact, c->from, s->config->hostname,
                 tls_tally_day(d->tally) * DAY},
        .domain = domain,
        .pass = d->passes,
        .vain = d->vain,
    };
    int64_t day = tls_tally_day(d->tally);
    buf_init(&t.gzip, 0);
    int err = ask_domain(&t, &set, &record);
    if (err == 1) {
        err = send_to_all(&t, &record);
    }
    dns_rrset_put(set);
    buf_fini(&t.gzip);
    size_t at = place_of_day(r, day); /* letters that came meanwhile may have moved it */
    if (at < DAYS_MAX) {
        r->days[at].vain = t.vain;
    }
    return err;
}

/* --- days that are over ------------------------------------------------------------------------
 */

/* When the reports of a day go: later than its end by a span that depends on the host alone. */
static usec_t report_time(const struct settings *s, int64_t day)
{
    const char *name = s->config->hostname;
    uint64_t spread = (uint64_t)s->config->tls_report.spread;
    uint64_t part = hash_checksum(name, strlen(name)) % (spread / USEC_PER_SEC + 1) * USEC_PER_SEC;
    return (day + 1) * DAY + settle_time * (spread > 0) + (usec_t)part;
}

static void end_pass(struct tls_reporter *r, size_t at, usec_t wall)
{
    struct reported_day *d = &r->days[at];
    int64_t day = tls_tally_day(d->tally);
    if (tls_tally_count(d->tally) > 0 && wall < (day + 2) * DAY) {
        d->retry_span = d->retry_span == 0 ? retry_first : 2 * d->retry_span;
        d->retry_span = d->retry_span > retry_most ? retry_most : d->retry_span;
        d->next_pass = wall + d->retry_span;
        return;
    }
    if (tls_tally_count(d->tally) > 0) {
        log_warning("tls-report: %zu domains could not be sent their reports within a day",
                    tls_tally_count(d->tally));
        count_unsent(r, at);
    }
    if (tls_tally_left_out(d->tally) > 0) {
        log_warning("tls-report: %llu sessions of a day are in no report, as they were with more "
                    "domains or policies than are told apart",
                    (unsigned long long)tls_tally_left_out(d->tally));
    }
    forget_day(r, at);
}

/* One domain of the oldest day that is due. returns false when nothing is */
static bool work_on(struct tls_reporter *r, struct settings *s) ON_ROLE(r->post);
static bool work_on(struct tls_reporter *r, struct settings *s)
{
    usec_t wall = clock_wall();
    size_t at = 0;
    while (at < r->day_count && (wall < report_time(s, tls_tally_day(r->days[at].tally)) ||
                                 wall < r->days[at].next_pass)) {
        at++;
    }
    if (at == r->day_count || engine_gate(r->engine) != ENGINE_GATE_OPEN) {
        return false;
    }
    struct reported_day *d = &r->days[at];
    struct list *domains = tls_tally_domains(d->tally);
    if (d->left == 0) {
        d->left = tls_tally_count(d->tally);
        d->passes++;
        d->vain = 0;
    }
    if (d->left > 0) {
        struct tls_domain_tally *domain = list_first(domains, struct tls_domain_tally, link);
        int64_t day = tls_tally_day(d->tally);
        r->reported = day;
        int err = report_on(r, s, d, domain);
        r->reported = NO_DAY;
        at = place_of_day(r, day); /* letters that came meanwhile may have moved it */
        if (at == DAYS_MAX) {
            return false;
        }
        d = &r->days[at];
        d->is_changed = true;
        d->left--;
        if (err == 0) {
            tls_tally_drop(d->tally, domain);
        } else {
            list_remove(&domain->link);
            list_push_back(tls_tally_domains(d->tally), &domain->link);
        }
    }
    if (d->left == 0) {
        end_pass(r, at, wall);
    }
    return true;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Section tls_report is gone, or never was there. */
static void forget_all(struct tls_reporter *r)
{
    while (r->day_count > 0) {
        forget_day(r, r->day_count - 1);
    }
}

static void run_reporter(void *arg)
{
    struct tls_reporter *r = arg;
    post_assert_owner(&r->post);
    while (!post_must_end(&r->post)) {
        struct settings *s = settings_get(settings_of(r->engine));
        bool is_on = s->config->tls_report.from != NULL;
        bool has_worked = false;
        if (!is_on) {
            take_letters(r);
            forget_all(r);
        } else {
            attend(r);
            has_worked = work_on(r, s);
        }
        settings_put(s);
        (void)post_flush(&r->post);
        post_nap(&r->post, has_worked ? 0 : clock_mono() + collect_time);
    }
}

/* --- life ------------------------------------------------------------------------------------- */

static int open_folder(const char *spool, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%.4000s/%s", spool, name);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return -errno;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int tls_reporter_new(struct engine *engine, struct tls_reporter **ret)
{
    struct tls_reporter *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return -ENOMEM;
    }
    r->engine = engine;
    r->reported = NO_DAY;
    r->folder = open_folder(engine->config->spool.path, "tls-report");
    r->sts_folder = open_folder(engine->config->spool.path, "mta-sts");
    int err = r->folder < 0 ? r->folder : post_init(&r->post, 4096);
    if (err != 0) {
        tls_reporter_free(r);
        return err;
    }
    load_days(r);
    *ret = r;
    return 0;
}

struct mailbox *tls_reporter_box(struct tls_reporter *r)
{
    return &r->post.box;
}

int tls_reporter_start(struct tls_reporter *r)
{
    const struct engine *e = r->engine;
    int err = post_open(&r->post, e->worker_count + 1);
    if (err != 0) {
        return err;
    }
    r->to_workers = post_write_to_each(&r->post, e->boxes.workers, e->worker_count);
    r->to_writer = post_write_to(&r->post, e->boxes.receptions);
    return post_start(&r->post, "tls-report", run_reporter, r);
}

void tls_reporter_stop(struct tls_reporter *r)
{
    struct letter letter;
    post_stop(&r->post);
    while (post_take_left(&r->post, &letter)) {
        if (letter.kind == LETTER_TLS_TALLY) {
            take_tally(r, letter_take_tls_tally(&letter));
        } else {
            tls_mailing_end(&r->mailing, letter_take_stored(&letter));
        }
    }
    save_days(r, true);
}

void tls_reporter_free(struct tls_reporter *r)
{
    if (r == NULL) {
        return;
    }
    struct letter letter;
    while (post_take_left(&r->post, &letter)) {
        if (letter.kind == LETTER_TLS_TALLY) {
            tls_tally_free(letter_take_tls_tally(&letter));
        } else {
            intake_free(letter_take_stored(&letter));
        }
    }
    while (r->day_count > 0) {
        tls_tally_free(r->days[--r->day_count].tally);
    }
    post_fini(&r->post);
    if (r->folder >= 0) {
        (void)close(r->folder);
    }
    if (r->sts_folder >= 0) {
        (void)close(r->sts_folder);
    }
    free(r);
}
