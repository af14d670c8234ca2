/* Mail for us that was not understood, kept to be read by people: files heard/unknown/ID.eml of the
 * spool, the newest UNKNOWN_MAIL_MAX of them, and no more than UNKNOWN_MAIL_BYTES. Owner: the thread that
 * hears, which blocks on the disk for them. */
#ifndef ENGINE_UNKNOWN_MAIL_H
#define ENGINE_UNKNOWN_MAIL_H

#include "base/attr.h"

#include <stdint.h>

#define UNKNOWN_MAIL_MAX   1000
#define UNKNOWN_MAIL_BYTES (64ULL << 20)

struct hearing;
struct unknown_mail;

/* Looks at what an earlier run kept. errors: -errno */
MUST_USE int unknown_mail_new(const char *spool_path, struct unknown_mail **ret);
void unknown_mail_free(struct unknown_mail *u); /* accepts NULL */
/* Write and sync its content, and remove what is then too much. errors: -errno */
MUST_USE int unknown_mail_keep(struct unknown_mail *u, const struct hearing *h);

#endif
