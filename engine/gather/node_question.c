/* Questions and answers as text. Any thread. */
#include "engine/gather/node_question.h"

#include "base/error.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

enum { FORMAT = 1, HEAD_MAX = 4096 /* bytes of a part's first line */ };

static const char *const states[] = {
    [ANSWER_PART_WORKS] = "works", [ANSWER_PART_MORE] = "more", [ANSWER_PART_END] = "end"};

/* Takes the object; false: out of memory. */
static bool append_json(json_t *o, struct buf *ret)
{
    char *text = o == NULL ? NULL : json_dumps(o, JSON_COMPACT);
    json_decref(o);
    buf_append_str(ret, text == NULL ? "" : text);
    bool is_good = text != NULL && !ret->failed;
    free(text);
    return is_good;
}

/* An object of our format; the caller's reference. */
static int load(struct slice text, json_t **ret)
{
    json_t *o = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        return ERR_SYNTAX;
    }
    if (json_integer_value(json_object_get(o, "format")) != FORMAT) {
        json_decref(o);
        return ERR_CORRUPT;
    }
    *ret = o;
    return 0;
}

static struct slice text_of(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    return json_is_string(value) ? slice_make(json_string_value(value), json_string_length(value))
                                 : SLICE("");
}

bool node_question_write(struct slice target, struct slice tenant, struct buf *ret)
{
    json_t *o = json_pack("{s:i, s:s%}", "format", FORMAT, "target", target.data, target.len);
    if (o != NULL && tenant.len > 0 &&
        json_object_set_new(o, "tenant", json_stringn(tenant.data, tenant.len)) != 0) {
        json_decref(o);
        return false;
    }
    return target.len <= NODE_QUESTION_TARGET_MAX && append_json(o, ret);
}

int node_question_read(struct slice text, struct node_question *ret)
{
    json_t *o;
    int err = load(text, &o);
    if (err != 0) {
        return err;
    }
    struct slice target = text_of(o, "target"), tenant = text_of(o, "tenant");
    bool has_tenant = json_object_get(o, "tenant") != NULL;
    /* A tenant that is none must not become no bound at all. */
    if (target.len == 0 || target.len > NODE_QUESTION_TARGET_MAX || target.data[0] != '/' ||
        memchr(target.data, '\0', target.len) != NULL || (has_tenant && !label_is_valid(tenant))) {
        err = ERR_SYNTAX;
    } else {
        memcpy(ret->target, target.data, target.len);
        ret->target[target.len] = '\0';
        ret->tenant.len = 0;
        if (has_tenant) {
            label_set(&ret->tenant, tenant);
        }
    }
    json_decref(o);
    return err;
}

bool answer_part_write(const struct answer_part *p, struct buf *ret)
{
    json_t *o = json_pack("{s:i, s:I, s:s}", "format", FORMAT, "part", (json_int_t)p->number,
                          "state", states[p->state]);
    if (o != NULL && p->state == ANSWER_PART_END) {
        (void)json_object_set_new(o, "status",
                                  json_integer(p->status)); /* or it is not understood */
    }
    bool is_good = append_json(o, ret);
    buf_append_char(ret, '\n');
    buf_append_slice(ret, p->bytes);
    return is_good && !ret->failed;
}

int answer_part_read(struct slice text, struct answer_part *ret)
{
    size_t end = slice_find(text, '\n');
    json_t *o;
    if (end == text.len || end > HEAD_MAX) {
        return ERR_SYNTAX;
    }
    int err = load(slice_to(text, end), &o);
    if (err != 0) {
        return err;
    }
    struct slice state = text_of(o, "state");
    const json_t *number = json_object_get(o, "part");
    json_int_t status = json_integer_value(json_object_get(o, "status"));
    err = ERR_SYNTAX;
    for (int i = ANSWER_PART_WORKS; i <= ANSWER_PART_END; i++) {
        /* No other status is one of a call with an answer of its own. */
        bool is_known =
            i != ANSWER_PART_END || status == 200 || (status >= 400 && status <= 599);
        if (slice_eq(state, slice_of(states[i])) && is_known && json_is_integer(number) &&
            json_integer_value(number) >= 0) {
            *ret = (struct answer_part){.number = (uint64_t)json_integer_value(number),
                                        .state = (enum answer_part_state)i,
                                        .status = (int)status,
                                        .bytes = slice_from(text, end + 1)};
            err = 0;
        }
    }
    json_decref(o);
    return err;
}
