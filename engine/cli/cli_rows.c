/* The table of all commands: who wants another one adds a row here, its options, and a function.
 * Read by cli.c, by the help, the completion and the man page. */
#include "engine/cli/cli.h"

#include <string.h>

#define OPTIONS(...)                                                                               \
    (const struct cli_option[])                                                                    \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .name = NULL                                                                           \
        }                                                                                          \
    }

#define OPTION_LIMIT                                                                               \
    {                                                                                              \
        "limit", 0, CLI_NUMBER, "N", "so many at most (default 1000, at most 10000)"               \
    }

/* Which mail: see clerk_walk.h and cli_filter. */
#define OPTIONS_FILTER                                                                             \
    {"tenant", 0, CLI_TEXT, "GLOB", "only mail of this tenant"},                                   \
        {"campaign", 0, CLI_TEXT, "GLOB", "only of this campaign"},                                \
        {"domain", 0, CLI_TEXT, "GLOB", "only recipients in this domain"},                         \
        {"destination", 0, CLI_TEXT, "GLOB", "only what goes to this destination"},                \
        {"transport", 0, CLI_TEXT, "GLOB", "only what goes by this transport"},                    \
        {"source", 0, CLI_TEXT, "GLOB", "only what may leave from this source"},                   \
        {"sender", 0, CLI_TEXT, "GLOB", "only from this envelope sender"},                         \
        {"recipient", 0, CLI_TEXT, "GLOB", "only to this recipient"},                              \
        {"state", 0, CLI_TEXT, "STATE,...",                                                        \
         "only incoming, active, deferred, scheduled, suspended ones"},                            \
    {                                                                                              \
        "older", 0, CLI_SPAN, "SPAN", "only what came longer ago"                                  \
    }

/* Which mail; as in the counts. */
#define OPTION_SELECTORS                                                                           \
    {"tenant", 0, CLI_TEXT, "GLOB", "mail of this tenant"},                                        \
        {"campaign", 0, CLI_TEXT, "GLOB", "mail of this campaign"},                                \
        {"domain", 0, CLI_TEXT, "GLOB", "to recipients in this domain"},                           \
        {"destination", 0, CLI_TEXT, "GLOB", "for this destination (nexthop)"},                    \
        {"transport", 0, CLI_TEXT, "GLOB", "by this transport"},                                   \
    {                                                                                              \
        "source", 0, CLI_TEXT, "GLOB", "from this egress source"                                   \
    }
#define OPTION_DRY_RUN                                                                             \
    {                                                                                              \
        "dry-run", 'n', CLI_FLAG, NULL, "only say what would happen"                               \
    }
#define OPTION_YES                                                                                 \
    {                                                                                              \
        "yes", 0, CLI_FLAG, NULL, "do not ask"                                                     \
    }
#define OPTION_FOR                                                                                 \
    {                                                                                              \
        "for", 0, CLI_SPAN, "SPAN", "how long; 0: what is queued now"                              \
    }
#define OPTION_ORDER                                                                               \
    {"all", 0, CLI_FLAG, NULL, "all mail"},                                                        \
        {"here", 0, CLI_FLAG, NULL, "at this node of a cluster alone, not at all"},                \
        {"reason", 0, CLI_TEXT, "TEXT", "why; everybody who looks sees it"}, OPTION_DRY_RUN

/* Whose figures, in a cluster. */
#define OPTION_NODES                                                                               \
    {"node", 0, CLI_TEXT, "NAME", "of this node of the cluster"},                                  \
    {                                                                                              \
        "all-nodes", 0, CLI_FLAG, NULL, "of all nodes of the cluster"                              \
    }

