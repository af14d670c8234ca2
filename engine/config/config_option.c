/* Owns the table of options. Read by the parser, the defaults, the checks and the reference; it
 * must not know what uses an option. */
#include "engine/config/config_option.h"

#include "engine/config/config.h"
#include "engine/config/config_option_row.h"
#include "engine/config/label.h"
#include "net/socks5.h"

#include <limits.h>

static const char *const webhook_choices[] = {"ndjson", "array", NULL};
static const char *const thread_policy_choices[] = {"other", "batch", NULL};
static const char *const takeover_choices[] = {"automatic", "manual", NULL};
static const char *const received_choices[] = {"yes", "no", "anonymous", NULL};
static const char *const class_choices[] = {"urgent", "normal", "bulk", NULL};
static const char *const canonicalization_choices[] = {"relaxed/relaxed", "relaxed/simple",
                                                       "simple/relaxed", "simple/simple", NULL};
static const char *const suppressed_choices[] = {"refuse", "drop", NULL};
static const char *const tenant_class_choices[] = {"urgent", "normal", "bulk", "listener", NULL};
static const char *const rule_choices[] = {"readme", "postfix3", NULL};
static const char *const scheduler_choices[] = {"preemptive", "fifo", "round_robin", NULL};
static const char *const tls_choices[] = {"none", "may",     "encrypt", "verify",
                                          "dane", "mta-sts", NULL};
static const char *const route_tls_choices[] = {"none", "may",     "encrypt",   "verify",
                                                "dane", "mta-sts", "transport", NULL};
static const char *const protocol_choices[] = {"all", "ipv4", "ipv6", NULL};

