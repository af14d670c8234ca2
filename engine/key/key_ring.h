/* All keys that sign, as one immutable object: made of the `dkim` sections and the files they name,
 * published with the settings, so that a reload replaces all of it or nothing.
 *
 * A key's parsed form is shared: between sections that name the same key, and with the ring that a
 * reload replaces, which counts references. Everything else is views of the configuration, which
 * the settings keep as long as the ring. Any thread may read it and sign with it. */
#ifndef ENGINE_KEY_RING_H
#define ENGINE_KEY_RING_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "net/dkim/dkim_signature.h"

#include <stddef.h>
#include <stdint.h>

struct ring_secret;

struct ring_key {
    const struct config_dkim *section;
    const struct dkim_key *key;
    struct dkim_terms terms;    /* without times */
    uint64_t mark;              /* of its name and public key: signatures of another one differ */
    struct ring_secret *secret; /* own reference: what holds `key` */
    struct slice *names;        /* what `terms` leads to */
};

/* Whose mail a domain is for: a key that signs it, or a tenant that it belongs to. */
struct ring_domain {
    struct slice name; /* lower case */
    size_t index;      /* of the key, or of the tenant in the configuration */
};

struct key_ring {
    const struct config *config;
    struct ring_key *keys; /* [count], in the order of the file */
    size_t count;
    struct ring_domain *senders; /* domains of From; by name, then by index */
    size_t sender_count;
    struct ring_domain *domains; /* those in the titles; likewise */
    struct ring_domain *owners;  /* from_domains of tenants; likewise */
    size_t owner_count;
    unsigned forms;   /* bits of enum dkim_canon: those of the body that any key asks for */
    bool is_one_form; /* mail from any domain has a key, and all keys ask for the same form */
};

/* Read every key. All that is wrong is told with file and line, and so is what is weak.
 *
 * before   the ring in force, whose parsed keys are used again; or NULL
 * ret      NULL: the configuration has no dkim section
 * errors   ERR_SYNTAX: the sink has heard of each key that cannot sign; -ENOMEM */
MUST_USE int key_ring_load(const struct config *config, const struct key_ring *before,
                           const struct config_sink *sink, struct key_ring **ret);
void key_ring_free(struct key_ring *ring); /* accepts NULL */

/* The entries of a name in one of the sorted arrays: the first, and how many. Pure. */
size_t ring_domain_find(const struct ring_domain *domains, size_t count, struct slice name,
                        size_t *ret_count);

#endif
