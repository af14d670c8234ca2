/* The thread that hears: it reads messages that came back, which takes milliseconds of parsing and so
 * has no place on a worker's loop, decides what of them is believed, and rotates the keys of return
 * addresses.
 *
 * Who owns a message at a time says post/hearing.h. What no rule here recognises is kept in the folder
 * heard/unknown of the spool (unknown_mail.h). */
#ifndef ENGINE_HEARER_H
#define ENGINE_HEARER_H

#include "base/attr.h"
#include "base/mailbox.h"

struct engine;
struct hearer;

MUST_USE int hearer_new(struct engine *engine, struct hearer **ret);
struct mailbox *hearer_box(struct hearer *h);
MUST_USE int hearer_start(struct hearer *h);
void hearer_stop(struct hearer *h);
void hearer_free(struct hearer *h); /* accepts NULL */

#endif
