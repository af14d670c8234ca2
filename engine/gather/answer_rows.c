/* Owns nothing beyond a call. Called by the thread `gather`. */
#include "engine/gather/answer_rows.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 16 };

/* What one node said, as far as it is read. */
struct reading {
    const struct node_answer *answer;
    struct slice rest;     /* lines that were not taken; of a sound list rows only */
    struct slice row;      /* the next one, without LF; len 0: there is none */
    char id[ID_BYTES + 1]; /* of that row, where rows have ids */
    json_t *end;           /* the last line of a list; NULL: it was one object */
    const char *error;     /* why its rows are left out; NULL */
    char text[200];        /* what it said itself of that */
    size_t count;          /* rows that were put */
    bool has_more;
};

static bool is_absent(const struct reading *r)
{
    return r->error != NULL && r->answer->status != 404;
}

/* An object of a line; NULL: it is none, or two members have one name. What receivers said may have a NUL. */
static json_t *load_line(struct slice line)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *o =
        line.len == 0 ? NULL : json_loadb(line.data, line.len, flags, NULL);
    if (o != NULL && (!json_is_object(o) || line.data[0] != '{')) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Split off the last line of `s`, which ends with LF. */
static struct slice last_line(struct slice *s)
{
    if (s->len == 0 || s->data[s->len - 1] != '\n') {
        return SLICE("");
    }
    struct slice line = slice_to(*s, s->len - 1);
    size_t at = line.len;
    while (at > 0 && line.data[at - 1] != '\n') {
        at--;
    }
    *s = slice_to(*s, at);
    return slice_from(line, at);
}

static bool is_id(const char *id)
{
    return strlen(id) == ID_BYTES && strspn(id, "0123456789abcdef") == ID_BYTES;
}

/* Take the next row, checked. by_id: it must have an id behind the one before it. */
static void next_row(struct reading *r, bool by_id)
{
    r->row = SLICE("");
    if (r->rest.len == 0) {
        return;
    }
    size_t lf = slice_find(r->rest, '\n');
    r->row = slice_to(r->rest, lf);
    r->rest = slice_from(r->rest, lf < r->rest.len ? lf + 1 : lf);
    json_t *o = load_line(r->row);
    const char *id = json_string_value(json_object_get(o, "id"));
    bool is_good = o != NULL && json_object_get(o, "node") == NULL;
    if (is_good && by_id) {
        is_good = id != NULL && is_id(id) && strcmp(r->id, id) < 0;
        if (is_good) {
            memcpy(r->id, id, sizeof(r->id));
        }
    }
    json_decref(o);
    if (!is_good) {
        r->error = "its answer is not understood";
        r->row = r->rest = SLICE("");
    }
}

/* What a node's error says, in its words. */
static void take_error(struct reading *r)
{
    struct slice rest = r->answer->bytes;
    json_t *o = load_line(last_line(&rest));
    const char *said = json_string_value(json_object_get(o, "error"));
    (void)snprintf(r->text, sizeof(r->text), "%s", said == NULL ? "it could not answer" : said);
    r->error = r->text;
    json_decref(o);
}

static void begin_reading(struct reading *r, const struct node_answer *a, bool by_id)
{
    *r = (struct reading){.answer = a, .rest = a->bytes, .row = SLICE(""), .error = a->error};
    if (r->error == NULL && a->status != 200) {
        take_error(r);
    }
    if (r->error != NULL) {
        r->rest = SLICE("");
        return;
    }
    json_t *last = load_line(last_line(&r->rest));
    if (json_is_true(json_object_get(last, "end"))) {
        r->end = last;
        r->has_more = json_is_true(json_object_get(last, "more"));
    } else if (last != NULL && r->rest.len == 0) {
        json_decref(last);
        r->rest = a->bytes; /* one object, which is its row */
    } else {
        json_decref(last);
        r->error = last == NULL ? "its answer is not understood" : "its answer was cut off";
        r->rest = SLICE("");
    }
    next_row(r, by_id);
}

