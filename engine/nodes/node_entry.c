/* Entries of nodes as JSON. Any thread; what comes from others is checked and never asserted. */
#include "engine/nodes/node_entry.h"

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT = 1 };

static const struct {
    const char *name;
    size_t at; /* of a uint64_t in struct node_counts */
} counts[] = {{"messages", offsetof(struct node_counts, messages)},
              {"received", offsetof(struct node_counts, received)},
              {"delivered", offsetof(struct node_counts, delivered)},
              {"deferrals", offsetof(struct node_counts, deferrals)},
              {"failed", offsetof(struct node_counts, failed)},
              {"expired", offsetof(struct node_counts, expired)}};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static uint64_t *count_of(struct node_counts *c, size_t i)
{
    return (uint64_t *)((char *)c + counts[i].at);
}

/* A number that is 0 goes unsaid. */
static bool set_positive(json_t *o, const char *name, uint64_t number)
{
    return number == 0 || json_object_set_new(o, name, json_integer((json_int_t)number)) == 0;
}

static bool set_counts(json_t *o, const struct node_entry *e)
{
    struct node_counts c = e->counts;
    json_t *to = e->has_counts ? json_object() : NULL;
    bool is_whole = !e->has_counts || json_object_set_new(o, "counts", to) == 0;
    for (size_t i = 0; e->has_counts && is_whole && i < COUNTS; i++) {
        is_whole = json_object_set_new(to, counts[i].name,
                                       json_integer((json_int_t)*count_of(&c, i))) == 0;
    }
    return is_whole;
}

size_t node_entry_write(const struct node_entry *e, char ret[static NODE_ENTRY_BYTES])
{
    char start[17];
    (void)snprintf(start, sizeof(start), "%016llx", (unsigned long long)e->start);
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "format", FORMAT, "node",
                          e->name, "state", e->is_leaving ? "left" : "up", "address", e->address,
                          "version", e->version, "start", start, "beats", (json_int_t)e->beats,
                          "started", (json_int_t)e->started);
    bool is_whole = o != NULL && set_positive(o, "number", e->number) &&
                    set_positive(o, "orders", e->orders) && set_counts(o, e);
    size_t len = !is_whole ? 0 : json_dumpb(o, ret, NODE_ENTRY_BYTES, JSON_COMPACT);
    json_decref(o);
    return len <= NODE_ENTRY_BYTES ? len : 0;
}

/* false: it is missing, no text, or too long */
static bool take_text(const json_t *o, const char *name, char *ret, size_t size)
{
    const json_t *value = json_object_get(o, name);
    if (!json_is_string(value) || json_string_length(value) >= size ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        return false;
    }
    memcpy(ret, json_string_value(value), json_string_length(value) + 1);
    return true;
}

static bool take_count(const json_t *o, const char *name, int64_t *ret)
{
    const json_t *value = json_object_get(o, name);
    *ret = json_integer_value(value);
    return json_is_integer(value) && *ret >= 0;
}

/* All of them, or none; a part of them is no entry. */
static bool take_counts(const json_t *o, struct node_entry *ret)
{
    const json_t *from = json_object_get(o, "counts");
    ret->has_counts = from != NULL;
    for (size_t i = 0; from != NULL && i < COUNTS; i++) {
        int64_t value;
        if (!take_count(from, counts[i].name, &value)) {
            return false;
        }
        *count_of(&ret->counts, i) = (uint64_t)value;
    }
    return true;
}

/* 0 when it is not there. */
static bool take_positive(const json_t *o, const char *name, int64_t most, uint64_t *ret)
{
    int64_t value = 0;
    bool is_sound = json_object_get(o, name) == NULL || take_count(o, name, &value);
    *ret = (uint64_t)value;
    return is_sound && value <= most;
}

static bool take_start(const json_t *o, uint64_t *ret)
{
    char text[17];
    unsigned long long number;
    int end = 0;
    if (!take_text(o, "start", text, sizeof(text)) ||
        sscanf(text, "%16llx%n", &number, &end) != 1 || end != 16) {
        return false;
    }
    *ret = number;
    return true;
}

int node_entry_read(struct slice text, struct node_entry *ret)
{
    struct node_entry e = {.start = 0};
    int64_t beats = 0, started = 0;
    uint64_t number = 0;
    char state[8];
    json_t *o = json_loadb(text.data, text.len, 0, NULL);
    bool is_one = json_integer_value(json_object_get(o, "format")) == FORMAT &&
                  take_text(o, "node", e.name, sizeof(e.name)) && e.name[0] != '\0' &&
                  take_text(o, "state", state, sizeof(state)) &&
                  take_text(o, "address", e.address, sizeof(e.address)) &&
                  take_text(o, "version", e.version, sizeof(e.version)) &&
                  take_start(o, &e.start) && take_count(o, "beats", &beats) &&
                  take_count(o, "started", &started) &&
                  take_positive(o, "number", UINT16_MAX, &number) &&
                  take_positive(o, "orders", INT64_MAX, &e.orders) && take_counts(o, &e);
    json_decref(o);
    if (!is_one) {
        return ERR_SYNTAX;
    }
    e.beats = (uint64_t)beats;
    e.number = (uint16_t)number;
    e.started = started;
    e.is_leaving = strcmp(state, "left") == 0;
    *ret = e;
    return 0;
}
