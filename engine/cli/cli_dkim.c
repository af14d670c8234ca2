/* `sluice dkim`: which keys sign mail from a domain, what has to be published for each, and whether
 * it is. Reads the configuration and asks its name servers; needs no daemon. */
#include "base/buf.h"
#include "base/rcu.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/key/key_choice.h"
#include "engine/key/key_ring.h"
#include "engine/outbound/dns_setup.h"
#include "net/dkim/dkim_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { STRING_BYTES = 255 }; /* of one string of a TXT record (RFC 1035 section 3.3) */

/* What was found at a key's name. */
struct publication {
    const struct ring_key *key;
    struct dns_rrset *set; /* NULL: nobody was asked, or it could not be asked */
    int err;
    enum dkim_record_verdict verdict; /* of an answer */
    bool is_answered, is_testing;
};

struct asking {
    const struct cli *cli;
    const struct config *config;
    const char *tenant;
    bool is_zone; /* --zone: lines for a zone file, nothing is asked */
    int code;
};

static void complain(void *ctx, bool is_warning, const char *line)
{
    (void)is_warning; /* the line says so */
    (void)fprintf(ctx, "%s\n", line);
}

/* --- asking ----------------------------------------------------------------------------------- */

static void judge(struct publication *p)
{
    static const struct slice none[1];
    bool has_records = p->set->status == DNS_FOUND;
    struct dkim_record record = {.is_testing = false};
    p->is_answered = !dns_status_is_soft(p->set->status);
    p->verdict = dkim_record_judge(has_records ? p->set->txt : none,
                                   has_records ? p->set->count : 0, p->key->key, &record);
    p->is_testing = record.is_testing;
}

static void ask_published(const struct asking *a, struct publication *p)
{
    struct dns_name name;
    p->err = dns_name_from_text(slice_of(p->key->section->name), &name);
    if (p->err == 0) {
        p->err = dns_setup_ask(a->config, dns_name_slice(&name), DNS_TYPE_TXT, &p->set);
    }
    if (p->err == 0) {
        judge(p);
    }
}

static const char *answer_text(const struct publication *p)
{
    if (p->is_answered) {
        return dkim_record_verdict_text(p->verdict);
    }
    if (p->err != 0 && p->err != -ETIMEDOUT) {
        return "the name servers could not be asked";
    }
    return "no name server answered; try again later";
}

static int exit_code(const struct publication *p)
{
    if (!p->is_answered) {
        return EX_TEMPFAIL;
    }
    return p->verdict == DKIM_RECORD_FITS ? EX_OK : EX_DATAERR;
}

/* --- what is said ----------------------------------------------------------------------------- */

/* A text in quotes, in strings that a zone file may have. */
static void put_strings(FILE *out, struct slice text)
{
    while (text.len > 0) {
        size_t len = text.len < STRING_BYTES ? text.len : STRING_BYTES;
        (void)fprintf(out, " \"%.*s\"", (int)len, text.data);
        text = slice_from(text, len);
    }
}

static void say_zone_line(const struct asking *a, const struct ring_key *key, struct slice record)
{
    FILE *out = a->cli->out;
    (void)fprintf(out, "%s. IN TXT (", key->section->name);
    put_strings(out, record);
    (void)fputs(" )\n", out);
}

/* One line of what strangers published. */
static void say_published(FILE *out, struct slice text)
{
    char *copy = slice_dup(text);
    (void)fputs("there is   ", out);
    cli_print_safe(out, copy == NULL ? "" : copy);
    (void)fputc('\n', out);
    free(copy);
}

static void say_lines(const struct asking *a, const struct publication *p, const char *record)
{
    FILE *out = a->cli->out;
    const struct dkim_key *key = p->key->key;
    (void)fprintf(out, "%s\n", p->key->section->name);
    (void)fprintf(out, "key        %s, %u bits, in ", dkim_algorithm_text(dkim_key_algorithm(key)),
                  dkim_key_bits(key));
    cli_print_safe(out, p->key->section->key);
    (void)fprintf(out, "\npublish    TXT %s\n", record);
    (void)fprintf(out, "published  %s\n", answer_text(p));
    for (uint32_t i = 0; p->is_answered && p->verdict != DKIM_RECORD_FITS &&
                         p->set->status == DNS_FOUND && i < p->set->count;
         i++) {
        say_published(out, p->set->txt[i]);
    }
    if (p->is_testing) {
        (void)fputs("           it says t=y: receivers may ignore its signatures\n", out);
    }
    (void)fputc('\n', out);
}

static json_t *published_json(const struct publication *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; p->set != NULL && p->set->status == DNS_FOUND && i < p->set->count; i++) {
        struct slice text = p->set->txt[i];
        /* NULL, not UTF-8 or no memory: it is missing. */
        (void)json_array_append_new(list, json_stringn(text.data, text.len));
    }
    return list;
}

