/* Entries of nodes as JSON. Any thread; what comes from others is checked and never asserted. */
#include "engine/nodes/node_entry.h"

#include "base/error.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT = 1 };

size_t node_entry_write(const struct node_entry *e, char ret[static NODE_ENTRY_BYTES])
{
    char start[17];
    (void)snprintf(start, sizeof(start), "%016llx", (unsigned long long)e->start);
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "format", FORMAT, "node",
                          e->name, "state", e->is_leaving ? "left" : "up", "address", e->address,
                          "version", e->version, "start", start, "beats", (json_int_t)e->beats,
                          "started", (json_int_t)e->started);
    size_t len = o == NULL ? 0 : json_dumpb(o, ret, NODE_ENTRY_BYTES, JSON_COMPACT);
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
    char state[8];
    json_t *o = json_loadb(text.data, text.len, 0, NULL);
    bool is_one = json_integer_value(json_object_get(o, "format")) == FORMAT &&
                  take_text(o, "node", e.name, sizeof(e.name)) && e.name[0] != '\0' &&
                  take_text(o, "state", state, sizeof(state)) &&
                  take_text(o, "address", e.address, sizeof(e.address)) &&
                  take_text(o, "version", e.version, sizeof(e.version)) &&
                  take_start(o, &e.start) && take_count(o, "beats", &beats) &&
                  take_count(o, "started", &started);
    json_decref(o);
    if (!is_one) {
        return ERR_SYNTAX;
    }
    e.beats = (uint64_t)beats;
    e.started = started;
    e.is_leaving = strcmp(state, "left") == 0;
    *ret = e;
    return 0;
}
