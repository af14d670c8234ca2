/* libsluice: what sluice.h promises, in terms of the engine. Owns the thread that runs it.
 *
 * Concurrency: `lock` guards how far the engine has come, until sluice_start returns; afterwards
 * everything here is constant, and calls go to the http thread (inner_call.h). */
#include "engine/sluice.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/engine_run.h"
#include "engine/feed/event_feed.h"
#include "engine/http/inner_call.h"
#include "engine/state/engine.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PUBLIC __attribute__((visibility("default")))

struct sluice {
    /* set by sluice_start */
    struct sluice_settings settings;
    char *event_name;
    struct config *config;
    struct engine *engine; /* set by its own thread before it is running */
    pthread_t thread;
    struct buf complaint; /* the last line of a start that fails; under lock */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_running, has_ended; /* under lock */
    int code;                   /* of its end; under lock */
};

static atomic_flag is_taken = ATOMIC_FLAG_INIT; /* RCU and signals are the process's */

/* --- what the engine tells -------------------------------------------------------------------- */

static void copy_answer_text(char *text, size_t bytes, struct slice s)
{
    if (text != NULL && bytes > 0) {
        size_t len = s.len < bytes ? s.len : bytes - 1;
        memcpy(text, s.data, len);
        text[len] = '\0';
    }
}

/* Any thread of the engine. */
static void on_line(void *ctx, const char *line)
{
    struct sluice *s = ctx;
    pthread_mutex_lock(&s->lock);
    if (!s->is_running) { /* why it does not start */
        buf_clear(&s->complaint);
        buf_append_slice(&s->complaint, slice_of(line));
    }
    pthread_mutex_unlock(&s->lock);
    if (s->settings.log != NULL) {
        s->settings.log(s->settings.ctx, line);
    }
}

static void on_complaint(void *ctx, bool is_warning, const char *line)
{
    struct sluice *s = ctx;
    on_line(s, line);
    (void)is_warning; /* the line says so */
}

static const char *answer_text(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text == NULL ? "" : text;
}

/* "5.1.1" of the event's enhanced code */
static void copy_status(char *text, size_t bytes, const json_t *code)
{
    text[0] = '\0';
    if (code != NULL) {
        (void)snprintf(text, bytes, "%lld.%lld.%lld",
                       json_integer_value(json_object_get(code, "class")),
                       json_integer_value(json_object_get(code, "subject")),
                       json_integer_value(json_object_get(code, "detail")));
    }
}

/* The feed's thread. */
static int on_event_line(void *ctx, struct slice line)
{
    struct sluice *s = ctx;
    json_t *o = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(o) || answer_text(o, "type")[0] == '\0' ||
        answer_text(o, "id")[0] == '\0') {
        json_decref(o);
        return 0; /* no event: damage, or what the log says of itself */
    }
    const json_t *response = json_object_get(o, "response");
    char status[40];
    copy_status(status, sizeof(status), json_object_get(response, "enhanced_code"));
    const struct sluice_event event = {
        .type = answer_text(o, "type"),
        .id = answer_text(o, "id"),
        .sender = answer_text(o, "sender"),
        .recipient = answer_text(o, "recipient"),
        .tenant = answer_text(o, "tenant"),
        .campaign = answer_text(o, "campaign"),
        .destination = answer_text(o, "queue"),
        .code = (int)json_integer_value(json_object_get(response, "code")),
        .status = status,
        .text = answer_text(response, "content"),
        .json = line.data,
        .json_bytes = line.len,
    };
    int result = s->settings.event(s->settings.ctx, &event);
    json_decref(o);
    return result;
}

/* --- start and stop --------------------------------------------------------------------------- */

static void on_built(void *ctx, struct engine *e)
{
    struct sluice *s = ctx;
    if (s->settings.event != NULL) {
        int err = event_feed_subscribe(e->feed, s->event_name, on_event_line, s);
        if (err != 0) {
            log_error("no events for \"%s\": %s", s->event_name, err_str(err));
        }
    }
}

