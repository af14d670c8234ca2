/* Calls that are for other nodes: who is asked, what came of it, and when that is enough. Thread:
 * gather. What other nodes say is checked here and in answer_rows.c. */
#include "base/error.h"
#include "engine/gather/answer_rows.h"
#include "engine/gather/gather_private.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DECIMAL = 10 };

/* --- whom to ask ------------------------------------------------------------------------------ */

static bool is_named(const struct node_view *n, struct slice name)
{
    return slice_eq(slice_of(n->entry.name), name);
}

static void add_node(struct asking *a, const char *name, bool is_self, usec_t now)
{
    struct asked_node *n = &a->nodes[a->count++];
    (void)snprintf(n->name, sizeof(n->name), "%s", name); /* it fits */
    n->is_self = is_self;
    n->heard = now;
    buf_init(&n->bytes, GATHER_ANSWER_MAX);
}

/* All but those that left; this one also while nobody has seen its entry. */
static void add_all(struct asking *a, const struct nodes_view *v, usec_t now)
{
    bool has_self = false;
    for (size_t i = 0; i < v->count; i++) {
        const struct node_view *n = &v->nodes[i];
        has_self = has_self || n->is_self;
        if (n->is_self || !n->entry.is_leaving) {
            add_node(a, n->entry.name, n->is_self, now);
        }
    }
    if (!has_self) {
        add_node(a, v->self, true, now);
    }
}

/* false: the call is answered */
static bool add_one(struct asking *a, const struct nodes_view *v, struct slice name, usec_t now)
{
    if (slice_eq(name, slice_of(v->self))) {
        add_node(a, v->self, true, now);
        return true;
    }
    for (size_t i = 0; i < v->count; i++) {
        if (is_named(&v->nodes[i], name)) {
            add_node(a, v->nodes[i].entry.name, false, now);
            return true;
        }
    }
    api_error(a->call, 404, "missing", "node: no such node is known");
    return false;
}

