/* The thread `gather` from inside: gather.c (the thread, and what reaches it), asking.c (calls that are
 * for other nodes), serving.c (questions of other nodes). */
#ifndef ENGINE_GATHER_PRIVATE_H
#define ENGINE_GATHER_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "base/post.h"
#include "engine/gather/gather.h"
#include "engine/gather/node_question.h"
#include "engine/http/api.h"
#include "engine/nodes/cluster_api_module.h"
#include "engine/nodes/nodes.h"

#include <pthread.h>
#include <stdint.h>

enum {
    GATHER_ASKINGS_MAX = 16,              /* calls for other nodes at once */
    GATHER_SERVINGS_MAX = 32,             /* questions of others at once */
    GATHER_ANSWER_MAX = 24 * 1024 * 1024, /* bytes of one node's answer; lists end at 16 MB */
    GATHER_HELD_MAX = 128 * 1024 * 1024,  /* of all answers that are not complete */
};
#define GATHER_SILENCE (2 * USEC_PER_SEC)  /* of a node, until it counts as absent */
#define GATHER_BEAT    (USEC_PER_SEC / 2)  /* how often a node says that it is at it */
#define GATHER_LONGEST (60 * USEC_PER_SEC) /* of one call */

enum event_kind {
    EVENT_CALL,     /* of the http thread: it is for other nodes */
    EVENT_QUESTION, /* of another node; name: where the answer goes */
    EVENT_ANSWER,   /* a part of another node's; name: the token; data NULL: nobody is there */
    EVENT_LOCAL,    /* this node's own answer to `number` */
};

/* What other threads tell. */
struct event {
    struct list link;
    enum event_kind kind;
    struct gather *gather;
    struct api_call *call;
    char name[CLUSTER_API_REPLY_MAX + 1];
    uint64_t number; /* of an asking or a serving */
    bool is_served;  /* of a serving */
    bool is_nobody;
    int status;
    struct buf bytes; /* with its own memory */
};

/* One node of a call. */
struct asked_node {
    char name[NODE_ENTRY_NAME_MAX + 1];
    bool is_self, is_done;
    int status;
    struct buf bytes;
    uint64_t next_part;
    const char *error; /* static; NULL: none */
    usec_t heard;      /* monotonic */
};

struct asking {
    struct list link;
    uint64_t number;
    struct api_call *call;
    bool is_all;
    usec_t begun; /* monotonic */
    size_t count;
    struct asked_node nodes[]; /* [count] */
};

struct serving {
    struct list link;
    uint64_t number;
    char reply[CLUSTER_API_REPLY_MAX + 1];
    usec_t next_beat; /* monotonic */
};

struct gather {
    /* set at creation */
    struct engine *engine;
    const struct cluster_api_module *module;
    struct post post;
    struct outbox *to_http; /* of the post */
    pthread_mutex_t lock;

    /* owner thread only */
    struct cluster_api *client; /* NULL: this node was not in the cluster yet */
    struct list askings, servings;
    size_t asking_count, serving_count;
    uint64_t last_number;
    size_t held_bytes; /* of other nodes' answers */

    /* under `lock`, which nobody holds while he waits */
    struct list events;
    size_t event_bytes;
};

/* A call from inside, of which EVENT_LOCAL tells. errors: -ENOMEM */
MUST_USE int gather_call_self(struct gather *g, const char *target, struct label tenant,
                              uint64_t number, bool is_served) ON_ROLE(g->post);

/* Thread: gather. Each takes the event's content as it likes; the event is freed by the caller. */
void asking_begin(struct gather *g, struct api_call *c, usec_t now) ON_ROLE(g->post);
void asking_hear(struct gather *g, struct event *e, usec_t now) ON_ROLE(g->post);
void asking_take_own(struct gather *g, struct event *e) ON_ROLE(g->post);
/* Those that took too long. Returns when it wants to be called again, monotonic. */
usec_t asking_expire(struct gather *g, usec_t now) ON_ROLE(g->post);
void asking_drop_all(struct gather *g); /* their calls are the http thread's */

void serving_begin(struct gather *g, const struct event *e, usec_t now) ON_ROLE(g->post);
void serving_end(struct gather *g, const struct event *e) ON_ROLE(g->post);
usec_t serving_beat(struct gather *g, usec_t now) ON_ROLE(g->post); /* likewise */
void serving_drop_all(struct gather *g);

#endif
