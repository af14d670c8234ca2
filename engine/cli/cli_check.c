/* `sluice check`: is the configuration right, and can the files that it names be read. */
#include "base/error.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_explain.h"
#include "engine/config/config_lint.h"
#include "engine/config/config_option.h"
#include "engine/config/config_origin.h"
#include "engine/key/key_ring.h"
#include "engine/nodes/cluster_loader.h"
#include "engine/nodes/server_probe.h"
#include "engine/reply/reply_set.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

struct findings {
    const struct cli *cli;
    json_t *list; /* --json: what would be printed */
    int errors;
    bool explains; /* --explain */
};

static void add_finding(void *ctx, bool is_warning, const char *line)
{
    struct findings *f = ctx;
    f->errors += is_warning ? 0 : 1;
    if (f->list == NULL) {
        (void)fprintf(f->cli->err, "%s\n", line);
        return;
    }
    json_t *item =
        json_pack("{s:s, s:s}", "severity", is_warning ? "warning" : "error", "text", line);
    (void)json_array_append_new(f->list, item); /* NULL, out of memory: the list is short */
}

/* The index-th section of this kind names a file. */
static void check_file(struct findings *f, const struct config *c, enum config_section section,
                       size_t index, const char *option, const char *path)
{
    char at[CONFIG_ORIGIN_BYTES], line[2 * CONFIG_ORIGIN_BYTES];
    if (path == NULL || access(path, R_OK) == 0) {
        return;
    }
    int error = errno;
    (void)config_origin(c, section, index, option, at); /* "default" cannot be */
    (void)snprintf(line, sizeof(line),
                   "%s: %s: warning: %s: %s; name a file that the daemon can "
                   "read",
                   at, option, path, strerror(error));
    add_finding(f, true, line);
}

static void check_transport(struct findings *f, const struct config *c, size_t i)
{
    const struct config_transport *t = &c->transports[i];
    const enum config_section section = CONFIG_SECTION_TRANSPORT;
    check_file(f, c, section, i, "smtp_auth_password_file", t->smtp.smtp_auth_password_file);
    check_file(f, c, section, i, "smtp_tls_CAfile", t->smtp.smtp_tls_CAfile);
    check_file(f, c, section, i, "smtp_tls_cert_file", t->smtp.smtp_tls_cert_file);
    check_file(f, c, section, i, "smtp_tls_key_file", t->smtp.smtp_tls_key_file);
}

static void check_files(struct findings *f, const struct config *c)
{
    for (size_t i = 0; i < c->listener_count; i++) {
        const struct config_listener *l = &c->listeners[i];
        check_file(f, c, CONFIG_SECTION_LISTENER, i, "tls_certificate", l->tls_certificate);
        check_file(f, c, CONFIG_SECTION_LISTENER, i, "tls_key", l->tls_key);
        check_file(f, c, CONFIG_SECTION_LISTENER, i, "users", l->users);
    }
    for (size_t i = 0; i < c->http_door_count; i++) {
        const struct config_http *h = &c->http_doors[i];
        check_file(f, c, CONFIG_SECTION_HTTP, i, "tokens_file", h->tokens_file);
        check_file(f, c, CONFIG_SECTION_HTTP, i, "tls_certificate", h->tls_certificate);
        check_file(f, c, CONFIG_SECTION_HTTP, i, "tls_key", h->tls_key);
    }
    for (size_t i = 0; i < c->webhook_count; i++) {
        const struct config_webhook *w = &c->webhooks[i];
        check_file(f, c, CONFIG_SECTION_WEBHOOK, i, "secret_file", w->secret_file);
        check_file(f, c, CONFIG_SECTION_WEBHOOK, i, "tls_ca_file", w->tls_ca_file);
    }
    for (size_t i = 0; i < c->egress_source_count; i++) {
        check_file(f, c, CONFIG_SECTION_SOURCE, i, "socks5_password_file",
                   c->egress_sources[i].socks5_password_file);
    }
    for (size_t i = 0; i < c->transport_count; i++) {
        check_transport(f, c, i);
    }
}

/* The rules for replies, with every mistake in them. */
static void check_replies(struct findings *f, const struct config *c)
{
    const struct config_sink sink = {.complain = add_finding, .ctx = f};
    struct reply_set *set = NULL;
    if (reply_set_load(&c->reply_files, c->has_shipped_replies, &sink, &set) == 0) {
        reply_set_free(set);
    }
}

/* The keys that sign mail, each of them. */
static void check_keys(struct findings *f, const struct config *c)
{
    const struct config_sink sink = {.complain = add_finding, .ctx = f};
    struct key_ring *ring = NULL;
    if (key_ring_load(c, NULL, &sink, &ring) == 0) {
        key_ring_free(ring);
    }
}

/* --- the cluster ------------------------------------------------------------------------------ */

static void add_cluster(struct findings *f, const struct config *c, const char *option,
                        bool is_warning, const char *text)
{
    char at[CONFIG_ORIGIN_BYTES], line[2 * CONFIG_ORIGIN_BYTES];
    (void)config_origin(c, CONFIG_SECTION_CLUSTER, 0, option, at); /* or "default" */
    (void)snprintf(line, sizeof(line), "%s: %s: %s%s", at, option, is_warning ? "warning: " : "",
                   text);
    add_finding(f, is_warning, line);
}