static bool add_nodes(struct asking *a, const struct nodes_view *v, usec_t now)
{
    struct slice one, all;
    bool has_one = api_param(a->call, "node", &one), has_all = api_param(a->call, "nodes", &all);
    if (has_one && has_all) {
        api_error(a->call, 400, "usage", "node or nodes, not both");
    } else if (has_all && !slice_eq(all, SLICE("all"))) {
        api_error(a->call, 400, "usage", "nodes: all is all that it can be");
    } else if (has_all) {
        a->is_all = true;
        add_all(a, v, now);
        return true;
    } else {
        return add_one(a, v, one, now);
    }
    return false;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void fail_node(struct gather *g, struct asked_node *n, const char *why)
{
    g->held_bytes -= n->bytes.len;
    buf_fini(&n->bytes);
    buf_init(&n->bytes, GATHER_ANSWER_MAX);
    n->status = 0;
    n->is_done = true;
    n->error = why;
}

static void ask_node(struct gather *g, struct asking *a, size_t i, struct slice question,
                     const char *target) ON_ROLE(g->post)
{
    struct asked_node *n = &a->nodes[i];
    char token[CLUSTER_API_TOKEN_MAX + 1];
    struct label tenant = {.len = 0};
    if (n->is_self) {
        label_set(&tenant, api_tenant(a->call));
        if (gather_call_self(g, target, tenant, a->number, false) != 0) {
            fail_node(g, n, "out of memory");
        }
        return;
    }
    (void)snprintf(token, sizeof(token), "%llu-%zu", (unsigned long long)a->number,
                   i); /* it fits */
    int err = g->client == NULL ? ERR_CLOSED : g->module->ask(g->client, n->name, token, question);
    if (err != 0) {
        fail_node(g, n, "no server of the cluster is connected");
    }
}

static void ask_all(struct gather *g, struct asking *a) ON_ROLE(g->post)
{
    struct buf target, question;
    buf_init(&target, 0);
    buf_init(&question, 0);
    api_put_target(a->call, &target);
    bool is_good =
        !target.failed && node_question_write(buf_slice(&target), api_tenant(a->call), &question);
    buf_append_char(&target, '\0');
    is_good = is_good && !target.failed;
    for (size_t i = 0; i < a->count; i++) {
        if (is_good) {
            ask_node(g, a, i, buf_slice(&question), target.data);
        } else {
            fail_node(g, &a->nodes[i], "the question is too long");
        }
    }
    buf_fini(&target);
    buf_fini(&question);
}

static void give_back(struct gather *g, struct api_call *c) ON_ROLE(g->post)
{
    letter_put_answer(g->to_http, c);
}

static void free_asking(struct gather *g, struct asking *a)
{
    for (size_t i = 0; i < a->count; i++) {
        g->held_bytes -= a->nodes[i].bytes.len;
        buf_fini(&a->nodes[i].bytes);
    }
    if (list_is_linked(&a->link)) {
        list_remove(&a->link);
        g->asking_count--;
    }
    free(a);
}

/* The call is answered with what there is. */
static void finish(struct gather *g, struct asking *a) ON_ROLE(g->post)
{
    struct node_answer *answers = calloc(a->count, sizeof(*answers));
    for (size_t i = 0; answers != NULL && i < a->count; i++) {
        const struct asked_node *n = &a->nodes[i];
        answers[i] = (struct node_answer){.node = n->name,
                                          .is_self = n->is_self,
                                          .status = n->status,
                                          .bytes = buf_slice(&n->bytes),
                                          .error = n->error};
    }
    if (answers == NULL) {
        api_error(a->call, 503, "unavailable", "out of memory");
    } else if (a->is_all) {
        answer_rows_all(a->call, answers, a->count, api_reach_of(a->call) == API_BY_ID);
    } else {
        answer_rows_one(a->call, answers);
    }
    free(answers);
    give_back(g, a->call);
    free_asking(g, a);
}

static void finish_when_done(struct gather *g, struct asking *a) ON_ROLE(g->post)
{
    for (size_t i = 0; i < a->count; i++) {
        if (!a->nodes[i].is_done) {
            return;
        }
    }
    finish(g, a);
}

void asking_begin(struct gather *g, struct api_call *c, usec_t now)
{
    struct nodes_view *v = malloc(sizeof(*v));
    struct asking *a = calloc(1, sizeof(*a) + (NODES_MAX + 1) * sizeof(a->nodes[0]));
    if (v == NULL || a == NULL || g->asking_count == GATHER_ASKINGS_MAX) {
        api_retry_after(c, 1);
        api_error(c, 429, "busy", "too many requests to other nodes at a time");
        give_back(g, c);
        free(v);
        free(a);
        return;
    }
    list_init(&a->link);
    a->call = c;
    a->begun = now;
    a->number = ++g->last_number;
    nodes_look(g->engine->nodes, v);
    bool is_good = add_nodes(a, v, now);
    free(v);
    if (!is_good) {
        give_back(g, c);
        free_asking(g, a);
        return;
    }
    list_push_back(&g->askings, &a->link);
    g->asking_count++;
    ask_all(g, a);
    finish_when_done(g, a);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* NULL: it has been answered. */
static struct asking *find_asking(struct gather *g, uint64_t number)
{
    list_foreach_safe(a, &g->askings, struct asking, link)
    {
        if (a->number == number) {
            return a;
        }
    }
    return NULL;
}

void asking_take_own(struct gather *g, struct event *e)
{
    struct asking *a = find_asking(g, e->number);
    for (size_t i = 0; a != NULL && i < a->count; i++) {
        struct asked_node *n = &a->nodes[i];
        if (n->is_self && !n->is_done && g->held_bytes + e->bytes.len > GATHER_HELD_MAX) {
            fail_node(g, n, "its answer is too large");
        } else if (n->is_self && !n->is_done) {
            n->status = e->status;
            n->is_done = true;
            g->held_bytes += e->bytes.len;
            n->bytes = e->bytes;
            buf_init(&e->bytes, 0);
        }
    }
    if (a != NULL) {
        finish_when_done(g, a);
    }
}

static struct asking *find_by_token(struct gather *g, const char *token, size_t *ret_node)
{
    char *end;
    uint64_t number = strtoull(token, &end, DECIMAL);
    struct asking *a = *end == '-' ? find_asking(g, number) : NULL;
    *ret_node = a == NULL ? 0 : strtoull(end + 1, &end, DECIMAL);
    return a != NULL && *end == '\0' && *ret_node < a->count ? a : NULL;
}

static void take_part(struct gather *g, struct asked_node *n, const struct answer_part *p)
{
    if (p->state != ANSWER_PART_WORKS && p->number != n->next_part) {
        fail_node(g, n, "its answer was cut off");
        return;
    }
    if (p->state == ANSWER_PART_WORKS) {
        return;
    }
    n->next_part++;
    size_t had = n->bytes.len;
    if (g->held_bytes + p->bytes.len <= GATHER_HELD_MAX) {
        buf_append_slice(&n->bytes, p->bytes);
    } else {
        n->bytes.failed = true;
    }
    g->held_bytes += n->bytes.len - had;
    if (n->bytes.failed) {
        fail_node(g, n, "its answer is too large");
    } else if (p->state == ANSWER_PART_END) {
        n->status = p->status;
        n->is_done = true;
    }
}

void asking_hear(struct gather *g, struct event *e, usec_t now)
{
    size_t i;
    struct answer_part p;
    struct asking *a = find_by_token(g, e->name, &i);
    if (a == NULL || a->nodes[i].is_done || a->nodes[i].is_self) {
        return;
    }
    struct asked_node *n = &a->nodes[i];
    int err = e->is_nobody ? ERR_CLOSED : answer_part_read(buf_slice(&e->bytes), &p);
    n->heard = now;
    if (e->is_nobody) {
        fail_node(g, n, "it is not there");
    } else if (err == ERR_CORRUPT) {
        fail_node(g, n, "it is of a version that is not understood");
    } else if (err != 0) {
        fail_node(g, n, "its answer is not understood");
    } else {
        take_part(g, n, &p);
    }
    finish_when_done(g, a);
}

usec_t asking_expire(struct gather *g, usec_t now)
{
    list_foreach_safe(a, &g->askings, struct asking, link)
    {
        bool is_over = now - a->begun >= GATHER_LONGEST || api_is_deserted(a->call);
        for (size_t i = 0; i < a->count; i++) {
            struct asked_node *n = &a->nodes[i];
            if (!n->is_done && (is_over || (!n->is_self && now - n->heard >= GATHER_SILENCE))) {
                fail_node(g, n, is_over ? "no answer within 60 s" : "no answer within 2 s");
            }
        }
        finish_when_done(g, a);
    }
    return list_is_empty(&g->askings) ? USEC_NEVER : now + GATHER_SILENCE / 8;
}

void asking_drop_all(struct gather *g)
{
    list_foreach_safe(a, &g->askings, struct asking, link)
    {
        free_asking(g, a);
    }
}
