/* Sends on a blocking socket; a client that does not read runs into its timeout. */
#include "engine/answer.h"

#include "base/rcu.h"

#include <stdlib.h>
#include <sys/socket.h>

void answer_init(struct answer *a, int fd)
{
    *a = (struct answer){.fd = fd};
    buf_init(&a->out, 0);
}

void answer_fini(struct answer *a)
{
    buf_fini(&a->out);
}

void answer_flush(struct answer *a)
{
    size_t done = 0;
    rcu_sleep();
    while (!a->has_failed && done < a->out.len) {
        ssize_t n = send(a->fd, a->out.data + done, a->out.len - done, MSG_NOSIGNAL);
        if (n <= 0) {
            a->has_failed = true;
        } else {
            done += (size_t)n;
        }
    }
    rcu_awake();
    buf_clear(&a->out);
}

bool answer_is_long(const struct answer *a)
{
    return a->out.len > 1 << 16;
}

void answer_put(struct answer *a, json_t *object)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL) {
        a->has_failed = true; /* out of memory: the answer has no end line, and that tells */
        return;
    }
    buf_append_str(&a->out, text);
    buf_append_char(&a->out, '\n');
    free(text);
    a->count++;
}

void answer_end(struct answer *a, bool has_more)
{
    uint64_t count = a->count;
    answer_put(a, json_pack("{s:b, s:I, s:b}", "end", 1, "count", (json_int_t)count, "more",
                            (int)has_more));
    answer_flush(a);
}

void answer_error(struct answer *a, const char *code, const char *text)
{
    answer_put(a, json_pack("{s:s, s:s}", "error", text, "code", code));
    answer_flush(a);
}

json_t *answer_text(struct slice s)
{
    if (s.len == 0) {
        return json_string("");
    }
    json_t *j = json_stringn(s.data, s.len);
    if (j != NULL) {
        return j;
    }
    char *copy = malloc(s.len + 1);
    if (copy == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < s.len; i++) {
        char byte = s.data[i];
        copy[i] = '?';
        if ((unsigned char)byte < 128) {
            copy[i] = byte;
        }
    }
    j = json_stringn(copy, s.len);
    free(copy);
    return j;
}

static json_t *json_time(usec_t t)
{
    return json_real((double)t / (double)USEC_PER_SEC);
}

void answer_set_text(json_t *o, const char *key, struct slice s)
{
    (void)json_object_set_new(o, key, answer_text(s)); /* out of memory leaves it out */
}

void answer_set_number(json_t *o, const char *key, uint64_t n)
{
    (void)json_object_set_new(o, key, json_integer((json_int_t)n)); /* likewise */
}

void answer_set_time(json_t *o, const char *key, usec_t t)
{
    (void)json_object_set_new(o, key, json_time(t)); /* likewise */
}
