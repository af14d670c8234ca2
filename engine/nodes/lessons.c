/* Reactions of the limits as values of a bucket, and back. */
#include "engine/nodes/lessons.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET     "sluice_sites"
#define INBOX_MOST 65536U

enum { FORMAT = 1, VALUE_BYTES = 4096 };

static const char *const kinds[] = {[LIMIT_REACTED_PACE] = "paced",
                                    [LIMIT_REACTED_CONNECTIONS] = "connections",
                                    [LIMIT_REACTED_SESSION] = "session",
                                    [LIMIT_REACTED_CLOSED] = "closed",
                                    [LIMIT_REACTED_CLOSED_DESTINATION] = "destination-closed",
                                    [LIMIT_REACTED_OPENED] = "opened"};
static const char *const units[] = {"messages", "recipients", "connects"};

void lessons_init(struct lessons *s, struct limits *limits, const struct cluster_module *module,
                  const char *node)
{
    *s = (struct lessons){.limits = limits, .module = module, .node = node};
    inbox_init(&s->inbox, INBOX_MOST);
}

void lessons_fini(struct lessons *s)
{
    inbox_fini(&s->inbox);
}

static void hear_lesson(void *ctx, const char *key, const void *data, size_t len, uint64_t revision)
{
    struct lessons *s = ctx;
    (void)inbox_put(&s->inbox, key, data, len,
                    revision); /* one that is dropped we learn ourselves */
    s->wake(s->ctx);
}

int lessons_open(struct lessons *s, struct cluster_client *client)
{
    int err = cluster_module_follow(s->module, client, BUCKET, hear_lesson, s);
    if (err == 0) {
        s->client = client;
        s->next = limits_reaction_end(s->limits);
    }
    return err;
}

/* --- ours ------------------------------------------------------------------------------------- */

static bool travels(const struct limit_reaction *r)
{
    return r->cause != LIMIT_DONE_BY_PEER && r->kind < sizeof(kinds) / sizeof(kinds[0]) &&
           kinds[r->kind] != NULL;
}

/* The last part of a key. Closed and opened have one, so the later one stands. */
static const char *topic_of(const struct limit_reaction *r)
{
    if (r->kind == LIMIT_REACTED_PACE) {
        return units[r->unit];
    }
    return r->kind == LIMIT_REACTED_OPENED ? kinds[LIMIT_REACTED_CLOSED] : kinds[r->kind];
}

/* The same on all nodes: a number of the names, and what is said of the lane. */
static void make_key(const struct limit_reaction *r, char ret[static INBOX_KEY_MAX + 1])
{
    char names[4 * (LIMITS_NAME_MAX + 1)];
    size_t len = 0;
    for (const char *const *name =
             (const char *const[]){r->source, r->site, r->hosts, r->destination, NULL};
         *name != NULL; name++) {
        memcpy(names + len, *name, strlen(*name) + 1);
        len += strlen(*name) + 1;
    }
    (void)snprintf(ret, INBOX_KEY_MAX + 1, "%016llx.%s",
                   (unsigned long long)hash_checksum(names, len), topic_of(r));
}

/* returns its length; 0: out of memory, or text that is no UTF-8 in a name */
static size_t make_value(const struct lessons *s, const struct limit_reaction *r,
                         char ret[static VALUE_BYTES])
{
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:I, s:b}", "format",
                          FORMAT, "node", s->node, "kind", kinds[r->kind], "source", r->source,
                          "site", r->site, "hosts", r->hosts, "destination", r->destination, "rule",
                          r->rule, "unit", units[r->unit], "value", r->value, "span",
                          (json_int_t)(r->until > 0 ? r->until - r->time : 0), "ordered",
                          r->cause == LIMIT_DONE_BY_ORDER);
    json_t *text = json_string(r->text);
    if (o != NULL && text != NULL) {
        (void)json_object_set(o, "text", text); /* else it says nothing */
    }
    size_t len = o == NULL ? 0 : json_dumpb(o, ret, VALUE_BYTES, JSON_COMPACT);
    json_decref(text);
    json_decref(o);
    return len <= VALUE_BYTES ? len : 0;
}

