/* Owns how a number is asked for. Called by the thread `cluster`; what the value becomes is
 * node_numbers.h's. */
#include "engine/nodes/numbering.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/nodes/node_numbers.h"

#include <errno.h>
#include <stdlib.h>

#define SWAPS_MAX 8 /* at once, while others change the same value */

enum change { NUMBER_OF_NODE, NUMBER_OF_SPOOL, NUMBER_DROP };

/* A function of node_numbers.h as compare-and-set. errors: of both; ERR_AGAIN: others change it now */
static int change_numbers(const struct cluster_module *m, struct cluster_client *client,
                          const char *name, uint16_t wanted, enum change what, uint16_t *ret)
{
    int err = ERR_AGAIN;
    for (int i = 0; i < SWAPS_MAX && err == ERR_AGAIN; i++) {
        struct cluster_value seen = {.data = NULL};
        struct node_numbers_step step = {.value = NULL};
        err = m->get(client, NODE_NUMBERS_BUCKET, NODE_NUMBERS_KEY, &seen);
        if (err == 0 || err == ERR_MISSING) {
            struct slice value = slice_make(seen.data, seen.len);
            if (what == NUMBER_DROP) {
                err = node_numbers_drop(value, name, &step);
            } else {
                err = what == NUMBER_OF_SPOOL ? node_numbers_own(value, name, wanted, &step)
                                              : node_numbers_take(value, name, wanted, &step);
            }
        }
        if (err == 0 && step.value != NULL) {
            uint64_t revision;
            err = m->swap(client, NODE_NUMBERS_BUCKET, NODE_NUMBERS_KEY,
                          slice_make(step.value, step.len), seen.revision, &revision);
        }
        *ret = step.number;
        free(step.value);
        free(seen.data);
    }
    return err;
}

static void complain_of_number(struct numbering *n, int err, uint16_t had)
{
    if (n->has_told) {
        return;
    }
    n->has_told = true;
    if (err == ERR_LOCKED) {
        log_error(
            "cluster: another node has number %u, which is this spool's: it is a copy, or came "
            "from another node, which is to be forgotten then (sluice cluster forget NODE)",
            had);
    } else {
        log_error("cluster: the key " NODE_NUMBERS_KEY " of the bucket " NODE_NUMBERS_BUCKET
                  ": %s; this node %s",
                  err_str(err), had == 0 ? "has no number" : "keeps its number");
    }
}

int numbering_find(struct numbering *n, struct cluster_client *client)
{
    uint16_t number = 0, had = n->number != 0 || !n->has_log ? n->number : n->spool;
    if (n->is_known) {
        return 0;
    }
    int err = change_numbers(n->module, client, n->node, had,
                             n->has_log ? NUMBER_OF_SPOOL : NUMBER_OF_NODE, &number);
    if (err == ERR_AGAIN) {
        return 0;
    }
    if (err == ERR_LOCKED || err == ERR_SYNTAX || err == ERR_LIMIT || err == -ENOMEM) {
        complain_of_number(n, err, had);
        n->number = err == ERR_LOCKED ? 0 : had;
        return 0;
    }
    if (err == 0) {
        if (had != 0 && had != number) {
            log_warning("cluster: another node is number %u by now; this one is number %u", had,
                        number);
        }
        n->number = number;
        n->is_known = true;
        n->has_told = false;
    }
    return err;
}

int numbering_drop(const struct cluster_module *m, struct cluster_client *client, const char *name)
{
    uint16_t number;
    return change_numbers(m, client, name, 0, NUMBER_DROP, &number);
}