static void put_text(struct buf *b, const char *text)
{
    json_t *j = api_text(slice_of(text));
    char *dumped = j == NULL ? NULL : json_dumps(j, JSON_ENCODE_ANY);
    buf_append_str(b, dumped == NULL ? "\"\"" : dumped);
    free(dumped);
    json_decref(j);
}

/* An object, which begins with '{', with the node as its first member. */
static void put_row(struct api_call *c, const char *node, struct slice row)
{
    struct buf b;
    struct slice inside = slice_trim(slice_from(row, 1));
    buf_init(&b, 0);
    buf_append_str(&b, "{\"node\":");
    put_text(&b, node);
    buf_append_str(&b, inside.data[0] == '}' ? "" : ",");
    buf_append_slice(&b, inside);
    if (b.failed) {
        api_put(c, NULL); /* out of memory becomes an error */
    } else {
        api_put_text(c, buf_slice(&b));
    }
    buf_fini(&b);
}

static void put_in_turn(struct api_call *c, struct reading *readings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct reading *r = &readings[i];
        while (r->row.len > 0) {
            if (api_is_long(c)) {
                r->has_more = true;
                break;
            }
            put_row(c, r->answer->node, r->row);
            r->count++;
            next_row(r, false);
        }
    }
}

/* Whether nothing more can be put in the order of ids: rows of this node may follow that it did not
 * give, and they come before others'. */
static bool is_exhausted(const struct reading *r)
{
    return r->row.len == 0 && r->has_more && r->error == NULL;
}

/* Rows with one id go together: `after` cannot stop between them. */
static void put_by_id(struct api_call *c, struct reading *readings, size_t count, uint64_t limit)
{
    char last[ID_BYTES + 1] = "";
    for (;;) {
        struct reading *first = NULL;
        bool must_end = false;
        for (size_t i = 0; i < count; i++) {
            struct reading *r = &readings[i];
            must_end = must_end || is_exhausted(r);
            if (r->row.len > 0 && (first == NULL || strcmp(r->id, first->id) < 0)) {
                first = r;
            }
        }
        must_end = must_end || api_count(c) >= limit || api_is_long(c);
        if (first == NULL || (must_end && strcmp(first->id, last) != 0)) {
            return;
        }
        memcpy(last, first->id, sizeof(last));
        put_row(c, first->answer->node, first->row);
        first->count++;
        next_row(first, true);
    }
}

static json_t *node_object(const struct reading *r)
{
    json_t *o = r->end == NULL ? json_object() : json_copy(r->end);
    if (o == NULL) {
        return NULL;
    }
    (void)json_object_del(o, "end"); /* it may not be there */
    api_set_text(o, "node", slice_of(r->answer->node));
    api_set_number(o, "count", r->count);
    if (r->answer->status != 0) {
        api_set_number(o, "status", (uint64_t)r->answer->status);
    }
    if (r->error != NULL) {
        api_set_text(o, "error", slice_of(r->error));
    }
    /* out of memory leaves it out */
    (void)json_object_set_new(o, "more", json_boolean(r->has_more || r->row.len > 0));
    return o;
}

/* What a node's last line has in whole numbers, to the sums. */
static void add_numbers(json_t *sums, json_t *end)
{
    const char *name;
    json_t *value;
    json_object_foreach(end, name, value)
    {
        json_int_t sum = json_integer_value(json_object_get(sums, name));
        if (json_is_integer(value) && strcmp(name, "count") != 0 && strcmp(name, "more") != 0 &&
            !__builtin_add_overflow(sum, json_integer_value(value), &sum)) {
            (void)json_object_set_new(sums, name, json_integer(sum)); /* or it is left out */
        }
    }
}

