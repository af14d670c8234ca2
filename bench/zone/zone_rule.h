/* What sluice-zone knows: a list of rules "NAME TYPE VALUE". '#' in NAME stands for digits, and for
 * the same digits in VALUE; '#%N' in VALUE for their remainder by N, '#%N+M' for M more, so that many
 * domains share a few hosts. '*.' before the rest of a NAME stands for one label or more, of names
 * that no other rule matches. Every rule that matches a name adds its record, and a fault among them
 * is the answer; names compare in lower case.
 *
 *   d#.test     MX        10 mx.d#.test      (0 . is the null MX of RFC 7505)
 *   e#.test     MX        10 mx.s#%20+1.test (e1.test: mx.s2.test)
 *   *.w.test    MX        10 mx.w.test
 *   mx.d#.test  A         127.0.1.#
 *   six.test    AAAA      ::1
 *   www.test    CNAME     d1.test
 *   note.test   TXT       some words
 *   gone.test   NXDOMAIN                     (also what has no rule at all)
 *   bad.test    SERVFAIL                     also REFUSED; DROP gives no answer
 *   far.test    DELAY     1000               beside other rules: its answer comes so many ms later
 *   big.test    TC                           beside other rules: truncated, except over TCP
 */
#ifndef BENCH_ZONE_RULE_H
#define BENCH_ZONE_RULE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_NAME_MAX  255 /* bytes of a name as text */
#define ZONE_RULES_MAX 10000
#define ZONE_DELAY_MAX 60000 /* ms */

enum zone_type {
    ZONE_A = 1, /* these four as in RFC 1035 and 3596 */
    ZONE_CNAME = 5,
    ZONE_MX = 15,
    ZONE_TXT = 16,
    ZONE_AAAA = 28,
    ZONE_NXDOMAIN = 0x10000, /* from here on these are no record types */
    ZONE_SERVFAIL,
    ZONE_REFUSED,
    ZONE_DROP,
    ZONE_DELAY,
    ZONE_TC,
};

struct zone_rule {
    char name[ZONE_NAME_MAX + 1]; /* lower case, no final dot */
    enum zone_type type;
    uint16_t preference;           /* MX */
    uint32_t delay;                /* DELAY: ms */
    char value[ZONE_NAME_MAX + 1]; /* with '#' where the digits belong; "" for types without */
};

struct zone {
    struct zone_rule *rules; /* heap */
    size_t count;
};

/* Append one rule; a line that is empty or begins with ';' is none.
 * errors: ERR_SYNTAX, ERR_LIMIT, -ENOMEM */
MUST_USE int zone_add(struct zone *zone, const char *line);
/* Every line of a file. errors: -errno; ERR_SYNTAX with the line's number in *ret_line */
MUST_USE int zone_add_file(struct zone *zone, const char *path, int *ret_line);
void zone_fini(struct zone *zone);

/* true when the rule's name matches, with whatever stands for its '*'; ret_digits: what '#' stands
 * for, within name */
MUST_USE bool zone_rule_matches(const struct zone_rule *rule, struct slice name,
                                struct slice *ret_digits);
static inline bool zone_rule_is_wildcard(const struct zone_rule *rule)
{
    return rule->name[0] == '*' && rule->name[1] == '.';
}
/* The rule's value with the digits put in. returns: false when it does not fit */
MUST_USE bool zone_rule_value(const struct zone_rule *rule, struct slice digits,
                              char ret[ZONE_NAME_MAX + 1]);

#endif
