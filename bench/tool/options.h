/* The command line of a load tool: one loop over getopt_long, and the values that options take. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "base/attr.h"

#include <getopt.h>
#include <stdint.h>

#define OPTIONS_HELP 'h' /* the `val` of --help */

struct options {
    const char *program;
    const char *usage;          /* printed by --help */
    const struct option *table; /* ends in zeroes; `val` > 0 and not '?' */
    /* One option; text is NULL when it takes none. errors: any, `text` was not understood */
    int (*take)(void *ctx, int id, const char *text);
};

/* Read all options; what was wrong is printed.
 *
 * ret_status  of the process, when it should exit: EX_OK after --help, EX_USAGE after an error
 * returns     index of the first operand in argv; < 0: the process should exit
 */
MUST_USE int options_read(const struct options *o, int argc, char **argv, void *ctx,
                          int *ret_status);
/* The same for a program without operands. returns: 0, or < 0 */
MUST_USE int options_read_all(const struct options *o, int argc, char **argv, void *ctx,
                              int *ret_status);

/* errors: ERR_SYNTAX, also beyond `limit` and below 0 */
MUST_USE int options_integer(const char *text, uint64_t limit, uint64_t *ret);
MUST_USE int options_number(const char *text, double limit, double *ret);

#endif