/* The last line; with no node's answer an error instead. */
static void end_rows(struct api_call *c, const struct reading *readings, size_t count)
{
    json_t *end = json_object(), *nodes = json_array(), *absent = json_array();
    bool has_more = false;
    for (size_t i = 0; i < count; i++) {
        const struct reading *r = &readings[i];
        has_more = has_more || r->has_more || r->row.len > 0;
        (void)json_array_append_new(nodes, node_object(r)); /* out of memory leaves it out */
        if (is_absent(r)) {
            (void)json_array_append_new(absent, api_text(slice_of(r->answer->node))); /* likewise */
        }
        if (r->end != NULL && r->error == NULL && end != NULL) {
            add_numbers(end, r->end);
        }
    }
    if (end != NULL) {
        (void)json_object_set_new(end, "nodes", nodes);   /* likewise */
        (void)json_object_set_new(end, "absent", absent); /* likewise */
    }
    api_end_with(c, has_more, end);
}

/* The code of an error that an answer says, or of its status. */
static const char *code_of(int status)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {{400, "usage"},  {401, "token"}, {403, "forbidden"}, {404, "missing"},
                 {405, "method"}, {413, "large"}, {422, "wrong"},     {429, "busy"}};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i].status == status) {
            return codes[i].code;
        }
    }
    return "unavailable";
}

/* Nobody has it: what this node says, unless another one could not be asked. */
static void refuse(struct api_call *c, const struct reading *readings, size_t count)
{
    const struct reading *self = &readings[0], *absent = NULL;
    for (size_t i = 0; i < count; i++) {
        self = readings[i].answer->is_self ? &readings[i] : self;
        absent = absent == NULL && is_absent(&readings[i]) ? &readings[i] : absent;
    }
    if (self->answer->status == 404 && absent != NULL) {
        api_error(c, 503, "unavailable", "%s; node %s did not say: %s", self->error,
                  absent->answer->node, absent->error);
    } else {
        int status = self->answer->status == 0 ? 503 : self->answer->status;
        status = status == 200 ? 503 : status; /* it was not understood */
        api_error(c, status, code_of(status), "%s", self->error);
    }
}

void answer_rows_all(struct api_call *c, const struct node_answer *answers, size_t count,
                     bool is_by_id)
{
    struct reading *readings = calloc(count, sizeof(*readings));
    bool has_any = false;
    uint64_t limit = API_LIST_DEFAULT;
    if (readings == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        begin_reading(&readings[i], &answers[i], is_by_id);
        has_any = has_any || readings[i].error == NULL;
    }
    if (!has_any) {
        refuse(c, readings, count);
    } else if (!is_by_id || api_param_limit(c, &limit)) {
        if (is_by_id) {
            put_by_id(c, readings, count, limit);
        } else {
            put_in_turn(c, readings, count);
        }
        end_rows(c, readings, count);
    }
    for (size_t i = 0; i < count; i++) {
        json_decref(readings[i].end);
    }
    free(readings);
}

/* The rows of a list are many, and its last line is one of the answer's own. */
static void put_list(struct api_call *c, struct reading *r)
{
    put_in_turn(c, r, 1);
    bool has_more = r->has_more || r->row.len > 0;
    (void)json_object_del(r->end, "count"); /* they are set anew */
    (void)json_object_del(r->end, "more");
    (void)json_object_del(r->end, "end");
    api_set_text(r->end, "node", slice_of(r->answer->node));
    api_end_with(c, has_more, json_incref(r->end));
}

void answer_rows_one(struct api_call *c, const struct node_answer *a)
{
    struct reading r;
    begin_reading(&r, a, false);
    if (r.error == NULL && r.end != NULL) {
        put_list(c, &r);
    } else if (r.error == NULL) {
        json_t *o = load_line(r.row);
        if (o != NULL) {
            api_set_text(o, "node", slice_of(a->node));
        }
        api_object(c, 200, o);
    }
    if (r.error != NULL) { /* also of a row in the middle */
        int status = a->status == 0 || a->status == 200 ? 503 : a->status;
        api_error(c, status, code_of(status), "node %s: %s", a->node, r.error);
    }
    json_decref(r.end);
}
