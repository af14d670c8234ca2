/* The commands' side of the control socket: one blocking request over HTTP to the daemon of the
 * configuration (api.h, api_routes.c). Prints nothing but complaints about the configuration. */
#ifndef ENGINE_API_CLIENT_H
#define ENGINE_API_CLIENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/cli/cli.h"

#include <jansson.h>
#include <stdbool.h>

struct cli_column;

struct api_answer {
    int status;      /* of HTTP; 0: no answer came */
    struct buf body; /* all of it */
    char error[600]; /* why the exit code is not 0; "" when that was said already */

    /* of lists, while api_answer_next walks through them */
    size_t taken;
    bool has_ended, has_more;
    json_t *end; /* the last line; NULL before */
};

/* Ask and wait for the whole answer.
 *
 * path_and_query  as api_client_url and api_client_query make it
 * json_body       of a POST, or NULL
 * ret             initialised here in any case; the caller frees it with api_answer_fini
 * returns         0 for a status below 300, else the exit code: 64 usage (400, 405, 413, 415, 422),
 *                 66 missing, 69 unavailable or no daemon, 75 try later (429), 76 not understood,
 *                 77 forbidden */
MUST_USE int api_client_call(const struct cli *cli, const char *method, const char *path_and_query,
                             const char *json_body, struct api_answer *ret);
/* GET from the daemon of this configuration, whoever has loaded it. */
MUST_USE int api_client_get(const struct config *config, const char *path_and_query,
                            struct api_answer *ret);
/* The same with a body of another type. */
MUST_USE int api_client_send(const struct cli *cli, const char *method, const char *path_and_query,
                             const char *content_type, struct slice body, struct api_answer *ret);
void api_answer_fini(struct api_answer *a);

/* Say why on standard error: "sluice COMMAND: TEXT". returns code */
int api_client_complain(const struct cli *cli, const char *command, const struct api_answer *a,
                        int code);

/* Build a path: text with what stands behind it encoded. The buf is NUL-terminated afterwards. */
void api_client_url(struct buf *b, const char *path, const char *argument);
/* One more parameter; a NULL value adds none. */
void api_client_query(struct buf *b, const char *name, const char *value);

/* The parameters that say which nodes the command asks about; none when it is the one that is asked. */
void api_client_nodes(const struct cli *cli, struct buf *url);

/* The next object of a list, the caller's reference; NULL at its end. A list that was cut or is not
 * understood ends without has_ended. */
json_t *api_answer_next(struct api_answer *a);
/* The answer as one object, the caller's reference; NULL: it is none. */
json_t *api_answer_object(const struct api_answer *a);

/* GET a list and give each object to `print`; with --json print the lines as they are, but the
 * last.
 *
 * nothing  said when the list is empty, or NULL
 * returns  an exit code; everything was said */
MUST_USE int api_client_list(const struct cli *cli, const char *command, const char *path_and_query,
                             void (*print)(void *ctx, const json_t *object), void *ctx,
                             const char *nothing);
/* The same as a table, to which `add` adds the row of each object; ctx is the struct cli_table.
 *
 * url   freed; one that failed is out of memory */
MUST_USE int api_client_table(const struct cli *cli, const char *command, struct buf *url,
                              const struct cli_column *columns,
                              void (*add)(void *ctx, const json_t *object), const char *nothing);
/* What an answer of several nodes lacks: says whose rows, and returns EX_TEMPFAIL for a code of 0. */
MUST_USE int api_client_tell_absent(const struct cli *cli, const char *command,
                                    const struct api_answer *a, int code);
/* GET one object; with --json it is printed as it is and `print` not called. Of all nodes: one of each. */
MUST_USE int api_client_show(const struct cli *cli, const char *command, const char *path_and_query,
                             void (*print)(void *ctx, const json_t *object), void *ctx);

#endif
