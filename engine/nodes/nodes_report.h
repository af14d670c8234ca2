/* What this node knows of the others of its cluster. */
#ifndef ENGINE_NODES_REPORT_H
#define ENGINE_NODES_REPORT_H

#include "base/buf.h"
#include "engine/http/api.h"

struct engine;

/* GET /v1/cluster: one object for each node that has an entry, by name:
 *   node, address, version   as it says itself
 *   state      "alive" | "late" | "lapsed" | "gone", by how long its entry has not changed; "left"
 *   seen       when its entry was last seen to change
 *   started    by its own clock
 *   revision   of its entry
 *   number?    by which the cluster knows it, 1 to 65,535; none until it has one
 *   messages, received, delivered, deferrals, failed, expired   as status_report.h has them, when the
 *              node was seen; missing of one that did not say
 *   self       true: it is this node
 * The last line also has total (these six over all nodes), absent (names of those that are late, lapsed
 * or gone: what they say is as old as their `seen`), node, connected, joined (when; missing while it is not), server (that it is
 * connected to, or why to none) and refusal?, why this node does not join.
 * Without a cluster in the configuration it is empty, and its last line has none of them. */
api_handler nodes_report_list;

/* DELETE /v1/cluster/:id: the node is gone for good, its entry is taken away.
 * Errors: 404; 422 "wrong": it is alive; 503: the servers do not answer. */
api_handler nodes_report_forget;
api_handler nodes_report_adopt;

/* Gauges for /metrics; nothing without a cluster. */
void nodes_report_metrics(struct buf *out, const struct engine *e);

#endif
