/* A consumer of events that writes them as rows of a file, see account_row.h and account_file.h. */
#ifndef ENGINE_ACCOUNT_CONSUMER_H
#define ENGINE_ACCOUNT_CONSUMER_H

#include "base/attr.h"
#include "engine/feed/event_consumer.h"

struct config_csv;
struct engine;

/* csv      need not outlive the call
 * engine   whose settings say which address a source and which pool a transport has
 * errors   -ENOMEM; of event_consumer_init */
MUST_USE int account_consumer_new(const struct config_csv *csv, const struct engine *engine,
                                  const struct event_consumer_place *at,
                                  struct event_consumer **ret);

#endif