static void on_running(void *ctx, struct engine *e)
{
    struct sluice *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->engine = e;
    s->is_running = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void *run_engine(void *arg)
{
    struct sluice *s = arg;
    const struct engine_host host = {.built = on_built, .running = on_running, .ctx = s};
    int code = engine_run(s->config, &host);
    pthread_mutex_lock(&s->lock);
    s->code = code;
    s->has_ended = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void release_library(struct sluice *s)
{
    log_set_sink(NULL, NULL);
    config_free(s->config);
    buf_fini(&s->complaint);
    (void)pthread_cond_destroy(&s->changed); /* nobody waits */
    (void)pthread_mutex_destroy(&s->lock);
    free(s->event_name);
    free(s);
    atomic_flag_clear(&is_taken);
}

static int load_settings(struct sluice *s)
{
    const struct config_sink sink = {.complain = on_complaint, .ctx = s};
    int err = s->settings.config_path == NULL
                  ? -EINVAL
                  : config_load(s->settings.config_path, &sink, &s->config);
    if (err == 0) {
        return SLUICE_OK;
    }
    return err == -ENOMEM ? SLUICE_NO_MEMORY : SLUICE_WRONG;
}

/* Signals of the process are never delivered to the engine's threads. */
static int start_thread(struct sluice *s)
{
    sigset_t all, before;
    (void)sigfillset(&all); /* these cannot fail with valid arguments */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&s->thread, NULL, run_engine, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static int start_library(struct sluice *s)
{
    int result = load_settings(s);
    if (result != SLUICE_OK) {
        return result;
    }
    if (start_thread(s) != 0) {
        return SLUICE_NO_MEMORY;
    }
    pthread_mutex_lock(&s->lock);
    while (!s->is_running && !s->has_ended) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    bool is_running = s->is_running;
    int code = s->code;
    pthread_mutex_unlock(&s->lock);
    if (is_running) {
        return SLUICE_OK;
    }
    (void)pthread_join(s->thread, NULL); /* it has ended */
    return code == EX_CONFIG || code == EX_NOUSER ? SLUICE_WRONG : SLUICE_UNAVAILABLE;
}

PUBLIC int sluice_start(const struct sluice_settings *settings, struct sluice **ret, char *text,
                        size_t text_bytes)
{
    copy_answer_text(text, text_bytes, SLICE(""));
    if (atomic_flag_test_and_set(&is_taken)) {
        copy_answer_text(text, text_bytes, SLICE("an engine runs in this process already"));
        return SLUICE_UNAVAILABLE;
    }
    struct sluice *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        atomic_flag_clear(&is_taken);
        return SLUICE_NO_MEMORY;
    }
    s->settings = *settings;
    buf_init(&s->complaint, 4096);
    (void)pthread_mutex_init(&s->lock, NULL); /* these cannot fail without attributes */
    (void)pthread_cond_init(&s->changed, NULL);
    s->event_name = strdup(settings->event_name == NULL ? "program" : settings->event_name);
    log_set_sink(on_line, s);
    int result = s->event_name == NULL ? SLUICE_NO_MEMORY : start_library(s);
    if (result != SLUICE_OK) {
        copy_answer_text(text, text_bytes, buf_slice(&s->complaint));
        release_library(s);
        return result;
    }
    if (settings->log == NULL) {
        log_set_sink(NULL, NULL);
    }
    *ret = s;
    return SLUICE_OK;
}

PUBLIC void sluice_stop(struct sluice *s)
{
    if (s == NULL) {
        return;
    }
    (void)pthread_kill(s->thread, ENGINE_STOP_SIGNAL); /* it waits for that */
    (void)pthread_join(s->thread, NULL);
    release_library(s);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Who waits for an answer. */
struct wait {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool is_answered; /* under lock, and so is all below */
    int status;
    char *body;
};

static void on_answer(void *ctx, int status, struct slice body)
{
    struct wait *w = ctx;
    char *copy = malloc(body.len + 1);
    if (copy != NULL) {
        memcpy(copy, body.data, body.len);
        copy[body.len] = '\0';
    }
    pthread_mutex_lock(&w->lock);
    w->status = copy == NULL ? 0 : status;
    w->body = copy;
    w->is_answered = true;
    pthread_cond_signal(&w->answered);
    pthread_mutex_unlock(&w->lock);
}

PUBLIC int sluice_call(struct sluice *s, const char *method, const char *target, const char *body,
                       char **ret_body)
{
    static const char *const methods[] = {"GET", "POST", "DELETE", "HEAD", "OPTIONS"};
    const char *known = "";
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        known = strcmp(methods[i], method) == 0 ? methods[i] : known;
    }
    struct wait w = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};
    const struct inner_request r = {.method = known,
                                    .target = target,
                                    .type = body == NULL ? "" : "application/json",
                                    .body = body == NULL ? SLICE("") : slice_of(body)};
    if (inner_call_make(s->engine->http, &r, on_answer, &w) != 0) {
        return 0;
    }
    pthread_mutex_lock(&w.lock);
    while (!w.is_answered) {
        pthread_cond_wait(&w.answered, &w.lock);
    }
    pthread_mutex_unlock(&w.lock);
    *ret_body = w.body;
    return w.status;
}

/* --- mail ------------------------------------------------------------------------------------- */

struct submission_wait {
    void (*done)(void *ctx, int result, const char *id, const char *text);
    void *ctx;
};

static int result_of(int status)
{
    switch (status) {
    case 202:
        return SLUICE_OK;
    case 429:
        return SLUICE_BUSY;
    case 207:
    case 500:
    case 503:
        return SLUICE_UNAVAILABLE;
    default:
        return SLUICE_WRONG;
    }
}

static void on_injected(void *ctx, int status, struct slice body)
{
    struct submission_wait *w = ctx;
    json_t *o = json_loadb(body.data, body.len, 0, NULL);
    int result = o == NULL ? SLUICE_NO_MEMORY : result_of(status);
    const char *id = json_string_value(json_array_get(json_object_get(o, "ids"), 0));
    if (status == 207 && id != NULL) {
        result = SLUICE_OK; /* to some of its recipients: the others are suppressed */
    }
    if (result == SLUICE_OK && id == NULL) {
        result = SLUICE_UNAVAILABLE; /* it could not be stored: the results say why */
    }
    const char *why = answer_text(o, "error");
    if (why[0] == '\0') {
        why = answer_text(json_array_get(json_object_get(o, "results"), 0), "error");
    }
    w->done(w->ctx, result, result == SLUICE_OK ? id : "", result == SLUICE_OK ? "" : why);
    json_decref(o);
    free(w);
}

static void put_parameter(struct buf *target, const char *name, const char *value)
{
    static const char digits[] = "0123456789ABCDEF";
    buf_printf(target, "%c%s=", memchr(target->data, '?', target->len) == NULL ? '?' : '&', name);
    for (const unsigned char *p = (const unsigned char *)value; *p != '\0'; p++) {
        if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
            strchr("-._~@,", *p) != NULL) {
            buf_append(target, p, 1);
        } else {
            const char escaped[] = {'%', digits[*p >> 4], digits[*p & 15]};
            buf_append(target, escaped, sizeof(escaped));
        }
    }
}

