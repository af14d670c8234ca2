/* Questions of other nodes: each becomes a call from inside, and its answer goes back in parts. Until it
 * is there the node that asked hears from us, so that it can tell a long walk from nobody. Thread:
 * gather. */
#include "base/error.h"
#include "engine/gather/gather_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* false: no server takes it */
static bool send_part(struct gather *g, const char *reply, const struct answer_part *p)
    ON_ROLE(g->post)
{
    struct buf b;
    buf_init(&b, 0);
    int err =
        answer_part_write(p, &b) ? g->module->answer(g->client, reply, buf_slice(&b)) : ERR_LIMIT;
    buf_fini(&b);
    return err == 0;
}

/* What does not get through shows as silence at who asked. */
static void send_answer(struct gather *g, const char *reply, uint64_t number, int status,
                        struct slice bytes) ON_ROLE(g->post)
{
    struct answer_part p = {.number = number, .state = ANSWER_PART_MORE, .status = status};
    do {
        p.bytes = slice_to(bytes, bytes.len < ANSWER_PART_BYTES ? bytes.len : ANSWER_PART_BYTES);
        bytes = slice_from(bytes, p.bytes.len);
        p.state = bytes.len == 0 ? ANSWER_PART_END : ANSWER_PART_MORE;
    } while (send_part(g, reply, &p) && p.number++ < UINT64_MAX && bytes.len > 0);
}

static void refuse_question(struct gather *g, const char *reply, int status, const char *why)
    ON_ROLE(g->post)
{
    char text[200];
    int len = snprintf(text, sizeof(text), "{\"error\":\"%s\"}\n", why);
    send_answer(g, reply, 0, status, slice_of_printed(text, sizeof(text), len));
}

void serving_begin(struct gather *g, const struct event *e, usec_t now)
{
    struct node_question *q = malloc(sizeof(*q));
    struct serving *s = calloc(1, sizeof(*s));
    int err = q == NULL || s == NULL || g->serving_count == GATHER_SERVINGS_MAX
                  ? ERR_LIMIT
                  : node_question_read(buf_slice(&e->bytes), q);
    if (g->client == NULL) { /* it was open when the question came */
        err = ERR_CLOSED;
    } else if (err == ERR_LIMIT) {
        refuse_question(g, e->name, 429, "too many requests of other nodes at a time");
    } else if (err != 0) {
        refuse_question(g, e->name, 400,
                        err == ERR_CORRUPT ? "the question is of a version that is not understood"
                                           : "the question is not understood");
    } else {
        list_init(&s->link);
        memcpy(s->reply, e->name, sizeof(s->reply));
        s->number = ++g->last_number;
        s->next_beat = now;
        err = gather_call_self(g, q->target, q->tenant, s->number, true);
    }
    free(q);
    if (err != 0) {
        free(s);
        return;
    }
    list_push_back(&g->servings, &s->link);
    g->serving_count++;
}

static void serving_free(struct gather *g, struct serving *s)
{
    list_remove(&s->link);
    g->serving_count--;
    free(s);
}

void serving_end(struct gather *g, const struct event *e)
{
    list_foreach_safe(s, &g->servings, struct serving, link)
    {
        if (s->number == e->number) {
            send_answer(g, s->reply, 0, e->status, buf_slice(&e->bytes));
            serving_free(g, s);
            return;
        }
    }
}

usec_t serving_beat(struct gather *g, usec_t now)
{
    usec_t next = USEC_NEVER;
    list_foreach_safe(s, &g->servings, struct serving, link)
    {
        if (now >= s->next_beat) {
            const struct answer_part p = {.state = ANSWER_PART_WORKS, .bytes = SLICE("")};
            s->next_beat = now + GATHER_BEAT;
            (void)send_part(g, s->reply, &p); /* the next one may get through */
        }
        next = s->next_beat < next ? s->next_beat : next;
    }
    return next;
}

void serving_drop_all(struct gather *g)
{
    list_foreach_safe(s, &g->servings, struct serving, link)
    {
        serving_free(g, s);
    }
}
