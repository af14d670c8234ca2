/* Reads what the thread `cluster` saw last. Called on a clerk's thread; the slow one also waits for a
 * server, when a node is forgotten. */
#include "engine/nodes/nodes_report.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/nodes/nodes.h"
#include "engine/replica/replica.h"
#include "engine/state/engine.h"
#include "engine/tally/exposition.h"

#include <stdlib.h>
#include <string.h>

/* NULL: out of memory */
static struct nodes_view *look(const struct engine *e)
{
    struct nodes_view *v = malloc(sizeof(*v));
    if (v != NULL) {
        nodes_look(e->nodes, v);
    }
    return v;
}

static const char *state_text(const struct node_view *n)
{
    return n->entry.is_leaving ? "left" : member_state_text(n->state);
}

static void set_counts(json_t *o, const struct node_counts *c)
{
    api_set_number(o, "messages", c->messages);
    api_set_number(o, "received", c->received);
    api_set_number(o, "delivered", c->delivered);
    api_set_number(o, "deferrals", c->deferrals);
    api_set_number(o, "failed", c->failed);
    api_set_number(o, "expired", c->expired);
}

static json_t *node_object(const struct node_view *n)
{
    json_t *o = json_object();
    if (o != NULL) {
        api_set_text(o, "node", slice_of(n->entry.name));
        api_set_text(o, "state", slice_of(state_text(n)));
        api_set_text(o, "address", slice_of(n->entry.address));
        api_set_text(o, "version", slice_of(n->entry.version));
        api_set_time(o, "seen", n->seen);
        api_set_time(o, "started", n->entry.started);
        api_set_number(o, "revision", n->revision);
        if (n->entry.number != 0) {
            api_set_number(o, "number", n->entry.number);
        }
        if (n->entry.has_counts) {
            set_counts(o, &n->entry.counts);
        }
        (void)json_object_set_new(o, "self", json_boolean(n->is_self)); /* or it is missing */
    }
    return o;
}

static bool is_absent(const struct node_view *n)
{
    return !n->entry.is_leaving && n->state != MEMBER_ALIVE;
}

/* What all nodes have and did, and who of them has not said so of late. Out of memory leaves it out. */
static void set_totals(json_t *end, const struct nodes_view *v)
{
    struct node_counts sum = {0};
    json_t *total = json_object(), *absent = json_array();
    for (size_t i = 0; i < v->count; i++) {
        const struct node_counts *c = &v->nodes[i].entry.counts;
        sum.messages += c->messages;
        sum.received += c->received;
        sum.delivered += c->delivered;
        sum.deferrals += c->deferrals;
        sum.failed += c->failed;
        sum.expired += c->expired;
        if (is_absent(&v->nodes[i])) {
            (void)json_array_append_new(absent, json_string(v->nodes[i].entry.name));
        }
    }
    if (total != NULL) {
        set_counts(total, &sum);
    }
    (void)json_object_set_new(end, "total", total);
    (void)json_object_set_new(end, "absent", absent);
}

/* The log of this node; NULL without one, or out of memory. */
static json_t *log_object(const struct engine *e)
{
    struct replica_view r;
    if (e->replica == NULL) {
        return NULL;
    }
    replica_look(e->replica, &r);
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:b}", "open", r.is_open, "epoch",
                     (json_int_t)r.epoch, "place", (json_int_t)r.place, "bytes", (json_int_t)r.size,
                     "max_bytes", (json_int_t)e->config->cluster.max_bytes, "retelling",
                     r.is_retelling);
}

/* What this node took over since its start; NULL: out of memory. */
static json_t *takeover_object(const struct nodes_view *v)
{
    json_t *o = json_pack("{s:I, s:I}", "logs", (json_int_t)v->taken.logs, "messages",
                          (json_int_t)v->taken.messages);
    if (o != NULL && v->taken.log != 0) {
        api_set_number(o, "under_way", v->taken.log);
    }
    return o;
}