static int make_target(const struct sluice_message *m, struct buf *target)
{
    struct buf list;
    buf_init(&list, 0);
    for (size_t i = 0; i < m->recipient_count; i++) {
        buf_printf(&list, "%s%s", i > 0 ? "," : "", m->recipients[i]);
    }
    buf_append(&list, "", 1);
    buf_append_slice(target, SLICE("/v1/inject"));
    put_parameter(target, "from", m->sender == NULL ? "" : m->sender);
    if (!list.failed) {
        put_parameter(target, "to", list.data);
    }
    if (m->tenant != NULL) {
        put_parameter(target, "tenant", m->tenant);
    }
    if (m->campaign != NULL) {
        put_parameter(target, "campaign", m->campaign);
    }
    if (m->mail_class != NULL) {
        put_parameter(target, "class", m->mail_class);
    }
    if (m->not_before != 0) {
        buf_printf(target, "&not_before=%lld", (long long)m->not_before);
    }
    if (m->expires != 0) {
        buf_printf(target, "&expires=%lld", (long long)m->expires);
    }
    buf_append(target, "", 1);
    bool has_failed = list.failed || target->failed;
    buf_fini(&list);
    return has_failed ? -ENOMEM : 0;
}

PUBLIC int sluice_submit(struct sluice *s, const struct sluice_message *message,
                         void (*done)(void *ctx, int result, const char *id, const char *text),
                         void *ctx)
{
    struct submission_wait *w = malloc(sizeof(*w));
    struct buf target;
    buf_init(&target, 0);
    int err = w == NULL ? -ENOMEM : make_target(message, &target);
    if (err == 0) {
        *w = (struct submission_wait){done, ctx};
        const struct inner_request r = {.method = "POST",
                                        .target = target.data,
                                        .type = "message/rfc822",
                                        .body =
                                            slice_make(message->content, message->content_bytes)};
        err = inner_call_make(s->engine->http, &r, on_injected, w);
    }
    buf_fini(&target);
    if (err != 0) {
        free(w);
        return SLUICE_NO_MEMORY;
    }
    return SLUICE_OK;
}

struct send {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool is_answered; /* under lock, and so is all below */
    int result;
    char *id, *text; /* the caller's room; may be NULL */
    size_t text_bytes;
};

static void on_sent(void *ctx, int result, const char *id, const char *text)
{
    struct send *w = ctx;
    pthread_mutex_lock(&w->lock);
    copy_answer_text(w->id, SLUICE_ID_BYTES, slice_of(id));
    copy_answer_text(w->text, w->text_bytes, slice_of(text));
    w->result = result;
    w->is_answered = true;
    pthread_cond_signal(&w->answered);
    pthread_mutex_unlock(&w->lock);
}

PUBLIC int sluice_send(struct sluice *s, const struct sluice_message *message,
                       char id[SLUICE_ID_BYTES], char *text, size_t text_bytes)
{
    struct send w = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .answered = PTHREAD_COND_INITIALIZER,
                     .id = id,
                     .text = text,
                     .text_bytes = text_bytes};
    int result = sluice_submit(s, message, on_sent, &w);
    if (result != SLUICE_OK) {
        return result;
    }
    pthread_mutex_lock(&w.lock);
    while (!w.is_answered) {
        pthread_cond_wait(&w.answered, &w.lock);
    }
    pthread_mutex_unlock(&w.lock);
    return w.result;
}