static void say_json(const struct asking *a, const struct publication *p, const char *record)
{
    const struct dkim_key *key = p->key->key;
    json_t *o = json_pack(
        "{s:s, s:s, s:i, s:s, s:s, s:b, s:b, s:b, s:s, s:o}", "name", p->key->section->name,
        "algorithm", dkim_algorithm_text(dkim_key_algorithm(key)), "bits", (int)dkim_key_bits(key),
        "file", p->key->section->key, "record", record, "answered", (int)p->is_answered, "fits",
        (int)(p->is_answered && p->verdict == DKIM_RECORD_FITS), "testing", (int)p->is_testing,
        "verdict", answer_text(p), "published", published_json(p));
    if (o != NULL) { /* else no memory, or a file whose name is not UTF-8 */
        (void)json_dumpf(o, a->cli->out, JSON_COMPACT); /* a full disk is told at the flush */
        (void)fputc('\n', a->cli->out);
    }
    json_decref(o);
}

static void look_at_key(struct asking *a, const struct ring_key *key)
{
    struct publication p = {.key = key};
    struct buf record;
    buf_init(&record, 0);
    dkim_key_put_record(key->key, &record);
    struct slice text = buf_slice(&record);
    buf_append_char(&record, '\0');
    if (record.failed) {
        a->code = EX_OSERR;
    } else if (a->is_zone) {
        say_zone_line(a, key, text);
    } else {
        ask_published(a, &p);
        a->code = a->code == EX_OK ? exit_code(&p) : a->code;
        if (a->cli->is_json) {
            say_json(a, &p, record.data);
        } else {
            say_lines(a, &p, record.data);
        }
    }
    dns_rrset_put(p.set);
    buf_fini(&record);
}

/* --- which keys ------------------------------------------------------------------------------- */

static const struct ring_key *find_title(const struct key_ring *ring, struct slice name)
{
    for (size_t i = 0; i < ring->count; i++) {
        if (slice_ieq(slice_of(ring->keys[i].section->name), name)) {
            return &ring->keys[i];
        }
    }
    return NULL;
}

static void say_no_key(const struct asking *a, const char *domain, const struct key_choice *choice)
{
    FILE *err = a->cli->err;
    (void)fputs("sluice dkim: ", err);
    if (choice->verdict == KEY_FOREIGN) {
        cli_print_safe(err, domain);
        (void)fprintf(err,
                      " is in from_domains of tenants, and its mail is signed for these alone; say "
                      "which with --tenant\n");
        return;
    }
    (void)fputs("no key signs mail from ", err);
    cli_print_safe(err, domain);
    (void)fputs("; write a section dkim \"SELECTOR._domainkey.", err);
    cli_print_safe(err, domain);
    (void)fputs("\" { key = FILE }\n", err);
}

/* The keys that sign mail From this domain, or the one whose title it is. */
static void look_at_domain(struct asking *a, const struct key_ring *ring, const char *text)
{
    char lower[DNS_NAME_MAX + 1];
    struct slice domain = slice_of(text);
    const struct ring_key *titled = find_title(ring, domain);
    struct key_choice choice = {.verdict = KEY_NONE};
    if (titled != NULL) {
        look_at_key(a, titled);
        return;
    }
    if (domain.len <= DNS_NAME_MAX) {
        slice_lower(domain, lower);
        const struct slice from = slice_make(lower, domain.len);
        const struct key_question question = {
            .from = &from, .from_count = 1, .tenant = slice_of(a->tenant == NULL ? "" : a->tenant)};
        key_choose(ring, &question, &choice);
    }
    if (choice.count == 0) {
        say_no_key(a, text, &choice);
        a->code = EX_NOHOST;
    }
    for (size_t i = 0; i < choice.count; i++) {
        look_at_key(a, choice.keys[i]);
    }
}

static int look(struct asking *a, const struct key_ring *ring, const char *domain)
{
    if (ring == NULL) {
        (void)fputs("sluice dkim: the configuration has no section dkim; write dkim "
                    "\"SELECTOR._domainkey.DOMAIN\" { key = FILE }\n",
                    a->cli->err);
        return EX_NOHOST;
    }
    rcu_start();
    rcu_join();
    if (domain != NULL) {
        look_at_domain(a, ring, domain);
    }
    for (size_t i = 0; domain == NULL && i < ring->count; i++) {
        look_at_key(a, &ring->keys[i]);
    }
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return a->code;
}

int cli_dkim(const struct cli *cli, const struct cli_args *args)
{
    struct config *config = NULL;
    struct key_ring *ring = NULL;
    const struct config_sink sink = {.complain = complain, .ctx = cli->err};
    int code = cli_config(cli, false, &config);
    if (code != 0) {
        return code;
    }
    struct asking a = {.cli = cli,
                       .config = config,
                       .tenant = cli_value(args, "tenant"),
                       .is_zone = cli_value(args, "zone") != NULL};
    int err = key_ring_load(config, NULL, &sink, &ring);
    if (err == 0) {
        code = look(&a, ring, args->argc > 0 ? args->argv[0] : NULL);
    } else {
        code = err == -ENOMEM ? EX_OSERR : EX_CONFIG;
    }
    key_ring_free(ring);
    config_free(config);
    return code;
}