/* module: NULL: it cannot be loaded */
static void check_server(struct findings *f, const struct config *c,
                         const struct cluster_module *module, char *const *at)
{
    const char *server = *at;
    struct server_probe p;
    char text[SERVER_PROBE_TEXT];
    int err = server_probe_ask(server, &p);
    if (err != 0) {
        (void)snprintf(text, sizeof(text),
                       "%.120s does not answer (%s), so its version is not known; start it", server,
                       err_str(err));
        add_cluster(f, c, "servers", true, text);
    } else if (!p.is_new_enough) {
        (void)snprintf(text, sizeof(text),
                       "%.120s is nats-server %s, where one of two compare-and-sets does not lose; "
                       "install " SERVER_PROBE_OLDEST " or later",
                       server, p.version);
        add_cluster(f, c, "servers", false, text);
    } else if (!p.has_jetstream) {
        (void)snprintf(text, sizeof(text),
                       "%.120s has no JetStream; write jetstream { } into its configuration",
                       server);
        add_cluster(f, c, "servers", false, text);
    } else if (module != NULL) {
        char why[CLUSTER_DESCRIPTION_SIZE];
        struct cluster_options options =
            cluster_loader_options(&c->cluster, "sluice check", 2 * USEC_PER_SEC);
        options.servers = at;
        options.server_count = 1;
        if (module->reach(&options, why) != 0) {
            (void)snprintf(text, sizeof(text), "%.120s does not let this node in: %.150s", server,
                           why);
            add_cluster(f, c, "servers", false, text);
        }
    }
}

static void check_sync(struct findings *f, const struct config *c, const char *monitor)
{
    bool syncs = false;
    char text[SERVER_PROBE_TEXT];
    int err = server_probe_syncs(monitor, &syncs);
    if (err != 0) {
        (void)snprintf(text, sizeof(text),
                       "%.120s does not say whether its server syncs every write (%s)", monitor,
                       err_str(err));
        add_cluster(f, c, "monitors", true, text);
    } else if (!syncs) {
        (void)snprintf(text, sizeof(text),
                       "the server of %.120s acknowledges what a power cut can still lose; write "
                       "jetstream { sync_interval: always } there",
                       monitor);
        add_cluster(f, c, "monitors", true, text);
    }
}

static void check_cluster(struct findings *f, const struct config *c)
{
    const struct config_cluster *k = &c->cluster;
    const struct cluster_log_module *log_module = NULL;
    const struct cluster_module *module = NULL;
    char text[CLUSTER_LOADER_TEXT];
    if (k->node == NULL) {
        return;
    }
    check_file(f, c, CONFIG_SECTION_CLUSTER, 0, "credentials", k->credentials);
    check_file(f, c, CONFIG_SECTION_CLUSTER, 0, "tls_ca_file", k->tls_ca_file);
    check_file(f, c, CONFIG_SECTION_CLUSTER, 0, "tls_certificate", k->tls_certificate);
    check_file(f, c, CONFIG_SECTION_CLUSTER, 0, "tls_key", k->tls_key);
    if (cluster_loader_load(k->module, &module, &log_module, text) != 0) {
        add_cluster(f, c, k->module != NULL ? "module" : "node", false, text);
    }
    for (size_t i = 0; i < k->servers.count; i++) {
        check_server(f, c, module, &k->servers.items[i]);
    }
    for (size_t i = 0; i < k->monitors.count; i++) {
        check_sync(f, c, k->monitors.items[i]);
    }
    if (k->monitors.count == 0) {
        add_cluster(f, c, "node", true,
                    "nobody can say whether the servers sync every write; write monitors = "
                    "{\"http://HOST:8222\", ...}");
    }
}

static int check_findings(struct findings *f)
{
    struct config *config = NULL;
    struct config_sink sink = {.complain = add_finding, .ctx = f};
    int err = config_load(f->cli->config_path, &sink, &config);
    if (err == 0) {
        check_files(f, config);
        check_replies(f, config);
        check_keys(f, config);
        check_cluster(f, config);
        config_lint(config, &sink);
        if (f->explains) {
            cli_explain_all(f->cli, config);
        }
    }
    config_free(config);
    if (err == 0) {
        return f->errors == 0 ? EX_OK : EX_CONFIG;
    }
    return f->errors > 0 && err < 0 && err > -1000 ? EX_NOINPUT : EX_CONFIG;
}

int cli_check(const struct cli *cli, const struct cli_args *args)
{
    struct findings f = {.cli = cli, .explains = cli_has(args, "explain") && !cli->is_json};
    if (cli_has(args, "reference")) {
        config_reference_print(cli->out);
        return EX_OK;
    }
    if (!cli->is_json) {
        return check_findings(&f);
    }
    f.list = json_array();
    int code = check_findings(&f);
    json_t *all = json_pack("{s:s, s:b, s:o}", "file", cli->config_path, "ok", f.errors == 0,
                            "findings", f.list);
    if (all == NULL || json_dumpf(all, cli->out, JSON_INDENT(2)) < 0) {
        code = EX_OSERR;
    }
    (void)fputc('\n', cli->out);
    json_decref(all);
    return code;
}
