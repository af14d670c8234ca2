/* Reads the JSON of a body into libjansson's tree, at a tenth of what its own reader takes where
 * strings are long: that one takes them byte by byte, some 140 instructions each, and most of an
 * injection is a string. Pure.
 *
 * What this does not take, wrong text above all, is left to libjansson, which has the last word and
 * tells what is wrong where. So this takes no text that libjansson would refuse, and what it makes of
 * the others is the same tree; fuzz_json_tree compares them. */
#ifndef ENGINE_JSON_TREE_H
#define ENGINE_JSON_TREE_H

#include "base/attr.h"
#include "base/slice.h"

#include <jansson.h>

/* What the tree may come to is the caller's to bound.
 *
 * returns  an object, as json_loadb makes it with JSON_REJECT_DUPLICATES; NULL: ask libjansson. That
 *          is what comes of anything wrong, of a depth beyond 16, of more than 1,000 members of an
 *          object, of names of members that are not plain ASCII, and of memory that is short */
MUST_USE json_t *json_tree_read(struct slice text);

#endif