void nodes_report_list(struct clerk *k, struct api_call *c)
{
    if (k->engine->nodes == NULL) {
        api_end(c, false);
        return;
    }
    struct nodes_view *v = look(k->engine);
    json_t *end = v == NULL ? NULL
                            : json_pack("{s:s, s:b, s:s}", "node", v->self, "connected",
                                        v->is_connected, "server", v->server);
    for (size_t i = 0; v != NULL && i < v->count; i++) {
        api_put(c, node_object(&v->nodes[i]));
    }
    if (end == NULL) {
        api_put(c, NULL);
    } else {
        set_totals(end, v);
    }
    json_t *log = end == NULL ? NULL : log_object(k->engine);
    if (log != NULL) {
        (void)json_object_set_new(end, "log", log);
        (void)json_object_set_new(end, "takeover", takeover_object(v));
    }
    if (end != NULL && v->is_joined) {
        api_set_time(end, "joined", v->joined);
    }
    if (end != NULL && v->refusal[0] != '\0') {
        api_set_text(end, "refusal", slice_of(v->refusal));
    }
    api_end_with(c, false, end);
    free(v);
}

/* The node that a route names; false: it was answered that there is none. */
static bool take_name(const struct clerk *k, struct api_call *c,
                      char ret[static NODE_ENTRY_NAME_MAX + 1])
{
    struct slice argument = api_argument(c);
    if (k->engine->nodes == NULL) {
        api_error(c, 404, "missing",
                  "this daemon is in no cluster; its configuration has no cluster { node }");
        return false;
    }
    if (argument.len > NODE_ENTRY_NAME_MAX || memchr(argument.data, '\0', argument.len) != NULL) {
        api_error(c, 404, "missing", "no such node is known");
        return false;
    }
    memcpy(ret, argument.data, argument.len);
    ret[argument.len] = '\0';
    return true;
}

static void answer_order(struct api_call *c, const char *name, int err)
{
    if (err == ERR_MISSING) {
        api_error(c, 404, "missing", "no such node is known");
    } else if (err == ERR_LOCKED) {
        api_error(c, 422, "wrong",
                  "node %s is not gone: its entry changed within the last minute; stop it first",
                  name);
    } else if (err == ERR_SYNTAX) {
        api_error(c, 422, "wrong", "without cluster { log } at both there is nothing to take over");
    } else if (err == ERR_LIMIT) {
        api_error(c, 503, "unavailable", "too many nodes are being taken over; ask again later");
    } else {
        api_error(c, 503, "unavailable", "the cluster's servers do not answer: %s", err_str(err));
    }
}

void nodes_report_forget(struct clerk *k, struct api_call *c)
{
    char name[NODE_ENTRY_NAME_MAX + 1];
    if (!take_name(k, c, name)) {
        return;
    }
    int err = nodes_forget(k->engine->nodes, name);
    if (err == 0) {
        api_object(c, 200, json_pack("{s:s, s:b}", "node", name, "forgotten", 1));
    } else {
        answer_order(c, name, err);
    }
}

void nodes_report_adopt(struct clerk *k, struct api_call *c)
{
    char name[NODE_ENTRY_NAME_MAX + 1];
    if (!take_name(k, c, name)) {
        return;
    }
    int err = nodes_adopt(k->engine->nodes, name);
    if (err == 0) {
        log_info("take-over: the mail of node %s is asked for by %s", name, api_who(c));
        api_object(c, 202, json_pack("{s:s, s:b}", "node", name, "adopting", 1));
    } else {
        answer_order(c, name, err);
    }
}

static void put_one(struct buf *out, const char *name, enum exposition_kind kind, const char *help,
                    double value)
{
    exposition_family(out, name, kind, help);
    exposition_sample(out, name, NULL, value);
}

