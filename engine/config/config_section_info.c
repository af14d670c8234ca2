/* Owns the table of sections: their names, and what the reference says of each. Read with the table of
 * options; must not know what uses a section. */
#include "engine/config/config_option.h"

#include <string.h>

const struct config_section_info config_sections[CONFIG_SECTION_COUNT] = {
    [CONFIG_SECTION_GLOBAL] = {"", NULL, "struct config",
                               "Written at the top level of the file, outside every section."},
    [CONFIG_SECTION_SPOOL] = {"spool", NULL, "struct config", "Where accepted mail is kept."},
    [CONFIG_SECTION_LISTENER] =
        {"listener", "ADDR:PORT", "struct config_listener",
         "A socket on which mail is accepted over SMTP. The title is a "
         "numeric address and port: `\"192.0.2.1:25\"`, `\"[::]:25\"`. Mail "
         "is taken from hosts in `relay_from` and from clients that "
         "authenticated; from nobody else."},
    [CONFIG_SECTION_DNS] = {"dns", NULL, "struct config_dns", "How names are resolved."},
    [CONFIG_SECTION_EVENT_LOG] = {"event_log", NULL, "struct config",
                                  "One JSON line for each reception, delivery, transient failure, "
                                  "bounce and expiry."},
    [CONFIG_SECTION_CONTROL] = {"control", NULL, "struct config",
                                "The socket over which the commands reach the daemon: HTTP, and "
                                "SMTP for `sluice send`."},
    [CONFIG_SECTION_REPLIES] =
        {"replies", NULL, "struct config",
         "What receivers' replies mean: their class stands in events, CSV files, metrics and "
         "`why`. "
         "Rules are read from files, the first that matches wins; what no rule is about is judged "
         "by code, enhanced status and what it answers. How rules are written, and how to try one: "
         "[operating.md](operating.md#what-replies-mean)."},
    [CONFIG_SECTION_TLS_REPORT] =
        {"tls_report", NULL, "struct config",
         "Daily reports by RFC 8460 (TLS-RPT): to each domain that asks for them, how sessions "
         "with "
         "its mail servers went under TLS. Without `from` nothing is counted, kept or sent."},
    [CONFIG_SECTION_CLUSTER] =
        {"cluster", NULL, "struct config",
         "Several nodes as one outbound system, by way of NATS servers: [cluster.md](cluster.md) "
         "says "
         "what they share today and how to run the servers. Without `node` nothing is loaded, "
         "started or paid for."},
    [CONFIG_SECTION_HTTP] =
        {"http", "ADDR:PORT", "struct config_http",
         "A TCP socket with the operators' interface: the same requests as over the control "
         "socket, "
         "a page for browsers at `/`, and `/healthz` and `/readyz` for those who watch. The title "
         "is a numeric address and port: `\"127.0.0.1:8025\"`. Off loopback everybody who asks "
         "needs a token."},
    [CONFIG_SECTION_WEBHOOK] =
        {"webhook", "URL", "struct config_webhook",
         "Events posted to a web server, in batches, in order, each at least once. A batch that is "
         "not answered with 2xx in time is sent again, after 1 second, then twice as long each "
         "time up to 5 minutes; redirects are not followed. Mail never waits for it: the event log "
         "is what it reads from, and where it stands is kept in `feed/` of the spool. What the "
         "event log has removed meanwhile (see `rotate_keep`) is lost to it, with a warning. The "
         "header `X-Sluice-Cursor` says up to where the batch reaches; a repeated batch begins "
         "where the last one accepted ended. A new section begins with the events from then on."},
    [CONFIG_SECTION_CSV] =
        {"csv", "PATH", "struct config_csv",
         "A file of comma-separated values in the manner of PowerMTA's accounting file, with a "
         "line of column names: one row for each event, quoted as in RFC 4180. `type` is `r` for a "
         "reception, `d` for a delivery, `t` for a transient failure and `b` for all that "
         "failed for good. Each line of the event log becomes one row, also over a crash. When "
         "somebody moves the file away, a new one begins."},
    [CONFIG_SECTION_TENANT] =
        {"tenant", "NAME", "struct config_tenant",
         "What is special about the mail of one tenant (`tenant_header` says how mail comes by "
         "one), also of mail that is queued. `\"*\"` stands for all that have no section of their "
         "own, and for mail of nobody. Letters match in either case."},
    [CONFIG_SECTION_DKIM] =
        {"dkim", "SELECTOR._domainkey.DOMAIN", "struct config_dkim",
         "A private key that signs mail (DKIM, RFC 6376); the title is the name in the DNS at "
         "which "
         "its public key is published. All keys of a domain sign: an RSA and an Ed25519 key side "
         "by "
         "side, for example. Which keys sign a message: those that the request names (`dkim` of "
         "POST /v1/inject), else those of its tenant (`dkim` in `tenant`), else those of the "
         "domain in its From field, else of the next domain above that, else those for `\"*\"`; "
         "and "
         "with each those of the domains in its `also`. A From domain that stands in the "
         "`from_domains` of tenants is signed for these alone. Mail with several From addresses is "
         "signed by the keys of all, when all are allowed. Mail that no key is for is not signed."},
    [CONFIG_SECTION_SUPPRESSION] =
        {"suppression", "TENANT", "struct config_suppression",
         "Which recipients a tenant's mail stops going to, and what becomes of mail to them. "
         "`\"*\"` stands for all that have no section of their own, and for mail of nobody. Lists "
         "are kept without a section as well; then nothing but `sluice suppress` and its requests "
         "fills them: [operating.md](operating.md#recipients-that-get-no-mail)."},
    [CONFIG_SECTION_SOURCE] =
        {"source", "NAME", "struct config_egress_source",
         "An identity under which mail leaves: an address of this machine, or a proxy, and the "
         "name "
         "in EHLO. A source with only one of `address` and `address6` reaches hosts of that family "
         "only; with neither it reaches both, and the system chooses the address. The event log "
         "names it in `egress_source`."},
    [CONFIG_SECTION_POOL] =
        {"pool", "NAME", "struct config_egress_pool",
         "Sources of which one is chosen for each delivery, by weight: `sources = {\"a\", \"b\"}` "
         "with "
         "`weights = {3, 1}` gives a a b a at each receiver, of those that can take it just then. "
         "A "
         "source that is closed, gone or has no room leaves its share to the others."},
    [CONFIG_SECTION_TRANSPORT] =
        {"transport", "NAME", "struct config_transport",
         "A way to deliver, with its own scheduler: destinations, windows, connections and limits. "
         "Each option may also be written at the top level, where it is the default of all "
         "transports: the value inside the transport counts, else the one at the top level, else "
         "the built-in default. Names and meaning are Postfix's, without the `default_` or `qmgr_` "
         "prefix."},
    [CONFIG_SECTION_PROVIDER] =
        {"provider", "NAME", "struct config_receiver",
         "A receiver with many domains: what its mail gets in place of the transport's options, "
         "and "
         "a site that joins all its domains. A domain belongs to the first `provider` that "
         "matches. Its options count "
         "before those of the transport and after those of a `domain`; of rates and quotas the "
         "smallest holds. Two sections must not match the same domain by the same hosts. "
         "`providers.conf`, which is installed beside the sample configuration, has the large "
         "receivers. What only the transport can say, as everything about its own "
         "connections and memory, cannot stand here; nor can the levels `dane` and `mta-sts`, "
         "which are asked for before the hosts are known. A route's `smtp_tls_security_level` goes "
         "before a provider's."},
    [CONFIG_SECTION_DOMAIN] =
        {"domain", "DOMAIN", "struct config_receiver",
         "What mail to one recipient's domain gets in place of its provider's and its transport's "
         "options; of rates and quotas the smallest holds. It is about mail that goes by the "
         "domain's MX records, not about what a route sends to a nexthop. Options of windows and "
         "rates make the domain a site of its own. Where a provider has the domain, the window "
         "is the provider's: of these its rates of messages and recipients and its "
         "`max_message_quota` (from all sources and by all transports together), its "
         "`destination_rate_delay`, its limits of "
         "connections and, as deliveries on their way at a time, its "
         "`destination_concurrency_limit` or `site_concurrency_limit` bound it further, and the "
         "others say nothing there."},
    [CONFIG_SECTION_ROUTE] =
        {"route", "PATTERN", "struct config_route",
         "Which transport and nexthop serve a recipient's domain. The pattern is a domain "
         "(`\"example.com\"`), all subdomains of a domain (`\".example.com\"`) or everything "
         "(`\"*\"`). The exact domain goes before the longest matching subdomain pattern, and that "
         "before `\"*\"`. A recipient without a route is refused with `550 5.1.2`."},
};

enum config_section config_section_find(const char *name)
{
    for (int s = CONFIG_SECTION_GLOBAL + 1; s < CONFIG_SECTION_COUNT; s++) {
        if (strcmp(config_sections[s].name, name) == 0) {
            return (enum config_section)s;
        }
    }
    return CONFIG_SECTION_COUNT;
}

const char *config_section_nearest(const char *name)
{
    struct config_near near;
    config_near_begin(&near, name);
    for (int s = CONFIG_SECTION_GLOBAL + 1; s < CONFIG_SECTION_COUNT; s++) {
        config_near_offer(&near, config_sections[s].name);
    }
    return near.found;
}
