/* Owns the rules about webhooks and CSV files. Called by config_check.c once the event log's path
 * is known; whether a server is there is nobody's business here. */
#include "engine/config/config_load.h"
#include "engine/event/account_row.h"
#include "engine/event/event_line.h"

#include <string.h>

static struct config_place place(const struct config_loader *l, enum config_section section,
                                 size_t index, const char *name)
{
    return config_place_of(l, section, index, name);
}

static void check_types(struct config_loader *l, enum config_section section, size_t index,
                        const struct config_texts *types)
{
    for (size_t i = 0; i < types->count; i++) {
        if (event_line_type_bit(slice_of(types->items[i])) == 0) {
            config_complain(l, place(l, section, index, "types"), "types",
                            "\"%.40s\" is no type of event; write " EVENT_LINE_TYPES,
                            types->items[i]);
        }
    }
}

static void check_log(struct config_loader *l, const struct config *c, enum config_section section,
                      size_t index)
{
    if (strcmp(c->event_log_path, "none") == 0) {
        config_complain(l, place(l, section, index, NULL), config_sections[section].name,
                        "there is no event log to read from; remove event_log { path = none }, or "
                        "this section");
    }
}

/* What is about no mail has no row. */
static void check_row_types(struct config_loader *l, size_t index, const struct config_texts *types)
{
    for (size_t i = 0; i < types->count; i++) {
        if (strcmp(types->items[i], "Reaction") == 0) {
            config_complain(l, place(l, CONFIG_SECTION_CSV, index, "types"), "types",
                            "\"Reaction\" has no row; a webhook can have it, or sluice events");
        }
    }
}

/* --- webhooks --------------------------------------------------------------------------------- */

/* Visible ASCII only: what curl would have to guess about does not reach it. */
static bool is_visible(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static bool is_loopback_host(struct slice host)
{
    static const struct slice names[] = {{"localhost", 9}, {"[::1]", 5}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (host.len >= names[i].len && slice_ieq(slice_to(host, names[i].len), names[i]) &&
            (host.len == names[i].len || host.data[names[i].len] == ':')) {
            return true;
        }
    }
    return host.len > 4 && memcmp(host.data, "127.", 4) == 0;
}

static void check_url(struct config_loader *l, const struct config_webhook *w, size_t index)
{
    struct config_place at = place(l, CONFIG_SECTION_WEBHOOK, index, NULL);
    bool is_http = strncasecmp(w->url, "http://", 7) == 0;
    bool is_https = strncasecmp(w->url, "https://", 8) == 0;
    struct slice rest = slice_of(w->url + (is_http ? 7 : 0) + (is_https ? 8 : 0));
    struct slice host = slice_to(rest, strcspn(rest.data, "/?#"));
    if ((!is_http && !is_https) || host.len == 0 || host.data[0] == ':' || !is_visible(w->url) ||
        rest.len > 2000) {
        config_complain(l, at, "webhook",
                        "\"%.80s\" is not a URL of a web server; write https://HOST/PATH", w->url);
    } else if (slice_find(host, '@') < host.len) {
        config_complain(l, at, "webhook",
                        "a URL here has no user name and password; write headers = "
                        "{\"Authorization: ...\"}");
    } else if (is_http && !is_loopback_host(host)) {
        config_warn(l, at, "webhook",
                    "events go to %.*s in clear, with senders and recipients; write https",
                    (int)host.len, host.data);
    }
}

/* "NAME: VALUE" of RFC 9110: a token, a colon, and visible characters, spaces and tabs */
static bool is_header(const char *text)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strspn(text, token);
    if (len == 0 || text[len] != ':') {
        return false;
    }
    for (const char *c = text + len + 1; *c != '\0'; c++) {
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
            return false;
        }
    }
    return text[len + 1 + strspn(text + len + 1, " \t")] != '\0'; /* curl takes none for removal */
}

static void check_headers(struct config_loader *l, const struct config_webhook *w, size_t index)
{
    static const char *const ours[] = {"Content-Type:", "Content-Length:", "Host:", "X-Sluice-"};
    for (size_t i = 0; i < w->headers.count; i++) {
        const char *text = w->headers.items[i];
        if (!is_header(text)) {
            /* The text may hold a credential. */
            config_complain(l, place(l, CONFIG_SECTION_WEBHOOK, index, "headers"), "headers",
                            "item %zu is not a header field; write \"NAME: VALUE\"", i + 1);
        }
        for (size_t j = 0; j < sizeof(ours) / sizeof(ours[0]); j++) {
            if (strncasecmp(text, ours[j], strlen(ours[j])) == 0) {
                config_complain(l, place(l, CONFIG_SECTION_WEBHOOK, index, "headers"), "headers",
                                "%s is written by the daemon; remove it", ours[j]);
            }
        }
    }
}

/* --- CSV -------------------------------------------------------------------------------------- */

static void check_columns(struct config_loader *l, const struct config_csv *csv, size_t index)
{
    for (size_t i = 0; i < csv->columns.count; i++) {
        const char *name = csv->columns.items[i];
        if (account_column_find(slice_of(name)) == ACCOUNT_COLUMN_COUNT) {
            config_complain(l, place(l, CONFIG_SECTION_CSV, index, "columns"), "columns",
                            "there is no column \"%.40s\"; the configuration reference has their "
                            "names",
                            name);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(csv->columns.items[j], name) == 0) {
                config_complain(l, place(l, CONFIG_SECTION_CSV, index, "columns"), "columns",
                                "\"%.40s\" is there twice; keep one of them", name);
            }
        }
    }
}

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

static void check_path(struct config_loader *l, const struct config *c, size_t index)
{
    const char *path = c->csvs[index].path;
    size_t len = strlen(path);
    if (len == 0 || len > 4000 || path[len - 1] == '/' || has_control(path)) {
        config_complain(l, place(l, CONFIG_SECTION_CSV, index, NULL), "csv",
                        "\"%.80s\" is not a path of a file; write csv \"/PATH/FILE\" { }", path);
    } else if (strcmp(path, c->event_log_path) == 0) {
        config_complain(l, place(l, CONFIG_SECTION_CSV, index, NULL), "csv",
                        "\"%.80s\" is the event log; write another path", path);
    }
}

void config_check_feed(struct config_loader *l, struct config *c)
{
    if (c->event_log_rotate_size > 0 && c->event_log_rotate_size < 65536) {
        config_complain(l, place(l, CONFIG_SECTION_EVENT_LOG, 0, "rotate_size"), "rotate_size",
                        "so small that files change all the time; write 0, or 64K or more");
    }
    for (size_t i = 0; i < c->webhook_count; i++) {
        check_log(l, c, CONFIG_SECTION_WEBHOOK, i);
        check_url(l, &c->webhooks[i], i);
        check_types(l, CONFIG_SECTION_WEBHOOK, i, &c->webhooks[i].types);
        check_headers(l, &c->webhooks[i], i);
    }
    for (size_t i = 0; i < c->csv_count; i++) {
        check_log(l, c, CONFIG_SECTION_CSV, i);
        check_path(l, c, i);
        check_types(l, CONFIG_SECTION_CSV, i, &c->csvs[i].types);
        check_row_types(l, i, &c->csvs[i].types);
        check_columns(l, &c->csvs[i], i);
        if (c->csvs[i].rotate_size > 0 && c->csvs[i].rotate_size < 65536) {
            config_complain(l, place(l, CONFIG_SECTION_CSV, i, "rotate_size"), "rotate_size",
                            "so small that files change all the time; write 0, or 64K or more");
        }
    }
}
