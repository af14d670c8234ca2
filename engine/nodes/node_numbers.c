/* The numbers of nodes as JSON. Any thread; what comes from others is checked and never asserted. */
#include "engine/nodes/node_numbers.h"

#include "base/error.h"
#include "engine/nodes/cluster_module.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1 };

static bool is_number(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 1 &&
           json_integer_value(value) <= UINT16_MAX;
}

static bool has_number(json_t *nodes, json_int_t number)
{
    const char *name;
    json_t *value;
    json_object_foreach(nodes, name, value)
    {
        if (json_integer_value(value) == number) {
            return true;
        }
    }
    return false;
}

/* Each below `next` and none twice; `next` is one more than the greatest number when all are given. */
static bool is_sound(json_t *o)
{
    json_t *next = json_object_get(o, "next"), *nodes = json_object_get(o, "nodes"), *value;
    const char *name;
    unsigned char is_given[UINT16_MAX / 8 + 1] = {0};
    if (json_integer_value(json_object_get(o, "format")) != FORMAT || !json_is_integer(next) ||
        json_integer_value(next) < 1 || json_integer_value(next) > UINT16_MAX + 1 ||
        !json_is_object(nodes)) {
        return false;
    }
    json_object_foreach(nodes, name, value)
    {
        if (!is_number(value) || json_integer_value(value) >= json_integer_value(next)) {
            return false;
        }
        unsigned number = (unsigned)json_integer_value(value);
        if ((is_given[number / 8] & (1U << (number % 8))) != 0) {
            return false;
        }
        is_given[number / 8] |= (unsigned char)(1U << (number % 8));
    }
    return true;
}

/* errors: ERR_SYNTAX, -ENOMEM */
static int load(struct slice seen, json_t **ret)
{
    *ret = seen.data == NULL ? json_pack("{s:i, s:i, s:{}}", "format", FORMAT, "next", 1, "nodes")
                             : json_loadb(seen.data, seen.len, JSON_REJECT_DUPLICATES, NULL);
    if (seen.data == NULL) {
        return *ret == NULL ? -ENOMEM : 0;
    }
    if (*ret == NULL || !is_sound(*ret)) {
        json_decref(*ret);
        *ret = NULL;
        return ERR_SYNTAX;
    }
    return 0;
}

/* errors: -ENOMEM, ERR_LIMIT */
static int print(const json_t *o, struct node_numbers_step *ret)
{
    char *text = json_dumps(o, JSON_COMPACT);
    size_t len = text == NULL ? 0 : strlen(text);
    if (text == NULL || len > CLUSTER_VALUE_MAX) {
        free(text);
        return text == NULL ? -ENOMEM : ERR_LIMIT;
    }
    ret->value = text;
    ret->len = len;
    return 0;
}

/* errors: -ENOMEM, ERR_LIMIT */
static int give(json_t *o, const char *name, uint16_t wanted, struct node_numbers_step *ret)
{
    json_t *nodes = json_object_get(o, "nodes");
    json_int_t next = json_integer_value(json_object_get(o, "next"));
    json_int_t number = wanted != 0 && !has_number(nodes, wanted) ? wanted : next;
    if (number > UINT16_MAX) {
        return ERR_LIMIT;
    }
    if (json_object_set_new(nodes, name, json_integer(number)) != 0 ||
        json_object_set_new(o, "next", json_integer(number < next ? next : number + 1)) != 0) {
        return -ENOMEM;
    }
    int err = print(o, ret);
    ret->number = err == 0 ? (uint16_t)number : 0;
    return err;
}

int node_numbers_take(struct slice seen, const char *name, uint16_t wanted,
                      struct node_numbers_step *ret)
{
    json_t *o;
    *ret = (struct node_numbers_step){.value = NULL};
    int err = load(seen, &o);
    if (err != 0) {
        return err;
    }
    const json_t *own = json_object_get(json_object_get(o, "nodes"), name);
    if (own != NULL) {
        ret->number = (uint16_t)json_integer_value(own);
    } else {
        err = give(o, name, wanted, ret);
    }
    json_decref(o);
    return err;
}

int node_numbers_own(struct slice seen, const char *name, uint16_t number,
                     struct node_numbers_step *ret)
{
    json_t *o;
    *ret = (struct node_numbers_step){.value = NULL};
    int err = load(seen, &o);
    if (err != 0) {
        return err;
    }
    json_t *nodes = json_object_get(o, "nodes");
    const json_t *own = json_object_get(nodes, name);
    if (number != 0 && own != NULL && json_integer_value(own) == number) {
        ret->number = number;
    } else if (number != 0 && has_number(nodes, number)) {
        err = ERR_LOCKED;
    } else {
        err = give(o, name, number, ret);
    }
    json_decref(o);
    return err;
}

int node_numbers_drop(struct slice seen, const char *name, struct node_numbers_step *ret)
{
    json_t *o;
    *ret = (struct node_numbers_step){.value = NULL};
    int err = load(seen, &o);
    if (err == 0 && json_object_del(json_object_get(o, "nodes"), name) == 0) {
        err = print(o, ret);
    }
    json_decref(o); /* accepts NULL */
    return err;
}