const struct config_option config_options[] = {
    /* --- global ----------------------------------------------------------------------------------- */
    INT("workers", START(workers), "0", 0, 256,
        "Worker threads; each has an event loop with its own connections. 0: one for each core."),
    INT("scheduler_threads", START(scheduler_threads), "0", 0, 256,
        "Threads for schedulers; transports beyond this number share threads. 0: four for each "
        "core."),
    INT("dkim_threads", START(dkim_threads), "0", 0, 64,
        "Threads that make signatures (see `dkim`); they sleep while nothing is signed. 0: one for "
        "each core."),
    CHOICE("thread_policy", START(thread_policy), "other", thread_policy_choices,
           "How threads get a processor (Linux: SCHED_OTHER, SCHED_BATCH). `batch`: a thread that "
           "has something to do waits until whoever has the processor has had its turn, so it "
           "does more at once, and a message costs less; where programs on the same machine compute "
           "without a pause, mail is late. `other`: it may interrupt them."),
    TEXT("user", START(user), NULL, "stay who started it", 64,
         "The account that the daemon becomes after it has opened its listeners. Started as root "
         "without it, the daemon warns."),
    TEXT("hostname", GLOBAL(hostname), NULL, "the system's host name", 255,
         "The name of this host: in greetings, in EHLO, in Received headers and in bounces "
         "(Postfix: `myhostname`)."),
    BOOL("allow_loopback", GLOBAL(allow_loopback), "no",
         "Deliver to hosts that MX records place on loopback addresses. Otherwise that is a mail "
         "loop and bounces. The same holds for a recipient at an address literal. A nexthop in "
         "brackets may always be on loopback."),
    TIME("shutdown_timeout", GLOBAL(shutdown_timeout), "5s", 0, 3600,
         "How long a daemon that was told to stop waits for the final replies of deliveries in "
         "flight."),
    SIZE(
        "trace_memory", GLOBAL(trace_memory), "16M", 0,
        "Memory for the dialogues of outbound sessions that `sluice trace` shows: those under way, "
        "and of each destination the last four and the last two in which something failed. When "
        "it is used up, destinations with many sessions lose their oldest first. Passwords are "
        "never in it. 0: nothing is recorded."),
    SIZE("map_size", START(spool.map_size), "1T", MEGA(16),
         "Address space of the spool's memory map, the most that the spool can hold. It costs "
         "neither memory nor disk in advance."),
    SIZE("spool_reserve", START(spool.reserve), "256M", 0,
         "Below this much free space, in the map or on the disk, new mail is answered with 452; "
         "queued mail goes on draining."),
    SIZE("spool_ballast", START(spool.ballast), "64M", 0,
         "Size of a file in the spool that is given up when something else fills the disk, so that "
         "results can still be stored. 0: none."),
    ROW("spool_journal", START(spool.journal), CONFIG_TYPE_SIZE, "16M", NULL, 0, MEGA(256), 0, NULL,
        "Size of a file in the spool that new mail is written to first, with one sync for all that "
        "waits; what is delivered soon never reaches the tables. 0: none; new mail goes to the "
        "tables at once, which costs more."),
    SIZE("intake_memory", GLOBAL(intake_memory), "64M", MEGA(1),
         "Bytes received and not yet stored, all connections together; at this limit reading "
         "pauses."),
    INT("hopcount_limit", GLOBAL(hopcount_limit), "50", 1, INT_MAX,
        "A message with more Received headers than this is refused as a loop."),
    SIZE("inject_size_limit", GLOBAL(inject_size_limit), "50M", 0,
         "Largest message, as it goes out, that POST /v1/inject takes. 0: no limit but that of the "
         "request."),
    INT("message_active_limit", GLOBAL(message_active_limit), "20000", 1, INT_MAX,
        "Messages that schedulers hold in memory, all transports together; the others wait in the "
        "spool. Places that become free go to tenants that have fewer than their weight's share. "
        "An "
        "eighth is kept for mail of a class, tenant and campaign that has fewer than two."),
    INT("message_recipient_limit", GLOBAL(message_recipient_limit), "20000", 1, INT_MAX,
        "Recipients in memory. Raised to `message_active_limit`, with a warning, when it is "
        "smaller."),
    INT("message_recipient_minimum", GLOBAL(message_recipient_minimum), "10", 1, INT_MAX,
        "Recipients in memory that every message gets, however full the pools are."),
    INT("class_floor", GLOBAL(class_floor), "10", 0, 50,
        "Percent. Where messages of several classes wait for the same thing, urgent goes before "
        "normal and normal before bulk, but normal and bulk together get at least so much of it, "
        "and bulk so much of what these two get. 0: lower classes go only when no higher one "
        "waits."),
    TIME("queue_run_delay", GLOBAL(queue_run_delay), "300s", 1, TIME_MAX,
         "Interval between scans for deferred mail that is due again."),
    TIME("minimal_backoff_time", GLOBAL(minimal_backoff_time), "300s", 1, TIME_MAX,
         "Shortest time between two attempts of a message, and how long a dead destination is left "
         "alone."),
    TIME("maximal_backoff_time", GLOBAL(maximal_backoff_time), "4000s", 1, TIME_MAX,
         "Longest time between two attempts of a message. Between the two limits it is the "
         "message's age."),
    TIME("maximal_queue_lifetime", GLOBAL(maximal_queue_lifetime), "5d", 0, DAYS(100),
         "A message that could not be delivered for so long is returned to its sender. 0: after "
         "one attempt."),
    TIME("bounce_queue_lifetime", GLOBAL(bounce_queue_lifetime), "5d", 0, DAYS(100),
         "The same for mail with the null sender. Lowered to `maximal_queue_lifetime`, with a "
         "warning, when it is larger."),
    ROW("delay_warning_time", GLOBAL(delay_warning_time), CONFIG_TYPE_TIME, "0h", NULL, 0, TIME_MAX,
        'h', NULL,
        "After this time a sender is told, once, that the message is still queued. Hours when no "
        "unit is written. 0: never."),
    BOOL("confirm_delay_cleared", GLOBAL(confirm_delay_cleared), "no",
         "Tell a sender who was warned of a delay when the message is delivered after all."),
    BOOL("destination_concurrency_feedback_debug", GLOBAL(destination_concurrency_feedback_debug),
         "no", "Log each change of a window."),
    LIST("defer_transports", GLOBAL(defer_transports), CONFIG_TYPE_TEXTS, "{}",
         "Transports that queue and deliver nothing; the same as `hold = yes` in each of them."),
    SIZE("bounce_size_limit", GLOBAL(bounce_size_limit), "50000", 0,
         "How much of the original message a bounce returns; of a larger one only the headers. "
         "0: always only the headers."),
    /* --- spool, event_log, control ---------------------------------------------------------------- */
    TEXT("path", SPOOL(spool.path), "/var/spool/sluice", NULL, 4000,
         "Directory of the spool. It is created, for its owner only, when it does not exist. One "
         "daemon at a time uses it."),
    ROW("path", CONFIG_SECTION_EVENT_LOG | AT_START, offsetof(struct config, event_log_path),
        CONFIG_TYPE_TEXT, NULL, "SPOOL/events.jsonl", 1, 4000, 0, NULL,
        "File of the event log, opened again on SIGHUP. Its first line numbers the segment: "
        "`{\"type\":\"Segment\",\"number\":N,...}`. `none`: no event log."),
    ROW("rotate_size", CONFIG_SECTION_EVENT_LOG, offsetof(struct config, event_log_rotate_size),
        CONFIG_TYPE_SIZE, "256M", NULL, 0, SIZE_MAX_BYTES, 0, NULL,
        "At this size the file becomes `PATH.N`, N the number of the segment, and a new one "
        "begins. 0: never; somebody else moves it away and sends SIGHUP."),
    ROW("rotate_keep", CONFIG_SECTION_EVENT_LOG, offsetof(struct config, event_log_rotate_keep),
        CONFIG_TYPE_INT, "20", NULL, 0, 1000000, 0, NULL,
        "How many files `PATH.N` are kept; of more the oldest are removed when one is added. Those "
        "that a `webhook` or `csv` has not read yet stay, up to twice as many. 0: all are kept."),
    ROW("path", CONFIG_SECTION_CONTROL | AT_START, offsetof(struct config, control_path),
        CONFIG_TYPE_TEXT, NULL, "SPOOL/control", 1, 107, 0, NULL,
        "Path of the Unix socket, mode 0660. Whoever may connect may send mail, read the queue "
        "and give orders."),
    /* --- replies ---------------------------------------------------------------------------------- */
    LIST("files", REPLIES(reply_files), CONFIG_TYPE_TEXTS, "none",
         "Files of rules, read in this order, and again at each reload. One mistake in them, and "
         "the old rules stay in force."),
    BOOL("shipped", REPLIES(has_shipped_replies), "yes",
         "The rules that sluice brings, for large receivers and widespread software, stand behind "
         "those of `files`. Their text is installed as `share/sluice/replies.conf`."),
    /* --- tls_report ------------------------------------------------------------------------------- */
    TEXT(
        "from", TLSRPT(from), NULL, "no reports", 254,
        "The address from which reports are mailed, in From and on the envelope. Its domain is the "
        "submitter that they name; receivers want them signed by a `dkim` key of it."),
    TEXT("contact", TLSRPT(contact), NULL, "the value of `from`", 254,
         "`contact-info` of a report: whom its reader may ask."),
    TEXT("organization", TLSRPT(organization), NULL, "the domain of `from`", 254,
         "`organization-name` of a report."),
    TIME("spread", TLSRPT(spread), "4h", 0, 43200,
         "A day's reports leave at a time of their own within so long after midnight UTC, the same "
         "each day: otherwise all senders' reports would come at once."),
    TEXT("ca_file", TLSRPT(ca_file), NULL, "the system's certificates", 4000,
         "PEM file of the authorities that may vouch for a host to which reports are posted by "
         "HTTPS. Read when a report is sent."),
    /* --- cluster ---------------------------------------------------------------------------------- */
    TEXT("node", CLUSTER(node), NULL, "no cluster", 32,
         "The name of this node, another one on each machine: letters, digits, - and _. It stays "
         "the "
         "node's for good."),
    LIST("servers", CLUSTER(servers), CONFIG_TYPE_TEXTS, "none",
         "The NATS servers, `nats://HOST:PORT` or `tls://HOST:PORT` each; one that answers is "
         "enough. "
         "They must be 2.12 or later and have JetStream."),
    LIST(
        "monitors", CLUSTER(monitors), CONFIG_TYPE_TEXTS, "none",
        "The servers' monitoring addresses, `http://HOST:PORT` each. `sluice check` asks them "
        "whether "
        "every write is synced before it is acknowledged (`sync_interval: always`), which a server "
        "says nowhere else."),
    TEXT("credentials", CLUSTER(credentials), NULL, "none", 4000,
         "File with the user's JWT and seed, as the servers' operator gives it (`.creds`)."),
    TEXT("tls_ca_file", CLUSTER(tls_ca_file), NULL, "the system's certificates", 4000,
         "PEM file of the authorities that may vouch for a server; with it the connection must be "
         "encrypted, whatever its address says."),
    TEXT("tls_certificate", CLUSTER(tls_certificate), NULL, "none", 4000,
         "PEM file with the certificate that this node shows the servers."),
    TEXT("tls_key", CLUSTER(tls_key), NULL, "none", 4000, "PEM file with the certificate's key."),
    INT("replicas", CLUSTER(replicas), "3", 1, 5,
        "On how many servers each value is kept, when this node is the first that asks for it: 1, "
        "3 "
        "or 5. With 1 the cluster is as alive as that one server."),
    BOOL(
        "log", CLUSTER(has_log), "no",
        "Have every change of the queue stored by the servers before it is acknowledged: a message "
        "is accepted when it is on this disk and on a majority of the servers, so that losing mail "
        "takes both. `sluice repair --from-log` makes a spool of it."),
    CHOICE("takeover", CLUSTER(takeover), "automatic", takeover_choices,
           "With `log`: what becomes of a node's mail when it is not heard for 60 s. `automatic`: "
           "another node takes it over, and delivers it; a node that is cut off from the servers "
           "delivers nothing after 45 s. `manual`: it waits for the node, or for `sluice cluster "
           "adopt`, and a node that is cut off delivers to the bound of what a crash may repeat. "
           "The same at all nodes."),
    SIZE(
        "max_bytes", CLUSTER(max_bytes), "4G", MEGA(256),
        "The most that this node's log takes on each server. New mail is refused with 452 while "
        "the "
        "queue takes more than two fifths of it, as keeping the log short needs as much again. The "
        "next start gives it to a log that there is."),
    TEXT("module", CLUSTER(module), NULL, "where it was installed", 4000,
         "The file of the module that speaks to the servers; loaded only where `node` is set."),
    /* --- http ------------------------------------------------------------------------------------- */
    TEXT(
        "tokens_file", HTTP(tokens_file), NULL, "no token is asked for", 4000,
        "File of lines `NAME:TOKEN`, or `NAME:` and the SHA-256 of a token in 64 hex digits, for "
        "nobody else to read (mode 0600); `#` begins a comment. In front may stand what the token "
        "is for: `full` (as without a word), `read` (GET only), `inject` (`POST /v1/inject` only); "
        "and behind that `tenant=T`: the token is bound to that tenant, injects as no other, and "
        "reaches the tenant's own messages, counts, why, events and orders and nothing else, such "
        "as `inject tenant=acme NAME:TOKEN`. What a token may not do is answered with 403. The "
        "file "
        "is read at start, before the daemon becomes `user`, and again at each reload. Requests "
        "then need `Authorization: Bearer TOKEN`, on loopback too, except those for `/` (the empty "
        "page), `/healthz` and `/readyz`. It must be set where the address is not a loopback "
        "address."),
    BOOL("trust_loopback", HTTP(trust_loopback), "no",
         "Of a loopback address without `tokens_file`: all users of the machine may do all there, "
         "as over the control socket. Without it they look and inject, and the other requests are "
         "answered with 403."),
    TEXT("tls_certificate", HTTP(tls_certificate), NULL, "no TLS", 4000,
         "PEM file with the certificate and its chain; the door then takes HTTPS only."),
    TEXT("tls_key", HTTP(tls_key), NULL, "none", 4000,
         "PEM file with the certificate's key. Both are read at start, before the daemon becomes "
         "`user`, and again at each reload."),
    INT("connection_limit", HTTP(connection_limit), "200", 1, 10000,
        "Open connections; further clients are disconnected at once."),
    SIZE("request_size_limit", HTTP(request_size_limit), "32M", 1024,
         "Largest body of a request; a larger one is answered with 413."),
    TIME("timeout", HTTP(timeout), "30s", 1, 3600,
         "A client that is silent for so long, or takes longer for the head of a request, is "
         "disconnected. Ten times as long may a whole body take, or the reading of an answer."),
    /* --- webhook ---------------------------------------------------------------------------------- */
    LIST("types", WEBHOOK(types), CONFIG_TYPE_TEXTS, "all but Reaction",
         "Types of events to post: `Reception`, `Delivery`, `TransientFailure`, `Bounce`, "
         "`Expiration`, `AdminBounce`, `AdminDrop`, `Suppressed`, `OOB`, `Feedback`, `AutoReply`; "
         "and what is about no mail, which "
         "has to be named: "
         "`Reaction`, `SuppressionAdded`, `SuppressionRemoved`."),
    CHOICE("format", WEBHOOK(format), "ndjson", webhook_choices,
           "`ndjson`: the lines of the event log as they are, `application/x-ndjson`. `array`: the "
           "same objects in a JSON array, `application/json`."),
    INT("batch_size", WEBHOOK(batch_size), "500", 1, 10000, "The most events of one request."),
    TIME("batch_wait", WEBHOOK(batch_wait), "1s", 0, 3600,
         "How long the first event of a batch waits for others."),
    LIST("headers", WEBHOOK(headers), CONFIG_TYPE_TEXTS, "{}",
         "Header fields added to each request: `{\"Authorization: Bearer TOKEN\"}`."),
    TEXT("secret_file", WEBHOOK(secret_file), NULL, "no signature", 4000,
         "File whose first line is a secret shared with the receiver, read at start. Requests then "
         "have the header `X-Sluice-Signature: sha256=HEX`: HMAC-SHA256 of the body."),
    TIME("timeout", WEBHOOK(timeout), "30s", 1, 3600, "How long one request may take."),
    TEXT("tls_ca_file", WEBHOOK(tls_ca_file), NULL, "the system's store", 4000,
         "PEM file of the authorities that an https server's certificate is verified with. It is "
         "always verified."),
    /* --- csv -------------------------------------------------------------------------------------- */
    LIST("types", CSV(types), CONFIG_TYPE_TEXTS, "all",
         "Types of events that become rows, as in `webhook`."),
    LIST("columns", CSV(columns), CONFIG_TYPE_TEXTS, "all",
         "Columns and their order: `type`, `timeLogged`, `timeQueued`, `orig`, `rcpt`, `orcpt`, "
         "`dsnAction`, `dsnStatus`, `dsnDiag`, `dsnMta`, `bounceCat`, `srcType`, `srcMta`, "
         "`dlvType`, `dlvSourceIp`, `dlvDestinationIp`, `dlvEsmtpAvailable`, `dlvSize`, `vmta` "
         "(the source), `jobId` (the campaign), `envId`, `queue` (domain/source), `vmtaPool`, "
         "`msgId`, `tenant`, `attempts`, `delay`, `replyClass` (what a refusal means), "
         "`mailClass` (the message's class), `dkim` (what became of its signatures), `dkimKeys` "
         "(which keys signed it, with spaces between). `orcpt`, `envId` and `dlvEsmtpAvailable` are "
         "always empty. Times are in UTC."),
    SIZE("rotate_size", CSV(rotate_size), "256M", 0,
         "At this size the file becomes `PATH.N`, with N rising, and a new one begins. 0: never."),
    INT("rotate_keep", CSV(rotate_keep), "0", 0, 1000000,
        "How many files `PATH.N` are kept; of more the oldest are removed. 0: all are kept."),
    /* --- listener --------------------------------------------------------------------------------- */
    LIST("relay_from", LISTENER(relay_from), CONFIG_TYPE_NETWORKS, "{}",
         "Networks whose hosts may send to any domain without AUTH: `{\"127.0.0.0/8\", \"::1\"}`."),
    TEXT("tls_certificate", LISTENER(tls_certificate), NULL, "no STARTTLS", 4000,
         "PEM file with the certificate and its chain; STARTTLS is offered with it."),
    TEXT("tls_key", LISTENER(tls_key), NULL, "none", 4000, "PEM file with the certificate's key."),
    TEXT(
        "users", LISTENER(users), NULL, "no AUTH", 4000,
        "File of lines `NAME:HASH`, hashes as crypt(3) makes them. Clients may then use AUTH PLAIN "
        "and LOGIN, over TLS only. `tenant=T NAME:HASH` binds a user to a tenant: the mail is T's, "
        "and a `tenant_header` that names another is answered with 550 5.7.1."),
    BOOL("require_tls", LISTENER(require_tls), "no", "Accept MAIL only after STARTTLS."),
    SIZE("message_size_limit", LISTENER(message_size_limit), "50M", 0,
         "Largest message accepted; announced with SIZE. 0: no limit."),
    LIST("receives", LISTENER(receives), CONFIG_TYPE_TEXTS, "{}",
         "Domains whose mail is for us, from any client, without AUTH: it is told as an event, "
         "`OOB`, `Feedback` or `AutoReply`, and never relayed; 250 says that the event is on the "
         "disk. A domain that some `verp` or `list_unsubscribe` names takes return addresses that are still good, "
         "postmaster and abuse; others get 550. Any other domain takes all, as for complaints."),
    INT("smtpd_recipient_limit", LISTENER(smtpd_recipient_limit), "1000", 0, INT_MAX,
        "Recipients of one message; further ones are answered with 452. 0: no limit."),
    TIME("smtpd_timeout", LISTENER(smtpd_timeout), "300s", 1, TIME_MAX,
         "A client silent for so long is disconnected with 421."),
    INT("smtpd_hard_error_limit", LISTENER(smtpd_hard_error_limit), "20", 1, INT_MAX,
        "A client that caused so many errors is disconnected."),
    INT("smtpd_junk_command_limit", LISTENER(smtpd_junk_command_limit), "100", 1, INT_MAX,
        "NOOP, VRFY, RSET and the like beyond this number, without mail in between, count as "
        "errors."),
    INT("smtpd_connection_limit", LISTENER(smtpd_connection_limit), "1000", 1, 1000000,
        "Open connections of this listener; further clients are answered with 421."),
    INT("smtpd_client_connection_count_limit", LISTENER(smtpd_client_connection_count_limit), "50",
        0, INT_MAX,
        "Open connections of one client address. Does not apply to hosts in `relay_from`. 0: no "
        "limit."),
    INT("line_length_limit", LISTENER(line_length_limit), "2048", 512, 65536,
        "Bytes of a command line; a longer one is an error. Lines of a message are not limited."),
    TEXT("tenant", LISTENER(tenant), NULL, "the authenticated user", LABEL_MAX,
         "Whose mail comes in here: the tenant of messages that do not say it in `tenant_header`. "
         "Printable ASCII without spaces."),
    TEXT("tenant_header", LISTENER(tenant_header), NULL, "none", LABEL_FIELD_MAX,
         "Name of a header field, `X-Tenant` say, whose value is the tenant of the message. A "
         "value of more than 64 bytes, or with anything but printable ASCII without spaces, is "
         "ignored and counted. It goes before `tenant` and before the authenticated user: set it "
         "where clients may say whose mail it is. The field is taken out of the message, see "
         "`keep_control_headers`."),
    TEXT("campaign_header", LISTENER(campaign_header), NULL, "none", LABEL_FIELD_MAX,
         "The same for the campaign that a message belongs to."),
    TEXT("class_header", LISTENER(class_header), NULL, "none", LABEL_FIELD_MAX,
         "The same for the class of a message: the field says `urgent`, `normal` or `bulk`. It "
         "goes before MT-PRIORITY and before what `tenant` and listener say, and a tenant gets no "
         "class that its `classes` do not allow."),
    CHOICE("class", LISTENER(class), "normal", class_choices,
           "The class of mail that comes in here when neither the message nor its tenant says it: "
           "where several classes wait, `urgent` goes first and `bulk` last. A tenant gets it as "
           "far as its `classes` allow. A message keeps the class that it came with."),
    BOOL("mt_priority", LISTENER(mt_priority), "no",
         "Offer MT-PRIORITY (RFC 6710), by which clients say how urgent a message is: from 3 on it "
         "is `urgent`, below 0 `bulk`. It counts from clients that are in `relay_from` or have "
         "logged in. When the message gets another class, the reply to its end says so, with 2.3.6 "
         "and the priority that stands for it."),
    BOOL("keep_control_headers", LISTENER(keep_control_headers), "no",
         "Leave the fields that `tenant_header`, `campaign_header` and `class_header` name in the "
         "message. "
         "Otherwise all of them are removed from its header before it is stored, so that "
         "receivers do not see whose mail it is; mail injected over HTTP loses them as well. "
         "Fields that mail needs (`From`, `Subject`, `List-Id`, `Feedback-ID` and the like) may "
         "name a tenant, campaign or class, and are never removed. A DKIM signature that covers a "
         "removed "
         "field becomes invalid."),
    CHOICE("received_header", LISTENER(received_header), "yes", received_choices,
           "The Received field that is written in front of each message: with the client's name "
           "and address (`yes`), without them (`anonymous`: who sent it, and from which inner "
           "network, is nobody's business), or not at all (`no`: then mail that goes round in "
           "circles is not noticed here, see `hopcount_limit`, and receivers may think less of "
           "it). `sluice message` and the event log know the client in any case."),
    BOOL("notices", LISTENER(notices), "yes",
         "Tell senders of mail that comes in here what becomes of it: that it failed, is delayed "
         "(`delay_warning_time`) or was delivered after all (`confirm_delay_cleared`). `no` is for "
         "senders that read the event log instead: it names every recipient that failed, and "
         "`sluice_notices_suppressed_total` counts what was not sent. A message keeps what its "
         "listener said when it came; see `notices` of `tenant` as well."),
    /* --- dns -------------------------------------------------------------------------------------- */
    LIST("servers", DNS(servers), CONFIG_TYPE_ADDRESSES, "/etc/resolv.conf",
         "Name servers, `ADDR` or `ADDR:PORT`: `{\"127.0.0.1:5300\", \"[::1]:53\"}`."),
    TIME("timeout", DNS(timeout), "5s", 1, 60, "How long one try waits for an answer."),
    INT("tries", DNS(tries), "3", 1, 10, "Tries at each server before a lookup fails softly."),
    INT("cache_size", DNS(cache_size), "100000", 0, 10000000,
        "Names kept in the cache, with 64 MB of answers at most. 0: no cache."),
    TIME("cache_max_ttl", DNS(cache_max_ttl), "1d", 1, DAYS(30),
         "An answer is kept no longer than this, whatever its TTL says."),
    TIME("cache_negative_ttl", DNS(cache_negative_ttl), "300s", 1, DAYS(1),
         "How long it is remembered that a name does not exist, when the zone names no time; also "
         "the longest time."),
    BOOL("trust_ad", DNS(trust_ad), "no",
         "Believe these servers when they say that they validated an answer with DNSSEC, which "
         "`smtp_tls_security_level = dane` builds on. A server on a loopback address is always "
         "believed, if all of them are; anywhere else the path to it must be safe as well."),
    /* --- tenant ----------------------------------------------------------------------------------- */
    BOOL("notices", TENANT(notices), "yes",
         "Tell the senders of this tenant's mail what becomes of it, as far as the listener of a "
         "message does not say `no` (see `notices` of `listener`). Counts when the notice would be "
         "made: a reload is enough."),
    CHOICE("class", TENANT(class), "listener", tenant_class_choices,
           "The class of this tenant's mail where the message does not say it (the request's "
           "`class`, `class_header`, MT-PRIORITY). `listener`: what the listener's `class` says; "
           "mail over HTTP is then `normal`."),
    LIST("classes", TENANT(classes), CONFIG_TYPE_TEXTS,
         "`urgent`, `normal`, `bulk`; of `\"*\"` `normal` and `bulk`",
         "The classes that this tenant's mail may have. A message that would have another one gets "
         "the next lower one of them, and is counted (`lowered` in `sluice tenants --json`, "
         "`sluice_tenant_class_lowered_total`). `bulk` is always allowed. Tenants without a "
         "section, and mail of nobody, are allowed what `tenant \"*\"` is, whether it stands "
         "there or not."),
    INT("weight", TENANT(weight), "1", 1, 1000,
        "What this tenant gets where several wait for the same receiver or for connections: of "
        "tenants of one class one with 3 gets three times as much as one with 1, counted in "
        "recipients. Its campaigns share that alike. Of `\"*\"` each tenant has its own, and so "
        "has mail of nobody. What waits goes by it at once after a reload."),
    INT("queue_limit", TENANT(queue_limit), "0", 0, INT_MAX,
        "Messages of this tenant that may be queued, in whatever state; of `\"*\"` each tenant has "
        "its "
        "own. Beyond it mail is refused, with the tenant and the limit: over SMTP 452, at RCPT, or "
        "at "
        "the end of the message where the listener has a `tenant_header`; over HTTP 429. Others do "
        "not "
        "notice. With a limit anywhere all queued mail is counted at the start. 0: no limit."),
    BOOL("inject", TENANT(inject), "yes",
         "Accept mail of this tenant. `no` suspends it as a sender: new mail is refused, over SMTP "
         "with 450 at RCPT or at the end of the message as for `queue_limit`, over HTTP with 403; "
         "what "
         "is queued goes on (`sluice suspend --tenant` holds that)."),
    TEXT("pool", TENANT(pool_name), NULL, "the transport's `source_pool`", 64,
         "The `pool` whose sources this tenant's mail leaves from, whichever transport it takes."),
    TEXT(
        "verp", TENANT(verp), NULL, "the transport's", 320,
        "The same as `verp` of a transport, for this tenant's mail, whichever transport it takes."),
    TEXT("list_unsubscribe", TENANT(list_unsubscribe), NULL, "the transport's", 320,
         "The same as `list_unsubscribe` of a transport, for this tenant's mail."),
    TEXT("list_unsubscribe_url", TENANT(list_unsubscribe_url), NULL, "the transport's", 400,
         "The same as `list_unsubscribe_url` of a transport, for this tenant's mail."),
    TEXT("transport", TENANT(transport_name), NULL, "the route's", 64,
         "The `transport` that this tenant's mail takes where route `\"*\"` matches, in place of "
         "that route's; its nexthop and its TLS level stay. Routes of domains go before it."),
    ROW("maximal_queue_lifetime", TENANT(maximal_queue_lifetime), CONFIG_TYPE_TIME, NULL,
        "the global one", 0, DAYS(100), 's', NULL,
        "How long this tenant's mail is tried before it is returned. 0: once. Its mail with the "
        "null sender is tried for `bounce_queue_lifetime`, and no longer than this."),
    RATE("max_message_rate", TENANT(max_message_rate),
         "Messages of this tenant, to all receivers and from all sources together; written as in "
         "`transport`. Of `\"*\"` each tenant has its own."),
    RATE("max_recipient_rate", TENANT(max_recipient_rate), "The same in recipients."),
    QUOTA("max_message_quota", TENANT(max_message_quota),
          "Messages of this tenant in an hour or a day of UTC; written as in `transport`."),
    LIST(
        "from_domains", TENANT(from_domains), CONFIG_TYPE_TEXTS, "none",
        "Domains of From that belong to this tenant, with all below them: mail with such a From is "
        "signed for the tenants that have the domain here, and for nobody else (see `dkim`). The "
        "longest name that fits counts."),
    LIST("dkim", TENANT(dkim), CONFIG_TYPE_TEXTS, "those of From's domain",
         "Titles of the `dkim` sections whose keys sign this tenant's mail, whatever is in From."),
    TEXT("feedback_id", TENANT(feedback_id), NULL, "none", 200,
         "The field Feedback-ID that this tenant's signed mail gets, unless it has one: "
         "`\"{campaign}:{tenant}:{class}:esp\"`. A name that is empty becomes `-`."),
    /* --- dkim ------------------------------------------------------------------------------------- */
    TEXT("key", DKIM(key), NULL, "none, it must be set", 4095,
         "File with the private key in PEM: RSA of 1,024 to 4,096 bits (2,048 are right) or "
         "Ed25519. Nobody but its owner may be able to read it. A reload reads it again; when a "
         "key is not right the reload is refused, and mail is signed by the keys that were there."),
    LIST("headers", DKIM(headers), CONFIG_TYPE_TEXTS,
         "Sender, Resent-*, In-Reply-To, References, List-* (with List-Unsubscribe and "
         "List-Unsubscribe-Post), Feedback-ID, Auto-Submitted, Content-Description, -ID and "
         "-Disposition",
         "Fields that are signed as often as they are in the message. From is always signed. "
         "`\"none\"`: no other."),
    LIST("oversign", DKIM(oversign), CONFIG_TYPE_TEXTS,
         "From, To, Cc, Subject, Date, Message-ID, Reply-To, MIME-Version, Content-Type, "
         "Content-Transfer-Encoding",
         "Fields that are signed once more than they are there, so that nobody can add one. "
         "`\"none\"`: none."),
    CHOICE("canonicalization", DKIM(canonicalization), "relaxed/relaxed", canonicalization_choices,
           "The forms of header and body that are signed: `relaxed` bears changes of white space "
           "on the way, `simple` none."),
    TIME("expire", DKIM(expire), "0", 0, DAYS(365),
         "How long a signature counts (`x=`). Mail that is tried again is signed again when a "
         "quarter of it is left. 0: for ever."),
    LIST(
        "also", DKIM(also), CONFIG_TYPE_TEXTS, "none",
        "Domains whose keys all sign what this key signs: the operator's own beside the author's."),
    LIST("from_domains", DKIM(from_domains), CONFIG_TYPE_TEXTS, "the domain in the title",
         "Domains of From that this key is for, with those below them that have no keys of their "
         "own; `\"*\"`: all that no key is for."),
    /* --- suppression ------------------------------------------------------------------------------ */
    TEXT(
        "hard_bounce", SUPPRESS(hard_bounce), "1", NULL, 32,
        "How many of the tenant's messages must be refused for good because the recipient does not "
        "exist (class `mailbox` of `sluice classify`) until that recipient is on the tenant's "
        "list: `\"no\"`, `\"1\"`, or so many in a time, `\"2 in 7d\"`. What a receiver says of "
        "the sender, of content or of its own trouble never counts. Mail of nobody fills the list "
        "for all."),
    TEXT("complaint", SUPPRESS(complaint), "1", NULL, 32,
         "The same for complaints of the recipient that are proved to be about the tenant's mail."),
    TEXT("unsubscribe", SUPPRESS(unsubscribe), "1", NULL, 32, "The same for unsubscribing."),
    TEXT("mailbox_full", SUPPRESS(mailbox_full), "no", NULL, 32,
         "The same for a full mailbox (class `full`), as in `\"5 in 30d\"`. A message counts once, "
         "however often it is tried."),
    TIME("expire", SUPPRESS(expire), "0", 0, DAYS(3660),
         "How long entries last that these rules add. 0: until somebody removes them."),
    CHOICE(
        "at_intake", SUPPRESS(at_intake), "refuse", suppressed_choices,
        "What becomes of mail to a suppressed recipient. `refuse`: 550 5.1.8 at RCPT, 422 over "
        "HTTP, with the entry named. `drop`: it is accepted, and the recipient ends with an event "
        "`Suppressed` in place of an attempt. So it always ends where it is known only later: "
        "when a header field names the tenant, and for mail that was queued before."),
    /* --- source, pool ----------------------------------------------------------------------------- */
    IP("address", SOURCE(address), 4, "none",
       "The IPv4 address that connections come from. With `haproxy` it is an address of the "
       "proxy."),
    IP("address6", SOURCE(address6), 6, "none", "The same for IPv6."),
    TEXT("helo_name", SOURCE(helo_name), NULL, "the transport's `smtp_helo_name`", 255,
         "The name in EHLO and HELO. Receivers compare it with the name of the address."),
    ADDRESS("haproxy", SOURCE(haproxy),
            "`ADDR:PORT` of a proxy that is told where to connect, and from which address, with a "
            "header of the PROXY protocol, version 2. It must bind that address itself. That it "
            "could not connect is seen only as a connection that it closes."),
    ADDRESS("socks5", SOURCE(socks5),
            "`ADDR:PORT` of a SOCKS version 5 proxy. It chooses the address; `address` and "
            "`address6` cannot be set beside it."),
    TEXT("socks5_user", SOURCE(socks5_user), NULL, "no login", SOCKS5_LOGIN_MAX,
         "The user towards a SOCKS proxy (RFC 1929; it travels in clear)."),
    TEXT("socks5_password_file", SOURCE(socks5_password_file), NULL, "none", 4000,
         "File whose first line is the password of `socks5_user`. It is read at start, before the "
         "daemon becomes `user`."),
    RATE("max_message_rate", SOURCE(max_message_rate),
         "Messages of this source, to all receivers together; written as in `transport`."),
    RATE("max_recipient_rate", SOURCE(max_recipient_rate), "The same in recipients."),
    RATE("max_connection_rate", SOURCE(max_connection_rate),
         "Connections that this source opens, to all receivers together."),
    QUOTA("max_message_quota", SOURCE(max_message_quota),
          "Messages of this source in an hour or a day of UTC; written as in `transport`. What "
          "exceeds it goes by the pool's other sources."),
    LIST("warmup", SOURCE(warmup_steps), CONFIG_TYPE_QUOTAS, "none",
         "A quota that grows by the day, for an address that receivers do not know yet: "
         "`{\"50/d\", \"100/d\", \"500/d\", \"none\"}` from `since` on, the last one for all days "
         "that follow. What exceeds it goes by the pool's other sources."),
    ROW("since", SOURCE(warmup_since), CONFIG_TYPE_DATE, NULL, "none", 0, 0, 0, NULL,
        "The first day of `warmup`, `YYYY-MM-DD`; a day begins at midnight UTC. Nothing goes "
        "before it."),
    LIST("sources", POOL(source_names), CONFIG_TYPE_TEXTS, "must be set",
         "Names of `source` sections."),
    ROW("weights", POOL(weights), CONFIG_TYPE_NUMBERS, NULL, "1 each", 0, 10000, 0, NULL,
        "How often each source is chosen, in the order of `sources`. 0: not at all."),
    /* --- transport: scheduler --------------------------------------------------------------------- */
    CHOICE("scheduler", SCHED(scheduler), "preemptive", scheduler_choices,
           "What goes next. `preemptive`: Postfix's queue manager, small messages slip past large "
           "ones. `fifo`: the same without slipping past. `round_robin`, to compare with: "
           "destinations take turns as in Postfix's old queue manager (oqmgr), whatever the class, "
           "the tenant and the campaign of a message; it has no max_message_concurrency and "
           "scale_max_concurrency."),
    CHOICE("concurrency_feedback_rule", LANE(sched.concurrency_feedback_rule), "readme",
           rule_choices,
           "How feedback moves a window: `readme` is the published algorithm taken literally, "
           "`postfix3` what Postfix 3 does (rounding by half a feedback, dead at the limit instead "
           "of beyond it, no square root)."),
    INT("initial_destination_concurrency", LANE(sched.initial_destination_concurrency), "5", 1,
        INT_MAX,
        "Window of a destination that is new: connections that may be busy at a time. Never more "
        "than `destination_concurrency_limit`."),
    INT("destination_concurrency_limit", LANE(sched.destination_concurrency_limit), "20", 0,
        INT_MAX,
        "Largest window. 0: no limit. Where a provider or a domain sets it, the nodes of a "
        "`cluster` have so many connections of that source together."),
    FEEDBACK("destination_concurrency_positive_feedback", LANE(positive_feedback), "1",
             "How much one success adds to the window: `NUMBER`, `NUMBER/NUMBER`, "
             "`NUMBER/concurrency` or, under the `readme` rule, `NUMBER/sqrt_concurrency`; the "
             "result lies in 0..1."),
    FEEDBACK("destination_concurrency_negative_feedback", LANE(negative_feedback), "1",
             "How much one failure of the site takes from the window; same syntax."),
    INT("destination_concurrency_failed_cohort_limit",
        LANE(sched.destination_concurrency_failed_cohort_limit), "1", 0, INT_MAX,
        "A destination is dead after so many cohorts (windows full) of failures without a success. "
        "0: never."),
    INT("destination_recipient_limit", RECEIVER(sched.destination_recipient_limit), "50", 0,
        INT_MAX,
        "Recipients of one delivery. 1: each recipient is a destination of its own. 0: no limit. "
        "Of "
        "those of `transport`, `provider` and `domain` the smallest holds; in the latter two 1 is "
        "a "
        "recipient a delivery and no more."),
    TIME("destination_rate_delay", LANE(sched.destination_rate_delay), "0s", 0, TIME_MAX,
         "Pause between two deliveries to a destination; makes its window 1. 0: off."),
    TIME("transport_rate_delay", SCHED(transport_rate_delay), "0s", 0, TIME_MAX,
         "Pause before each delivery of the transport, which then makes one at a time. 0: off."),
    INT("delivery_slot_cost", SCHED(delivery_slot_cost), "5", 0, INT_MAX,
        "Selections of a large message that earn one for a smaller message which arrived later. 0 "
        "or 1: no preemption."),
    INT("delivery_slot_loan", SCHED(delivery_slot_loan), "3", 0, INT_MAX,
        "Slots that a preempting message may have in advance."),
    INT("delivery_slot_discount", SCHED(delivery_slot_discount), "50", 0, 100,
        "Percentage of the needed slots that is enough to begin."),
    INT("minimum_delivery_slots", SCHED(minimum_delivery_slots), "3", 0, INT_MAX,
        "A message that could earn fewer slots than this is never preempted."),
    INT("recipient_limit", SCHED(recipient_limit), "20000", 0, INT_MAX,
        "Recipients of the transport in memory (its pool)."),
    INT("extra_recipient_limit", SCHED(extra_recipient_limit), "1000", 0, INT_MAX,
        "Recipients beyond the pool for messages that preempt others."),
    INT("recipient_refill_limit", SCHED(recipient_refill_limit), "100", 1, INT_MAX,
        "More recipients of a message are read from the spool when so many fit."),
    TIME("recipient_refill_delay", SCHED(recipient_refill_delay), "5s", 1, TIME_MAX,
         "More recipients are read after this time even when fewer fit."),
    INT("process_limit", SCHED(process_limit), "100", 1, 65535,
        "Open connections of the transport, all destinations together."),
    INT("max_message_concurrency", SCHED(max_message_concurrency), "0", 0, 65535,
        "Deliveries of one message in flight that never keep it from a further connection; beyond "
        "them scale_max_concurrency decides, and without that the message only uses connections "
        "that are idle. 0: no such allowance, and no limit when scale_max_concurrency is 0 too."),
    INT("scale_max_concurrency", SCHED(scale_max_concurrency), "0", 0, 65535,
        "A message may have so many deliveries in flight for each connection that the transport "
        "could still use; with 10, one message takes 91 % of an idle transport. 0: none."),
    INT("pipeline_depth", LANE(sched.pipeline_depth), "16", 1, 1000,
        "Deliveries on their way on one connection, at most, where the server offers PIPELINING "
        "(two "
        "then) and CHUNKING as well (so many). Fewer while it answers fast enough that more would "
        "only wait. 1: one after the other, as Postfix does."),
    INT("host_concurrency_limit", SCHED(host_concurrency_limit), "0", 0, 65535,
        "Connections of the transport to one address, all destinations together. 0: no limit."),
    BOOL("hold", SCHED(hold), "no", "Queue mail for this transport and deliver nothing."),
    /* --- transport: what a receiver gets ---------------------------------------------------------- */
    RATE(
        "max_message_rate", LANE(limits.max_message_rate),
        "Messages a lane may send, that is from one source to one site: `100/s`, `600/min`, "
        "`5,000/h`, `50 per day`, `\"600/min, burst 10\"`, `none`. They are spread evenly; a burst "
        "that is not written is a tenth of a second's worth, at least 1. Of the rates of "
        "`transport`, "
        "`provider` and `domain` the smallest holds."),
    RATE("max_recipient_rate", LANE(limits.max_recipient_rate),
         "The same in recipients. A message goes when one of its recipients may, and the next one "
         "when all of them are paid for."),
    RATE("max_connection_rate", LANE(limits.max_connection_rate),
         "Connections that a lane opens, whether they succeed or not."),
    QUOTA("max_message_quota", LANE(limits.max_message_quota),
          "Messages a lane may send in each hour or day of UTC: `5000/d`, `200/h`, `none`. What "
          "exceeds it goes by the pool's other sources, else it waits for the next hour or day."),
    RATE("site_message_rate", LANE(limits.site_message_rate),
         "Messages to a site, all sources together."),
    INT("site_concurrency_limit", LANE(sched.site_concurrency_limit), "0", 0, 65535,
        "Connections of the transport to one site that carry mail, from all sources together. 0: "
        "no limit. In a `cluster` it is all connections, of all transports and nodes together."),
    BOOL("site_rollup", TRANSPORT(site_rollup), "yes",
         "Destinations whose mail goes to the same hosts are one *site*: they share one window, "
         "and connections where hosts and TLS allow it. What counts is the set of names that the "
         "MX records have in their best preference. no: each destination is a site of its own."),
    TIME("lane_memory", LANE(sched.lane_memory), "1h", 0, DAYS(30),
         "What a site has taught, its window above all, is kept for this time after its last mail. "
         "0: not at all."),
    TIME("block_pause", LANE(limits.block_pause), "15m", 1, DAYS(1),
         "How long a lane is closed whose receiver said that it does not want our address; twice "
         "as long each time that it says so again, up to 4 hours."),
    TIME("block_grace", LANE(limits.block_grace), "2h", 0, DAYS(5),
         "How long a message that was refused for good because of our address is deferred instead, "
         "from the first such reply on and while another source is open, before it bounces."),
    /* --- provider --------------------------------------------------------------------------------- */
    LIST("mx", PROVIDER(mx), CONFIG_TYPE_PATTERNS, "any",
         "Patterns of host names: `{\"*.google.com\", \"*.*.google.com\"}`, each `*.` for exactly "
         "one label. **All** hosts that a domain's MX records name must match one of them."),
    LIST("domains", PROVIDER(domains), CONFIG_TYPE_PATTERNS, "any",
         "Patterns of recipients' domains. With `mx` as well, both must match."),
    /* --- transport: SMTP client ------------------------------------------------------------------- */
    TEXT(
        "verp", TRANSPORT(verp), NULL, "none: the sender stays", 320,
        "`LOCAL@DOMAIN`, at most 15 bytes in LOCAL: each recipient gets the message in a "
        "transaction of its own, with the sender `LOCAL+TOKEN@DOMAIN`, the same at each retry. "
        "The token is sealed, so that what comes back to it (`receives`) is believed. Mail with "
        "the null sender keeps it. "
        "Notices go to the message's own sender; what comes back later is told as an event alone."),
    TEXT("list_unsubscribe", TRANSPORT(list_unsubscribe), NULL, "none", 320,
         "`unsubscribe@DOMAIN`: signed mail (`dkim`) for one recipient, with a sender and without "
         "such a field, gets `List-Unsubscribe: <mailto:unsubscribe+TOKEN@DOMAIN?subject=...>`, "
         "sealed as for `verp`. Mail to that address (`receives`) takes the recipient off: see "
         "`unsubscribe` of `suppression`. The part before the @ begins with unsubscribe, unsub, "
         "optout, opt-out or leave."),
    TEXT("list_unsubscribe_url", TRANSPORT(list_unsubscribe_url), NULL, "none", 400,
         "The same by one click (RFC 8058), at a web server of yours: an https URL with `{token}` "
         "in it, and maybe `{recipient}`, `{tenant}` and `{campaign}`, which are escaped. Such "
         "mail gets `List-Unsubscribe-Post: List-Unsubscribe=One-Click` as well. The server hands "
         "what is posted there on as mail to the address of `list_unsubscribe`, with the "
         "recipient's address as its subject."),
    TEXT("source_pool", TRANSPORT(source_pool), NULL, "the system chooses the address", 64,
         "The `pool` from which connections take their source. Addresses that no source of the "
         "pool can reach are not tried."),
    INT("smtp_tcp_port", SMTP(smtp_tcp_port), "25", 1, 65535,
        "Port of destinations whose nexthop names none."),
    TIME("smtp_connect_timeout", RECEIVER(smtp.smtp_connect_timeout), "30s", 0, TIME_MAX,
         "Time for a TCP connection. 0: the system's."),
    TIME("smtp_helo_timeout", RECEIVER(smtp.smtp_helo_timeout), "300s", 1, TIME_MAX,
         "Time for the greeting, and for the reply to EHLO or HELO."),
    TIME("smtp_starttls_timeout", RECEIVER(smtp.smtp_starttls_timeout), "300s", 1, TIME_MAX,
         "Time for the reply to STARTTLS and for the handshake."),
    TIME("smtp_mail_timeout", RECEIVER(smtp.smtp_mail_timeout), "300s", 1, TIME_MAX,
         "Time for the reply to MAIL."),
    TIME("smtp_rcpt_timeout", RECEIVER(smtp.smtp_rcpt_timeout), "300s", 1, TIME_MAX,
         "Time for the reply to RCPT."),
    TIME("smtp_data_init_timeout", RECEIVER(smtp.smtp_data_init_timeout), "120s", 1, TIME_MAX,
         "Time for the reply to DATA."),
    TIME("smtp_data_xfer_timeout", RECEIVER(smtp.smtp_data_xfer_timeout), "180s", 1, TIME_MAX,
         "How long the transfer of a message may stand still."),
    TIME("smtp_data_done_timeout", RECEIVER(smtp.smtp_data_done_timeout), "600s", 1, TIME_MAX,
         "Time for the reply to the end of the message."),
    TIME("smtp_rset_timeout", RECEIVER(smtp.smtp_rset_timeout), "20s", 1, TIME_MAX,
         "Time for the reply to RSET."),
    TIME("smtp_quit_timeout", RECEIVER(smtp.smtp_quit_timeout), "300s", 1, TIME_MAX,
         "Time to send QUIT and see the connection end."),
    INT("smtp_mx_address_limit", RECEIVER(smtp.smtp_mx_address_limit), "5", 0, INT_MAX,
        "Addresses tried for one delivery, failed connections included. 0: no limit."),
    INT("smtp_mx_session_limit", RECEIVER(smtp.smtp_mx_session_limit), "2", 0, INT_MAX,
        "Sessions, that is hosts which completed the handshake, tried for one delivery. 0: no "
        "limit."),
    BOOL("smtp_skip_5xx_greeting", RECEIVER(smtp.smtp_skip_5xx_greeting), "yes",
         "A host that greets with 5xx is passed over like one that greets with 4xx; otherwise the "
         "mail bounces."),
    BOOL("smtp_always_send_ehlo", RECEIVER(smtp.smtp_always_send_ehlo), "yes",
         "Send EHLO also to a host whose greeting does not say ESMTP."),
    TEXT("smtp_helo_name", SMTP(smtp_helo_name), NULL, "`hostname`", 255,
         "The name in EHLO and HELO."),
    TEXT("smtp_auth_user", SMTP(smtp_auth_user), NULL, "no AUTH", 255,
         "The user as whom the transport logs in at its smart hosts, by AUTH PLAIN or LOGIN "
         "(Postfix: `smtp_sasl_password_maps`). A server that offers neither, or refuses, gets no "
         "mail: it is deferred, never bounced. Every route to such a transport must name a "
         "nexthop, as others have no business with the password."),
    TEXT("smtp_auth_password_file", SMTP(smtp_auth_password_file), NULL, "none", 4000,
         "File whose first line is the password of `smtp_auth_user`. It is read at start, before "
         "the daemon becomes `user`."),
    BOOL("smtp_auth_requires_tls", SMTP(smtp_auth_requires_tls), "yes",
         "Never send the password in clear: for a transport with `smtp_auth_user` the level `may`, "
         "also where `dane` and `mta-sts` come down to it, is taken as `encrypt`. That keeps it "
         "from who listens, not from who pretends to be the smart host: for that set "
         "`smtp_tls_security_level = verify`; `sluice check` warns where it is less."),
    CHOICE("smtp_tls_security_level", RECEIVER(smtp.smtp_tls_security_level), "may", tls_choices,
           "`none`: no TLS; `may`: TLS where it is offered, any certificate, and in clear when it "
           "fails; `encrypt`: no delivery without TLS, any certificate; `verify`: no delivery "
           "without a certificate that an authority of `smtp_tls_CAfile` vouches for and that "
           "names the host; `dane`: where DNSSEC says that the hosts have TLSA records, TLS with a "
           "certificate that matches them (RFC 7672), where it says that there are none, `may`, "
           "and no delivery while it cannot say; needs a validating resolver, see `trust_ad`; "
           "`mta-sts`: where the domain has an MTA-STS policy in mode `enforce` (RFC 8461), its "
           "hosts only, as with `verify`; else `may`. Each of the last two knows nothing of the "
           "other: a destination at `dane` is never delivered to because of an MTA-STS policy."),
    TEXT("smtp_tls_CAfile", SMTP(smtp_tls_CAfile), NULL, "the system's", 4000,
         "PEM file with the authorities against which certificates are verified, those of hosts "
         "that give out MTA-STS policies included (for these `user` must be able to read it)."),
    TEXT("smtp_tls_cert_file", SMTP(smtp_tls_cert_file), NULL, "none", 4000,
         "PEM file with the certificate (its chain behind it) that a server which asks for one is "
         "shown."),
    TEXT("smtp_tls_key_file", SMTP(smtp_tls_key_file), NULL, "in `smtp_tls_cert_file`", 4000,
         "PEM file with that certificate's key."),
    TIME("smtp_connection_cache_time_limit", LANE(smtp.smtp_connection_cache_time_limit), "2s", 0,
         TIME_MAX, "An idle connection is kept so long for the next delivery. 0: not at all."),
    TIME("smtp_connection_reuse_time_limit", LANE(smtp.smtp_connection_reuse_time_limit), "300s", 1,
         TIME_MAX, "A connection older than this takes no further delivery."),
    INT("smtp_connection_reuse_count_limit", LANE(smtp.smtp_connection_reuse_count_limit), "0", 0,
        INT_MAX, "Deliveries on one connection. 0: no limit."),
    CHOICE("inet_protocols", RECEIVER(smtp.inet_protocols), "all", protocol_choices,
           "Which addresses of a host are used."),
    /* --- route ------------------------------------------------------------------------------------ */
    TEXT("transport", ROUTE(transport_name), NULL, "must be set", 64,
         "The transport, by its name."),
    ROW("nexthop", ROUTE(nexthop), CONFIG_TYPE_TEXT, "", "the recipient's domain", 0, 320, 0, NULL,
        "Where the mail goes, as in Postfix: `HOST` or `HOST:PORT` with MX lookup, `[HOST]` or "
        "`[HOST]:PORT` or `[ADDRESS]:PORT` without."),
    CHOICE("smtp_tls_security_level", ROUTE(smtp_tls_security_level), "transport",
           route_tls_choices,
           "As in a transport, for destinations that this route leads to. `transport`: what the "
           "transport says. Routes to one nexthop of one transport must agree. A nexthop that a "
           "route names has that route's level for mail of every route."),
};

const size_t config_option_count = sizeof(config_options) / sizeof(config_options[0]);