static void send_reaction(struct lessons *s, const struct limit_reaction *r)
{
    char key[INBOX_KEY_MAX + 1], value[VALUE_BYTES];
    uint64_t revision;
    make_key(r, key);
    size_t len = make_value(s, r, value);
    bool is_sent = len > 0 && s->module->is_connected(s->client) &&
                   s->module->put(s->client, BUCKET, key, slice_make(value, len), &revision) == 0;
    atomic_fetch_add_explicit(is_sent ? &s->sent : &s->unsent, 1, memory_order_relaxed);
}

static void send_reactions(struct lessons *s)
{
    uint64_t begin = limits_reaction_begin(s->limits), end = limits_reaction_end(s->limits);
    struct limit_reaction r;
    for (s->next = s->next < begin ? begin : s->next; s->next < end; s->next++) {
        if (limits_reaction_get(s->limits, s->next, &r) && travels(&r)) {
            send_reaction(s, &r);
        }
    }
}

/* --- theirs ----------------------------------------------------------------------------------- */

static bool take_text(const json_t *o, const char *name, struct slice *ret)
{
    const json_t *value = json_object_get(o, name);
    *ret = json_is_string(value) ? slice_make(json_string_value(value), json_string_length(value))
                                 : SLICE("");
    return json_is_string(value);
}

/* The index, or `count`. */
static unsigned find_word(const json_t *o, const char *name, const char *const *words,
                          unsigned count)
{
    const char *word = json_string_value(json_object_get(o, name));
    unsigned i = 0;
    while (i < count && (word == NULL || words[i] == NULL || strcmp(words[i], word) != 0)) {
        i++;
    }
    return i;
}

/* errors: of limits_obey; ERR_SYNTAX: it is none, or of a version that is not known */
static int obey(struct lessons *s, const json_t *o)
{
    struct limit_key key;
    struct limit_lesson what = {.kind = LIMIT_REACTED_COUNT};
    bool is_one = json_integer_value(json_object_get(o, "format")) == FORMAT &&
                  take_text(o, "source", &key.source) && take_text(o, "site", &key.site) &&
                  take_text(o, "hosts", &key.hosts) && take_text(o, "rule", &what.rule);
    if (!is_one) {
        return ERR_SYNTAX;
    }
    (void)take_text(o, "text", &what.text); /* "" when it has none */
    (void)take_text(o, "destination", &what.destination);
    what.kind =
        (enum limit_reaction_kind)find_word(o, "kind", kinds, sizeof(kinds) / sizeof(kinds[0]));
    what.unit = find_word(o, "unit", units, sizeof(units) / sizeof(units[0]));
    what.span = json_integer_value(json_object_get(o, "span"));
    what.value = json_number_value(json_object_get(o, "value"));
    what.is_ordered = json_is_true(json_object_get(o, "ordered"));
    return limits_obey(s->limits, &key, &what, clock_mono());
}

static void take_value(struct lessons *s, const struct told *t)
{
    json_t *o = json_loadb(t->value, t->len, 0, NULL);
    const char *from = json_string_value(json_object_get(o, "node"));
    if (from == NULL || strcmp(from, s->node) != 0) {
        int err = obey(s, o);
        if (err != 0) {
            log_warning("cluster: what node %.40s learned is not obeyed: %s",
                        from == NULL ? "(unnamed)" : from, err_str(err));
        }
        atomic_fetch_add_explicit(&s->obeyed, err == 0, memory_order_relaxed);
    }
    json_decref(o);
}

static void read_inbox(struct lessons *s)
{
    struct told *next;
    for (struct told *t = inbox_take(&s->inbox); t != NULL; t = next) {
        next = t->next;
        s->revision = inbox_is_anew(&s->inbox, t) ? 0 : s->revision;
        s->has_begun = s->has_begun || (t->key[0] == '\0' && t->is_put);
        if (s->has_begun && t->key[0] != '\0' && t->is_put && t->revision > s->revision) {
            take_value(s, t);
        }
        s->revision = t->revision > s->revision ? t->revision : s->revision;
        free(t);
    }
}

void lessons_work(struct lessons *s)
{
    if (s->client != NULL) {
        read_inbox(s);
        send_reactions(s);
    }
}
