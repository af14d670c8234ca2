/* A behaviour file: who behaves how. Read once by main, then immutable.
 *
 * Laid over each other, later ones first: the section of the client that connects, that of the
 * destination, `default`, the command line. A section's `use` names a profile, which lies below its
 * own keys. Of several destinations, or clients, that name an address the last holds. */
#ifndef BENCH_BEHAVIOUR_FILE_H
#define BENCH_BEHAVIOUR_FILE_H

#include "base/attr.h"
#include "bench/sink/behaviour.h"
#include "bench/tool/endpoint.h"

#include <stddef.h>

struct behaviour_destination {
    struct endpoint_range range;
    struct behaviour behaviour; /* with everything below it */
    unsigned line;
    char *title;
};

struct behaviour_domain {
    char *name;                 /* lower case */
    struct behaviour behaviour; /* holds where its `set` says so, in place of the destination's */
};

struct behaviour_client {
    struct endpoint_range range;
    struct behaviour *behaviours; /* heap; towards each destination, and last to all the others */
};

struct behaviour_file {
    struct behaviour common; /* of addresses that no destination names */
    struct behaviour_destination *destinations;
    size_t destination_count;
    struct behaviour_domain *domains;
    size_t domain_count;
    struct behaviour_client *clients;
    size_t client_count;
};

/* Whom complaints are told, each "FILE:LINE: KEY: what is wrong; what would be right". */
struct behaviour_reader {
    const char *profiles_dir;
    void (*complain)(void *ctx, const char *line);
    void *ctx;
};

/* path: NULL for no file. base: the command line. errors: ERR_SYNTAX (it was complained), -ENOMEM;
 * *ret is empty then */
MUST_USE int behaviour_file_read(const char *path, const struct behaviour *base,
                                 const struct behaviour_reader *reader, struct behaviour_file *ret);
/* The same from memory; `name` is for complaints. */
MUST_USE int behaviour_file_read_text(const char *text, const char *name,
                                      const struct behaviour *base,
                                      const struct behaviour_reader *reader,
                                      struct behaviour_file *ret);
void behaviour_file_fini(struct behaviour_file *f); /* accepts a zeroed one */

/* How a listening address behaves. ret_destination: index of the section, or destination_count */
NONNULL_RET const struct behaviour *behaviour_file_of(const struct behaviour_file *f,
                                                      const struct sockaddr_storage *address,
                                                      size_t *ret_destination);
/* How that destination (or, with destination_count, any other) behaves towards a client. */
NONNULL_RET const struct behaviour *behaviour_file_towards(const struct behaviour_file *f,
                                                           size_t destination,
                                                           const struct sockaddr_storage *client);

/* Tell the name of each profile in the folder. errors: -errno of the folder; ERR_SYNTAX as of
 * behaviour_file_read */
MUST_USE int behaviour_file_list(const struct behaviour_reader *reader,
                                 void (*tell)(const char *name, const char *description));

#endif