const struct cli_row cli_rows[] = {
    {.name = "run",
     .run = cli_run,
     .operands = "",
     .summary = "run the daemon in the foreground",
     .help = "Reads the configuration and relays mail until SIGTERM or SIGINT. SIGHUP does what "
             "`sluice reload`\n"
             "does, and opens the event log again.\n"},
    {.name = "check",
     .run = cli_check,
     .operands = "",
     .options = OPTIONS(
         {"reference", 0, CLI_FLAG, NULL,
          "print the configuration reference (docs/configuration.md)"},
         {"explain", 0, CLI_FLAG, NULL, "print every option with its value and where it was set"}),
     .summary = "say whether the configuration is right",
     .help = "Prints every mistake as FILE:LINE: key: what is wrong; what would be right, and "
             "exits with 78\n"
             "when there is one.\n"},
    {.name = "repair",
     .run = cli_repair,
     .operands = "",
     .options = OPTIONS({"salvage", 0, CLI_FLAG, NULL, "build the spool anew, keep the old file"},
                        {"from-log", 0, CLI_TEXT, "NODE",
                         "make a lost spool anew from the node's log on the cluster's servers"}),
     .summary = "build a damaged or lost spool anew",
     .help = "For a spool that the daemon refuses to open; it must not run. Reads every page of "
             "data.mdb by\n"
             "itself, and lists each message: kept; may-repeat, when who has it is lost or when it "
             "may be an\n"
             "old copy; lost. The damaged file stays beside the new one as data.mdb.damaged-N.\n"
             "With --from-log the node's disk is lost, and its mail is what the servers of cluster "
             "{ } have:\n"
             "the log is taken from whoever still writes it, and becomes a spool.\n"},
    {.name = "explain",
     .run = cli_explain,
     .operands = "DOMAIN",
     .operands_min = 1,
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS(
         {"mx", 0, CLI_TEXT, "HOST,...", "its MX hosts, all of them; they say whose mail it is"},
         {"source", 0, CLI_TEXT, "NAME", "what counts for mail from this source"},
         {"tenant", 0, CLI_TEXT, "NAME", "what counts for this tenant's mail"}),
     .summary = "say which route mail for a domain takes, by which options, and where they are set",
     .help =
         "Reads the configuration; a running daemon says what stands of its lanes now. DOMAIN may "
         "also be\n"
         "an address, or a nexthop that a route names. Of an option that several sections set the "
         "value that\n"
         "counts is shown: domain, provider, transport; of rates the smallest. Exit code 68: no "
         "route leads\n"
         "there, or no mail from the source.\n"},
    {.name = "classify",
     .run = cli_classify,
     .operands = "[REPLY...]",
     .operands_max = 1000,
     .options = OPTIONS(
         {"provider", 0, CLI_TEXT, "NAME", "it comes from this provider; else it is not known"},
         {"stage", 0, CLI_WORD, "greeting|ehlo|starttls|auth|mail|rcpt|data|end",
          "what it answers; else what the reply says itself"},
         {"file", 0, CLI_FILE, "FILE", "classify the replies in FILE, one each line"},
         {"unknown", 0, CLI_FLAG, NULL, "list the replies that no rule knew, most frequent first"},
         {"since", 0, CLI_SPAN, "SPAN", "of those only what came in the last SPAN"},
         {"limit", 0, CLI_NUMBER, "N", "so many of them (default 100)"}),
     .summary = "say what a receiver's reply means, and which rule says so",
     .help =
         "By the rules of the configuration, section replies; needs no daemon. REPLY is what a "
         "server\n"
         "said, 421 4.7.0 TEXT, or a line of the event log or of sluice messages that has it. "
         "Without a\n"
         "REPLY and --file the replies are read from standard input, one each line.\n"
         "--unknown asks the daemon for its event log, or reads FILE (-: standard input), which "
         "may be an\n"
         "event log or a CSV file of events too, and judges what receivers said by the rules of "
         "now. Replies\n"
         "that differ in numbers, addresses and ids only are one kind, of which the last is shown; "
         "of more\n"
         "than 10,000 kinds the rarer ones are left out, and it says so.\n"},
    {.name = "dkim",
     .run = cli_dkim,
     .operands = "[DOMAIN]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS({"tenant", 0, CLI_TEXT, "NAME", "what signs this tenant's mail"},
                        {"zone", 0, CLI_FLAG, NULL, "print lines for a zone file and ask nobody"}),
     .summary = "print the DNS records of the keys that sign mail, and check those published",
     .help =
         "DOMAIN is one of From, and all keys that sign its mail are looked at, or a key's name "
         "in the DNS,\n"
         "SELECTOR._domainkey.DOMAIN; without it all keys are. Reads the configuration and its "
         "keys and\n"
         "asks the name servers in it; needs no daemon. Exit codes: 65 what is published "
         "differs, 68 no\n"
         "key signs its mail, 75 no name server answered.\n"},
    {.name = "reload",
     .run = cli_reload,
     .operands = "",
     .summary = "have the daemon read its configuration again",
     .help = "All or nothing: with a mistake in the file the old configuration stays, the mistakes "
             "are printed\n"
             "and the exit code is 78. What needs a restart is printed, and left as it was.\n"},
    {.name = "drain",
     .run = cli_drain,
     .operands = "",
     .options = OPTIONS({"for", 0, CLI_SPAN, "SPAN", "end then, whatever is left"},
                        {"off", 0, CLI_FLAG, NULL, "take mail again"}),
     .summary = "take no mail, send what is due, and end",
     .help =
         "Clients are told 421 4.3.2, injection 503, and /readyz says no. When only deferred and "
         "held mail\n"
         "is left, or SPAN is over, the daemon ends with 0; what is left stays in the spool. "
         "Given once more\n"
         "it sets another SPAN, or none.\n"},
    {.name = "restart",
     .run = cli_restart,
     .operands = "",
     .summary = "have the daemon become the program on the disk",
     .help = "For an upgrade, or options that only a restart changes. The sockets stay open "
             "meanwhile, so that\n"
             "connections wait and none is refused. With a mistake in the configuration nothing "
             "happens.\n"},
    {.name = "send",
     .run = cli_send,
     .operands = "[RECIPIENT...]",
     .options = OPTIONS(
         {"", 't', CLI_FLAG, NULL, "recipients from To, Cc and Bcc as well; Bcc is removed"},
         {"", 'f', CLI_TEXT, "SENDER", "envelope sender; <> is the null sender"},
         {"", 'F', CLI_TEXT, "NAME", "full name for a From header that is missing"},
         {"", 'i', CLI_FLAG, NULL, "a line of one dot does not end the message; so does -oi"}),
     .summary = "queue the message on standard input",
     .help =
         "Takes the options of sendmail. Either the message is queued for every recipient or, when "
         "the\n"
         "exit code is not 0, for none.\n"
         "Exit codes: 64 usage, 65 message or address not understood, 67 a recipient was refused, "
         "69 the\n"
         "message was refused, 75 try again later, 77 not allowed to use the control socket.\n",
     .is_raw = true},
    {.name = "inject",
     .run = cli_inject,
     .operands = "[FILE]",
     .operands_max = 1,
     .operand_kind = CLI_FILE,
     .options = OPTIONS(
         {"tenant", 0, CLI_TEXT, "NAME", "whose mail it is, whatever the messages say"},
         {"campaign", 0, CLI_TEXT, "NAME", "what it belongs to, likewise"},
         {"class", 0, CLI_WORD, "urgent|normal|bulk", "its class, as far as its tenant may"},
         {"at", 0, CLI_TEXT, "TIME", "not before 2030-01-31T12:00:00Z, or seconds since 1970"},
         {"expires", 0, CLI_TEXT, "WHEN", "given up then: a time as above, or after 90s, 2h, 5d"},
         {"dkim", 0, CLI_TEXT, "NAMES",
          "the keys that sign it, with commas between them, in place of its tenant's or From's"},
         {"require-tls", 0, CLI_FLAG, NULL,
          "only over sessions that are proved, to servers that promise the same (REQUIRETLS)"},
         {"from", 0, CLI_TEXT, "SENDER", "with --to: the envelope sender"},
         {"to", 0, CLI_TEXT, "LIST", "the input is one finished message for these recipients"}),
     .summary = "queue messages given as JSON",
     .help =
         "Reads FILE, or standard input, and prints the id of each message when it is stored: "
         "one\n"
         "message {\"from\", \"recipients\", \"headers\", \"text\", ...}, or {\"messages\": "
         "[...],\n"
         "\"defaults\": {...}} with at most 1000. All messages are checked before one is taken; "
         "every\n"
         "mistake is printed with its place.\n"
         "Exit codes: 64 a mistake in the messages, 69 no daemon, or it takes no mail, 75 try "
         "again\n"
         "later.\n"},
    {.name = "status",
     .run = cli_status,
     .operands = "",
     .options = OPTIONS(OPTION_NODES),
     .summary = "totals: messages, connections, space",
     .help = ""},
    {.name = "top",
     .run = cli_top,
     .operands = "",
     .options = OPTIONS({"once", 0, CLI_FLAG, NULL, "print everything once, as text"},
                        {"interval", 'i', CLI_SPAN, "SPAN",
                         "ask so often (default 2s); never faster than the daemon answers"},
                        OPTION_NODES),
     .summary = "what is going on, live",
     .help =
         "Rates, destinations with their windows, the queue by destination, tenant and age, "
         "tenants,\n"
         "responses, standing orders, lanes; red is what is dead, closed or suspended. Keys: 1 "
         "to 7 or Tab\n"
         "switch the view, arrows select, Enter tells why mail is held back, t shows the last "
         "session, s sorts,\n"
         "r reverses, / filters, d shows only what is held back, p pauses, + and - set how often "
         "it asks, h\n"
         "explains all, q quits. Without a terminal, or with --json, it prints everything "
         "once.\n"},
    {.name = "counts",
     .run = cli_counts,
     .operands = "",
     .options = OPTIONS({"by", 0, CLI_TEXT, "WORD,...",
                         "groups: tenant, campaign, domain, destination, transport, source, state, "
                         "age, class, mail_class"},
                        OPTION_LIMIT, OPTIONS_FILTER, OPTION_NODES),
     .summary = "how much is queued, by tenant, destination, state and others",
     .help =
         "Counts recipients that are not done, and the messages they belong to, by walking "
         "through the\n"
         "queue. In a GLOB * stands for any text. Without --by it is grouped by state. The class "
         "is that of\n"
         "the reply that deferred it last: throttled, blocked, greylisted, unavailable, mailbox, "
         "full,\n"
         "content, policy, auth, protocol, other.\n"},
    {.name = "messages",
     .run = cli_messages,
     .operands = "",
     .options = OPTIONS(OPTION_LIMIT, {"after", 0, CLI_ID, "ID", "those that came after ID"},
                        OPTIONS_FILTER, OPTION_NODES),
     .summary = "the messages in the queue, in order of id",
     .help = "In a GLOB * stands for any text. A message is shown when one of its recipients that "
             "are not\n"
             "done fits.\n"},
    {.name = "message",
     .run = cli_message,
     .operands = "ID",
     .operands_min = 1,
     .operands_max = 1,
     .operand_kind = CLI_ID,
     .options = OPTIONS(OPTION_NODES),
     .summary = "one message with all its recipients",
     .help = ""},
    {.name = "why",
     .run = cli_why,
     .operands = "ID|DESTINATION|TENANT",
     .operands_min = 1,
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options =
         OPTIONS({"destination", 'd', CLI_FLAG, NULL, "it is the name of a destination"},
                 {"tenant", 't', CLI_FLAG, NULL, "it is the name of a tenant"}, OPTION_NODES),
     .summary = "what holds a message, a destination or a tenant back",
     .help = "Says what keeps the mail, because of what, by which option, and when that changes.\n"
             "16 hex digits are the id of a message, a name with a dot or a bracket is a "
             "destination,\n"
             "another one a tenant.\n"},
    {.name = "trace",
     .run = cli_trace,
     .operands = "DESTINATION",
     .operands_min = 1,
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS({"follow", 'f', CLI_FLAG, NULL, "go on with what is said from now on"},
                        {"last", 0, CLI_NUMBER, "N", "so many sessions (default 4, at most 200)"},
                        {"failed", 0, CLI_FLAG, NULL, "only those in which something failed"},
                        {"transport", 0, CLI_TEXT, "NAME", "only those of this transport"}),
     .summary = "what the last sessions with a destination said and heard",
     .help =
         "Sessions under way and those that are over, of each destination the last four and "
         "the last two\n"
         "in which something failed; passwords are masked. > is what we said, < what the server "
         "said,\n"
         "- what else happened, with the seconds since the connect.\n"},
    {.name = "destinations",
     .run = cli_destinations,
     .operands = "[TEXT]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS({"state", 0, CLI_WORD, "ready|dead|suspended|resolving", "only these"},
                        {"transport", 0, CLI_TEXT, "NAME", "only those of this transport"},
                        {"sort", 0, CLI_WORD, "name|load|delivered|deferred",
                         "the first by name, or the largest; load: in flight and waiting"},
                        OPTION_LIMIT, OPTION_NODES),
     .summary = "the destinations that mail waits for or goes to",
     .help = "Those that schedulers know, with TEXT in their name. Without --sort as they are "
             "found.\n"},
    {.name = "sites",
     .run = cli_sites,
     .operands = "[TEXT]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS({"state", 0, CLI_WORD, "ready|dead|closed", "only these"},
                        {"transport", 0, CLI_TEXT, "NAME", "only those of this transport"},
                        {"sort", 0, CLI_WORD, "name|load",
                         "the first by name, or the largest; load: in flight and waiting"},
                        OPTION_LIMIT, OPTION_NODES),
     .summary = "the receivers: destinations that share a window",
     .help =
         "A provider of the configuration, else the hosts that MX records name first; those with "
         "TEXT in\ntheir name. Those without mail are remembered for lane_memory.\n"},
    {.name = "cluster",
     .run = cli_cluster,
     .operands = "[adopt NODE | forget NODE]",
     .operands_max = 2,
     .operand_kind = CLI_TEXT,
     .verbs = "adopt|forget",
     .summary = "the nodes of the cluster, as this one sees them",
     .help =
         "alive: its entry changed within 10 seconds; late, lapsed and gone: not for 10, 45 and 60 "
         "seconds;\nleft: it was stopped in order. `adopt` has this node take over the mail of one "
         "that left\nor is gone, from its log; `forget` takes the entry of such a node away.\n"},
    {.name = "lanes",
     .run = cli_lanes,
     .operands = "[TEXT | open SITE | close SITE | pace SITE RATE]",
     .operands_max = 3,
     .operand_kind = CLI_TEXT,
     .verbs = "open|close|pace",
     .options = OPTIONS(
         {"source", 0, CLI_TEXT, "NAME", "only those of this source; -: the system chooses it"},
         {"destination", 0, CLI_TEXT, "NAME", "only those of the site of this destination"},
         {"state", 0, CLI_WORD, "open|paced|paused|closed|probing|dead", "only these"},
         {"transport", 0, CLI_TEXT, "NAME", "only those of this transport"},
         {"sort", 0, CLI_WORD, "name|load|worst",
          "their sites, as `sites` has them; worst: closed, paused and paced lanes first"},
         {"for", 0, CLI_SPAN, "SPAN", "close: how long; default 1h"},
         {"reason", 0, CLI_TEXT, "TEXT", "of an order: why; everybody who looks sees it"},
         OPTION_LIMIT, OPTION_NODES),
     .summary = "what each receiver sees of each source and allows it; close, open and pace",
     .help =
         "A lane is one source at one site, with a window of its own; those of sites with TEXT in "
         "their name.\n"
         "With --source all that is known of a lane. What a receiver taught stands below its "
         "lane, with the\n"
         "reply that said it. `close` ends new deliveries by a lane for a time: its mail goes by "
         "the other\n"
         "lanes of its pool, else it is deferred. `open` ends what holds a lane back: closure, "
         "pause, pace,\n"
         "ceilings. `pace` sets what was learned, a RATE of messages such as 20/s, learned on "
         "from there;\n"
         "none: no pace. `open --source NAME` is for the source at all sites. SITE: as `sites` "
         "names "
         "it, a\n"
         "provider, or a destination. Without --source all lanes of the site.\n"},
    {.name = "hosts",
     .run = cli_hosts,
     .operands = "[TEXT]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS(OPTION_NODES),
     .summary = "the addresses that mail went to",
     .help = "Connections, failures, when they are tried again; only those with TEXT in TRANSPORT\n"
             "[ADDRESS]:PORT.\n"},
    {.name = "transports",
     .run = cli_transports,
     .operands = "",
     .options = OPTIONS(OPTION_NODES),
     .summary = "the transports and what they are doing",
     .help = ""},
    {.name = "sources",
     .run = cli_sources,
     .operands = "",
     .options = OPTIONS(OPTION_NODES),
     .summary = "the egress sources and the pools they are in",
     .help = ""},
    {.name = "tenants",
     .run = cli_tenants,
     .operands = "",
     .options = OPTIONS(OPTION_NODES),
     .summary = "what became of whose mail, and who waits",
     .help =
         "Mail of no tenant stands as -; tenants that found no room as other. WEIGHT and what "
         "stands\n"
         "behind it are of mail in memory: recipients that wait, connections, the longest wait.\n"},
    {.name = "responses",
     .run = cli_responses,
     .operands = "",
     .options = OPTIONS({"limit", 0, CLI_NUMBER, "N", "so many at most (default 50, at most 500)"},
                        OPTION_NODES),
     .summary = "the replies that deferred or refused mail, the most frequent first",
     .help =
         "Replies that differ in numbers, addresses, ids and quoted text only count together.\n"},
    {.name = "events",
     .run = cli_events,
     .operands = "[consumers]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS(
         {"follow", 'f', CLI_FLAG, NULL, "wait for more; without --after from now on"},
         {"type", 0, CLI_TEXT, "TYPES",
          "Reception, Delivery, TransientFailure, Bounce, Expiration, AdminBounce, AdminDrop, "
          "Suppressed, OOB, Feedback, AutoReply, Reaction, SuppressionAdded, SuppressionRemoved, "
          "with commas"},
         {"after", 0, CLI_TEXT, "CURSOR", "from there on; start: from the oldest"},
         {"limit", 0, CLI_NUMBER, "N", "so many at most"}),
     .summary = "what happened to mail, from the event log",
     .help = "Without options all that the event log still has. With --json the lines as they are "
             "there.\n"
             "`sluice events consumers`: the webhooks and files that read it, and how far behind "
             "they are.\n"},
    {.name = "orders",
     .run = cli_orders,
     .operands = "",
     .options = OPTIONS(OPTION_NODES),
     .summary = "the standing orders in force",
     .help = "What was suspended, bounced or dropped with the commands of these names, and is "
             "still.\n"},
    {.name = "suppressions",
     .run = cli_suppressions,
     .operands = "[PREFIX]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS({"tenant", 0, CLI_TEXT, "TENANT", "this list alone; - for the one for all"},
                        {"csv", 0, CLI_FLAG, NULL, "as a file that sluice suppress takes"},
                        {"after", 0, CLI_TEXT, "CURSOR", "from there on, as an answer said"},
                        OPTION_LIMIT),
     .summary = "recipients that get no mail",
     .help = "Entries in order of lists and addresses, those that begin with PREFIX. With --csv or "
             "--json\n"
             "and without --limit all of them.\n"},
    {.name = "suppress",
     .run = cli_suppress,
     .operands = "[ADDRESS|@DOMAIN]...",
     .operands_max = 1000,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS(
         {"tenant", 0, CLI_TEXT, "TENANT", "on the list of this tenant (default: the one for all)"},
         {"reason", 0, CLI_WORD, "hard_bounce|complaint|unsubscribe|by_hand|mailbox_full",
          "why (default by_hand)"},
         {"source", 0, CLI_TEXT, "TEXT", "who or what says so"},
         {"for", 0, CLI_SPAN, "SPAN", "how long (default for ever)"},
         {"file", 0, CLI_FILE, "FILE", "the lines of FILE, CSV or NDJSON; - for standard input"},
         {"from", 0, CLI_NUMBER, "LINE", "go on with this line of FILE"}),
     .summary = "put recipients on a list that gets no mail",
     .help =
         "Mail to them is refused, or accepted and dropped (suppression in the configuration), and "
         "what\n"
         "is queued ends without another attempt. In force when the command has ended, also after "
         "a crash.\n"},
    {.name = "unsuppress",
     .run = cli_suppress,
     .operands = "[ADDRESS|@DOMAIN]...",
     .operands_max = 1000,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS(
         {"tenant", 0, CLI_TEXT, "TENANT",
          "from the list of this tenant (default: the one for all)"},
         {"source", 0, CLI_TEXT, "TEXT", "who or what says so"},
         {"file", 0, CLI_FILE, "FILE", "the lines of FILE, CSV or NDJSON; - for standard input"},
         {"from", 0, CLI_NUMBER, "LINE", "go on with this line of FILE"}),
     .summary = "take recipients off a list that gets no mail",
     .help =
         "The list of the tenant and the one for all are apart: who is on both must be taken off "
         "both.\n"},
    {.name = "heard",
     .run = cli_heard,
     .operands = "[ID...]",
     .operands_max = 1000,
     .operand_kind = CLI_ID,
     .options = OPTIONS({"remove", 0, CLI_FLAG, NULL, "remove these instead of printing them"},
                        OPTION_LIMIT),
     .summary = "mail that came back and was not understood",
     .help = "A list, the newest first, or the messages with these IDs as they came. Kept are the "
             "newest 1,000,\n"
             "64 MB at most, in heard/unknown of the spool.\n"},
    {.name = "return-keys",
     .run = cli_return_keys,
     .operands = "",
     .options = OPTIONS({"rotate", 0, CLI_FLAG, NULL, "make a new one, for mail from now on"}),
     .summary = "the keys that seal return addresses (verp)",
     .help = "There is a new one each 30 days. One that is not in use any more is believed for 180 "
             "days.\n"},
    {.name = "suspend",
     .run = cli_order,
     .operands = "",
     .options = OPTIONS(OPTION_SELECTORS, OPTION_ORDER,
                        {"for", 0, CLI_SPAN, "SPAN", "how long (default 1h)"}),
     .summary = "hold mail back for a time",
     .help = "Mail that the options name is taken in and kept, and not delivered until the order "
             "ends.\n"
             "All options must fit; * in a value stands for anything. --source alone closes a "
             "source: its\n"
             "mail goes out from the others of its pool, or waits when there are none.\n"},
    {.name = "bounce",
     .run = cli_order,
     .operands = "",
     .options = OPTIONS(OPTION_SELECTORS, OPTION_ORDER, OPTION_YES, OPTION_FOR),
     .summary = "return mail to its senders",
     .help =
         "Queued mail that the options name, and what comes while the order stands, is given up "
         "with a\n"
         "notice to its sender. Shows first how much that is; see sluice suspend for options.\n"},
    {.name = "drop",
     .run = cli_order,
     .operands = "",
     .options = OPTIONS(OPTION_SELECTORS, OPTION_ORDER, OPTION_YES, OPTION_FOR),
     .summary = "throw mail away without a notice",
     .help = "As sluice bounce, but nobody is told; the event log has a line of each recipient.\n"},
    {.name = "resume",
     .run = cli_resume,
     .operands = "[ID]",
     .operands_max = 1,
     .operand_kind = CLI_NUMBER,
     .options = OPTIONS(OPTION_SELECTORS, {"all", 0, CLI_FLAG, NULL, "every order"},
                        {"reason", 0, CLI_TEXT, "TEXT", "why, for the log"}, OPTION_DRY_RUN),
     .summary = "end a standing order",
     .help = "The one with this ID, or those that were given with exactly these selectors.\n"},
    {.name = "flush",
     .run = cli_flush,
     .operands = "",
     .options = OPTIONS(OPTION_SELECTORS, OPTION_DRY_RUN),
     .summary = "try deferred mail and dead destinations now",
     .help = "All of it, or the mail that the options name.\n"},
    {.name = "help",
     .run = cli_help,
     .operands = "[COMMAND]",
     .operands_max = 1,
     .operand_kind = CLI_TEXT,
     .options = OPTIONS({"man", 0, CLI_FLAG, NULL, "print the manual page sluice(1)"}),
     .summary = "explain a command, or list all",
     .help = ""},
    {.name = "completion",
     .run = cli_completion,
     .operands = "bash|zsh",
     .operands_min = 1,
     .operands_max = 1,
     .operand_kind = CLI_WORD,
     .summary = "print a script that completes command lines",
     .help = "For bash: source <(sluice completion bash). For zsh: sluice completion zsh > "
             "FOLDER/_sluice,\n"
             "where FOLDER is one of $fpath.\n"},
    {.name = "version",
     .run = cli_version,
     .operands = "",
     .summary = "print the version",
     .help = ""},
};

const size_t cli_row_count = sizeof(cli_rows) / sizeof(cli_rows[0]);

const struct cli_row *cli_row_find(const char *name)
{
    for (size_t i = 0; i < cli_row_count; i++) {
        if (strcmp(cli_rows[i].name, name) == 0) {
            return &cli_rows[i];
        }
    }
    return NULL;
}