static void put_log(struct buf *out, const struct engine *e, const struct nodes_view *v)
{
    put_one(out, "sluice_takeover_logs_total", EXPOSITION_COUNTER,
            "Logs of spools that nobody had any more, which this node took over.",
            (double)v->taken.logs);
    put_one(out, "sluice_takeover_messages_total", EXPOSITION_COUNTER,
            "Messages that it took over with them.", (double)v->taken.messages);
    struct replica_view r;
    replica_look(e->replica, &r);
    put_one(out, "sluice_log_open", EXPOSITION_GAUGE,
            "1 while the cluster's servers store what this node's queue does.", r.is_open);
    put_one(out, "sluice_log_bytes", EXPOSITION_GAUGE, "What this node's log takes on each server.",
            (double)r.size);
    put_one(out, "sluice_log_max_bytes", EXPOSITION_GAUGE, "What it may take.",
            (double)e->config->cluster.max_bytes);
    put_one(out, "sluice_log_batches_total", EXPOSITION_COUNTER, "Batches that were acknowledged.",
            (double)r.batches);
    put_one(out, "sluice_log_failed_batches_total", EXPOSITION_COUNTER,
            "Batches that were not acknowledged in time.", (double)r.failed_batches);
    put_one(out, "sluice_log_frames_total", EXPOSITION_COUNTER, "Frames of these batches.",
            (double)r.frames);
    put_one(out, "sluice_log_written_bytes_total", EXPOSITION_COUNTER,
            "Bytes of changes in these frames.", (double)r.bytes);
    put_one(out, "sluice_log_wait_seconds_total", EXPOSITION_COUNTER,
            "Time that batches waited for their acknowledgement.",
            (double)r.waited / (double)USEC_PER_SEC);
    put_one(out, "sluice_log_retellings_total", EXPOSITION_COUNTER,
            "Times that all mail was written anew, so that what was in front could be purged.",
            (double)r.retellings);
}

void nodes_report_metrics(struct buf *out, const struct engine *e)
{
    if (e->nodes == NULL) {
        return;
    }
    struct nodes_view *v = look(e);
    if (v == NULL) {
        out->failed = true;
        return;
    }
    size_t alive = 0, missed = 0;
    for (size_t i = 0; i < v->count; i++) {
        const struct node_view *n = &v->nodes[i];
        alive += !n->entry.is_leaving && n->state == MEMBER_ALIVE;
        missed += is_absent(n);
    }
    put_one(out, "sluice_cluster_joined", EXPOSITION_GAUGE,
            "1 while this node's entry is kept by the cluster's servers.", v->is_joined);
    put_one(out, "sluice_cluster_nodes_alive", EXPOSITION_GAUGE,
            "Nodes that said so within 10 s, this one included.", (double)alive);
    put_one(out, "sluice_cluster_nodes_missed", EXPOSITION_GAUGE,
            "Nodes that said nothing for 10 s and did not leave in order.", (double)missed);
    put_one(out, "sluice_cluster_puts_total", EXPOSITION_COUNTER,
            "Times that this node's entry was put.", (double)v->puts);
    put_one(out, "sluice_cluster_failed_puts_total", EXPOSITION_COUNTER,
            "Times that no server took it.", (double)v->failed_puts);
    put_one(out, "sluice_cluster_lessons_sent_total", EXPOSITION_COUNTER,
            "Closures, openings and paces of lanes that the other nodes were told of.",
            (double)v->sent);
    put_one(out, "sluice_cluster_lessons_unsent_total", EXPOSITION_COUNTER,
            "Those that no server took.", (double)v->unsent);
    put_one(out, "sluice_cluster_lessons_obeyed_total", EXPOSITION_COUNTER,
            "Those of other nodes that hold here too.", (double)v->obeyed);
    put_one(out, "sluice_cluster_limits", EXPOSITION_GAUGE,
            "Rates that this node has or wants a part of.", (double)v->limits);
    put_one(out, "sluice_cluster_limit_puts_total", EXPOSITION_COUNTER,
            "Times that this node changed what it has of one.", (double)v->limit_puts);
    if (e->replica != NULL) {
        put_log(out, e, v);
    }
    free(v);
}
