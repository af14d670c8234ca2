/* A thread that signs mail. Of its submissions, urgent mail goes first; every fourth place is for what
 * has waited longest, so that normal and bulk mail get on as well. */
#ifndef ENGINE_SIGNER_H
#define ENGINE_SIGNER_H

#include "base/attr.h"
#include "base/mailbox.h"

#include <stdint.h>

struct engine;
struct signer;

/* errors: -ENOMEM */
MUST_USE int signer_new(struct engine *engine, uint32_t index, struct signer **ret);
struct mailbox *signer_box(struct signer *s);
MUST_USE int signer_start(struct signer *s);
/* What has not been signed by then stays queued. */
void signer_stop(struct signer *s);
void signer_free(struct signer *s); /* accepts NULL */

#endif
