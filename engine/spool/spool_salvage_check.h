/* What the salvage knows of records and messages: which of them are good, to which table a lone
 * leaf belongs, and, when all is copied, which messages are whole. Inside the spool files only. */
#ifndef ENGINE_SPOOL_SALVAGE_CHECK_H
#define ENGINE_SPOOL_SALVAGE_CHECK_H

#include "engine/spool/spool_env.h"
#include "engine/spool/spool_salvage.h"
#include "engine/spool/spool_tree.h"

/* Ids in any order, some perhaps more than once. */
struct spool_ids {
    uint64_t *items; /* heap */
    size_t count, room;
};

struct spool_findings {
    struct spool_ids bad;    /* a record of it cannot be used */
    struct spool_ids repeat; /* see SPOOL_REPEAT */
    struct spool_ids staged; /* receptions that never ended: no messages */
    struct spool_ids from;   /* ranges of ids whose states are lost; .. */
    struct spool_ids to;     /* .. both ends belong to it */
};

MUST_USE int spool_ids_add(struct spool_ids *ids, uint64_t id);
MUST_USE int spool_findings_add_range(struct spool_findings *f, uint64_t from, uint64_t to);
void spool_findings_fini(struct spool_findings *f);

/* The id that a key of a table has; 0 for tables without. false: no key of this table */
MUST_USE bool spool_salvage_key(enum spool_table table, struct slice key, uint64_t *ret_id);
MUST_USE bool spool_salvage_is_good(enum spool_table table, const struct spool_key *key,
                                    struct slice value);
/* The table of a leaf that no tree has: by its keys, and by which records are good in it. -1: none;
 * places in the queue are among these, as they do not say of which class they are. */
int spool_salvage_table(const struct spool_file *file, const char *bytes);

/* When all is copied: take out what is not whole, places without a message and parts of none; queue
 * what has no place; tell every message's fate. */
MUST_USE int spool_salvage_settle(struct spool_store *s, struct spool_findings *f,
                                  struct spool_salvage *report);

#endif
