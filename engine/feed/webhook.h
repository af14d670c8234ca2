/* A consumer of events that posts them to a web server. Its transfers run in the feed's multi
 * handle; one batch is under way at a time, and kept until it is accepted, so that order holds. */
#ifndef ENGINE_WEBHOOK_H
#define ENGINE_WEBHOOK_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/feed/event_consumer.h"

#include <curl/curl.h>

struct config_webhook;

/* config   need not outlive the call
 * secret   for signatures; empty: none; copied
 * errors   -ENOMEM; of event_consumer_init */
MUST_USE int webhook_new(const struct config_webhook *config, struct slice secret,
                         const struct event_consumer_place *at, CURLM *multi,
                         struct event_consumer **ret);
/* The multi handle says that a transfer ended. curl: with the consumer as its CURLINFO_PRIVATE */
void webhook_done(CURL *curl, CURLcode code, usec_t now);

#endif
